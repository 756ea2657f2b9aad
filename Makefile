# Each target makes .venv by itself, with the versions that constraints.txt pins; the second time that takes no time.
# PYTHON chooses the interpreter (3.11 or newer): make test PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help venv demo test lint
help:
	@echo "make demo   train on scenes of handwritten digits and draw what the model found"
	@echo "make test   run the tests"
	@echo "make lint   style, types and import layers"

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "partlabel needs Python 3.11 or newer: make PYTHON=...")'
	@echo 'Installing into .venv; the first time this fetches some gigabytes (torch) and takes minutes.'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/partlabel demo --output demo

test: $(INSTALLED)
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports
