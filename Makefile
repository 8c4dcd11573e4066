# make run    trains on the embedded MNIST and shows what came of it
# make test   runs everything that CI runs
# make torture  kills some two hundred runs at all kinds of moments, continues them, and compares: ten minutes or more
# All install what they need into .venv, once.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test torture clean

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
