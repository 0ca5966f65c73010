# `make demo` shows the project, `make test` tests it. Each target installs what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
FUZZ_SECONDS ?= 300
SOAK_SECONDS ?= 300
ATTACK_SECONDS ?= 30
# The lowest coverage in percent by tests that run in one process: of the packages without I/O, and of all packages.
COVERAGE_CORE := 97
COVERAGE := 64
CORE := 'src/twopipes/*.py,src/twopipes/_protocol/*,src/twopipes/_schema/*,src/twopipes/_session/*'
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Keep compiled files: the tests start hundreds of children, and each would compile everything again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo dist release-check test test-all coverage http gateway host sandbox quick mutants walkthrough lint types fuzz soak attack kill interop conformance scale bench bench-quick bench-check bench-profile bench-publish bench-http bench-gateway bench-hub windows windows-all rules scoreboard docs screenshots console format clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A stamp that is older than pyproject.toml may have installed something else.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Error: twopipes needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	mkdir -p $(STAMPS)

$(STAMPS)/package: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	touch $@

$(STAMPS)/dev: pyproject.toml $(STAMPS)/package
	$(BIN)/python -m pip install -q --group dev
	touch $@

$(STAMPS)/fuzz: pyproject.toml $(STAMPS)/package
	$(BIN)/python -m pip install -q --group fuzz
	touch $@

$(STAMPS)/release: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --group release
	touch $@

# The extra `cli` is for its colours.
$(STAMPS)/cli: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[cli]'
	touch $@

demo: $(STAMPS)/cli ## run one server in both eras, kill it, and show every line on its pipes; writes pages to build/demo
	@$(BIN)/python tools/demo.py build/demo

# Tests that run in one process.
UNIT_TESTS := tests/unit tests/properties tests/test_conversations.py tests/test_transcripts.py
# Only `make mutants` runs these: loading hundreds of mutants to run none of them takes seconds in every process.
MUTANT_TESTS := $(wildcard tests/check/test_*.py)
# Only `make http` runs these: attacks, and servers in processes of their own.
HTTP_TESTS := tests/hostile $(wildcard tests/processes/test_*http*.py)
# Only `make sandbox` runs these, because it installs bubblewrap first.
SANDBOX_TESTS := $(wildcard tests/processes/test_sandbox*.py)
# Only `make gateway` and `make coverage` run these: everything behind a gateway, in one process and in many.
GATEWAY_TESTS := tests/unit/gateway tests/properties/test_gateway_properties.py tests/properties/test_hub_properties.py tests/test_gateway_transcripts.py tests/test_hub_transcripts.py tests/test_hub_benchmark.py tests/unit/cli/test_hub.py tests/properties/test_search_properties.py $(filter-out $(HTTP_TESTS),$(wildcard $(addprefix tests/processes/test_,bridge*.py dev.py gateway*.py hub*.py keep*.py share*.py)))
# Only `make host` and `make coverage` run these: groups of servers, and the configuration files of hosts.
HOST_TESTS := tests/unit/host tests/unit/tools/install tests/unit/cli/test_install.py tests/processes/test_install.py tests/unit/test_blocking_group.py tests/processes/test_blocking_group.py $(wildcard tests/properties/test_group*.py tests/processes/test_group*.py)

test: $(STAMPS)/dev ## run the tests
	$(BIN)/python -m pytest -n auto --dist worksteal $(UNIT_TESTS) $(GATEWAY_TESTS:%=--ignore=%) $(HOST_TESTS:%=--ignore=%)
	@# Twice as many processes as processors: these tests start programs and wait for them.
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal $(UNIT_TESTS:%=--ignore=%) $(MUTANT_TESTS:%=--ignore=%) $(HTTP_TESTS:%=--ignore=%) $(GATEWAY_TESTS:%=--ignore=%) $(HOST_TESTS:%=--ignore=%) $(SANDBOX_TESTS:%=--ignore=%)

$(STAMPS)/nox: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --group nox
	touch $@

test-all: $(STAMPS)/nox ## run the tests with every Python that is installed, and with other event loops; SESSION=tests-3.12 runs one, TESTS=tests/unit some tests
	$(BIN)/python -m nox $(SESSION:%=--session %) $(if $(TESTS),-- $(TESTS))

http: $(STAMPS)/dev ## run the tests of HTTP with hostile peers and with real processes
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal $(HTTP_TESTS)

gateway: $(STAMPS)/dev ## run the tests of the gateway, in one process and in many
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal $(GATEWAY_TESTS)

host: $(STAMPS)/dev ## run the tests of groups of servers
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal $(HOST_TESTS)

