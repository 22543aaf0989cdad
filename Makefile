# Every target sets up .venv by itself and does nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export TF_CPP_MIN_LOG_LEVEL ?= 2
# Some virtual machines advertise AMX and then refuse it; without this line
# bfloat16 kernels die there with "Illegal instruction".
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16

.PHONY: venv demo explore test test-slow test-portable lint format bench docs test-backends test-backends-all clean

venv: $(STAMP)

$(STAMP): setup.py qlayers/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

demo: venv
	$(BIN)/python -m experiments.demo

# A page of models that ship with the project; nothing is trained.
explore: venv
	$(BIN)/python -m experiments.explore

test: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: venv
	$(BIN)/python -m pytest -m slow

# The functions and the layers' contract where arithmetic rounds differently: oneDNN
# kernels of an old instruction set, one thread. Two minutes. Without bfloat16: on a
# processor with AVX-512, TensorFlow asks oneDNN for bfloat16 kernels whatever the limit,
# and a oneDNN limited to older instructions has none and dies (segmentation fault).
PORTABLE_TESTS := tests/functional tests/quantizers/test_contract.py tests/regularizers/test_contract.py

test-portable: venv
	TF_ENABLE_ONEDNN_OPTS=1 ONEDNN_MAX_CPU_ISA=SSE41 TF_NUM_INTRAOP_THREADS=1 \
		TF_NUM_INTEROP_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
		-k "not bfloat16" $(PORTABLE_TESTS)

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.installed-%: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev,$*]"
	touch $@

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run

# A static site in build/site, without a network; a warning is an error.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m mkdocs build --strict --quiet

# The layer tests; test-backends-all runs everything that is marked for other backends.
BACKEND_TESTS := tests/quantizers/test_contract.py tests/regularizers/test_contract.py

test-backends: $(VENV)/.installed-jax $(VENV)/.installed-torch
	KERAS_BACKEND=jax $(BIN)/python -m pytest -n 2 --dist worksteal -m "backends and not slow" $(BACKEND_TESTS)
	KERAS_BACKEND=torch $(BIN)/python -m pytest -n 2 --dist worksteal -m "backends and not slow" $(BACKEND_TESTS)

test-backends-all:
	$(MAKE) test-backends BACKEND_TESTS=tests

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
