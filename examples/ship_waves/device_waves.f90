! The waves of a run on a CUDA device: waves_on_device.cu computes, and `rrb_solve` uses its arrays and its stream.
! Only frames, forces and what the program prints are copied to the host.
module device_waves
   use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int16_t, c_int32_t, c_int64_t, c_null_ptr, c_ptr
   use, intrinsic :: iso_fortran_env, only: int16, int64
   use bathymetry, only: depth_grid
   use boussinesq, only: wave_model
   use fleet, only: fleet_ship, follow_tracks, most_ships
   use host, only: dp, give_up
   use psi_solver, only: psi_system, solve_psi
   use ship_pressure, only: cells_of_hull, hull_gaussian
   use time_stepping, only: absurd_height, extrapolation, wave_state
   use wet_runs, only: run
   implicit none
   private
   public :: waves_on_device, of_zeta, of_phi, of_psi, of_rhs, of_pressure

   integer, parameter :: of_zeta = 0, of_phi = 1, of_psi = 2, of_rhs = 3, of_pressure = 4      ! fields

   type :: waves_on_device
      logical :: used = .false.
      type(c_ptr) :: stream = c_null_ptr
      integer :: nx = 0, ny = 0
      type(c_ptr), private :: waves = c_null_ptr
      ! Right-hand side and guess in the memory of the device, which the program must not read.
      real(dp), pointer, contiguous, private :: b(:, :) => null(), psi(:, :) => null()
   contains
      procedure :: open
      procedure :: place
      procedure :: begin_step
      procedure :: after_solve
      procedure :: end_step
      procedure :: frame
      procedure :: highest
      procedure :: fetch
      procedure :: store
      procedure :: remember
      procedure :: energy
      procedure :: close
   end type waves_on_device

   ! waves_on_device.cu declares the next two types too.
   type, bind(c) :: parameters
      integer(c_int64_t) :: nx, ny
      real(dp) :: x0, y0, cell
      real(dp) :: weight(2), area, dt, limit
   end type parameters

   type, bind(c) :: hull
      real(dp) :: length, beam, draft, strength, middle(2), bow(2)
      integer(c_int32_t) :: gaussian, box(4)
   end type hull

   ! All functions return 0 after an error. Then c_message returns the cause.
   interface
      subroutine c_message(size, text) bind(c, name='ship_waves_message')
         import :: c_char, c_int64_t
         integer(c_int64_t), value :: size
         character(kind=c_char), intent(out) :: text(*)
      end subroutine c_message
      integer(c_int32_t) function c_open(device, p, run_count, runs, h, hd, waves, stream) bind(c, name='ship_waves_open')
         import :: c_int32_t, c_int64_t, c_ptr, dp, parameters, run
         integer(c_int32_t), value :: device
         type(parameters), intent(in) :: p
         integer(c_int64_t), value :: run_count
         type(run), intent(in) :: runs(*)
         real(dp), intent(in) :: h(*), hd(*)
         type(c_ptr), intent(inout) :: waves, stream
      end function c_open
      integer(c_int32_t) function c_use_sponge(waves, run_count, runs, factor) bind(c, name='ship_waves_use_sponge')
         import :: c_int32_t, c_int64_t, c_ptr, dp, run
         type(c_ptr), value :: waves
         integer(c_int64_t), value :: run_count
         type(run), intent(in) :: runs(*)
         real(dp), intent(in) :: factor(*)
      end function c_use_sponge
      integer(c_int32_t) function c_use_current(waves, east, north, sweeps) bind(c, name='ship_waves_use_current')
         import :: c_int32_t, c_ptr, dp
         type(c_ptr), value :: waves
         real(dp), intent(in) :: east(*), north(*)
         integer(c_int32_t), value :: sweeps
      end function c_use_current
      integer(c_int32_t) function c_place(waves, ships, hulls, force, wild) bind(c, name='ship_waves_place')
         import :: c_int32_t, c_ptr, dp, hull
         type(c_ptr), value :: waves
         integer(c_int32_t), value :: ships
         type(hull), intent(in) :: hulls(*)
         real(dp), intent(out) :: force(3, *)
         integer(c_int32_t), intent(out) :: wild
      end function c_place
      integer(c_int32_t) function c_before_solve(waves, span, factor, b, psi) bind(c, name='ship_waves_before_solve')
         import :: c_int32_t, c_ptr, dp
         type(c_ptr), value :: waves
         real(dp), value :: span
         real(dp), intent(in) :: factor(4)
         type(c_ptr), intent(out) :: b, psi
      end function c_before_solve
      integer(c_int32_t) function c_wait(waves) bind(c, name='ship_waves_wait')
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: waves
      end function c_wait
      integer(c_int32_t) function c_after_solve(waves) bind(c, name='ship_waves_after_solve')
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: waves
      end function c_after_solve
      integer(c_int32_t) function c_highest(waves, highest) bind(c, name='ship_waves_highest')
         import :: c_int32_t, c_ptr, dp
         type(c_ptr), value :: waves
         real(dp), intent(out) :: highest
      end function c_highest
      integer(c_int32_t) function c_remember(waves) bind(c, name='ship_waves_remember')
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: waves
      end function c_remember
      integer(c_int32_t) function c_energy(waves, energy) bind(c, name='ship_waves_energy')
         import :: c_int32_t, c_ptr, dp
         type(c_ptr), value :: waves
         real(dp), intent(out) :: energy
      end function c_energy
      integer(c_int32_t) function c_frame(waves, first, shown, stride, unit, heights) bind(c, name='ship_waves_frame')
         import :: c_int16_t, c_int32_t, c_int64_t, c_ptr, dp
         type(c_ptr), value :: waves
         integer(c_int64_t), intent(in) :: first(2), shown(2)
         integer(c_int64_t), value :: stride
         real(dp), value :: unit
         integer(c_int16_t), intent(out) :: heights(*)
      end function c_frame
      integer(c_int32_t) function c_fetch(waves, field, values) bind(c, name='ship_waves_fetch')
         import :: c_int32_t, c_ptr, dp
         type(c_ptr), value :: waves
         integer(c_int32_t), value :: field
         real(dp), intent(out) :: values(*)
      end function c_fetch
      integer(c_int32_t) function c_store(waves, field, values) bind(c, name='ship_waves_store')
         import :: c_int32_t, c_ptr, dp
         type(c_ptr), value :: waves
         integer(c_int32_t), value :: field
         real(dp), intent(in) :: values(*)
      end function c_store
      subroutine c_close(waves) bind(c, name='ship_waves_close')
         import :: c_ptr
         type(c_ptr), value :: waves
      end subroutine c_close
   end interface

