! A user's Fortran 2018 program, built against the installed package with floating-point traps enabled. It solves
! systems with a known solution and a known smallest eigenvalue, and tests incorrect calls. It stops with an error if
! the library does not behave as documented.

! The callbacks are module procedures, because an internal procedure as an argument would need an executable stack.
module watching
   use, intrinsic :: iso_c_binding, only: c_double
   use rrbsolver, only: smoother_patch
   implicit none
   integer :: calls = 0, stop_at = -1, fills = 0
contains
   function fill(sweep, patches) result(stop_now)
      integer, intent(in) :: sweep
      type(smoother_patch), intent(inout) :: patches(:)
      logical :: stop_now
      if (sweep /= fills .or. lbound(patches(1)%u, 1) /= 0) error stop "consumer.f90: ghost function arguments"
      patches(1)%u(:, 0, :) = 5
      fills = fills + 1
      stop_now = .false.
   end function fill

   function watch(iteration, relative_residual) result(stop_now)
      integer, intent(in) :: iteration
      real(c_double), intent(in) :: relative_residual
      logical :: stop_now
      if (iteration /= calls .or. relative_residual <= 0) error stop "consumer.f90: monitor arguments"
      calls = calls + 1
      stop_now = iteration == stop_at
   end function watch
end module watching

program consumer
   use, intrinsic :: iso_c_binding, only: c_double, c_f_pointer, c_loc, c_null_ptr, c_ptr
   use, intrinsic :: iso_fortran_env, only: int64
   use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_positive_inf, ieee_quiet_nan, ieee_value
   use rrbsolver
   use watching
   implicit none

   integer, parameter :: nx = 37, ny = 22, ld = nx + 3
   real(c_double), parameter :: rel_tol = 1e-8_c_double, pi = acos(-1.0_c_double)
   integer :: argument_length
   character(16) :: argument

   call get_command_argument(1, argument, argument_length)
   if (argument_length > 0) then
      call stop_as_allocate_does()
   end if
   call five_points()
   call nine_points_with_padding()
   call one_call()
   call scales()
   call watched()
   call misused()
   call smoothed()
   call kept()
   call smoother_misused()
   call check(len(rrbsolver_version()) >= 5, "version")
   call check(rrbsolver_status_string(int(RRB_NOT_CONVERGED)) /= "", "status string")
   call check(rrbsolver_cuda_device_count() >= 0, "device count")
   print "(a)", "Fortran: all as documented"

