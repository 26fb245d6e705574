# make dataset    convert the examples, or your own takes: make dataset INPUT=sessions OUTPUT=dataset
# make test       run the quick tests; make test-all, all of them
# make help       list all targets

SHELL := /bin/bash
# A registry that fails for some minutes should not fail the build: pip waits longer after each attempt, about eight minutes in all.
export PIP_RETRIES ?= 12
BEGAN := $(shell date +%s)
# What the make command has taken since it was started.
TOOK = echo "make $@: $$(($$(date +%s) - $(BEGAN))) s on $$(nproc) cores"
PREFIX ?= /usr/local
SECONDS ?= 60
TARGET ?=
INPUT ?= build/examples/sessions
OUTPUT ?= build/dataset
PIPELINE ?=
JOBS ?=
TAKESET := .build/release/takeset
# Where the server is built; CI names a folder outside the clone, so that the next one finds what the server depends on.
SERVER_BUILD ?= server/.build
SERVER := $(SERVER_BUILD)/release/takeset-server
SERVER_TESTS := Tests/server
STATIC := build/static
LIBRARIES := build/libraries
PACKAGES := build/packages
VENV := .build/venv
PYTHON := $(VENV)/bin/python
TESTS := not slow
# Tests wait for processes and disks, so one more process than there are processors.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# Half of what the tests of the server do is to wait.
SERVER_WORKERS ?= $(shell echo $$((2 * $$(nproc) + 1)))
# LeRobot needs Python 3.12; its tests are skipped where there is none. A name on PATH need not run.
LEROBOT_PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3,$(shell $(name) -c 'import sys; sys.version_info >= (3, 12) and print(sys.executable)' 2>/dev/null)))

NERFSTUDIO_PYTHON ?= $(shell python3.10 -c 'import sys; print(sys.executable)' 2>/dev/null)

.PHONY: docs site test-loaders test-cluster help deps test-deps build revision examples dataset test torture bench fuzz sanitize install generate format lint clean check-apple
.PHONY: comparison closed-loop closed-loop-deps test-closed-loop
.PHONY: ci-deps test-build test-server-deps server server-test-build test-server-swift serve fuzz-builds test-server test-all torture-server test-swift test-recorder test-python ci nightly test-stress
.PHONY: static libraries wheel deb tarball packages test-packages static-server server-deb

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

deps: ## install the system packages that are missing (apt-get)
	@scripts/install-packages

revision:
	@scripts/write-revision

# What the tests import is visible in the command, too, so that both are compiled once; it is as fast.
SWIFT_BUILD := -c release -Xswiftc -enable-testing
# SWIFT_FILTER is a pattern of names, from the environment, because it has characters of the shell.
SWIFT_TEST = $(SWIFT_TEST_FLAGS) $${SWIFT_FILTER:+--filter "$$SWIFT_FILTER"}

build: deps revision ## build the release binary
	swift build $(SWIFT_BUILD) --product takeset

examples: build ## simulate the example sessions
	@scripts/make-examples $(TAKESET) build/examples/sessions

dataset: build ## convert the examples, or INPUT= into OUTPUT= [PIPELINE=file] [JOBS=n]
	@if [ "$(INPUT)" = build/examples/sessions ]; then scripts/make-examples $(TAKESET) build/examples/sessions; fi
	$(TAKESET) run $(INPUT) --output $(OUTPUT) $(if $(PIPELINE),--pipeline $(PIPELINE)) $(if $(JOBS),--jobs $(JOBS))
	@$(TOOK)

test-deps: deps
	@scripts/install-packages python3 python3-dev python3-venv ffmpeg gcc strace chromium
	@scripts/make-venv $(VENV) Tests/python/requirements.txt

test: ## run the Swift tests, then the quick Python ones against the built command
	@$(MAKE) --no-print-directory -j 2 test-build test-deps
	@$(MAKE) --no-print-directory -j 1 test-swift test-recorder test-python TESTS="$(TESTS)"
	@$(TOOK)

test-build: build
	swift build $(SWIFT_BUILD) --build-tests

test-swift: test-build
	swift test $(SWIFT_BUILD) --disable-xctest --skip-build $(SWIFT_TEST)

test-recorder: deps
	swift test $(SWIFT_BUILD) --disable-xctest --package-path recorder $(SWIFT_TEST)

