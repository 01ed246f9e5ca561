# Tests, examples and benchmarks under ctest compile the code they run, and do not touch the user's
# cache.
set(ENV{EVERKERNEL_CACHE_DIR} off)
