# Every recipe is one call: what it does is in tools/, and plain `pulumi up` measures the same.
# STACK chooses the stack (default local), SET="workers=3 epochs=5" gives settings for one call.

PYTHON ?= python3
STACK ?= local
export STACK SET JSON ALL

BOOTSTRAP := $(PYTHON) -m tools.bootstrap
IN_VENV := exec .venv/bin/python -m

.DEFAULT_GOAL := help
.PHONY: help up preview smoke destroy outputs report env test check clean

help: ## show the targets (this text)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' Makefile

up: ## bring the stack up, measure what is missing, print the comparison
	@$(BOOTSTRAP) --stack "$$STACK" && $(IN_VENV) tools.stack up

preview: ## show what `up` would do
	@$(BOOTSTRAP) --stack "$$STACK" && $(IN_VENV) tools.stack preview

smoke: ## smallest full comparison, under 2 minutes, in a stack that is gone afterwards
	@$(BOOTSTRAP) && $(IN_VENV) tools.stack smoke

destroy: ## delete what the stack holds; runs and results stay
	@$(BOOTSTRAP) --stack "$$STACK" && $(IN_VENV) tools.stack destroy

outputs: ## print the comparison of the stack (JSON=1: as JSON)
	@$(BOOTSTRAP) --stack "$$STACK" && $(IN_VENV) tools.stack outputs

report: ## write results/ for a measurement made with plain `pulumi up`
	@$(BOOTSTRAP) --stack "$$STACK" && $(IN_VENV) tools.stack report

env: ## print exports that let plain pulumi commands work on the same state (eval them)
	@$(BOOTSTRAP) --stack "$$STACK" && $(IN_VENV) tools.environment print

test: ## all tests that this machine can run, with the reason for each that is skipped
	@$(BOOTSTRAP) --cluster && $(IN_VENV) tools.environment exec --no-backend pytest -rs --junitxml=.state/test-results.xml tests

check: ## lint, format and types
	@$(BOOTSTRAP) --no-cli && .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy .

clean: ## remove the state and all that was installed; refused while a stack holds resources (ALL=1: measurements too)
	@$(PYTHON) -m tools.clean
