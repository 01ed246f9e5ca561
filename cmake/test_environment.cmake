# Tests, examples and benchmarks under ctest compile what they run, and leave the cache of whoever
# runs them alone.
set(ENV{EVERKERNEL_CACHE_DIR} off)
