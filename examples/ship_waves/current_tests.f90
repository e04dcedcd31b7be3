! Tests of the scheme with a current: frequency of a wave packet, one step of a plane wave, conservation of H, work.
module current_tests
   use bathymetry, only: depth_grid
   use boussinesq, only: build_model, frequency_squared, profile_integrals, profile_parabola, wave_model
   use host, only: dp, gravity, pi, text
   use moving_ship_tests, only: half_time_step
   use potential_flow, only: flow_between
   use psi_solver, only: psi_system, setup_psi, use_rrb
   use ship_pressure, only: place_ship, ship
   use test_report, only: random_depth, report, start_random
   use time_stepping, only: advance, energy, safe_time_step, start_at_rest, use_current, wave_state
   implicit none
   private
   public :: test_wave_packet, test_energy_in_current, test_work_of_ship, test_limit_of_speeds, test_fast_currents, test_flow

   integer, parameter :: converged = 80      ! sweeps: the contraction is below 0.6, so the error is at the rounding level

contains

   ! A plane wave exp(i (k x - omega t)) in the middle of a closed channel, tapered towards the ends. It is an exact
   ! solution of the scheme with
   !    omega = (2/dt) (asin(dt sigma/(2 sqrt(1 + c^2/4))) + atan(c/2)),   c = U dt sin(k dx)/dx,
   ! sigma from the dispersion relation at K = (2/dx) sin(k dx/2), as long as no wave arrives from the taper.
   subroutine test_wave_packet()
      integer, parameter :: nx = 1600, ny = 3, steps = 100, half = 90, middle = nx/2
      real(dp), parameter :: speed(4) = [2.0_dp, -2.0_dp, 3.5_dp, -3.5_dp], wave_length(2) = [60, 100], dx = 5, h = 10
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state), allocatable :: state
      real(dp) :: depth(nx, ny), pressure(nx, ny), u(nx, ny), v(nx, ny), window(-half:half - 1), taper(nx)
      real(dp) :: k, sigma, c, omega, hd, m, n, by_phase, worst_frequency, worst_step
      complex(dp) :: carrier(nx), phi, amplitude(0:steps)
      integer :: i, s, w, step

      depth = h
      pressure = 0
      v = 0
      call build_model(depth, dx, dx, 0.3_dp, profile_parabola, 0.0_dp, model)
      call profile_integrals(profile_parabola, h, 0.0_dp, hd, m, n)
      taper = [(max(0.0_dp, min(1.0_dp, (600 - abs(i - middle - 0.5_dp))/200)), i=1, nx)]
      taper = sin(pi/2*taper)**2
      ! 180 cells are 15 or 9 waves: the sum over the window removes exp(-i k x).
      window = [(cos(pi/2*(i + 0.5_dp)/half)**2, i=-half, half - 1)]
      worst_frequency = 0
      worst_step = 0
      do w = 1, size(wave_length)
         k = 2*pi/wave_length(w)
         sigma = sqrt(frequency_squared(h, hd, m, n, (2/dx*sin(k*dx/2))**2))
         carrier = [(exp(cmplx(0, k*(i - 0.5_dp)*dx, dp)), i=1, nx)]
         do s = 1, size(speed)
            allocate (system, state)
            call setup_psi(system, model, use_rrb, 1e-14_dp, '')
            call start_at_rest(state, model, safe_time_step(model))
            u = speed(s)
            call use_current(state, model, u, v)
            state%current%sweeps = converged
            c = speed(s)*state%dt*sin(k*dx)/dx
            omega = 2/state%dt*(asin(state%dt*sigma/(2*sqrt(1 + c**2/4))) + atan(c/2))
            ! phi^(-1/2) of the wave with zeta^0 = exp(i k x), from the momentum equation.
            phi = -state%dt*gravity/(cmplx(1, c/2, dp)*exp(cmplx(0, -omega*state%dt, dp)) - cmplx(1, -c/2, dp))
            state%zeta = spread(taper*real(carrier), 2, ny)
            state%phi = spread(taper*real(phi*carrier), 2, ny)
            state%step = 1            ! a whole step: phi is at t - dt/2
            do step = 0, steps
               amplitude(step) = sum(window*state%zeta(middle - half + 1:middle + half, 2) &
                                     *conjg(carrier(middle - half + 1:middle + half)))
               if (step == 1) worst_step = max(worst_step, &
                  maxval(abs(state%zeta(middle - half + 1:middle + half, 2) &
                             - real(carrier(middle - half + 1:middle + half)*exp(cmplx(0, -omega*state%dt, dp))))))
               if (step < steps) call advance(state, model, system, pressure)
            end do
            by_phase = 0
            do step = 1, steps
               by_phase = by_phase - aimag(log(amplitude(step)/amplitude(step - 1)))/(steps*state%dt)
            end do
            worst_frequency = max(worst_frequency, abs(by_phase/omega - 1))
            deallocate (system, state)
         end do
      end do
      call report('current', 'frequency of a wave packet against the Doppler formula, 8 cases', worst_frequency, 1e-12_dp)
      call report('current', 'one step of a plane wave', worst_step, 1e-12_dp)
   end subroutine test_wave_packet

   ! H is constant for any sea bed and any current: to rounding with converged sweeps, to their error otherwise.
   subroutine test_energy_in_current()
      integer, parameter :: nx = 40, ny = 30, steps = 6000
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state), allocatable :: state
      real(dp) :: pressure(nx, ny), u(nx, ny), v(nx, ny), depth(nx, ny), zeta(nx, ny), phi(nx, ny)
      real(dp) :: e, first, drift(2), mass, mass_before, lost
      integer :: i, k, step

      call start_random(8)
      depth = random_depth(nx, ny, 0.5_dp, 6.0_dp)
      depth(20:24, 10:13) = -1
      u = random_depth(nx, ny, -2.0_dp, 2.0_dp)
      v = random_depth(nx, ny, -2.0_dp, 2.0_dp)
      pressure = 0
      call build_model(depth, 5.0_dp, 4.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      lost = 0
      do k = 1, 2
         allocate (system, state)
         call setup_psi(system, model, use_rrb, 1e-14_dp, '')
         call start_at_rest(state, model, safe_time_step(model))
         call use_current(state, model, u, v)
         if (k == 1) state%current%sweeps = converged
         do i = 1, nx
            where (model%wet(i, :)) state%zeta(i, :) = exp(-(i - 10)**2/20.0_dp)
         end do
         mass_before = sum(state%zeta)
         first = 0
         drift(k) = 0
         do step = 1, steps
            zeta = state%zeta
            phi = state%phi
            call advance(state, model, system, pressure)
            if (step == 1) cycle      ! the first half step has no phi^(n-1/2)
            e = energy(state, model, zeta, phi)
            if (step == 2) first = e
            drift(k) = max(drift(k), abs(e/first - 1))
         end do
         mass = sum(state%zeta)
         lost = max(lost, abs(mass - mass_before)/sum(abs(state%zeta)))
         deallocate (system, state)
      end do
      call report('current', 'drift of H in 6000 steps, converged sweeps', drift(1), 1e-12_dp)
      call report('current', 'drift of H in 6000 steps, sweeps of the program', drift(2), 5e-4_dp)
      ! Fluxes cancel in pairs, in each sweep.
      call report('current', 'change of the mass in 6000 steps', lost, 1e-13_dp)
   end subroutine test_energy_in_current

   ! H^(n+1) - H^n + A (zeta^(n+1) - zeta^n) . (P^n + P^(n+1))/2 = 0: the change of H is the work of the ship's pressure.
   subroutine test_work_of_ship()
      integer, parameter :: nx = 120, ny = 60, steps = 80
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      type(ship) :: vessel
      real(dp) :: pressure(nx, ny), old_pressure(nx, ny), zeta(nx, ny), old_zeta(nx, ny), phi(nx, ny), u(nx, ny), v(nx, ny)
      real(dp) :: h, old_h, worst, largest
      integer :: n, box(4)

      call start_random(9)
      grid%nx = nx
      grid%ny = ny
      grid%cell = 5
      grid%depth = random_depth(nx, ny, 3.0_dp, 8.0_dp)
      u = random_depth(nx, ny, -1.0_dp, 1.0_dp)
      v = random_depth(nx, ny, -1.0_dp, 1.0_dp)
      vessel%track = reshape([150.0_dp, 150.0_dp, 450.0_dp, 170.0_dp], [2, 2])
      call build_model(grid%depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      allocate (system)
      call setup_psi(system, model, use_rrb, 1e-14_dp, '')
      call start_at_rest(state, model, half_time_step(model))
      call use_current(state, model, u, v)
      state%current%sweeps = converged
      pressure = 0
      old_zeta = 0
      old_pressure = 0
      old_h = 0
      box = 1
      worst = 0
      largest = 0
      do n = 1, steps
         call place_ship(vessel, grid, model%wet, state%time, pressure, box)
         zeta = state%zeta
         phi = state%phi
         call advance(state, model, system, pressure)
         h = energy(state, model, zeta, phi)
         largest = max(largest, abs(h))
         if (n > 2) worst = max(worst, abs(h - old_h + model%area*sum((zeta - old_zeta)*(old_pressure + pressure))/2))
         old_h = h
         old_zeta = zeta
         old_pressure = pressure
      end do
      call report('current', 'change of H minus work of the ship, over the largest H', worst/largest, 1e-12_dp)
   end subroutine test_work_of_ship

   ! One cell with 100 m/s in water at rest: its two faces have 50 m/s, r = U/s with s = sqrt(g h/6), and they become 0.9 s.
   subroutine test_limit_of_speeds()
      integer, parameter :: nx = 30, ny = 20
      type(wave_model) :: model
      type(wave_state) :: state
      real(dp) :: depth(nx, ny), u(nx, ny), v(nx, ny), most
      depth = 3
      u = 0
      u(10, 5) = 100
      v = 0
      call build_model(depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      call start_at_rest(state, model, safe_time_step(model))
      call use_current(state, model, u, v)
      most = 0.9_dp*sqrt(gravity*3/6)
      call report('current', 'reduced faces, minus 2', abs(real(state%current%limited - 2, dp)), 0.0_dp)
      call report('current', 'largest face speed against the limit', &
                  abs(maxval(state%current%east)*4*5/state%dt/most - 1), 1e-14_dp)
      call report('current', 'fastest face speed before the limit', abs(state%current%fastest - 50), 1e-14_dp)
   end subroutine test_limit_of_speeds

   ! Currents far above the limit: against the direction of the neighbouring row or column, and random. If each face speed
   ! alone were limited to 0.9 s, the waves in the random current would grow without bound.
   ! H stays constant and bounds the waves: with r <= 0.9 and dt omega_max <= 1.4,
   !    sqrt(A g/2) |zeta| <= (1/sqrt(1 - 0.7^2) + 0.9/sqrt(1 - 0.9^2)) sqrt(H) = 3.5 sqrt(H).
   subroutine test_fast_currents()
      integer, parameter :: nx = 40, ny = 30, steps = 600
      character(*), parameter :: name(2) = ['alternating', 'random     ']
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state), allocatable :: state
      real(dp), dimension(nx, ny) :: pressure, u, v, depth, zeta, phi
      real(dp) :: h, first, drift, largest
      integer :: i, j, k, step

      depth = 10
      pressure = 0
      call build_model(depth, 2.0_dp, 2.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      do k = 1, size(name)
         call start_random(10)
         if (k == 1) then
            u = spread([(20*(-1)**j, j=1, ny)], 1, nx)
            v = spread([(20*(-1)**i, i=1, nx)], 2, ny)
         else
            u = random_depth(nx, ny, -100.0_dp, 100.0_dp)
            v = random_depth(nx, ny, -100.0_dp, 100.0_dp)
         end if
         allocate (system, state)
         call setup_psi(system, model, use_rrb, 1e-12_dp, '')
         call start_at_rest(state, model, safe_time_step(model))
         call use_current(state, model, u, v)
         state%current%sweeps = converged
         state%zeta = random_depth(nx, ny, -1.0_dp, 1.0_dp)
         largest = 0
         drift = 0
         first = 0
         do step = 1, steps
            zeta = state%zeta
            phi = state%phi
            call advance(state, model, system, pressure)
            if (step == 1) cycle      ! the first half step has no phi^(n-1/2)
            h = energy(state, model, zeta, phi)
            if (step == 2) first = h
            drift = max(drift, abs(h/first - 1))
            largest = max(largest, sqrt(model%area*gravity/2)*norm2(zeta)/sqrt(first))
         end do
         ! Each solve leaves 1e-12 of the potential energy.
         call report('current', trim(name(k))//' and fast: drift of H in '//text(steps)//' steps', drift, 1e-9_dp)
         call report('current', trim(name(k))//' and fast: largest norm of zeta over sqrt(H)', largest, 3.5_dp)
         deallocate (system, state)
      end do
   end subroutine test_fast_currents

   ! A channel with a step of the depth: far from the ends and the step, u = Q/(width h) and v = 0. The deviations decay by
   ! exp(-pi/8) per cell of the 8 cells across. At a step, the mean of the fluxes is Q too.
   subroutine test_flow()
      integer, parameter :: nx = 400, ny = 8
      type(depth_grid) :: grid
      type(wave_model) :: model
      real(dp), allocatable :: u(:, :), v(:, :)
      real(dp) :: worst
      integer :: i
      grid%nx = nx
      grid%ny = ny
      grid%cell = 5
      grid%depth = spread([(merge(4.0_dp, 9.0_dp, i <= nx/2), i=1, nx)], 2, ny)
      call build_model(grid%depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      call flow_between(model, grid, reshape([50.0_dp, 20.0_dp, 1950.0_dp, 20.0_dp], [2, 2]), 120.0_dp, u, v)
      worst = 0
      do i = 100, nx - 100
         worst = max(worst, maxval(abs(u(i, :)*grid%depth(i, :)*40/120 - 1)), maxval(abs(v(i, :)*grid%depth(i, :)*40/120)))
      end do
      ! The residual is below 1e-8 of the sources. A flux is a sum of residuals over up to 400 columns.
      call report('current', 'potential flow in a channel', worst, 1e-6_dp)
   end subroutine test_flow

end module current_tests
