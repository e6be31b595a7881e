# `make demo` and `make test` set everything up by themselves; `make help` lists the rest.

# A Python of your choice: make setup PYTHON=python3.13
PYTHON ?= python3
export PYTHON
# Node.js of our own where the machine's is missing or too old (scripts/node).
export PATH := $(CURDIR)/.venv/node/bin:$(PATH)

BIN := .venv/bin
STAMPS := .venv/stamps
STATIC := backend/tapml/server/static
# tapml keeps what it compiles here (tapml.cache), for all checkouts of one user.
CACHE := $(or $(TAPML_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tapml)
WASM := $(CACHE)/wasm-runtime/.ready
STEP := scripts/step
PYTHON_SOURCES := backend tests e2e benchmarks scripts training examples

sources = $(shell find $(1) \( -name node_modules -o -name generated \) -prune -o -type f -print)

.PHONY: help setup setup-run setup-dev setup-field system system-dev demo examples example-highlights example-page-views test check unit-test python-test javascript-test e2e slow-test slow-seconds schemas fmt docs-screenshot bench bench-remote bench-reports bench-studio bench-share bench-history bench-memory bench-carving bench-hostile bench-fuzz-compiled bench-native bench-kernels bench-localization bench-explanations bench-onnx bench-onnx-browsers bench-torch bench-decoders bench-decoder-storage bench-7b bench-references bench-plan bench-runtime bench-generation bench-models bench-whole-models bench-llama bench-batches bench-draws bench-loads bench-field bench-fleet bench-scale bench-storage bench-arrays bench-triggers docs wheel clean distclean bench-transforms
.DEFAULT_GOAL := help
ifndef LANES
.NOTPARALLEL:
endif
.DELETE_ON_ERROR:

# What stands beside each other prints its output whole, when it has ended (GNU make 4; macOS's own cannot).
BESIDE := --no-print-directory --jobs 2 --keep-going $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# Each worker has its own server and browsers; a file's tests share them. `make unit-test WORKERS=` for none.
# Two processors, three workers: tests wait for browsers and time-outs, and one more has work meanwhile.
WORKERS := --numprocesses 3 --dist loadfile

# PyTorch's threads wait for each other in busy loops: where workers have the processors, they double its time.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest $(WORKERS) --no-loadscope-reorder

help:
	@echo 'make demo       set up, then carve, validate and offload a real model in headless Chromium'
	@echo 'make demo MODEL=tiny  the same with a language model that writes in a page (PyTorch is installed)'
	@echo 'make examples   set up, then build three models and serve pages that run them (PORT=8808; PyTorch is installed)'
	@echo 'make example-highlights  a small model on the device, and a larger one for what it is not sure of (docs/field.md), a minute'
	@echo 'make example-page-views  what happened on a page becomes 128 bytes on the device, a minute (DEVICE=firefox JSON=FILE for both)'
	@echo 'make test       set up, then run linters, type checks and all tests but the slow ones, in Chromium and Firefox'
	@echo 'make slow-test  the slow tests, PART=2/8 the second of eight parts of them: CI runs all others and one such part'
	@echo 'make slow-seconds  measure them anew, by which they are dealt out to parts, an hour'
	@echo 'make setup      set up to run tapml and to work on it'
	@echo 'make check      linters and type checks of Python and TypeScript'
	@echo 'make unit-test  all tests but e2e/'
	@echo 'make e2e        the command, the server and the pages in real browsers'
	@echo 'make docs       the documentation as a site, in build/docs'
	@echo 'make docs-screenshot  make the pictures of docs anew: each main view of the studio, and the page that writes'
	@echo 'make fmt        format Python and TypeScript'
	@echo 'make schemas    write docs/protocol.schema.json, docs/results.schema.json and docs/model.schema.json from their definitions'
	@echo 'make bench      measure the main job'
	@echo 'make bench-remote  calls, uploads and downloads against TVM RPC (builds it once, a few minutes)'
	@echo 'make bench-share  seconds from a link to its verdict, sizes of exported files'
	@echo 'make bench-history  questions to 500 runs (DATABASE_URL=postgresql://... for a server)'
	@echo 'make bench-hostile  20,000 fuzzed documents of every format: none breaks anything'
	@echo 'make bench-fuzz-compiled  100,000 mutated compiled models: both verifiers agree, none accepted leaves its buffers'
	@echo 'make bench-memory  what server and node keep of 10,000 calls and 200 validations, about ten minutes'
	@echo 'make bench-carving  what a carve costs: its time to that of compiling kernels, its memory to weights and activations'
	@echo 'make bench-localization  bugs injected into the kernels of six models: who is accused (DEVICE=firefox), about an hour'
	@echo 'make bench-explanations  how good the sentences are that locate says of such bugs (DEVICE=node-dawn), some minutes'
	@echo 'make bench-onnx  the ONNX backend node tests, carved and validated (DEVICES=node-dawn,deno), about ten minutes, and a sample in browsers'
	@echo 'make bench-onnx-browsers  only its sample in Chromium and Firefox; goes on where it was interrupted'
	@echo 'make bench-kernels  GPU time of kernels of native and TVM, side by side (SMALL=1 for a GPU in software, JSON=FILE)'
	@echo 'make bench-models  real ONNX models of PyPI and npm packages, carved, validated in both browsers, offloaded: an hour or more'
	@echo 'make bench-references  wrong references, injected: what the oracle lets pass, about ten minutes'
	@echo 'make bench-decoders  tokens of tiny decoders of transformers against its own (DEVICES=node-dawn)'
	@echo "make bench-decoder-storage  bytes of a decoder's suite to those of the distinct values in it, a minute"
	@echo 'make bench-7b   a Llama of the shape of 7B, without weights: seconds to program and WGSL, and from the cache, a minute'
	@echo 'make bench-torch  tiny transformers and blocks from torch.export, carved and validated (DEVICES=node-dawn,deno)'
	@echo 'make bench-plan  memory plans of Stable Diffusion without weights, and of suites (SUITES="x.suite ..."), some minutes'
	@echo 'make bench-transforms  transforms of models, kernels that only move elements, their bytes; what becomes of operators of ONNX; ten minutes'
	@echo 'make bench-runtime  MiniLM in @tapml/runtime, ONNX Runtime Web, transformers.js and tvmjs: time, bytes, host cost, memory'
	@echo 'make bench-whole-models  GPU time of whole models in @tapml/runtime, ONNX Runtime Web, TensorFlow.js and LiteRT.js, side by side (MODELS="minilm-1 ..." HALF=1 SMALL=1 DOCS=)'
	@echo 'make bench-llama  GPU time of prefill and decode of a Llama of the shape of 3.2 3B, by how its weights are stored, in Dawn in node, or with PEERS=1 in Chromium beside ONNX Runtime Web (SMALL=1 PACK=FILE.tar.gz JSON=FILE DOCS=)'
	@echo 'make bench-batches  tokens per second of 1, 2, 4 and 8 texts of tiny, in one call and as sequences (DEVICE=node-dawn)'
	@echo 'make bench-draws  tokens per second of tiny, and how long the GPU waits: greedily, drawn by the device, by the page, a minute'
	@echo 'make bench-generation  tokens per second of tiny in @tapml/runtime and ONNX Runtime Web, side by side (TOKENS=64 ROUNDS=5 DOCS=)'
	@echo 'make bench-loads  what a page keeps that loads and disposes of a model 1,200 times, in Chromium and Firefox, ten minutes'
	@echo 'make wheel      dist/tapml-*.whl, with the pages in it: what CI installs (docs/ci.md)'
	@echo 'make bench-field  decisions a second on one core: profiles read and answered'
	@echo 'make bench-fleet  200 agents and 5,000 connections while the service is killed, its database crashes and connections are cut, ten minutes (FLEET="--agents 20" JSON=FILE)'
	@echo 'make bench-scale  answers, rows, records and limits a second of one process, one database and one Redis, a minute'
	@echo 'make bench-triggers  what 1,000 triggers cost to one, and a million random sequences against brute force (SEQUENCES=), some minutes'
	@echo 'make bench-agent  Python of tasks, in node: sizes, start of VMs, runs a second of 1, 2 and 4 VMs (LOOPS=1000000)'
	@echo 'make bench-storage  rows a second that a task keeps on the device, one by one and collected, in Chromium and Firefox, a minute'
	@echo "make bench-arrays  random cases of each function of tasks' arrays and images, held against NumPy and OpenCV (EXAMPLES=100 GPU=1), some minutes"
	@echo 'make bench-reports  reports of 10,000 tests: seconds, sizes, and until the page can be used'
	@echo "make bench-studio  the studio's pages: a graph of 1,200 nodes, 10,000 rows, frames, clicks, what axe says (ROUNDS=5 JSON=FILE), ten minutes"
	@echo 'make clean      remove what was built; make distclean: also what was downloaded into the checkout'

setup: setup-run $(STAMPS)/dev

# All that `tapml` needs to run.
setup-run: system $(STAMPS)/run $(STATIC)/runner/index.html $(STATIC)/agent/python/sizes.json $(STATIC)/webui/index.html $(WASM)

# And what the tests need; its Debian packages first, so that all are installed in one go.
setup-dev: setup-field $(STAMPS)/torch

# The same but for PyTorch, of which nothing in the field is made.
setup-field: system-dev setup

# Each time, for it is quick to see that nothing is missing. All the rest comes after it.
system:
	@scripts/system-packages

system-dev:
	@scripts/system-packages dev

$(STAMPS)/venv: | system
	@$(STEP) venv 'Python environment' $(PYTHON) -c 'import sys, venv; \
	  sys.exit("tapml needs Python 3.11 or later: make PYTHON=...") if sys.version_info < (3, 11) else venv.main([".venv"])'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: pyproject.toml | $(STAMPS)/venv
	@$(STEP) python-packages 'Python packages' scripts/python-packages onnx,field
	@touch $@

$(STAMPS)/dev: pyproject.toml | $(STAMPS)/run
	@$(STEP) python-dev-packages 'Python packages for development' scripts/python-packages onnx,field,tls,postgres,redis,webdriver,dev
	@touch $@

$(STAMPS)/docs: pyproject.toml | $(STAMPS)/run
	@$(STEP) docs-packages 'Python packages for the documentation' scripts/python-packages docs
	@touch $@

$(STAMPS)/torch: scripts/pytorch | $(STAMPS)/run
	@$(STEP) pytorch 'PyTorch, of which models come' scripts/pytorch
	@touch $@

# Language models are imported with it; PyTorch is there, so that pip takes no other build of it.
$(STAMPS)/transformers: pyproject.toml | $(STAMPS)/torch
	@$(STEP) transformers-packages 'transformers, for language models' scripts/python-packages onnx,transformers
	@touch $@

$(STAMPS)/node: scripts/node | $(STAMPS)/venv
	@$(STEP) node 'Node.js' scripts/node
	@touch $@

$(STAMPS)/%-packages: %/package.json %/package-lock.json | $(STAMPS)/node
	@$(STEP) $*-packages 'npm packages of $*' npm --prefix $* ci --no-audit --no-fund
	@touch $@

$(STATIC)/runner/index.html: $(STAMPS)/runner_js-packages docs/protocol.schema.json docs/results.schema.json docs/model.schema.json $(call sources,runner_js) $(call sources,examples/chat) $(call sources,examples/field) examples/examples.css
	@$(STEP) runner_js-build 'build of runner_js' npm --prefix runner_js run build
	@touch $@

# Python for tasks (@tapml/agent).
$(STATIC)/agent/python/sizes.json: $(STAMPS)/runner_js-packages runner_js/scripts/agent_python.mjs runner_js/scripts/agent_tailor.py $(call sources,runner_js/src/agent/python)
	@$(STEP) agent-python 'Python for tasks' npm --prefix runner_js run build:python
	@touch $@

$(STATIC)/webui/index.html: $(STAMPS)/webui-packages $(STAMPS)/runner_js-packages docs/results.schema.json $(call sources,webui) $(call sources,runner_js/kit) $(call sources,runner_js/src/program)
	@$(STEP) webui-build 'build of webui' npm --prefix webui run build
	@touch $@

$(WASM): $(call sources,backend/tapml/compilers/tvm/wasm/include) | $(STAMPS)/run
	@$(STEP) wasm-runtime "TVM's wasm runtime" $(BIN)/tapml setup
	@touch $@

# MODEL=tiny: a page that writes.
demo: setup-run $(if $(filter tiny,$(MODEL)),$(STAMPS)/transformers)
	@$(BIN)/tapml demo $(if $(MODEL),--model $(MODEL))

# What was built stays in build/examples: a second time it only serves.
examples: setup-run $(STAMPS)/transformers
	$(BIN)/python scripts/examples build/examples chromium --port $(or $(PORT),8808)
	$(BIN)/tapml serve --models build/examples --pages examples --port $(or $(PORT),8808)

example-highlights: setup-dev  # it trains its models
example-page-views: setup
example-highlights example-page-views: example-%:
	$(BIN)/python examples/$* --device $(or $(DEVICE),chromium) $(if $(JSON),--json $(JSON))

# Checks and JavaScript's tests beside Python's; the browsers of the end-to-end tests have the machine for themselves,
# and the last word.
test: setup-dev
	@$(MAKE) $(BESIDE) LANES=1 python-test check javascript-test
	@$(MAKE) --no-print-directory e2e

check: setup-dev
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check-links
	npm --prefix runner_js run check
	npm --prefix webui run check

unit-test: setup-dev
	@$(MAKE) $(BESIDE) LANES=1 python-test javascript-test

# Of what tests carve, PART=2/8 is built and run everywhere, PART=1/1 all of it (tests/everywhere.py).
python-test: setup-dev
	TEST_PART='$(or $(PART),$(shell scripts/part))' $(PYTEST) -m 'not slow and not browser' tests

javascript-test: setup-dev
	npm --prefix runner_js test
	npm --prefix webui test

e2e: setup-dev
	$(PYTEST) -m 'browser and not slow' tests/browsers
	$(PYTEST) -m 'not slow' e2e

# Tests of more than about ten seconds each. PART=2/8: the second of eight parts of them (tests/parts.py).
slow-test: setup-dev
	TEST_PART='$(PART)' $(PYTEST) -m slow tests
	TEST_PART='$(PART)' $(PYTEST) -m slow e2e

# When slow tests have come, or take much longer: parts go by what is measured here.
slow-seconds: setup-dev
	@$(STEP) slow-tests 'slow tests of tests/' env TEST_PART= $(PYTEST) -m slow --durations 0 --durations-min 0.5 tests
	@$(STEP) slow-e2e 'slow tests of e2e/' env TEST_PART= $(PYTEST) -m slow --durations 0 --durations-min 0.5 e2e
	$(BIN)/python scripts/slow-seconds build/logs/slow-tests.log build/logs/slow-e2e.log

# After a change to backend/tapml/protocol, backend/tapml/results or backend/tapml/compiled.
schemas: setup
	@$(BIN)/python -m tapml.protocol > docs/protocol.schema.json.new && mv docs/protocol.schema.json.new docs/protocol.schema.json
	@$(BIN)/python -m tapml.results > docs/results.schema.json.new && mv docs/results.schema.json.new docs/results.schema.json
	@$(BIN)/python -m tapml.compiled > docs/model.schema.json.new && mv docs/model.schema.json.new docs/model.schema.json
	@npm --prefix runner_js run protocol

fmt: setup-dev
	$(BIN)/ruff check --fix-only $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)
	cd runner_js && node_modules/.bin/biome check --write
	cd webui && node_modules/.bin/biome check --write

