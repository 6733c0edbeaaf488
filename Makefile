# make test: every test, Rust and Python, with all set-up. make integrations: the examples in PyMC, NumPyro and Stan.
# make cluster: Spark on this machine. make bench: the figures of docs/benchmarks.md. make fuzz: damaged files and killed runs, as many as wanted.

VENV := .venv
INTEGRATIONS := .venv-integrations
CLUSTER := .venv-cluster
PYTHON ?= python3
DATA := $(wildcard ../shared/data)
# The same random cases at every run; leave it out to search further.
export PROPTEST_RNG_SEED ?= 20261115
ifneq ($(DATA),)
export CORELET_DATA ?= $(abspath $(DATA))
endif

# One profile throughout, so that the dependencies are compiled once; our own crates with the checks of .ci/checked.toml.
# The Python tests and the demo run what ships.
CARGO_TEST := cargo test --release --workspace --features sparse-nnls/simd-variable --config .ci/checked.toml

# What stands on the kernels, for the instruction sets that this machine would not choose by itself (AVX2 only beside AVX-512).
KERNELS := $(CARGO_TEST) --quiet --lib \
	--test draws --test hermite --test models --test invariants --test nnls --test rank

.PHONY: test lint rust python python-tests command wheel integrations cluster java bench fuzz clean

# The wheel compiles, and Python's tests run, beside the tests of Rust, which leave a core idle often enough.
test: lint command
	$(MAKE) --jobs=2 --output-sync=target rust python-tests

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --features sparse-nnls/simd-variable -- -D warnings
	cargo clippy --release -p corelet --no-default-features -- -D warnings
	cargo clippy --release -p corelet --no-default-features --features sampling -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps

rust:
	$(CARGO_TEST)
	if grep -qs avx512f /proc/cpuinfo; then CORELET_SIMD=avx2 $(KERNELS); fi
	CORELET_SIMD=portable $(KERNELS)

# The tests run against the built wheel, installed as a user would install it.
python: command python-tests

# A copy: the tests of Rust put a command of their own in its place.
command: $(VENV)/installed
	cargo build --release --bin corelet
	cp $(or $(CARGO_TARGET_DIR),target)/release/corelet $(VENV)/command

python-tests: $(VENV)/installed wheel
	$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps wheels/corelet-*.whl
	$(VENV)/bin/python -m mypy
	CORELET_COMMAND=$(abspath $(VENV))/command $(VENV)/bin/python -m pytest -q tests/python

wheel: $(VENV)/installed
	rm -rf wheels
	$(VENV)/bin/maturin build --release --quiet --out wheels

$(VENV)/installed: tests/python/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement tests/python/requirements.txt
	touch $@

# Coresets of models written in PyMC, NumPyro and Stan, each fitted again in the same tool. Takes some minutes.
integrations: $(INTEGRATIONS)/installed wheel
	$(INTEGRATIONS)/bin/python -m pip install --quiet --force-reinstall --no-deps wheels/corelet-*.whl
	$(INTEGRATIONS)/bin/python -m mypy --strict examples/python
	$(INTEGRATIONS)/bin/python -m pyright --pythonpath $(INTEGRATIONS)/bin/python examples/python
	$(INTEGRATIONS)/bin/python -m pytest -q -s examples/python

$(INTEGRATIONS)/installed: examples/python/requirements.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip install --quiet --requirement examples/python/requirements.txt
	touch $@

# Spark on this machine, in processes of its own. It needs Java 17 or later; Dask is in the tests of Python.
cluster: $(CLUSTER)/installed wheel java
	$(CLUSTER)/bin/python -m pip install --quiet --force-reinstall --no-deps wheels/corelet-*.whl
	SPARK_HOME=$$($(CLUSTER)/bin/python -c 'import pyspark; print(pyspark.__path__[0])') PYSPARK_PYTHON=$(abspath $(CLUSTER))/bin/python \
		$(CLUSTER)/bin/python -m pytest -q -s tests/cluster

java:
	@java -version > /dev/null 2>&1 || apt-get install -y -q openjdk-17-jre-headless || dnf install -y -q java-17-openjdk-headless \
		|| brew install openjdk@17 || (echo "Spark needs Java 17 or later, and no package manager could install it" && false)

$(CLUSTER)/installed: tests/cluster/requirements.txt
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --requirement tests/cluster/requirements.txt
	touch $@

bench:
	cargo bench -p sparse-nnls --bench bandwidth
	cargo bench -p sparse-nnls --bench methods
	cargo bench -p corelet

# N damaged files, in FUZZ_MEMORY kilobytes of address space, and KILLS runs killed while they write.
N ?= 20000
KILLS ?= 100
FUZZ_SEED ?= 1000
FUZZ_MEMORY ?= 4000000
fuzz:
	$(CARGO_TEST) --no-run --test mutations --test cli
	ulimit -v $(FUZZ_MEMORY) && CORELET_MUTATIONS=$(N) CORELET_MUTATION_SEED=$(FUZZ_SEED) RAYON_NUM_THREADS=2 \
		$(CARGO_TEST) --test mutations -- --nocapture
	CORELET_KILLS=$(KILLS) $(CARGO_TEST) --test cli kills -- --nocapture

clean:
	cargo clean
	rm -rf $(VENV) $(INTEGRATIONS) $(CLUSTER) wheels
