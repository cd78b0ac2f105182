# Every target is one command that a person could type.
VENV ?= .venv
PY := $(VENV)/bin/python

.PHONY: demo test bench check venv

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
