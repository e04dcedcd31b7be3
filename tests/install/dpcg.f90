! A user's program for 3D systems with type(dpcg_solver), built against the installed package with floating-point traps
! enabled. It stops with an error if the library does not behave as documented.

! The callbacks are module procedures, because an internal procedure as an argument would need an executable stack.
module watching_dpcg
   use, intrinsic :: iso_c_binding, only: c_double
   implicit none
   integer :: calls = 0
contains
   function watch(iteration, relative_residual) result(stop_now)
      integer, intent(in) :: iteration
      real(c_double), intent(in) :: relative_residual
      logical :: stop_now
      if (iteration /= calls .or. relative_residual < 0) error stop "dpcg.f90: monitor arguments"
      calls = calls + 1
      stop_now = .false.
   end function watch
end module watching_dpcg

program dpcg_consumer
   use, intrinsic :: iso_c_binding, only: c_double, c_int32_t
   use, intrinsic :: iso_fortran_env, only: int64
   use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_quiet_nan, ieee_value
   use rrbsolver
   use watching_dpcg
   implicit none

   integer, parameter :: nx = 12, ny = 9, nz = 10
   real(c_double), parameter :: rel_tol = 1e-8_c_double

   ! A bubble in a closed box. Its density is 1/1000 of the density of the liquid. Couplings are harmonic means of
   ! 1/density at the faces.
   real(c_double), dimension(nx, ny, nz) :: center, east, north, top, solution, b, x, y
   integer(c_int32_t) :: labels(nx, ny, nz)

   call make_system()
   call solved()
   call with_regions()
   call with_padding()
   call with_sections()
   call misused()
   print "(a)", "Fortran, 3D: all as documented"

