PYTHON ?= python

.PHONY: check test bench nightly integrations docs

check:  ## lint, format, types, import contracts
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -c "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

test:  ## everything that is not marked slow or bench
	$(PYTHON) -m pytest

bench:  ## the figures of docs/budgets.md
	$(PYTHON) -m pytest -m bench -s --timeout 900 tests/benchmarks

nightly:  ## the long suites too
	$(PYTHON) -m pytest -m "not bench" --timeout 1800

integrations:  ## of these, the real training frameworks and notebooks alone; needs .[test,integrations]
	$(PYTHON) -m pytest -m slow tests/publisher/test_lightning.py tests/publisher/test_transformers.py \
		tests/publisher/test_accelerate.py tests/publisher/test_keras.py tests/publisher/test_notebook.py \
		tests/publisher/test_plain.py

docs:  ## the pictures in docs/, drawn by the program itself
	$(PYTHON) -m tests.pictures docs
	$(PYTHON) -m tests.film docs/screen-film.svg
