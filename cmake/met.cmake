# Build rules shared by every folder.
#
#   met_library(name SOURCES ... DEPS met::core ... [PRIVATE_LIBS ...])   src/<name> as met::<name>
#   met_test(name SOURCES ... DEPS met::core ... [LABELS sanitized threaded])   one GoogleTest binary, registered with ctest;
#                                                                         `sanitized`: runs under ASan and UBSan too (parsers, server),
#                                                                         `threaded`: runs under TSan too (engine, server, pools)
#   met_fuzzer(name SOURCES ... DEPS ...)                                 a libFuzzer entry (clang) or a corpus replayer (gcc)
#   met_static_lib(target archive)                                        imported static archive by file name

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")
set(CMAKE_C_FLAGS_DEV "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    add_compile_options(-Wno-psabi)  # a note on an interface that changed in GCC 10
    add_compile_options(-fsigned-char)  # as on x86-64
  endif()
  # GCC 12 reports these falsely inside its own library headers.
  add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict
                      -Wno-free-nonheap-object -Wno-dangling-pointer -Wno-null-dereference -Wno-missing-field-initializers)
else()
  # Members that a designated initializer leaves out have their defaults; GCC 12's library uses what it deprecates.
  add_compile_options(-Wno-missing-field-initializers -Wno-missing-designated-field-initializers -Wno-deprecated-declarations)
endif()
if(MET_SANITIZE)
  add_compile_options(-fsanitize=${MET_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MET_SANITIZE})
  if(MET_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # Asio has fences, which the sanitizer does not model
  endif()
  if(MET_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, which libFuzzer follows
  endif()
else()
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)

if(MET_CROSS_LIBRARIES)
  set(CMAKE_FIND_ROOT_PATH ${MET_CROSS_LIBRARIES})
  include_directories(SYSTEM ${MET_CROSS_LIBRARIES}/usr/include ${MET_CROSS_LIBRARIES}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
endif()

function(met_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_LIBS" ${ARGN})
  if(arg_SOURCES)
    add_library(met_${name} STATIC ${arg_SOURCES})
    target_include_directories(met_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/kernels/include)
    target_link_libraries(met_${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_LIBS})
  else()
    add_library(met_${name} INTERFACE)
    target_include_directories(met_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/kernels/include)
    target_link_libraries(met_${name} INTERFACE ${arg_DEPS})
  endif()
  add_library(met::${name} ALIAS met_${name})
endfunction()

function(met_static_lib target archive)
  find_library(${target}_ARCHIVE NAMES ${archive} REQUIRED)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_ARCHIVE})
endfunction()

if(MET_TESTS)
  if(CMAKE_CROSSCOMPILING)
    set(INSTALL_GTEST OFF)
    add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  else()
    find_package(GTest REQUIRED)
  endif()
  # What the sanitizer builds of scripts/test make: tests that carry the label of the same name.
  add_custom_target(sanitized)
  add_custom_target(threaded)
endif()

function(met_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE MET_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(arg_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
    foreach(label ${arg_LABELS})
      if(TARGET ${label})
        add_dependencies(${label} ${name})
      endif()
    endforeach()
  endif()
endfunction()

function(met_fuzzer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT MET_TESTS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  set(grown)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND MET_SANITIZE)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(grown ${CMAKE_CURRENT_BINARY_DIR}/grown/${name})  # the first folder gets what libFuzzer finds new
    file(MAKE_DIRECTORY ${grown})
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/mutate_main.cpp)
  endif()
  add_test(NAME ${name} COMMAND ${name} -max_total_time=5 ${grown} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "fuzz")
  add_dependencies(sanitized ${name})
endfunction()
