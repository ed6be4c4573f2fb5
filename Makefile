# make run     build and start the studio; make run ARGS="caption demo" runs a command.
#              Without a terminal it captions an embedded clip
#              PROFILE=dev builds faster and runs slower
# make test    check formatting, dependencies, lints and docs, and run all tests
# make lab     the laboratory (measures, trains, renders scenes): make lab ARGS="bench --help"; see docs/lab/
# make dist    build the packages of a release into dist/ (Debian); make dist ARCH=aarch64 for another machine
#
# All first install missing dependencies (scripts/setup.sh).

CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
ARGS ?=
PROFILE ?= release
ARCH ?=

.PHONY: run lab test setup dist

run: setup
	@# The first build takes minutes, so it shows progress; later builds are quiet.
	@quiet=; [ ! -x "$${CARGO_TARGET_DIR:-target}/$(PROFILE)/specreel" ] || quiet=--quiet; \
	cargo run --profile $(PROFILE) --locked $$quiet -- $(ARGS)

lab: setup
	@cargo run --profile $(PROFILE:release=lab) --locked --package specreel-lab -- $(ARGS)

setup:
	@sh scripts/setup.sh build

# Tests run side by side, so what candle computes has one thread in each.
test:
	@sh scripts/setup.sh test
	cargo fmt --all --check
	@sh scripts/deny.sh
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
	cargo test --locked --workspace --doc --quiet
	@if cargo nextest --version >/dev/null 2>&1; then RAYON_NUM_THREADS=1 cargo nextest run --locked --workspace --test-threads $$(( $$(nproc) + 1 )); else cargo test --locked --workspace --all-targets; fi

dist:
	@sh scripts/dist.sh $(ARCH)
