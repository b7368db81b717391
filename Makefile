# One place for every command. `make demo` and `make test` need nothing but Debian 12 and Rust:
# what else is missing is named and installed by scripts/setup.sh.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

# One target directory for all clones, outside all of them: RocksDB's C++ takes a quarter of an hour
# and is then shared by the demo, the tests and the next clone.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME:%=%/.cache),$(CURDIR)/target)
CARGO_TARGET_DIR ?= $(CACHE)/dehub/target
export CARGO_TARGET_DIR
export PATH := $(PATH):$(HOME)/.cargo/bin

# Always the whole workspace and always release: the dev profile gives RocksDB other flags, naming
# one package can give it other features, and then cargo compiles it again.
BUILD := --release --locked --workspace
# What is shipped. Naming examples makes cargo choose the features of the dependencies as it does for
# tests; without it, some thirty crates are compiled twice.
SHIPPED := --lib --bins --examples
# The same build, with debug assertions in our own packages.
CHECKED := $(BUILD) --config tools/checked.toml

# A Python with Qdrant's client, which tests drive a server with.
TEST_PYTHON := $(CACHE)/dehub/python
DEHUB_TEST_PYTHON ?= $(TEST_PYTHON)/bin/python
export DEHUB_TEST_PYTHON

NEXTEST := $(shell PATH="$(PATH)" command -v cargo-nextest 2>/dev/null)
STAGE := scripts/stage.sh

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "  build directory: $(CARGO_TARGET_DIR)"

.PHONY: demo
demo: setup build ## install what is missing, build, and show the whole road on real data (ARGS=... for dehub demo)
	"$(CARGO_TARGET_DIR)/release/dehub" demo $(ARGS)

.PHONY: build
build: ## build everything in release mode
	cargo build $(BUILD) $(SHIPPED)

.PHONY: test
test: setup-test check-format check-lint check-tests check-loom check-doc-tests check-docs check-licences ## install what is missing and run every check
	@echo "== all checks passed"

.PHONY: setup
setup: ## install what the build needs and the machine lacks
	@scripts/setup.sh

.PHONY: setup-test
setup-test:
	@DEHUB_PYTHON_FOLDER="$(TEST_PYTHON)" scripts/setup.sh test

.PHONY: check-format
check-format:
	@$(STAGE) format --needs "cargo fmt" cargo fmt --all --check

.PHONY: check-lint
check-lint:
	@$(STAGE) lint --needs "cargo clippy" cargo clippy $(CHECKED) --all-targets -- -D warnings

# nextest runs each test in its own process and shows slow ones; plain cargo runs the same tests.
.PHONY: check-tests
check-tests:
ifeq ($(NEXTEST),)
	@$(STAGE) tests cargo test $(CHECKED) --tests --no-fail-fast
else
	@$(STAGE) tests cargo nextest run $(CHECKED) --no-fail-fast
endif

.PHONY: check-doc-tests
check-doc-tests:
	@$(STAGE) doc-tests cargo test $(CHECKED) --doc

.PHONY: check-docs
check-docs:
	@RUSTDOCFLAGS="-D warnings" $(STAGE) docs cargo doc $(CHECKED) $(SHIPPED) --no-deps

.PHONY: check-licences
check-licences:
	@$(STAGE) licences --needs "cargo deny" cargo deny --log-level error check licenses bans sources

# Outside the workspace: its crates would change the features of the others.
.PHONY: check-loom
check-loom: ## run group commit through every order its threads may take
	@$(STAGE) loom cargo test --locked --manifest-path tools/loom/Cargo.toml --target-dir "$(CARGO_TARGET_DIR)/loom"

.PHONY: tidy
tidy: ## run only the rules of tools/tests/tidy.rs
	@$(STAGE) tidy cargo test $(CHECKED) --test tidy

.PHONY: fmt
fmt: ## format all Rust sources
	cargo fmt --all

.PHONY: lint
lint: check-format check-lint ## check format and lints only

.PHONY: bench
bench: setup ## run the criterion benches (ARGS=... for criterion)
	cargo bench --locked --workspace --bench fit --bench search -- $(ARGS)

PEERS := $(CACHE)/dehub/peers

.PHONY: bench-numpy
bench-numpy: setup $(PEERS)/numpy ## time fitting and evaluating beside numpy, installed into the cache directory
	DEHUB_PYTHON=$(PEERS)/bin/python cargo bench --locked --workspace --bench fit_numpy --bench matrix_numpy

.PHONY: bench-peers
bench-peers: setup $(PEERS)/libraries ## search beside other libraries, installed into the cache directory (ARGS=...)
	DEHUB_PYTHON=$(PEERS)/bin/python cargo bench --locked --workspace --bench peers -- $(ARGS)

.PHONY: bench-durable
bench-durable: setup $(PEERS)/libraries ## write durably beside other engines, installed into the cache directory (ARGS=...)
	DEHUB_PYTHON=$(PEERS)/bin/python cargo bench --locked --workspace --bench durable -- $(ARGS)

# One by one: a library that does not install here is absent from the contest, which says so.
$(PEERS)/libraries: benches/peers/requirements.txt
	python3 -m venv $(PEERS)
	while read -r library; do $(PEERS)/bin/pip install --quiet "$$library" || echo "not installed: $$library"; done < $<
	touch $@

$(PEERS)/numpy:
	python3 -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet numpy==2.4.6
	touch $@

.PHONY: clean
clean: ## remove what our own packages built; RocksDB and the other dependencies stay
	cargo clean --release --locked --workspace

.PHONY: purge
purge: ## remove the whole build directory, RocksDB included; asks for CONFIRM=yes
ifeq ($(CONFIRM),yes)
	test -f "$(CARGO_TARGET_DIR)/CACHEDIR.TAG"
	rm -rf -- "$(CARGO_TARGET_DIR)"
else
	@echo "This deletes $(CARGO_TARGET_DIR), which all clones share; RocksDB then compiles anew."
	@echo "To do so: make purge CONFIRM=yes"
	@exit 1
endif
