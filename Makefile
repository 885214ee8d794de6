# `make demo` and `make test` work on a fresh clone with Python 3.11 or later, a C compiler and make.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
PACKAGES := dialects passes lowering runtime tools
PACKAGE_PATTERN := dialects|passes|lowering|runtime|tools

.PHONY: help demo test lint types unit lit conformance bench format clean

help:
	@echo 'make demo    train and run a small network on handwritten digits'
	@echo 'make test    lint, types and all tests'
	@echo 'make lint    ruff: rules and formatting'
	@echo 'make types   pyright'
	@echo 'make unit    the pytest tests'
	@echo 'make lit     the tests on IR text'
	@echo 'make conformance  the tests of the onnx package; writes docs/conformance.md'
	@echo 'make bench   measure speed beside other frameworks; writes docs/benchmarks.md (PEERS=: torch.compile as well)'
	@echo 'make format  rewrite the sources as ruff formats them'
	@echo 'make clean   remove what the other targets made'

demo: $(VENV)/.demo
	$(BIN)/python examples/digits.py

# pytest comes last: its closing line is the result.
test: lint types $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet --diff .

# The folders become one package only when they are installed, so pyright sees them in a copy that is laid out like it.
types: $(VENV)/.dev
	@rm -rf build/types && mkdir -p build/types
	@cp -R tenon build/types/tenon && cp -R $(PACKAGES) build/types/tenon/
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python \
	  | sed -E 's#[^ ]*/build/types/##; s#^( *)tenon/($(PACKAGE_PATTERN))/#\1\2/#'

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) tests/unit $(PYTEST_ARGS)

lit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) tests/lit $(PYTEST_ARGS)

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
