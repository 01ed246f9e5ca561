# Compiles SOURCE twice: as it stands, which must succeed, and with EVERKERNEL_BAD, which must fail
# with a message that matches the regular expression of the line `// expect: …`.
file(STRINGS "${SOURCE}" expected REGEX "^// expect: ")
string(REGEX REPLACE "^// expect: " "" expected "${expected}")
if(NOT expected)
  message(FATAL_ERROR "${SOURCE} has no line `// expect: regular expression`")
endif()
list(TRANSFORM INCLUDES PREPEND -I)
set(compile "${COMPILER}" -std=c++20 -fsyntax-only -Wall -Wextra -Werror ${INCLUDES})

execute_process(COMMAND ${compile} "${SOURCE}" RESULT_VARIABLE status ERROR_VARIABLE messages)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the good form does not compile:\n${messages}")
endif()

execute_process(COMMAND ${compile} -DEVERKERNEL_BAD "${SOURCE}"
  RESULT_VARIABLE status ERROR_VARIABLE messages)
if(status EQUAL 0)
  message(FATAL_ERROR "the bad form compiles")
endif()
if(NOT messages MATCHES "${expected}")
  message(FATAL_ERROR "the bad form fails, but not with `${expected}`:\n${messages}")
endif()
