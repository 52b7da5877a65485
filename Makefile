# make run   installs, runs the main job and its report.      make test       installs, runs the tests.
# make lint  ruff, mypy, import-linter.                       make benchmark  prints the figures of speed.
# make test-slow  the tests that take minutes (continuous integration runs them too).

PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS := 1

.PHONY: run test test-slow lint benchmark install install-test clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# A stamp per set of extras: it is remade only when what would be installed has changed.
$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) -e '.[test,lint]'
	touch $@ $(VENV)/.installed

install: $(VENV)/.installed

install-test: $(VENV)/.installed-test

run: install
	$(BIN)/bench run --method async-es --delay 4
	$(BIN)/bench report

test: install-test
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not benchmark"
	@echo "left out: tests that take minutes (make test-slow), figures of speed (make benchmark)"

test-slow: install-test
	$(BIN)/python -m pytest -n 2 -m "slow and not benchmark"

lint: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: install-test
	$(BIN)/python -m pytest -m benchmark -s -q tests/benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info
