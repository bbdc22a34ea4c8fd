# Every target but help and clean first brings the checkout to where it can run (services/devstack/bootstrap.py).
PYTHON ?= python3
PY := .venv/bin/python
DEVSTACK := $(PY) -m services.devstack
PROTO := $(wildcard proto/tidewire/v1/*.proto)

.DEFAULT_GOAL := help
.PHONY: help demo test up status down logs lint proto bench chaos oracle uninstall clean setup

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## the product's main job, live; Ctrl-C ends it; ONCE=1 runs a bounded time and checks what it showed
	@$(PY) -m services.devstack.demo $(if $(ONCE),--once)

test: setup ## the whole test suite in its short forms; ARGS="-k name" chooses
	@$(PY) -m pytest -m "not chaos" --reruns 1 -rR $(ARGS)

up: setup ## start the stack, detached, and wait until every part is ready
	@$(DEVSTACK) up

status: setup ## the parts: state, process, address, lag
	@$(DEVSTACK) status

down: setup ## stop the stack; its data stays
	@$(DEVSTACK) down

logs: setup ## the logs of all parts; PART=kafka chooses, FOLLOW=1 goes on
	@$(DEVSTACK) logs $(if $(FOLLOW),-f) $(PART)

lint: setup ## ruff, mypy --strict, import-linter
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports

proto: setup ## generate the Python modules of proto/tidewire/v1
	$(PY) -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $(PROTO)

bench: setup ## measure; docs/ records the runs
	$(PY) -m benchmarks $(ARGS)

chaos: setup ## the long forms of the crash tests
	$(PY) -m pytest -m chaos --timeout=0 $(ARGS)

oracle: setup ## generated cases compared with PostgreSQL; N=2000 says how many, ORACLE_SEED=1 which, ARGS=tests/oracle where
	ORACLE_EXAMPLES=$(or $(N),1000) $(PY) -m pytest -m oracle --timeout=0 $(ARGS)

uninstall: setup ## remove Tidewire from a database: DSN=postgresql://…, or the running stack's own
	@dsn="$(or $(DSN),$$($(DEVSTACK) endpoint postgres))" && .venv/bin/tidewire uninstall --dsn "$$dsn"

clean: ## stop the stack and remove its data, logs and credentials
	@if [ -x $(PY) ]; then $(DEVSTACK) down --wipe; fi

setup:
	@$(PYTHON) -I services/devstack/bootstrap.py
