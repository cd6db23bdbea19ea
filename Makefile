# Two commands do everything on a new machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-lowest lint types layers check docs release-check bench studies clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python -m bvsi.studies.demo --out demo

# worksteal: neighbours run in one process, so that what a module prepares is made once; byte code is kept, or every
# process that a test starts compiles the package again
test: $(VENV)/.installed
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# the same tests with the lowest version of every dependency that pyproject.toml allows; old libraries complain of new ones
test-lowest: $(VENV)/.installed
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -n auto --dist worksteal -W ignore::DeprecationWarning -W ignore::FutureWarning

lint: $(VENV)/.installed
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests

types: $(VENV)/.installed
	$(BIN)/mypy

layers: $(VENV)/.installed
	$(BIN)/lint-imports

check: lint types layers

docs: $(VENV)/.installed
	$(BIN)/python docs/run_readme.py
	$(BIN)/sphinx-build -j auto -W --keep-going -E -q -b html docs build/docs

# wheel and sdist as they would be published: metadata, then README in an empty environment of every Python that is here
release-check: $(VENV)/.installed
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	for version in 3.11 3.12 3.13; do \
	    $(BIN)/uv python find --offline --no-project $$version >/dev/null 2>&1 || { echo "Python $$version is not here: skipped"; continue; }; \
	    $(BIN)/uv venv --quiet --clear --no-project --python $$version build/release/$$version && \
	    $(BIN)/uv pip install --quiet --python build/release/$$version/bin/python dist/*.whl && \
	    build/release/$$version/bin/bvsi --version && \
	    build/release/$$version/bin/python docs/run_readme.py || exit 1; \
	done

bench: $(VENV)/.installed
	$(BIN)/bvsi bench performance --out bench

studies: $(VENV)/.installed
	$(BIN)/python -m bvsi.studies.benchmarks.coverage --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.selection_study --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.elimination --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.cahn_hilliard_study --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.calibration --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.gradient_cost --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.efficiency --out bench
	$(BIN)/python -m bvsi.studies.benchmarks.trust --out bench
	$(BIN)/python -m bvsi.studies.masks
	$(BIN)/python -m bvsi.studies.series

clean:
	rm -rf $(VENV) $(VENV)-lowest demo bench build dist .pytest_cache .mypy_cache .ruff_cache