# bubblewrap: an installed one, or Debian's package, which only root can install. Where an engine does not work, its tests are skipped
# with the reason, unless SANDBOX_REQUIRED is set.
$(STAMPS)/sandbox: pyproject.toml $(STAMPS)/dev
	{ command -v bwrap || { apt-get update -q && apt-get install -qy --no-install-recommends bubblewrap; }; } > $(STAMPS)/sandbox.log 2>&1 && touch $@ || { cat $(STAMPS)/sandbox.log; echo "bubblewrap could not be installed; its tests will be skipped."; test -z "$$SANDBOX_REQUIRED"; }

sandbox: $(STAMPS)/sandbox ## run servers in sandboxes, with every engine
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal $(SANDBOX_TESTS)

coverage: $(STAMPS)/dev ## measure branch coverage of every package by the tests that run in one process
	TWOPIPES_HYPOTHESIS=quick $(BIN)/python -m pytest -q -n auto --dist worksteal --cov --cov-report= $(UNIT_TESTS)
	$(BIN)/python -m coverage report --skip-covered --precision=1 --fail-under=$(COVERAGE_CORE) --include=$(CORE)
	$(BIN)/python -m coverage report --skip-covered --precision=1 --fail-under=$(COVERAGE)

# Two processes at once; each collects only its own tests.
QUICK_FIRST := $(addprefix tests/unit/,client http protocol session trace) tests/properties tests/test_conversations.py tests/test_transcripts.py
# What has a target of its own.
NOT_QUICK := $(addprefix --ignore=,$(HOST_TESTS) $(GATEWAY_TESTS))
QUICK := TWOPIPES_HYPOTHESIS=quick $(BIN)/python -m pytest -q -p no:cacheprovider -p no:xdist -p no:pytest_cov -m "not slow and not interop and not mutants and not walkthrough"

quick: $(STAMPS)/dev ## run unit tests, properties and conversations, in under 30 seconds
	@$(QUICK) $(QUICK_FIRST) $(NOT_QUICK) > $(STAMPS)/quick.log 2>&1 & first=$$!; \
	$(QUICK) tests/unit $(QUICK_FIRST:%=--ignore=%) $(NOT_QUICK); second=$$?; \
	wait $$first; first=$$?; cat $(STAMPS)/quick.log; exit $$((first + second))

# A Windows Python under Wine, which Debian has. Without Wine nothing is run, and the last line says so, unless WINDOWS_REQUIRED is set.
windows: $(STAMPS)/dev ## run the tests with a Windows Python under Wine, without the slowest
	$(BIN)/python tools/windows

windows-all: $(STAMPS)/dev ## run every test there; ten minutes
	$(BIN)/python tools/windows --all

mutants: $(STAMPS)/dev ## show that the check finds a mutant of every rule, and reports nothing about correct programs
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal -m mutants tests/check

walkthrough: $(STAMPS)/dev ## run the commands of the pages, the demo and a new project, and compares their output
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal -m walkthrough tests

lint: $(STAMPS)/dev types ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Each system has its own cache: mypy discards the cache of another system.
types: $(STAMPS)/dev ## mypy, strict, as on Linux, macOS and Windows
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32

rules: $(STAMPS)/dev ## list the rules of the specification and the tests that carry their ids
	@$(BIN)/python tools/rules.py

# The site can be opened from the disk: site/index.html.
$(STAMPS)/docs: pyproject.toml $(STAMPS)/package
	$(BIN)/python -m pip install -q --group docs
	touch $@

docs: $(STAMPS)/docs ## build the documentation into site/; a warning is an error
	$(BIN)/python tools/reference_pages.py
	$(BIN)/python tools/site/prepare.py
	cd build/pages && $(abspath $(BIN))/zensical build --clean --strict --config-file mkdocs.yml
	rm -rf site && mv build/pages/site site
	$(BIN)/python tools/site/search_ranks.py
	$(BIN)/python tools/site/proof.py

console: $(STAMPS)/dev ## run the console blocks of the documentation and rewrite their output; CHECK=--check only compares
	$(BIN)/python tools/console $(CHECK)

fuzz: $(STAMPS)/fuzz ## coverage-guided fuzzing of the decoder, a served connection and the client, FUZZ_SECONDS=300 each
	$(BIN)/python fuzz/fuzz_decoder.py -max_total_time=$(FUZZ_SECONDS)
	$(BIN)/python fuzz/fuzz_steps.py server -max_total_time=$(FUZZ_SECONDS)
	$(BIN)/python fuzz/fuzz_steps.py client -max_total_time=$(FUZZ_SECONDS)

