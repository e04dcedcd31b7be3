! Tests of the modules and of complete runs. Each check prints one line, and the program fails if a check fails. With
! the argument "long", the program performs only the 3D runs that take minutes.
program bubbles_tests
   use, intrinsic :: iso_c_binding, only: c_int32_t
   use bubble_labels, only: bubble, label_bubbles, measure_bubbles
   use bubbles_case, only: named_problem, problem, set_cells_across, start_at_rest
   use grid_fields, only: flow
   use host, only: dp, pi
   use iccg_solver, only: ic0_factorize, iccg, iccg_work, make_matrix, matrix, multiply
   use plic, only: cut_alpha, cut_volume, interface_normal, slab_fraction
   use pressure, only: guess_extrapolated, guess_previous, guess_zero, pressure_system, setup_pressure, &
      solver_statistics, use_both, use_dpcg, use_iccg
   use time_stepping, only: advance, measure, measures
   use vof, only: is_mixed
   implicit none

   ! Results of a run from rest.
   type :: history
      type(measures) :: first, last
      real(dp) :: max_rise = 0, max_rise_time = 0, min_roundness = huge(1.0_dp)
      real(dp) :: most_speed = 0           ! max |u| over the run
      real(dp) :: divergence_error = 0     ! max |div u| against max |r| dt/(rho_l h^2), relative
      real(dp) :: mean_iterations = 0
   end type history

   ! Index: use_iccg or use_dpcg.
   character(*), parameter :: solver_name(2) = ['ICCG', 'dpcg']
   integer :: failures = 0, seed = 12345
   character(4) :: which

   call get_command_argument(1, which)
   if (which == 'long') then
      call test_rising_sphere('case1_3d', 0.35654_dp, 0.892_dp, 1.4658_dp, 0.01_dp)
      call test_rising_sphere('case2_3d', 0.3810_dp, 0.489_dp, 1.477_dp, 0.03_dp)
      call test_swarm()
      if (failures > 0) error stop 1
      stop
   end if
   call test_plane_volumes()
   call test_plane_slabs()
   call test_plane_normals()
   call test_iccg()
   call test_labels()
   call test_exact_balance(use_iccg, 'static', 4.0_dp, 0.5_dp)
   call test_exact_balance(use_iccg, 'static_3d', 8.0_dp, 0.02_dp)
   call test_exact_balance(use_dpcg, 'static', 4.0_dp, 0.5_dp)
   call test_exact_balance(use_dpcg, 'static_3d', 8.0_dp, 0.02_dp)
   call test_static_circle(use_iccg)
   call test_static_circle(use_dpcg)
   call test_static_sphere(use_iccg)
   call test_static_sphere(use_dpcg)
   call test_rising_bubble(use_iccg, 47.0_dp, 2.0_dp)
   call test_rising_bubble(use_dpcg, 3.0_dp, 0.5_dp)
   call test_light_gas()
   call test_volume_is_divergence()
   call test_falling_drop()
   call test_nine_bubbles()
   call test_guesses()
   call test_both_solvers()
   if (failures > 0) error stop 1

