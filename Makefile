# Every target first creates the environment that it needs. `make help` lists the targets.
MODELS ?= micro
DEVSET ?= micro_models/devset
TARGETS ?= de it zh
# A Python 3.11 to 3.13 interpreter. If empty, the first one found is used.
PYTHON ?=
# The image of a submission does not receive the names of talks, so its runs use no contexts of talks.
CONTEXTS = $(if $(filter submission,$(MAKECMDGOALS)),--set 'speech.context=[]')
# The build of vLLM: CUDA if an NVIDIA driver is available, CPU if not.
EXTRA ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo cuda || echo cpu)

BIN := .venv/bin
STAMP := .venv/.ready-$(EXTRA)
OUTPUT = outputs/$(if $(filter micro,$(MODELS)),,$(MODELS)-)dev-

.DEFAULT_GOAL := help
.PHONY: help setup dev-low dev-high test test-lab lint measure parity rehearse bench results doctor curves submission setup-comet setup-browser docs film shots micro-models micro-heads real clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16
	@echo
	@echo "variables: MODELS=micro|micro-follows|default|iwslt26  DEVSET=DIR  TARGETS='de it zh'  EXTRA=cpu|cuda"

setup: $(STAMP) ## create .venv with the locked environment and this package

$(STAMP): requirements/$(EXTRA).txt requirements/torch-cpu.txt pyproject.toml
	@PYTHON="$(PYTHON)" sh requirements/install.sh $(EXTRA)
	@touch $@

dev-low: $(STAMP) ## stream and score the dev set at low latency (MODELS= DEVSET= TARGETS=)
	@$(BIN)/simulstream-eval --agent alignatt4llm --config $(MODELS)-low --target $(TARGETS) \
		--devset $(DEVSET) --output $(OUTPUT)low $(CONTEXTS)

dev-high: $(STAMP) ## stream and score the dev set at high latency (MODELS= DEVSET= TARGETS=)
	@$(BIN)/simulstream-eval --agent alignatt4llm --config $(MODELS)-high --target $(TARGETS) \
		--devset $(DEVSET) --output $(OUTPUT)high $(CONTEXTS)

test: lint ## run lint and all tests of the package, including the end-to-end tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests

test-lab: $(STAMP) ## run the tests of lab/ (embedded models, parity, benchmarks, curves, rehearsal)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest lab/tests

lint: $(STAMP) ## run ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

measure: $(STAMP) ## measure each embedded model: word error rate, aligner error, off-line BLEU
	@$(BIN)/python -m lab.micro_world.measure

parity: $(STAMP) ## compare the engine's attention rows with those of Transformers in every mode
	@$(BIN)/python -m lab.parity --output outputs/parity

rehearse: $(STAMP) ## run the configurations of real models with randomly initialized checkpoints
	@$(BIN)/python -m lab.stand_ins

bench: $(STAMP) ## compare the engine's speed with alternatives (needs an otherwise idle machine)
	@$(BIN)/python -m lab.bench --output outputs/bench

results: $(STAMP) ## generate docs/results and the tables of README and models.md from lab/results
	@$(BIN)/python -m lab.results_pages

doctor: $(STAMP) ## check the versions, models, exactness and speed of the engine on this machine
	@$(BIN)/alignatt doctor --config $(MODELS)-low

curves: $(STAMP) ## measure quality against latency for every policy, and the ablation of the gate
	@$(BIN)/python -m lab.curves --config-low $(MODELS)-low --config-high $(MODELS)-high \
		--target $(TARGETS) --devset $(DEVSET) --output outputs/curves-$(MODELS)

submission: $(STAMP) ## build an IWSLT bundle from the last dev-low and dev-high, and check the bundle
	@$(BIN)/alignatt submission build --config $(MODELS)-low $(MODELS)-high --target $(TARGETS) \
		--devset $(DEVSET) --runs $(OUTPUT)low $(OUTPUT)high --output outputs/submission

setup-comet: ## create .venv-comet, a separate environment for COMET and XCOMET-XL
	@PYTHON="$(PYTHON)" sh requirements/install-comet.sh $(EXTRA)

setup-browser: ## install Chromium for the tests of the live page (Debian, Ubuntu)
	@sh requirements/install-chromium.sh

docs: ## build the documentation website in build/site, with a separate environment
	@PYTHON="$(PYTHON)" sh requirements/install-docs.sh
	@.venv-docs/bin/python -m lab.docs_site build/site-source
	@.venv-docs/bin/zensical build --strict --clean --config-file mkdocs.yml

film: $(STAMP) setup-browser ## record the GIF of the live page for the README, with the embedded models
	@OMP_NUM_THREADS=1 $(BIN)/python -m lab.pages.film docs/page.gif

shots: $(STAMP) setup-browser ## save screenshots of the live pages in outputs/shots, and check accessibility with axe
	@OMP_NUM_THREADS=1 $(BIN)/python -m lab.pages.shots outputs/shots

micro-models: $(STAMP) ## rebuild the embedded models and dev set from scratch (takes hours on a laptop)
	@$(BIN)/python -m lab.micro_world --output micro_models
	@$(MAKE) micro-heads

micro-heads: $(STAMP) ## calibrate the head sets of the embedded translation model for both behaviors
	@for model in micro micro-follows; do for target in de it zh; do \
		$(BIN)/alignatt calibrate run --config $$model-low --source en --target $$target \
			--pairs micro:60:77 --held-out micro:60:78 --row predicting \
			--output outputs/head_sets/$$model-en-$$target.json && \
		cp outputs/head_sets/$$model-en-$$target.json head_sets/ || exit; done; done

real: $(STAMP) ## measure real models on real text (takes hours); see lab/real_world/README.md
	@$(BIN)/python -m lab.real_world

clean: ## remove all environments, outputs and caches
	rm -rf .venv .venv-comet .venv-docs outputs build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