test-python: test-deps build
	TAKESET=$(abspath $(TAKESET)) $(PYTHON) -m pytest -q -n $(WORKERS) --durations 15 --durations-min 2 -m "$(TESTS)" $(PYTEST_FLAGS) Tests/python

check-apple: ## type-check the recorder's adapters of Apple's frameworks
	@scripts/check-apple

docs: deps revision ## build the reference of the library's code into build/docs (DocC)
	@scripts/make-docs build/docs

site: ## make a site of the documents into build/site, with checked links; python3 -m http.server -d build/site shows it
	@scripts/install-packages python3 python3-venv
	@scripts/make-venv build/site-venv docs/site/requirements.txt
	@build/site-venv/bin/python scripts/make-site build/site

CLOSED_LOOP := build/closed-loop
CLOSED_LOOP_PYTHON := build/closed-loop-venv/bin/python

closed-loop-deps: deps
	@scripts/install-packages python3 python3-venv libosmesa6
	@scripts/make-venv build/closed-loop-venv examples/closed-loop/requirements.txt

closed-loop: build closed-loop-deps ## train policies on simulated takes by several loaders and count how often each does the task [MISTAKES=1]
	rm -rf $(CLOSED_LOOP)
	PYTHONPATH=python $(CLOSED_LOOP_PYTHON) examples/closed-loop/compare.py $(CLOSED_LOOP) --takeset $(abspath $(TAKESET)) $(if $(MISTAKES),--mistakes)

test-closed-loop: build closed-loop-deps ## the closed loop with few takes, one seed and few attempts
	TAKESET=$(abspath $(TAKESET)) $(CLOSED_LOOP_PYTHON) -m pytest -q $(PYTEST_FLAGS) Tests/closed-loop

test-loaders: test-deps build ## run what needs large packages of others (PyTorch, robomimic, LeRobot, Rerun)
	@scripts/make-venv build/loaders-venv Tests/python/requirements.txt Tests/python/requirements-loaders.txt
	@build/loaders-venv/bin/pip install -q --disable-pip-version-check --no-deps robomimic==0.3.0
	$(if $(LEROBOT_PYTHON),@PYTHON=$(LEROBOT_PYTHON) scripts/make-venv build/lerobot-venv Tests/python/requirements-lerobot.txt)
	TAKESET=$(abspath $(TAKESET)) build/loaders-venv/bin/python -m pytest -q -m loaders Tests/python

test-cluster: test-deps build ## run the tests of clusters: a Slurm of three nodes, Ray, Kubernetes' files, object storage
	@scripts/install-packages slurm-wlm slurmctld slurmd slurm-client munge
	@scripts/make-venv build/cluster-venv Tests/python/requirements.txt Tests/python/requirements-cluster.txt
	TAKESET=$(abspath $(TAKESET)) build/cluster-venv/bin/python -m pytest -q -m "(cluster or not cluster) and not torture" Tests/python/runs/test_cluster*.py Tests/python/runs/test_batch.py

bench: build ## compare with the peers in Benchmarks/
	@scripts/install-packages python3 python3-venv ffmpeg
	@scripts/make-venv .build/bench-venv Tests/python/requirements.txt Benchmarks/requirements.txt
	.build/bench-venv/bin/python Benchmarks/run.py --work build/bench

comparison: build ## convert the same recordings with LeRobot, nerfstudio and scripts, and measure what is off: docs/comparison.md
	@scripts/install-packages python3 python3-venv ffmpeg
	@scripts/make-venv .build/bench-venv Tests/python/requirements.txt Benchmarks/requirements.txt
	$(if $(LEROBOT_PYTHON),@PYTHON=$(LEROBOT_PYTHON) scripts/make-venv build/comparison-lerobot Tests/python/requirements-lerobot.txt Benchmarks/comparison/requirements-lerobot.txt)
	$(if $(NERFSTUDIO_PYTHON),@PYTHON=$(NERFSTUDIO_PYTHON) scripts/make-venv build/comparison-nerfstudio Benchmarks/comparison/requirements-nerfstudio.txt)
	.build/bench-venv/bin/python Benchmarks/comparison/compare.py build/comparison $(if $(LEROBOT_PYTHON),--lerobot build/comparison-lerobot/bin/python) \
	  $(if $(NERFSTUDIO_PYTHON),--nerfstudio build/comparison-nerfstudio/bin/python)
	.build/bench-venv/bin/python Benchmarks/comparison/two_hands.py build/two-hands

