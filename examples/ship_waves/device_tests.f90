! Tests of waves_on_device.cu: the same steps by the Fortran loops and by the code for devices.
! usage: ship_waves_device_tests host      for the code compiled for the host, and solves on the CPU
!        ship_waves_device_tests 0         for CUDA device 0; exit code 77 without such a device
program ship_waves_device_tests
   use, intrinsic :: iso_fortran_env, only: int16
   use bathymetry, only: depth_grid, synthetic_harbour
   use boussinesq, only: build_model, profile_parabola, wave_model
   use device_waves, only: of_phi, of_pressure, of_psi, of_rhs, of_zeta, waves_on_device
   use fleet, only: fleet_ship, moored, place_fleet
   use host, only: dp, text
   use psi_solver, only: psi_system, setup_psi, use_iccg, use_rrb
   use ship_pressure, only: hull_gaussian, ship
   use test_report, only: failed_tests, random, random_depth, report, start_random
   use time_stepping, only: advance, energy, extrapolation, safe_time_step, start_at_rest, use_current, use_sponge, wave_state
   implicit none

   real(dp), parameter :: unit = 0.25e-3_dp      ! m of an elevation in a frame
   character(8) :: word
   logical :: on_host
   integer :: device, status

   call get_command_argument(1, word)
   on_host = word == 'host'
   device = 0
   if (.not. on_host) then
      read (word, *, iostat=status) device
      if (status /= 0) error stop 'usage: ship_waves_device_tests host or ship_waves_device_tests DEVICE'
   end if

   call start_random(1234)
   call test_awkward_grids()
   call test_ships()
   call test_frames()
   call test_blow_up()
   call test_harbour(with_current=.false.)
   call test_harbour(with_current=.true.)
   if (failed_tests() > 0) error stop 1

