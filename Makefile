# Every recipe is one call: what it does is in cli/, and plain `pulumi up` measures the same.
# STACK chooses the stack (default local), SET="workers=3 epochs=5" gives settings for one call.

PYTHON ?= python3
TOOLS_PYTHON := $(if $(filter try why,$(MAKECMDGOALS)),python3,$(PYTHON))
STACK ?= local
export GOALS := $(MAKECMDGOALS)
export STACK SET JSON ALL KEEP PRINT LIVE RESULT COMPARE QUICK LOGS

BOOTSTRAP := $(TOOLS_PYTHON) -m cli.setup.bootstrap
IN_VENV := exec .venv/bin/python -m
USAGE := $(TOOLS_PYTHON) -m cli.setup.usage

# The text after `##` is what `make help` shows; in brackets are the variables that a target takes (`*`: any).
TARGETS := $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' Makefile)
.DEFAULT_GOAL := help
.PHONY: $(TARGETS)

# A variable that no goal takes would have no effect, and something else would be measured: refused before any recipe.
# What an outer make hands on, or a shell's completion asks with (`__…`, `.…`), was not typed by a user.
typed-goals := $(filter-out .%,$(MAKECMDGOALS))
typed-variables := $(if $(filter 0,$(MAKELEVEL)),$(foreach name,$(filter-out _%,$(.VARIABLES)),$(if $(filter command,$(origin $(name))),$(name))))
quoted = '$(subst ','\'',$1)'
ifneq ($(strip $(typed-variables) $(filter-out $(TARGETS),$(typed-goals))),)
  typed := $(foreach goal,$(typed-goals),$(call quoted,$(goal)))
  typed += $(foreach name,$(typed-variables),$(call quoted,$(name)=$(value $(name))))
  ifneq ($(shell $(USAGE) check $(typed) >&2 || echo refused),)
    $(error nothing was done)
  endif
endif

# 1 if a switch is on. The environment may give one, too, which nobody has checked.
on = $(if $(filter-out 0 1,$(value $1)),$(error $1=$(value $1): allowed are 1 for yes, and 0 or nothing for no),$(filter 1,$(value $1)))

##@ Measure

up: ## measure what is missing, print the answer; STACK=smoke: a test [STACK SET]
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) cli.stack up

preview: ## what `up` would do, and how long it takes; changes nothing [STACK SET]
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) cli.stack preview

sweep: ## the same under several settings: WORKERS="1 2 3" [STACK SET KEEP=1 *]
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) cli.sweep

lesson: ## what Ray's tasks, actors and objects cost here: 3 minutes [JSON=1]
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) bench.lesson $(if $(call on,JSON),--json)

set: ## change a setting for good: workers=3 (workers= undoes it) [STACK *]
	@$(BOOTSTRAP) --stack="$$STACK" --no-cli && $(IN_VENV) cli.stack.change

destroy: ## delete what the stack holds; runs and results stay [STACK SET]
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) cli.stack destroy

##@ Look

doctor: ## what the stack needs, what is missing, and the fix [STACK SET]
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) cli.look.doctor

watch: ## follow a running `up` from another terminal [STACK SET]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.follow watch

outputs: ## print the comparison again [STACK JSON=1]
	@$(BOOTSTRAP) --stack="$$STACK" && $(IN_VENV) cli.stack outputs

report: ## open the report of a result, or its curves in TensorBoard [STACK SET RESULT=latest PRINT=1 TENSORBOARD=1 LIVE=1]
	@if [ "$(call on,TENSORBOARD)" ]; then $(BOOTSTRAP) --no-cli && $(IN_VENV) cli.follow tensorboard; \
	else $(BOOTSTRAP) --stack="$$STACK" && { [ -n "$$RESULT" ] || .venv/bin/python -m cli.stack report >&2; } && $(IN_VENV) report open; fi