contains

   ! Compute the waves, which start at rest, on the device with this number. Deallocates the arrays of `state` that this
   ! module replaces. problem: the reason if there is no such device, otherwise an empty text.
   subroutine open(self, device, grid, model, state, problem)
      class(waves_on_device), intent(inout) :: self
      integer, intent(in) :: device
      type(depth_grid), intent(in) :: grid
      type(wave_model), intent(in) :: model
      type(wave_state), intent(inout) :: state
      character(:), allocatable, intent(out) :: problem
      type(parameters) :: p
      self%nx = model%nx
      self%ny = model%ny
      p = parameters(nx=model%nx, ny=model%ny, x0=grid%x0, y0=grid%y0, cell=grid%cell, weight=model%weight, area=model%area, &
                     dt=state%dt, limit=absurd_height)
      problem = ''
      if (c_open(int(device, c_int32_t), p, size(model%runs, kind=int64), model%runs, model%h, model%hd, self%waves, &
                 self%stream) == 0) then
         problem = message()
         return
      end if
      self%used = .true.
      if (allocated(state%damped)) then
         call check(c_use_sponge(self%waves, size(state%damped, kind=int64), state%damped, state%damping))
         deallocate (state%damped, state%damping)
      end if
      if (allocated(state%current)) then
         associate (current => state%current)
            call check(c_use_current(self%waves, current%east, current%north, int(current%sweeps, c_int32_t)))
            deallocate (current%east, current%north, current%right)
         end associate
      end if
      deallocate (state%phi, state%psi, state%rhs)
   end subroutine open

   function message() result(text)
      character(:), allocatable :: text
      character(200) :: buffer
      call c_message(len(buffer, kind=c_int64_t), buffer)
      text = trim(buffer)
   end function message

   subroutine check(ok)
      integer(c_int32_t), intent(in) :: ok
      if (ok == 0) call give_up('the device failed: '//message())
   end subroutine check

   ! Set the pressure of the ships and the forces on them, as place_fleet. wild: an elevation of the last step is not a
   ! number, or not below absurd_height.
   subroutine place(self, ships, grid, time, wild)
      class(waves_on_device), intent(in) :: self
      type(fleet_ship), intent(inout) :: ships(:)
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: time
      logical, intent(out) :: wild
      type(hull) :: hulls(most_ships)
      real(dp) :: force(3, most_ships)
      integer(c_int32_t) :: is_wild
      integer :: k
      call follow_tracks(ships, time)
      do k = 1, size(ships)
         associate (s => ships(k))
            s%box = cells_of_hull(s%hull, grid, s%position)
            hulls(k) = hull(length=s%hull%length, beam=s%hull%beam, draft=s%hull%draft, strength=s%strength(time), &
                            middle=s%position, bow=s%bow(), gaussian=merge(1, 0, s%hull%hull == hull_gaussian), box=s%box)
         end associate
      end do
      call check(c_place(self%waves, size(ships, kind=c_int32_t), hulls, force, is_wild))
      do k = 1, size(ships)
         ships(k)%force = force(:, k)
      end do
      wild = is_wild /= 0
   end subroutine place

   ! begin_step and end_step replace `advance` of time_stepping. begin_step returns while the device computes the
   ! right-hand side and the guess.
   subroutine begin_step(self, state)
      class(waves_on_device), intent(inout) :: self
      type(wave_state), intent(in) :: state
      type(c_ptr) :: address_of_b, address_of_psi
      real(dp) :: span
      span = state%dt
      if (state%step == 0) span = state%dt/2
      call check(c_before_solve(self%waves, span, extrapolation(state%step), address_of_b, address_of_psi))
      call c_f_pointer(address_of_b, self%b, [self%nx, self%ny])
      call c_f_pointer(address_of_psi, self%psi, [self%nx, self%ny])
   end subroutine begin_step

   ! Without the wait, the time of the solve would contain that of the loops before it.
   subroutine end_step(self, state, model, system)
      class(waves_on_device), intent(in) :: self
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      type(psi_system), intent(inout) :: system
      call check(c_wait(self%waves))
      call solve_psi(system, model, self%b, self%psi)
      call self%after_solve(state)
   end subroutine end_step

   subroutine after_solve(self, state)
      class(waves_on_device), intent(in) :: self
      type(wave_state), intent(inout) :: state
      call check(c_after_solve(self%waves))
      state%step = state%step + 1
      state%time = state%step*state%dt
   end subroutine after_solve

   ! heights: elevations of every stride-th cell from cell `first` on, in multiples of `unit`.
   subroutine frame(self, first, shown, stride, unit, heights)
      class(waves_on_device), intent(in) :: self
      integer, intent(in) :: first(2), shown(2), stride
      real(dp), intent(in) :: unit
      integer(int16), intent(out) :: heights(:)
      call check(c_frame(self%waves, int(first - 1, c_int64_t), int(shown, c_int64_t), int(stride, c_int64_t), unit, heights))
   end subroutine frame

   ! max |zeta|
   real(dp) function highest(self)
      class(waves_on_device), intent(in) :: self
      call check(c_highest(self%waves, highest))
   end function highest

   subroutine fetch(self, field, values)
      class(waves_on_device), intent(in) :: self
      integer, intent(in) :: field
      real(dp), contiguous, intent(out) :: values(:, :)
      call check(c_fetch(self%waves, int(field, c_int32_t), values))
   end subroutine fetch

   subroutine store(self, field, values)
      class(waves_on_device), intent(in) :: self
      integer, intent(in) :: field
      real(dp), contiguous, intent(in) :: values(:, :)
      call check(c_store(self%waves, int(field, c_int32_t), values))
   end subroutine store

   ! Copy zeta and phi. After the next step, `energy` returns what `energy` of time_stepping returns with these copies.
   subroutine remember(self)
      class(waves_on_device), intent(in) :: self
      call check(c_remember(self%waves))
   end subroutine remember

   real(dp) function energy(self)
      class(waves_on_device), intent(in) :: self
      call check(c_energy(self%waves, energy))
   end function energy

   subroutine close(self)
      class(waves_on_device), intent(inout) :: self
      if (self%used) call c_close(self%waves)
      self%used = .false.
   end subroutine close

end module device_waves