soak: $(STAMPS)/package ## 50 servers, 100,000 calls, random kills and cancellations, then every attack; SOAK_SECONDS=300
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS)
	$(BIN)/python tests/soak/soak_share.py --seconds $(SOAK_SECONDS)
	$(MAKE) attack

attack: $(STAMPS)/package ## attack each promise with random timing; ATTACK_SECONDS=30 each
	@set -e; for program in tests/soak/attack_*.py; do \
	  echo "$$program --seconds $(ATTACK_SECONDS)"; $(BIN)/python $$program --seconds $(ATTACK_SECONDS); done

kill: $(STAMPS)/package ## kill clients, gateways and servers at random moments; no process may be left; SOAK_SECONDS=300
	$(BIN)/python tests/soak/attack_kills.py --seconds $(SOAK_SECONDS)
	$(BIN)/python tests/soak/attack_gateway.py --seconds $(SOAK_SECONDS)

# The other implementations, each in its own environment; `make clean` removes them. One that cannot be installed (no registry,
# no node) is reported, and its tests are skipped unless INTEROP_REQUIRED is set. The next run tries again.
PEERS := $(VENV)/peers
PYTHON_PEERS := official-2 official-1 fastmcp-4 published
# The SDKs of model APIs, and linters of files: neither servers nor clients.
SDK_PEERS := model-apis linters
NOT_INSTALLED = { echo "The peer $(notdir $(@D)) could not be installed; its tests will be skipped."; test -z "$$INTEROP_REQUIRED"; }

$(patsubst %,$(PEERS)/%/installed,$(PYTHON_PEERS) $(SDK_PEERS)): $(PEERS)/%/installed: tests/interop/peers/%.txt | $(BIN)/python
	@rm -rf $(@D)
	@$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D) install -q -r $< && touch $@ || $(NOT_INSTALLED)

$(PEERS)/npm/installed: tests/interop/peers/package.json | $(BIN)/python
	@rm -rf $(@D) && mkdir -p $(@D) && cp $< $(@D)
	npm install --prefix $(@D) --silent --no-audit --no-fund --no-package-lock --ignore-scripts && touch $@ || $(NOT_INSTALLED)

# Chromium for the HTML view: an installed one, or Debian's package, which only root can install.
CHROMIUM = command -v chromium || command -v chromium-browser || command -v google-chrome || { apt-get update -q && apt-get install -qy --no-install-recommends chromium; }

$(PEERS)/chromium/installed: pyproject.toml | $(BIN)/python
	@mkdir -p $(@D)
	$(BIN)/python -m pip install -q --group browser && { $(CHROMIUM); } > $(@D)/log 2>&1 && touch $@ || $(NOT_INSTALLED)

screenshots: docs $(PEERS)/chromium/installed ## take pictures of the site and the README in Chromium, and check their layout and the search
	$(BIN)/python tools/site_screenshots.py

# sshd and socat for the commands of docs/howto/other-channels.md: installed ones, or Debian's packages, which only root can install. The
# tests start their own sshd, so the service of the package stays off.
SSHD = PATH=$$PATH:/usr/sbin; { command -v sshd && command -v ssh && command -v socat; } || { apt-get update -q && { command -v sshd || off=ssh; RUNLEVEL=1 apt-get install -qy --no-install-recommends openssh-server openssh-client socat; } && { test -z "$$off" || systemctl disable ssh.service ssh.socket || true; }; }

$(PEERS)/sshd/installed: | $(BIN)/python
	@mkdir -p $(@D)
	{ $(SSHD); } > $(@D)/log 2>&1 && touch $@ || $(NOT_INSTALLED)

$(PEERS)/asgi/installed: pyproject.toml | $(BIN)/python
	@mkdir -p $(@D)
	$(BIN)/python -m pip install -q --group asgi && touch $@ || $(NOT_INSTALLED)

interop: $(STAMPS)/dev $(patsubst %,$(PEERS)/%/installed,$(PYTHON_PEERS) $(SDK_PEERS)) $(PEERS)/npm/installed $(PEERS)/chromium/installed $(PEERS)/sshd/installed $(PEERS)/asgi/installed ## run the tests against other implementations
	$(BIN)/python -m pytest -n auto --dist loadfile -m interop tests/interop tests/test_readme_steps.py

# Redis and nginx: installed ones, or Debian's packages, which only root can install. RUNLEVEL=1 keeps them from being started as
# services. Without them the tests are skipped unless SCALE_REQUIRED is set.
SCALE_PROGRAMS = PATH=$$PATH:/usr/sbin; { command -v redis-server && command -v nginx; } || { apt-get update -q && RUNLEVEL=1 apt-get install -qy --no-install-recommends redis-server nginx-light; }

