# rrbsolver::mpi: rrbsolver_mpi.c. Each target that links to it compiles this file, because the object file is specific
# to one MPI; the library itself does not depend on MPI. Such a target also links to rrbsolver::rrbsolver, ::static or
# ::cxx.
#
# rrbsolver::mpi_fortran, if rrbsolver::fortran exists: the module rrbsolver_mpi, including rrbsolver_mpi.c.
#
# Needs _rrbsolver_mpi, the folder of the sources, _rrbsolver_include, and the target MPI::MPI_C.
if(NOT TARGET rrbsolver::mpi)
  add_library(rrbsolver::mpi INTERFACE IMPORTED GLOBAL)
  set_target_properties(rrbsolver::mpi PROPERTIES
    INTERFACE_SOURCES "${_rrbsolver_mpi}/rrbsolver_mpi.c"
    INTERFACE_INCLUDE_DIRECTORIES "${_rrbsolver_mpi};${_rrbsolver_include}"
    INTERFACE_LINK_LIBRARIES MPI::MPI_C)
endif()

if(TARGET rrbsolver::fortran AND NOT TARGET rrbsolver::mpi_fortran)
  set(_rrbsolver_mpi_modules "${CMAKE_CURRENT_BINARY_DIR}/rrbsolver-mpi-fortran")
  file(MAKE_DIRECTORY "${_rrbsolver_mpi_modules}")

  # PRIVATE: targets that link to this do not compile rrbsolver_mpi.c again.
  add_library(rrbsolver_mpi_fortran STATIC EXCLUDE_FROM_ALL "${_rrbsolver_mpi}/rrbsolver_mpi.f90")
  set_target_properties(rrbsolver_mpi_fortran PROPERTIES
    Fortran_FORMAT FREE
    Fortran_MODULE_DIRECTORY "${_rrbsolver_mpi_modules}"
    POSITION_INDEPENDENT_CODE ON)
  target_include_directories(rrbsolver_mpi_fortran INTERFACE "${_rrbsolver_mpi_modules}")
  target_link_libraries(rrbsolver_mpi_fortran PUBLIC rrbsolver::fortran PRIVATE rrbsolver::mpi)

  add_library(rrbsolver::mpi_fortran INTERFACE IMPORTED GLOBAL)
  set_target_properties(rrbsolver::mpi_fortran PROPERTIES INTERFACE_LINK_LIBRARIES rrbsolver_mpi_fortran)
endif()
