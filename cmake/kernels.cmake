# Kernel targets: which ones, and the rule that builds them.
#
#   met_kernel_table(out_table out_archive)   names of the generated source and of the archive of objects

# A list from the command line, else from the environment, else a default; `implicit` collects what nobody chose.
macro(met_selection variable environment default what)
  set(${variable} "" CACHE STRING "kernel targets to build: ${what} (list, empty: ${default})")
  set(_chosen "${${variable}}")
  if(NOT _chosen AND NOT "$ENV{${environment}}" STREQUAL "")
    set(_chosen "$ENV{${environment}}")
  endif()
  if(NOT _chosen)
    set(_chosen "${default}")
    list(APPEND _implicit ${what})
  endif()
  string(REPLACE ";" "," _selected_${what} "${_chosen}")
endmacro()

# Name of the program that builds kernels: here, or a build of its own where this one is for another machine.
function(met_kernelc out)
  if(NOT CMAKE_CROSSCOMPILING)
    set(${out} kernelc PARENT_SCOPE)
    return()
  endif()
  set(tools ${CMAKE_BINARY_DIR}/tools)
  set(program ${tools}/src/kernelc/kernelc)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/core/* ${CMAKE_SOURCE_DIR}/src/closure/*
       ${CMAKE_SOURCE_DIR}/src/kernelc/*)
  add_custom_command(OUTPUT ${program}
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_SOURCE_DIR} -B ${tools} -G ${CMAKE_GENERATOR} -DCMAKE_BUILD_TYPE=Dev -DMET_TOOLS_ONLY=ON
    COMMAND ${CMAKE_COMMAND} --build ${tools} --target kernelc
    DEPENDS ${sources} COMMENT "Building kernelc for this machine" VERBATIM)
  set(${out} ${program} PARENT_SCOPE)
endfunction()

function(met_kernel_table out_table out_archive)
  find_program(MET_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  set(default_hw cpu)
  if(MET_NVCC)
    list(APPEND default_hw hopper)
  endif()
  set(_implicit)
  met_selection(MET_TARGET_HW METRALE_TARGET_HW "${default_hw}" hw)
  met_selection(MET_TARGET_MODEL METRALE_TARGET_MODEL "*" model)
  met_selection(MET_TARGET_QUANT METRALE_TARGET_QUANT "*" quant)

  set(out ${CMAKE_BINARY_DIR}/kernels)
  set(table ${out}/kernel_table.cpp)
  set(archive ${out}/libmet_kernel_objects.a)
  # Kernels are compiled without sanitizers, so all build folders share one cache of objects.
  met_kernelc(kernelc)
  set(command ${kernelc} --tree ${CMAKE_SOURCE_DIR}/kernels --out ${out} --cache ${CMAKE_SOURCE_DIR}/build/kernel-cache
      --hw ${_selected_hw} --model ${_selected_model} --quant ${_selected_quant} --cxx ${CMAKE_CXX_COMPILER} --ar ${CMAKE_AR})
  if(_implicit)
    string(REPLACE ";" "," defaults "${_implicit}")
    list(APPEND command --implicit ${defaults})
  endif()
  if(MET_NVCC)
    list(APPEND command --nvcc ${MET_NVCC})
  endif()
  if(CCACHE)
    list(APPEND command --launcher ${CCACHE})
  endif()
  if("$ENV{METRALE_KERNEL_NO_STRICT}" STREQUAL "1")
    list(APPEND command --no-strict)
  endif()
  if(NOT "$ENV{METRALE_EXTRA_NVCC_FLAGS}" STREQUAL "")
    list(APPEND command --extra-nvcc-flags "$ENV{METRALE_EXTRA_NVCC_FLAGS}")
  endif()
  set(outputs ${table} ${archive})
  # Kernels of this tree need Linux compilers; on a Mac they are skipped unless a hardware is asked for.
  if(MET_SKIP_KERNELS OR (APPLE AND "hw" IN_LIST _implicit) OR "$ENV{METRALE_SKIP_BUILD}" MATCHES "^(1|true|TRUE)$")
    list(APPEND command --skip)
    set(outputs ${table})
    set(archive)
    message(STATUS "kernels: skipped, serving defaults of ${_selected_hw} only")
  else()
    message(STATUS "kernels: hardware ${_selected_hw}, model ${_selected_model}, quant ${_selected_quant}"
                   " (by default: ${defaults})")
    if(NOT MET_NVCC)
      message(STATUS "kernels: no nvcc found, CUDA targets are left out")
    endif()
  endif()
  file(GLOB_RECURSE tree CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*)
  add_custom_command(OUTPUT ${outputs} COMMAND ${command} DEPENDS ${kernelc} ${tree}
                     COMMENT "Building kernels" VERBATIM)
  set(${out_table} ${table} PARENT_SCOPE)
  set(${out_archive} ${archive} PARENT_SCOPE)
endfunction()
