# Targets of the installed package and of the build tree. Needs _rrbsolver_shared, _rrbsolver_soname, _rrbsolver_static
# and _rrbsolver_include.

# System libraries of the static library, as `rustc --print native-static-libs` lists them.
set(rrbsolver_SYSTEM_LIBRARIES gcc_s util rt pthread m dl c)

# Sources of the Fortran module, in the order of compilation.
set(rrbsolver_FORTRAN_FILES
  rrbsolver_c.f90 rrbsolver_base.f90 rrbsolver_comm.f90 rrbsolver_rrb.f90 rrbsolver_dpcg.f90 rrbsolver_smoother.f90
  rrbsolver_sparse.f90 rrbsolver.f90)

if(NOT TARGET rrbsolver::rrbsolver)
  add_library(rrbsolver::rrbsolver SHARED IMPORTED GLOBAL)
  set_target_properties(rrbsolver::rrbsolver PROPERTIES
    IMPORTED_LOCATION "${_rrbsolver_shared}"
    IMPORTED_SONAME "${_rrbsolver_soname}"
    INTERFACE_INCLUDE_DIRECTORIES "${_rrbsolver_include}")

  add_library(rrbsolver::static STATIC IMPORTED GLOBAL)
  set_target_properties(rrbsolver::static PROPERTIES
    IMPORTED_LOCATION "${_rrbsolver_static}"
    INTERFACE_INCLUDE_DIRECTORIES "${_rrbsolver_include}"
    INTERFACE_LINK_LIBRARIES "${rrbsolver_SYSTEM_LIBRARIES}")

  add_library(rrbsolver::cxx INTERFACE IMPORTED GLOBAL)
  set_target_properties(rrbsolver::cxx PROPERTIES
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES rrbsolver::rrbsolver)
endif()
