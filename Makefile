# Fabric's commands. `make run` and `make test` work on a fresh machine; a second run does no work twice.
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)
CRATE := $(shell find fabric/_rust -type f -not -path '*/target/*')
NATIVE := CMakeLists.txt $(shell find fabric/_cython -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]pp')
COMPILE := .venv/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock"

.PHONY: run build check test lint lint-types lint-stubs lint-style lint-imports coverage bench soak sanitize wheel ci lock proto clean

run: .venv/run.stamp ## the main job: real flights through Fabric, two agents and Spark
	.venv/bin/fabric demo flights

build: .venv/run.stamp ## compile what changed of the native code

check: .venv/dev.stamp lint ## for every save: lint, types, and the tests that start no server
	.ci/tests units

test: .venv/dev.stamp lint ## lint, then every test with real servers, on two workers; nothing is skipped
	.ci/tests

lint: .venv/dev.stamp ## style, imports, types and stubs, two at a time
	@$(MAKE) --no-print-directory --output-sync -j 2 lint-types lint-stubs lint-style lint-imports

lint-types:
	.venv/bin/mypy
lint-stubs:
	.ci/stubtest
lint-style:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/cython-lint --max-line-length 100 fabric/_cython
lint-imports:
	.venv/bin/lint-imports

bench: .venv/dev.stamp ## every benchmark, quick
	$(PY) -m bench --all --quick

coverage: .venv/dev.stamp ## which lines of the pure cores the units and the simulator reach
	.ci/tests coverage

soak: .venv/dev.stamp ## the long ones: more generated plans, more examples a property
	FABRIC_SOAK=1 .venv/bin/pytest -q tests/integration tests/_cython tests/_rust tests/native tests/sim \
		tests/faults tests/state tests/coordinator/metadata tests/coordinator/optimizer \
		tests/coordinator/test_same_rows.py tests/flight/test_leaks.py tests/flight/test_attacks.py \
		tests/flight/test_cut_streams.py tests/bench tests/security tests/io/dataset tests/contract \
		tests/golden/test_expressions.py tests/golden/test_savepoints.py tests/operators/streams \
		tests/operators/fragment tests/clients/demo/test_readme.py tests/clients/spark/plan/test_generated.py

sanitize: .venv/dev.stamp ## kernels, data plane and server under AddressSanitizer and UBSan: a build of their own
	.ci/sanitize

wheel: .venv/dev.stamp ## dist/*.whl for other Linux systems, tried in an empty environment
	.ci/wheel

ci: ## what CI runs
	.ci/run

lock: .venv/dev.stamp
	$(PY) -m pip install -q uv
	$(COMPILE) requirements/dev.in -o requirements/dev.lock
	$(COMPILE) -c requirements/dev.lock requirements/run.in -o requirements/run.lock
	$(COMPILE) -c requirements/dev.lock requirements/build.in -o requirements/build.lock
	$(COMPILE) requirements/simdjson.in -o requirements/simdjson.lock
	$(COMPILE) requirements/kafka_oldest.in -o requirements/kafka_oldest.lock
	$(COMPILE) requirements/go.in -o requirements/go.lock
	$(COMPILE) requirements/tpcds.in -o requirements/tpcds.lock
	for peer in quix bytewax faust flink; do \
		$(COMPILE) requirements/bench_$$peer.in -o requirements/bench_$$peer.lock || exit; \
	done

proto: .venv/dev.stamp ## generate the protobuf modules from the .proto files
	$(PY) -m grpc_tools.protoc -I. --python_out=. --pyi_out=. fabric/control/control.proto \
		fabric/flight/wire.proto fabric/plan/plan.proto fabric/agent/slot/slot.proto

.venv/run.stamp: requirements/run.lock requirements/build.lock requirements/simdjson.lock .ci/setup \
		.ci/simdjson pyproject.toml $(NATIVE)
	@touch .ci/.begun
	.ci/setup run
	@touch -r .ci/.begun $@  # what was saved meanwhile is newer

.venv/dev.stamp: requirements/dev.lock requirements/build.lock requirements/go.lock \
		requirements/simdjson.lock .ci/setup .ci/simdjson .ci/tonbo pyproject.toml $(NATIVE) $(CRATE)
	@touch .ci/.begun
	.ci/setup dev
	@touch -r .ci/.begun $@ .venv/run.stamp

clean:
	rm -rf .venv build dist out *.egg-info
	find fabric/_cython -name '*.so' -delete
