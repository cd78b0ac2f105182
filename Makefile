# Every target is one command that a person could type.
VENV ?= .venv
IMAGE ?= agentrun:dev
PY := $(VENV)/bin/python
# The cluster's programs, its node image and Postgres are built before pytest counts its time.
TEST_CLUSTER := tests/cluster/kind/up && tests/cluster/kind/image postgres >/dev/null && tests/cluster/kind/image >/dev/null

.PHONY: help venv check test demo bench image lock crds manifests cluster-up cluster-image cluster-down

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet -e '.[dev]'
	touch $@

venv: $(VENV)/.installed ## the virtualenv with everything for development

check: venv ## lint, types, import directions
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# Real processes and a real cluster on a busy machine: what failed is played once more, by itself,
# and said to have been.
AGAIN := || { echo "FAILED AT FIRST, played once more:"; $(PY) -m pytest --last-failed -m
test: check ## everything; builds and starts the test cluster first
	$(TEST_CLUSTER)
	$(PY) -m pytest -n 2 --dist loadfile -m "not cluster and not chaos"
	$(PY) -m pytest -m chaos $(AGAIN) chaos; }
	$(PY) -m pytest -m cluster $(AGAIN) cluster; }

demo: venv ## a run is killed in the middle and finishes
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" examples/demo/demo.sh

bench: venv ## measured workloads, ratios in one run
	$(PY) -m bench

image: ## the image, from whatever base image can be had here; prints its name
	@tests/cluster/kind/image

lock: venv ## the lock file of the image, after the dependencies in pyproject.toml have changed
	$(VENV)/bin/pip-compile -q --generate-hashes --no-emit-index-url --no-emit-trusted-host --strip-extras -o requirements.lock pyproject.toml

crds: venv ## the CRDs, after the models of operator/agentrun/api have changed
	$(PY) -m agentrun.api.crd crds

manifests: venv ## both charts as plain YAML, for kubectl apply; for those without Helm
	@PYTHONPATH=. $(PY) -m tests.chart.render $(IMAGE)

cluster-up: ## the test cluster, kept; prints the kubeconfig to use
	@tests/cluster/kind/up

cluster-image: ## the image as $(IMAGE), and Postgres, in the test cluster
	@tests/cluster/kind/image load $(IMAGE)

cluster-down: ## remove the test cluster
	tests/cluster/kind/down
