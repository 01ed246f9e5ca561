# Steps of both package tests: configure, build and run a project that uses the library.

# run(COMMAND…): prints the output of the command, and ends the test if it fails.
function(run)
  string(JOIN " " shown ${ARGN})
  message(STATUS "${shown}")
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# build_and_run(PROJECT OPTION…): builds PROJECT in SCRATCH/build and runs its program `consumer`.
function(build_and_run project)
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${project}" -B "${SCRATCH}/build"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${SCRATCH}/build" --target consumer --parallel 2)
  run("${SCRATCH}/build/consumer")
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
