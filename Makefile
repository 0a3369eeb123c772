# One door to everything. `make` alone lists what there is; the first target that needs it makes .venv.

SHELL := /bin/sh
.SHELLFLAGS := -euc
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# The first Python that is new enough and can make environments. Expanded only when .venv is made.
CANDIDATES := python3.11 python3.12 python3.13 python3 python
IS_FIT := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,$(CANDIDATES),$(shell $(name) -c '$(IS_FIT)' 2>/dev/null && echo $(name))))

# What the targets take: make chaos SUITE=kill COUNT=500 SEED=7
SUITE ?= kill
COUNT ?= 20
SEED ?= 1
SEEDS ?= 20
ONLY ?=
ARGS ?=

# Tests share the cores. Those that start processes mostly wait for them, so there are more at once than there are
# cores. Hostile receivers are alone: their tests measure what one who means harm costs the others.
PROCESSES := process or chaos
ALONE := tests/hostile
TOGETHER := -n auto --maxprocesses 4 --dist worksteal --ignore $(ALONE)
WAITING := -n 3 --dist worksteal --ignore $(ALONE)
# Tests that draw more where there is time.
AT_LENGTH := tests/api/test_preview.py tests/sim/test_forecast.py tests/cli/test_described.py tests/cli/test_described_ring.py
PYTEST := $(BIN)/python -m pytest -q

# The hot path compiled, and where it runs from.
COMPILED := build/compiled
COMPILED_FROM := build/compiled-from
CAN_COMPILE = $(shell command -v cc >/dev/null && $(BIN)/python -c $(HAS_HEADERS) 2>/dev/null && echo yes)
HAS_HEADERS := 'import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'
NO_COMPILER := "Compiling needs a C compiler and the headers of Python (Debian: gcc, python3-dev); nothing else does."
AS_COMPILED = PYTHONSAFEPATH=1 PYTHONPATH="$(CURDIR)/$(COMPILED):$(CURDIR)"

.PHONY: help
help: ## List these targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || test -n "$(PYTHON)" || { \
		echo "TaskTick needs Python 3.11 or newer with its venv module; none was found." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing TaskTick and its tools into $(VENV) ..."
	@# Dependency groups need pip 25.1; Python 3.11 brings an older one.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all]" --group dev
	@touch $@

.PHONY: venv
venv: $(INSTALLED) ## Make .venv with TaskTick and everything that its checks need.

.PHONY: run
run: $(INSTALLED) ## Start it on this machine, data in ./tasktick-data. Another port: ARGS="--listen 127.0.0.1:9090".
	@exec $(BIN)/tasktick serve --allow-network 127.0.0.0/8 $(ARGS)

.PHONY: test
test: lint types test-fast test-postgres test-processes test-alone test-compiled test-binary ## Run every check and every test: what CI runs.

.PHONY: test-fast
test-fast: $(INSTALLED) ## Run the tests that need no processes of their own, on both event loops.
	@TASKTICK_TEST_LOOPS=asyncio,uvloop $(PYTEST) $(TOGETHER) -m "not ($(PROCESSES)) and not postgres" $(ARGS)

.PHONY: test-postgres
test-postgres: $(INSTALLED) ## Run the tests that need a PostgreSQL, on every version that is there.
	@$(PYTEST) $(TOGETHER) -m "postgres and not ($(PROCESSES))" $(ARGS)
	@TASKTICK_TEST_STORE=postgres TASKTICK_TEST_LOOPS=asyncio $(PYTEST) $(TOGETHER) tests/api $(ARGS)

.PHONY: test-processes
test-processes: $(INSTALLED) ## Run the tests with real processes and kill -9, three at a time.
	@$(PYTEST) $(WAITING) -m "$(PROCESSES)" $(ARGS)

.PHONY: test-alone
test-alone: $(INSTALLED) ## Run the tests with hostile receivers, one at a time and with nothing beside them.
	@$(PYTEST) $(ALONE) $(ARGS)

# Whether it can be compiled is asked when it is run: before, in a fresh clone, there is no Python to ask.
# What the compiled modules do: alone, in simulated nodes and rings, and with receivers that mean harm.
OF_THE_HOT_PATH := tests/unit/dispatch tests/unit/ready tests/unit/scheduler tests/unit/test_metrics.py tests/sim

.PHONY: test-compiled
test-compiled: $(INSTALLED) ## Run what tests the hot path with it compiled, where this machine can compile.
	@$(if $(CAN_COMPILE),$(MAKE) --no-print-directory compiled-tests,echo $(NO_COMPILER) "Not tested: the hot path compiled.")

.PHONY: compiled-tests
compiled-tests: $(COMPILED)/.built ## The same, where it is known that it can.
	@$(AS_COMPILED) $(PYTEST) -o pythonpath= $(TOGETHER) $(OF_THE_HOT_PATH) $(ARGS)
	@$(AS_COMPILED) $(PYTEST) -o pythonpath= $(ALONE) $(ARGS)
	@TASKTICK_COMPILED="$$(ls dist/tasktick-*-cp*.whl)" $(PYTEST) tests/install/test_wheel.py -k compiled $(ARGS)

.PHONY: test-chaos
test-chaos: $(INSTALLED) ## Run every chaos suite, every planted bug, and what draws at random for as long as CI has no time for.
	@TASKTICK_AT_LENGTH=1 $(PYTEST) tests/chaos/test_suites.py $(AT_LENGTH) $(ARGS)

.PHONY: test-history
test-history: $(INSTALLED) ## Run the store's suite with everything that has finished in history at once.
	@TASKTICK_AT_LENGTH=1 $(PYTEST) $(TOGETHER) -m "postgres and not ($(PROCESSES))" -k history tests/store $(ARGS)

