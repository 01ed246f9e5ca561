# Runs the program without native code: `info` must say so, and handlers must still be verified.
cmake_minimum_required(VERSION 3.25)

function(run_step expected_status)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL expected_status)
    message(FATAL_ERROR "${ARGN}: status ${status}, expected ${expected_status}\n${out}\n${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

run_step(0 "${PROGRAM}" info --json)
if(NOT output MATCHES "\"native_code\":{\"available\":false,\"reason\":\"built without LLVM")
  message(FATAL_ERROR "info does not say that there is no native code:\n${output}")
endif()
run_step(0 "${PROGRAM}" check "${EVERKERNEL_SOURCE}/examples/handlers/saxpy.ek")
run_step(3 "${PROGRAM}" check "${EVERKERNEL_SOURCE}/examples/handlers/saxpy.ek" --emit llvm)
