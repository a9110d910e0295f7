# Every chore has one entry here; the continuous checks call the same ones.

VENV := .venv
BIN := $(VENV)/bin
DATA := data/demo
KILLS := 200

.PHONY: help demo test test-all soak check bench format clean
.DEFAULT_GOAL := help

help:  ## list the chores
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The first of these that runs and is a version this project supports.
$(VENV)/installed: pyproject.toml constraints.txt
	@for python in python3.12 python3.11 python3; do \
	  if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then \
	    found=$$python; break; fi; done; \
	if [ -z "$$found" ]; then echo "Python 3.11 or 3.12 is needed and was not found." >&2; exit 1; fi; \
	echo "installing into $(VENV) with $$found"; \
	$$found -m venv $(VENV) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/installed  ## run the sample through the whole pipeline and show what became of it
	$(BIN)/lookfirst run --paced --from deploy/sample/events.jsonl --data $(DATA)
	@echo "Look around: $(BIN)/lookfirst why ID --data $(DATA), with an id from the table."

test: $(VENV)/installed  ## the tests that need no service and little time
	$(BIN)/python -m pytest -m "not slow and not broker"

test-all: $(VENV)/installed  ## all tests, on a real Kafka broker too
	$(BIN)/python -m pytest

soak: $(VENV)/installed  ## kill runs 200 times (KILLS=n) and at every failpoint, and count what was lost
	$(BIN)/python -m tests.soak --kills $(KILLS)
	$(BIN)/python -m tests.kafka_soak --kills $(KILLS)

check: $(VENV)/installed  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## events a second beside the bare rate of the same reads
	$(BIN)/lookfirst bench overhead

format: $(VENV)/installed  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove what the chores have made
	rm -rf $(VENV) data .mypy_cache .ruff_cache .pytest_cache .hypothesis
