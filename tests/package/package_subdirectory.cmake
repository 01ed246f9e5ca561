# Adds the source tree to a project that uses the library.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

build_and_run("${CMAKE_CURRENT_LIST_DIR}/subproject" "-DEVERKERNEL_SOURCE=${EVERKERNEL_SOURCE}")
