# Every recipe is one call: what it does is in tools/, and plain `pulumi up` measures the same.
# STACK chooses the stack (default local), SET="workers=3 epochs=5" gives settings for one call.

PYTHON ?= python3
TOOLS_PYTHON := $(if $(filter try,$(MAKECMDGOALS)),python3,$(PYTHON))
STACK ?= local
export STACK SET JSON ALL KEEP PRINT LIVE RESULT COMPARE QUICK

BOOTSTRAP := $(TOOLS_PYTHON) -m tools.setup.bootstrap
IN_VENV := exec .venv/bin/python -m

.DEFAULT_GOAL := help
.PHONY: help up preview plan smoke destroy outputs try doctor status diagnose dashboard submit jobs logs stop recovery fetch report history watch tensorboard sweep bench env test test-cluster check template clean

help: ## show the targets (this text)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile

up: ## bring the stack up, measure what is missing, print the comparison
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) tools.stack up

preview: ## show what `up` would do
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) tools.stack preview

plan: ## how long the measurement will probably take, phase by phase, and what to leave out to fit `budgetMinutes`
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.plan

smoke: ## smallest full comparison, under 2 minutes, in a stack that is gone afterwards
	@$(BOOTSTRAP) --stack=smoke && $(IN_VENV) tools.stack smoke

destroy: ## delete what the stack holds; runs and results stay
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) tools.stack destroy

outputs: ## print the comparison of the stack (JSON=1: as JSON)
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) tools.stack outputs

try: ## 20 steps of a script of your own in every arm: SCRIPT=train.py ARGS="--num-workers {workers}" PYTHON=its/python (WORKERS, KIND, ENV, STEPS, LIMIT, WRITE=1)
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) tools.tryout

doctor: ## what the stack needs, each found against its minimum, with the fix
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) tools.look.doctor

status: ## nodes, pods, Ray and the current run of a cluster stack
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.look.status

diagnose: ## all that is known of a cluster stack in one archive, without secrets
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.look.diagnose

dashboard: ## where Ray's dashboard of a cluster stack answers, forwarded to this machine where it must be
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.look.dashboard

submit: ## run a script of your own on the Ray cluster of a cluster stack and follow it: SCRIPT=train.py ARGS="--num-workers {workers}" (FOLDER, ENV, PIP, DETACH=1)
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.jobs submit

jobs: ## list the jobs of that Ray cluster
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.jobs jobs

logs: ## follow the log of one of them: JOB=train-1
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.jobs logs

stop: ## end one of them: JOB=train-1
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.jobs stop

recovery: ## what the loss of a worker costs: trains twice with checkpoints in the arm ray, and kills one worker; OF=head: Ray's head, and makes the job again from storage; OF="worker head": both (no measurement)
	@$(BOOTSTRAP) --stack="$$STACK" --no-cli && $(IN_VENV) tools.recovery

fetch: ## bring back what a run kept in storage: RUN=ray-1 (TO=folder; without RUN: the runs that there are)
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.fetch

report: ## write results/ for a plain `pulumi up` and open its report (RESULT=name: a past one, PRINT=1: print its path)
	@$(BOOTSTRAP) --stack="$$STACK" && { [ -n "$$RESULT" ] || .venv/bin/python -m tools.stack report >&2; } && $(IN_VENV) report open

history: ## list the results of the stack (COMPARE="1 latest": two side by side)
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) report history

watch: ## follow a running update from another terminal
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) tools.follow watch

tensorboard: ## show a result's curves in TensorBoard (PRINT=1: print the folder; LIVE=1: of runs that go on, from storage)
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) tools.follow tensorboard

sweep: ## measure under several settings, e.g. WORKERS="1 2 3" (or BATCH, EPOCHS, PRECISION, any key); KEEP=1: destroy nothing
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) tools.sweep

bench: ## measure the arms against this machine's limit (QUICK=1: 5 minutes; ONLY="bfloat16": that column; JSON=1: as JSON)
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) bench $(if $(QUICK),--quick) $(if $(JSON),--json) $(if $(ONLY),--only "$(ONLY)")

env: ## select the stack, and print exports that let plain pulumi commands work on it (eval them)
	@$(BOOTSTRAP) --stack="$$STACK" && .venv/bin/python -m tools.stack select && $(IN_VENV) tools.stack.environment print

test: ## the tests that this machine can run, with the reason for each that is skipped (SLOW=1: the slow ones, too)
	@$(BOOTSTRAP) --dev --tracking && $(IN_VENV) tools.stack.environment exec --no-backend pytest -n 4 $(if $(SLOW),,--without-slow) --junitxml=.state/test-results.xml tests

test-cluster: ## the full story on a real Minikube cluster (CLUSTER_ENV=file: sourced first)
	@$(BOOTSTRAP) --dev --stack ci && exec bash -c '[ -z "$$CLUSTER_ENV" ] || . "$$CLUSTER_ENV" && TEST_CLUSTER=1 \
		exec .venv/bin/python -m tools.stack.environment exec --no-backend pytest --durations=0 tests/cluster'

check: ## lint, format and types
	@$(BOOTSTRAP) --dev --no-cli && .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy .

template: ## cut a Pulumi template from this project, for `pulumi new`: TO=../ray-worth-it-template
	@$(PYTHON) -m tools.template

clean: ## remove the state and all that was installed; refused while a stack holds resources (ALL=1: measurements too)
	@$(PYTHON) -m tools.stack.clean
