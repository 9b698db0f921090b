# The front door. What stands behind it: CMakePresets.json, and scripts/install-deps for the tools.
#
#   make demo       build, then compute attention and say how fast and how right it was
#   make test       everything that CI runs
#   make bench      the standard set of shapes, measured
#   make fuzz       RUNS=1000000 inputs for each fuzz target
#   make format     let clang-format lay out every source file
#   make install    into PREFIX=/usr/local
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

.PHONY: help demo bench test test-release test-clang test-sanitizers test-threads test-fuzz \
	test-cross fuzz format install program deps-build deps-test clean
.NOTPARALLEL:

help:
	@sed -n 's/^#  //p' Makefile

demo: program
	@$(PROGRAM) demo $(ARGS)

bench: program
	@$(PROGRAM) bench $(ARGS)

# Quiet when there is nothing to do.
program: deps-build
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build --preset release --target flashcore -- --quiet

test: test-release test-clang test-sanitizers test-threads test-fuzz test-cross
	@echo "make test: all passed"

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

clean:
	rm -rf build
