# Everything a person does here. Each target first does what it needs; `make` alone lists them.
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
SOURCES := mqdssm tests benchmarks docs .ci README.md
# Three workers for two cores, since tests of servers wait half of their time; all tests that need a JVM share one worker and one session (tests/conftest.py).
WORKERS ?= 3
# Checked for types beside the package: what tests share. A test itself may pass the wrong thing on purpose.
TYPED := .ci/*.py docs/conf.py benchmarks tests/conftest.py tests/support tests/tidy tests/docs
LOOSE := --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --allow-untyped-decorators \
	--implicit-reexport --explicit-package-bases
# The folders of the quick tests: pytest imports no others
FAST := tests/cli tests/property tests/spec tests/tidy tests/unit
# Simulated enterprises: how many, and the first one; VERBOSE=1 tells everything: make simulate SEEDS=1 FIRST=7 VERBOSE=1
SEEDS ?= 1000
FIRST ?= 1
VERBOSE ?=
# Set: make simulate runs the sessions of the seeds alone, without enterprises: make simulate SEEDS=10000 SESSIONS=1
SESSIONS ?=
# Set: make simulate also prints what the seeds reach of the replication engine, and fails below that many percent
COVERAGE ?=
# Set: make conformance also plants a defect for each section, which the tests of the section must catch
MUTANTS ?=
# The part of the long tests to run, k/n; without: all
SHARD ?= 1/1
# More arguments for pytest: make test ARGS="-x tests/unit"
ARGS ?=

# Modules stay compiled, whatever the environment says: hundreds of programs are started by tests
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
OBJECTS ?= 20000

.PHONY: help setup setup-test python demo test test-fast soak soak-status test-browser test-containers test-fresh images simulate enterprise lint format conformance mutants bench schema docs sbom audit lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

setup: ## .venv, slapd and Java: installs what it may, says what is missing where it may not
	@bash .ci/setup all

python: ## .venv alone, for what needs no server
	@bash .ci/setup python

demo: setup ## an MSMQ 1.0 enterprise migrated into a private OpenLDAP, verified, exported, validated, with a report: see it work
	@.venv/bin/mqdssm demo

setup-test: ## as setup, and for root Samba's domain controller, for the tests
	@bash .ci/setup test

test: setup-test ## all tests but the long ones
	$(PYTEST) -m "not soak" -n $(WORKERS) --dist loadgroup $(ARGS)

test-fast: python ## the quick tests: no server, no Spark, no program
	MQDSSM_TEST_PROFILE=fast $(PYTEST) -m "not server and not spark and not slow and not soak and not container" \
		-n $(WORKERS) --dist loadgroup $(or $(ARGS),$(FAST))

soak: setup-test ## the tests that take long; SHARD=2/5: the second of five parts; adds a line to .ci/ledger.csv
	$(PYTHON) .ci/soak.py --shard $(SHARD) $(ARGS)

soak-status: python ## which long run was last made on which commit: soak, bench, test-fresh
	@$(PYTHON) .ci/ledger.py status

test-browser: ## reports in a real browser: installs Chromium where it may
	@bash .ci/setup browser
	$(PYTEST) tests/browser --timeout 600 $(ARGS)

test-containers: setup-test ## build the container images and test them with a real engine
	@bash .ci/test-containers $(ARGS)

images: python ## build the images of docker/mqdssm, -spark and -server with the container engine that answers
	@bash .ci/images build mqdssm mqdssm-spark mqdssm-server

test-fresh: setup ## a clone in a fresh Debian container: make demo, make test
	@$(PYTHON) .ci/ledger.py run test-fresh -- bash .ci/test-fresh

simulate: python ## whole enterprises with faults, from seeds: SEEDS=1000 FIRST=1 VERBOSE=1 SESSIONS=1
	$(if $(COVERAGE),$(PYTHON) -m coverage erase)
	$(PYTHON) $(if $(COVERAGE),-m coverage run) .ci/simulate.py $(SEEDS) $(FIRST) $(if $(VERBOSE),--verbose) $(if $(SESSIONS),--sessions)
	$(if $(COVERAGE),$(PYTHON) -m coverage combine --quiet)
	$(if $(COVERAGE),$(PYTHON) -m coverage report --fail-under $(COVERAGE))

enterprise: setup ## five directory servers as processes in network namespaces: OBJECTS=20000; needs root
	$(PYTHON) .ci/enterprise.py $(OBJECTS)

lint: python ## style, types, layers, generated files, lock file, docs
	.venv/bin/ruff check $(SOURCES)
	.venv/bin/ruff format --check $(SOURCES)
	.venv/bin/mypy
	MYPYPATH=tests:.ci .venv/bin/mypy $(LOOSE) $(TYPED)
	.venv/bin/lint-imports
	$(PYTHON) .ci/generate.py --check
	$(PYTHON) .ci/lockfile.py --check
	@$(MAKE) --no-print-directory docs

format: python ## let ruff mend and format the sources
	.venv/bin/ruff check --fix $(SOURCES)
	.venv/bin/ruff format $(SOURCES)

conformance: $(if $(MUTANTS),setup-test,python) ## which test proves which section of the specifications; fails on a hole; MUTANTS=1
	$(PYTHON) .ci/conformance.py
	$(if $(MUTANTS),$(PYTHON) .ci/mutants.py --sections $(ARGS))

mutants: setup-test ## plant the defects of tests/mutants in copies, one at a time: tests or seeds must catch each
	$(PYTHON) .ci/mutants.py $(ARGS)

bench: setup-test ## measure against raw ldap3 and ldapsearch; writes docs/performance.md
	$(PYTHON) .ci/ledger.py run bench -- $(PYTHON) benchmarks/run.py $(ARGS)

schema: python ## regenerate ldif/ and docs/tables/ from the attribute tables
	$(PYTHON) .ci/generate.py

docs: python ## the site in docs/_build/html; warnings are errors
	$(PYTHON) -m sphinx -W --keep-going -j auto -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

sbom: python ## the software bill of materials of the locked dependencies, CycloneDX, in build/sbom.cdx.json
	$(PYTHON) .ci/sbom.py build/sbom.cdx.json

audit: python ## known vulnerabilities of the locked dependencies (needs the network; pip-audit comes into .cache/audit)
	@[ -x .cache/audit/bin/pip-audit ] || { $(PYTHON) -m venv .cache/audit && .cache/audit/bin/python -m pip install -q 'pip-audit>=2.9,<3'; }
	for lock in requirements kerberos; do .cache/audit/bin/pip-audit --strict --disable-pip --require-hashes -r .ci/$$lock.lock || exit 1; done

lock: python ## renew .ci/requirements.lock from pyproject.toml (needs the network)
	$(PYTHON) .ci/lockfile.py

clean: ## remove what was built; .venv and .cache stay
	rm -rf build dist docs/_build spark-warehouse .hypothesis .mypy_cache .ruff_cache .import_linter_cache .coverage
	find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.cache/*' -prune -exec rm -rf {} +
