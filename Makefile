# The same lines that CI runs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Without compiled bytecode each run compiles all tests again, which takes a third of the time that they run.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
BIN := $(VENV)/bin
# The first interpreter that is claimed to work; give one with `make PYTHON=python3.12 …`.
CLAIMED := $(shell sed -nE 's/^requires-python = ">=([0-9.]+),<([0-9.]+)"/\1 \2/p' pyproject.toml)
FITS = -c 'import sys; low, end = (tuple(map(int, text.split("."))) for text in sys.argv[1:3]); sys.exit(not low <= sys.version_info < end)' $(CLAIMED)
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" $(FITS) 2>/dev/null && echo "$$python" && break; done)
# Two workers: the machine that the time limits are stated for has two cores.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile
# For tests that mostly wait for programs of their own.
WAITING := $(BIN)/python -m pytest -n 4 --dist worksteal
SLOWEST := --durations=10 --durations-min=5
# The tiers that need more than Python and Debian's redis.
ALONE := not long and not redis_server and not control_plane and not backends and not engine and not aws and not node and not ray and not serving
FAST := not process and not whole and not redis and $(ALONE)
# Each tier names its folders, since collecting all tests takes a worker 20 s.
PLAIN := tests/unit tests/components tests/contracts tests/properties tests/golden tests/aws

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*## .*/\1/p' Makefile)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | while IFS='|' read -r name text; do printf '  make %-23s %s\n' "$$name" "$$text"; done

demo: setup ## one customer end to end: check, render, live, serve, replay; writes out/demo/report.html
	@$(BIN)/ebbtide demo

test-demo: setup ## the demo, and whether README and tutorial show what it prints
	@mkdir -p out
	@$(BIN)/ebbtide demo | tee out/demo.txt
	@$(BIN)/python -m tools.docs.shown out/demo.txt

test: setup ## what to run while editing, about two minutes: needs only Python and starts no program
	@$(PYTEST) -m "$(FAST)" $(PLAIN) tests/engine

test-process: setup ## what starts programs or servers: Redis, RQ, commands, promtool
	@EBBTIDE_EXAMPLES=full $(BIN)/python -m pytest -n 3 --dist loadfile -m "(process or redis) and $(ALONE)" $(PLAIN) tests/checkpoints tests/harness

test-whole: setup ## what takes long and starts no program: properties with all their examples, recordings of whole stacks
	@EBBTIDE_EXAMPLES=full $(PYTEST) -m "(whole or hypothesis) and not process and not redis and $(ALONE)" $(PLAIN) tests/checkpoints tests/harness

test-smoke: setup ## a part of the fast tier, for another Python than its own
	@$(PYTEST) -m "$(FAST)" tests/contracts tests/unit/cli tests/unit/lab/simulator tests/unit/vocabulary

coverage: setup ## the fast tier, and how much of each package it runs; writes out/coverage/
	@rm -rf out/coverage && mkdir -p out/coverage
	@$(BIN)/coverage run -m pytest -n 2 --dist loadfile -m "$(FAST)"
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet
	@$(BIN)/coverage json --quiet -o out/coverage/files.json
	@$(BIN)/python tools/coverage_by_package.py out/coverage/files.json | tee out/coverage/packages.md

test-redis: setup ## TLS, Sentinel and failover: needs Debian's redis-server and redis-sentinel
	@$(WAITING) -m "redis_server and not long" tests/redis_faults

test-backends: setup ## each job framework's real workers, in an environment of its own
	@$(BIN)/python -m tests.backends.environments >/dev/null
	@$(WAITING) -m "backends and not long" tests/backends tests/checkpoints tests/unit/jobs

test-rabbitmq: setup ## of these, Celery on a real RabbitMQ: faults, TLS, rights, and stops at random instants
	@$(BIN)/python -m tests.backends.environments celery >/dev/null
	@$(WAITING) -m "rabbitmq and not long" tests/backends/rabbitmq

test-ray: setup .venvs/ray/.installed ## real Ray 2.60: a queue's workers drive it, its workers drain, and its demand brings nodes
	@$(BIN)/python -m pytest -n 2 --dist loadfile -rs $(SLOWEST) -m "ray and not long" tests/ray

