# Each target makes .venv by itself, with the versions that constraints.txt pins; the second time that takes no time.
# PYTHON chooses the interpreter (3.11 or newer): make test PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help venv demo test quick lint docs mutations
help:
	@echo "make demo   three lessons on scenes of handwritten digits, one label in ten known"
	@echo "make test   run the tests"
	@echo "make quick  run those that are neither slow nor in a browser"
	@echo "make lint   style, types and import layers"
	@echo "make docs   build the documentation site into site/"
	@echo "make mutations   put faults into a copy of the code and see that the tests catch them (half an hour)"

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "partlabel needs Python 3.11 or newer: make PYTHON=...")'
	@echo 'Installing into .venv; the first time this fetches some gigabytes (torch) and takes minutes.'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/partlabel demo --output demo

# As many processes as there are cores; the slowest tests are begun first, so that none of them is left over at the end.
test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist worksteal

quick: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not browser"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.venv/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

mutations: $(INSTALLED)
	$(BIN)/python -m tests.mutations --table docs/mutations.md
