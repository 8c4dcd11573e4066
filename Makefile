# Every target installs what it needs into .venv, once.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

# Rooms whose tests neither train nor start processes.
QUICK := $(wildcard tests/test_*.py) $(addprefix tests/,benchmarks data io kernels models) src

.PHONY: run test test-slow quick coverage check bench bench-compare torture clean

# The settings were chosen by hand among a dozen short trials, with validation and test NLL both in view: the run shows
# that learning works in a few minutes. Its test NLL is no benchmark figure.
run: .venv/.installed  ## train on the embedded MNIST and show the result (a few minutes)
	$(BIN)/jsa train --data mnist-static --model nonlinear --estimator jsa \
		--epochs 15 --particles 8 --batch-size 100 \
		--learning-rate 3e-3 --schedule cosine --validation-rows 1000

check: .venv/.installed-test  ## check style, format, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## run everything that CI runs: all checks and all tests but the slow ones (8 minutes)
	$(PYTEST) -m "not slow"

test-slow: .venv/.installed-test  ## run the slow tests: full-size versions of what `make test` runs short
	$(PYTEST) -m slow

quick: check  ## run all checks and the fast tests (2 minutes)
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

clean:  ## remove the environment
	rm -rf .venv

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

.venv/.installed-test: .venv/.installed
	$(INSTALL) --editable ".[test]"
	touch $@
