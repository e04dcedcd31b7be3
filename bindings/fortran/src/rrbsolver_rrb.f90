! Family rrb_: solves A x = b on a 2D grid with RRB-preconditioned CG. A is symmetric with a 5-point or 9-point stencil.
!
! Arrays are real(c_double) of shape (nx, ny). With the option leading_dimension = ld >= nx their shape is (ld, ny).
! Values beyond nx are then padding and are not read.
!
!    center(i,j)      matrix entry of (i,j) with itself, positive
!    east(i,j)        matrix entry between (i,j) and (i+1,j), normally negative
!    north(i,j)       matrix entry between (i,j) and (i,j+1), normally negative
!    northeast(i,j)   matrix entry between (i,j) and (i+1,j+1)
!    northwest(i,j)   matrix entry between (i,j) and (i-1,j+1)
!
! The signs are those of -div(k grad x) = b. Entries that point outside the grid are ignored. The unit of x is the unit
! of b over that of the entries.
!
! create_distributed creates a solver for one domain on many ranks. Its arrays have the shape of the box of this rank,
! and entries may point into the boxes of other ranks.
module rrbsolver_rrb_handle
   use rrbsolver_rrb_c
   include "rrbsolver_handle.inc"
end module rrbsolver_rrb_handle

module rrbsolver_rrb
   use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t, c_loc
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_constants
   use rrbsolver_base, only: report, differs
   use rrbsolver_comm, only: rrb_comm_base
   use rrbsolver_rrb_c
   use rrbsolver_rrb_handle, only: handle_base
   implicit none
   private

   public :: rrb_solver, rrb_solve_once

   ! The second procedure accepts a positional stat after iterations. With the first one alone, stat would be the
   ! argument northeast, and compilers report "Type mismatch in argument 'northeast'".
   interface rrb_solve_once
      procedure :: rrb_solve_once, rrb_solve_once_5_point
   end interface rrb_solve_once

   ! A solver: grid, options, factorization and workspace. It inherits set, get, history, set_monitor, set_stream and
   ! destroy from rrbsolver_handle.inc. It cannot be copied by assignment.
   type, extends(handle_base) :: rrb_solver
      private
      integer(int64) :: nx = 0, ny = 0      ! of arrays: those of the grid, or of the one box of this rank
      integer(int64) :: boxes = 1           ! of this rank
      logical :: distributed = .false.
   contains
      procedure, private :: create_int32, create_int64
      procedure, private :: create_distributed_int32, create_distributed_int64
      procedure, private :: factorize_5_point, factorize_9_point
      generic :: create => create_int32, create_int64
      generic :: create_distributed => create_distributed_int32, create_distributed_int64
      generic :: factorize => factorize_5_point, factorize_9_point
      procedure :: solve
      procedure :: apply
      procedure :: multiply
   end type rrb_solver

