! Family rrb: A x = b on a 2D grid, A symmetric with a 5-point or 9-point stencil.
!
! Arrays are real(c_double) of shape (nx, ny), i = 1..nx fastest: the order of a(nx, ny). With the option
! leading_dimension set to ld >= nx their shape is (ld, ny), and rows i > nx are ignored; their contents may be
! anything.
!
!    center(i,j)      the matrix entry of (i,j) with itself, positive
!    east(i,j)        the entry between (i,j) and (i+1,j), usually negative
!    north(i,j)       the entry between (i,j) and (i,j+1)
!    northeast(i,j)   the entry between (i,j) and (i+1,j+1)
!    northwest(i,j)   the entry between (i,j) and (i-1,j+1)
!
! Entries that point outside the grid are ignored. Unit: any; x then has the unit of b over that of the entries.
!
! One domain over many ranks: create_distributed. Arrays are then those of the box of this rank, and have its shape;
! entries may lead into the boxes of other ranks.
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

   ! One solver: a grid size, options, a factorization and its workspace. Besides the procedures here it has
   ! set, get, history, set_monitor, set_stream and destroy of rrbsolver_handle.inc. It cannot be copied by assignment.
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

   ! create(nx, ny [, stat, errmsg]): a solver for nx x ny points, 1 x 1 and up. What self held before is destroyed.
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

   ! create_distributed(nx, ny, lower, size, comm [, stat, errmsg]): a solver for nx x ny points that the ranks of comm
   ! share. Box k of this rank is the points lower(1, k) .. lower(1, k) + size(1, k) - 1 in x, counted from 1, and so on
   ! in y. lower and size have the shape (2, boxes). Boxes of all ranks are disjoint; points in no box are land.
   !
   ! With one box, factorize, solve, apply and multiply take arrays of its shape. With no box they take arrays of any
   ! shape, of size 0 too, and do not read or write them. With more there are rrb_factorize_boxes, ... of rrbsolver.h.
   ! This call and those are collective: all ranks make them in the same order with the same options. Where one refuses
   ! a call, so do all. comm is freed after self is destroyed.
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
         ! A box without a list: the other ranks wait for this call, and refuse it as well.
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

   ! factorize(center, east, north [, northeast, northwest] [, stat, errmsg]): takes new coefficients; without the
   ! corner arrays the stencil has 5 points. The values are copied. Called again, it reuses all memory.
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

   ! solve(b, x [, stat, errmsg]): A x = b. stat is RRB_OK, RRB_NOT_CONVERGED (max_iter reached), RRB_STOPPED (by the
   ! monitor) or negative. With the default norm it iterates until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol).
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

   ! apply(r, z [, stat, errmsg]): z = M^-1 r with the RRB preconditioner M, for a Krylov loop of your own.
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

   ! multiply(x, y [, stat, errmsg]): y = A x with the factorized matrix.
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

   ! The whole of it in one call, in place of an ICCG subroutine: factorizes, solves, forgets. Without the corner arrays
   ! the stencil has 5 points. Stops when ||b - A x||_2 <= rel_tol * ||b||_2. Prefer rrb_solver when the coefficients
   ! stay.
   subroutine rrb_solve_once(center, east, north, b, x, rel_tol, max_iter, iterations, northeast, northwest, &
                             stat, errmsg)
      real(c_double), contiguous, intent(in) :: center(:, :)   ! (nx, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)     ! (nx, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)    ! (nx, ny)
      real(c_double), contiguous, intent(in) :: b(:, :)        ! (nx, ny) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :)     ! (nx, ny) initial guess in, solution out
      real(c_double), intent(in) :: rel_tol
      integer, intent(in) :: max_iter
      integer, intent(inout) :: iterations                     ! how many were done
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

   ! Whether one of the arrays, which the C side takes by address alone, has another shape than (ld, ny). On a domain
   ! over many ranks the call is then made without arrays: the other ranks wait for it, and refuse it as well.
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
      ! A solver that was not created is the C side's to report, and so is one of several boxes. Of none, no array is
      ! looked at.
      if (status < 0 .or. self%boxes /= 1) return
      do k = 1, size(names)
         wrong = differs(trim(names(k)), extents(:, k), [max(ld, self%nx), self%ny], stat, errmsg)
         if (wrong) return
      end do
   end function wrong_shape
end module rrbsolver_rrb
