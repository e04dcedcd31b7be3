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

   type :: current_field
      real(dp), allocatable :: east(:, :), north(:, :)    ! c_f = dt U_f/(4 dx) and dt V_f/(4 dy) on faces
      real(dp), allocatable :: right(:, :)                ! right-hand side of the sweeps
      integer :: sweeps = 0
      real(dp) :: fastest = 0                             ! face speed before the limit [m/s]
      integer :: limited = 0                              ! faces at the limit
   end type current_field

contains

   ! u, v: components to the east and north at cell centers [m/s]. A face between two wet cells has the mean of both cells;
   ! all other faces are closed. The waves of grid size have the phase speed sqrt(g h/6); a faster current would carry
   ! them downstream on both branches, and H would not be positive. Therefore face speeds are at most 0.9 times this speed.
   subroutine set_current(current, model, u, v, dt)
      type(current_field), intent(out) :: current
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: u(:, :), v(:, :), dt
      integer :: i, j
      allocate (current%east(model%nx, model%ny), current%north(model%nx, model%ny), &
                current%right(model%nx, model%ny), source=0.0_dp)
      do j = 1, model%ny
         do i = 1, model%nx
            if (i < model%nx) current%east(i, j) = dt/(4*model%dx)*face_speed(i + 1, j, u)
            if (j < model%ny) current%north(i, j) = dt/(4*model%dy)*face_speed(i, j + 1, v)
         end do
      end do
      current%sweeps = sweeps_for(contraction(current))

   contains

      ! Of the face between (i, j) and (i2, j2).
      real(dp) function face_speed(i2, j2, speed)
         integer, intent(in) :: i2, j2
         real(dp), intent(in) :: speed(:, :)
         real(dp) :: most
         face_speed = 0
         if (.not. (model%wet(i, j) .and. model%wet(i2, j2))) return
         face_speed = (speed(i, j) + speed(i2, j2))/2
         most = 0.9_dp*sqrt(gravity*(model%h(i, j) + model%h(i2, j2))/12)
         current%fastest = max(current%fastest, abs(face_speed))
         if (abs(face_speed) > most) then
            current%limited = current%limited + 1
            face_speed = sign(most, face_speed)
         end if
      end function face_speed

   end subroutine set_current

   ! A bound of the sweeps' contraction: the largest absolute row sum of t, which is (|U|/dx + |V|/dy) dt/2 where the
   ! current varies slowly. For any current, it is below 0.9 with the default time step: |c_f| <= 0.111 then, and
   ! a row sum is at most 8 max |c_f|. With a larger time step, it can exceed 1, and the sweeps may diverge.
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