bench: setup
	$(BIN)/python -m benchmarks.main_job

bench-remote: setup
	$(BIN)/python -m benchmarks.remote

bench-reports: setup
	$(BIN)/python -m benchmarks.reports

# Carves a decoder of 1,200 nodes once, into build/bench-studio.
bench-studio: setup-dev $(STAMPS)/transformers
	$(BIN)/python -m benchmarks.studio --rounds $(or $(ROUNDS),5) $(if $(JSON),--json $(JSON))

bench-history: setup
	$(BIN)/python -m benchmarks.history $(DATABASE_URL)

bench-field: setup
	$(BIN)/python -m benchmarks.field_decisions

# On 127.0.0.1, bounded in number and time: `make bench-fleet FLEET="--agents 20 --connections 500"`.
bench-fleet: setup-field
	$(BIN)/python -m benchmarks.fleet $(FLEET) $(if $(JSON),--json $(JSON))

bench-scale: setup-field
	$(BIN)/python -m benchmarks.fleet.rates

bench-triggers: setup
	cd runner_js && node --expose-gc scripts/triggers.mjs $(SEQUENCES)

bench-agent: setup
	node benchmarks/agent.mjs $(LOOPS)

bench-arrays: setup-field
	$(BIN)/python -m benchmarks.task_arrays --examples $(or $(EXAMPLES),100) $(if $(GPU),--gpu)

