! rrbsolver for Fortran 2018: solvers for stencils on grids, and for general sparse matrices. An example in 2D:
!
!    use rrbsolver
!    type(rrb_solver) :: solver
!    call solver%create(nx, ny)
!    call solver%factorize(center, east, north)      ! again when the coefficients change
!    call solver%solve(b, x)                         ! x: initial guess in, solution out
!
!    type               for                                             source with all procedures and arguments
!    rrb_solver         A x = b on a 2D grid, 5 or 9 points             rrbsolver_rrb.f90; ranks: rrbsolver_comm.f90
!    dpcg_solver        A x = b on a 3D grid, 7 points                  rrbsolver_dpcg.f90
!    smoother           block relaxation on 3D patches                  rrbsolver_smoother.f90
!    sparse_solver      general sparse matrices, formats, files         rrbsolver_sparse.f90
!    (all of these)     options, results, history, monitor, stream      rrbsolver_handle.inc
!
! Errors follow Fortran's rule for allocate. Every procedure has the optional arguments stat and errmsg. stat is RRB_OK
! (0), positive if the results are usable but incomplete (RRB_NOT_CONVERGED, RRB_STOPPED), or negative after an error
! (RRB_ERR_...). errmsg is changed only if stat is not 0: it is then the error message, or for a positive stat the
! iterations, the residual, its target and the stop reason. Without stat, a negative status ends the program by error
! stop with the error message, and a positive one does not. Indices in messages count from 1.
!
! Threads: different objects are independent; one thread uses an object at a time.
module rrbsolver
   use rrbsolver_constants
   use rrbsolver_base, only: rrb_monitor, rrbsolver_version, rrbsolver_status_string, rrbsolver_cuda_device_count
   use rrbsolver_comm, only: rrb_comm_base, rrb_comm_table
   use rrbsolver_rrb, only: rrb_solver, rrb_solve_once
   use rrbsolver_dpcg, only: dpcg_solver, dpcg_solve_once
   use rrbsolver_sparse, only: sparse_solver
   use rrbsolver_smoother, only: smoother, smoother_patch, smoother_ghost_fill
   implicit none
   public
end module rrbsolver
