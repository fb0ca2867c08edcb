# Everything a newcomer types. Needs Python 3.11 or newer and nothing else.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-cluster test-engine lint format api priors clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(INSTALLED) ## make .venv, or renew it when pyproject.toml is newer

# What pip and setuptools warn of is shown only where the installation fails.
$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer was found; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV); this takes about two minutes."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,report]' 2> $(VENV)/install.log \
		|| { cat $(VENV)/install.log >&2; exit 1; }
	@touch $@

demo: $(INSTALLED) ## one hour of real traffic in under three minutes, with the real controller
	$(BIN)/mdscaler demo

# Several processes, because most tests wait for sockets and clocks. `make test WORKERS=0` runs them in one.
WORKERS ?= auto
# How often a failed test is asked again: never, except in CI (tests/reruns.py).
RERUNS ?= 0
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --reruns $(RERUNS) --max-suite-reruns 3 --rerun-show-tracebacks

test: $(INSTALLED) ## all tests that need nothing but Python
	$(PYTEST) --ignore=tests/cluster --ignore=tests/engine

test-cluster: $(INSTALLED) ## the same questions to the embedded API server and to a real control plane (needs Go)
	$(PYTEST) tests/cluster --build-control-plane

test-engine: $(INSTALLED) ## the controller with real vLLM processes (installs vLLM once: 6 GB; then a quarter of an hour)
	$(BIN)/python -m pytest tests/engine --real-engine -q

lint: $(INSTALLED) ## style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

api: $(INSTALLED) ## write manifests/ and the generated pages of docs/ from the types
	$(BIN)/python -m hack.generate_api
	$(BIN)/python -m hack.generate_manifests
	$(BIN)/python -m hack.generate_metrics_docs

priors: $(INSTALLED) ## build the embedded catalog from the committed source extracts
	$(BIN)/python -m hack.priors.build

clean: ## remove what was built
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
