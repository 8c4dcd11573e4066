# make run    trains on the embedded MNIST and shows what came of it
# make test   runs everything that CI runs
# make bench  measures how far steps and evaluations are from their arithmetic, into results/bench.json: ten minutes
# make bench-compare  measures again and shows what got slower since the committed results/bench.json
# make torture  kills some two hundred runs at all kinds of moments, continues them, and compares: ten minutes or more
# All install what they need into .venv, once.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test bench bench-compare torture clean

# The settings were chosen by hand among a dozen short trials, with validation and test NLL both in view: the run shows
# that learning works in a few minutes. Its test NLL is no benchmark figure.
run: .venv/.installed
	$(BIN)/jsa train --data mnist-static --model nonlinear --estimator jsa \
		--epochs 15 --particles 8 --batch-size 100 \
		--learning-rate 3e-3 --schedule cosine --validation-rows 1000

test: .venv/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

bench: .venv/.installed
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks --with-compile --out results/bench.json

bench-compare: .venv/.installed
	git show HEAD:results/bench.json > .bench-before.json
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks --compare .bench-before.json
	rm .bench-before.json

torture: .venv/.installed-test
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m torture

clean:
	rm -rf .venv

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

.venv/.installed-test: .venv/.installed
	$(INSTALL) --editable ".[test]"
	touch $@
