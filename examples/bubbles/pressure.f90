! Computes the pressure that makes the velocity divergence-free (Chorin, Math. Comp. 22 (1968) 745-762). Each time step
! solves one singular 7-point system with rrbsolver, with the in-house ICCG, or with both for comparison.
module pressure
   use, intrinsic :: iso_c_binding, only: c_int32_t
   use grid_fields, only: flow, set_velocity_ghosts, unit_step
   use host, only: dp, give_up, seconds, text
   use iccg_solver, only: dot, ic0_factorize, iccg, iccg_work, make_matrix, matrix, multiply
   use pressure_dpcg, only: dpcg_pressure
   implicit none
   private
   public :: pressure_system, solver_statistics, setup_pressure, assemble, solve_pressure, correct, project
   public :: use_iccg, use_dpcg, use_both, guess_zero, guess_previous, guess_extrapolated

   integer, parameter :: use_iccg = 1, use_dpcg = 2, use_both = 3
   integer, parameter :: guess_zero = 1, guess_previous = 2, guess_extrapolated = 3
   integer, parameter :: max_iterations = 10000

   type :: solver_statistics
      integer :: solves = 0, most_iterations = 0, first_iterations = 0, last_iterations = 0
      real(dp) :: iterations = 0, solve_seconds = 0      ! sums over all solves; factorization included
   end type solver_statistics

   type :: pressure_system
      integer :: solver = use_iccg, guess = guess_previous
      real(dp) :: rel_tol = 1e-6_dp
      type(matrix) :: a
      real(dp), allocatable :: b(:, :, :)
      real(dp), allocatable :: p(:, :, :)          ! pressure [Pa] with mean zero; the guess before a solve
      real(dp), allocatable :: previous(:, :, :)   ! p^(n-1), for the extrapolated guess
      real(dp), allocatable :: other(:, :, :)      ! solution of ICCG if both solvers run
      integer(c_int32_t), allocatable :: regions(:, :, :)   ! deflation regions for dpcg; its default if not allocated
      type(dpcg_pressure) :: dpcg
      type(iccg_work) :: work
      type(solver_statistics) :: of_iccg, of_dpcg
      real(dp) :: residual = 0                     ! ||b - A p||_2/||b||_2
      real(dp) :: largest_residual = 0             ! max |b - A p|
      real(dp) :: largest_difference = 0           ! max |p_iccg - p_dpcg|/max |p| if both solvers run
   end type pressure_system