.PHONY: test-speed
test-speed: $(INSTALLED) ## Fail every test over 0.25 s that is not marked slow (on an idle machine).
	@TASKTICK_SPEED=1 $(PYTEST) --ignore $(ALONE) -m "not slow and not ($(PROCESSES)) and not postgres" $(ARGS)

.PHONY: style
style: $(INSTALLED) ## Check sizes, names, packages, SQL files and documents.
	@$(PYTEST) tests/style $(ARGS)

.PHONY: lint
lint: $(INSTALLED) ## Check format, lint, import layers and dependencies.
	@$(BIN)/ruff format --check --quiet . || { echo "Some files are not formatted: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/deptry tasktick

.PHONY: format
format: $(INSTALLED) ## Format the code, and mend what the linter can mend safely.
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

.PHONY: openapi
openapi: $(INSTALLED) ## Write docs/openapi.json anew from the routes and the models.
	@$(BIN)/python -m tasktick.api.description > docs/openapi.json

.PHONY: types
types: $(INSTALLED) ## Check types, strictly.
	@$(BIN)/mypy

.PHONY: chaos
chaos: $(INSTALLED) ## Break it on purpose: SUITE=kill|powercut|ledger|ring|zombie|rolling|postgres|partition|failover|controls.
	@$(BIN)/python -m tests.chaos --suite $(SUITE) --count $(COUNT) --seed $(SEED) $(ARGS)

.PHONY: sim
sim: $(INSTALLED) ## Run nodes and rings in virtual time, crashing at any await: SEEDS=20.
	@$(BIN)/python -m tests.sim --seeds $(SEEDS) $(ARGS)

# The package with its hot path as C. It is made from a copy: what the compiler leaves must not lie among the sources,
# where it would be run in place of what was changed since.
# Folders too: a module that is gone must be gone there.
$(COMPILED)/.built: Makefile pyproject.toml $(shell find tasktick ! -name '*.pyc' ! -name __pycache__) $(INSTALLED)
	@test -n "$(CAN_COMPILE)" || { echo $(NO_COMPILER) >&2; exit 1; }
	@echo "Compiling the hot path, for some 40 seconds ..."
	@rm -rf $(COMPILED) $(COMPILED_FROM) dist/tasktick-*-cp*.whl
	@mkdir -p $(COMPILED_FROM)
	@cp -r tasktick pyproject.toml README.md LICENSE $(COMPILED_FROM)
	@HATCH_BUILD_HOOKS_ENABLE=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --wheel-dir dist ./$(COMPILED_FROM)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(COMPILED) \
		dist/tasktick-*-cp*.whl
	@touch $@

.PHONY: compiled
compiled: $(COMPILED)/.built ## Build the wheel with its hot path compiled by mypyc, dist/tasktick-*-cp*.whl.
	@echo "Install it, with a current SQLite and all else: pip install '$(shell ls dist/tasktick-*-cp*.whl 2>/dev/null)[all]'"

# Measured is what is compiled, where this machine can do that. PLAIN=1 measures it as it stands here.
PLAIN ?=
IS_PLAIN = $(PLAIN)$(if $(CAN_COMPILE),,yes)
BUILD = $(if $(IS_PLAIN),:,$(MAKE) --silent $(COMPILED)/.built)
BUILT = $(if $(IS_PLAIN),PYTHONPATH="$(CURDIR)",$(AS_COMPILED))

.PHONY: bench
bench: $(INSTALLED) ## Measure it against limits measured in the same run: ONLY=fire runs one question.
	@$(BUILD)
	@$(BUILT) $(BIN)/python -m bench.run $(ONLY) $(ARGS)

.PHONY: bench-peers
bench-peers: $(INSTALLED) ## Measure it beside its peers, which are installed apart, in build/peers: ONLY=fire, ARGS=--quick.
	@$(BIN)/python -m bench.peers.install
	@$(BUILD)
	@$(BUILT) $(BIN)/python -m bench.peers.run $(ONLY) $(ARGS)

.PHONY: dist
dist: $(INSTALLED) ## Build the sdist, and the wheel from it, into dist/.
	@rm -rf dist/*.whl dist/*.tar.gz $(COMPILED)
	@$(BIN)/python -m build --no-isolation

# An environment of its own: what the tests and checks need must not get into the binary.
BINARY_VENV := build/binary-venv

$(BINARY_VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "The binary needs Python 3.11 or newer with its venv module." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(BINARY_VENV)
	@$(BINARY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BINARY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --group binary ".[all]"
	@# The one that is built is the one in this folder.
	@$(BINARY_VENV)/bin/python -m pip uninstall --quiet --yes tasktick
	@touch $@

dist/tasktick: Makefile $(BINARY_VENV)/.installed $(shell find tasktick -type f ! -name '*.pyc')
	@PYTHONPATH="$(CURDIR)" $(BINARY_VENV)/bin/pyinstaller --onefile --strip --name tasktick --noconfirm \
		--log-level WARN --workpath build/binary --specpath build --distpath dist \
		--collect-submodules tasktick --collect-data tasktick --collect-all tzdata --hidden-import pysqlite3 \
		--collect-data cron_descriptor --copy-metadata aiohttp --copy-metadata uvloop tasktick/__main__.py
	@ls -l $@ | awk '{ printf "%s: %.1f MB\n", $$NF, $$5 / 1000000 }'

.PHONY: binary
binary: dist/tasktick ## Build the single binary dist/tasktick, for machines like this one.

.PHONY: test-binary
test-binary: $(INSTALLED) dist/tasktick ## Start the single binary, and try it out.
	@TASKTICK_BINARY=dist/tasktick $(PYTEST) tests/install/test_binary.py $(ARGS)

.PHONY: clean
clean: ## Remove caches and build results; data and .venv stay.
	@rm -rf build dist htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find tasktick tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