bench-storage: setup-field
	$(BIN)/python -m benchmarks.storage

bench-hostile: setup-dev
	$(BIN)/python -m benchmarks.hostile

bench-fuzz-compiled: setup-dev
	$(BIN)/python -m benchmarks.compiled_fuzz

bench-native: setup-dev
	$(BIN)/python -m benchmarks.native_kernels --cases $(or $(CASES),520)

bench-kernels: setup-dev
	$(BIN)/python -m benchmarks.kernels $(if $(SMALL),--small) $(if $(JSON),--json $(JSON))

# Goes on where it was interrupted; build/localization holds what is there already.
bench-localization: setup-dev
	$(BIN)/python -m benchmarks.localization.run --device $(or $(DEVICE),chromium) --resume --docs docs/localization.md
	$(BIN)/python -m benchmarks.localization.positions --docs docs/localization.md

# What mutants gave is kept in build/localization: a second run needs no device.
bench-explanations: setup-dev
	$(BIN)/python -m benchmarks.localization.explanations --device $(or $(DEVICE),node-dawn) --docs docs/localization.md

bench-onnx: setup-dev
	$(BIN)/python -m benchmarks.onnx_nodes --devices $(or $(DEVICES),node-dawn) --docs docs/operators.md
	@$(MAKE) --no-print-directory bench-onnx-browsers

