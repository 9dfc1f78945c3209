# Every task of the project; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
# The version of uv that is fetched where the machine has none.
UV_VERSION := 0.13.9
# How many processes run the tests side by side.
PROCESSES ?= 2
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo .tools/uv/bin/uv)
export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never
# Where Python may keep no bytecode, every process compiles all that it imports: three times the CPU
# time of `make test-quick`, and a second for each command that a test starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run services test test-quick kills harden check format bench bench-quick example-report clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Install everything that the lock file names into .venv.

$(VENV)/.installed: pyproject.toml uv.lock | $(UV)
	$(UV) sync --locked --quiet --compile-bytecode --python $(PYTHON)
	@touch $@

.tools/uv/bin/uv:
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

run: install ## Load the examples when the store is empty, print a key and curl lines, and serve.
	@$(BIN)/mergewatch demo
	@exec $(BIN)/mergewatch serve

services: install ## Run a local Elasticsearch and Redis until Ctrl-C, and print the settings for them.
	@exec $(BIN)/python -m tests.servers.local

test: install ## Run every test, in two processes.
	$(BIN)/pytest --numprocesses=$(PROCESSES) --dist=worksteal --durations=20 $(ARGUMENTS)

test-quick: install ## Run the tests that start no server and no other process, and take no time.
	$(BIN)/pytest --quick -p no:schemathesis --numprocesses=$(PROCESSES) --dist=worksteal -rfE --durations=5 $(ARGUMENTS)

kills: install ## Kill loads a hundred times over each store, and hold what comes of each to a clean one.
	MERGEWATCH_TEST_KILLS=50 $(BIN)/pytest --durations=0 tests/kills

harden: install ## Attack, break and overload the service; say what holds. Takes 45 minutes.
	@$(BIN)/python -m hardening $(ARGUMENTS)

bench: install ## Measure speed beside the floor and the peers; say which targets hold. Takes an hour.
	@$(UV) sync --locked --quiet --group bench
	@$(BIN)/python -m benchmarks $(ARGUMENTS)

bench-quick: install ## The same over small stores and in short rounds: does it all work?
	@$(UV) sync --locked --quiet --group bench
	@$(BIN)/python -m benchmarks --size quick $(ARGUMENTS)

check: install ## Lint, types, and the direction of imports.
	@$(UV) sync --locked --quiet --group bench
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## Format the code and mend what the linter can mend.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

example-report: install ## Run the tests and keep their report as an example.
	$(BIN)/python -m examples.make_report

clean: ## Remove what was installed, built, and left by make services, bench and harden; ./data stays.
	rm -rf $(VENV) .tools .servers .bench .hardening dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
