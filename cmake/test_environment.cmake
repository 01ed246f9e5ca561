# Tests, examples and benchmarks under ctest compile what they run: they neither read nor fill the
# code cache of the user.
set(ENV{EVERKERNEL_CACHE_DIR} off)
