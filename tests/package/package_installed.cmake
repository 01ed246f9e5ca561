# Installs the built tree, moves it elsewhere and uses it from there.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

run("${CMAKE_COMMAND}" --install "${EVERKERNEL_BUILD}" --config "${CONFIG}"
  --prefix "${SCRATCH}/first")
# An installed package must still work after its folder is moved.
file(RENAME "${SCRATCH}/first" "${SCRATCH}/prefix")

file(GLOB_RECURSE package_files "${SCRATCH}/prefix/*.cmake")
foreach(file IN LISTS package_files)
  file(STRINGS "${file}" lines)
  foreach(folder IN ITEMS "${EVERKERNEL_SOURCE}" "${SCRATCH}/first")
    string(FIND "${lines}" "${folder}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} names the folder ${folder} of this machine")
    endif()
  endforeach()
endforeach()

build_and_run("${CMAKE_CURRENT_LIST_DIR}/consumer" "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix")

if(EVERKERNEL_APPS)
  execute_process(COMMAND "${SCRATCH}/prefix/bin/everkernel" info --json
    OUTPUT_VARIABLE info COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "the installed program answers:\n${info}")
  string(JSON kind TYPE "${info}")
  if(NOT kind STREQUAL "OBJECT")
    message(FATAL_ERROR "everkernel info --json gives a ${kind}, not an object")
  endif()
else()
  message(STATUS "the program is not installed: this build has EVERKERNEL_APPS=OFF")
endif()
