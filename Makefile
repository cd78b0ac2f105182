# Every target is one command that a person could type.
VENV ?= .venv
PY := $(VENV)/bin/python

.PHONY: demo test bench check venv image cluster-up cluster-down


$(VENV)/.installed: pyproject.toml
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet -e '.[dev]'
	touch $@

venv: $(VENV)/.installed ## the virtualenv with everything for development

check: venv ## lint, types, import directions
	$(VENV)/bin/ruff check operator tests
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

test: check ## everything
	$(PY) -m pytest

demo: venv ## a run is killed in the middle and finishes
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" examples/demo/demo.sh

bench: venv ## measured workloads, ratios in one run
	$(PY) -m bench

image: ## the image, as agentrun:dev
	docker build -t agentrun:dev .

cluster-up: ## the test cluster, kept; prints the kubeconfig to use
	tests/cluster/kind/up

cluster-down: ## remove the test cluster
	tests/cluster/kind/down
