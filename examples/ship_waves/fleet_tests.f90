! Tests of several ships: sum of pressures, wave resistance against the energy of the waves, Nomoto model, grounding.
module fleet_tests
   use bathymetry, only: depth_grid
   use boussinesq, only: build_model, profile_parabola, wave_model
   use fleet, only: fleet_ship, moored, on_track, place_fleet, sail, steered
   use fleet_file, only: read_ships
   use host, only: delete_file, dp, gravity, pi
   use moving_ship_tests, only: half_time_step
   use psi_solver, only: psi_system, setup_psi, use_rrb
   use ship_pressure, only: hull_gaussian, place_ship, ship
   use test_report, only: report
   use time_stepping, only: advance, energy, start_at_rest, wave_state
   implicit none
   private
   public :: test_wave_resistance, test_steering, test_sum_of_ships, test_ships_file

contains

   function flat_sea(nx, ny, cell, depth) result(grid)
      integer, intent(in) :: nx, ny
      real(dp), intent(in) :: cell, depth
      type(depth_grid) :: grid
      grid%nx = nx
      grid%ny = ny
      grid%cell = cell
      allocate (grid%depth(nx, ny), source=depth)
   end function flat_sea

   ! The force that the ship exerts on the water does the work V F per second, which becomes energy of the waves.
   ! Force and energy: means and slope from 35 to 70 s. Differences: the slope of zeta by differences over 2 dx.
   subroutine test_wave_resistance()
      call report('forces', 'wave resistance against energy, dx = 5 m', abs(1 - resistance_ratio(5.0_dp)), 0.07_dp)
      call report('forces', 'wave resistance against energy, dx = 4 m', abs(1 - resistance_ratio(4.0_dp)), 0.03_dp)
   end subroutine test_wave_resistance

   ! Mean force over density / (dH/dt / V)
   real(dp) function resistance_ratio(dx) result(ratio)
      real(dp), intent(in) :: dx
      real(dp), parameter :: speed = 8, depth = 12, from = 35, to = 70, density = 1000
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state
      type(fleet_ship) :: ships(1)
      real(dp), allocatable :: pressure(:, :), zeta(:, :), phi(:, :)
      real(dp) :: force, t, h, sums(4), drag
      integer :: used

      grid = flat_sea(nint(1300/dx), nint(560/dx), dx, depth)
      ships(1)%hull = ship(length=90, beam=40, draft=1.5_dp, speed=speed, &
                           track=reshape([250.0_dp, 280.0_dp, 1250.0_dp, 280.0_dp], [2, 2]))
      call build_model(grid%depth, dx, dx, 0.3_dp, profile_parabola, 0.0_dp, model)
      allocate (system)
      call setup_psi(system, model, use_rrb, 1e-8_dp, '')
      call start_at_rest(state, model, half_time_step(model))
      allocate (pressure(grid%nx, grid%ny), source=0.0_dp)
      sums = 0
      drag = 0
      used = 0
      do while (state%time < to)
         t = state%time
         call place_fleet(ships, grid, model%wet, merge(state%dt/4, t, state%step == 0), state%zeta, pressure)
         zeta = state%zeta
         phi = state%phi
         call advance(state, model, system, pressure)
         if (t < from) cycle
         h = energy(state, model, zeta, phi)
         used = used + 1
         sums = sums + [t, h, t**2, t*h]
         drag = drag - ships(1)%force(1)
      end do
      force = (used*sums(4) - sums(1)*sums(2))/(used*sums(3) - sums(1)**2)/speed
      ratio = drag/used/density/force
   end function resistance_ratio

   ! Constant rudder: r = K delta (1 - exp(-t/T)), psi = K delta (t - T (1 - exp(-t/T))); later a circle of radius V/r.
   subroutine test_steering()
      type(depth_grid) :: grid
      type(fleet_ship) :: ships(3)
      real(dp) :: exact, time, farthest, center(2), radius
      real(dp), parameter :: dt = 0.25_dp, angle = 20*pi/180
      integer :: n

      grid = flat_sea(1000, 400, 5.0_dp, 10.0_dp)
      grid%depth(600:, :) = 0.5_dp             ! shoal from x = 2995 m
      ships%motion = steered
      do n = 1, 3
         ships(n)%position = [1500.4_dp, 1000.0_dp]
         ships(n)%hull%speed = 6
      end do
      ships(1)%rudder = reshape([0.0_dp, angle], [2, 1])
      ships(2)%heading = pi/2                  ! east, onto the shoal
      ships(3)%motion = moored
      time = 0
      farthest = 0
      do n = 1, 4*400
         call sail(ships, grid, 0.3_dp, time, dt)
         time = time + dt
         exact = ships(1)%gain*angle*(time - ships(1)%time_constant*(1 - exp(-time/ships(1)%time_constant)))
         farthest = max(farthest, abs(ships(1)%heading - exact))
      end do
      call report('ships', 'heading of the Nomoto model, constant rudder', farthest, 1e-12_dp)
      radius = ships(1)%hull%speed/(ships(1)%gain*angle)
      ! The center is to starboard of the bow.
      center = ships(1)%position + radius*[cos(ships(1)%heading), -sin(ships(1)%heading)]
      do n = 1, 4*100
         call sail(ships, grid, 0.3_dp, time, dt)
         time = time + dt
      end do
      ! 50 time constants after the rudder. A chord of length V dt differs from its arc by (r dt)^2/24 = 8e-7.
      call report('ships', 'radius of the circle', abs(norm2(ships(1)%position - center)/radius - 1), 1e-5_dp)
      call report('ships', 'ship on the shoal: not aground', merge(0.0_dp, 1.0_dp, ships(2)%aground), 0.0_dp)
      ! It stops in the first step in which its bow is over the shoal.
      call report('ships', 'distance of its bow from the shoal', &
                  abs(ships(2)%position(1) + ships(2)%hull%length/2 - 2995 - 6*dt/2), 6*dt/2 + 1e-9_dp)
      call report('ships', 'way of the moored ship', norm2(ships(3)%position - [1500.4_dp, 1000.0_dp]), 0.0_dp)
   end subroutine test_steering

   ! Every key of a ships file, with comments, tabs, blank lines and repeated points.
   subroutine test_ships_file()
      character(*), parameter :: name = 'ships_of_test.txt', tab = achar(9)
      type(fleet_ship), allocatable :: ships(:)
      logical :: same
      integer :: unit
      open (newunit=unit, file=name, status='replace', action='write')
      write (unit, '(a)') '# two ships', 'ship'//tab//'first', ' track 1,2 1,2 3,4   5,6 # three points', 'speed 7', &
         '', 'ship second one', 'motion steered', 'length 50', 'beam 10', 'draft 2.5', 'hull gaussian', 'speed 3', &
         'position -8,9', 'heading 90', 'rudder 0,0 10,-18', 'gain 0.1', 'time_constant 15'
      close (unit)
      allocate (ships, source=read_ships(name))
      call delete_file(name)
      same = size(ships) == 2
      if (same) then
         associate (a => ships(1), b => ships(2))
            same = a%name == 'first' .and. a%motion == on_track .and. size(a%hull%track, 2) == 3 .and. &
                   all(abs(a%hull%track - reshape([1, 2, 3, 4, 5, 6], [2, 3])) <= 0) .and. abs(a%hull%speed - 7) <= 0 &
                   .and. b%name == 'second one' .and. b%motion == steered .and. b%hull%hull == hull_gaussian .and. &
                   all(abs([b%hull%length, b%hull%beam, b%hull%draft, b%hull%speed, b%gain, b%time_constant] &
                           - [50.0_dp, 10.0_dp, 2.5_dp, 3.0_dp, 0.1_dp, 15.0_dp]) <= 0) .and. &
                   all(abs(b%position - [-8, 9]) <= 0) .and. abs(b%heading - pi/2) < 1e-15_dp .and. &
                   all(abs(b%rudder - reshape([0.0_dp, 0.0_dp, 10.0_dp, -pi/10], [2, 2])) < 1e-15_dp)
         end associate
      end if
      call report('ships', 'file of ships: values that differ', merge(0.0_dp, 1.0_dp, same), 0.0_dp)
   end subroutine test_ships_file

   ! Two ships: the sum of both pressures, also where they overlap; nothing remains where they were.
   subroutine test_sum_of_ships()
      type(depth_grid) :: grid
      type(fleet_ship) :: ships(2)
      real(dp), allocatable :: pressure(:, :), one(:, :), two(:, :), zeta(:, :)
      logical, allocatable :: wet(:, :)
      integer :: n, box(4)
      grid = flat_sea(200, 100, 5.0_dp, 10.0_dp)
      allocate (pressure(200, 100), one(200, 100), two(200, 100), zeta(200, 100), source=0.0_dp)
      allocate (wet(200, 100), source=.true.)
      ships(1)%hull%track = reshape([200.0_dp, 250.0_dp, 900.0_dp, 250.0_dp], [2, 2])
      ships(2)%hull%track = reshape([900.0_dp, 260.0_dp, 200.0_dp, 260.0_dp], [2, 2])
      ships%motion = on_track
      do n = 0, 45
         call place_fleet(ships, grid, wet, real(n, dp), zeta, pressure)
      end do
      box = 1
      call place_ship(ships(1)%hull, grid, wet, 45.0_dp, one, box)
      box = 1
      call place_ship(ships(2)%hull, grid, wet, 45.0_dp, two, box)
      ! The heading as an angle and back: rounding of a unit vector, times the slope of the hull, times 100 m.
      call report('ships', 'pressure of two ships', maxval(abs(pressure - one - two))/gravity, 1e-12_dp)
      call report('ships', '- overlap of the ships', -minval([maxval(min(one, two))]), -1.0_dp)
   end subroutine test_sum_of_ships

end module fleet_tests