test-engine: setup ## the whole program on Pulumi's engine, with a stand-in for AWS: needs a `pulumi` CLI, skips without
	@$(BIN)/python -m pytest -rs -m "engine and not long" tests/engine

test-engine-part: setup ## one stack of it: an `up`, and a second one that changes nothing
	@$(BIN)/python -m pytest -rs -m "engine and every_run" tests/engine

test-aws: setup .venvs/aws/.installed ## every stack's AWS resources, seen by HashiCorp's AWS provider: needs that program, skips without
	@$(BIN)/python -m pytest -rs -m "aws and not pulumi_cli and not long" tests/aws

test-aws-engine: setup .venvs/aws/.installed ## a stack's life with that provider on Pulumi's engine: needs a `pulumi` CLI too, skips without
	@$(BIN)/python -m pytest -rs -m "pulumi_cli and not long" tests/aws

test-control-plane: setup ## a real control plane with KWOK nodes: needs Go, which builds it once (11 minutes)
	@$(BIN)/python tools/control-plane/build.py --ray --karpenter --monitoring
	@$(PYTEST) -n 4 --no-loadscope-reorder $(SLOWEST) -m "control_plane and not long" tests/control_plane # four: they also wait

test-serving: setup ## models served by the bundled parts on a control plane, in a network of their own: needs Go, which builds them once (40 minutes)
	@$(BIN)/python tools/control-plane/build.py --serving
	@$(BIN)/python -m tests.serving -rs $(SLOWEST) -m "serving and not long"

test-node: setup ## the stack on real nodes of this machine: needs root, Go and Debian's container packages, or skips
	@$(BIN)/python tools/control-plane/build.py --nodes
	@$(PYTEST) -rs $(SLOWEST) -m "node and not long" tests/node # two clusters beside each other, in each of which tests are serial

test-node-part: setup ## a part of it: a busy worker ends its job when told to stop, a pod moves at night and none by day
	@$(BIN)/python -m pytest -rs $(SLOWEST) -m "node and every_run" tests/node

image: setup ## build the controller's image from the Dockerfile, without a registry, and check it: needs what test-node needs
	@$(BIN)/python -m control_plane.nodes.images
	@$(BIN)/python -m pytest -q -rs -m node tests/node/test_image.py

test-long: setup .venvs/aws/.installed ## the big counts of the tiers without a control plane (EBBTIDE_LONG=part: those that CI runs)
	@$(BIN)/python -m tests.backends.environments >/dev/null # before two processes need them
	@$(BIN)/python -m pytest -n 2 -m "long and not control_plane and not node and not aws and not serving"
	@$(BIN)/python -m pytest -rs -m "aws and long"
	@$(BIN)/python -m pytest -rs -m "node and long" # where this machine can hold nodes

test-long-control-plane: setup ## the big counts on the real control plane (EBBTIDE_LONG=part: those that CI runs)
	@$(BIN)/python tools/control-plane/build.py
	@$(PYTEST) -m "long and control_plane"

test-long-serving: setup ## a step of load by each kind of metric, and parts of the serving tier away for five minutes each: needs what test-serving needs
	@$(BIN)/python tools/control-plane/build.py --serving
	@$(BIN)/python -m tests.serving -rs -m "serving and long"

check: setup ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

