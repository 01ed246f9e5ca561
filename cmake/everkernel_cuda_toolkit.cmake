# Finds the parts of a CUDA toolkit that tests use. Nothing else needs one: a part that is not there
# leaves its variable false, and the tests of it are skipped with the reason.
#
#   EVERKERNEL_NVCC          the compiler
#   EVERKERNEL_NVRTC         the run-time compiler's library
#   EVERKERNEL_CUDA_INCLUDE  the folder of cuda.h
find_program(EVERKERNEL_NVCC nvcc)

# Library and header lie in folders of the toolkit that no search path names. nvcc, which may be a
# link or a wrapper, prints where its toolkit is.
set(toolkit "")
if(EVERKERNEL_NVCC)
  execute_process(COMMAND "${EVERKERNEL_NVCC}" --dryrun -x cu nothing.cu
    ERROR_VARIABLE dry_run OUTPUT_QUIET)
  if(dry_run MATCHES "TOP=([^\r\n]+)")
    set(toolkit "${CMAKE_MATCH_1}")
  endif()
endif()
find_library(EVERKERNEL_NVRTC nvrtc
  HINTS "${toolkit}" ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES lib64 lib)
find_path(EVERKERNEL_CUDA_INCLUDE cuda.h HINTS "${toolkit}" PATH_SUFFIXES include)
