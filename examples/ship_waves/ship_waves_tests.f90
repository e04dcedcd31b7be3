! Tests of the model and of both solvers in it; each prints one line, and the program fails if one of them does.
program ship_waves_tests
   !$ use omp_lib, only: omp_get_max_threads, omp_set_num_threads
   use bathymetry, only: depth_grid, refine_grid, refined, synthetic_harbour
   use boussinesq
   use current_tests, only: test_energy_in_current, test_fast_currents, test_flow, test_limit_of_speeds, &
                            test_wave_packet, test_work_of_ship
   use fleet_tests, only: test_ships_file, test_steering, test_sum_of_ships, test_wave_resistance
   use host, only: dp, gravity, pi, text
   use iccg_solver, only: ic0_factorize, iccg
   use psi_solver, only: psi_system, setup_psi, solve_psi, use_iccg, use_rrb
   use ship_pressure, only: hull_cosine, longest_straight_track, place_ship, ship
   use moving_ship_tests, only: half_time_step, test_moving_ship, test_threads
   use test_report, only: end_short_runs, failed_tests, keep, options_of_library, random_depth, report, run_length, &
                          start_random, start_short_runs
   use time_stepping, only: advance, energy, safe_time_step, start_at_rest, use_sponge, wave_state
   implicit none

   integer, parameter :: solvers(2) = [use_iccg, use_rrb]
   character(*), parameter :: solver_name(2) = ['ICCG', 'RRB ']

   call test_model()
   call test_matrix()
   call test_refined_grid()
   call test_profiles()
   call test_harbour()
   call test_threads()
   call test_threads_of_model()
   call test_wave_packet()
   call test_energy_in_current()
   call test_work_of_ship()
   call test_limit_of_speeds()
   call test_fast_currents()
   call test_flow()
   call test_sum_of_ships()
   call test_ships_file()
   call test_steering()
   call test_wave_resistance()
   if (failed_tests() > 0) error stop 1