contains

   subroutine check(condition, what)
      logical, intent(in) :: condition
      character(*), intent(in) :: what
      if (.not. condition) error stop "consumer.f90: failed: " // what
   end subroutine check

   ! Computes y = A x for a constant stencil: c at the node, e for the four direct neighbours, d for the four diagonal
   ! neighbours. Values outside the grid are zero.
   function a_times(c, e, d, x) result(y)
      real(c_double), intent(in) :: c, e, d, x(nx, ny)
      real(c_double) :: y(nx, ny), z(0:nx + 1, 0:ny + 1)
      z = 0
      z(1:nx, 1:ny) = x
      y = c*z(1:nx, 1:ny) + e*(z(0:nx - 1, 1:ny) + z(2:, 1:ny) + z(1:nx, 0:ny - 1) + z(1:nx, 2:)) &
          + d*(z(0:nx - 1, 0:ny - 1) + z(2:, 0:ny - 1) + z(0:nx - 1, 2:) + z(2:, 2:))
   end function a_times

   function wanted() result(x)
      real(c_double) :: x(nx, ny)
      integer :: i, j
      do j = 1, ny
         do i = 1, nx
            x(i, j) = sin(0.3_c_double*i + 0.1_c_double) + cos(0.2_c_double*i*j)
         end do
      end do
   end function wanted

   ! Checks the stopping test with a recomputed residual, and the error bound |x - solution| <= |b - A x| /
   ! lambda_min(A).
   subroutine check_solution(c, e, d, b, x, what)
      real(c_double), intent(in) :: c, e, d, b(nx, ny), x(nx, ny)
      character(*), intent(in) :: what
      real(c_double) :: residual, rounding, cos_x, cos_y
      ! Bound for the rounding error of nine products and sums; the magnitudes of a row of A sum to at most 2 c.
      rounding = 16*epsilon(c)*2*c*norm2(x)
      residual = norm2(b - a_times(c, e, d, x))
      call check(residual <= rel_tol*norm2(b) + rounding, what // ": residual")
      cos_x = cos(pi/(nx + 1))
      cos_y = cos(pi/(ny + 1))
      call check(norm2(x - wanted()) <= (residual + rounding)/(c + 2*e*(cos_x + cos_y) + 4*d*cos_x*cos_y), what // ": error")
   end subroutine check_solution

   subroutine five_points()
      type(rrb_solver) :: solver
      real(c_double) :: center(nx, ny), coupling(nx, ny), b(nx, ny), x(nx, ny), y(nx, ny), residuals(64), last
      integer :: n, count
      integer(int64) :: bytes
      center = 4
      coupling = -1
      b = a_times(4.0_c_double, -1.0_c_double, 0.0_c_double, wanted())
      x = 0
      call solver%create(nx, ny)
      call solver%set(RRB_OPT_REL_TOL, rel_tol)
      call solver%set(RRB_OPT_MAX_ITER, 200)
      call solver%set("norm=true2")
      call solver%factorize(center, coupling, coupling)
      call solver%solve(b, x)
      call check_solution(4.0_c_double, -1.0_c_double, 0.0_c_double, b, x, "5 points")
      call solver%get(RRB_INFO_ITERATIONS, n)
      call check(n > 0 .and. n < 30, "iterations")
      call solver%history(residuals, count)
      call solver%get(RRB_INFO_FINAL_RESIDUAL, last)
      call check(count == n + 1 .and. last <= rel_tol .and. residuals(1) > residuals(count), "history")
      call solver%get(RRB_INFO_BYTES_HOST, bytes)
      call check(bytes > 0, "bytes")
      call solver%multiply(x, y)
      call check(norm2(y - a_times(4.0_c_double, -1.0_c_double, 0.0_c_double, x)) <= 16*epsilon(x)*8*norm2(x), "multiply")
      call solver%apply(b, y)
      call check(sum(b*y) > 0, "apply")
      call solver%set_stream(c_null_ptr)
      ! Extents may have any integer kind, and create may be called again for an existing solver.
      call solver%create(3_int64, 2_int64)
      ! The finalizer frees the solver at the end of the scope.
   end subroutine five_points

   ! The padding contains NaN. The library must not use these values, and they must not cause a trap.
   subroutine nine_points_with_padding()
      type(rrb_solver) :: solver
      real(c_double), dimension(ld, ny) :: center, east, north, northeast, northwest, b, x
      real(c_double), parameter :: c = 8/3.0_c_double, e = -1/3.0_c_double
      real(c_double) :: nan
      integer :: status
      nan = ieee_value(nan, ieee_quiet_nan)
      center = nan
      center(:nx, :) = c
      east = nan
      east(:nx - 1, :) = e
      north = nan
      north(:nx, :ny - 1) = e
      northeast = nan
      northeast(:nx - 1, :ny - 1) = e
      northwest = nan
      northwest(2:nx, :ny - 1) = e
      b = nan
      b(:nx, :) = a_times(c, e, e, wanted())
      x = nan
      x(:nx, :) = 0
      call solver%create(nx, ny)
      call solver%set(RRB_OPT_LEADING_DIMENSION, ld)
      call solver%set(RRB_OPT_REL_TOL, rel_tol)
      call solver%factorize(center, east, north, northeast, northwest, status)
      call check(status == RRB_OK, "padded factorize")
      call solver%solve(b, x, status)
      call check(status == RRB_OK, "padded solve")
      call check_solution(c, e, e, b(:nx, :), x(:nx, :), "9 points")
      call check(count(ieee_is_nan(x(nx + 1:, :))) == (ld - nx)*ny, "padding is kept")
      call solver%destroy()
      call solver%destroy()
   end subroutine nine_points_with_padding

   subroutine one_call()
      real(c_double) :: center(nx, ny), coupling(nx, ny), b(nx, ny), x(nx, ny)
      integer :: iterations, status
      character(200) :: message
      center = 4
      coupling = -1
      b = a_times(4.0_c_double, -1.0_c_double, 0.0_c_double, wanted())
      x = 0
      call rrb_solve_once(center, coupling, coupling, b, x, rel_tol, 100, iterations)
      call check_solution(4.0_c_double, -1.0_c_double, 0.0_c_double, b, x, "solve once")
      ! A positional stat after iterations must not be taken for northeast.
      x = 0
      call rrb_solve_once(center, coupling, coupling, b, x, rel_tol, 100, iterations, status)
      call check(status == RRB_OK, "solve once, positional stat")
      call check_solution(4.0_c_double, -1.0_c_double, 0.0_c_double, b, x, "solve once, positional stat")
      x = 0
      center = 8/3.0_c_double
      coupling = -1/3.0_c_double
      b = a_times(8/3.0_c_double, -1/3.0_c_double, -1/3.0_c_double, wanted())
      call rrb_solve_once(center, coupling, coupling, b, x, rel_tol, 1, iterations, coupling, coupling, status, message)
      call check(status == RRB_NOT_CONVERGED .and. iterations == 1, "solve once, one iteration")
      call check(index(message, "not converged: 1 iteration, relative residual") == 1, message)
   end subroutine one_call

   ! Large and small values must not cause a trap, neither by overflow nor by subnormal numbers.
   subroutine scales()
      type(rrb_solver) :: solver
      real(c_double) :: center(nx, ny), coupling(nx, ny), b(nx, ny), x(nx, ny), scaling
      integer :: k
      do k = -140, 140, 140
         scaling = 2.0_c_double**k
         center = 4*scaling
         coupling = -scaling
         b = scaling*a_times(4.0_c_double, -1.0_c_double, 0.0_c_double, wanted())
         x = 0
         call solver%create(nx, ny)
         call solver%set(RRB_OPT_REL_TOL, rel_tol)
         call solver%factorize(center, coupling, coupling)
         call solver%solve(b, x)
         call check_solution(4.0_c_double, -1.0_c_double, 0.0_c_double, b/scaling, x, "scaled")
      end do
   end subroutine scales

   subroutine watched()
      type(rrb_solver) :: solver
      real(c_double) :: center(nx, ny), coupling(nx, ny), b(nx, ny), x(nx, ny)
      integer :: n, status
      character(80) :: message
      center = 4
      coupling = -1
      b = 1
      call solver%create(nx, ny)
      call solver%factorize(center, coupling, coupling)
      call solver%set_monitor(watch)
      x = 0
      calls = 0
      call solver%solve(b, x)
      call solver%get(RRB_INFO_ITERATIONS, n)
      call check(calls == n + 1, "monitor calls")
      x = 0
      calls = 0
      stop_at = 2
      message = "untouched"
      call solver%solve(b, x, status, message)
      call check(status == RRB_STOPPED .and. calls == 3, "monitor stop")
      call check(index(message, "stopped by the monitor: 2 iterations, relative residual") == 1, message)
      call solver%set_monitor()
      message = "untouched"
      call solver%solve(b, x, status, message)
      call check(status == RRB_OK .and. calls == 3 .and. message == "untouched", "no monitor")
   end subroutine watched

   ! One patch that consists of one block, with its own ghost cells. One sweep solves it exactly.
   subroutine smoothed()
      type(smoother) :: s
      type(smoother_patch) :: patches(1)
      real(c_double), allocatable, target :: u(:, :, :), f(:, :, :), r(:, :, :)
      real(c_double) :: norm
      integer :: status, solver
      character(120) :: message
      allocate (u(0:5, 0:9, 0:7), f(4, 8, 6), r(4, 8, 6))
      u = 2
      f = 3
      r = 7
      norm = -1
      call s%apply(patches, 1, status, message)
      call check(status == RRB_ERR_NULL, "smoother before create")
      call s%create([6, -1, -1, -1, -1, -1, -1]*1.0_c_double, [4, 8, 6])
      call s%set_patches(reshape([0, -8, 12], [3, 1]), reshape([4, 8, 6], [3, 1]))
      patches(1)%f => f
      call s%apply(patches, 1, status, message)
      call check(status == RRB_ERR_NULL .and. message == "u of patch 1 must not be NULL", "no u, counted from 1")
      patches(1)%u => f
      call s%apply(patches, 1, status, message)
      call check(status == RRB_ERR_DIMENSION .and. &
                 message == "u of patch 1 must have the shape (6, 10, 8), got (4, 8, 6)", "shape of u")
      patches(1)%u => u
      patches(1)%r => r
      call s%set("omega=1")
      call s%apply(patches, 1)
      call s%residual(patches, norm)
      call check(norm < 1e-12_c_double .and. maxval(abs(r)) < 1e-12_c_double, "one block, one sweep")
      call s%get(RRB_INFO_BLOCK_SOLVER, solver)
      call check(solver == RRB_BLOCK_SOLVER_FAST_DIAGONALIZATION, "block solver")
      fills = 0
      call s%set_ghost_fill(fill)
      call s%apply(patches, 3)
      call check(fills == 3 .and. all(abs(u(1:4, 0, 1:6) - 5) < 1e-15_c_double), "ghost function")
      fills = -1
      call s%residual(patches, norm)
      call check(fills == 0, "a residual asks the ghost function with -1")
   end subroutine smoothed

   ! Two patches whose arrays the library stores between calls, and addresses instead of patch objects.
   subroutine kept()
      type(smoother) :: s
      type(smoother_patch) :: patches(2)
      real(c_double), allocatable, target :: u(:, :, :, :), f(:, :, :, :), r(:, :, :, :)
      real(c_double), pointer :: ours(:, :, :)
      type(c_ptr) :: us(2), fs(2), rs(2), there(2), right(2)
      real(c_double) :: norm, start
      integer :: status, p
      character(120) :: message
      allocate (u(6, 6, 6, 2), f(4, 4, 4, 2), r(4, 4, 4, 2))
      u = 1
      u(2:5, 2:5, 2:5, :) = 0
      f = 0
      r = 0
      start = -1
      norm = -1
      call s%residual(norm, status)
      call check(status == RRB_ERR_NULL, "residual before create")
      call s%create([6, -1, -1, -1, -1, -1, -1]*1.0_c_double, [4, 4, 4])
      do p = 1, 2
         patches(p)%u => u(:, :, :, p)
         patches(p)%f => f(:, :, :, p)
         us(p) = c_loc(u(:, :, :, p))
         fs(p) = c_loc(f(:, :, :, p))
         rs(p) = c_loc(r(:, :, :, p))
      end do
      call s%upload(patches, status)
      call check(status == RRB_ERR_STATE, "upload before set_patches")
      call s%set_patches(reshape([0, 0, 0, 4, 0, 0], [3, 2]), reshape([4, 4, 4, 4, 4, 4], [3, 2]))
      call s%apply(1, status, message)
      call check(status == RRB_ERR_STATE .and. index(message, "smoother_upload") > 0, "no upload yet")
      call s%device_pointers(there, right, status)
      call check(status == RRB_ERR_STATE, "no upload yet, no pointers")
      call s%upload(patches)
      call s%residual(us, fs, start)
      call s%residual(norm, rs)
      call check(abs(norm - start) < 1e-12_c_double .and. abs(r(1, 1, 1, 1) - 3) < 1e-12_c_double, "residuals of both")
      call s%exchange()
      call s%apply(40)
      call s%residual(norm)
      call check(norm < 1e-9_c_double .and. maxval(abs(u(2:5, 2:5, 2:5, :))) <= 0, "relaxed where they are kept")
      call s%device_pointers(there, right)
      call s%get(RRB_INFO_BACKEND, p)
      if (p /= RRB_BACKEND_CUDA) then
         call c_f_pointer(there(2), ours, [6, 6, 6])
         call check(abs(ours(3, 3, 3) - 1) < 1e-9_c_double, "the library's array")
      end if
      call s%residual(there, right, norm)
      call check(norm < 1e-9_c_double, "the library's arrays are the caller's to read")
      f(1, 1, 1, 1) = 1
      call s%upload(f=fs)
      call s%residual(norm)
      call check(abs(norm - 1) < 1e-9_c_double, "a new f")
      call s%upload(us)
      call s%residual(norm)
      call check(norm > start - 1, "a new u")
      f = 0
      call s%upload(f=fs)
      call s%apply(40)
      call s%download(patches)
      call check(abs(u(3, 3, 3, 1) - 1) < 1e-9_c_double, "downloaded")
      u(2:5, 2:5, 2:5, :) = 0
      call s%download(us)
      call check(abs(u(3, 3, 3, 2) - 1) < 1e-9_c_double, "downloaded by addresses")
      call s%exchange(us)
      call s%apply(us, fs, 1)
      call s%residual(us, fs, norm, rs)
      call check(norm < 1e-9_c_double .and. maxval(abs(r)) < 1e-9_c_double, "addresses")
      call s%apply(us(1:1), fs, 1, status, message)
      call check(status == RRB_ERR_DIMENSION .and. message == "u must have 2 elements, got 1", "number of addresses")
      call s%apply([us(1), c_null_ptr], fs, 1, status, message)
      call check(status == RRB_ERR_NULL .and. message == "u of patch 2 must not be NULL", "null address, counted from 1")
      call s%apply([us(1), us(1)], fs, 1, status, message)
      call check(status == RRB_ERR_ARGUMENT .and. index(message, "overlap") > 0, "one array twice")
   end subroutine kept

   subroutine smoother_misused()
      type(smoother) :: s
      type(smoother_patch) :: patches(1), none(0)
      real(c_double), target :: u(3, 3, 3), f(1, 1, 1)
      real(c_double) :: stencil(7), norm
      integer, allocatable :: lower(:, :), extents(:, :)
      integer :: status, q
      character(200) :: message
      stencil = [6, -1, -1, -1, -1, -1, -1]
      norm = -1
      call s%create(stencil(:5), [4, 4, 4], status, message)
      call check(status == RRB_ERR_ARGUMENT .and. index(message, "7 or 27") > 0, "5 legs")
      call s%create(stencil, [4, 0, 4], status)
      call check(status == RRB_ERR_DIMENSION, "block of 0")
      call s%create(stencil, [4, 4, 9], status)
      call check(status == RRB_ERR_ARGUMENT, "block of 9")
      stencil(4) = ieee_value(norm, ieee_quiet_nan)
      call s%create(stencil, [4, 4, 4], status, message)
      call check(status == RRB_ERR_NOT_FINITE .and. index(message, "4") > 0, "NaN in the stencil")
      stencil = 0
      call s%create(stencil, [4, 4, 4])
      call s%set_patches(reshape([1, 1, 1], [3, 1]), reshape([4, 4, 4], [3, 1]), status, message)
      call check(status == RRB_ERR_MATRIX .and. index(message, "patch 1") > 0, "zero blocks")
      stencil = [6, -1, -1, -1, -1, -1, -1]
      call s%create(stencil, [4, 4, 4])
      call s%residual(patches, norm, status)
      call check(status == RRB_ERR_STATE, "residual before set_patches")
      call s%set_patches(reshape([1, 1], [2, 1]), reshape([4, 4], [2, 1]), status, message)
      call check(status == RRB_ERR_DIMENSION .and. message == "lower must have the shape (3, 1), got (2, 1)", "two axes")
      call s%set_patches(reshape([1, 1, 1], [3, 1]), reshape([4, 0, 4], [3, 1]), status, message)
      call check(status == RRB_ERR_DIMENSION .and. index(message, "patch 1") > 0, "size 0")
      call s%set_patches(reshape([1, 1, 1, 4, 4, 4], [3, 2]), reshape([4, 4, 4, 4, 4, 4], [3, 2]), status, message)
      call check(status == RRB_ERR_ARGUMENT .and. index(message, "patches 1 and 2") > 0, "overlapping patches")
      call s%apply(patches, 1, status, message)
      call check(status == RRB_ERR_STATE, "apply after a failed set_patches")
      call s%set("method=jacobi", status, message)
      call check(status == RRB_ERR_OPTION .and. index(message, "block_jacobi") > 0, "unknown method")
      call s%set(RRB_OPT_METHOD, 7, status)
      call check(status == RRB_ERR_ARGUMENT, "method 7")
      ! One patch with one cell.
      u = 1
      f = 0
      patches(1)%u => u
      patches(1)%f => f
      call s%set_patches(reshape([5, -5, 0], [3, 1]), reshape([1, 1, 1], [3, 1]))
      u(2, 2, 2) = 0
      call s%apply(patches, -1, status, message)
      call check(status == RRB_ERR_ARGUMENT .and. index(message, "sweeps") > 0, "-1 sweeps")
      call s%apply(patches, 1)
      call check(abs(u(2, 2, 2) - 1) < 1e-15_c_double, "one cell")
      u(2, 2, 2) = ieee_value(norm, ieee_quiet_nan)
      call s%apply(patches, 1, status, message)
      call check(status == RRB_ERR_NOT_FINITE .and. index(message, "(5, -5, 0) of patch 1") > 0, "NaN in u: cells as in lower")
      call s%apply(none, 1, status)
      call check(status == RRB_ERR_DIMENSION, "no patches where there is one")
      ! No patches, and ten thousand patches.
      allocate (lower(3, 0), extents(3, 0))
      call s%set_patches(lower, extents)
      call s%apply(none, 1)
      call s%apply(1)
      deallocate (lower, extents)
      allocate (lower(3, 10000), extents(3, 10000))
      do q = 1, 10000
         lower(:, q) = [mod(q, 25), mod(q, 625), q]
      end do
      extents = 1
      call s%set_patches(lower, extents)
      call s%upload()
      call s%apply(2)
      call s%residual(norm)
      call check(norm <= 0, "nothing but zeros")
   end subroutine smoother_misused

   subroutine misused()
      type(rrb_solver) :: solver
      real(c_double) :: center(nx, ny), coupling(nx, ny), b(nx, ny), x(nx, ny), narrow(nx - 1, ny)
      integer :: status
      character(120) :: message
      center = 4
      coupling = -1
      b = 1
      x = 0
      narrow = 0
      call solver%solve(b, x, status, message)
      call check(status == RRB_ERR_NULL, "solve before create")
      call solver%create(0, 5, status, message)
      call check(status == RRB_ERR_DIMENSION, "0 x 5")
      call solver%create(nx, ny)
      call solver%solve(b, x, status, message)
      call check(status == RRB_ERR_STATE, "solve before factorize")
      call solver%set("levls=3", status, message)
      call check(status == RRB_ERR_OPTION .and. index(message, "did you mean 'levels'") > 0, "unknown name")
      call solver%set(RRB_OPT_REL_TOL, -1.0_c_double, status, message)
      call check(status == RRB_ERR_ARGUMENT .and. message == "rel_tol must lie in (0, 1), got -1", "range")
      call solver%factorize(narrow, coupling, coupling, status, message)
      call check(status == RRB_ERR_DIMENSION .and. message == "center must have the shape (37, 22), got (36, 22)", "shape")
      center(6, 3) = 0
      call solver%factorize(center, coupling, coupling, status, message)
      call check(status == RRB_ERR_MATRIX .and. index(message, "(6, 3)") > 0, "zero center, counted from 1")
      center(6, 3) = ieee_value(b(1, 1), ieee_positive_inf)
      call solver%factorize(center, coupling, coupling, status, message)
      call check(status == RRB_ERR_NOT_FINITE .and. index(message, "(6, 3)") > 0, "infinite center")
      center(6, 3) = 4
      call solver%factorize(center, coupling, coupling)
      b(2, 5) = ieee_value(b(1, 1), ieee_quiet_nan)
      call solver%solve(b, x, status, message)
      call check(status == RRB_ERR_NOT_FINITE .and. index(message, "(2, 5)") > 0, "NaN, counted from 1")
      call check(maxval(abs(x)) <= 0, "x is kept")
   end subroutine misused

   ! Without stat, an error ends the program with the error message.
   subroutine stop_as_allocate_does()
      type(rrb_solver) :: solver
      call solver%create(nx, ny)
      call solver%set("rel_tol=7")
      print "(a)", "not reached"
   end subroutine stop_as_allocate_does
end program consumer