torture: test-deps build ## kill runs hundreds of times, fail every system call, fill disks, cut the power, convert 100,000 takes, then fuzz: some hours
	@scripts/install-packages gcc e2fsprogs nbdkit libnbd-bin slurm-wlm slurmctld slurmd slurm-client munge
	TAKESET_ALL=1 TAKESET_FLIPS=1000 TAKESET_SYSCALLS=1 TAKESET=$(abspath $(TAKESET)) $(PYTHON) -m pytest -q -n auto -m "torture or cluster or not torture" \
	  Tests/python/runs/test_torture.py Tests/python/runs/test_failing_disk.py Tests/python/runs/test_batch.py \
	  Tests/python/runs/test_isolation.py Tests/python/runs/test_fork_server.py Tests/python/runs/test_isolation_same.py Tests/python/runs/test_many_files.py Tests/python/runs/test_kills.py \
	  Tests/python/runs/test_full_disk.py Tests/python/runs/test_changing_inputs.py Tests/python/runs/test_syscalls.py Tests/python/dataset/test_flips.py \
	  Tests/python/runs/test_scale.py Tests/python/package/test_training_scale.py Tests/python/transforms/test_random_pipelines.py
	$(MAKE) fuzz SECONDS=60 TARGET=

# The compiler heeds only the last of several -sanitize options, and those of --sanitize come in any order. Optimized, but file by file: with the instructions for coverage and addresses, a whole module takes several times as long to build.
fuzz: build ## fuzz the parsers with libFuzzer, each for SECONDS=60 [TARGET=name]
	TAKESET_FUZZ=1 swift build --sanitize fuzzer --sanitize address -Xswiftc -sanitize=fuzzer,address -Xswiftc -O -Xcc -O1 --product fuzz --scratch-path build/fuzz-build
	@mkdir -p build/fuzz && cp build/fuzz-build/debug/fuzz build/fuzz/
	@scripts/make-fuzz-seeds $(TAKESET) build/fuzz
	scripts/fuzz build/fuzz/fuzz build/fuzz $(SECONDS) $(TARGET)

sanitize: deps revision ## run the Swift tests with the sanitizers of addresses and of threads
	LSAN_OPTIONS=suppressions=$(abspath scripts/leak-sanitizer.suppressions) swift test --disable-xctest --sanitize=address --scratch-path build/sanitize-address
	TSAN_OPTIONS=suppressions=$(abspath scripts/thread-sanitizer.suppressions) swift test --disable-xctest --sanitize=thread --scratch-path build/sanitize-thread

install: build ## install the binary, its man page and completions below PREFIX=/usr/local; the server, too, if it was built
	install -D -m 755 $(TAKESET) $(DESTDIR)$(PREFIX)/bin/takeset
	install -D -m 644 docs/takeset.1 $(DESTDIR)$(PREFIX)/share/man/man1/takeset.1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(TAKESET) --generate-completion-script bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/takeset
	$(TAKESET) --generate-completion-script zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_takeset
	$(TAKESET) --generate-completion-script fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/takeset.fish
	if [ -x $(SERVER) ]; then \
	  install -D -m 755 $(SERVER) $(DESTDIR)$(PREFIX)/bin/takeset-server; \
	  install -D -m 644 packaging/server/takeset-server.1 $(DESTDIR)$(PREFIX)/share/man/man1/takeset-server.1; \
	fi

# The command with the Swift runtime inside, which runs without a toolchain.
static: deps revision
	swift build -c release --product takeset --static-swift-stdlib --scratch-path $(STATIC) -Xcc -ffile-prefix-map=$(CURDIR)=.

