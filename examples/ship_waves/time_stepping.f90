! Staggered leapfrog: zeta at t^n, phi at t^(n+1/2), one solve of S psi = L_hD phi a step.
module time_stepping
   use boussinesq, only: apply_operator, wave_model
   use host, only: dp, gravity
   use psi_solver, only: psi_system, solve_psi
   implicit none
   private
   public :: wave_state, start_at_rest, advance, sponge_factor, safe_time_step, energy

   type :: wave_state
      integer :: step = 0
      real(dp) :: dt = 0, time = 0
      real(dp), allocatable :: zeta(:, :)                 ! surface elevation [m]
      real(dp), allocatable :: phi(:, :)                  ! surface potential [m^2/s]
      real(dp), allocatable :: psi(:, :), psi_before(:, :)   ! vertical profile variable [m/s]
      real(dp), allocatable :: rhs(:, :), change(:, :)    ! L_hD phi;  L_h phi - L_hD psi
      real(dp), allocatable :: damping(:, :)              ! sponge factor of a step; not allocated: no sponge
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
      allocate (state%zeta(nx, ny), state%phi(nx, ny), state%psi(nx, ny), state%psi_before(nx, ny), &
                state%rhs(nx, ny), state%change(nx, ny), source=0.0_dp)
   end subroutine start_at_rest

   ! One step. pressure = P_s/rho in the middle of the interval that phi crosses: t^n, for the first half step dt/4.
   subroutine advance(state, model, system, pressure)
      type(wave_state), intent(inout) :: state
      type(wave_model), intent(in) :: model
      type(psi_system), intent(inout) :: system
      real(dp), contiguous, intent(in) :: pressure(:, :)
      real(dp), allocatable :: part(:, :)
      real(dp) :: span, guess
      integer :: i, j

      ! phi^(n+1/2) = phi^(n-1/2) - dt (g zeta^n + P_s); half of it in the first step
      span = state%dt
      if (state%step == 0) span = state%dt/2
      state%phi = state%phi - span*(gravity*state%zeta + pressure)

      ! S psi = L_hD phi, from the guess 2 psi^n - psi^(n-1)
      call apply_operator(model%hd_east, model%hd_north, state%phi, state%rhs)
      do j = 1, model%ny
         do i = 1, model%nx
            guess = state%psi(i, j)
            if (state%step >= 2) guess = 2*state%psi(i, j) - state%psi_before(i, j)
            state%psi_before(i, j) = state%psi(i, j)
            state%psi(i, j) = guess
         end do
      end do
      call solve_psi(system, model, state%rhs, state%psi)

      ! zeta^(n+1) = zeta^n + dt/A (L_h phi - L_hD psi)
      allocate (part(model%nx, model%ny))
      call apply_operator(model%h_east, model%h_north, state%phi, state%change)
      call apply_operator(model%hd_east, model%hd_north, state%psi, part)
      state%change = state%change - part
      state%zeta = state%zeta + state%dt/model%area*state%change

      if (allocated(state%damping)) then
         state%zeta = state%damping*state%zeta
         state%phi = state%damping*state%phi
      end if
      state%step = state%step + 1
      state%time = state%step*state%dt
   end subroutine advance

   ! E^n = A sum g zeta^2/2 + phi^(n-1/2) . (L_h phi^(n+1/2) - L_hD psi^(n+1/2))/2, conserved exactly without ship and
   ! sponge. zeta and phi_before are those of the start of the step that `state` has just made.
   pure real(dp) function energy(state, model, zeta, phi_before)
      type(wave_state), intent(in) :: state
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: zeta(:, :), phi_before(:, :)
      energy = model%area*sum(gravity*zeta**2)/2 + sum(phi_before*state%change)/2
   end function energy

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

   ! The simple rule sqrt(g h_max) dt/dx <= 1/2, rounded down to two digits; it is well below the limit dt omega_max < 2.
   pure real(dp) function safe_time_step(model) result(dt)
      type(wave_model), intent(in) :: model
      real(dp) :: unit
      dt = min(model%dx, model%dy)/2/sqrt(gravity*maxval(model%h))
      unit = 10.0_dp**(floor(log10(dt)) - 1)
      dt = unit*aint(dt/unit*(1 + 8*epsilon(dt)))
   end function safe_time_step

end module time_stepping
