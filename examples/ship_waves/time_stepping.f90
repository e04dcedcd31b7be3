! Staggered leapfrog: zeta at t^n, phi at t^(n+1/2), one solve of S psi = L_hD phi per step.
module time_stepping
   use, intrinsic :: iso_fortran_env, only: int64
   use boussinesq, only: wave_model
   use current_loops, only: of_elevation, of_potential, sweep
   use currents, only: current_field, energy_of_current, implicit_half, set_current
   use host, only: dp, gravity
   use psi_solver, only: psi_system, solve_psi
   use wave_loops, only: damp, elevation, momentum, rate_times, right_hand_side_and_guess
   use wet_runs, only: find_runs, run
   implicit none
   private
   public :: wave_state, start_at_rest, use_current, use_sponge, advance, safe_time_step, energy
   public :: absurd_height, extrapolation

   real(dp), parameter :: absurd_height = 1e3_dp          ! m: the computation has blown up

   type :: wave_state
      integer :: step = 0
      real(dp) :: dt = 0, time = 0
      real(dp), allocatable :: zeta(:, :)                 ! surface elevation [m]
      real(dp), allocatable :: phi(:, :)                  ! surface potential [m^2/s]
      real(dp), allocatable :: psi(:, :, :)               ! the four newest solutions [m/s]; newest: index of the last one
      integer :: newest = 4
      real(dp), allocatable :: rhs(:, :)                  ! L_hD phi
      real(dp), allocatable :: damping(:, :)              ! factor of the sponge per step; not allocated: no sponge
      type(run), allocatable :: damped(:)                 ! runs of cells with a factor below 1
      type(current_field), allocatable :: current         ! not allocated: no current
      logical :: blown_up = .false.                       ! an elevation is not a number, or above any ship's wave
   end type wave_state

