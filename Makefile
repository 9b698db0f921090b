# The front door. What stands behind it: CMakePresets.json, and scripts/install-deps for the tools.
#
#   make demo       build, then compute attention and say how fast and how right it was
#   make test       everything that CI runs
#   make nightly    every CUDA kernel on the emulator, with the whole case list and 300 cases that are
#                   drawn, and every deliberate error in them: half an hour and more
#   make bench      the standard set of shapes, measured
#   make repro      all that this machine can be asked, in a directory to send: ARGS="results --quick"
#   make peers      the CPU kernels beside PyTorch and BLAS, ARGS="--only mission"
#   make fuzz       RUNS=1000000 inputs for each fuzz target
#   make format     let clang-format lay out every source file
#   make install    into PREFIX=/usr/local
#   make wheel      the Python package, checked, in build/dist
#   make test-python    test that wheel with NumPy, PyTorch, JAX and transformers
#   make test-browser   the page of `flashcore report` in a headless browser
#   make clean      forget all builds

PREFIX ?= /usr/local
RUNS ?= 1000000
ARGS ?=
PROGRAM = build/release/cli/flashcore
FOREIGN = $(if $(filter aarch64,$(shell uname -m)),x86_64,aarch64)

# $(call check,preset): configure, build and run the tests of that preset.
define check
	cmake --preset $(1)
	@start=$$(date +%s) && cmake --build --preset $(1) && \
	    echo "$(1): built in $$(($$(date +%s) - start)) s;" \
	    "$$(find build/$(1)/src -name 'libflashcore.so.*.*' -exec stat -c '%s bytes' {} +)"
	ctest --preset $(1) --parallel $$(nproc)
endef

.PHONY: help demo bench repro peers nightly test test-release test-clang test-sanitizers test-threads test-fuzz \
	test-cross test-python test-browser wheel fuzz format install program deps-build deps-test deps-python deps-browser clean
.NOTPARALLEL:

help:
	@sed -n 's/^#  //p' Makefile

demo: program
	@$(PROGRAM) demo $(ARGS)

bench: program
	@$(PROGRAM) bench $(ARGS)

repro: program
	@cmake --build --preset release -- --quiet
	@$(PROGRAM) repro $(ARGS)

nightly: deps-test
	cmake --preset release
	cmake --build --preset release
	tests/emu_check.py --all --flashcore $(PROGRAM)
	ctest --preset release -C Nightly -R emu_all_mutations

peers: program
	@bench/cpu.py $(ARGS)

# Quiet when there is nothing to do.
program: deps-build
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build --preset release --target flashcore -- --quiet

test: deps-test
	@scripts/test

test-release: deps-test
	$(call check,release)

test-clang: deps-test
	$(call check,clang)

test-sanitizers: deps-test
	$(call check,asan-ubsan)

test-threads: deps-test
	$(call check,tsan)

test-fuzz: deps-test
	$(call check,fuzz)

test-cross: deps-test
	$(call check,cross-$(FOREIGN))

# An environment with what a list names; made again when the list changes. Compiling all of PyTorch's
# and JAX's modules ahead takes three quarters of a minute, those that are imported four seconds.
build/venv-%/ready: python/requirements-%.txt | deps-python
	rm -rf build/venv-$*
	python3 -m venv build/venv-$*
	build/venv-$*/bin/pip install --quiet --disable-pip-version-check --no-compile -r $<
	touch $@

# auditwheel puts the OpenMP runtime into the wheel; abi3audit knows what every CPython since 3.9 has.
wheel: build/venv-wheel/ready
	rm -rf build/dist build/dist-local
	build/venv-wheel/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir build/dist-local --config-settings=build-dir=build/wheel \
		--config-settings=cmake.define.FC_CUDA_CACHE=$(CURDIR)/build/cuda-cache .
	PATH="$(CURDIR)/build/venv-wheel/bin:$$PATH" build/venv-wheel/bin/auditwheel repair \
		--wheel-dir build/dist build/dist-local/*.whl
	build/venv-wheel/bin/abi3audit --strict --summary build/dist/*.whl

test-python: deps-test wheel build/venv-test/ready
	build/venv-test/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
		build/dist/*.whl
	build/venv-test/bin/ruff check --no-cache python examples bench/overhead.py
	build/venv-test/bin/ruff format --no-cache --check python examples bench/overhead.py
	build/venv-test/bin/mypy --cache-dir=build/venv-test/mypy python/flashcore
	FLASHCORE_REQUIRE=numpy,torch,jax,transformers build/venv-test/bin/python -m pytest --quiet \
		--numprocesses 2 -p no:cacheprovider python/tests

test-browser: program deps-browser
	FLASHCORE=$(PROGRAM) python3 -B tests/browser_test.py --keep build/browser

fuzz: deps-test
	cmake --preset fuzz
	cmake --build --preset fuzz
	for target in problem npy; do \
		mkdir -p build/fuzz/corpus-$$target && \
		build/fuzz/tests/fuzz/fuzz_$$target -runs=$(RUNS) -max_len=1024 -timeout=20 \
			-print_final_stats=1 -artifact_prefix=build/fuzz/ \
			build/fuzz/corpus-$$target tests/fuzz/seeds-$$target || exit 1; \
	done

format: deps-test
	scripts/format

install: deps-build
	@test -f build/release/build.ninja || cmake --preset release
	cmake --build --preset release
	cmake --install build/release --prefix "$(PREFIX)"
	@if [ -z "$$DESTDIR" ] && [ -w /etc/ld.so.cache ]; then ldconfig; fi

deps-build:
	@scripts/install-deps build

deps-test:
	@scripts/install-deps test

deps-python:
	@scripts/install-deps python

deps-browser:
	@scripts/install-deps browser

clean:
	rm -rf build
