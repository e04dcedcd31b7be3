! Family dpcg_: solves A x = b on a 3D grid of cells with deflated PCG. A is symmetric with a 7-point stencil.
!
! Arrays are real(c_double) of shape (nx, ny, nz). With the option leading_dimension = ld >= nx, and leading_plane = ld
! * rows with rows >= ny, their shape is (ld, rows, nz). Values beyond nx and ny are then padding and are not read.
!
!    center(i,j,k)   matrix entry of (i,j,k) with itself, positive
!    east(i,j,k)     matrix entry between (i,j,k) and (i+1,j,k), normally negative
!    north(i,j,k)    matrix entry between (i,j,k) and (i,j+1,k), normally negative
!    top(i,j,k)      matrix entry between (i,j,k) and (i,j,k+1), normally negative
!
! The signs are those of -div(k grad x) = b. Entries that point outside the grid are ignored: periodic boundaries are
! not supported. The unit of x is the unit of b over that of the entries. One process solves the whole grid.
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

   ! A solver: grid, options, deflation regions, factorization and workspace. It inherits set, get, history,
   ! set_monitor, set_stream and destroy from rrbsolver_handle.inc. It cannot be copied by assignment.
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

   ! create(nx, ny, nz [, stat] [, errmsg]): creates a solver for nx x ny x nz cells, each extent at least 1. A previous
   ! solver in self is destroyed.
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

   ! set_regions([labels] [, stat] [, errmsg]): sets the regions of deflation=levelset and levelset_subdomain.
   !
   ! Cells with the same label, from 0, form one region, such as a bubble; -1 marks a cell in no region. The labels are
   ! copied and act at the next factorize, which must precede solve. Without labels the regions are removed: the matrix
   ! determines them. Pass stat and errmsg by keyword if labels is absent: set_regions(stat=stat).
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

   ! factorize(center, east, north, top [, stat] [, errmsg]): copies the coefficients and sets up preconditioner and
   ! deflation. A second call reuses the memory.
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

   ! solve(b, x [, stat] [, errmsg]): solves A x = b until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol), with the
   ! default norm and reference.
   !
   ! stat is RRB_OK, RRB_NOT_CONVERGED (iteration limit or stagnation), RRB_STOPPED (by the monitor) or negative.
   subroutine solve(self, b, x, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: b(:, :, :)      ! (ld, rows, nz) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :, :)   ! (ld, rows, nz) initial guess in, solution out
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_pair(self, ["b", "x"], shape(b, int64), shape(x, int64), stat, errmsg)) return
      call report(c_solve(self%handle, b, x), stat, errmsg)
   end subroutine solve

   ! apply(r, z [, stat] [, errmsg]): computes z = M^-1 r with preconditioner and deflation, for a Krylov method of the
   ! caller.
   subroutine apply(self, r, z, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: r(:, :, :)      ! (ld, rows, nz)
      real(c_double), contiguous, intent(inout) :: z(:, :, :)   ! (ld, rows, nz)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_pair(self, ["r", "z"], shape(r, int64), shape(z, int64), stat, errmsg)) return
      call report(c_apply(self%handle, r, z), stat, errmsg)
   end subroutine apply

   ! multiply(x, y [, stat] [, errmsg]): computes y = A x.
   subroutine multiply(self, x, y, stat, errmsg)
      class(dpcg_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: x(:, :, :)      ! (ld, rows, nz)
      real(c_double), contiguous, intent(inout) :: y(:, :, :)   ! (ld, rows, nz)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_pair(self, ["x", "y"], shape(x, int64), shape(y, int64), stat, errmsg)) return
      call report(c_multiply(self%handle, x, y), stat, errmsg)
   end subroutine multiply

   ! dpcg_solve_once(center, east, north, top, b, x, rel_tol, max_iter, iterations [, stat] [, errmsg]): creates a
   ! solver, factorizes, solves and destroys it, in place of an ICCG routine.
   !
   ! It stops when ||b - A x||_2 <= rel_tol * ||b||_2. Use dpcg_solver to solve again on the same grid.
   subroutine dpcg_solve_once(center, east, north, top, b, x, rel_tol, max_iter, iterations, stat, errmsg)
      real(c_double), contiguous, intent(in) :: center(:, :, :)   ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: east(:, :, :)     ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: north(:, :, :)    ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: top(:, :, :)      ! (nx, ny, nz)
      real(c_double), contiguous, intent(in) :: b(:, :, :)        ! (nx, ny, nz) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :, :)     ! (nx, ny, nz) initial guess in, solution out
      real(c_double), intent(in) :: rel_tol
      integer, intent(in) :: max_iter
      integer, intent(inout) :: iterations                        ! number of iterations
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

   ! Returns .true. and reports an error if an array does not have the shape (ld, rows, nz). C gets the address only.
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
      ! The C function reports a solver that was not created.
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

   ! Checks both arrays of a call.
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
