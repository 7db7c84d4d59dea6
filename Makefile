# Two commands do everything on a fresh machine: `make run` and `make test`.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV := .venv
REPORTS := docs/reports
SANITIZERS := memcheck racecheck synccheck initcheck

# Else, where it is set, each of the tests' processes compiles the package anew, and pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

# NO_VENV=1 uses the packages of $(PYTHON) as they are (a machine without a network, say).
ifdef NO_VENV
RUN := env PYTHONPATH=. $(PYTHON)
ENV_RUN :=
ENV_DEV :=
ENV_EXTRAS :=
ENV_CUDA :=
else
RUN := $(VENV)/bin/python
ENV_RUN := $(VENV)/run
ENV_DEV := $(VENV)/dev
ENV_EXTRAS := $(VENV)/extras
ENV_CUDA := $(VENV)/cuda
endif

.PHONY: run test test-extras test-gpu sanitize lint kernels docs clean

run: $(ENV_RUN)  ## classify some example sentences; those further down are the tokenizer's edge cases
	head -n 20 weights/sentences.txt | $(RUN) -m accel_cli run --fields label,score,text

test: $(ENV_DEV)  ## the tests that need no GPU and no heavy packages
	$(RUN) -m pytest -n 2 -m "not gpu and not extras"

test-extras: $(ENV_EXTRAS)  ## the tests that need heavy packages: PyTorch, CuPy's compiler
	$(RUN) -m pytest -m "extras and not gpu"

test-gpu: $(ENV_CUDA)  ## all tests that need a GPU; writes $(REPORTS)/test-gpu.txt
	mkdir -p $(REPORTS)
	{ $(RUN) -m accel_cli info && $(RUN) -m pytest -m gpu; } 2>&1 | sed "s#$(CURDIR)/##g" | tee $(REPORTS)/test-gpu.txt

sanitize: $(SANITIZERS:%=sanitize-%)  ## the kernel tests under compute-sanitizer; side by side with -j4

# racecheck does not see that barrier.arrive orders, nor an arrival at another block's mbarrier, and reports the PTX
# manual's own producer and consumer
TESTS_racecheck := -k "not named_barriers and not all_blocks_of_a_cluster"

sanitize-%: $(ENV_CUDA)  # writes $(REPORTS)/sanitize-TOOL.txt
	mkdir -p $(REPORTS)
	compute-sanitizer --tool $* --error-exitcode 9 --kernel-name-exclude kns=cupy \
	  $(RUN) -m pytest -m gpu tests/kernels tests/host_cuda $(TESTS_$*) 2>&1 | tee $(REPORTS)/sanitize-$*.txt

lint: $(ENV_DEV)
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy accel_cli

kernels: $(ENV_CUDA)  ## compile every kernel for every architecture, without a GPU
	$(RUN) -m accel_cli kernels

docs: $(ENV_DEV)  ## render the tables of README and docs/ from docs/results
	$(RUN) docs/render.py

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/run: $(VENV)/made setup.cfg
	$(VENV)/bin/python -m pip install -q -e .
	touch $@

$(VENV)/dev: $(VENV)/made setup.cfg
	$(VENV)/bin/python -m pip install -q -e ".[dev]"
	touch $@ $(VENV)/run

$(VENV)/cuda: $(VENV)/dev
	$(VENV)/bin/python -m pip install -q -e ".[cuda13]"
	touch $@

$(VENV)/extras: $(VENV)/cuda
	$(VENV)/bin/python -m pip install -q -e ".[extras]"
	touch $@
