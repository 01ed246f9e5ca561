# Short names for the CMake presets. `make` builds the release preset; the program is then
# build/release/bin/everkernel.

.PHONY: all run test sanitize soak quick bench format tidy clean setup setup-tests

all: setup
	cmake --preset release
	cmake --build --preset release

# A tour: a job of a million items with its report, and the buffers underneath.
run: setup
	cmake --preset release
	cmake --build --preset release --target everkernel
	@tools/demo.sh build/release/bin/everkernel

# The optimised build with every test and every gate. Takes minutes; run it before a push.
test: setup-tests
	@tools/check.py ci

# The same tests, without gates and GPU programs, and the fuzz targets under ASan and UBSan; then the
# tests with threads under TSan.
sanitize: setup-tests
	@tools/check.py asan tsan

# Campaigns with fresh seeds: make soak MINUTES=60. `tools/soak.py --list` names the parts.
MINUTES ?= 120
soak: setup-tests
	@tools/soak.py --minutes $(MINUTES)

# The unit tests of the debug build.
quick: setup-tests
	cmake --preset dev
	cmake --build --preset dev
	ctest --preset quick

# The full benchmarks, each with its peers in the same run; JSON goes to build/release/bench.
bench: setup-tests all
	@tools/bench.sh build/release

format: setup-tests
	@tools/format.sh

# The gates that need no build: style, formatting, documents.
tidy: setup-tests
	cmake --preset ci
	ctest --preset ci --tests-regex '^(formatted|public_docs|tidy|tidy_self_test)$$'

# The Debian packages for building and running, and those for tests.
setup:
	@tools/setup.sh build
setup-tests:
	@tools/setup.sh build test

clean:
	rm -rf build
