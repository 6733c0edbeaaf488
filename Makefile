# make test: every test, Rust and Python, with all set-up. make bench: the figures of docs/benchmarks.md.

VENV := .venv
PYTHON ?= python3
DATA := $(wildcard ../shared/data)
# The same random cases at every run; leave it out to search further.
export PROPTEST_RNG_SEED ?= 20261115
export CORELET_DATA ?= $(if $(DATA),$(abspath $(DATA)),)

# One profile throughout, so that the dependencies are compiled once: it is what ships that is tested.

.PHONY: test lint rust python bench clean

test: lint rust python

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps

rust:
	cargo test --release --workspace --all-features

python: $(VENV)/installed
	cargo build --release
	$(VENV)/bin/python -m pytest -q tests/python

$(VENV)/installed: tests/python/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement tests/python/requirements.txt
	touch $@

bench:
	cargo bench -p sparse-nnls --bench bandwidth
	cargo bench -p sparse-nnls --bench methods
	cargo bench -p corelet

clean:
	cargo clean
	rm -rf $(VENV)
