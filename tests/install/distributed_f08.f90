! Distributed solve with a communicator of the module mpi_f08. Exit status 0: the library behaves as documented.
program distributed_f08
   use, intrinsic :: iso_c_binding, only: c_double
   use mpi_f08
   use rrbsolver
   use rrbsolver_mpi
   implicit none

   ! The row sums are 1 for interior nodes, plus 1 for each missing neighbour. b contains the row sums, so x = 1.
   integer, parameter :: nx = 20, rows = 6
   real(c_double), dimension(nx, rows) :: center, east, north, b, x
   type(rrb_comm) :: comm
   type(rrb_solver) :: solver
   integer :: rank, ranks

   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   center = 5
   east = -1
   north = -1
   b = 1
   b([1, nx], :) = b([1, nx], :) + 1
   if (rank == 0) b(:, 1) = b(:, 1) + 1
   if (rank + 1 == ranks) b(:, rows) = b(:, rows) + 1
   x = 0
   call comm%from_mpi(MPI_COMM_WORLD%MPI_VAL)
   call solver%create_distributed(nx, rows*ranks, lower=reshape([1, rows*rank + 1], [2, 1]), &
                                  size=reshape([nx, rows], [2, 1]), comm=comm)
   call solver%set("rel_tol=1e-10")
   call solver%factorize(center, east, north)
   call solver%solve(b, x)
   ! The smallest eigenvalue exceeds 1, so the error is at most the residual, 1e-10 times the norm of b.
   if (any(abs(x - 1) > 1e-6_c_double)) error stop "x is not 1"
   call solver%destroy()
   call comm%free()
   if (rank == 0) print "(a, i0, a)", "a domain over ", ranks, " ranks of mpi_f08: all as documented"
   call MPI_Finalize()
end program distributed_f08
