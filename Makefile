# `make demo` and `make test` work on a fresh clone with Python 3.11 or later, a C compiler and make.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
JOBS ?= 2
# Of so many variations of a test one runs in `make test`, drawn anew with each change of the sources; 1 runs all.
SHARE ?= 6
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test test-quick pass lint types unit lit search conformance bench format clean

help:
	@echo 'make demo    train and run a small network on handwritten digits'
	@echo 'make test    lint, types and the tests, a sixth of those that come by the hundred (SHARE=1: all of them)'
	@echo 'make test-quick  one sample of each op and the tests on IR text, in a minute or two'
	@echo 'make pass NAME=fuse  the tests of one pass'
	@echo 'make lint    ruff: rules and formatting'
	@echo 'make types   pyright'
	@echo 'make unit    the pytest tests'
	@echo 'make lit     the tests on IR text'
	@echo 'make search  look for networks that are compiled wrong, for as long as it is left to (KIND=onnx: ONNX graphs)'
	@echo 'make conformance  the tests of the onnx package; writes docs/conformance.md'
	@echo 'make bench   measure speed beside other frameworks; writes docs/benchmarks.md (PEERS=: torch.compile as well)'
	@echo 'make format  rewrite the sources as ruff formats them'
	@echo 'make clean   remove what the other targets made'

demo: $(VENV)/.demo
	$(BIN)/python examples/digits.py

# The closing line of pytest is the result, or what pyright says, which has one thread, takes minutes, and runs meanwhile.
test: lint $(VENV)/.dev
	$(MAKE) --no-print-directory types >$(VENV)/types.log 2>&1 & types=$$!; tests=0; \
	TENON_TEST_SHARE=$(SHARE) $(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS) || tests=$$?; \
	wait $$types || { cat $(VENV)/types.log >&2; tests=1; }; exit $$tests

lint: $(VENV)/.dev
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet --diff .

types: $(VENV)/.dev
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

# One sample of each op, the text tests and the order of the folders: what an edit most likely breaks.
test-quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m quick tests/lit tests/unit/test_registry.py tests/unit/test_layering.py $(PYTEST_ARGS)

# Text tests that run the pass, and unit tests that import it at their head but for those that run all samples.
pass: $(VENV)/.dev
	@test -n '$(NAME)' || { echo 'usage: make pass NAME=fuse' >&2; exit 2; }
	@files="$$(grep -rlE 'RUN:.*(-p [^a-z]?|,|passes )$(NAME)([,{ ]|$$)' tests/lit || true; \
	  grep -rlE '^from tenon\.(passes|lowering)\.([a-z_]+\.)*$(subst -,_,$(NAME)) ' tests/unit --include='test_*.py' \
	  --exclude='*_registry.py' --exclude=test_ops_structured.py || true)"; \
	test -n "$$files" || { echo 'no test runs or imports a pass $(NAME)' >&2; exit 2; }; \
	$(BIN)/python -m pytest -n $(JOBS) $$files $(PYTEST_ARGS)

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) tests/unit $(PYTEST_ARGS)

lit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) tests/lit $(PYTEST_ARGS)

KIND ?= networks
search: $(VENV)/.dev
	$(BIN)/python tests/search.py --kind $(KIND) --count 1000000 --jobs $(JOBS)

conformance: $(VENV)/.dev
	$(BIN)/python tests/conformance/onnx_nodes.py --jobs $(JOBS) --write docs/conformance.md

# torch.compile is left out unless asked for (`make bench PEERS=`): to compile its programs takes longer than all else.
PEERS ?= numpy,torch,onednn,onnxruntime,jax
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --write $(if $(PEERS),--peers $(PEERS))

format: $(VENV)/.dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .ruff_cache *.egg-info

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or later is needed' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$*]'
	@touch $@
