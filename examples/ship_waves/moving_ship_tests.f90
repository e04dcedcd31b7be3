! T9: a ship on a straight course against the spectral solution; and bitwise identical results for any number of threads.
module moving_ship_tests
   !$ use omp_lib, only: omp_get_max_threads, omp_set_num_threads
   use bathymetry, only: depth_grid
   use boussinesq, only: build_model, profile_parabola, wave_model
   use host, only: dp, gravity, text
   use psi_solver, only: psi_system, setup_psi, use_iccg, use_rrb
   use ship_pressure, only: hull_cosine, hull_gaussian, place_ship, ship
   use spectral_ship, only: spectral_elevation
   use test_report, only: in_short_runs, keep, options_of_library, random_depth, report, run_length, start_random
   use time_stepping, only: advance, safe_time_step, start_at_rest, use_current, use_sponge, wave_state
   implicit none
   private
   public :: test_moving_ship, test_threads, half_time_step

contains

   ! The simple rule sqrt(g h_max) dt/dx = 1/2.
   pure real(dp) function half_time_step(model) result(dt)
      type(wave_model), intent(in) :: model
      dt = min(model%dx, model%dy)/2/sqrt(gravity*maxval(model%h))
   end function half_time_step

   subroutine test_moving_ship()
      real(dp) :: coarse(2), fine(2), smooth(2), by_iccg
      integer :: k
      character(*), parameter :: step(2) = ['half the time step', 'the time step     ']
      ! The error is the phase of waves of 41 m behind the ship: with 10 cells per wave, (k dx)^2/24 = 1.6 % of 480 m, or a
      ! fifth of a wave at most. Half of dx must halve the error at least; the hull's corners, which are not of second
      ! order, prevent a quarter. Errors of time and space have opposite signs, so the larger time step has the smaller one.
      real(dp), parameter :: limit(2) = [0.25_dp, 0.1_dp]
      do k = 1, 2
         coarse(k) = error_of_wake(hull_cosine, 4.0_dp, k, use_rrb)
         fine(k) = error_of_wake(hull_cosine, 2.0_dp, k, use_rrb)
         smooth(k) = error_of_wake(hull_gaussian, 4.0_dp, k, use_rrb)
         call report('T9', 'RRB moving ship, dx = 4 m, '//trim(step(k))//', difference from the sum of cosines', coarse(k), &
                     limit(k))
         call report('T9', 'RRB the same, dx = 2 m', fine(k), limit(k)/2)
         call report('T9', 'RRB smooth hull, dx = 4 m', smooth(k), limit(k)/4)
      end do
      by_iccg = error_of_wake(hull_cosine, 4.0_dp, 2, use_iccg)
      call report('T9', 'ICCG moving ship, dx = 4 m, change of the difference', abs(by_iccg - coarse(2)), 1e-4_dp)
   end subroutine test_moving_ship

   ! Relative difference of zeta in the norm L2, 60 s after the start. step: 1 half the time step, 2 the time step.
   real(dp) function error_of_wake(hull, dx, step, solver) result(error)
      integer, intent(in) :: hull, step, solver
      real(dp), intent(in) :: dx
      real(dp), parameter :: width = 1024, height = 640, depth = 12, x0 = 250, duration = 60
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      type(ship) :: vessel
      real(dp), allocatable :: pressure(:, :), exact(:, :)
      real(dp) :: dt
      integer :: n, box(4)

      grid%nx = nint(width/dx)
      grid%ny = nint(height/dx)
      grid%cell = dx
      allocate (grid%depth(grid%nx, grid%ny), source=depth)
      allocate (pressure(grid%nx, grid%ny), source=0.0_dp)
      vessel%length = 90
      vessel%beam = 40
      vessel%draft = 1.5_dp
      vessel%speed = 8
      vessel%hull = hull
      vessel%track = reshape([x0, height/2, x0 + 1e4_dp, height/2], [2, 2])
      call build_model(grid%depth, dx, dx, 0.3_dp, profile_parabola, 0.0_dp, model)
      dt = half_time_step(model)
      if (step == 2) dt = safe_time_step(model)
      allocate (system)
      call setup_psi(system, model, solver, 1e-8_dp, options_of_library())
      call start_at_rest(state, model, dt)
      box = 1
      do n = 1, run_length(nint(duration/dt))
         call place_ship(vessel, grid, model%wet, merge(dt/4, state%time, n == 1), pressure, box)
         call advance(state, model, system, pressure)
      end do
      call keep(state%zeta)
      error = 0
      if (in_short_runs()) return
      exact = spectral_elevation(vessel, grid%nx, grid%ny, dx, depth, x0, state%time)
      error = norm2(state%zeta - exact)/norm2(exact)
   end function error_of_wake

   ! A random sea bed with islands, a sponge and a ship, without and with a current: the elevations with 2, 3 and 7 threads
   ! are bitwise those with one.
   subroutine test_threads()
      integer, parameter :: threads(4) = [1, 2, 3, 7]
      real(dp), allocatable :: zeta(:, :, :), one(:, :, :)
      integer :: k, before
      before = 1
      allocate (one(0, 0, 0))
      !$ before = omp_get_max_threads()
      do k = 1, size(threads)
         !$ call omp_set_num_threads(threads(k))
         zeta = random_sea('threads='//text(threads(k)))
         if (k == 1) one = zeta
         call report('threads', text(threads(k))//' threads, cells that differ from one thread', &
                     real(count(transfer(zeta, [0_8]) /= transfer(one, [0_8])), dp), 0.0_dp)
      end do
      call report('threads', '- highest wave of either', -minval(maxval(maxval(abs(one), 1), 1)), -0.1_dp)
      !$ call omp_set_num_threads(before)
   end subroutine test_threads

   function random_sea(options) result(zeta)
      character(*), intent(in) :: options
      integer, parameter :: nx = 601, ny = 90, steps = 60
      real(dp), allocatable :: zeta(:, :, :)
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      type(ship) :: vessel
      real(dp) :: pressure(nx, ny)
      integer :: k, n, box(4)

      call start_random(7)
      grid%nx = nx
      grid%ny = ny
      grid%cell = 5
      grid%depth = random_depth(nx, ny, 4.0_dp, 9.0_dp)
      where (random_depth(nx, ny, 0.0_dp, 1.0_dp) < 0.02_dp) grid%depth = -1
      vessel%track = reshape([500.0_dp, 225.0_dp, 1500.0_dp, 225.0_dp], [2, 2])
      call build_model(grid%depth, 5.0_dp, 5.0_dp, 0.3_dp, profile_parabola, 0.0_dp, model)
      allocate (zeta(nx, ny, 2))
      do k = 1, 2
         allocate (system)
         call setup_psi(system, model, use_rrb, 1e-8_dp, options)
         call start_at_rest(state, model, safe_time_step(model))
         call use_sponge(state, model, 10)
         if (k == 2) call use_current(state, model, random_depth(nx, ny, -1.0_dp, 1.0_dp), &
                                      random_depth(nx, ny, -1.0_dp, 1.0_dp))
         pressure = 0
         box = 1
         do n = 1, steps
            call place_ship(vessel, grid, model%wet, state%time, pressure, box)
            call advance(state, model, system, pressure)
         end do
         zeta(:, :, k) = state%zeta
         deallocate (system)
      end do
   end function random_sea

end module moving_ship_tests
