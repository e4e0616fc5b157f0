# Every target sets up what it needs; only Python 3.11+ and make must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-dask test lint format bench scaling evaluation paper clean

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

demo-dask: $(READY) ## Cluster rows on the workers of a local Dask cluster, one of which is killed
	$(BIN)/python examples/on_dask.py

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

# The packages that speed is compared with; nothing else needs them.
$(PEERS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

bench: $(PEERS) ## Compare speed with other packages, for docs/performance (80 minutes)
	$(BIN)/python benchmarks/against_peers.py --csv docs/performance/results.csv \
		--markdown docs/performance/results.md --quote docs/performance.md

scaling: $(PEERS) ## Draw time against n, d, k and threads, for docs/performance.md (15 minutes)
	$(BIN)/python benchmarks/scaling.py --csv docs/performance/scaling.csv --pictures docs/images

evaluation: $(READY) ## Judge all methods on all workloads, for docs/evaluation.md (an hour)
	$(BIN)/python benchmarks/evaluation.py --runs evaluation_runs.csv --markdown docs/evaluation.md

paper: $(READY) ## Run the paper's experiments again, for docs/paper (minutes; downloads its data)
	$(BIN)/robust-kmeans reproduce --output docs/paper --force

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
