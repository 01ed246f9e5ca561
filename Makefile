# Thin targets over the CMake presets. `make` builds the release preset; the program is then
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

# Before a push: the optimised build, every test and every gate, in minutes.
test: setup-tests
	@tools/check.py ci

# The same tests under ASan and UBSan, with the fuzz targets; then those with threads under TSan.
sanitize: setup-tests
	@tools/check.py asan tsan

# Everything long, with fresh seeds: make soak MINUTES=60. `tools/soak.py --list` names the parts.
MINUTES ?= 120
soak: setup-tests
	@tools/soak.py --minutes $(MINUTES)

# The unit tests alone, for every few minutes of work.
quick: setup-tests
	cmake --preset dev
	cmake --build --preset dev
	ctest --preset quick

# The full benchmarks, each with its peers in the same run; JSON goes to build/release/bench.
bench: setup-tests all
	@tools/bench.sh build/release

format: setup-tests
	@git ls-files '*.hpp' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

# Style and document gates alone.
tidy: setup-tests
	cmake --preset ci
	ctest --preset ci --label-regex gate

# Installs the packages for building and running; the packages that only tests need.
setup:
	@tools/setup.sh build
setup-tests:
	@tools/setup.sh build test

clean:
	rm -rf build