# Goes on where it was interrupted; build/bench-onnx-browsers.jsonl holds what is there already.
bench-onnx-browsers: setup-dev
	$(BIN)/python -m benchmarks.onnx_nodes.browsers --resume --docs docs/operators.md

bench-torch: setup-dev
	$(BIN)/python -m benchmarks.torch_models --devices $(or $(DEVICES),node-dawn) --docs docs/torch.md

bench-transforms: setup-dev
	$(BIN)/python -m benchmarks.transforms --docs docs/kernels.md
	$(BIN)/python -m benchmarks.transform_operators

bench-decoders: setup-dev
	$(BIN)/python -m benchmarks.decoders --devices $(or $(DEVICES),node-dawn) --docs docs/generation.md

bench-decoder-storage: setup-dev
	$(BIN)/python -m benchmarks.decoders.storage

bench-7b: setup-dev
	$(BIN)/python -m benchmarks.seven_b

bench-references: setup-dev
	$(BIN)/python -m benchmarks.references --docs docs/carve.md

# Goes on where it was interrupted; without build/onnx_models/records.json it begins anew.
bench-models: setup-dev
	$(BIN)/python -m benchmarks.onnx_models --resume --devices $(or $(DEVICES),chromium,firefox) --docs docs/models.md

# The networks' shapes are all it needs of diffusers, so that nothing of what that depends on comes with it.
build/diffusers/.ready:
	@$(STEP) diffusers 'diffusers' $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  --target build/diffusers diffusers==0.42.1 pillow==13.0.0 importlib_metadata==10.2.0 zipp==4.1.2 \
	  requests==2.34.2 charset_normalizer==3.5.2 idna==3.20 urllib3==2.8.0 certifi==2026.10.18
	@touch $@

