# Every target but help and clean first brings the checkout to where it can run (services/devstack/bootstrap.py).
PYTHON ?= python3
PY := .venv/bin/python
DEVSTACK := $(PY) -m services.devstack
PROTO := $(wildcard proto/tidewire/v1/*.proto)

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick flow settings up status down logs lint proto bench chaos oracle uninstall clean setup

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## the product's main job, live; Ctrl-C ends it; ONCE=1 runs a bounded time and checks what it showed
	@$(PY) -m services.devstack.demo $(if $(ONCE),--once)

test: setup ## the whole test suite in its short forms; ARGS="-k name" chooses
	@$(PY) -m pytest -m "not chaos" --durations=25 $(ARGS)

test-quick: setup ## unit, property and architecture tests: under two minutes
	@$(PY) -m pytest tests/unit tests/property tests/architecture -m "not chaos and not slow and not oracle" $(ARGS)

# Servers of the user's own. Only those named on the command line count: a DSN of the shell's may be meant for others.
ifeq ($(origin DSN),command line)
export TIDEWIRE_DEVSTACK_POSTGRES_DSN := $(DSN)
endif
ifeq ($(origin KAFKA),command line)
export TIDEWIRE_DEVSTACK_KAFKA_BOOTSTRAP := $(KAFKA)
endif
ifeq ($(origin REDIS),command line)
export TIDEWIRE_DEVSTACK_REDIS_URL := $(REDIS)
endif

up: setup ## start the stack, detached; DSN=postgresql://… KAFKA=… REDIS=… around servers of your own, YES=1 without asking
	@$(DEVSTACK) up $(if $(YES),--yes)

status: setup ## the parts: state, process, address, lag
	@$(DEVSTACK) status

down: setup ## stop the stack; its data stays
	@$(DEVSTACK) down

logs: setup ## the logs of all parts; PART=kafka chooses, FOLLOW=1 goes on
	@$(DEVSTACK) logs $(if $(FOLLOW),-f) $(PART)

flow: setup ## the topics: who writes and who reads each
	@$(PY) -c "from proto.topics import flow_lines; print(*flow_lines(), sep='\n')"

settings: setup ## render docs/settings.md, docs/metrics.md and the chart's schema of settings from the code
	$(PY) -m services.devstack.settings_reference
	$(PY) -m services.devstack.metrics_reference
	$(PY) -m services.devstack.chart_reference

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
