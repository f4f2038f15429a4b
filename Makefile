# Every target sets up what it needs: `make demo` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-integrations check format bench docs lock dist audit-dependencies clean

help:
	@echo "make demo    set up, then train four losses on digits with 60% wrong labels (under a minute once set up)"
	@echo "make test    set up, then lint, type-check and run every test and doctest"
	@echo "make test-integrations  the tests of Lightning, Hugging Face, Keras, skorch, MONAI and Optuna, which it installs"
	@echo "make check   only the linter and the type checker"
	@echo "make format  rewrite the sources in the house format"
	@echo "make bench   measure losses, noise and loader against their peers on this machine"
	@echo "make docs    regenerate the generated pages and build the site"
	@echo "make lock    rewrite requirements.lock, the pinned versions with checksums"
	@echo "make dist    build sdist and wheel reproducibly, and run the demo from the wheel in an empty environment"
	@echo "make audit-dependencies  look the pinned versions up among known vulnerabilities (pip-audit; needs the net)"

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "noiseproof needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/noiseproof demo

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-integrations: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,integrations,tune]'
	KERAS_BACKEND=torch $(BIN)/python -m pytest tests/integrations tests/segmentation tests/docs tests/planning

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/loader.py
	$(BIN)/python benchmarks/tabular.py
	$(BIN)/python benchmarks/audit.py --method patches

docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python docs/generate.py
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

lock: $(VENV)/.installed
	$(BIN)/python tools/lock.py

dist: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'hatchling>=1.27'
	$(BIN)/python tools/dist.py

audit-dependencies: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)-audit/bin/pip-audit --requirement requirements.lock --no-deps --disable-pip

clean:
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache
