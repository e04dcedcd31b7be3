# rrbsolver::fortran: the module, compiled by the compiler of the project that uses it and with its flags, because .mod
# files fit one compiler only. Expects _rrbsolver_fortran, the folder of the sources, and that Fortran is enabled.
if(NOT TARGET rrbsolver::fortran)
  # An include folder of an imported target must exist when build files are written.
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

  # Imported, so that a project may export a target that links to it: its own package then finds rrbsolver again.
  add_library(rrbsolver::fortran INTERFACE IMPORTED GLOBAL)
  set_target_properties(rrbsolver::fortran PROPERTIES INTERFACE_LINK_LIBRARIES rrbsolver_fortran)
endif()