bench-plan: setup-dev build/diffusers/.ready
	$(BIN)/python -m benchmarks.memory_plan --docs docs/memory-plan.md $(SUITES)

# Needs a GPU to mean something; without one TOKENS=8 ROUNDS=1 shows that it runs.
bench-generation: setup-dev
	$(BIN)/python -m benchmarks.web_generation --rounds $(or $(ROUNDS),5) $(if $(DOCS),--docs $(DOCS))

# What makes LiteRT's models of PyTorch's, by itself: it wants another pydantic than tapml.
build/litert/.ready:
	@$(STEP) litert 'litert-torch' $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  --target build/litert litert-torch==0.10.0 ai-edge-litert==2.3.0 ai-edge-quantizer==0.10.0 litert-converter==0.5.0 \
	  litert-lm-builder==0.18.1 torchao==0.18.0 jax==0.10.2 jaxlib==0.10.2 jaxtyping==0.3.11 kagglehub==1.0.3 \
	  kagglesdk==0.1.38 multipledispatch==1.0.0 fire==0.7.1 sentencepiece==0.2.3 absl-py==2.5.1 tabulate==0.10.0 \
	  immutabledict==4.2.1 backports.strenum==1.2.8 lark==1.3.1 xdsl==0.28.0 ordered-set==4.1.0 termcolor==3.3.0 \
	  opt-einsum==3.4.0 wadler-lindig==0.1.8 pydantic==2.11.10 pydantic-core==2.33.2 typing-extensions==4.12.2 \
	  typing-inspection==0.4.2 tomli==2.5.0 pillow==13.0.0
	@touch $@

