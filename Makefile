# Every target sets up what it needs; only Python 3.11+ and make must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format bench evaluation paper clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## Make the virtual environment with everything for development

# The stamp is newer than pyproject.toml once its dependencies are installed.
$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "robust-kmeans needs Python 3.11 or later; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## Cluster generated dirty data beside scikit-learn's KMeans, and draw both
	$(BIN)/robust-kmeans demo --plot demo.png --force

test: $(READY) ## Run all tests and doctests
	$(BIN)/python -m pytest -q -n 2

lint: $(READY) ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## Compare speed with scikit-learn (a few minutes)
	$(BIN)/python benchmarks/against_sklearn.py

evaluation: $(READY) ## Judge all methods on all workloads, for docs/evaluation.md (an hour)
	$(BIN)/python benchmarks/evaluation.py --runs evaluation_runs.csv --markdown docs/evaluation.md

paper: $(READY) ## Run the paper's experiments again, for docs/paper (minutes; downloads its data)
	$(BIN)/robust-kmeans reproduce --output docs/paper --force

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