$(STAMPS)/scale: pyproject.toml $(STAMPS)/dev
	{ $(SCALE_PROGRAMS); } > $(STAMPS)/scale.log 2>&1 && touch $@ || { cat $(STAMPS)/scale.log; echo "Redis or nginx could not be installed; tests will be skipped."; test -z "$$SCALE_REQUIRED"; }

scale: $(STAMPS)/scale ## run several processes of a server with a real Redis and nginx
	$(BIN)/python -m pytest -m scale tests/scale

# The official conformance suite runs on Node.js 22 or newer, which comes from the same registry.
CONFORMANCE := $(VENV)/conformance

$(CONFORMANCE)/installed: tests/conformance/package.json | $(BIN)/python
	@rm -rf $(@D) && mkdir -p $(@D) && cp $< $(@D)
	npm install --prefix $(@D) --loglevel error --no-audit --no-fund --no-package-lock --ignore-scripts
	touch $@

conformance: $(STAMPS)/dev $(CONFORMANCE)/installed ## run the official conformance suite on our server, alone and behind a bridge, and our client over HTTP
	$(BIN)/python -m pytest -m conformance tests/conformance

# A peer that is not installed keeps its previous score.
SCOREBOARD_PEERS := $(PYTHON_PEERS:%=$(PEERS)/%/installed) $(PEERS)/npm/installed

scoreboard: $(STAMPS)/dev $(SCOREBOARD_PEERS) ## run twopipes check on other servers and clients, and on ours; 15 minutes
	$(BIN)/python tools/scoreboard

# The measured package has its own environment: other packages in it would add to its start-up time.
BENCH := $(VENV)/bench
BENCH_PEERS := $(PEERS)/official-2/installed $(PEERS)/fastmcp-4/installed $(PEERS)/npm/installed

$(BENCH)/ours/installed: pyproject.toml $(shell find src -name '*.py') | $(BIN)/python
	@rm -rf $(@D)
	@$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D) install -q .
	touch $@

$(STAMPS)/bench: pyproject.toml $(STAMPS)/package
	$(BIN)/python -m pip install -q --group bench
	touch $@

bench: $(STAMPS)/bench $(BENCH)/ours/installed $(BENCH_PEERS) ## compare with other implementations, as ratios of one run; 15 minutes
	$(BIN)/python benchmarks/bench.py --plots benchmarks/results

bench-quick: $(STAMPS)/package $(BENCH)/ours/installed $(BENCH_PEERS) ## the same in three minutes
	$(BIN)/python benchmarks/bench.py --quick

bench-check: $(STAMPS)/package $(BENCH)/ours/installed $(BENCH_PEERS) ## compare a quick run with the committed ratios
	$(BIN)/python benchmarks/bench.py --quick --check benchmarks/results.json

bench-profile: $(STAMPS)/package $(BENCH)/ours/installed ## profile time and memory of our server, and write the tables of the page
	$(BIN)/python benchmarks/profiling.py

bench-publish: $(STAMPS)/bench $(BENCH)/ours/installed $(BENCH_PEERS) ## make two full runs, and write the committed ratios, the page and the README
	$(BIN)/python benchmarks/bench.py --json benchmarks/results/first.json
	$(BIN)/python benchmarks/bench.py --json benchmarks/results/second.json
	$(BIN)/python benchmarks/publish.py benchmarks/results/first.json benchmarks/results/second.json

# A clean environment again; the ASGI servers that are not part of the extra are only for `--asgi`.
$(BENCH)/http/installed: pyproject.toml $(shell find src -name '*.py') | $(BIN)/python
	@rm -rf $(@D)
	@$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D) install -q '.[http]'
	touch $@

bench-http: $(STAMPS)/package $(BENCH)/http/installed $(BENCH_PEERS) ## compare servers over HTTP, and write the page; 6 minutes
	$(BIN)/python benchmarks/http_bench.py --publish

bench-gateway: $(STAMPS)/package $(BENCH)/ours/installed ## measure what bridge and keep add to a direct connection, and write the page; 6 minutes
	$(BIN)/python benchmarks/gateway_bench.py --publish

bench-hub: $(STAMPS)/package $(BENCH)/ours/installed ## measure a hub in front of 20 servers and 500 tools, and write the page; 3 minutes
	$(BIN)/python benchmarks/hub_bench.py --publish

dist: $(STAMPS)/release ## build the sdist and the wheel into dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

release-check: dist ## check their content and what they install, and run the tests on the installed wheel
	$(BIN)/python tools/release_check.py dist

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove everything the other targets made
	rm -rf $(VENV) .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov dist build site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
