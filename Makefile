# A fresh machine needs Python 3.11 or newer, make and git (and apt, on Debian, for the tests' databases).
# Every target sets up .venv by itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test cover long check format bench lock databases types clean

BIN := .venv/bin
CODE := $(wildcard src tests examples bench)
# make test ARGS="tests/store -k locks"
ARGS ?=

help: ## say what can be made
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1|\2/p' $(MAKEFILE_LIST) \
	  | awk -F'|' '{ printf "  %-14s %s\n", $$1, $$2 }'

setup: ## make .venv ready (done by the others when needed)
	@scripts/setup_venv.sh

demo: setup ## run ten orders, lose an answer, recover it: under a minute
	@$(BIN)/weave demo

test: setup databases ## run all tests on SQLite, PostgreSQL and MariaDB; ARGS="tests/store -k locks" picks some
	@$(BIN)/python -m pytest $(ARGS)

cover: setup ## run core's own tests, which must take every branch of it (all but the exhaustive ones)
	@$(BIN)/python -m pytest tests/core -m covered --cov --cov-config=tests/core/coverage.ini $(ARGS)

long: setup databases ## run the proofs that are too long for every change
	@$(BIN)/python -m pytest -m long $(ARGS)

check: setup ## lint, form, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory types
	$(BIN)/lint-imports --no-logo

types: setup
	$(BIN)/mypy $(CODE)

format: setup ## put the code into its form
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: setup databases ## measure steps per second and count transactions and row writes per step
	@$(BIN)/python -m bench $(ARGS)

lock: setup ## pin the dependencies anew
	@scripts/lock.sh $(ARGS)

databases:
	@scripts/ensure_databases.sh

clean: ## remove .venv and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist htmlcov .coverage .coverage.*
