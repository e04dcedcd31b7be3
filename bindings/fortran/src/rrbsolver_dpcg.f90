! Family dpcg: A x = b on a box of cells, A symmetric with a 7-point stencil, by deflated PCG.
!
! Arrays are real(c_double) of shape (nx, ny, nz), i = 1..nx fastest. With the options leading_dimension set to ld >= nx
! and leading_plane to ld * rows, rows >= ny, their shape is (ld, rows, nz), and cells beyond nx and ny are ignored;
! their contents may be anything.
!
!    center(i,j,k)   the matrix entry of (i,j,k) with itself, positive
!    east(i,j,k)     the entry between (i,j,k) and (i+1,j,k), usually negative
!    north(i,j,k)    the entry between (i,j,k) and (i,j+1,k)
!    top(i,j,k)      the entry between (i,j,k) and (i,j,k+1)
!
! Entries that point outside the box are ignored. Unit: any; x then has the unit of b over that of the entries.
module rrbsolver_dpcg_handle
   use rrbsolver_dpcg_c
   include "rrbsolver_handle.inc"
end module rrbsolver_dpcg_handle

module rrbsolver_dpcg
   use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_constants
   use rrbsolver_base, only: report, differs, decimal
   use rrbsolver_dpcg_c
   use rrbsolver_dpcg_handle, only: handle_base
   implicit none
   private

   public :: dpcg_solver, dpcg_solve_once

   ! One solver: a box of cells, options, regions, a factorization and its workspace. Besides the procedures here it has
   ! set, get, history, set_monitor, set_stream and destroy of rrbsolver_handle.inc. It cannot be copied by assignment.
   type, extends(handle_base) :: dpcg_solver
      private
      integer(int64) :: cells(3) = 0
   contains
      procedure, private :: create_int32, create_int64
      generic :: create => create_int32, create_int64
      procedure :: set_regions
      procedure :: factorize
      procedure :: solve
      procedure :: apply
      procedure :: multiply
   end type dpcg_solver

