# The grammar engine as the static library `xgrammar`: sources of a pinned package, never part of this repository.
#
# Its flags are the same in every preset and its folder the same for every checkout, so that ccache compiles it once
# for a machine. It is never built under a sanitizer: src/grammar checks what goes in. Its calls of operator new and
# delete are renamed to those of src/grammar/meter.cpp, which bound what one compilation may take.
if(NOT MET_XGRAMMAR_DIR)
  if(DEFINED ENV{HOME})
    set(default_cache $ENV{HOME}/.cache)
  else()
    set(default_cache ${CMAKE_SOURCE_DIR}/build)
  endif()
  set(MET_XGRAMMAR_DIR ${default_cache}/met/xgrammar-0.2.8 CACHE PATH "unpacked sources of xgrammar")
endif()
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch_xgrammar ${MET_XGRAMMAR_DIR} COMMAND_ERROR_IS_FATAL ANY)

file(GLOB xgrammar_sources ${MET_XGRAMMAR_DIR}/cpp/*.cc ${MET_XGRAMMAR_DIR}/cpp/support/*.cc
     ${MET_XGRAMMAR_DIR}/cpp/converter_ext/*.cc)
set(CMAKE_CXX_FLAGS_DEV "")
set(CMAKE_CXX_FLAGS_RELEASE "")
add_library(xgrammar_plain STATIC EXCLUDE_FROM_ALL ${xgrammar_sources})
set_target_properties(xgrammar_plain PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS OFF
  COMPILE_OPTIONS "-O2;-w;-DNDEBUG" EXPORT_COMPILE_COMMANDS OFF)
target_include_directories(xgrammar_plain SYSTEM PRIVATE ${MET_XGRAMMAR_DIR}/include
  ${MET_XGRAMMAR_DIR}/3rdparty/dlpack/include ${MET_XGRAMMAR_DIR}/3rdparty/picojson)
target_compile_definitions(xgrammar_plain PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)

set(metered ${CMAKE_CURRENT_BINARY_DIR}/libxgrammar_metered.a)
set(renames)
foreach(pair _Znwm=new _Znam=new_array _ZdlPv=delete _ZdaPv=delete_array _ZdlPvm=delete_sized
        _ZdaPvm=delete_array_sized)
  string(REPLACE "=" "=met_metered_" pair ${pair})
  list(APPEND renames --redefine-sym ${pair})
endforeach()
add_custom_command(OUTPUT ${metered}
  COMMAND ${CMAKE_OBJCOPY} ${renames} $<TARGET_FILE:xgrammar_plain> ${metered}
  DEPENDS xgrammar_plain VERBATIM)
add_custom_target(xgrammar_metered DEPENDS ${metered})
add_library(xgrammar STATIC IMPORTED GLOBAL)
set_target_properties(xgrammar PROPERTIES IMPORTED_LOCATION ${metered})
target_include_directories(xgrammar SYSTEM INTERFACE ${MET_XGRAMMAR_DIR}/include
  ${MET_XGRAMMAR_DIR}/3rdparty/dlpack/include)
target_compile_definitions(xgrammar INTERFACE XGRAMMAR_ENABLE_CPPTRACE=0)
add_dependencies(xgrammar xgrammar_metered)
