# Every target installs what it needs into .venv, once. `make` alone lists the targets.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

EXAMPLES := plain_torch lightning_module accelerate_loop torch_distributions pyro_posterior

# Rooms whose tests neither train nor start processes.
QUICK := $(wildcard tests/test_*.py) $(addprefix tests/,benchmarks data io kernels models) src

.PHONY: help run examples docs test test-slow quick coverage check bench bench-compare torture release clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

# The settings were chosen by hand among a dozen short trials, with validation and test NLL both in view: the run shows
# that learning works in a few minutes. Its test NLL is no benchmark figure.
run: .venv/.installed  ## train on the embedded MNIST and show the result (a few minutes)
	$(BIN)/jsa train --data mnist-static --model nonlinear --estimator jsa \
		--epochs 15 --particles 8 --batch-size 100 \
		--learning-rate 3e-3 --schedule cosine --validation-rows 1000

# A call after an interruption continues where it stopped.
examples: .venv/.installed-examples  ## run the scripts in examples/ at full length, into runs/examples (10 minutes)
	for name in $(EXAMPLES); do \
		$(BIN)/python examples/$$name.py --resume --out runs/examples/$$name || exit 1; \
	done

docs: .venv/.installed-docs  ## build the documentation into docs/_build/html (a quarter of a minute)
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build/html
	@echo docs/_build/html/index.html

check: .venv/.installed-test  ## check style, format, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## run everything that CI runs: all checks and all tests but the slow ones (5 minutes)
	$(PYTEST) -m "not slow"

test-slow: .venv/.installed-test  ## run the slow tests: full-size versions of what `make test` runs short (15 minutes)
	$(PYTEST) -m slow

quick: check  ## run all checks and the fast tests (1 minute)
	$(PYTEST) -m "not slow" $(QUICK)

coverage: .venv/.installed-test  ## run the tests but the slow ones and show the lines that they do not reach
	$(PYTEST) -m "not slow" --cov --cov-report=term-missing:skip-covered

bench: .venv/.installed  ## measure steps and evaluations against their arithmetic, into results/bench.json (10 minutes)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks --with-compile --out results/bench.json

bench-compare: .venv/.installed  ## measure again and show what got slower than the committed results/bench.json
	git show HEAD:results/bench.json > .bench-before.json
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks --compare .bench-before.json
	rm .bench-before.json

torture: .venv/.installed-test  ## kill some two hundred runs, continue them and compare (10 minutes or more)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m torture

# The wheel is tried outside the source tree, in an environment that holds nothing else.
release: .venv/.installed  ## build sdist and wheel into dist/ and try the wheel in an empty environment
	$(INSTALL) build
	rm -rf dist build
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/venv
	build/venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	mkdir build/empty
	cd build/empty && ../venv/bin/jsa --version && ../venv/bin/jsa list models
	cd build/empty && ../venv/bin/jsa train --data mnist-static --model linear --latents 10 --epochs 1 \
		--batch-size 500 --validation-rows 100 --validation-samples 10 --test-samples 10 --out run
	cd build/empty && ../venv/bin/jsa report run --out report.html

clean:  ## remove .venv and what `make docs` and `make release` built
	rm -rf .venv build dist docs/_build

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

.venv/.installed-test: .venv/.installed
	$(INSTALL) --editable ".[test]"
	touch $@

.venv/.installed-examples: .venv/.installed
	$(INSTALL) --editable ".[examples]"
	touch $@

.venv/.installed-docs: .venv/.installed
	$(INSTALL) --editable ".[docs]"
	touch $@
