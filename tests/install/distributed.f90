! A user's MPI program for one grid that is distributed over ranks, built against the installed package. Groups of 1, 2,
! ... ranks solve on the grid with several partitions. Exit status 0: the library behaves as documented.
program distributed
   use, intrinsic :: iso_c_binding, only: c_double
   use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan
   use mpi
   use rrbsolver
   use rrbsolver_mpi
   implicit none

   integer, parameter :: nx = 53, ny = 38
   ! With these options, the library makes no automatic selection.
   character(*), parameter :: options = "fusion=off precision=f64 cycle=v rel_tol=1e-9 comm_timeout=20"
   real(c_double), dimension(nx, ny) :: center, east, north, b, expected
   type(rrb_comm) :: none
   integer :: rank, ranks, n, group, stat, ierror
   character(200) :: errmsg

   call MPI_Init(ierror)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
   call make_system()
   call solve_alone()
   do n = 1, ranks
      call MPI_Comm_split(MPI_COMM_WORLD, merge(0, MPI_UNDEFINED, rank < n), rank, group, ierror)
      if (group == MPI_COMM_NULL) cycle
      call check_bits(group, [1, n])
      call check_bits(group, [n, 1])
      if (n == 4) call check_bits(group, [2, 2])
      ! One rank owns no box.
      if (n > 1) call check_bits(group, [1, n - 1])
      call MPI_Comm_free(group, ierror)
   end do
   call none%from_mpi(MPI_COMM_NULL, stat, errmsg)
   call check(stat == RRB_ERR_COMMUNICATION .and. index(errmsg, "could not duplicate") > 0, errmsg)
   call check_missing()
   call MPI_Barrier(MPI_COMM_WORLD, ierror)
   if (rank == 0) print "(a, i0, a)", "one domain over up to ", ranks, " ranks in Fortran: all as documented"
   call MPI_Finalize(ierror)