contains

   subroutine report(name, what, measured, limit)
      character(*), intent(in) :: name, what
      real(dp), intent(in) :: measured, limit
      character(4) :: verdict
      verdict = 'ok  '
      if (.not. measured <= limit) then
         verdict = 'FAIL'
         failures = failures + 1
      end if
      write (*, '(a, 1x, a, 1x, a, es9.2, a, es9.2)') verdict, name, what//':', measured, ' <=', limit
   end subroutine report

   subroutine report_near(name, what, measured, expected, tolerance)
      character(*), intent(in) :: name, what
      real(dp), intent(in) :: measured, expected, tolerance
      character(4) :: verdict
      verdict = 'ok  '
      if (.not. abs(measured - expected) <= tolerance) then
         verdict = 'FAIL'
         failures = failures + 1
      end if
      write (*, '(a, 1x, a, 1x, a, f9.5, a, f9.5, a, f8.5)') verdict, name, what//':', measured, ' = ', expected, &
         ' +-', tolerance
   end subroutine report_near

   ! Random number, uniform in (0, 1). The sequence is the same on every machine.
   real(dp) function random()
      integer, parameter :: wide = selected_int_kind(18)
      seed = int(mod(16807_wide*seed, 2147483647_wide))
      random = seed/2147483647.0_dp
   end function random

   ! Random normal with sum |m| = 1. Some components are zero or tiny.
   function random_normal() result(m)
      real(dp) :: m(3)
      integer :: d
      do
         do d = 1, 3
            m(d) = random()
            if (random() < 0.1_dp) m(d) = 0
            if (random() < 0.1_dp) m(d) = 1e-6_dp*random()
         end do
         if (sum(m) > 0) exit
      end do
      m = m/sum(m)
   end function random_normal

   ! The plane at alpha = cut_alpha(c, m) must cut off the volume c.
   subroutine test_plane_volumes()
      integer, parameter :: samples = 200000
      real(dp) :: m(3), c, worst
      integer :: k
      worst = 0
      do k = 1, samples
         m = random_normal()
         c = random()
         if (mod(k, 10) == 0) c = 1e-9_dp*c
         worst = max(worst, abs(cut_volume(cut_alpha(c, m), m) - c))
      end do
      ! Limit: the rounding error of alpha times the derivative of the volume, which is at most 1/m3 <= 3.
      call report('T3', 'volume of the plane that cuts off a volume, 200000 planes', worst, 1e-14_dp)
   end subroutine test_plane_volumes

   ! The gas in the slab of width a and in the rest of the cell, a slab of width 1 - a at the other side, must add up to
   ! the gas in the cell.
   subroutine test_plane_slabs()
      integer, parameter :: samples = 20000
      real(dp) :: m(3), c, a, worst
      integer :: k, d
      worst = 0
      do k = 1, samples
         m = random_normal()
         do d = 1, 3
            if (random() < 0.5_dp) m(d) = -m(d)
         end do
         c = random()
         a = random()
         d = 1 + mod(k, 3)
         worst = max(worst, abs(a*slab_fraction(c, m, d, a) + (1 - a)*slab_fraction(c, m, d, a - 1) - c))
      end do
      call report('T3', 'two slabs make a cell', worst, 1e-13_dp)
   end subroutine test_plane_slabs

   ! Compares the normals of a circle with a radius of ten cells with the directions from the centre of the circle to
   ! the centres of the cells.
   subroutine test_plane_normals()
      type(problem) :: p
      type(flow) :: f
      real(dp) :: m(3), out(3), worst
      integer :: i, k
      p = named_problem('case1')
      call start_at_rest(p, f)
      worst = 0
      do k = 1, f%g%n(3)
         do i = 1, f%g%n(1)
            if (.not. is_mixed(f%c(i, 1, k))) cycle
            m = interface_normal(f%c(i - 1:i + 1, 0:2, k - 1:k + 1))
            out = [(i - 0.5_dp)*f%g%h - 0.5_dp, 0.0_dp, (k - 0.5_dp)*f%g%h - 0.5_dp]
            worst = max(worst, acos(min(dot_product(m, out)/(norm2(m)*norm2(out)), 1.0_dp)))
         end do
      end do
      call report('T3', 'normals of a circle of ten cells [degrees]', worst*180/pi, 1.7_dp)
   end subroutine test_plane_normals

   ! Solves a small singular system with large jumps of the coefficients and a known solution.
   subroutine test_iccg()
      integer, parameter :: n(3) = [7, 5, 6]
      type(matrix) :: a
      type(iccg_work) :: work
      real(dp) :: x(n(1), n(2), n(3)), y(n(1), n(2), n(3)), b(n(1), n(2), n(3))
      integer :: i, j, k, iterations
      logical :: converged
      call make_matrix(a, n)
      do k = 1, n(3)
         do j = 1, n(2)
            do i = 1, n(1)
               if (i < n(1)) a%east(i, j, k) = -10**(3*random())
               if (j < n(2)) a%north(i, j, k) = -10**(3*random())
               if (k < n(3)) a%top(i, j, k) = -10**(3*random())
               x(i, j, k) = random()
            end do
         end do
      end do
      y = 1
      call multiply(a, y, b)
      a%center = -b
      call multiply(a, y, b)
      call report('T0', 'a matrix with zero row sums', maxval(abs(b))/maxval(a%center), 1e-15_dp)
      call multiply(a, x, b)
      y = 0
      call ic0_factorize(a, work)
      call iccg(a, work, b, y, 1e-12_dp, 500, iterations, converged)
      if (.not. converged) y = huge(y)
      y = y - sum(y)/size(y) + sum(x)/size(x)
      call report('T0', 'ICCG finds the solution of a singular system', maxval(abs(y - x)), 1e-9_dp)
   end subroutine test_iccg

   ! Boxes of gas with a common face are one bubble; boxes with only a common edge are two.
   subroutine test_labels()
      type(problem) :: p
      type(flow) :: f
      integer(c_int32_t), allocatable :: labels(:, :, :)
      type(bubble), allocatable :: found(:)
      integer :: bubbles
      p = named_problem('static_3d')
      call set_cells_across(p, 16)
      call start_at_rest(p, f)
      f%c = 0
      f%c(2:4, 2:4, 2:4) = 1
      f%c(5:6, 4:7, 3) = 1
      f%c(7:8, 8:9, 3) = 1
      f%c(10:16, 10:16, 15:16) = 1
      call label_bubbles(f%g, f%c, labels, bubbles)
      call measure_bubbles(f, labels, bubbles, found)
      call report('T0', 'bubbles counted', real(abs(bubbles - 3), dp), 0.0_dp)
      if (bubbles /= 3) return
      call report('T0', 'volume of the first', abs(found(1)%volume/f%g%h**3 - 35), 1e-10_dp)
      call report('T0', 'centre of the second', norm2(found(2)%center/f%g%h - [7.0_dp, 8.0_dp, 2.5_dp]), 1e-12_dp)
      call report('T0', 'the third alone at the top', &
                  real(count(found%at_top .neqv. [.false., .false., .true.]), dp), 0.0_dp)
   end subroutine test_labels

   ! Runs from rest to end_time, and measures the flow after every step.
   function run(p, f, rel_tol, curvature) result(h)
      type(problem), intent(inout) :: p
      type(flow), intent(out) :: f
      real(dp), intent(in) :: rel_tol
      real(dp), intent(in), optional :: curvature
      type(pressure_system) :: system
      type(history) :: h
      h = run_with(p, f, system, use_iccg, rel_tol, curvature)
   end function run

   function run_with(p, f, system, solver, rel_tol, curvature) result(h)
      type(problem), intent(inout) :: p
      type(flow), intent(out) :: f
      type(pressure_system), intent(inout) :: system
      integer, intent(in) :: solver        ! use_iccg or use_dpcg
      real(dp), intent(in) :: rel_tol
      real(dp), intent(in), optional :: curvature
      type(history) :: h
      type(solver_statistics) :: taken
      real(dp) :: predicted
      call start_at_rest(p, f)
      call setup_pressure(system, f%g%n, solver, rel_tol, guess_previous, '')
      h%first = measure(f)
      do while (f%time < p%end_time)
         call advance(f, system, p%end_time, curvature)
         h%last = measure(f)
         if (h%last%rise > h%max_rise) then
            h%max_rise = h%last%rise
            h%max_rise_time = f%time
         end if
         h%min_roundness = min(h%min_roundness, h%last%roundness/h%first%roundness)
         h%most_speed = max(h%most_speed, h%last%speed)
         predicted = system%largest_residual*f%dt/(f%of%rho_liquid*f%g%h**2)
         h%divergence_error = max(h%divergence_error, abs(h%last%divergence/predicted - 1))
      end do
      taken = merge(system%of_dpcg, system%of_iccg, solver == use_dpcg)
      h%mean_iterations = taken%iterations/taken%solves
   end function run_with

   ! Relative error of Laplace's law: the pressure jump between pure gas and pure liquid is sigma kappa.
   real(dp) function laplace_error(f, p, kappa) result(error)
      type(flow), intent(in) :: f
      real(dp), intent(in) :: p(:, :, :), kappa
      real(dp), parameter :: pure = 1e-9_dp
      real(dp) :: inside, outside
      associate (c => f%c(1:f%g%n(1), 1:f%g%n(2), 1:f%g%n(3)))
         inside = sum(p, mask=c > 1 - pure)/count(c > 1 - pure)
         outside = sum(p, mask=c < pure)/count(c < pure)
      end associate
      error = (inside - outside)/(f%of%sigma*kappa) - 1
   end function laplace_error

   ! If every cell has the exact curvature, the surface tension is a discrete gradient, and the fluids remain at rest.
   subroutine test_exact_balance(solver, name, kappa, end_time)
      integer, intent(in) :: solver
      character(*), intent(in) :: name
      real(dp), intent(in) :: kappa, end_time
      type(problem) :: p
      type(flow) :: f
      type(pressure_system) :: system
      type(history) :: h
      p = named_problem(name)
      p%end_time = end_time
      h = run_with(p, f, system, solver, 1e-10_dp, kappa)
      call report('T2', name//' by '//solver_name(solver)//', exact curvature: max |u|', h%most_speed, 1e-10_dp)
      call report('T2', name//' by '//solver_name(solver)//', exact curvature: Laplace', &
                  abs(laplace_error(f, system%p, kappa)), 1e-10_dp)
   end subroutine test_exact_balance

   ! Computes the curvature of a circle with a radius of eight cells by height functions.
   subroutine test_static_circle(solver)
      integer, intent(in) :: solver
      type(problem) :: p
      p = named_problem('static')
      call test_static_bubble(solver, p, 'circle', 4.0_dp, 2e-4_dp, 0.78_dp, [4.03_dp, 4.03_dp], 0.01_dp)
   end subroutine test_static_circle

   ! Computes the curvature of a sphere with a radius of eight cells by height functions.
   subroutine test_static_sphere(solver)
      integer, intent(in) :: solver
      type(problem) :: p
      p = named_problem('static_3d')
      p%end_time = 0.1_dp
      call test_static_bubble(solver, p, 'sphere', 8.0_dp, 8e-3_dp, 0.22_dp, [7.92_dp, 8.12_dp], 0.05_dp)
   end subroutine test_static_sphere

   ! kappa: exact curvature; speed: limit of the speed at the end; percent: expected error of the pressure jump; range:
   ! expected smallest and largest curvature, with the tolerance `nearness`. The pressure systems are solved to 1e-10,
   ! so that both solvers give the same results to five digits.
   subroutine test_static_bubble(solver, p, name, kappa, speed, percent, range, nearness)
      integer, intent(in) :: solver
      type(problem), intent(inout) :: p
      character(*), intent(in) :: name
      real(dp), intent(in) :: kappa, speed, percent, range(2), nearness
      character(:), allocatable :: who
      type(flow) :: f
      type(pressure_system) :: system
      type(history) :: h
      h = run_with(p, f, system, solver, 1e-10_dp)
      who = 'static '//name//' by '//solver_name(solver)
      call report('T2', who//': max |u| at the end', h%last%speed, speed)
      call report_near('T2', who//': Laplace, percent', 100*laplace_error(f, system%p, kappa), percent, 0.1_dp)
      call report_near('T2', who//': least curvature', minval(f%kappa, mask=f%kind > 0), range(1), nearness)
      call report_near('T2', who//': largest curvature', maxval(f%kappa, mask=f%kind > 0), range(2), nearness)
   end subroutine test_static_bubble

   ! Test case 1 of Hysing et al. 2009. The expected values are those of its finest computation (h = 1/320). With dpcg,
   ! each step takes 3 or 4 iterations.
   subroutine test_rising_bubble(solver, iterations, nearness)
      integer, intent(in) :: solver
      real(dp), intent(in) :: iterations, nearness      ! mean of a step, and how near it must be
      character(:), allocatable :: who
      type(pressure_system) :: system
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      p = named_problem('case1')
      h = run_with(p, f, system, solver, 1e-6_dp)
      who = 'case1 by '//solver_name(solver)
      call report_near('T1', who//': largest rise velocity', h%max_rise, 0.2417_dp, 0.001_dp)
      call report_near('T1', who//': when', h%max_rise_time, 0.9213_dp, 0.02_dp)
      call report_near('T1', who//': least circularity', h%min_roundness, 0.906_dp, 0.006_dp)
      call report_near('T1', who//': height at t = 3', h%last%height, 1.081_dp, 0.002_dp)
      call report('T1', who//': change of volume', abs(h%last%volume/h%first%volume - 1), 2e-8_dp)
      call report_near('T1', who//': mean iterations', h%mean_iterations, iterations, nearness)
   end subroutine test_rising_bubble

   ! Test case 2 of Hysing et al. 2009. The expected values are the largest rise velocity of their series c2g1l8 and the
   ! height at t = 1. Later the bubble breaks up, and published results differ.
   subroutine test_light_gas()
      type(pressure_system) :: system
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      p = named_problem('case2')
      p%end_time = 1
      h = run_with(p, f, system, use_dpcg, 1e-6_dp)
      call report_near('T1', 'case2 by dpcg: largest rise velocity', h%max_rise, 0.2524_dp, 0.004_dp)
      call report_near('T1', 'case2 by dpcg: height at t = 1', h%last%height, 0.6874_dp, 0.002_dp)
      call report('T1', 'case2 by dpcg: change of volume', abs(h%last%volume/h%first%volume - 1), 2e-8_dp)
   end subroutine test_light_gas

   ! Test cases 1 and 2 in 3D (Adelsberger et al. 2014): largest rise velocity, its time, and the height at t = 3. The
   ! expected values are those of an independent program for this method on this grid; `part` is the relative tolerance.
   ! The published values of the code DROPS are 0.35701, 0.888 and 1.4710 for case 1, and 0.3702, 0.536 and 1.451 for
   ! case 2.
   subroutine test_rising_sphere(name, rise, when, height, part)
      character(*), intent(in) :: name
      real(dp), intent(in) :: rise, when, height, part
      type(pressure_system) :: system
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      p = named_problem(name)
      h = run_with(p, f, system, use_dpcg, 1e-6_dp)
      call report_near('T1', name//' by dpcg: largest rise velocity', h%max_rise, rise, part*rise)
      call report_near('T1', name//' by dpcg: when', h%max_rise_time, when, part*3)
      call report_near('T1', name//' by dpcg: height at t = 3', h%last%height, height, part*height)
   end subroutine test_rising_sphere

   ! Thirty bubbles rise, merge and burst through the surface. The initial number of gas regions is 31 (30 bubbles and
   ! the gas above the surface), and the gas volume is conserved.
   subroutine test_swarm()
      type(pressure_system) :: system
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      integer(c_int32_t), allocatable :: labels(:, :, :)
      integer :: bubbles
      p = small_swarm()
      call start_at_rest(p, f)
      call label_bubbles(f%g, f%c, labels, bubbles)
      call report('T7', 'swarm: regions of gas less 31', real(abs(bubbles - 31), dp), 0.0_dp)
      p = small_swarm()
      h = run_with(p, f, system, use_dpcg, 1e-6_dp)
      call report('T7', 'swarm by dpcg: change of volume', abs(h%last%volume/h%first%volume - 1), 1e-8_dp)
      call report('T7', 'swarm by dpcg: gas fraction outside 0 .. 1', max(-minval(f%c), maxval(f%c) - 1), 0.0_dp)
      call report('T7', 'swarm by dpcg: mean iterations', h%mean_iterations, 30.0_dp)
   end subroutine test_swarm

   ! A coarse variant of the problem `swarm` that ends after the first bubbles have burst.
   function small_swarm() result(p)
      type(problem) :: p
      p = named_problem('swarm')
      call set_cells_across(p, 32)
      p%least_radius = 0.08_dp
      p%most_radius = 0.11_dp
      p%end_time = 2.3_dp
   end function small_swarm

   ! The volume changes only by the divergence of the velocity, which is the residual of the pressure solver.
   subroutine test_volume_is_divergence()
      real(dp), parameter :: rel_tol(3) = [1e-3_dp, 1e-4_dp, 1e-8_dp], change(3) = [3e-4_dp, 2e-5_dp, 2e-10_dp]
      character(*), parameter :: name(3) = ['1e-3', '1e-4', '1e-8']
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      integer :: k
      do k = 1, 3
         p = named_problem('case1')
         h = run(p, f, rel_tol(k))
         call report('T4', 'case1 at '//name(k)//': change of volume', abs(h%last%volume/h%first%volume - 1), change(k))
         call report_near('T4', 'case1 at '//name(k)//': largest rise velocity', h%max_rise, 0.24165_dp, 1e-4_dp)
         ! Limit: u has a rounding error of 1e-16 m/s, which is divided by h and compared with a divergence of 1e-3 to
         ! 1e-8.
         call report('T4', 'case1 at '//name(k)//': divergence is the residual', h%divergence_error, 1e-4_dp)
      end do
   end subroutine test_volume_is_divergence

   ! A drop in gas falls almost as in empty space, because momentum is advected with the mass.
   subroutine test_falling_drop()
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      real(dp) :: fall
      integer :: n(3)
      p = named_problem('drop')
      h = run(p, f, 1e-6_dp)
      n = f%g%n
      associate (liquid => 1 - f%c(1:n(1), 1:n(2), 1:n(3)), w => f%u(1:n(1), 1:n(2), 0:n(3), 3))
         fall = -sum(liquid*(w(:, :, 1:n(3)) + w(:, :, 2:n(3) + 1))/2)/sum(liquid)
      end associate
      call report_near('T5', 'drop: velocity over g t', fall/(f%of%gravity*p%end_time), 0.993_dp, 0.003_dp)
   end subroutine test_falling_drop

   ! Iteration counts of the first steps in 3D.
   subroutine test_nine_bubbles()
      type(problem) :: p
      type(flow) :: f
      type(history) :: h
      p = named_problem('nine')
      p%end_time = 0.15_dp
      h = run(p, f, 1e-6_dp)
      call report('T6', 'nine bubbles: change of volume', abs(h%last%volume/h%first%volume - 1), 1e-8_dp)
      call report_near('T6', 'nine bubbles: mean iterations of ICCG', h%mean_iterations, 69.0_dp, 4.0_dp)
      call report('T6', 'nine bubbles: gas fraction outside 0 .. 1', max(-minval(f%c), maxval(f%c) - 1), 0.0_dp)
   end subroutine test_nine_bubbles

   ! With the previous pressure as guess, ICCG needs a third fewer iterations than from zero. Extrapolation gives no
   ! further gain.
   subroutine test_guesses()
      character(*), parameter :: name(3) = [character(12) :: 'zero', 'previous', 'extrapolated']
      integer, parameter :: guess(3) = [guess_zero, guess_previous, guess_extrapolated]
      real(dp), parameter :: mean(3) = [118, 82, 84]
      integer :: k
      do k = 1, 3
         call report_near('T6', 'nine bubbles, 60 steps, guess '//trim(name(k))//': mean iterations of ICCG', &
                          iterations_from(guess(k)), mean(k), 0.05_dp*mean(k))
      end do
   end subroutine test_guesses

   ! Mean number of iterations of ICCG in sixty steps of the problem `nine`.
   real(dp) function iterations_from(guess) result(mean)
      integer, intent(in) :: guess
      type(problem) :: p
      type(flow) :: f
      type(pressure_system) :: system
      integer :: step
      p = named_problem('nine')
      call start_at_rest(p, f)
      call setup_pressure(system, f%g%n, use_iccg, 1e-6_dp, guess, '')
      do step = 1, 60
         call advance(f, system, p%end_time)
      end do
      mean = system%of_iccg%iterations/system%of_iccg%solves
   end function iterations_from

   ! Solves the same systems with ICCG and with rrbsolver from the same guesses. rrbsolver runs with default options,
   ! with the bubbles as deflation regions, and with the method of ICCG, which must need the same number of iterations.
   subroutine test_both_solvers()
      type(solver_statistics) :: dpcg, own
      call run_both('', .false., dpcg, own)
      call report('T6', 'dpcg: iterations over those of ICCG', dpcg%iterations/own%iterations, 0.25_dp)
      call run_both('preconditioner=neumann deflation=levelset', .true., dpcg, own)
      call report('T6', 'dpcg, neumann, regions: iterations over those of ICCG', dpcg%iterations/own%iterations, 0.8_dp)
      call run_both('preconditioner=ic0 deflation=none', .false., dpcg, own)
      call report('T6', 'dpcg, ic0: iterations less those of ICCG', abs(dpcg%iterations - own%iterations), 2.0_dp)
   end subroutine test_both_solvers

   ! Runs five steps with both solvers. At a relative residual of 1e-8, the two pressures differ by at most about 1e-8
   ! times the condition number.
   subroutine run_both(options, with_regions, dpcg, own)
      character(*), intent(in) :: options
      logical, intent(in) :: with_regions
      type(solver_statistics), intent(out) :: dpcg, own
      type(problem) :: p
      type(flow) :: f
      type(pressure_system) :: system
      integer :: bubbles, k
      p = named_problem('nine')
      call start_at_rest(p, f)
      call setup_pressure(system, f%g%n, use_both, 1e-8_dp, guess_previous, options)
      do k = 1, 5
         if (with_regions) call label_bubbles(f%g, f%c, system%regions, bubbles)
         call advance(f, system, p%end_time)
      end do
      call report('T6', 'dpcg '//options//': pressure against ICCG', system%largest_difference, 1e-5_dp)
      call report('T6', 'dpcg '//options//': residual', system%residual, 1.001e-8_dp)
      dpcg = system%of_dpcg
      own = system%of_iccg
   end subroutine run_both

end program bubbles_tests