contains

   ! create(nx, ny, nz [, stat, errmsg]): a solver for nx x ny x nz cells, 1 x 1 x 1 and up. What self held before is
   ! destroyed.
   subroutine create_int32(self, nx, ny, nz, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      integer(int32), intent(in) :: nx, ny, nz
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%create_int64(int(nx, int64), int(ny, int64), int(nz, int64), stat, errmsg)
   end subroutine create_int32

   subroutine create_int64(self, nx, ny, nz, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      integer(int64), intent(in) :: nx, ny, nz
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      call self%destroy()
      status = c_create(nx, ny, nz, self%handle)
      if (status >= 0) self%cells = [nx, ny, nz]
      call report(status, stat, errmsg)
   end subroutine create_int64

   ! set_regions([labels] [, stat, errmsg]): the regions of deflation = levelset and levelset_subdomain: cells with the
   ! same label, 0 and up, are one, such as a bubble; -1: in none. The labels are copied and act at the next factorize,
   ! which must come before solve. Without labels: none again, regions are found from the matrix.
   subroutine set_regions(self, labels, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      integer(c_int32_t), contiguous, intent(in), optional :: labels(:, :, :)   ! (ld, rows, nz)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (present(labels)) then
         if (wrong_shape(self, "labels", shape(labels, int64), stat, errmsg)) return
      end if
      call report(c_set_regions(self%handle, labels), stat, errmsg)
   end subroutine set_regions

   ! factorize(center, east, north, top [, stat, errmsg]): takes new coefficients. The values are copied. Called again,
   ! it reuses memory.
   subroutine factorize(self, center, east, north, top, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: center(:, :, :)   ! (ld, rows, nz)
      real(c_double), contiguous, intent(in) :: east(:, :, :)     ! (ld, rows, nz)
      real(c_double), contiguous, intent(in) :: north(:, :, :)    ! (ld, rows, nz)
      real(c_double), contiguous, intent(in) :: top(:, :, :)      ! (ld, rows, nz)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_shape(self, "center", shape(center, int64), stat, errmsg)) return
      if (wrong_shape(self, "east", shape(east, int64), stat, errmsg)) return
      if (wrong_shape(self, "north", shape(north, int64), stat, errmsg)) return
      if (wrong_shape(self, "top", shape(top, int64), stat, errmsg)) return
      call report(c_factorize(self%handle, center, east, north, top), stat, errmsg)
   end subroutine factorize

   ! solve(b, x [, stat, errmsg]): A x = b. stat is RRB_OK, RRB_NOT_CONVERGED (max_iter reached), RRB_STOPPED (by the
   ! monitor) or negative. With the default norm it iterates until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol).
   subroutine solve(self, b, x, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: b(:, :, :)      ! (ld, rows, nz) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :, :)   ! (ld, rows, nz) initial guess in, solution out
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_pair(self, ["b", "x"], shape(b, int64), shape(x, int64), stat, errmsg)) return
      call report(c_solve(self%handle, b, x), stat, errmsg)
   end subroutine solve

   ! apply(r, z [, stat, errmsg]): z = M^-1 r with preconditioner and deflation, for a Krylov loop of your own.
   subroutine apply(self, r, z, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: r(:, :, :)      ! (ld, rows, nz)
      real(c_double), contiguous, intent(inout) :: z(:, :, :)   ! (ld, rows, nz)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_pair(self, ["r", "z"], shape(r, int64), shape(z, int64), stat, errmsg)) return
      call report(c_apply(self%handle, r, z), stat, errmsg)
   end subroutine apply

   ! multiply(x, y [, stat, errmsg]): y = A x with the factorized matrix.
   subroutine multiply(self, x, y, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: x(:, :, :)      ! (ld, rows, nz)
      real(c_double), contiguous, intent(inout) :: y(:, :, :)   ! (ld, rows, nz)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_pair(self, ["x", "y"], shape(x, int64), shape(y, int64), stat, errmsg)) return
      call report(c_multiply(self%handle, x, y), stat, errmsg)
   end subroutine multiply

   ! The whole of it in one call, in place of an ICCG subroutine: factorizes, solves, forgets. Stops when
   ! ||b - A x||_2 <= rel_tol * ||b||_2. Prefer dpcg_solver when the coefficients stay.
   subroutine dpcg_solve_once(center, east, north, top, b, x, rel_tol, max_iter, iterations, stat, errmsg)
      real(c_double), contiguous, intent(in) :: center(:, :, :)   ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: east(:, :, :)     ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: north(:, :, :)    ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: top(:, :, :)      ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: b(:, :, :)        ! (nx, ny, nz) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :, :)     ! (nx, ny, nz) initial guess in, solution out
      real(c_double), intent(in) :: rel_tol
      integer, intent(in) :: max_iter
      integer, intent(inout) :: iterations                        ! how many were done
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      integer(c_int64_t) :: n(3), wide
      n = shape(center, int64)
      if (differs("east", shape(east, int64), n, stat, errmsg)) return
      if (differs("north", shape(north, int64), n, stat, errmsg)) return
      if (differs("top", shape(top, int64), n, stat, errmsg)) return
      if (differs("b", shape(b, int64), n, stat, errmsg)) return
      if (differs("x", shape(x, int64), n, stat, errmsg)) return
      wide = iterations
      status = c_solve_once(n(1), n(2), n(3), center, east, north, top, b, x, rel_tol, int(max_iter, c_int64_t), wide)
      iterations = int(wide)
      call report(status, stat, errmsg)
   end subroutine dpcg_solve_once

   ! Whether an array that the C side takes by address alone has another shape than (ld, rows, nz).
   function wrong_shape(self, name, extent, stat, errmsg) result(wrong)
      class(dpcg_solver), intent(in) :: self
      character(*), intent(in) :: name
      integer(int64), intent(in) :: extent(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      integer(c_int64_t) :: ld, plane
      wrong = .false.
      if (present(stat)) stat = RRB_OK
      ld = 0
      plane = 0
      ! A solver that was not created is the C side's to report.
      if (c_get_int(self%handle, RRB_OPT_LEADING_DIMENSION, ld) < 0) return
      if (c_get_int(self%handle, RRB_OPT_LEADING_PLANE, plane) < 0) return
      ld = max(ld, self%cells(1))
      if (plane == 0) plane = ld * self%cells(2)
      wrong = mod(plane, ld) /= 0
      if (wrong) then
         call report(RRB_ERR_ARGUMENT, stat, errmsg, "leading_plane must be a multiple of leading_dimension = " // &
                     decimal(ld) // " for arrays of rank 3, got " // decimal(plane))
      else
         wrong = differs(name, extent, [ld, plane / ld, self%cells(3)], stat, errmsg)
      end if
   end function wrong_shape

   ! The same of the two arrays of a call.
   function wrong_pair(self, names, first, second, stat, errmsg) result(wrong)
      class(dpcg_solver), intent(in) :: self
      character(*), intent(in) :: names(2)
      integer(int64), intent(in) :: first(3), second(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      wrong = wrong_shape(self, names(1), first, stat, errmsg)
      if (.not. wrong) wrong = wrong_shape(self, names(2), second, stat, errmsg)
   end function wrong_pair
end module rrbsolver_dpcg