contains

   subroutine make_system()
      integer :: i, j
      do j = 1, ny
         do i = 1, nx
            east(i, j) = merge(-1 - mod(7*i + 3*j, 5), 0, i < nx)
            north(i, j) = merge(-1 - mod(5*i + 2*j, 7), 0, j < ny)
            b(i, j) = mod(11*i + 13*j, 17) - 8
         end do
      end do
      center = 0.05_c_double - east - north
      center(2:, :) = center(2:, :) - east(:nx - 1, :)
      center(:, 2:) = center(:, 2:) - north(:, :ny - 1)
   end subroutine make_system

   subroutine solve_alone()
      type(rrb_solver) :: solver
      call solver%create(nx, ny)
      call solver%set(options)
      call solver%factorize(center, east, north)
      expected = 0
      call solver%solve(b, expected)
   end subroutine solve_alone

   ! Returns the box of a rank in a partition into of(1) x of(2) boxes. The lower corner and the extents have the shape
   ! (2, 1), or (2, 0) if the rank owns no box.
   subroutine brick(of, rank, lower, extents)
      integer, intent(in) :: of(2), rank
      integer, allocatable, intent(out) :: lower(:, :), extents(:, :)
      integer :: place(2), boxes
      boxes = merge(1, 0, rank < product(of))
      place = [mod(rank, of(1)), rank/of(1)]
      allocate (lower(2, boxes), extents(2, boxes))
      if (boxes == 0) return
      lower(:, 1) = [nx, ny]*place/of + 1
      extents(:, 1) = [nx, ny]*(place + 1)/of - lower(:, 1) + 1
   end subroutine brick

   ! Returns the part of an array in the box of a rank. The size is 0 if the rank owns no box.
   function part(array, lower, extents) result(cut)
      real(c_double), intent(in) :: array(nx, ny)
      integer, intent(in) :: lower(:, :), extents(:, :)
      real(c_double), allocatable :: cut(:, :)
      if (size(lower, 2) == 0) then
         allocate (cut(0, 0))
      else
         cut = array(lower(1, 1):lower(1, 1) + extents(1, 1) - 1, lower(2, 1):lower(2, 1) + extents(2, 1) - 1)
      end if
   end function part

   ! A group of ranks solves on a partition. Rank 0 checks that the result is bitwise identical to the solution of one
   ! rank.
   subroutine check_bits(group, of)
      integer, intent(in) :: group, of(2)
      type(rrb_comm) :: comm
      type(rrb_solver) :: solver
      integer, allocatable :: lower(:, :), extents(:, :)
      real(c_double), allocatable :: x(:, :), own_b(:, :), y(:, :), short_one(:, :)
      real(c_double) :: mine(nx, ny), whole(nx, ny)
      integer :: rank, last
      call MPI_Comm_rank(group, rank, ierror)
      call brick(of, rank, lower, extents)
      call comm%from_mpi(group)
      call solver%create_distributed(nx, ny, lower, extents, comm)
      call solver%set(options)
      call solver%factorize(part(center, lower, extents), part(east, lower, extents), part(north, lower, extents))
      own_b = part(b, lower, extents)
      x = 0*own_b
      call solver%solve(own_b, x)
      mine = 0
      whole = 0
      if (size(lower, 2) == 1) mine(lower(1, 1):lower(1, 1) + extents(1, 1) - 1, &
                                    lower(2, 1):lower(2, 1) + extents(2, 1) - 1) = x
      ! Outside its box, each rank contributes 0, so the sums are exact.
      call MPI_Reduce(mine, whole, size(mine), MPI_DOUBLE_PRECISION, MPI_SUM, 0, group, ierror)
      call check(rank /= 0 .or. all(abs(whole - expected) <= 0), "bits of one")
      y = x
      call solver%multiply(x, y)
      call check(all(abs(y - own_b) < 1e-5_c_double), "multiply")
      call solver%apply(own_b, y)

      ! One rank passes an array of a wrong shape, then a NaN. The call fails on all ranks, and the next call succeeds.
      last = product(of) - 1
      short_one = x(:, 2:)
      if (rank == last) then
         call solver%solve(own_b, short_one, stat, errmsg)
         call check(stat == RRB_ERR_DIMENSION .and. index(errmsg, "x must have the shape") > 0, errmsg)
         own_b(1, 1) = ieee_value(1.0_c_double, ieee_quiet_nan)
      else
         call solver%solve(own_b, x, stat, errmsg)
         call check(stat == RRB_ERR_NULL, errmsg)
      end if
      call solver%solve(own_b, x, stat, errmsg)
      call check(stat == RRB_ERR_NOT_FINITE .and. index(errmsg, "b holds NaN") > 0, errmsg)
      own_b = part(b, lower, extents)
      call solver%solve(own_b, x)
      ! The finalizer destroys the solver after this call, at the end of the scope.
      call comm%free()
   end subroutine check_bits

   ! The last rank does not take part in a call. The other ranks must not wait forever.
   subroutine check_missing()
      type(rrb_comm) :: comm
      type(rrb_solver) :: solver
      integer, allocatable :: lower(:, :), extents(:, :)
      real(c_double), allocatable :: x(:, :)
      double precision :: since
      call brick([ranks, 1], rank, lower, extents)
      call comm%from_mpi(MPI_COMM_WORLD)
      ! On one rank, lower has a wrong shape.
      if (rank == 0) then
         call solver%create_distributed(nx, ny, lower(1:1, :), extents, comm, stat, errmsg)
         call check(stat == RRB_ERR_DIMENSION .and. index(errmsg, "lower must have the shape") > 0, errmsg)
      else
         call solver%create_distributed(nx, ny, lower, extents, comm, stat, errmsg)
         call check(stat == RRB_ERR_NULL, errmsg)
      end if
      call solver%create_distributed(nx, ny, lower, extents, comm)
      call solver%factorize(part(center, lower, extents), part(east, lower, extents), part(north, lower, extents))
      call solver%set(RRB_OPT_COMM_TIMEOUT, 0.3_c_double)
      if (rank + 1 < ranks) then
         since = MPI_Wtime()
         x = 0*part(b, lower, extents)
         call solver%solve(part(b, lower, extents), x, stat, errmsg)
         call check(stat == RRB_ERR_COMMUNICATION .and. index(errmsg, "comm_timeout") > 0, errmsg)
         call check(MPI_Wtime() - since < 10, "in time")
      end if
      call solver%destroy()
      call comm%free()
   end subroutine check_missing

   subroutine check(right, what)
      logical, intent(in) :: right
      character(*), intent(in) :: what
      if (.not. right) error stop "failed: " // trim(what)
   end subroutine check
end program distributed