# FFmpeg and HDF5 for packages that carry them. Their sources have to be published with the packages.
libraries: deps
	@scripts/install-packages build-essential nasm patchelf xz-utils python3 python3-venv
	@packaging/build-libraries $(LIBRARIES)
	@mkdir -p $(PACKAGES)/sources && cp $(LIBRARIES)/sources/* $(PACKAGES)/sources/

wheel: static libraries ## build a wheel for pip into build/packages: the Python package, the command and its libraries
	@scripts/make-venv build/package-venv packaging/requirements.txt
	@rm -rf build/pure-wheel
	@build/package-venv/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir build/pure-wheel ./python
	@packaging/make-wheel $(STATIC)/release/takeset $(STATIC)/checkouts $(LIBRARIES) build/pure-wheel/*.whl $(PACKAGES)

deb: static ## build a Debian package into build/packages
	@scripts/install-packages build-essential patchelf xz-utils python3
	@packaging/make-deb $(STATIC)/release/takeset $(STATIC)/checkouts $(PACKAGES)

tarball: static libraries ## build an archive that runs wherever it is unpacked into build/packages
	@packaging/make-tarball $(STATIC)/release/takeset $(STATIC)/checkouts $(LIBRARIES) $(PACKAGES)

static-server: deps
	swift build --package-path server -c release --product takeset-server --static-swift-stdlib --scratch-path $(STATIC)-server -Xcc -ffile-prefix-map=$(CURDIR)=.

server-deb: static-server ## build a Debian package of the capture server, with a service of systemd
	@scripts/install-packages build-essential patchelf xz-utils python3
	@packaging/make-server-deb $(STATIC)-server/release/takeset-server $(STATIC)-server/checkouts $(PACKAGES)

packages: wheel deb tarball server-deb

test-packages: packages test-deps build ## install each package in a bare system and convert takes there
	@scripts/install-packages debootstrap lintian
	TAKESET=$(abspath $(TAKESET)) $(PYTHON) -m pytest -q -m packages Tests/python

SERVER_PACKAGE := --package-path server --scratch-path $(SERVER_BUILD) -c release

server: deps ## build the capture server, server/.build/release/takeset-server
	swift build $(SERVER_PACKAGE) --product takeset-server

serve: build server ## receive captures: make serve [DATA=build/server]
	$(SERVER) serve --data $(or $(DATA),build/server)

# The tests by their product: --build-tests may build all that the packages of others hold, too.
server-test-build: server
	swift build $(SERVER_PACKAGE) --product takeset-serverPackageTests

test-server-swift: server-test-build ## test what the server decides, without a socket
	swift test $(SERVER_PACKAGE) --disable-xctest --skip-build $(SWIFT_TEST)

test-server-deps: deps
	@scripts/install-packages python3 python3-venv ffmpeg chromium
	@scripts/make-venv .build/server-venv Tests/server/requirements.txt

test-server: build server test-server-deps ## test the server by curl-like clients, phones and browsers that are simulated
	SERVER=$(abspath $(SERVER)) TAKESET=$(abspath $(TAKESET)) .build/server-venv/bin/python -m pytest -q -n $(SERVER_WORKERS) --dist loadfile --durations 15 -m "not slow" $(PYTEST_FLAGS) $(SERVER_TESTS)

fuzz-builds: build
	TAKESET_FUZZ=1 swift build $(SWIFT_BUILD) --target fuzz

test-all: TESTS = slow or not slow
test-all: test test-closed-loop test-server-swift test-server ## run all tests of the command, also the slow ones, then those of the server
	@$(TOOK)

ci-deps: test-deps closed-loop-deps test-server-deps

ci: ## run what must pass before a change lands: lint and all tests, of which at most three get a second chance
	@scripts/run-stages

test-stress: TESTS = slow or not slow
test-stress: build server ## run all tests twice beside four busy processes, which also take memory bandwidth
	@scripts/install-packages stress-ng
	scripts/under-stress $(MAKE) test test-server TESTS="$(TESTS)"
	scripts/under-stress $(MAKE) test test-server TESTS="$(TESTS)"
	@$(TOOK)

nightly: fuzz-builds site closed-loop test-stress torture-server ## run what finds no regression of a landing, or takes too long for one
	TAKESET_ALL=1 $(MAKE) test-python TESTS=slow
	@$(TOOK)

torture-server: SERVER_TESTS = Tests/server -m slow
torture-server: test-server ## kill the server a hundred times under load, fill its disk, and so on: half an hour

generate: build ## regenerate the documents that are generated from code
	$(TAKESET) generate-documents .

format: ## format the Swift code
	swift format --in-place --recursive --parallel Sources Tests Fuzz Package.swift recorder server/Sources server/Tests server/Package.swift

lint: ## check the format of the Swift code, and the scripts, styles and templates of the pages
	swift format lint --strict --recursive --parallel Sources Tests Fuzz Package.swift recorder server/Sources server/Tests server/Package.swift
	@scripts/install-packages python3 python3-venv
	@scripts/make-venv .build/lint-venv Tests/lint-requirements.txt
	@.build/lint-venv/bin/python scripts/lint-pages

clean: ## remove build products
	rm -rf .build build server/.build
