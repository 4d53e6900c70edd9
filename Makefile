# The commands that people type. `make` alone lists them.
VENV ?= .venv
PY := $(VENV)/bin/python
BIN := $(VENV)/bin

.PHONY: help venv test quick check format docs goldens bench dist ci
help:      ## this list
	@grep -E '^[a-z]+: .*##|^[a-z]+: +##' Makefile | sed 's/:.*## /	/' | expand -t 12

venv:      ## make .venv with everything that tests and checks need
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet -e '.[test,dev,docs]'

test:      ## the whole suite
	$(PY) -m pytest -n 2

quick:     ## the tests that failed last, then those of this folder: make quick T=tests/theory
	$(PY) -m pytest --ff -x $(T)

check:     ## ruff, mypy, import contracts, grammars
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/ncclforensics grammars check

format:    ## mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs:      ## the site, in ./site
	$(BIN)/mkdocs build --strict

goldens:   ## write the reports of all fixtures anew; read the diff
	$(PY) -m pytest -n 2 tests/test_jobs.py tests/test_incidents.py tests/test_readme.py --write-goldens

bench:     ## speed against references in the same run
	$(PY) benchmarks/dumps.py
	$(PY) benchmarks/logs.py

dist:      ## sdist and wheel in ./dist
	$(PY) -m hatchling build

ci:        ## what CI runs
	.ci/run
