# Everything a developer runs. `make help` lists it; .ci/run calls the same targets.

PYTHON ?= python3
ARGS ?=
# Of each world, and one case of how many: what `make nightly` has time for. `make exhaustive` and `make disk` take all.
STATES ?= 20000
EVERY ?= 20

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
FOLDERS := api base session ordering transport queues stats store node tools
# Tools that look at the dependencies, with dozens of their own, away from those that are tested with.
SUPPLY := $(VENV)/supply
# When the sources are of: what is built of them says so.
EPOCH = $${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
# Folders are listed too: their time changes when a file is removed from them.
SOURCES := pyproject.toml setup.py LICENSE README.md $(wildcard docs/*.* docs/cookbook/*.md docs/tutorials/*.md) $(shell find $(FOLDERS) -name '__pycache__' -prune -o -print)

# Whoever forbids Python to keep what it has compiled pays for it here: each worker would compile all tests, every time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup compiled demo check test test-all collect nightly docs site paths lint format lock build sbom audit clean lies teeth exhaustive disk figures window real fuzz flood hundred neighbour bench-quick

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/project.stamp  ## make .venv with every dependency and the project's wheel, and see to Java and nft
	@tools/setup/nftables.sh
	@tools/setup/java.sh

compiled: setup  ## put a wheel whose pure rooms are machine code into .venv, until a source changes; two minutes and a C compiler
	@rm -rf build/lib* build/temp* build/bdist.* build/compiled build/mypyc triack.egg-info dist/compiled
	TRIACK_COMPILED=1 $(PIP) wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir dist/compiled .
	$(PIP) install --quiet --no-deps --no-index --force-reinstall dist/compiled/triack-*.whl
	@rm -rf build/lib* build/temp* build/bdist.* build/compiled build/mypyc triack.egg-info
	$(BIN)/triack chaos --seeds 20
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow and not plain" \
		$(addprefix tests/,base ordering session queues transport store node)

demo: setup  ## 100,000 messages over a bad network, checked and reported in build/demo
	@mkdir -p build/demo
	$(BIN)/triack demo --messages 100000 --size 100 --loss 0.10 --duplicate 0.02 --reorder 0.05 --seed 7 \
		--engine spark --report build/demo/report.html

# Beside the tests, as mypy takes one core and some tests wait; what it says comes last, where it is seen.
check: setup  ## what to run while working: style, types, and the quick tests of the core and of the rooms that changed
	@mkdir -p build
	@$(MAKE) --no-print-directory lint >build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow" $(or $(ARGS),$$($(BIN)/python -m tests.changed)); tests=$$?; \
	wait $$lint; linted=$$?; cat build/lint.log; exit $$((tests | linted))

test: setup  ## all quick tests (ARGS="-k order" to choose; .ci/run also runs those marked gate)
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow" $(ARGS)

test-all: setup $(VENV)/spark.jsa  ## the whole suite: besides, 2,100 seeds, all of Spark, swarms, kills, slow stories
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

# Pytest compiles the tests as it reads them. When they are new, each of its processes would do that.
collect: setup  ## read all tests, and run none
	@$(BIN)/python -m pytest -n 0 --collect-only -q >/dev/null

nightly: setup $(VENV)/spark.jsa  ## what .ci/run leaves out, in forty minutes: slow tests, states, broken disks, planted bugs
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "slow and not gate"
	$(BIN)/python -m proof exhaustive --states $(STATES)
	$(BIN)/python -m proof disk --every $(EVERY)
	$(BIN)/python -m proof teeth

site: setup  ## the pages of docs/, the command line and the Python interface as a site in build/site, strict about links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

paths: setup  ## run the suite and name every error path that no test takes
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest -n auto --dist loadgroup $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/python proof/error_paths.py

docs: setup  ## write the tables of docs that come from the code: reasons, events, fields
	$(BIN)/python -m proof.docs

lies: setup  ## tell lies about session logs, and see each one found out or proved harmless
	$(BIN)/python -m proof lies $(ARGS)

teeth: setup  ## plant known bugs, tell lies: see each found, write by what to proof/teeth.json, say what changed
	$(BIN)/python -m proof teeth $(ARGS)

exhaustive: setup  ## search every state of small worlds
	$(BIN)/python -m proof exhaustive $(ARGS)

disk: setup  ## break a store at every call to its disk, in every way
	$(BIN)/python -m proof disk $(ARGS)

figures: setup  ## measure lost packets, handshakes, transfers, outages and replays
	$(BIN)/python -m proof figures $(ARGS)

bench-quick: setup  ## try every row of triack bench once, shortly: whether it works, not how fast it is
	$(BIN)/triack bench --quick $(ARGS)

window: setup  ## show ten million counters to the replay window and to an oracle
	$(BIN)/python -m proof window $(ARGS)

real: setup  ## real sockets, namespaces, kills and failing system calls
	$(BIN)/python -m proof real $(ARGS)

fuzz: $(VENV)/fuzz.stamp setup  ## feed every decoder bytes, guided by what they reach (ARGS="--seconds 600 body")
	$(BIN)/python -m tests.fuzz.run $(ARGS)

flood: setup  ## a million junk and spoofed connects: what they cost, and whether honest peers still get in
	$(BIN)/python -m proof flood $(ARGS)

hundred: setup  ## one bad peer of a hundred: what the others keep, and what it costs in memory
	$(BIN)/python -m proof hundred $(ARGS)

neighbour: setup  ## a neighbour that sends the worst its key permits, for ten minutes: what an honest one keeps, and the memory
	$(BIN)/python -m proof neighbour $(ARGS)

lint: setup  ## check style (ruff), form (ruff format) and types (mypy strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p triack -p tests -p proof

format: $(VENV)/lock.stamp  ## put the code in form and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(VENV)/lock.stamp  ## resolve the dependencies again and write requirements/*.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --all-extras --group dev pyproject.toml --output-file requirements/lock.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --constraints requirements/lock.txt requirements/build.in \
		--output-file requirements/build.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group pyproject.toml:fuzz --output-file requirements/fuzz.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group pyproject.toml:supply --output-file requirements/supply.txt

# The same sources give the same files, bit by bit: see setup.py.
build: $(VENV)/lock.stamp  ## make the wheel and the source archive in dist
	rm -rf build/lib* build/temp* build/bdist.* triack.egg-info dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m build --no-isolation
	rm -rf build/lib* build/temp* build/bdist.* triack.egg-info

# What a user may install with every extra, and what the tests are run with: all of it is in the lock.
sbom: $(SUPPLY)/supply.stamp  ## write what Triack is made of, as the lock has it, to dist/triack.cdx.json (CycloneDX)
	@mkdir -p dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(SUPPLY)/bin/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
		--mc-type library --output-file dist/triack.cdx.json requirements/lock.txt

# --strict: a package that could not be looked up is no package without a fault. It asks pypi.org, so no part of .ci/run.
audit: $(SUPPLY)/supply.stamp  ## look each package of the lock up among known vulnerabilities; needs pypi.org
	$(SUPPLY)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/lock.txt

clean:  ## remove everything that make made, .venv included
	rm -rf $(VENV) build dist triack.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(FOLDERS) tests -name '__pycache__' -type d -prune -exec rm -rf {} +

# `--universal`: one lock for every platform and Python from 3.11 on. Nothing in it says where packages come from.
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make lock' --quiet --upgrade

$(VENV)/pyvenv.cfg:
	tools/setup/venv.sh '$(PYTHON)' $(VENV)

# --no-build-isolation: a dependency that comes as source is built with the locked tools, not with fresh ones.
$(VENV)/lock.stamp: requirements/build.txt requirements/lock.txt | $(VENV)/pyvenv.cfg
	$(PIP) install --quiet --require-hashes -r requirements/build.txt
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/lock.txt
	@touch $@

# What lets the Java of the tests start quickly: half a minute, until libraries change.
$(VENV)/spark.jsa: $(VENV)/lock.stamp tests/java.py | setup
	$(BIN)/python -m tests.java $@

# Not in every .venv: a large package with wheels for few machines, which only `make fuzz` needs.
$(VENV)/fuzz.stamp: requirements/fuzz.txt $(VENV)/lock.stamp
	$(PIP) install --quiet --require-hashes -r requirements/fuzz.txt
	@touch $@

$(SUPPLY)/supply.stamp: requirements/supply.txt | $(VENV)/pyvenv.cfg
	$(BIN)/python -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes -r requirements/supply.txt
	@touch $@

# The stamp carries the time from before the build, so that a file saved meanwhile is not missed. What an earlier
# build left is removed first: setuptools would put a deleted module in the wheel again.
$(VENV)/project.stamp: $(VENV)/lock.stamp $(SOURCES)
	@touch $@.new
	@rm -rf build/lib* build/temp* build/bdist.* triack.egg-info
	$(PIP) install --quiet --no-deps --no-index --no-build-isolation --force-reinstall .
	@rm -rf build/lib* build/temp* build/bdist.* triack.egg-info
	$(PIP) check
	@mv $@.new $@