contains

   ! The tests that solve systems or make steps.
   subroutine test_model()
      call test_dispersion()
      call test_energy_and_mass()
      call test_manufactured_solve()
      call test_wet_and_dry()
      call test_static_ship()
      call test_sponge()
      call test_stability_limit()
      call test_moving_ship()
   end subroutine test_model

   ! The states of short runs of all these tests with 2, 3 and 7 threads are bitwise those with one thread.
   subroutine test_threads_of_model()
      integer, parameter :: threads(4) = [1, 2, 3, 7]
      real(dp), allocatable :: one(:), states(:)
      integer :: k, before
      before = 1
      allocate (one(0))
      !$ before = omp_get_max_threads()
      do k = 1, size(threads)
         !$ call omp_set_num_threads(threads(k))
         call start_short_runs(threads(k))
         call test_model()
         call end_short_runs(states)
         if (k == 1) one = states
         call report('threads', 'T1 to T9 with '//text(threads(k))//' threads, values that differ from one thread', &
                     real(count(transfer(states, [0_8]) /= transfer(one, [0_8])), dp), 0.0_dp)
      end do
      call report('threads', '- number of values', -real(size(one), dp), -5e5_dp)
      !$ call omp_set_num_threads(before)
   end subroutine test_threads_of_model

   ! A channel of constant depth, closed at both ends, with zeta = cos(k x), k = pi m/L: an exact eigenvector.
   ! The frequency comes from 4 sin^2(omega dt/2) = -sum c d2c / sum c^2 over the amplitudes c^n of the mode.
   subroutine test_dispersion()
      integer, parameter :: nx = 120, ny = 3, steps = 200
      integer, parameter :: cases = 7
      integer, parameter :: profile(cases) = [profile_parabola, profile_parabola, profile_parabola, profile_parabola, &
                                              profile_cosh, profile_cosh, profile_cosh]
      real(dp), parameter :: depth(cases) = [10.0_dp, 10.0_dp, 10.0_dp, 5.0_dp, 10.0_dp, 20.0_dp, 60.0_dp]
      integer, parameter :: mode(cases) = [6, 12, 20, 24, 6, 20, 30]
      real(dp), parameter :: dx = 5, frequency = 1
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      real(dp) :: h(nx, ny), shape_of_mode(nx, ny), pressure(nx, ny), amplitude(0:steps)
      real(dp) :: wave, hd, m, n, omega, measured, worst, above, below, k0
      integer :: c, i, k, s

      do s = 1, 2
         worst = 0
         do c = 1, cases
            h = depth(c)
            call build_model(h, dx, dx, 0.3_dp, profile(c), frequency, model)
            allocate (system)
            call setup_psi(system, model, solvers(s), 1e-14_dp, options_of_library())
            ! A step in which the wave turns by an angle of order one: the measurement is then good to rounding.
            call start_at_rest(state, model, 1.8_dp/model%omega_max)
            shape_of_mode = spread([(cos(pi*mode(c)*(i - 0.5_dp)/nx), i=1, nx)], 2, ny)
            state%zeta = shape_of_mode
            pressure = 0
            amplitude = 0
            amplitude(0) = 1
            do k = 1, run_length(steps)
               call advance(state, model, system, pressure)
               amplitude(k) = sum(state%zeta*shape_of_mode)/sum(shape_of_mode**2)
            end do
            call keep(state%zeta)
            above = 0
            below = 0
            do k = 1, steps - 1
               above = above - amplitude(k)*((amplitude(k + 1) - amplitude(k)) - (amplitude(k) - amplitude(k - 1)))
               below = below + amplitude(k)**2
            end do
            measured = 2/state%dt*asin(sqrt(above/below)/2)

            wave = 2/dx*sin(pi*mode(c)/(2*nx))
            k0 = 0
            if (profile(c) == profile_cosh) k0 = characteristic_wave_number(frequency, depth(c))
            call profile_integrals(profile(c), depth(c), k0, hd, m, n)
            omega = sqrt(frequency_squared(depth(c), hd, m, n, wave**2))
            omega = 2/state%dt*asin(omega*state%dt/2)
            worst = max(worst, abs(measured/omega - 1))
            deallocate (system)
         end do
         ! Rounding of some hundred steps, each 1e-16 of the amplitude.
         call report('T1', trim(solver_name(s))//' dispersion against the discrete formula, 7 cases', worst, 2e-13_dp)
      end do
   end subroutine test_dispersion

   subroutine test_energy_and_mass()
      integer, parameter :: nx = 61, ny = 47, steps = 600
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      real(dp) :: depth(nx, ny), pressure(nx, ny), zeta(nx, ny), phi(nx, ny)
      real(dp) :: e, first, drift, mass, mass_before
      integer :: i, j, k, s

      call start_random(1)
      depth = random_depth(nx, ny, 1.0_dp, 20.0_dp)
      depth(20:30, 10:15) = -1          ! an island
      call build_model(depth, 5.0_dp, 4.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      do s = 1, 2
         allocate (system)
         call setup_psi(system, model, solvers(s), 1e-12_dp, options_of_library())
         call start_at_rest(state, model, half_time_step(model))
         do j = 1, ny
            do i = 1, nx
               if (model%wet(i, j)) state%zeta(i, j) = exp(-((i - 15)**2 + (j - 30)**2)/50.0_dp)
            end do
         end do
         mass_before = sum(state%zeta)
         pressure = 0
         first = 0
         drift = 0
         do k = 1, run_length(steps)
            zeta = state%zeta
            phi = state%phi
            call advance(state, model, system, pressure)
            if (k == 1) cycle         ! the first half step has no phi^(n-1/2)
            e = energy(state, model, zeta, phi)
            if (k == 2) first = e
            drift = max(drift, abs(e/first - 1))
         end do
         call keep(state%zeta)
         mass = sum(state%zeta)
         ! Each step's solve leaves 1e-12 of the potential energy.
         call report('T2', trim(solver_name(s))//' drift of the energy in 600 steps', drift, 1e-11_dp)
         ! Fluxes cancel in pairs: rounding of 600 sums, whatever the solver's tolerance.
         call report('T3', trim(solver_name(s))//' change of the mass in 600 steps', &
                     abs(mass - mass_before)/sum(abs(state%zeta)), 1e-13_dp)
         deallocate (system)
      end do
   end subroutine test_energy_and_mass

   ! S is stored by its east and north entries, hence symmetric; what is left to test are its row sums A M (1 on land),
   ! its sign pattern and its positivity, and that it is the operator L_N + A M.
   subroutine test_matrix()
      integer, parameter :: nx = 37, ny = 29
      type(wave_model) :: model
      real(dp) :: depth(nx, ny), x(nx, ny), y(nx, ny), l(nx, ny), am(nx, ny), row(nx, ny)
      real(dp) :: hd, m, n, off, least
      integer :: i, j, k

      call start_random(2)
      depth = random_depth(nx, ny, -5.0_dp, 20.0_dp)
      call build_model(depth, 5.0_dp, 3.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      x = 1
      call multiply(model, x, row)
      am = 1
      do j = 1, ny
         do i = 1, nx
            if (.not. model%wet(i, j)) cycle
            call profile_integrals(profile_parabola, depth(i, j), 0.0_dp, hd, m, n)
            am(i, j) = model%area*m
         end do
      end do
      ! Rounding of the sum of five entries, relative to the largest.
      call report('T4', 'row sums of the matrix are A M', maxval(abs(row - am)/model%center), 1e-14_dp)
      off = max(maxval(model%east), maxval(model%north))
      call report('T4', 'largest off-diagonal entry', off, 0.0_dp)
      least = huge(least)
      off = 0
      do k = 1, 20
         x = random_depth(nx, ny, -1.0_dp, 1.0_dp)
         call multiply(model, x, y)
         least = min(least, sum(x*y)/sum(am*x**2))
         call apply_operator(-model%east, -model%north, x, l)
         off = max(off, maxval(abs(l + am*x - y)/model%center))
      end do
      ! x'Sx >= x'(A M)x because L_N is positive semidefinite: the negative quotient must not exceed -1.
      call report('T4', '- x''S x / x''(A M) x for 20 random vectors', -least, -1.0_dp)
      call report('T4', 'matrix against operator', off, 1e-14_dp)
   end subroutine test_matrix

   ! y = L_c u, (L_c u)_P = sum over faces of w_f c_f (u_P - u_neighbour).
   subroutine apply_operator(c_east, c_north, u, y)
      real(dp), intent(in) :: c_east(:, :), c_north(:, :), u(:, :)
      real(dp), intent(out) :: y(:, :)
      real(dp), allocatable :: flux(:)
      integer :: nx, ny, j, south, north
      nx = size(u, 1)
      ny = size(u, 2)
      allocate (flux(0:nx))
      flux(0) = 0
      flux(nx) = 0
      do j = 1, ny
         south = max(j - 1, 1)       ! at the edges the difference is that of a cell with itself: 0
         north = min(j + 1, ny)
         flux(1:nx - 1) = c_east(1:nx - 1, j)*(u(1:nx - 1, j) - u(2:nx, j))
         y(:, j) = flux(1:nx) - flux(0:nx - 1) + c_north(:, j)*(u(:, j) - u(:, north)) &
                   + c_north(:, south)*(u(:, j) - u(:, south))
      end do
   end subroutine apply_operator

   ! y = S x from the stored entries
   subroutine multiply(model, x, y)
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: x(:, :)
      real(dp), intent(out) :: y(:, :)
      integer :: nx, ny
      nx = model%nx
      ny = model%ny
      y = model%center*x
      y(:nx - 1, :) = y(:nx - 1, :) + model%east(:nx - 1, :)*x(2:, :)
      y(2:, :) = y(2:, :) + model%east(:nx - 1, :)*x(:nx - 1, :)
      y(:, :ny - 1) = y(:, :ny - 1) + model%north(:, :ny - 1)*x(:, 2:)
      y(:, 2:) = y(:, 2:) + model%north(:, :ny - 1)*x(:, :ny - 1)
   end subroutine multiply

   ! Depths that are linear in x and y remain so away from the coast; the coast and the corner of the grid do not move.
   subroutine test_refined_grid()
      integer, parameter :: nx = 21, ny = 17, factors(3) = [2, 3, 8]
      type(depth_grid) :: grid, fine
      real(dp) :: worst, moved, outside, point(2)
      integer :: i, j, k, a, b, c
      grid%nx = nx
      grid%ny = ny
      grid%cell = 8
      grid%x0 = 100
      grid%y0 = 200
      grid%depth = reshape([((linear(grid%center_of(i, j)), i=1, nx), j=1, ny)], [nx, ny])
      grid%depth(5, 6) = -3
      grid%depth(12:14, 9) = 0
      worst = 0
      moved = 0
      outside = 0
      do c = 1, size(factors)
         k = factors(c)
         fine = grid
         call refine_grid(fine, k, 0.3_dp)
         do j = 1, fine%ny
            do i = 1, fine%nx
               a = (i - 1)/k + 1
               b = (j - 1)/k + 1
               point = fine%center_of(i, j)
               if ((fine%depth(i, j) >= 0.3_dp) .neqv. (grid%depth(a, b) >= 0.3_dp)) moved = moved + 1
               if (grid%depth(a, b) < 0.3_dp) cycle
               outside = max(outside, abs(fine%depth(i, j) - linear(point)))
               if (a == 1 .or. a == nx .or. b == 1 .or. b == ny) cycle
               if (all(grid%depth(a - 1:a + 1, b - 1:b + 1) >= 0.3_dp)) &
                  worst = max(worst, abs(fine%depth(i, j) - linear(point)))
            end do
         end do
         point = abs(fine%center_of(fine%nx, fine%ny) + fine%cell/2 - grid%center_of(nx, ny) - grid%cell/2)
         moved = moved + merge(1, 0, maxval(point) > 1e-12_dp)
      end do
      ! Rounding of depths up to 13 m, eight operations.
      call report('refine', 'linear depths away from the coast', worst, 2e-14_dp)
      ! At the coast and the edge, the value is that of a cell at most half a cell away in each direction.
      call report('refine', 'change at the coast over that between two cells', outside/(0.02_dp*8 + 0.03_dp*8), 0.5_dp)
      call report('refine', 'cells whose coast moves', moved, 0.0_dp)
      call report('refine', 'factor 1, values that differ', &
                  maxval(abs(refined(grid%depth, grid%depth > 0, 1) - grid%depth)), 0.0_dp)
   end subroutine test_refined_grid

   pure real(dp) function linear(point)
      real(dp), intent(in) :: point(2)
      linear = 2 + 0.02_dp*(point(1) - 100) + 0.03_dp*(point(2) - 200)
   end function linear

   ! Constant depth: products of cosines are eigenvectors, S psi = (A M + A N (Kx^2 + Ky^2)) psi.
   subroutine test_manufactured_solve()
      integer, parameter :: nx = 96, ny = 71
      real(dp), parameter :: dx = 5, dy = 4, h = 12
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      real(dp) :: depth(nx, ny), exact(nx, ny), b(nx, ny), psi(nx, ny), hd, m, n, kx, ky, eigenvalue
      integer :: i, j, s
      depth = h
      call build_model(depth, dx, dy, 0.3_dp, profile_parabola, 0.0_dp, model)
      call profile_integrals(profile_parabola, h, 0.0_dp, hd, m, n)
      kx = 2/dx*sin(pi*7/(2*nx))
      ky = 2/dy*sin(pi*4/(2*ny))
      eigenvalue = dx*dy*(m + n*(kx**2 + ky**2))
      do j = 1, ny
         do i = 1, nx
            exact(i, j) = cos(pi*(i - 0.5_dp)*7/nx)*cos(pi*(j - 0.5_dp)*4/ny)
         end do
      end do
      b = eigenvalue*exact
      do s = 1, 2
         allocate (system)
         call setup_psi(system, model, solvers(s), 1e-12_dp, options_of_library())
         psi = 0
         call solve_psi(system, model, b, psi)
         call keep(psi)
         ! |error| <= |r|_2/lambda_min <= 1e-12 (eigenvalue/A M) |exact|_2, which is below 1e-12 * 1.3 * sqrt(nx ny)/2.
         call report('T5', trim(solver_name(s))//' error of the manufactured solution', maxval(abs(psi - exact)), 5e-11_dp)
         deallocate (system)
      end do
   end subroutine test_manufactured_solve

   ! A basin alone and the same basin in the middle of dry land.
   subroutine test_wet_and_dry()
      integer, parameter :: nx = 50, ny = 40, border = 7
      real(dp), parameter :: tolerance = 1e-10_dp
      type(wave_model) :: alone, surrounded
      type(psi_system), allocatable :: system
      real(dp) :: depth(nx, ny), b(nx, ny), psi(nx, ny)
      real(dp) :: wide_depth(nx + 2*border, ny + 2*border), wide_b(nx + 2*border, ny + 2*border)
      real(dp) :: wide_psi(nx + 2*border, ny + 2*border)
      real(dp) :: largest
      integer :: s, counts(2)

      call start_random(3)
      depth = random_depth(nx, ny, 1.0_dp, 20.0_dp)
      b = random_depth(nx, ny, -1.0_dp, 1.0_dp)
      wide_depth = -9999
      wide_b = 0
      wide_depth(border + 1:border + nx, border + 1:border + ny) = depth
      wide_b(border + 1:border + nx, border + 1:border + ny) = b
      call build_model(depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, alone)
      call build_model(wide_depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, surrounded)
      do s = 1, 2
         allocate (system)
         call setup_psi(system, alone, solvers(s), tolerance, options_of_library())
         psi = 0
         call solve_psi(system, alone, b, psi)
         call keep(psi)
         counts(1) = system%of_iccg%last_iterations
         deallocate (system)
         allocate (system)
         call setup_psi(system, surrounded, solvers(s), tolerance, options_of_library())
         wide_psi = 0
         call solve_psi(system, surrounded, wide_b, wide_psi)
         call keep(wide_psi)
         counts(2) = system%of_iccg%last_iterations
         deallocate (system)
         largest = maxval(abs(psi))
         psi = wide_psi(border + 1:border + nx, border + 1:border + ny) - psi
         wide_psi(border + 1:border + nx, border + 1:border + ny) = 0
         if (s == 1) then
            ! Identity rows change nothing in IC(0) or CG but the rounding of sums.
            call report('T6', 'ICCG psi in dry surroundings', maxval(abs(psi))/largest, 1e-14_dp)
            call report('T6', 'ICCG change of the iteration count', real(abs(counts(1) - counts(2)), dp), 0.0_dp)
         else
            ! A shift changes the RRB levels, so only the tolerance binds the two.
            call report('T6', 'RRB psi in dry surroundings', maxval(abs(psi))/largest, 10*tolerance)
         end if
         call report('T6', trim(solver_name(s))//' psi on land', maxval(abs(wide_psi)), 0.0_dp)
      end do
   end subroutine test_wet_and_dry

   ! A ship at rest, lowered slowly: the surface takes the shape -P_s/g under it.
   subroutine test_static_ship()
      integer, parameter :: n = 80
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      type(ship) :: vessel
      real(dp), allocatable :: pressure(:, :)
      integer :: s, box(4)

      grid%nx = n
      grid%ny = n
      grid%cell = 5
      allocate (grid%depth(n, n), source=10.0_dp)
      vessel%length = 90
      vessel%beam = 40
      vessel%draft = 1.5_dp
      vessel%speed = 0
      vessel%ramp = 40
      vessel%track = reshape([200.0_dp, 200.0_dp, 300.0_dp, 200.0_dp], [2, 2])
      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      do s = 1, 2
         allocate (system)
         call setup_psi(system, model, solvers(s), 1e-8_dp, options_of_library())
         call start_at_rest(state, model, half_time_step(model))
         call use_sponge(state, model, 15)
         if (allocated(pressure)) deallocate (pressure)
         allocate (pressure(n, n), source=0.0_dp)
         box = 1
         do while (state%step < run_length(ceiling(160/state%dt)))
            call place_ship(vessel, grid, model%wet, state%time, pressure, box)
            call advance(state, model, system, pressure)
         end do
         call keep(state%zeta)
         ! What the sponge has not yet taken of the waves of lowering: half a percent of the draft after 160 s.
         call report('T7', trim(solver_name(s))//' zeta under a ship at rest, error over draft', &
                     maxval(abs(state%zeta + pressure/gravity))/vessel%draft, 1e-2_dp)
         deallocate (system)
      end do
   end subroutine test_static_ship

   ! A hump in a square basin: with the sponge almost nothing is left after 80 s.
   subroutine test_sponge()
      integer, parameter :: n = 80
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      real(dp) :: depth(n, n), pressure(n, n), left(2)
      integer :: i, j, k, s

      depth = 10
      pressure = 0
      call build_model(depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      do s = 1, 2
         do k = 1, 2
            allocate (system)
            call setup_psi(system, model, solvers(s), 1e-8_dp, options_of_library())
            call start_at_rest(state, model, half_time_step(model))
            if (k == 1) call use_sponge(state, model, 15)
            do j = 1, n
               do i = 1, n
                  state%zeta(i, j) = exp(-(25.0_dp*(i - 40.5_dp)**2 + 25*(j - 40.5_dp)**2)/(2*20.0_dp**2))
               end do
            end do
            do while (state%step < run_length(ceiling(80/state%dt)))
               call advance(state, model, system, pressure)
            end do
            call keep(state%zeta)
            left(k) = maxval(abs(state%zeta))
            deallocate (system)
         end do
         ! The long waves of the hump pass a sponge of 75 m not quite without reflection; without it they all come back.
         call report('T7', trim(solver_name(s))//' hump of height 1 after 80 s, with sponge', left(1), 3e-2_dp)
         call report('T7', trim(solver_name(s))//' the same over that without sponge', left(1)/left(2), 0.2_dp)
      end do
   end subroutine test_sponge

   subroutine test_profiles()
      real(dp), parameter :: q(4) = [0.05_dp, 0.1_dp, 0.2_dp, 0.3_dp], h = 7
      real(dp) :: flat(3), curved(3), below(3), above(3), leading(3), worst, jump, k0
      integer :: k
      call profile_integrals(profile_parabola, h, 0.0_dp, flat(1), flat(2), flat(3))
      worst = 0
      do k = 1, size(q)
         call profile_integrals(profile_cosh, h, q(k)/h, curved(1), curved(2), curved(3))
         ! Towards the parabola as q^2/15, 2 q^2/15, q^2/7; the next terms are below q^4/15.
         leading = q(k)**2*[1/15.0_dp, 2/15.0_dp, 1/7.0_dp]
         worst = max(worst, maxval(abs(1 - curved/flat - leading))/q(k)**4)
      end do
      call report('T8', 'cosh profile against parabola, remainder over q^4', worst, 1/15.0_dp)
      ! Series and closed form meet at q = 0.2. The values differ by their slope (below 1 in relative terms) times 2e-10,
      ! and the closed form has lost 1e-16/(q^4/10) to cancellation.
      call profile_integrals(profile_cosh, h, (0.2_dp - 1e-10_dp)/h, below(1), below(2), below(3))
      call profile_integrals(profile_cosh, h, (0.2_dp + 1e-10_dp)/h, above(1), above(2), above(3))
      jump = maxval(abs(above/below - 1))
      call report('T8', 'series against closed form at q = 0.2', jump, 2e-10_dp)
      ! In deep water nothing overflows: hD = h/k0 - 1/k0^2, M = 1/(2 k0), N = (h - 3/(2 k0))/k0^2.
      call profile_integrals(profile_cosh, 5000.0_dp, 1.0_dp, curved(1), curved(2), curved(3))
      above = [4999.0_dp, 0.5_dp, 4998.5_dp]
      call report('T8', 'deep water, k0 h = 5000', maxval(abs(curved/above - 1)), 1e-14_dp)
      ! The cosh model is exact at k0: omega^2 = g k0 tanh(k0 h) = s^2, rounding times the cancellation in N.
      worst = 0
      do k = 1, 5
         k0 = characteristic_wave_number(1.0_dp, 4.0_dp*k)
         call profile_integrals(profile_cosh, 4.0_dp*k, k0, curved(1), curved(2), curved(3))
         worst = max(worst, abs(frequency_squared(4.0_dp*k, curved(1), curved(2), curved(3), k0**2) - 1))
      end do
      call report('T8', 'cosh model at its own wave number', worst, 1e-11_dp)
   end subroutine test_profiles

   ! White noise stays bounded just below dt = 2/omega_max and grows without bound just above.
   subroutine test_stability_limit()
      integer, parameter :: nx = 40, ny = 30, steps = 400
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      real(dp) :: depth(nx, ny), noise(nx, ny), pressure(nx, ny), growth(3), dt(3)
      integer :: k, n, s

      call start_random(4)
      noise = random_depth(nx, ny, -1.0_dp, 1.0_dp)
      depth = 10
      pressure = 0
      call build_model(depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      dt = [0.99_dp*2/model%omega_max, 1.02_dp*2/model%omega_max, safe_time_step(model)]
      do s = 1, 2
         do k = 1, 3
            allocate (system)
            call setup_psi(system, model, solvers(s), 1e-10_dp, options_of_library())
            call start_at_rest(state, model, dt(k))
            state%zeta = noise
            do n = 1, run_length(steps)
               call advance(state, model, system, pressure)
            end do
            call keep(state%zeta)
            growth(k) = maxval(abs(state%zeta))
            deallocate (system)
         end do
         ! At 0.99 a mode may grow by 1/sqrt(1 - 0.99^2) = 7; at 1.02 the shortest wave grows by exp(0.4) a step.
         call report('T8', trim(solver_name(s))//' growth of noise at 0.99 of the limit', growth(1), 20.0_dp)
         call report('T8', trim(solver_name(s))//' inverse of the growth at 1.02', 1/growth(2), 1e-30_dp)
         ! At dt omega_max = 1.4 a mode grows by at most 1/sqrt(1 - 0.7^2) = 1.4; the noise has modes of equal amplitude.
         call report('T8', trim(solver_name(s))//' growth of noise at the time step of the program', growth(3), 5.0_dp)
      end do
   end subroutine test_stability_limit

   ! The embedded harbour: both solvers give the same psi for a moving ship, and the automatic track stays in water.
   subroutine test_harbour()
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system(:)
      type(wave_state) :: state(2)
      type(ship) :: vessel
      real(dp), allocatable :: pressure(:, :)
      real(dp) :: apart
      logical :: found
      integer :: n, s, box(4)

      grid = synthetic_harbour()
      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      vessel%hull = hull_cosine
      call longest_straight_track(vessel, grid, 0.0_dp, found)
      call report('harbour', 'no place found for a ship at rest', merge(0.0_dp, 1.0_dp, found), 0.0_dp)
      call longest_straight_track(vessel, grid, 800.0_dp, found)
      call report('harbour', 'no track found', merge(0.0_dp, 1.0_dp, found), 0.0_dp)
      allocate (system(2))
      allocate (pressure(grid%nx, grid%ny), source=0.0_dp)
      do s = 1, 2
         call setup_psi(system(s), model, solvers(s), 1e-9_dp, '')
         call start_at_rest(state(s), model, half_time_step(model))
      end do
      box = 1
      do n = 1, 40
         call place_ship(vessel, grid, model%wet, state(1)%time, pressure, box)
         do s = 1, 2
            call advance(state(s), model, system(s), pressure)
         end do
      end do
      apart = maxval(abs(state(1)%zeta - state(2)%zeta))/maxval(abs(state(1)%zeta))
      ! Forty solves, each to 1e-9 in the residual; the condition number of the scaled matrix is below 40.
      call report('harbour', 'ICCG against RRB, zeta after 40 steps', apart, 1e-7_dp)
   end subroutine test_harbour

end program ship_waves_tests
