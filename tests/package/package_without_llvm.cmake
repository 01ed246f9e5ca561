# Builds the program without LLVM: it must build, say so in `info`, and still verify handlers.
cmake_minimum_required(VERSION 3.25)

function(run_step expected_status)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL expected_status)
    message(FATAL_ERROR "${ARGN}: status ${status}, expected ${expected_status}\n${out}\n${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
run_step(0 "${CMAKE_COMMAND}" -S "${EVERKERNEL_SOURCE}" -B "${SCRATCH}" -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Debug -DEVERKERNEL_LLVM=OFF
  -DEVERKERNEL_TESTS=OFF -DEVERKERNEL_BENCH=OFF)
run_step(0 "${CMAKE_COMMAND}" --build "${SCRATCH}" --target everkernel)
set(program "${SCRATCH}/bin/everkernel")
run_step(0 "${program}" info --json)
if(NOT output MATCHES "\"native_code\":{\"available\":false,\"reason\":\"built without LLVM")
  message(FATAL_ERROR "info does not say that there is no native code:\n${output}")
endif()
run_step(0 "${program}" check "${EVERKERNEL_SOURCE}/examples/handlers/saxpy.ek")
run_step(3 "${program}" check "${EVERKERNEL_SOURCE}/examples/handlers/saxpy.ek" --emit llvm)
