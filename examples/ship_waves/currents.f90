! A steady mean current: face speeds from two grids, and the implicit halves of a time step.
! div(zeta U) is a central flux, and U . grad phi its negative adjoint. Each is the mean of the old and the new time level,
! so for any current a step conserves H = E + A zeta . G (phi + phi')/2, the energy of the waves in the current.
module currents
   use, intrinsic :: iso_fortran_env, only: int64
   use boussinesq, only: wave_model
   use current_loops, only: sweep, transport_times, of_potential
   use host, only: dp, gravity
   implicit none
   private
   public :: current_field, most_sweeps, set_current, implicit_half, energy_of_current

   integer, parameter :: most_sweeps = 1000
   real(dp), parameter :: largest_ratio = 0.9_dp          ! of the current's speed to that of the shortest waves

   type :: current_field
      real(dp), allocatable :: east(:, :), north(:, :)    ! c_f = dt U_f/(4 dx) and dt V_f/(4 dy) on faces
      real(dp), allocatable :: right(:, :)                ! right-hand side of the sweeps
      integer :: sweeps = 0
      real(dp) :: fastest = 0                             ! face speed before the limit [m/s]
      integer :: limited = 0                              ! faces whose speed is reduced
   end type current_field

contains

   ! u, v: components to the east and north at cell centers [m/s]. A face between two wet cells has the mean of both cells;
   ! all other faces are closed. Face speeds are reduced where H could be negative, because nothing would bound the waves.
   ! With K = L_h - L_hD S^-1 L_hD, phi the mean of the potentials before and after the step, and y = g zeta + G phi,
   !    2 H = A |y|^2/g - dt^2 y.K y/4 + phi.K phi - A |G phi|^2/g.
   ! The first difference is positive for dt omega_max < 2, with or without a current. In the second one, each face
   ! contributes at least w_f s_f^2 (phi_nb - phi_P)^2/g to phi.K phi, where s_f is the phase speed of the shortest waves.
   ! By the inequality of Cauchy, the second difference is positive if in each cell
   !    r^2 = sum over faces of (U_f/s_f)^2/2
   ! is below 1. In a uniform current, r = |U|/s. Each face speed is multiplied by a factor such that r <= 0.9.
   subroutine set_current(current, model, u, v, dt)
      type(current_field), intent(out) :: current
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: u(:, :), v(:, :), dt
      real(dp), allocatable :: r_squared(:, :), factor(:, :)
      real(dp) :: ratio
      integer :: i, j, nx, ny
      nx = model%nx
      ny = model%ny
      allocate (current%east(nx, ny), current%north(nx, ny), current%right(nx, ny), r_squared(nx, ny), source=0.0_dp)
      do j = 1, ny
         do i = 1, nx
            if (i < nx) call set_face(i + 1, j, u, model%east(i, j)/model%weight(1), current%east(i, j))
            if (j < ny) call set_face(i, j + 1, v, model%north(i, j)/model%weight(2), current%north(i, j))
         end do
      end do
      factor = min(1.0_dp, largest_ratio/sqrt(max(r_squared, tiny(1.0_dp))))
      do j = 1, ny
         do i = 1, nx
            if (i < nx) call limit(min(factor(i, j), factor(i + 1, j)), current%east(i, j))
            if (j < ny) call limit(min(factor(i, j), factor(i, j + 1)), current%north(i, j))
         end do
      end do
      current%east = dt/(4*model%dx)*current%east
      current%north = dt/(4*model%dy)*current%north
      current%sweeps = sweeps_for(contraction(current))

   contains

      ! The speed of the face between (i, j) and (i2, j2). minus_n: -N_f, an entry of S without its weight.
      subroutine set_face(i2, j2, component, minus_n, speed)
         integer, intent(in) :: i2, j2
         real(dp), intent(in) :: component(:, :), minus_n
         real(dp), intent(inout) :: speed
         if (.not. (model%wet(i, j) .and. model%wet(i2, j2))) return
         speed = (component(i, j) + component(i2, j2))/2
         current%fastest = max(current%fastest, abs(speed))
         ratio = speed**2/speed_of_short_waves_squared((model%h(i, j) + model%h(i2, j2))/2, &
                                                       (model%hd(i, j) + model%hd(i2, j2))/2, -minus_n)
         r_squared(i, j) = r_squared(i, j) + ratio/2
         r_squared(i2, j2) = r_squared(i2, j2) + ratio/2
      end subroutine set_face

      subroutine limit(by, speed)
         real(dp), intent(in) :: by
         real(dp), intent(inout) :: speed
         if (by < 1 .and. abs(speed) > 0) current%limited = current%limited + 1
         speed = by*speed
      end subroutine limit

   end subroutine set_current

   ! s^2 = g (h - (hD)^2/N), which is g h/6 for the parabola and a constant depth. phi.K phi is the minimum over psi of
   ! the sum of w_f (h a^2 - 2 hD a b + N b^2) over faces, with the differences a of phi and b of psi, plus A M psi^2. The
   ! minimum over b is s^2 a^2/g. Rounding must not make it negative.
   pure real(dp) function speed_of_short_waves_squared(h, hd, n) result(s_squared)
      real(dp), intent(in) :: h, hd, n
      s_squared = gravity*max(h - hd**2/n, epsilon(h)*h)
   end function speed_of_short_waves_squared

   ! A bound of the sweeps' contraction: the largest absolute row sum of t, which is (|U|/dx + |V|/dy) dt/2 where the
   ! current varies slowly. For any current, it is below 0.7 with the parabola and the default time step: the sum of
   ! |U_f|/s_f over four faces is at most 2.55, s_f <= 0.51 sqrt(g h_max) <= 0.51 dx/dt, and a row sum is at most
   ! 2 sum |c_f|. With a larger time step, it can exceed 1, and the sweeps may diverge.
   pure real(dp) function contraction(current) result(largest)
      type(current_field), intent(in) :: current
      real(dp) :: e, w, n, s
      integer :: i, j
      largest = 0
      do j = 1, size(current%east, 2)
         do i = 1, size(current%east, 1)
            e = current%east(i, j)
            n = current%north(i, j)
            w = 0
            s = 0
            if (i > 1) w = current%east(i - 1, j)
            if (j > 1) s = current%north(i, j - 1)
            largest = max(largest, abs(e) + abs(w) + abs(n) + abs(s) + abs(e - w + n - s))
         end do
      end do
   end function contraction

   ! The least m with contraction^m < 1e-4, or most_sweeps if it is larger.
   pure integer function sweeps_for(contraction)
      real(dp), intent(in) :: contraction
      real(dp) :: error
      error = 1
      do sweeps_for = 0, most_sweeps - 1
         if (error < 1e-4_dp) exit
         error = error*contraction
      end do
   end function sweeps_for

   ! Solve x' + share t(x') = right by sweeps, from the explicit guess right - share t(x). x: old value in, new value out;
   ! other: an array of the same shape, whose values are lost.
   subroutine implicit_half(current, model, own, share, x, other)
      type(current_field), intent(in) :: current
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: own, share
      real(dp), allocatable, intent(inout) :: x(:, :), other(:, :)
      real(dp), allocatable :: newest(:, :)
      integer :: k
      do k = 0, current%sweeps
         call sweep(model%runs, size(x, kind=int64), current%east, current%north, own, share, current%right, x, other)
         call move_alloc(other, newest)
         call move_alloc(x, other)
         call move_alloc(newest, x)
      end do
   end subroutine implicit_half

   ! A zeta . G (phi + phi')/2, the current's part of H.
   pure real(dp) function energy_of_current(current, model, dt, zeta, phi_before, phi)
      type(current_field), intent(in) :: current
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: dt
      real(dp), contiguous, intent(in) :: zeta(:, :), phi_before(:, :), phi(:, :)
      energy_of_current = model%area/dt*transport_times(model%runs, size(zeta, kind=int64), current%east, current%north, &
                                                        of_potential, phi_before + phi, zeta)
   end function energy_of_current

end module currents
