# The programs over MPI: each is started once, with four ranks, of which it makes groups.
function(over_mpi name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARGN})
  add_test(NAME ${name} COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} 4 ${MPIEXEC_PREFLAGS}
                                $<TARGET_FILE:${name}> ${MPIEXEC_POSTFLAGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 60)
endfunction()

over_mpi(distributed_c distributed.c rrbsolver::rrbsolver rrbsolver::mpi)
over_mpi(distributed_static distributed.c rrbsolver::static rrbsolver::mpi)
over_mpi(distributed_cxx distributed.cpp rrbsolver::cxx rrbsolver::mpi)
over_mpi(distributed_fortran distributed.f90 rrbsolver::mpi_fortran MPI::MPI_Fortran)
if(MPI_Fortran_HAVE_F08_MODULE)
  over_mpi(distributed_f08 distributed_f08.f90 rrbsolver::mpi_fortran MPI::MPI_Fortran)
else()
  message(STATUS "skipped: this MPI has no module mpi_f08 for this compiler")
endif()