history: ## list the results, or two side by side [STACK COMPARE="1 latest"]
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) report history

fetch: ## bring back what a run kept in storage [STACK SET RUN=ray-1 TO=folder]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.fetch

##@ Your script

try: ## about 20 steps of a script of yours in every arm [STACK SCRIPT=../my/train.py ARGS="--epochs 1" PYTHON=../my/.venv WORKERS=2 KIND=torchrun ENV="A=1" STEPS=20 LIMIT=120 WRITE=1]
	@$(BOOTSTRAP) --no-cli && $(if $(filter file,$(origin STACK)),unset STACK && )$(IN_VENV) cli.tryout

why: ## why a step takes so long, and what would shorten it [STACK SET SCRIPT=../my/train.py ARGS="--epochs 9" PYTHON=../my/.venv WORKERS=2 KIND=torchrun ENV="A=1" ARM="native ray" LIMIT=600]
	@$(BOOTSTRAP) --no-cli && $(if $(filter file,$(origin STACK)),unset STACK && )$(IN_VENV) cli.why

adopt: ## a stack file of the best trial of a search [STACK RESULT=latest]
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) cli.adopt

submit: ## run a script on the stack's Ray cluster [STACK SET SCRIPT=train.py ARGS="--epochs 1" FOLDER=. ENV="A=1" PIP=requirements.txt DETACH=1]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.jobs submit

jobs: ## list that Ray cluster's jobs; follow the log of one, or end it [STACK SET JOB=train-1 STOP=1]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.jobs jobs

##@ Cluster

status: ## nodes, pods, Ray and the current run [STACK SET]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.look.status

dashboard: ## where Ray's dashboard answers, forwarded if needed [STACK SET]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.look.dashboard

diagnose: ## what is known in one archive to share, logs with LOGS=1 [STACK SET LOGS=1]
	@$(BOOTSTRAP) --stack="$${STACK#sweep-}" --no-cli && $(IN_VENV) cli.look.diagnose

recovery: ## what the loss of a worker, or of Ray's head, costs [STACK SET OF="worker head"]
	@$(BOOTSTRAP) --stack="$$STACK" --no-cli && $(IN_VENV) cli.recovery

##@ Develop

env: ## for plain pulumi commands: eval "$(make -s env)" [STACK]
	@$(BOOTSTRAP) --stack="$$STACK" && .venv/bin/python -m cli.stack select && $(IN_VENV) cli.stack.environment print

bench: ## compare the arms with this machine's limit [QUICK=1 ONLY=bfloat16 JSON=1]
	@$(BOOTSTRAP) --no-cli && $(IN_VENV) bench $(if $(call on,QUICK),--quick) $(if $(call on,JSON),--json) $(if $(ONLY),--only "$(ONLY)")

check: ## lint, format and types
	@$(BOOTSTRAP) --dev --no-cli && .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy .

test: ## the tests that this machine can run; on a Minikube: CLUSTER=1 [SLOW=1 TRY_* CLUSTER=1 CLUSTER_ENV=file]
	@if [ "$(call on,CLUSTER)" ]; then $(BOOTSTRAP) --dev --stack ci && exec bash -c '[ -z "$$CLUSTER_ENV" ] || . "$$CLUSTER_ENV" && TEST_CLUSTER=1 \
		exec .venv/bin/python -m cli.stack.environment exec --no-backend pytest --durations=0 tests/cluster'; \
	else $(BOOTSTRAP) --dev --tracking && $(IN_VENV) cli.stack.environment exec --no-backend pytest -n 4 $(if $(call on,SLOW),,--without-slow) --junitxml=.state/test-results.xml tests; fi

template: ## cut a template for `pulumi new` [TO=../my-template]
	@$(PYTHON) -m cli.template

clean: ## remove tools and state; ALL=1: measurements, too [ALL=1]
	@$(PYTHON) -m cli.stack.clean

help: ## this text
	@$(USAGE) help
