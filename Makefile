# Everything a developer or a newcomer runs. `make` alone lists the targets.
# s3s declares a newer compiler than it needs, hence --ignore-rust-version.

CARGO_FLAGS := --ignore-rust-version --locked
ARGS ?=
export PATH := $(CURDIR)/.venv/bin:$(HOME)/.cargo/bin:$(PATH)

.PHONY: help setup setup-tests build run test check fmt deny chaos fuzz compat bench image

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what building and running need (Debian, Ubuntu)
	@.ci/setup

setup-tests: ## Install that and the clients the tests use
	@.ci/setup --tests

build: setup ## Build the release binary
	cargo build --release $(CARGO_FLAGS)

run: build ## Build and serve with a private PostgreSQL in ./lobgate-data (ARGS="--listen 0.0.0.0:9000")
	target/release/lobgate serve $(ARGS)

test: setup-tests ## Run all tests
	cargo test $(CARGO_FLAGS)

check: ## Format, lints, documentation, licences: what CI asks for
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --no-deps
	@$(MAKE) --no-print-directory deny

deny: ## Check the licences, sources and known vulnerabilities of the dependencies
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny --config .deny.toml check licenses bans sources
	@# Without a way to the advisories nothing is known of them: that is said, and is no failure of the code.
	@log=$$(mktemp); cargo deny --config .deny.toml check advisories 2>$$log; code=$$?; cat $$log >&2; \
	if grep -q 'failed to fetch advisory database' $$log; then echo "ADVISORIES WERE NOT CHECKED: their database cannot be fetched" >&2; code=0; fi; \
	rm -f $$log; exit $$code

fmt: ## Format the code
	cargo fmt --all

chaos: setup-tests ## Break everything for an hour, or SECONDS, and show the figures (SEED=… repeats the choices)
	CHAOS_CONNECTIONS=10000 CHAOS_SECONDS=$(or $(SECONDS),3600) $(if $(SEED),CHAOS_SEED=$(SEED)) \
		cargo test $(CARGO_FLAGS) --test integration -- --nocapture --test-threads 1 faults::history faults::removal_race load::

fuzz: setup ## Let libFuzzer at every way in for SECONDS (60) each; what it finds stays in target/fuzz
	gateway/fuzz/run.sh $(or $(SECONDS),60)

compat: ## Run the client compatibility suite
	@if [ -x compat/run.sh ]; then compat/run.sh; else echo "compat/run.sh is not there yet" >&2; exit 1; fi

bench: build ## Measure the database server, and the gateway against it and others (which it installs: compat/peers), in an hour or so; fails if a bar is missed (ARGS="--database-url postgres://…" for your own)
	@mkdir -p target/bench
	compat/peers/setup.sh
	@for name in curves chunks anatomy reput readers churn list; do \
		target/release/lobgate bench $$name --html target/bench/$$name.html $(or $(ARGS),--data-dir target/bench/data) || exit 1; \
	done
	compat/peers/run.sh --html target/bench/limit.html $(or $(ARGS),--data-dir target/bench/data)

image: ## Build the container image
	docker build -t lobgate .
