# One command per intent; `make help` lists them. Only Rust and Python 3.11 have to be there; servers for tests are
# installed where that can be done, and done without where it cannot.
# Everything works a second time without a network.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3.11
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(HOME)/.cache/whimbrel/target)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
RUN := $(VENV)/bin/python
TOOLS := $(VENV)/.tools-installed
TPCDS := $(VENV)/tpcds
LINTERS := $(VENV)/.linters-installed
PEER := benches/peers/differential
PEER_TARGET := $(CARGO_TARGET_DIR)/peers

FUZZ := $(or $(WHIMBREL_FUZZ),40)

.PHONY: help build wheel trywheel demo cluster functions function function-package chaos fuzz simulate scadr test test-python bench fmt lint clean

help: ## list the commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-16s %s\n", $$1, $$2 }'

# Packages are installed only if what is asked for is not there, so that a network is needed only once.
$(RUN):
	$(PYTHON) -m venv $(VENV)

$(TOOLS): requirements-dev.txt | $(RUN)
	$(RUN) -m pip install --quiet --requirement requirements-dev.txt
	touch $@

$(TPCDS): requirements-tpcds.txt | $(RUN)
	$(RUN) -m pip install --quiet --upgrade --target $@ --requirement requirements-tpcds.txt
	touch $@

$(LINTERS): requirements-lint.txt | $(RUN)
	$(RUN) -m pip install --quiet --requirement requirements-lint.txt
	touch $@

build: $(TOOLS) ## build everything and install the package into .venv
	@echo "building; the first time takes some minutes"
	source $(VENV)/bin/activate && maturin develop --release
	$(RUN) -m compileall -q python/whimbrel

# What has been built for tests and benchmarks is used; a release has a profile of its own: `make wheel PROFILE=wheel`.
wheel: PROFILE ?= release
wheel: $(TOOLS) ## build a wheel into dist/, say how large it is, and try it in an empty environment
	rm -f dist/*.whl
	source $(VENV)/bin/activate && maturin build --profile $(PROFILE) --out dist
	$(MAKE) trywheel

trywheel: $(TOOLS) ## say how large the wheel in dist/ is, and try it in an empty environment
	$(RUN) tests/wheel_size.py dist/*.whl
	WHIMBREL_WHEEL=$$(echo dist/*.whl) $(RUN) -m pytest --quiet tests/wheel_test.py

demo: build ## run the papers' examples on a year of flights: table, chart, picture
	$(RUN) examples/flights.py

cluster: build ## the same plans on a cluster of processes, while workers are killed and stopped
	$(RUN) examples/cluster.py

function:
	cargo build --release --locked --quiet --package whimbrel-cli --bin whimbrel-function

function-package: function | $(RUN) ## build the program of functions for AWS Lambda into dist/
	$(RUN) deploy/functions/package.py $(CARGO_TARGET_DIR)/release/whimbrel-function

functions: build function ## the same plans on stateless functions over an S3 server, with a bill for each
	tests/cloud --required $(RUN) examples/functions.py

scadr: build ## serve a microblog whose pages have a bound, at http://localhost:8000
	$(RUN) examples/scadr/app.py

# Two files at a time; those that kill processes and wait for others come first, since they take longest.
PYTEST_ALL := -m pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder tests python/tests

test: build $(TPCDS) ## every test: Rust, Python, conformance, doctests, documents
	tests/servers tests/kafka tests/cloud bash -c 'cargo test --release --workspace --locked --quiet && $(RUN) $(PYTEST_ALL)'

test-python: build $(TPCDS) ## every test in Python, those of the documents included
	tests/servers tests/kafka tests/cloud $(RUN) $(PYTEST_ALL)

chaos: build ## kill, stop and cut off the processes of a cluster for long; WHIMBREL_CHAOS says how long
	WHIMBREL_CHAOS=$${WHIMBREL_CHAOS:-100} $(RUN) -m pytest tests/chaos python/tests/test_cluster.py

fuzz: build ## generated streams, plans and queries against their definitions, a million and more; WHIMBREL_FUZZ says how many times as many as in the tests
	PROPTEST_CASES=$$((256 * $(FUZZ))) cargo test --release --locked --package whimbrel-temporal --test it
	WHIMBREL_FUZZ=$(FUZZ) cargo test --release --locked --package whimbrel-sharded --package whimbrel-bounded --test it random
	WHIMBREL_RANDOM_SEEDS=100:$$((100 + 16 * $(FUZZ))) $(RUN) -m pytest --quiet python/tests/test_random_queries.py

simulate: ## simulate the protocol of the cluster with faults by chance; WHIMBREL_SEEDS says how many seeds
	WHIMBREL_SEEDS=$${WHIMBREL_SEEDS:-5000} cargo test --release --locked --package whimbrel-cluster --lib -- simulation --nocapture

bench: build ## measure against Polars, DuckDB, differential dataflow and, with Maven, Esper; writes benches/*results.json
	CARGO_TARGET_DIR=$(PEER_TARGET) cargo build --release --locked --quiet --manifest-path $(PEER)/Cargo.toml
	if command -v mvn > /dev/null; then mvn -q -B -f benches/peers/esper/pom.xml -Dtarget=$(PEER_TARGET)/esper package; fi
	export DIFFERENTIAL_PEER=$(PEER_TARGET)/release/differential-peer; \
	if [[ -d $(PEER_TARGET)/esper/lib ]]; then export ESPER_PEER=$(PEER_TARGET)/esper; fi; \
	$(RUN) benches/run.py
	$(RUN) benches/hopping_cost.py
	$(RUN) benches/latency.py

fmt: $(LINTERS) ## format all code
	cargo fmt
	cargo fmt --manifest-path $(PEER)/Cargo.toml
	$(VENV)/bin/ruff check --fix --quiet .
	$(VENV)/bin/ruff format --quiet .

lint: build $(LINTERS) ## formatting, clippy, ruff, pyright
	cargo fmt --check
	cargo fmt --check --manifest-path $(PEER)/Cargo.toml
	cargo clippy --release --workspace --all-targets --locked --quiet -- -D warnings
	$(VENV)/bin/ruff check --quiet .
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/pyright

clean: ## remove what was built here; the shared target folder stays
	rm -rf $(VENV) dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
