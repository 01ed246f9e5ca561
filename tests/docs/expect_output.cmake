# Runs PROGRAM and compares what it prints with the file OUTPUT.
execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ "${OUTPUT}" expected)
if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "status ${status}\nprinted:\n${printed}\nexpected:\n${expected}")
endif()
