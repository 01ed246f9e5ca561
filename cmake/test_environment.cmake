# Tests, examples and benchmarks under ctest always compile: they neither read nor fill the code
# cache of the user.
set(ENV{EVERKERNEL_CACHE_DIR} off)
