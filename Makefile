# make test: every test, Rust, and Python on both Pythons, with all set-up. make quick: what takes seconds, on one Python and one instruction set.
# make newest: Python's tests with the newest release of every package. make integrations: longer models in PyMC, bambi, NumPyro and Stan.
# make extras: each extra of the package in a fresh environment. make cluster: Spark on this machine.
# make docs: the site, with warnings as errors (make test too). make gallery: runs its examples.
# make bench: the figures of docs/benchmarks.md. make fuzz: damaged files and killed runs, as many as wanted.

# Any Python. PYTHON=newest is one from 3.12 on, from the PATH or a tree of Debian 13 (.ci/newest-python). Up to 3.11 packages are the last
# before ArviZ 1 and PyMC 6, later the newest, pinned either way.
PYTHON ?= python3
OWN := $(if $(filter newest,$(PYTHON)),python3,$(PYTHON))
OWN_WORLD := $(shell $(OWN) -c 'import sys; print("newest" if sys.version_info >= (3, 12) else "older")')
ifeq ($(PYTHON),newest)
IN := .ci/newest-python
WORLD := newest
VENV := .venv-newest
else
IN :=
WORLD := $(OWN_WORLD)
VENV := .venv
endif
UNPINNED := .venv-unpinned
CLUSTER := .venv-cluster
COMMAND := $(abspath .venv)/command
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

# What a change breaks first, and seconds tell.
QUICK := --lib --test models --test nnls --test questions --test errors --test design --test weights --test priors

.PHONY: test quick lint rust python older newer on-python command wheel newest integrations extras cluster java docs gallery bench fuzz clean

# The wheel compiles, and Python's tests run, beside the tests of Rust, which leave a core idle often enough.
test: lint command
	$(MAKE) --jobs=2 --output-sync=target rust older newer docs

quick: command wheel
	$(CARGO_TEST) --quiet $(QUICK)
	$(INSTALL_WHEEL)
	CORELET_COMMAND=$(COMMAND) $(IN) $(VENV)/bin/python -m pytest -q -m "not slow" tests/python

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --features sparse-nnls/simd-variable -- -D warnings
	cargo clippy --release -p corelet --no-default-features -- -D warnings
	cargo clippy --release -p corelet --no-default-features --features sampling -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps

rust:
	$(CARGO_TEST)
	$(if $(CORELET_DATA),$(CARGO_TEST) --tests -- --ignored real_data,@echo "tests on real data are ignored: CORELET_DATA names no folder with data files")
	if grep -qs avx512f /proc/cpuinfo; then CORELET_SIMD=avx2 $(KERNELS); fi
	CORELET_SIMD=portable $(KERNELS)

# The tests run against the built wheel, installed as a user would install it.
python: command wheel on-python

# The same wheel on both Pythons. Where no newer one can be had, that is said, and is an error where CI=true.
older: wheel
	$(MAKE) on-python

newer: wheel
	@if [ $(WORLD) = older ]; then .ci/newest-python --ready; case $$? in 0) $(MAKE) on-python PYTHON=newest FAST=1;; 3) ;; *) exit 1;; esac; fi