# Needs a GPU to mean something; without one SMALL=1 shows that it runs.
bench-whole-models: setup-dev build/litert/.ready
	$(BIN)/python -m benchmarks.whole_models --rounds $(or $(ROUNDS),3) $(if $(JSON),--json $(JSON)) $(if $(DOCS),--docs $(DOCS))

# Likewise. Made once for each state of tapml, in build/llama; PACK=FILE packs it for another machine and measures nothing.
bench-llama: setup-dev
	$(BIN)/python -m benchmarks.whole_models.llama $(if $(SMALL),--small) $(if $(PEERS),--peers) $(if $(PACK),--pack $(PACK)) $(if $(JSON),--json $(JSON)) $(if $(DOCS),--docs $(DOCS))

# Needs a GPU to mean something.
bench-batches: setup-dev
	$(BIN)/python -m benchmarks.batches $(if $(DEVICE),--device $(DEVICE))

# Likewise.
bench-draws: setup-dev
	$(BIN)/python -m benchmarks.draws

# Needs a GPU to mean something; without one it takes ten minutes.
bench-runtime: setup-dev
	$(BIN)/python -m benchmarks.web_runtimes --docs docs/performance.md

# Ten minutes: Chromium and Firefox, 1,200 loads each.
bench-loads: setup-dev
	$(BIN)/python -m benchmarks.loads --docs docs/performance.md

bench-memory: setup
	$(BIN)/python -m benchmarks.memory

# Of some models that it makes and some of bench-models, or of your own: MODELS="model.onnx=inputs.npz nudenet"
bench-carving: setup-dev
	$(BIN)/python -m benchmarks.carving $(if $(MODELS),$(MODELS),--docs docs/carve.md)

bench-share: setup
	$(BIN)/python -m benchmarks.share

docs: setup-run $(STAMPS)/docs
	$(BIN)/mkdocs build

# After a change to the pages that people see: MiniLM in two browsers, with a broken kernel, and the page that writes.
docs-screenshot: setup $(STAMPS)/transformers
	$(BIN)/python scripts/screenshot

wheel: setup
	@rm -rf build/lib
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf build dist $(STATIC) .mypy_cache .ruff_cache .pytest_cache .hypothesis test-results

distclean: clean
	rm -rf .venv runner_js/node_modules webui/node_modules backend/*.egg-info
