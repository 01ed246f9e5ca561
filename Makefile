# Thin targets over the CMake presets. `make` builds the release preset; the program is then
# build/release/bin/everkernel.

.PHONY: all setup run test quick bench format tidy clean

all: setup
	cmake --preset release
	cmake --build --preset release

setup:
	@tools/setup.sh

# A tour: a job of a million items with its report, and what is underneath.
run: all
	@tools/demo.sh build/release/bin/everkernel

# What CI runs: every test in the optimised build, then under ASan and UBSan (with the fuzz targets),
# then under TSan.
test: setup
	cmake --workflow --preset check
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan
	cmake --preset tsan
	cmake --build --preset tsan
	ctest --preset tsan

# The unit tests alone, for every few minutes of work.
quick: setup
	cmake --preset dev
	cmake --build --preset dev
	ctest --preset quick

# The full benchmarks, each with its peers in the same run; JSON goes to build/release/bench.
bench: all
	@tools/bench.sh build/release

format: setup
	@git ls-files '*.hpp' '*.cpp' '*.cu' | xargs clang-format -i

# Style and document gates alone.
tidy: setup
	cmake --preset ci
	ctest --preset ci --label-regex gate

clean:
	rm -rf build
