# rrbsolver::fortran: the Fortran module. The project that uses it compiles it with its own compiler and flags, because
# .mod files are specific to a compiler. Needs _rrbsolver_fortran, the folder of the sources, and the language Fortran.
if(NOT TARGET rrbsolver::fortran)
  # The include folder of an imported target must exist when CMake generates the build files.
  set(_rrbsolver_modules "${CMAKE_CURRENT_BINARY_DIR}/rrbsolver-fortran")
  file(MAKE_DIRECTORY "${_rrbsolver_modules}")

  set(_rrbsolver_files "")
  foreach(_rrbsolver_file IN LISTS rrbsolver_FORTRAN_FILES)
    list(APPEND _rrbsolver_files "${_rrbsolver_fortran}/${_rrbsolver_file}")
  endforeach()
  add_library(rrbsolver_fortran STATIC EXCLUDE_FROM_ALL ${_rrbsolver_files})
  set_target_properties(rrbsolver_fortran PROPERTIES
    Fortran_FORMAT FREE
    Fortran_MODULE_DIRECTORY "${_rrbsolver_modules}"
    POSITION_INDEPENDENT_CODE ON)
  target_include_directories(rrbsolver_fortran INTERFACE "${_rrbsolver_modules}")
  target_link_libraries(rrbsolver_fortran PUBLIC rrbsolver::rrbsolver)

  # Imported: a project can then export a target that links to it, and its package finds rrbsolver again.
  add_library(rrbsolver::fortran INTERFACE IMPORTED GLOBAL)
  set_target_properties(rrbsolver::fortran PROPERTIES INTERFACE_LINK_LIBRARIES rrbsolver_fortran)
endif()
