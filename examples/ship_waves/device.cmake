# --device: waves_on_device.cu, compiled by nvcc if there is one. Without CMake's language CUDA, which does not accept every
# installation of nvcc.
option(SHIP_WAVES_CUDA "compile for CUDA devices if nvcc is found" ON)
set(SHIP_WAVES_CUDA_CODE "-gencode=arch=compute_75,code=compute_75" CACHE STRING
    "code that nvcc generates; PTX of 7.5 runs on every device of compute capability 7.5 or newer")

# A device and the Fortran loops give bitwise identical results only without fused multiply-add.
if(CMAKE_Fortran_COMPILER_ID STREQUAL "GNU")
  set_source_files_properties(wave_loops.f90 current_loops.f90 currents.f90 time_stepping.f90 device_tests.f90
                              PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
endif()

# add_device_tests(NAME ARGUMENT SOURCE...): the tests of the code for devices.
function(add_device_tests name argument)
  add_executable(${name} test_report.f90 device_tests.f90 ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE Fortran)
  target_link_libraries(${name} PRIVATE ship_model)
  add_warnings(${name})
  add_test(NAME ${name} COMMAND ${name} ${argument})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1 SKIP_RETURN_CODE 77)
endfunction()

# nvcc is searched for in CUDA_HOME, in the folder .cuda of the library's sources, and in the PATH.
if(SHIP_WAVES_CUDA)
  find_program(SHIP_WAVES_NVCC nvcc NO_DEFAULT_PATH
               PATHS "$ENV{CUDA_HOME}/bin" "${CMAKE_CURRENT_SOURCE_DIR}/../../.cuda/nvidia/cu13/bin")
  find_program(SHIP_WAVES_NVCC nvcc)
endif()
if(SHIP_WAVES_NVCC)
  get_filename_component(cuda "${SHIP_WAVES_NVCC}" REALPATH)
  get_filename_component(cuda "${cuda}/../.." ABSOLUTE)
  find_library(SHIP_WAVES_CUDART cudart_static NO_DEFAULT_PATH
               PATHS "${cuda}/lib64" "${cuda}/lib" "${cuda}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib")
endif()

if(SHIP_WAVES_CUDA AND SHIP_WAVES_CUDART)
  set(object "${CMAKE_CURRENT_BINARY_DIR}/waves_on_device.o")
  add_custom_command(OUTPUT "${object}" DEPENDS waves_on_device.cu VERBATIM
                     COMMAND "${SHIP_WAVES_NVCC}" -std=c++17 -O3 -fmad=false ${SHIP_WAVES_CUDA_CODE}
                             -Xcompiler=-fPIC,-Wall,-Wextra -c "${CMAKE_CURRENT_SOURCE_DIR}/waves_on_device.cu"
                             -o "${object}")
  add_custom_target(waves_on_device_object DEPENDS "${object}")
  add_device_tests(ship_waves_device_tests 0)
  foreach(target ship_waves ship_waves_device_tests)
    add_dependencies(${target} waves_on_device_object)
    target_link_libraries(${target} PRIVATE "${object}" "${SHIP_WAVES_CUDART}" stdc++ pthread dl rt)
  endforeach()
  message(STATUS "ship_waves --device: compiled by ${SHIP_WAVES_NVCC}")
else()
  target_sources(ship_waves PRIVATE no_device.f90)
  message(STATUS "ship_waves --device: not built, as there is no nvcc with libcudart_static.a")
endif()

# The same code for the host, which needs no nvcc.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set_source_files_properties(waves_on_host.cpp PROPERTIES OBJECT_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/waves_on_device.cu"
                              COMPILE_OPTIONS -ffp-contract=off)
  add_device_tests(ship_waves_device_tests_on_host host waves_on_host.cpp)
  set_target_properties(ship_waves_device_tests_on_host PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
endif()
