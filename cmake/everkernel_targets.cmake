# Helpers that give every target of the project the same language level, warnings, sanitizers and
# installation. Sources are always listed by hand; a file that is not listed is not built.

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Compiled objects are kept across build folders and clones: paths are relative to the checkout.
find_program(EVERKERNEL_CCACHE ccache)
if(PROJECT_IS_TOP_LEVEL AND EVERKERNEL_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${EVERKERNEL_CCACHE}")
endif()

add_library(everkernel_options INTERFACE)
target_compile_features(everkernel_options INTERFACE cxx_std_20)
target_compile_options(everkernel_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wswitch -Wnon-virtual-dtor
  -Wold-style-cast -Wcast-align
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # gcc 12 reports it for plain std::string sums
  $<$<BOOL:${EVERKERNEL_WERROR}>:-Werror>)
# Hardening for everything we ship; _FORTIFY_SOURCE needs optimisation and does not mix with ASan.
target_compile_options(everkernel_options INTERFACE -fstack-protector-strong)
if(NOT EVERKERNEL_SANITIZE)
  target_compile_options(everkernel_options INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
else()
  target_compile_options(everkernel_options INTERFACE
    -fsanitize=${EVERKERNEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(everkernel_options INTERFACE -fsanitize=${EVERKERNEL_SANITIZE})
endif()
target_link_options(everkernel_options INTERFACE -Wl,-z,relro,-z,now)
if(EVERKERNEL_PORTABLE)
  target_link_options(everkernel_options INTERFACE -static-libstdc++ -static-libgcc -Wl,-s)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# everkernel_install(TARGET): exports TARGET with the package.
function(everkernel_install target)
  get_target_property(sets ${target} INTERFACE_HEADER_SETS)
  if(sets)
    install(TARGETS ${target} EXPORT everkernel-targets FILE_SET HEADERS)
  else()
    install(TARGETS ${target} EXPORT everkernel-targets)
  endif()
endfunction()

# everkernel_add_library(NAME [INTERFACE] HEADERS … [SOURCES …] [LINKS …])
# Makes everkernel_NAME with the alias everkernel::NAME. Headers are relative to include/everkernel,
# sources to src. LINKS are public: the modules that the module's headers include.
function(everkernel_add_library name)
  cmake_parse_arguments(arg "INTERFACE" "" "HEADERS;SOURCES;LINKS" ${ARGN})
  set(target everkernel_${name})
  set(scope PUBLIC)
  if(arg_INTERFACE)
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  else()
    list(TRANSFORM arg_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/src/")
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:everkernel_options>)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    # Coverage counters that lead the fuzzers through the library. Other programs of the build carry
    # them along, which costs less time than compiling the library twice.
    if(EVERKERNEL_FUZZ)
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  endif()
  add_library(everkernel::${name} ALIAS ${target})
  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/everkernel/")
  target_sources(${target} ${scope} FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_HEADERS})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${arg_LINKS})
  # Every public header compiles alone, as part of the ordinary build.
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERIFY_INTERFACE_HEADER_SETS ON)
  everkernel_install(${target})
endfunction()

# everkernel_add_fingerprint(TARGET HEADER OF MODULE…): generates HEADER for TARGET, with a digest
# of every source and header of those modules. It changes whenever one of them does.
function(everkernel_add_fingerprint target header)
  cmake_parse_arguments(arg "" "" "OF" ${ARGN})
  set(files "")
  foreach(module IN LISTS arg_OF)
    get_target_property(headers everkernel_${module} HEADER_SET)
    list(APPEND files ${headers})
    get_target_property(sources everkernel_${module} SOURCES)
    if(sources)
      list(APPEND files ${sources})
    endif()
  endforeach()
  set(folder "${PROJECT_BINARY_DIR}/generated")
  set(script "${PROJECT_SOURCE_DIR}/cmake/fingerprint.cmake")
  add_custom_command(OUTPUT "${folder}/${header}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${folder}/${header}" "-DFILES=${files}" -P "${script}"
    DEPENDS ${files} "${script}" VERBATIM)
  target_sources(${target} PRIVATE "${folder}/${header}")
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

# everkernel_embed_device_source(TARGET FILE…): generates a source for TARGET with the texts of the
# abi headers and of these files of src, each by the name that an #include gives it.
function(everkernel_embed_device_source target)
  get_target_property(headers everkernel_abi HEADER_SET)
  set(folders "")
  set(names "")
  foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include")
    list(APPEND folders "${PROJECT_SOURCE_DIR}/include")
    list(APPEND names "${header}")
  endforeach()
  foreach(file IN LISTS ARGN)
    list(APPEND folders "${PROJECT_SOURCE_DIR}/src")
    list(APPEND names "${file}")
  endforeach()
  set(files "")
  foreach(folder name IN ZIP_LISTS folders names)
    list(APPEND files "${folder}/${name}")
  endforeach()
  set(output "${PROJECT_BINARY_DIR}/generated/device_texts.cpp")
  set(script "${PROJECT_SOURCE_DIR}/cmake/embed.cmake")
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DFOLDERS=${folders}" "-DNAMES=${names}"
      -P "${script}"
    DEPENDS ${files} "${script}" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()

# everkernel_add_program(NAME SOURCES … [LINKS …]): an executable with the project's options.
function(everkernel_add_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE everkernel_options ${arg_LINKS})
endfunction()

# Installs the package files, so that find_package(everkernel) works from the install tree.
function(everkernel_install_package)
  include(CMakePackageConfigHelpers)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/everkernel")
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/everkernel-config.cmake.in"
    "${PROJECT_BINARY_DIR}/everkernel-config.cmake" INSTALL_DESTINATION "${package_dir}")
  write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/everkernel-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES
    "${PROJECT_BINARY_DIR}/everkernel-config.cmake"
    "${PROJECT_BINARY_DIR}/everkernel-config-version.cmake" DESTINATION "${package_dir}")
  install(EXPORT everkernel-targets NAMESPACE everkernel:: DESTINATION "${package_dir}")
endfunction()
