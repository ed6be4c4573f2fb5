# make run     builds and starts the studio        make run ARGS="caption demo"
#              PROFILE=dev builds sooner and runs slower
# make test    formatting, lints, docs, all tests
#
# Both install what is missing first (scripts/setup.sh); when nothing is missing that takes no time.

CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
ARGS ?=
PROFILE ?= release

.PHONY: run test setup

run: setup
	@# The first build takes minutes, so it shows how far it is; later ones say nothing.
	@quiet=; [ ! -x "$${CARGO_TARGET_DIR:-target}/$(PROFILE)/specreel" ] || quiet=--quiet; \
	cargo run --profile $(PROFILE) --locked $$quiet -- $(ARGS)

setup:
	@sh scripts/setup.sh build

test:
	@sh scripts/setup.sh test
	cargo fmt --all --check
	cargo clippy --locked --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet
	cargo test --locked --doc --quiet
	@if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --locked; else cargo test --locked --all-targets; fi
