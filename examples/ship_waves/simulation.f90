! Grid, model, solver, waves and ships of a run, and one time step.
module simulation
   use bathymetry, only: depth_grid, read_esri_grid, read_matching_grid, refine_grid, refined, synthetic_harbour
   use boussinesq, only: build_model, profile_cosh, wave_model
   use command_line, only: settings
   use currents, only: most_sweeps
   use device_waves, only: of_pressure, of_zeta, waves_on_device
   use fleet, only: angle_of_bow, check_fleet, fleet_ship, place_fleet, sail, steered
   use fleet_file, only: read_ships
   use host, only: dp, gravity, refuse, text
   use potential_flow, only: flow_between
   use psi_solver, only: psi_system, setup_psi
   use ship_pressure, only: longest_straight_track
   use time_stepping, only: absurd_height, advance, safe_time_step, start_at_rest, use_current, use_sponge, wave_state
   implicit none
   private
   public :: simulated, prepare

   type :: simulated
      type(depth_grid) :: grid
      type(wave_model) :: model
      type(psi_system) :: system
      type(wave_state) :: state
      type(fleet_ship), allocatable :: ships(:)
      real(dp), allocatable :: pressure(:, :)        ! P_s/rho [m^2/s^2]
      real(dp), allocatable :: current_u(:, :), current_v(:, :)      ! to the east and north [m/s]; not allocated: none
      real(dp) :: h_min = 0
      type(waves_on_device) :: device                ! used or not
   contains
      procedure :: place_ships
      procedure :: make_step
      procedure :: fetch_fields
      procedure :: highest_wave
      procedure :: finish
   end type simulated

   real(dp), parameter :: fairway(2, 4) = reshape([2020.0_dp, 1370.0_dp, 1490.0_dp, 990.0_dp, &     ! of the harbour [m]
                                                   1240.0_dp, 750.0_dp, 940.0_dp, 580.0_dp], [2, 4])