check-workflows: ## lint the workflows of .github with actionlint: needs Go
	@go -C tools/workflows tool actionlint -shellcheck= -pyflakes= $(abspath $(wildcard .github/workflows/*.yml))

bench: setup ## time what the figures are quoted for (45 min); writes out/bench.json
	@$(BIN)/python tools/control-plane/build.py --monitoring
	@$(BIN)/python -m benchmarks

setup: $(VENV)/.installed ## the virtual environment, from hashes, with compiled bytecode

$(VENV)/.installed: tools/locks/dev.txt pyproject.toml ebbtide/jobs/__init__.py
	@test -n "$(PYTHON)" || { echo "Ebbtide needs Python $(word 1,$(CLAIMED)) or newer, but below $(word 2,$(CLAIMED)), with venv; none was found on PATH (give one: make PYTHON=/path/to/python3 …)" >&2; exit 2; }
	@"$(PYTHON)" $(FITS) || { echo "Ebbtide needs Python $(word 1,$(CLAIMED)) or newer, but below $(word 2,$(CLAIMED)); $(PYTHON) is $$("$(PYTHON)" -V 2>&1 || true)" >&2; exit 2; }
	@echo "setting up $(VENV) (once; 1-2 minutes)"
	@[ -x "$(BIN)/pip" ] || "$(PYTHON)" -m venv "$(VENV)" || { echo "$(PYTHON) could not make a virtual environment: is its venv module installed (on Debian: python3-venv)?" >&2; exit 2; }
	@$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --no-compile --require-hashes --requirement tools/locks/dev.txt \
		| sed -un 's/^Collecting \([^ ]*\).*/  \1/p; s/^Installing collected packages.*/installing these packages/p'
	@echo "installing ebbtide, compiling bytecode"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
	@touch $@

jobs-wheel: setup ## the distribution for worker images: writes dist/ebbtide_jobs-*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist ebbtide/jobs

wheel: setup ## the distribution for a team's own repository: writes dist/ebbtide-*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

docs: .venvs/docs/.installed ## the documents as a site, in out/site; a dead link or anchor fails
	@.venvs/docs/bin/python tools/docs/site.py

.venvs/%/.installed: tools/locks/%.txt
	@"$(PYTHON)" -m venv .venvs/$*
	@.venvs/$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

schema: setup ## rewrite what follows from the code: docs/*.schema.json, the tables of docs/reference
	@$(BIN)/python -m tools.docs.policy_ids
	@$(BIN)/python -m tools.docs.reference

golden: setup ## rewrite the golden files and name those that changed: what is rendered, estimated, shown and named
	@$(BIN)/python -m tests.golden --accept

lock: ## pin the dependencies again, with hashes and without addresses; LOCK=--upgrade takes the newest (needs uv)
	uv pip compile --quiet $(LOCK) --universal --generate-hashes --no-emit-index-url --python-version $(word 1,$(CLAIMED)) --extra dev \
		--custom-compile-command "make lock" pyproject.toml --output-file tools/locks/dev.txt # dev names all others, but for Ray's 400 MB
	uv pip compile --quiet $(LOCK) --universal --generate-hashes --no-emit-index-url --no-annotate --python-version $(word 1,$(CLAIMED)) \
		--custom-compile-command "make lock" --constraint tools/locks/dev.txt --extra aws --extra controller --extra policies --extra provision --extra simulate \
		pyproject.toml --output-file tools/locks/project.txt # what ebbtide init writes into a team's repository
	# The image leaves out the asynchronous client, and with it these packages. Not async-timeout: redis imports it below 3.11.3.
	uv pip compile --quiet $(LOCK) --universal --generate-hashes --no-emit-index-url --no-annotate --python-version $(word 1,$(CLAIMED)) \
		--custom-compile-command "make lock" --constraint tools/locks/dev.txt \
		$(foreach package,aiohttp aiohttp-retry aiohappyeyeballs aiosignal frozenlist multidict propcache yarl attrs,--no-emit-package $(package)) \
		tools/locks/controller.in --output-file tools/locks/controller.txt
	for backend in rq rq2 celery list; do \
		uv pip compile --quiet $(LOCK) --universal --generate-hashes --no-emit-index-url --python-version $(word 1,$(CLAIMED)) \
			--custom-compile-command "make lock" $$([ "$$backend" = list ] || echo "--extra $${backend%2}") ebbtide/jobs/pyproject.toml \
			$$([ "$$backend" != rq2 ] || echo "--constraint tools/locks/backend-rq2.in") \
			--output-file "tools/locks/backend-$$backend.txt"; done
	for set in docs uv aws ray backend-celery-sqs; do \
		uv pip compile --quiet $(LOCK) --universal --generate-hashes --no-emit-index-url --python-version $(word 1,$(CLAIMED)) \
			--custom-compile-command "make lock" $$([ "$$set" != ray ] || echo "--extra ray pyproject.toml") \
			"tools/locks/$$set.in" --output-file "tools/locks/$$set.txt"; done

mutants: setup ## small faults in the product: a test should notice each; runs those without a result (RUN=options, see tools/mutants)
	@$(BIN)/python -m tools.mutants $(RUN)

clean: ## remove what was built; the virtual environment stays
	rm -rf out dist .pytest_cache .ruff_cache .hypothesis