contains

   subroutine open_device(waves, grid, model, state)
      type(waves_on_device), intent(inout) :: waves
      type(depth_grid), intent(in) :: grid
      type(wave_model), intent(in) :: model
      type(wave_state), intent(inout) :: state
      character(:), allocatable :: problem
      call waves%open(device, grid, model, state, problem)
      if (problem == '') return
      write (*, '(a)') 'skipped: '//problem
      stop 77, quiet=.true.
   end subroutine open_device

   function fetched(waves, field) result(values)
      type(waves_on_device), intent(in) :: waves
      integer, intent(in) :: field
      real(dp) :: values(waves%nx, waves%ny)
      call waves%fetch(field, values)
   end function fetched

   ! A value in (-1, 1) in each wet cell.
   function noise(model) result(values)
      type(wave_model), intent(in) :: model
      real(dp) :: values(model%nx, model%ny)
      values = merge(random_depth(model%nx, model%ny, -1.0_dp, 1.0_dp), 0.0_dp, model%wet)
   end function noise

   ! Water of random depth with random land. The cell at the corner is wet.
   function random_sea(nx, ny, land) result(grid)
      integer, intent(in) :: nx, ny
      real(dp), intent(in) :: land
      type(depth_grid) :: grid
      integer :: i, j
      grid%nx = nx
      grid%ny = ny
      grid%cell = 5
      allocate (grid%depth(nx, ny))
      grid%depth(:, :) = random_depth(nx, ny, 0.5_dp, 6.0_dp)
      do j = 1, ny
         do i = 1, nx
            if (random() < land .and. i + j > 2) grid%depth(i, j) = -1
         end do
      end do
   end function random_sea

   subroutine test_awkward_grids()
      integer, parameter :: grids = 10
      integer, parameter :: nx(grids) = [1, 1, 9, 2, 33, 64, 257, 300, 300, 513]
      integer, parameter :: ny(grids) = [1, 7, 1, 2, 5, 3, 4, 70, 70, 37]
      real(dp), parameter :: land(grids) = [0.0_dp, 0.2_dp, 0.2_dp, 0.0_dp, 0.1_dp, 0.9_dp, 0.0_dp, 0.3_dp, 0.02_dp, 0.02_dp]
      type(depth_grid) :: grid
      character(:), allocatable :: what
      real(dp) :: difference, of_energy, of_highest
      integer :: k
      do k = 1, grids
         grid = random_sea(nx(k), ny(k), land(k))
         what = text(nx(k))//' x '//text(ny(k))
         difference = 0
         of_energy = 0
         of_highest = 0
         call compare_steps(grid, .false., .false., difference, of_energy, of_highest)
         call compare_steps(grid, .true., .false., difference, of_energy, of_highest)
         call compare_steps(grid, .false., .true., difference, of_energy, of_highest)
         call compare_steps(grid, .true., .true., difference, of_energy, of_highest)
         call report('device', what//', bits of 6 steps with and without sponge and current', difference, 0.0_dp)
         ! The sums of both programs have other shapes.
         call report('device', what//', energy', of_energy, 1e-12_dp)
         call report('device', what//', highest wave', of_highest, 0.0_dp)
      end do
   end subroutine test_awkward_grids

   ! Six steps from noise, so that the guess extrapolates from all four solutions. The code for devices gets the solutions of
   ! the Fortran steps; all other values must be bitwise identical.
   subroutine compare_steps(grid, sponge, current, difference, of_energy, of_highest)
      type(depth_grid), intent(in) :: grid
      logical, intent(in) :: sponge, current
      real(dp), intent(inout) :: difference, of_energy, of_highest      ! largest ones so far
      type(wave_model) :: model
      type(psi_system), allocatable :: system
      type(wave_state) :: state, of_device
      type(waves_on_device) :: waves
      real(dp), allocatable :: pressure(:, :), u(:, :), v(:, :), guess(:, :), zeta(:, :), phi(:, :), f(:)
      integer :: n, at(4), k

      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      allocate (system)
      call setup_psi(system, model, use_iccg, 1e-8_dp, '')
      call start_at_rest(state, model, safe_time_step(model))
      if (current) then
         u = 0.4_dp*noise(model)
         v = 0.4_dp*noise(model)
         call use_current(state, model, u, v)
      end if
      if (sponge) call use_sponge(state, model, 3)
      of_device = state
      call open_device(waves, grid, model, of_device)
      state%zeta = noise(model)
      state%phi = noise(model)
      call waves%store(of_zeta, state%zeta)
      call waves%store(of_phi, state%phi)
      allocate (guess, mold=state%zeta)
      do n = 0, 5
         pressure = noise(model)
         call waves%store(of_pressure, pressure)
         zeta = state%zeta
         phi = state%phi
         f = extrapolation(state%step)
         at = [(modulo(state%newest - k, 4) + 1, k=1, 4)]
         guess = f(1)*state%psi(:, :, at(1)) + f(2)*state%psi(:, :, at(2)) + f(3)*state%psi(:, :, at(3)) &
                 + f(4)*state%psi(:, :, at(4))
         call advance(state, model, system, pressure)
         call waves%remember()
         call waves%begin_step(of_device)
         difference = max(difference, largest(guess - fetched(waves, of_psi)))
         if (.not. current) difference = max(difference, largest(state%rhs - fetched(waves, of_rhs)))
         call waves%store(of_psi, state%psi(:, :, state%newest))
         call waves%after_solve(of_device)
         difference = max(difference, largest(state%zeta - fetched(waves, of_zeta)), &
                          largest(state%phi - fetched(waves, of_phi)))
         of_energy = max(of_energy, abs(waves%energy()/energy(state, model, zeta, phi) - 1))
         of_highest = max(of_highest, abs(waves%highest() - maxval(abs(state%zeta))))
      end do
      call waves%close()
   end subroutine compare_steps

   pure real(dp) function largest(values)
      real(dp), intent(in) :: values(:, :)
      largest = maxval(abs(values))
   end function largest

   ! Pressure and forces of three ships, two of which overlap, and one at the corner of the grid; at two positions, so that
   ! the pressure of the first ones must vanish.
   subroutine test_ships()
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(wave_state) :: state, of_device
      type(waves_on_device) :: waves
      type(fleet_ship) :: ships(3), also(3)
      real(dp), allocatable :: pressure(:, :)
      real(dp) :: difference(3), scale(3)
      logical :: wild
      integer :: n, k
      grid = random_sea(200, 150, 0.1_dp)
      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      call start_at_rest(state, model, 0.1_dp)
      of_device = state
      call open_device(waves, grid, model, of_device)
      state%zeta = noise(model)
      call waves%store(of_zeta, state%zeta)
      allocate (pressure(grid%nx, grid%ny), source=0.0_dp)
      ships%motion = moored
      ships(2)%hull = ship(length=90, beam=40, draft=1.5_dp, hull=hull_gaussian)
      do n = 1, 2
         ships(1)%position = [400.0_dp, 300.0_dp] + 100*n
         ships(2)%position = [430.0_dp, 310.0_dp] + 100*n
         ships(3)%position = [20.0_dp, 30.0_dp*n]
         ships(1)%heading = 0.7_dp*n
         ships(3)%heading = 2
         also = ships
         call place_fleet(ships, grid, model%wet, 10.0_dp*n, state%zeta, pressure)
         call waves%place(also, grid, 10.0_dp*n, wild)
         ! Functions of the device differ from those of the host by rounding.
         call report('device', 'pressure of three ships', largest(pressure - fetched(waves, of_pressure)), &
                     1e-13_dp*maxval(pressure))
         do k = 1, 3
            scale(k) = maxval(abs(ships%force(k)))
            difference(k) = maxval(abs(ships%force(k) - also%force(k)))/scale(k)
         end do
         call report('device', 'forces on three ships', maxval(difference), 1e-11_dp)
      end do
      call waves%close()
   end subroutine test_ships

   subroutine test_frames()
      integer, parameter :: first(2) = [7, 3], last(2) = [180, 90]
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(wave_state) :: state
      type(waves_on_device) :: waves
      real(dp), allocatable :: zeta(:, :)
      integer(int16), allocatable :: heights(:), expected(:)
      integer :: stride, shown(2)
      grid = random_sea(200, 100, 0.1_dp)
      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      call start_at_rest(state, model, 0.1_dp)
      call open_device(waves, grid, model, state)
      zeta = 10*noise(model)
      call waves%store(of_zeta, zeta)
      do stride = 1, 7, 3
         shown = (last - first)/stride + 1
         allocate (heights(shown(1)*shown(2)))
         expected = pack(height(model%wet(first(1):last(1):stride, first(2):last(2):stride), &
                                zeta(first(1):last(1):stride, first(2):last(2):stride)), .true.)
         call waves%frame(first, shown, stride, unit, heights)
         call report('device', 'frame of every '//text(stride)//'th cell', &
                     real(maxval(abs(int(heights) - int(expected))), dp), 0.0_dp)
         deallocate (heights)
      end do
      call waves%close()
   end subroutine test_frames

   ! Of a cell in a frame, as in live.f90.
   elemental integer(int16) function height(wet, zeta)
      logical, intent(in) :: wet
      real(dp), intent(in) :: zeta
      height = -huge(height)
      if (wet) height = int(nint(max(-32766.0_dp, min(32766.0_dp, zeta/unit))), int16)
   end function height

   ! An absurd elevation is found at the next call of `place`, and not before it.
   subroutine test_blow_up()
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(wave_state) :: state
      type(waves_on_device) :: waves
      type(fleet_ship) :: ships(0)
      real(dp) :: zeta(40, 30)
      logical :: wild(2)
      grid = random_sea(40, 30, 0.0_dp)
      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      call start_at_rest(state, model, 0.1_dp)
      call open_device(waves, grid, model, state)
      zeta = 0
      zeta(40, 30) = -2000
      call waves%store(of_zeta, zeta)
      call waves%place(ships, grid, 0.0_dp, wild(1))
      call waves%begin_step(state)
      call waves%after_solve(state)
      call waves%place(ships, grid, 0.0_dp, wild(2))
      call report('device', 'an absurd elevation is found', merge(0.0_dp, 1.0_dp, wild(2) .and. .not. wild(1)), 0.0_dp)
      call waves%close()
   end subroutine test_blow_up

   ! A ship in the harbour. Both runs solve to a relative residual of 1e-9.
   subroutine test_harbour(with_current)
      logical, intent(in) :: with_current
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system), allocatable :: system, system_of_device
      type(wave_state) :: state, of_device
      type(waves_on_device) :: waves
      type(fleet_ship) :: ships(1), also(1)
      real(dp), allocatable :: pressure(:, :), u(:, :), v(:, :)
      real(dp) :: time, difference_of_force, largest_force
      logical :: wild
      integer :: n, steps
      steps = merge(20, 300, on_host)
      grid = synthetic_harbour()
      call build_model(grid%depth, grid%cell, grid%cell, 0.3_dp, profile_parabola, 0.0_dp, model)
      call start_at_rest(state, model, safe_time_step(model))
      if (with_current) then
         u = 0.3_dp*grid%depth/maxval(grid%depth)
         v = 0.5_dp*u
         call use_current(state, model, u, v)
      end if
      call use_sponge(state, model, 15)
      of_device = state
      call open_device(waves, grid, model, of_device)
      allocate (system, system_of_device)
      call setup_psi(system, model, use_rrb, 1e-9_dp, '')
      if (on_host) then
         call setup_psi(system_of_device, model, use_rrb, 1e-9_dp, '')
      else
         call setup_psi(system_of_device, model, use_rrb, 1e-9_dp, '', device, waves%stream)
      end if
      allocate (pressure(grid%nx, grid%ny), source=0.0_dp)
      ships(1)%hull%track = reshape([2020.0_dp, 1370.0_dp, 1490.0_dp, 990.0_dp, 1240.0_dp, 750.0_dp], [2, 3])
      also = ships
      difference_of_force = 0
      largest_force = 0
      do n = 1, steps
         time = state%time
         if (n == 1) time = state%dt/4
         call place_fleet(ships, grid, model%wet, time, state%zeta, pressure)
         call waves%place(also, grid, time, wild)
         largest_force = max(largest_force, norm2(ships(1)%force(1:2)))
         difference_of_force = max(difference_of_force, norm2(ships(1)%force(1:2) - also(1)%force(1:2)))
         call advance(state, model, system, pressure)
         call waves%begin_step(of_device)
         call waves%end_step(of_device, model, system_of_device)
      end do
      ! The solutions of a step differ by 1e-9; over the steps, the differences add up.
      call report('device', text(steps)//' steps in the harbour'//trim(merge(', current', '         ', with_current)), &
                  largest(state%zeta - fetched(waves, of_zeta))/maxval(abs(state%zeta)), 1e-6_dp)
      call report('device', 'forces on the ship', difference_of_force/largest_force, 1e-6_dp)
      deallocate (system_of_device)            ! before its stream
      call waves%close()
   end subroutine test_harbour

end program ship_waves_device_tests