contains

   subroutine start_at_rest(state, model, dt)
      type(wave_state), intent(out) :: state
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: dt
      integer :: nx, ny
      nx = model%nx
      ny = model%ny
      state%dt = dt
      allocate (state%zeta(nx, ny), state%phi(nx, ny), state%psi(nx, ny, 4), state%rhs(nx, ny), source=0.0_dp)
   end subroutine start_at_rest

   ! One step. pressure = P_s/rho in the middle of the interval that phi crosses: t^n, for the first half step dt/4.
   subroutine advance(state, model, system, pressure)
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      type(psi_system), intent(inout) :: system
      real(dp), contiguous, intent(in) :: pressure(:, :)
      real(dp) :: span
      integer(int64) :: cells
      integer :: newest
      logical :: wild

      cells = size(state%zeta, kind=int64)
      ! phi^(n+1/2) = phi^(n-1/2) - dt (g zeta^n + P_s); half of it in the first step
      span = state%dt
      if (state%step == 0) span = state%dt/2
      if (allocated(state%current)) then
         call momentum_in_current(state, model, span, pressure)
      else
         call momentum(model%runs, cells, span, state%zeta, pressure, state%phi)
      end if

      ! S psi = L_hD phi, from an extrapolated guess, which overwrites the oldest of the four solutions
      newest = modulo(state%newest, 4) + 1
      associate (old => state%newest)
         call right_hand_side_and_guess(model%runs, cells, model%weight, model%hd, state%phi, state%rhs, &
                                        extrapolation(state%step), state%psi(:, :, old), &
                                        state%psi(:, :, modulo(old - 2, 4) + 1), state%psi(:, :, modulo(old - 3, 4) + 1), &
                                        state%psi(:, :, newest))
      end associate
      state%newest = newest
      call solve_psi(system, model, state%rhs, state%psi(:, :, newest))

      ! zeta^(n+1) = zeta^n + dt/A (L_h phi - L_hD psi)
      if (allocated(state%current)) then
         call elevation_in_current(state, model, wild)
      else
         call elevation(model%runs, cells, model%weight, state%dt/model%area, model%h, model%hd, state%phi, &
                        state%psi(:, :, newest), state%zeta, absurd_height, wild)
      end if
      if (wild) state%blown_up = .true.
      if (allocated(state%damped)) call damp(state%damped, cells, state%damping, state%zeta, state%phi)
      state%step = state%step + 1
      state%time = state%step*state%dt
   end subroutine advance

   ! (I + G span/2) phi' = (I - G span/2) phi - span (g zeta + P)
   subroutine momentum_in_current(state, model, span, pressure)
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: span
      real(dp), contiguous, intent(in) :: pressure(:, :)
      integer(int64) :: cells
      cells = size(state%phi, kind=int64)
      associate (current => state%current)
         call sweep(model%runs, cells, current%east, current%north, of_potential, span/state%dt, state%phi, state%phi, &
                    current%right)
         call momentum(model%runs, cells, span, state%zeta, pressure, current%right)
         call implicit_half(current, model, of_potential, span/state%dt, state%phi, state%rhs)
      end associate
   end subroutine momentum_in_current

   ! (I + D dt/2) zeta' = (I - D dt/2) zeta + dt/A (L_h phi - L_hD psi)
   subroutine elevation_in_current(state, model, wild)
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      logical, intent(out) :: wild
      integer(int64) :: cells
      cells = size(state%phi, kind=int64)
      associate (current => state%current)
         call sweep(model%runs, cells, current%east, current%north, of_elevation, 1.0_dp, state%zeta, state%zeta, &
                    current%right)
         call elevation(model%runs, cells, model%weight, state%dt/model%area, model%h, model%hd, state%phi, &
                        state%psi(:, :, state%newest), current%right, absurd_height, wild)
         call implicit_half(current, model, of_elevation, 1.0_dp, state%zeta, state%rhs)
      end associate
   end subroutine elevation_in_current

   ! Factors of psi^n to psi^(n-3) in the guess for psi^(n+1): the polynomial through the last four solutions, or through
   ! all solutions if there are fewer.
   pure function extrapolation(solutions) result(factor)
      integer, intent(in) :: solutions
      real(dp) :: factor(4)
      select case (solutions)
      case (0, 1)
         factor = [1, 0, 0, 0]
      case (2)
         factor = [2, -1, 0, 0]
      case (3)
         factor = [3, -3, 1, 0]
      case default
         factor = [4, -6, 4, -1]
      end select
   end function extrapolation

   ! E^n = A sum g zeta^2/2 + phi^(n-1/2) . (L_h phi^(n+1/2) - L_hD psi^(n+1/2))/2, conserved exactly without ship and
   ! sponge; with a current, H = E + A zeta . G (phi^(n-1/2) + phi^(n+1/2))/2. zeta and phi_before are those of
   ! the start of the step that `state` has just made.
   pure real(dp) function energy(state, model, zeta, phi_before)
      type(wave_state), intent(in) :: state
      type(wave_model), intent(in) :: model
      real(dp), contiguous, intent(in) :: zeta(:, :), phi_before(:, :)
      energy = model%area*sum(gravity*zeta**2)/2 &
               + rate_times(model%runs, size(zeta, kind=int64), model%weight, model%h, model%hd, state%phi, &
                            state%psi(:, :, state%newest), phi_before)/2
      if (allocated(state%current)) &
         energy = energy + energy_of_current(state%current, model, state%dt, zeta, phi_before, state%phi)
   end function energy

   ! u, v: components of the current to the east and north at cell centers [m/s].
   subroutine use_current(state, model, u, v)
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: u(:, :), v(:, :)
      allocate (state%current)
      call set_current(state%current, model, u, v, state%dt)
   end subroutine use_current

   ! An absorbing layer of `cells` cells along those parts of the domain's edge that are water.
   subroutine use_sponge(state, model, cells)
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      integer, intent(in) :: cells
      state%damping = sponge_factor(model, cells, state%dt)
      state%damped = find_runs(model%wet .and. state%damping < 1)
   end subroutine use_sponge

   ! exp(-dt mu) with mu = mu_max (d/width)^2, mu_max = 3 sqrt(g h)/width, in the strips of `cells` cells along those parts
   ! of the domain's edge that are water.
   function sponge_factor(model, cells, dt) result(factor)
      type(wave_model), intent(in) :: model
      integer, intent(in) :: cells
      real(dp), intent(in) :: dt
      real(dp), allocatable :: factor(:, :)
      real(dp) :: inside, width, mu
      integer :: i, j, nx, ny
      nx = model%nx
      ny = model%ny
      width = cells*min(model%dx, model%dy)
      allocate (factor(nx, ny), source=1.0_dp)
      do j = 1, ny
         do i = 1, nx
            if (.not. model%wet(i, j)) cycle
            inside = 0
            if (model%wet(1, j)) inside = max(inside, width - (i - 0.5_dp)*model%dx)
            if (model%wet(nx, j)) inside = max(inside, width - (nx - i + 0.5_dp)*model%dx)
            if (model%wet(i, 1)) inside = max(inside, width - (j - 0.5_dp)*model%dy)
            if (model%wet(i, ny)) inside = max(inside, width - (ny - j + 0.5_dp)*model%dy)
            mu = 3*sqrt(gravity*model%h(i, j))/width*(inside/width)**2
            factor(i, j) = exp(-dt*mu)
         end do
      end do
   end function sponge_factor

   ! min(dx/sqrt(g h_max), 1.4/omega_max), rounded down to two digits. Leapfrog is stable for dt omega_max < 2. A larger
   ! step needs fewer solves, and its error in time partly cancels the error in space.
   pure real(dp) function safe_time_step(model) result(dt)
      type(wave_model), intent(in) :: model
      real(dp) :: unit
      dt = min(min(model%dx, model%dy)/sqrt(gravity*maxval(model%h)), 1.4_dp/model%omega_max)
      unit = 10.0_dp**(floor(log10(dt)) - 1)
      dt = unit*aint(dt/unit*(1 + 8*epsilon(dt)))
   end function safe_time_step

end module time_stepping
