! rrbsolver for Fortran 2018: A x = b on a 2D grid, A symmetric with a 5-point or 9-point stencil, solved by CG with the
! RRB preconditioner.
!
!    use rrbsolver
!    type(rrb_solver) :: solver
!    call solver%create(nx, ny)
!    call solver%factorize(center, east, north)      ! again whenever the coefficients change
!    call solver%solve(b, x)                         ! x: initial guess in, solution out
!
! Arrays and coefficients: rrbsolver_rrb.f90; one domain over many ranks: rrbsolver_comm.f90. A x = b in 3D,
! type(dpcg_solver): rrbsolver_dpcg.f90. Block smoothers on 3D patches, type(smoother): rrbsolver_smoother.f90. General
! sparse matrices, type(sparse_solver): solves, products, formats and files: rrbsolver_sparse.f90. What all have:
! rrbsolver_handle.inc.
!
! Errors follow Fortran's rule for allocate. Every procedure takes the optional arguments stat (0: done; positive:
! finished with a caveat, results usable; negative: failed; named RRB_OK, RRB_NOT_CONVERGED, RRB_ERR_...) and errmsg
! (changed only when stat is not 0). Without stat, a negative status ends the program by error stop with the library's
! sentence, and a positive one goes on. Indices in sentences count from 1.
!
! Threads: different solvers and smoothers are independent; each is used by one thread at a time.
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