contains

   ! dpcg_options: option text for rrbsolver.
   subroutine setup_pressure(system, n, solver, rel_tol, guess, dpcg_options)
      type(pressure_system), intent(inout) :: system
      integer, intent(in) :: n(3), solver, guess
      real(dp), intent(in) :: rel_tol
      character(*), intent(in) :: dpcg_options
      system%solver = solver
      system%rel_tol = rel_tol
      system%guess = guess
      call make_matrix(system%a, n)
      allocate (system%b(n(1), n(2), n(3)), source=0.0_dp)
      allocate (system%p, system%previous, source=system%b)
      if (solver == use_both) allocate (system%other, source=system%b)
      if (solver /= use_iccg) call system%dpcg%create(n, rel_tol, max_iterations, dpcg_options)
   end subroutine setup_pressure

   ! Computes p^(n+1), and u^(n+1) from u*.
   subroutine project(system, f)
      type(pressure_system), intent(inout) :: system
      type(flow), intent(inout) :: f
      call assemble(system, f)
      call solve_pressure(system)
      call correct(system, f)
   end subroutine project

   ! Assembles the system. The matrix is h^2 times -div(rho_l/rho grad), where rho_l is the density of the liquid. Its
   ! off-diagonal entries are -rho_l/rho_face = -2 rho_l/(rho_P + rho_N), the harmonic means of the coefficient. The
   ! right-hand side is -(rho_l h/dt) times the differences of u*. Faces on walls have no entries, so the row sums are
   ! zero and the null space consists of the constants.
   subroutine assemble(system, f)
      type(pressure_system), intent(inout) :: system
      type(flow), intent(in) :: f
      real(dp) :: scale
      integer :: i, j, k, n(3)
      n = f%g%n
      scale = f%of%rho_liquid*f%g%h/f%dt
      associate (a => system%a, rho => f%rho_face, u => f%u_star)
         call entries(1, n, f%of%rho_liquid, rho(1:n(1), 1:n(2), 1:n(3), 1), a%east)
         call entries(2, n, f%of%rho_liquid, rho(1:n(1), 1:n(2), 1:n(3), 2), a%north)
         call entries(3, n, f%of%rho_liquid, rho(1:n(1), 1:n(2), 1:n(3), 3), a%top)
         a%center = -a%east - a%north - a%top
         do k = 1, n(3)
            do j = 1, n(2)
               do i = 1, n(1)
                  if (i > 1) a%center(i, j, k) = a%center(i, j, k) - a%east(i - 1, j, k)
                  if (j > 1) a%center(i, j, k) = a%center(i, j, k) - a%north(i, j - 1, k)
                  if (k > 1) a%center(i, j, k) = a%center(i, j, k) - a%top(i, j, k - 1)
                  system%b(i, j, k) = -scale*(u(i, j, k, 1) - u(i - 1, j, k, 1) + u(i, j, k, 2) - u(i, j - 1, k, 2) &
                                              + u(i, j, k, 3) - u(i, j, k - 1, 3))
               end do
            end do
         end do
      end associate
   end subroutine assemble

   subroutine entries(d, n, rho_liquid, rho, entry)
      integer, intent(in) :: d, n(3)
      real(dp), intent(in) :: rho_liquid, rho(:, :, :)
      real(dp), intent(inout) :: entry(:, :, :)
      integer :: last(3)
      last = n - unit_step(d)
      entry = 0
      entry(:last(1), :last(2), :last(3)) = -rho_liquid/rho(:last(1), :last(2), :last(3))
   end subroutine entries

   subroutine solve_pressure(system)
      type(pressure_system), intent(inout) :: system
      call make_guess(system)
      select case (system%solver)
      case (use_iccg)
         call solve_by_iccg(system, system%p)
      case (use_dpcg)
         call solve_by_dpcg(system)
      case (use_both)
         system%other = system%p
         call solve_by_iccg(system, system%other)
         call solve_by_dpcg(system)
         system%other = system%other - mean(system%other)
      end select
      system%p = system%p - mean(system%p)
      if (system%solver == use_both .and. maxval(abs(system%p)) > 0) system%largest_difference = &
         max(system%largest_difference, maxval(abs(system%p - system%other))/maxval(abs(system%p)))
      call find_residual(system)
   end subroutine solve_pressure

   subroutine make_guess(system)
      type(pressure_system), intent(inout) :: system
      select case (system%guess)
      case (guess_zero)
         system%p = 0
      case (guess_extrapolated)
         system%p = 2*system%p - system%previous
         system%previous = (system%p + system%previous)/2
      end select
   end subroutine make_guess

   subroutine solve_by_iccg(system, p)
      type(pressure_system), intent(inout) :: system
      real(dp), contiguous, intent(inout) :: p(:, :, :)
      real(dp) :: start
      integer :: iterations
      logical :: converged
      start = seconds()
      call ic0_factorize(system%a, system%work)
      call iccg(system%a, system%work, system%b, p, system%rel_tol, max_iterations, iterations, converged)
      call count_solve(system%of_iccg, iterations, seconds() - start)
      if (.not. converged) call give_up('ICCG did not reach the tolerance in '//text(max_iterations)//' iterations')
   end subroutine solve_by_iccg

   subroutine solve_by_dpcg(system)
      type(pressure_system), intent(inout) :: system
      real(dp) :: start
      integer :: iterations
      start = seconds()
      if (allocated(system%regions)) call system%dpcg%set_regions(system%regions)
      call system%dpcg%solve(system%a, system%b, system%p, iterations)
      call count_solve(system%of_dpcg, iterations, seconds() - start)
   end subroutine solve_by_dpcg

   subroutine count_solve(statistics, iterations, time)
      type(solver_statistics), intent(inout) :: statistics
      integer, intent(in) :: iterations
      real(dp), intent(in) :: time
      statistics%solves = statistics%solves + 1
      if (statistics%solves == 1) statistics%first_iterations = iterations
      statistics%last_iterations = iterations
      statistics%iterations = statistics%iterations + iterations
      statistics%most_iterations = max(statistics%most_iterations, iterations)
      statistics%solve_seconds = statistics%solve_seconds + time
   end subroutine count_solve

   ! Recomputes the residual of the solution. It determines the divergence of the velocity:
   !
   !    div u^(n+1) = -(b - A p) dt/(rho_l h^2)
   subroutine find_residual(system)
      type(pressure_system), intent(inout) :: system
      real(dp), allocatable :: r(:, :, :)
      allocate (r, mold=system%b)
      call multiply(system%a, system%p, r)
      r = system%b - r
      system%largest_residual = maxval(abs(r))
      system%residual = sqrt(dot(r, r))/max(sqrt(dot(system%b, system%b)), tiny(1.0_dp))
   end subroutine find_residual

   pure real(dp) function mean(p)
      real(dp), intent(in) :: p(:, :, :)
      mean = sum(p)/size(p)
   end function mean

   ! Computes u^(n+1) = u* - dt (p_N - p_P)/(rho_face h) on the face between cells P and N.
   subroutine correct(system, f)
      type(pressure_system), intent(in) :: system
      type(flow), intent(inout) :: f
      integer :: d, e(3), hi(3), i, j, k
      do d = 1, 3
         if (.not. f%g%active(d)) cycle
         e = unit_step(d)
         hi = f%g%n - e
         do k = 1, hi(3)
            do j = 1, hi(2)
               do i = 1, hi(1)
                  f%u(i, j, k, d) = f%u_star(i, j, k, d) - f%dt/(f%rho_face(i, j, k, d)*f%g%h) &
                                    *(system%p(i + e(1), j + e(2), k + e(3)) - system%p(i, j, k))
               end do
            end do
         end do
      end do
      call set_velocity_ghosts(f%g, f%u)
   end subroutine correct

end module pressure
