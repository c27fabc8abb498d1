# Every chore of the house. `make` alone shows the list.
.DEFAULT_GOAL := help
.PHONY: help demo test check format bench serve setup lock clean

VENV ?= .venv
BIN := $(VENV)/bin

# The first Python that is new enough; name another with `make PYTHON=... test`.
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$each; break; }; done)

# Wheels only: nothing is compiled here, and no package runs code of its own while it is installed.
# Bytecode is made when a module is first imported, which for most of them is never.
INSTALL := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check --no-input --progress-bar off
LOCKED := $(INSTALL) --no-deps --only-binary :all: --require-hashes --requirement

# The demo and the tests start hundreds of processes. Each would compile all that it imports anew where nothing may be
# written beside the sources, as some machines have it: so it is written here.
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/bytecode
export PYTHONDONTWRITEBYTECODE :=

# make test only=tests/store chooses tests; args= goes to the command that is run.
only ?=
args ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## A batch, a worker killed half-way, resumed before your eyes
	@$(BIN)/retoma demo $(args)

ifeq ($(strip $(only)),)
test: check-static ## All checks and all tests; make test only=tests/store to choose
else
test: $(VENV)/.test
endif
	@tools/system-packages pgbouncer chromium
	@tools/test $(BIN)/python $(only) $(args)

check: check-static ## Format, lint, types, import contracts and the tests of the house itself
	@$(BIN)/python -m pytest --quiet tests/house

.PHONY: check-static
check-static: $(VENV)/.test
	@$(BIN)/ruff format --check --quiet . || { echo "Try: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.test ## Put every file into the house's format
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix . || true

bench: $(VENV)/.demo ## Our own figures, as JSON
	@$(BIN)/retoma bench $(args)

serve: $(VENV)/.demo ## PostgreSQL, worker and web on this machine, until Ctrl-C
	@$(BIN)/retoma up $(args)

setup: $(VENV)/.test ## Make the environment and nothing else
	@echo "Ready: $(BIN)/retoma"

lock: $(VENV)/.python ## Choose versions anew and write the lock files
	@tools/lock $(BIN)

clean: ## Remove the environment, caches and builds; what is in .retoma stays
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	@tools/environment "$(PYTHON)" $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.python requirements-demo.lock pyproject.toml
	@echo "Installing what the demo needs into $(VENV)" >&2
	@$(LOCKED) requirements-demo.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.python requirements.lock pyproject.toml
	@echo "Installing what the tests need into $(VENV)" >&2
	@$(LOCKED) requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
