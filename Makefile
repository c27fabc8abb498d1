# Every chore of the house. `make` alone shows the list.
.DEFAULT_GOAL := help
.PHONY: help demo test test-hosts conformance explore check coverage matrix docs pictures sync schema format bench serve setup lock bundle images sbom notice advisories clean

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

# make conformance takes these.
seeds ?= 2 3 5 7 11 13
examples ?= 15

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## A batch, a worker killed half-way, resumed before your eyes
	@$(BIN)/retoma demo $(args)

# All that comes before the tests at the same time: what one of them waits for leaves a processor to the others.
test: $(VENV)/.test ## All checks and all tests; make test only=tests/store to choose
	@$(MAKE) --no-print-directory --output-sync -j 3 test-packages $(if $(strip $(only)),,check-static test-bytecode)
	@tools/test $(BIN)/python $(only) $(args)

.PHONY: test-packages test-bytecode
test-packages:
	@tools/system-packages pgbouncer chromium prometheus redis-server tesseract-ocr tesseract-ocr-por
	@tools/system-packages poppler-utils groff ghostscript pandoc

# Each process that runs tests imports all of them. On a new machine each would compile them all, too.
test-bytecode: $(VENV)/.test
	@$(BIN)/python -m pytest -qq --collect-only >$(VENV)/collected || { cat $(VENV)/collected; exit 1; }

test-hosts: $(VENV)-hosts/.hosts ## Worker loops on a real Ray, which has an environment of its own for its size
	@$(VENV)-hosts/bin/python -m pytest tests/hosts/test_ray.py $(args)

conformance: $(VENV)/.test ## The API against its description, further than make test; seeds="7 11" examples=15
	@for seed in $(seeds); do \
		echo "seed $$seed, $(examples) examples" >&2; \
		CONFORMANCE_SEED=$$seed CONFORMANCE_EXAMPLES=$(examples) \
			$(BIN)/python -m pytest --quiet tests/web/test_conformance.py $(args) || exit; \
	done

explore: $(VENV)/.test ## Random stories, others in each run, and longer kills of real starts; make explore args="-n 2"
	@EXPLORE=1 MODEL_EXAMPLES=2000 BATCH_MODEL_EXAMPLES=400 $(BIN)/python -m pytest --quiet --timeout 7200 \
		tests/store/test_model.py tests/store/test_batch_model.py tests/pipelines/books/test_machine.py \
		tests/crash tests/browser/test_prefix.py $(args)

check: check-static ## Format, lint, types, import contracts and the tests of the house itself
	@$(BIN)/python -m pytest --quiet tests/house

.PHONY: check-static
check-static: $(VENV)/.test
	@$(BIN)/ruff format --check --quiet . || { echo "Try: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/sync.py --check

coverage: $(VENV)/.test ## Which branches of the engine the tests take; make coverage only="tests/store tests/engine"
	@tools/coverage $(BIN)/python $(only)

matrix: $(VENV)/.test ## The tests on every other Python and PostgreSQL of this machine; says which it did not find
	@tools/matrix $(only)

sync: $(VENV)/.test ## Write the front door without await from the one with it
	@$(BIN)/python tools/sync.py

schema: $(VENV)/.test ## Write the schema on one page, docs/reference/schema.sql
	@$(BIN)/python tools/schema.py

docs: $(VENV)/.test ## The pages of docs/ as a site, into dist/docs; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict
	@echo "Ready: dist/docs/index.html"

pictures: $(VENV)/.test ## Take the pictures of the README anew, with Chromium, from a batch that really stalls
	@tools/system-packages chromium
	@PICTURES=$(abspath docs/pictures) $(BIN)/python -m pytest --quiet tests/browser/test_classifier.py -k told_stalled

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

bundle: $(VENV)/.demo ## Pack it for machines without a network: wheels, hashes and an installer, into dist
	@tools/bundle $(BIN)/python dist

images: $(VENV)/.test ## Build the image from nothing but this machine, and run every part of it
	@tools/system-packages podman runc
	@IMAGE_TESTS=1 $(BIN)/python -m pytest --quiet tests/packaging/test_image.py $(args)

sbom: $(VENV)/.test ## The bill of materials, as CycloneDX, into dist
	@$(BIN)/python tools/parts.py sbom dist/retoma.cdx.json

notice: $(VENV)/.test ## Write the licences of what is installed into NOTICE
	@$(BIN)/python tools/parts.py notice NOTICE

advisories: $(VENV)/.test ## Ask whether anything is known against a locked version; says so when nobody can be asked
	@$(BIN)/python tools/parts.py advisories

clean: ## Remove the environment, caches and builds; what is in .retoma stays
	@rm -rf $(VENV) $(VENV)-hosts build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
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

$(VENV)-hosts/.hosts: requirements-hosts.lock pyproject.toml
	@tools/environment "$(PYTHON)" $(VENV)-hosts
	@echo "Installing Ray and what its test needs into $(VENV)-hosts" >&2
	@$(subst $(BIN),$(VENV)-hosts/bin,$(LOCKED)) requirements-hosts.lock
	@$(subst $(BIN),$(VENV)-hosts/bin,$(INSTALL)) --no-deps --no-build-isolation --editable .
	@touch $@
