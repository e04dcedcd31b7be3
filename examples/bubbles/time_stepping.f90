! One time step, and measured quantities of a flow.
module time_stepping
   use grid_fields, only: flow
   use host, only: dp, pi
   use interface_shape, only: find_curvature, set_curvature, surface
   use momentum, only: predict, time_step
   use pressure, only: pressure_system, project
   use vof, only: advect
   implicit none
   private
   public :: advance, measures, measure

   type :: measures
      real(dp) :: volume = 0            ! of the gas [m^3], in 2D [m^2]
      real(dp) :: height = 0            ! z of the centre of the gas [m]
      real(dp) :: rise = 0              ! mean upward velocity of the gas [m/s]
      real(dp) :: roundness = 0         ! circularity or sphericity
      real(dp) :: divergence = 0        ! max |div u| [1/s]
      real(dp) :: speed = 0             ! max |u| over all components [m/s]
   end type measures

contains

   ! Computes a time step, which ends at end_time at the latest. curvature: a value for all cells instead of the
   ! computed curvature, for tests.
   subroutine advance(f, system, end_time, curvature)
      type(flow), intent(inout) :: f
      type(pressure_system), intent(inout) :: system
      real(dp), intent(in) :: end_time
      real(dp), intent(in), optional :: curvature
      f%step = f%step + 1
      f%dt = time_step(f)
      if (f%time + f%dt >= end_time) f%dt = end_time - f%time
      call advect(f)
      if (present(curvature)) then
         call set_curvature(f, curvature)
      else
         call find_curvature(f)
      end if
      call predict(f)
      call project(system, f)
      f%time = f%time + f%dt
   end subroutine advance

   type(measures) function measure(f) result(m)
      type(flow), intent(in) :: f
      real(dp) :: gas, divergence
      integer :: i, j, k
      do k = 1, f%g%n(3)
         do j = 1, f%g%n(2)
            do i = 1, f%g%n(1)
               gas = f%c(i, j, k)
               m%volume = m%volume + gas
               m%height = m%height + gas*(k - 0.5_dp)*f%g%h
               m%rise = m%rise + gas*(f%u(i, j, k, 3) + f%u(i, j, k - 1, 3))/2
               divergence = f%u(i, j, k, 1) - f%u(i - 1, j, k, 1) + f%u(i, j, k, 2) - f%u(i, j - 1, k, 2) &
                            + f%u(i, j, k, 3) - f%u(i, j, k - 1, 3)
               m%divergence = max(m%divergence, abs(divergence)/f%g%h)
               m%speed = max(m%speed, maxval(abs(f%u(i, j, k, :))))
            end do
         end do
      end do
      if (m%volume > 0) then
         m%height = m%height/m%volume
         m%rise = m%rise/m%volume
      end if
      m%volume = m%volume*f%g%h**f%g%directions
      m%roundness = roundness(m%volume, surface(f%g, f%c), f%g%directions)
   end function measure

   ! Perimeter of the circle with the same area, or surface area of the sphere with the same volume, divided by that of
   ! the bubble.
   pure real(dp) function roundness(volume, area, directions)
      real(dp), intent(in) :: volume, area
      integer, intent(in) :: directions
      roundness = 0
      if (area <= 0) return
      if (directions == 2) then
         roundness = 2*sqrt(pi*volume)/area
      else
         roundness = pi**(1/3.0_dp)*(6*volume)**(2/3.0_dp)/area
      end if
   end function roundness

end module time_stepping