contains

   subroutine check(condition, what)
      logical, intent(in) :: condition
      character(*), intent(in) :: what
      if (.not. condition) error stop "dpcg.f90: failed: " // what
   end subroutine check

   subroutine make_system()
      real(c_double) :: kappa(nx, ny, nz)
      integer :: i, j, k
      do k = 1, nz
         do j = 1, ny
            do i = 1, nx
               labels(i, j, k) = merge(0_c_int32_t, -1_c_int32_t, (i - 6)**2 + (j - 5)**2 + (k - 5)**2 < 9)
               solution(i, j, k) = sin(0.3_c_double*i + 0.1_c_double) + cos(0.2_c_double*j*k)
            end do
         end do
      end do
      kappa = merge(1000.0_c_double, 1.0_c_double, labels == 0)
      east = 0
      north = 0
      top = 0
      east(:nx - 1, :, :) = -2*kappa(:nx - 1, :, :)*kappa(2:, :, :)/(kappa(:nx - 1, :, :) + kappa(2:, :, :))
      north(:, :ny - 1, :) = -2*kappa(:, :ny - 1, :)*kappa(:, 2:, :)/(kappa(:, :ny - 1, :) + kappa(:, 2:, :))
      top(:, :, :nz - 1) = -2*kappa(:, :, :nz - 1)*kappa(:, :, 2:)/(kappa(:, :, :nz - 1) + kappa(:, :, 2:))
      center = -(east + north + top)
      center(2:, :, :) = center(2:, :, :) - east(:nx - 1, :, :)
      center(:, 2:, :) = center(:, 2:, :) - north(:, :ny - 1, :)
      center(:, :, 2:) = center(:, :, 2:) - top(:, :, :nz - 1)
      b = a_times(solution)
   end subroutine make_system

   function a_times(v) result(w)
      real(c_double), intent(in) :: v(nx, ny, nz)
      real(c_double) :: w(nx, ny, nz)
      w = center*v
      w(:nx - 1, :, :) = w(:nx - 1, :, :) + east(:nx - 1, :, :)*v(2:, :, :)
      w(2:, :, :) = w(2:, :, :) + east(:nx - 1, :, :)*v(:nx - 1, :, :)
      w(:, :ny - 1, :) = w(:, :ny - 1, :) + north(:, :ny - 1, :)*v(:, 2:, :)
      w(:, 2:, :) = w(:, 2:, :) + north(:, :ny - 1, :)*v(:, :ny - 1, :)
      w(:, :, :nz - 1) = w(:, :, :nz - 1) + top(:, :, :nz - 1)*v(:, :, 2:)
      w(:, :, 2:) = w(:, :, 2:) + top(:, :, :nz - 1)*v(:, :, :nz - 1)
   end function a_times

   ! Checks the stopping test with a recomputed residual. The second term bounds the rounding error of seven products;
   ! the magnitudes of a row of A sum to at most 12000.
   subroutine check_solution(v, what)
      real(c_double), intent(in) :: v(nx, ny, nz)
      character(*), intent(in) :: what
      call check(norm2(b - a_times(v)) <= rel_tol*norm2(b) + 16*epsilon(v)*12000*norm2(v), what)
   end subroutine check_solution

   subroutine solved()
      type(dpcg_solver) :: solver
      real(c_double) :: residuals(300)
      integer :: n, count, preconditioner
      call solver%create(nx, ny, nz)
      call solver%set(RRB_OPT_REL_TOL, rel_tol)
      call solver%set("max_iter=300")
      call solver%factorize(center, east, north, top)
      call solver%set_monitor(watch)
      x = 0
      call solver%solve(b, x)
      call check_solution(x, "residual")
      call solver%get(RRB_INFO_ITERATIONS, n)
      call solver%history(residuals, count)
      call check(calls == n + 1 .and. count == n + 1, "monitor and history")
      call solver%get(RRB_INFO_PRECONDITIONER, preconditioner)
      call check(preconditioner /= RRB_PRECONDITIONER_AUTO, "what auto took")
      call solver%multiply(solution, y)
      call check(norm2(y - b) <= 1e-12_c_double*norm2(b), "multiply")
      call solver%apply(b, y)
      call check(norm2(y) > 0, "apply")
      ! Create may be called again for an existing solver. Extents may have any integer kind.
      call solver%create(3_int64, 2_int64, 1_int64)
      call dpcg_solve_once(center, east, north, top, b, x, rel_tol, 300, n)
      call check(n == 0, "a guess that meets the test")
      x = 0
      call dpcg_solve_once(center, east, north, top, b, x, rel_tol, 300, n)
      call check_solution(x, "in one call")
   end subroutine solved

   subroutine with_regions()
      type(dpcg_solver) :: solver
      integer :: status, vectors
      character(120) :: message
      call solver%create(nx, ny, nz)
      call solver%set("rel_tol=1e-8 preconditioner=neumann deflation=levelset dilation=0")
      call solver%factorize(center, east, north, top)
      call solver%set_regions(labels)
      call solver%solve(b, x, status, message)
      call check(status == RRB_ERR_STATE .and. index(message, "regions") > 0, "regions act at factorize")
      call solver%factorize(center, east, north, top)
      call solver%get(RRB_INFO_DEFLATION_VECTORS, vectors)
      call check(vectors == 1, "one bubble, one vector")
      x = 0
      call solver%solve(b, x)
      call check_solution(x, "with regions")
      labels(4, 2, 7) = -2
      call solver%set_regions(labels, status, message)
      call check(status == RRB_ERR_ARGUMENT .and. index(message, "(4, 2, 7)") > 0, "label -2, counted from 1")
      labels(4, 2, 7) = -1
      call solver%set_regions(labels(:, :, 2:), status, message)
      call check(status == RRB_ERR_DIMENSION .and. &
                 message == "labels must have the shape (12, 9, 10), got (12, 9, 9)", "shape of labels")
      call solver%set_regions()
      call solver%factorize(center, east, north, top)
      x = 0
      call solver%solve(b, x)
      call check_solution(x, "without regions")
   end subroutine with_regions

   ! The ghost cells contain NaN. The library must not use these values, and they must not cause a trap.
   subroutine with_padding()
      type(dpcg_solver) :: solver
      integer, parameter :: ld = nx + 2, rows = ny + 3
      real(c_double), dimension(ld, rows, nz) :: c, e, n, t, wide_b, wide_x
      integer(c_int32_t) :: wide(ld, rows, nz)
      real(c_double) :: nan
      integer :: status
      character(120) :: message
      nan = ieee_value(nan, ieee_quiet_nan)
      c = nan
      e = nan
      n = nan
      t = nan
      wide_b = nan
      wide_x = nan
      wide = -7
      c(:nx, :ny, :) = center
      e(:nx - 1, :ny, :) = east(:nx - 1, :, :)
      n(:nx, :ny - 1, :) = north(:, :ny - 1, :)
      t(:nx, :ny, :nz - 1) = top(:, :, :nz - 1)
      wide_b(:nx, :ny, :) = b
      wide_x(:nx, :ny, :) = 0
      wide(:nx, :ny, :) = labels
      call solver%create(nx, ny, nz)
      call solver%set(RRB_OPT_LEADING_DIMENSION, ld)
      call solver%set(RRB_OPT_LEADING_PLANE, ld*rows)
      call solver%set(RRB_OPT_REL_TOL, rel_tol)
      call solver%set_regions(wide)
      call solver%factorize(c, e, n, t)
      call solver%solve(wide_b, wide_x)
      call check_solution(wide_x(:nx, :ny, :), "with padding")
      call check(count(ieee_is_nan(wide_x)) == (ld*rows - nx*ny)*nz, "padding is kept")
      call solver%factorize(center, e, n, t, status, message)
      call check(status == RRB_ERR_DIMENSION .and. &
                 message == "center must have the shape (14, 12, 10), got (12, 9, 10)", "shape of center")
      call solver%set(RRB_OPT_LEADING_PLANE, ld*rows + 1)
      call solver%factorize(c, e, n, t, status, message)
      call check(status == RRB_ERR_ARGUMENT .and. index(message, "a multiple of leading_dimension = 14") > 0, "planes")
   end subroutine with_padding

   ! The compiler copies noncontiguous sections of larger arrays.
   subroutine with_sections()
      type(dpcg_solver) :: solver
      real(c_double), allocatable :: all(:, :, :, :)
      allocate (all(2, nx, ny, nz))
      all = 0
      all(2, :, :, :) = b
      call solver%create(nx, ny, nz)
      call solver%set(RRB_OPT_REL_TOL, rel_tol)
      call solver%factorize(center, east, north, top)
      call solver%solve(all(2, :, :, :), all(1, :, :, :))
      call check_solution(all(1, :, :, :), "components of an array")
   end subroutine with_sections

   subroutine misused()
      type(dpcg_solver) :: solver
      integer :: status
      character(160) :: message
      call solver%solve(b, x, status)
      call check(status == RRB_ERR_NULL, "solve before create")
      call solver%create(3, 3, 0, status, message)
      call check(status == RRB_ERR_DIMENSION .and. index(message, "nz") > 0, "3 x 3 x 0")
      call solver%create(nx, ny, nz)
      call solver%solve(b, x, status, message)
      call check(status == RRB_ERR_STATE, "solve before factorize")
      call solver%set("preconditoner=ric", status, message)
      call check(status == RRB_ERR_OPTION .and. index(message, "did you mean 'preconditioner'") > 0, "unknown name")
      call solver%set(RRB_OPT_RIC_OMEGA, 1.5_c_double, status, message)
      call check(status == RRB_ERR_ARGUMENT .and. message == "ric_omega must lie in [0, 1], got 1.5", "range")
      y = center
      y(6, 3, 2) = 0
      call solver%factorize(y, east, north, top, status, message)
      call check(status == RRB_ERR_MATRIX .and. index(message, "(6, 3, 2)") > 0, "zero center, counted from 1")
      call solver%factorize(center, east, north, top)
      y = b
      y(2, 5, 4) = ieee_value(y(1, 1, 1), ieee_quiet_nan)
      x = 0
      call solver%solve(y, x, status, message)
      call check(status == RRB_ERR_NOT_FINITE .and. index(message, "(2, 5, 4)") > 0, "NaN, counted from 1")
      call check(maxval(abs(x)) <= 0, "x is kept")
   end subroutine misused
end program dpcg_consumer