contains

   ! create(nx, ny [, stat] [, errmsg]): creates a solver for nx x ny points, each extent at least 1. A previous solver
   ! in self is destroyed.
   subroutine create_int32(self, nx, ny, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      integer(int32), intent(in) :: nx, ny
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%create_int64(int(nx, int64), int(ny, int64), stat, errmsg)
   end subroutine create_int32

   subroutine create_int64(self, nx, ny, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      integer(int64), intent(in) :: nx, ny
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      call self%destroy()
      status = c_create(nx, ny, self%handle)
      if (status >= 0) call hold(self, nx, ny, 1_int64, distributed=.false.)
      call report(status, stat, errmsg)
   end subroutine create_int64

   ! create_distributed(nx, ny, lower, size, comm [, stat] [, errmsg]): creates a solver for nx x ny points that the
   ! ranks of comm share.
   !
   ! Box k of this rank has the points lower(1, k) .. lower(1, k) + size(1, k) - 1 in x, counted from 1, and likewise in
   ! y. lower and size have the shape (2, boxes). The boxes of all ranks are disjoint; points in no box are land.
   !
   ! With one box, factorize, solve, apply and multiply use arrays of its shape. With no box, they neither read nor
   ! write arrays; any shape is allowed, also size 0. For more boxes there are rrb_factorize_boxes etc. of rrbsolver.h.
   !
   ! This call and those are collective: all ranks make them in the same order with the same options. An error on one
   ! rank is an error on all ranks. Destroy self before comm is freed.
   subroutine create_distributed_int32(self, nx, ny, lower, size, comm, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      integer(int32), intent(in) :: nx, ny
      integer(int32), intent(in) :: lower(:, :), size(:, :)   ! (2, boxes)
      class(rrb_comm_base), intent(in) :: comm
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%create_distributed_int64(int(nx, int64), int(ny, int64), int(lower, int64), int(size, int64), comm, &
                                         stat, errmsg)
   end subroutine create_distributed_int32

   subroutine create_distributed_int64(self, nx, ny, lower, size, comm, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      integer(int64), intent(in) :: nx, ny
      integer(int64), intent(in) :: lower(:, :), size(:, :)   ! (2, boxes)
      class(rrb_comm_base), target, intent(in) :: comm
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      integer(c_int64_t) :: boxes
      logical :: wrong
      call self%destroy()
      boxes = ubound(lower, 2, int64)
      wrong = differs("lower", shape(lower, int64), [2_int64, boxes], stat, errmsg)
      if (.not. wrong) wrong = differs("size", shape(size, int64), shape(lower, int64), stat, errmsg)
      if (wrong) then
         ! The other ranks wait for this call: a box without a list makes it fail on all of them.
         status = c_create_distributed(nx, ny, 1_c_int64_t, comm=c_loc(comm%table), out=self%handle)
         return
      end if
      status = c_create_distributed(nx, ny, boxes, lower - 1, size, c_loc(comm%table), self%handle)
      if (status >= 0 .and. boxes == 1) call hold(self, size(1, 1), size(2, 1), boxes, distributed=.true.)
      if (status >= 0 .and. boxes /= 1) call hold(self, 0_int64, 0_int64, boxes, distributed=.true.)
      call report(status, stat, errmsg)
   end subroutine create_distributed_int64

   subroutine hold(self, nx, ny, boxes, distributed)
      class(rrb_solver), intent(inout) :: self
      integer(int64), intent(in) :: nx, ny, boxes
      logical, intent(in) :: distributed
      self%nx = nx
      self%ny = ny
      self%boxes = boxes
      self%distributed = distributed
   end subroutine hold

   ! factorize(center, east, north [, northeast, northwest] [, stat] [, errmsg]): copies the coefficients and
   ! factorizes. Without northeast and northwest the stencil has 5 points. A second call reuses the memory.
   !
   ! The generic has two specific procedures: with neither or with both of northeast and northwest. If a compiler finds
   ! no specific procedure, check the arguments: real(c_double) arrays of rank 2, then stat (default integer) and
   ! errmsg.
   subroutine factorize_5_point(self, center, east, north, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: center(:, :)   ! (ld, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)     ! (ld, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)    ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (wrong_shape(self, [character(6) :: "center", "east", "north"], &
                      [shape(center, int64), shape(east, int64), shape(north, int64)], stat, errmsg)) then
         if (self%distributed) status = c_factorize(self%handle)
         return
      end if
      call report(c_factorize(self%handle, center, east, north), stat, errmsg)
   end subroutine factorize_5_point

   subroutine factorize_9_point(self, center, east, north, northeast, northwest, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: center(:, :)      ! (ld, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)        ! (ld, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)       ! (ld, ny)
      real(c_double), contiguous, intent(in) :: northeast(:, :)   ! (ld, ny)
      real(c_double), contiguous, intent(in) :: northwest(:, :)   ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (wrong_shape(self, [character(9) :: "center", "east", "north", "northeast", "northwest"], &
                      [shape(center, int64), shape(east, int64), shape(north, int64), shape(northeast, int64), &
                       shape(northwest, int64)], stat, errmsg)) then
         if (self%distributed) status = c_factorize(self%handle)
         return
      end if
      call report(c_factorize(self%handle, center, east, north, northeast, northwest), stat, errmsg)
   end subroutine factorize_9_point

   ! solve(b, x [, stat] [, errmsg]): solves A x = b until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol), with the
   ! default norm and reference.
   !
   ! stat is RRB_OK, RRB_NOT_CONVERGED (iteration limit or stagnation), RRB_STOPPED (by the monitor) or negative.
   subroutine solve(self, b, x, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: b(:, :)      ! (ld, ny) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :)   ! (ld, ny) initial guess in, solution out
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (wrong_shape(self, ["b", "x"], [shape(b, int64), shape(x, int64)], stat, errmsg)) then
         if (self%distributed) status = c_solve(self%handle)
         return
      end if
      call report(c_solve(self%handle, b, x), stat, errmsg)
   end subroutine solve

   ! apply(r, z [, stat] [, errmsg]): computes z = M^-1 r with the preconditioner M, for a Krylov method of the caller.
   subroutine apply(self, r, z, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: r(:, :)      ! (ld, ny)
      real(c_double), contiguous, intent(inout) :: z(:, :)   ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (wrong_shape(self, ["r", "z"], [shape(r, int64), shape(z, int64)], stat, errmsg)) then
         if (self%distributed) status = c_apply(self%handle)
         return
      end if
      call report(c_apply(self%handle, r, z), stat, errmsg)
   end subroutine apply

   ! multiply(x, y [, stat] [, errmsg]): computes y = A x.
   subroutine multiply(self, x, y, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: x(:, :)      ! (ld, ny)
      real(c_double), contiguous, intent(inout) :: y(:, :)   ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (wrong_shape(self, ["x", "y"], [shape(x, int64), shape(y, int64)], stat, errmsg)) then
         if (self%distributed) status = c_multiply(self%handle)
         return
      end if
      call report(c_multiply(self%handle, x, y), stat, errmsg)
   end subroutine multiply

   ! rrb_solve_once(center, east, north, b, x, rel_tol, max_iter, iterations [, northeast, northwest] [, stat]
   ! [, errmsg]): creates a solver, factorizes, solves and destroys it, in place of an ICCG routine.
   !
   ! It stops when ||b - A x||_2 <= rel_tol * ||b||_2. Without northeast and northwest the stencil has 5 points. Use
   ! rrb_solver to solve again on the same grid.
   subroutine rrb_solve_once(center, east, north, b, x, rel_tol, max_iter, iterations, northeast, northwest, &
                             stat, errmsg)
      real(c_double), contiguous, intent(in) :: center(:, :)   ! (nx, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)     ! (nx, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)    ! (nx, ny)
      real(c_double), contiguous, intent(in) :: b(:, :)        ! (nx, ny) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :)     ! (nx, ny) initial guess in, solution out
      real(c_double), intent(in) :: rel_tol
      integer, intent(in) :: max_iter
      integer, intent(inout) :: iterations                     ! number of iterations
      real(c_double), contiguous, intent(in), optional :: northeast(:, :), northwest(:, :)   ! (nx, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      integer(c_int64_t) :: extent(2), wide
      extent = shape(center, int64)
      if (differs("east", shape(east, int64), extent, stat, errmsg)) return
      if (differs("north", shape(north, int64), extent, stat, errmsg)) return
      if (differs("b", shape(b, int64), extent, stat, errmsg)) return
      if (differs("x", shape(x, int64), extent, stat, errmsg)) return
      if (present(northeast)) then
         if (differs("northeast", shape(northeast, int64), extent, stat, errmsg)) return
      end if
      if (present(northwest)) then
         if (differs("northwest", shape(northwest, int64), extent, stat, errmsg)) return
      end if
      wide = iterations
      status = c_solve_once(extent(1), extent(2), center, east, north, northeast, northwest, b, x, rel_tol, &
                                int(max_iter, c_int64_t), wide)
      iterations = int(wide)
      call report(status, stat, errmsg)
   end subroutine rrb_solve_once

   ! The same for a 5-point stencil with a positional stat: rrb_solve_once(..., iterations, stat [, errmsg]). The name
   ! status distinguishes it from the procedure above.
   subroutine rrb_solve_once_5_point(center, east, north, b, x, rel_tol, max_iter, iterations, status, errmsg)
      real(c_double), contiguous, intent(in) :: center(:, :), east(:, :), north(:, :)   ! (nx, ny)
      real(c_double), contiguous, intent(in) :: b(:, :)                                 ! (nx, ny) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :)   ! (nx, ny) initial guess in, solution out
      real(c_double), intent(in) :: rel_tol
      integer, intent(in) :: max_iter
      integer, intent(inout) :: iterations                   ! number of iterations
      integer, intent(out) :: status
      character(*), intent(inout), optional :: errmsg
      call rrb_solve_once(center, east, north, b, x, rel_tol, max_iter, iterations, stat=status, errmsg=errmsg)
   end subroutine rrb_solve_once_5_point

   ! Returns .true. and reports RRB_ERR_DIMENSION if an array does not have the shape (ld, ny). C gets the address only.
   ! On many ranks the caller then makes the C call without arrays, so that it fails on the other ranks too.
   function wrong_shape(self, names, extents, stat, errmsg) result(wrong)
      class(rrb_solver), intent(in) :: self
      character(*), intent(in) :: names(:)
      integer(int64), intent(in) :: extents(2, size(names))
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      integer(c_int64_t) :: ld
      integer(c_int32_t) :: status
      integer :: k
      wrong = .false.
      if (present(stat)) stat = RRB_OK
      ld = 0
      status = c_get_int(self%handle, RRB_OPT_LEADING_DIMENSION, ld)
      ! The C function reports a solver that was not created, and one with several boxes. Without boxes the arrays are
      ! not used.
      if (status < 0 .or. self%boxes /= 1) return
      do k = 1, size(names)
         wrong = differs(trim(names(k)), extents(:, k), [max(ld, self%nx), self%ny], stat, errmsg)
         if (wrong) return
      end do
   end function wrong_shape
end module rrbsolver_rrb
