# Every task of the project; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
# The version of uv to install if the machine has none.
UV_VERSION := 0.13.9
# The number of parallel test processes. Those of `make test` often wait for servers, so two cores
# have time for three. Default: 3, and 2 for `make test-quick`.
PROCESSES ?=
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo .tools/uv/bin/uv)
export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never
# Without bytecode files, every process compiles all its imports: `make test-quick` takes three times
# the CPU time, and each command that a test starts takes a second more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run services test test-quick kills harden check format bench bench-quick bench-health example-report clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Install the locked dependencies into .venv.

$(VENV)/.installed: pyproject.toml uv.lock | $(UV)
	$(UV) sync --locked --quiet --compile-bytecode --python $(PYTHON)
	@touch $@

.tools/uv/bin/uv:
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

run: install ## Load the examples into an empty store, print a key and curl commands, and serve.
	@$(BIN)/mergewatch demo
	@exec $(BIN)/mergewatch serve

services: install ## Run a local Elasticsearch and Redis until Ctrl-C; print the settings that use them.
	@exec $(BIN)/python -m tests.servers.local

test: install ## Run every test.
	$(BIN)/pytest --numprocesses=$(or $(PROCESSES),3) --dist=worksteal --durations=20 $(ARGUMENTS)

test-quick: install ## Run the fast tests, which start no server or process.
	$(BIN)/pytest --quick -p no:schemathesis --numprocesses=$(or $(PROCESSES),2) --dist=worksteal -rfE --durations=5 $(ARGUMENTS)

kills: install ## Kill loads a hundred times on each store; compare each result with a clean load.
	MERGEWATCH_TEST_KILLS=50 $(BIN)/pytest --durations=0 tests/kills

harden: install ## Attack, break and overload the service; report which promises hold. Takes over an hour.
	@$(BIN)/python -m hardening $(ARGUMENTS)

bench: install ## Benchmark against a bare server and peers; report which targets hold. Takes two hours or more.
	@$(UV) sync --locked --quiet --group bench
	@$(BIN)/python -m benchmarks $(ARGUMENTS)

bench-quick: install ## Check that the benchmarks work: small stores, short runs.
	@$(UV) sync --locked --quiet --group bench
	@$(BIN)/python -m benchmarks --size quick $(ARGUMENTS)

bench-health: install ## Simulate jobs that run often, and print what the health rules find in them.
	@$(BIN)/python -m benchmarks.health $(ARGUMENTS)

check: install ## Check format, lint, types and import directions.
	@$(UV) sync --locked --quiet --group bench
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## Format the code and apply the linter's automatic fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

example-report: install ## Run the tests and store their report as an example.
	$(BIN)/python -m examples.make_report

clean: ## Remove everything that make installed or created; keep ./data.
	rm -rf $(VENV) .tools .servers .bench .hardening dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