contains

   ! Read and check all input, and factorize the matrix.
   subroutine prepare(self, set)
      type(simulated), intent(inout) :: self
      type(settings), intent(inout) :: set
      character(:), allocatable :: problem
      real(dp) :: dt

      if (set%grid_file == '') then
         self%grid = synthetic_harbour()
         if (.not. allocated(set%vessel%track)) set%vessel%track = fairway
      else
         self%grid = read_esri_grid(set%grid_file)
      end if
      if (set%current_u /= '') then
         self%current_u = read_matching_grid(set%current_u, self%grid)
         self%current_v = read_matching_grid(set%current_v, self%grid)
         self%current_u = refined(self%current_u, self%grid%depth >= set%h_min, set%refine)
         self%current_v = refined(self%current_v, self%grid%depth >= set%h_min, set%refine)
      end if
      call refine_grid(self%grid, set%refine, set%h_min)
      if (set%ships_file == '') then
         self%ships = [fleet_ship(name='ship', hull=set%vessel)]
      else
         self%ships = read_ships(set%ships_file)
      end if
      self%h_min = set%h_min
      call set_up_model(self, set)
      if (allocated(set%flow)) &
         call flow_between(self%model, self%grid, set%flow, set%discharge, self%current_u, self%current_v)
      dt = time_step(self%model, set)
      if (set%ships_file == '') then
         if (set%live > 0) then
            call find_track(self, self%grid%cell*hypot(real(self%grid%nx, dp), real(self%grid%ny, dp)))
            call take_helm(self%ships(1))
         else
            call find_track(self, set%vessel%speed*dt*set%steps)
         end if
      end if
      call check_fleet(self%ships, self%grid, set%h_min)
      call start_at_rest(self%state, self%model, dt)
      if (allocated(self%current_u)) then
         call use_current(self%state, self%model, self%current_u, self%current_v)
         if (self%state%current%sweeps >= most_sweeps) &
            call refuse('dt = '//text(dt)//' s is too large for this current, which varies too fast from cell to cell: try ' &
                        //text(safe_time_step(self%model))//' s')
      end if
      if (set%sponge_cells > 0) call use_sponge(self%state, self%model, set%sponge_cells)
      allocate (self%pressure(self%model%nx, self%model%ny), source=0.0_dp)
      if (set%device >= 0) then
         call self%device%open(set%device, self%grid, self%model, self%state, problem)
         if (problem /= '') call refuse('--device '//text(set%device)//': '//problem)
         call setup_psi(self%system, self%model, set%solver, set%rel_tol, set%rrb_options, set%device, self%device%stream)
      else
         call setup_psi(self%system, self%model, set%solver, set%rel_tol, set%rrb_options)
      end if
   end subroutine prepare

   subroutine set_up_model(self, set)
      type(simulated), intent(inout) :: self
      type(settings), intent(in) :: set
      real(dp) :: frequency
      frequency = 0
      if (set%profile == profile_cosh) then
         if (maxval(self%ships%hull%speed) <= 0) call refuse('--profile cosh needs a ship with a speed above 0')
         frequency = gravity/maxval(self%ships%hull%speed)
      end if
      if (maxval(self%grid%depth) < set%h_min) &
         call refuse('no cell of the grid is wet: the largest depth is '//text(maxval(self%grid%depth))//' m, --h-min is ' &
                     //text(set%h_min)//' m')
      call build_model(self%grid%depth, self%grid%cell, self%grid%cell, set%h_min, set%profile, frequency, self%model)
   end subroutine set_up_model

   ! The live view shows smooth motion with 25 steps per second of the wall clock.
   real(dp) function time_step(model, set) result(dt)
      type(wave_model), intent(in) :: model
      type(settings), intent(in) :: set
      dt = set%dt
      if (dt <= 0) then
         dt = safe_time_step(model)
         if (set%live > 0) dt = min(dt, 0.04_dp*set%live)
      end if
      if (dt*model%omega_max >= 2) &
         call refuse('dt = '//text(dt)//' s is unstable on this grid: it must be below '//text(2/model%omega_max)//' s')
   end function time_step

   subroutine find_track(self, wanted)
      type(simulated), intent(inout) :: self
      real(dp), intent(in) :: wanted
      logical :: found
      if (allocated(self%ships(1)%hull%track)) return
      call longest_straight_track(self%ships(1)%hull, self%grid, wanted, found)
      if (.not. found) call refuse('no straight line of water is long and deep enough for this ship: give a --track')
   end subroutine find_track

   ! A ship that is steered from the first point of its track.
   subroutine take_helm(s)
      type(fleet_ship), intent(inout) :: s
      s%motion = steered
      s%position = s%hull%track(:, 1)
      s%heading = angle_of_bow(s%hull%track(:, 2) - s%hull%track(:, 1))
      deallocate (s%hull%track)
   end subroutine take_helm

   ! Pressure of the ships at t^n, and the forces of the waves on them. A device begins the step of the waves.
   subroutine place_ships(self)
      class(simulated), intent(inout) :: self
      real(dp) :: time
      time = self%state%time
      if (self%state%step == 0) time = self%state%dt/4
      if (self%device%used) then
         call self%device%place(self%ships, self%grid, time, self%state%blown_up)
         if (.not. self%state%blown_up) call self%device%begin_step(self%state)
      else
         call place_fleet(self%ships, self%grid, self%model%wet, time, self%state%zeta, self%pressure)
      end if
   end subroutine place_ships

   ! Ships and waves from t^n to t^(n+1).
   subroutine make_step(self)
      class(simulated), intent(inout) :: self
      call sail(self%ships, self%grid, self%h_min, self%state%time, self%state%dt)
      if (self%device%used) then
         if (self%state%blown_up) return      ! place_ships has found this
         call self%device%end_step(self%state, self%model, self%system)
      else
         call advance(self%state, self%model, self%system, self%pressure)
      end if
   end subroutine make_step

   ! Copy zeta and pressure from a device, if one is used.
   subroutine fetch_fields(self)
      class(simulated), intent(inout) :: self
      if (.not. self%device%used) return
      call self%device%fetch(of_zeta, self%state%zeta)
      if (.not. all(abs(self%state%zeta) < absurd_height)) self%state%blown_up = .true.
      call self%device%fetch(of_pressure, self%pressure)
   end subroutine fetch_fields

   ! max |zeta|
   real(dp) function highest_wave(self)
      class(simulated), intent(in) :: self
      if (self%device%used) then
         highest_wave = self%device%highest()
      else
         highest_wave = maxval(abs(self%state%zeta))
      end if
   end function highest_wave

   ! What a main program holds is not finalized at its end. The solver uses the stream of the device.
   subroutine finish(self)
      class(simulated), intent(inout) :: self
      call self%system%rrb%destroy()
      call self%device%close()
   end subroutine finish

end module simulation