INSTALL_WHEEL = $(IN) $(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps wheels/corelet-*.whl

# The tests of the package, and small models of PyMC, bambi and NumPyro; with FAST=1 without those that take longer, which one Python has
# to run. Types are checked against the older stubs of NumPy.
on-python: $(VENV)/installed
	$(INSTALL_WHEEL)
	$(if $(filter older,$(WORLD)),$(VENV)/bin/python -m mypy)
	CORELET_COMMAND=$(COMMAND) $(IN) $(VENV)/bin/python -m pytest -q tests/python
	$(IN) $(VENV)/bin/python -m pytest -q -m "not long$(if $(FAST), and not slow)" tests/tools

# A copy: the tests of Rust put a command of their own in its place.
command: .venv/installed
	cargo build --release --bin corelet
	cp $(or $(CARGO_TARGET_DIR),target)/release/corelet $(COMMAND)

# One wheel for every Python from 3.9 on.
wheel: .venv/installed
	rm -rf wheels
	.venv/bin/maturin build --release --quiet --out wheels

.venv/installed: tests/python/requirements-$(OWN_WORLD).txt
	$(OWN) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --requirement $<
	touch $@

.venv-newest/installed: tests/python/requirements-newest.txt
	.ci/newest-python python3 -m venv --clear $(@D)
	.ci/newest-python $(@D)/bin/python -m pip install --quiet --requirement $<
	touch $@

# The newest release of every package, whatever our pins say.
newest: command wheel
	.ci/newest-python --ready
	.ci/newest-python python3 -m venv --clear $(UNPINNED)
	sed 's/==.*//' tests/python/requirements-newest.txt > $(UNPINNED)/requirements.txt
	.ci/newest-python $(UNPINNED)/bin/python -m pip install --quiet --requirement $(UNPINNED)/requirements.txt
	.ci/newest-python $(UNPINNED)/bin/python -m pip freeze
	touch $(UNPINNED)/installed
	$(MAKE) on-python PYTHON=newest VENV=$(UNPINNED)

# Coresets of models written in PyMC, bambi, NumPyro and Stan, each fitted again in the same tool. Takes some minutes.
integrations: $(VENV)/examples wheel
	$(INSTALL_WHEEL)
	if [ $(WORLD) = older ]; then $(VENV)/bin/python -m mypy --strict examples/python && \
		$(VENV)/bin/python -m pyright --pythonpath $(VENV)/bin/python examples/python; fi
	$(IN) $(VENV)/bin/python -m pytest -q -m long tests/tools
	$(IN) $(VENV)/bin/python -m pytest -q -s examples/python

$(VENV)/examples: $(VENV)/installed examples/python/requirements.txt
	$(IN) $(VENV)/bin/python -m pip install --quiet --requirement examples/python/requirements.txt
	touch $@

# Each extra in a fresh environment: the newest within its range, and the lower end of it on an older Python.
extras: wheel
	$(IN) $(OWN) .ci/extras wheels/corelet-*.whl
	$(if $(filter older,$(WORLD)),$(OWN) .ci/extras wheels/corelet-*.whl --lowest)

# Spark on this machine, in processes of its own. It needs Java 17 or later; Dask is in the tests of Python.
cluster: $(CLUSTER)/installed wheel java
	$(CLUSTER)/bin/python -m pip install --quiet --force-reinstall --no-deps wheels/corelet-*.whl
	SPARK_HOME=$$($(CLUSTER)/bin/python -c 'import pyspark; print(pyspark.__path__[0])') PYSPARK_PYTHON=$(abspath $(CLUSTER))/bin/python \
		$(CLUSTER)/bin/python -m pytest -q -s tests/cluster

java:
	@java -version > /dev/null 2>&1 || apt-get install -y -q openjdk-17-jre-headless || dnf install -y -q java-17-openjdk-headless \
		|| brew install openjdk@17 || (echo "Spark needs Java 17 or later, and no package manager could install it" && false)

$(CLUSTER)/installed: tests/cluster/requirements.txt
	$(OWN) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --requirement tests/cluster/requirements.txt
	touch $@

# The site, in build/docs. Nothing is compiled or run for it.
docs: .venv-docs/installed
	.venv-docs/bin/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo build/docs/index.html

.venv-docs/installed: docs/requirements.txt
	$(OWN) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --requirement $<
	touch $@

# Each example of the gallery by itself; what it draws and prints goes to docs/gallery/results. EXAMPLES=claims for one of them.
EXAMPLES ?= $(filter-out _%,$(basename $(notdir $(wildcard docs/gallery/*.py))))
gallery: $(VENV)/installed wheel
	$(INSTALL_WHEEL)
	for example in $(EXAMPLES); do echo "== $$example" && $(IN) $(VENV)/bin/python docs/gallery/$$example.py || exit 1; done

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
	rm -rf .venv .venv-newest .venv-docs .newest $(UNPINNED) $(CLUSTER) wheels build docs/examples
