! Waves of a ship on a straight course in a closed basin of constant depth, as a sum of cosines that is exact in time.
! It shares no operator with the finite volumes: an independent solution of the same equations.
!
! With omega(k) of the dispersion relation, the amplitude c of cos(kx x) cos(ky y) obeys
! c'' + omega^2 c = -(omega^2/g) P, where P is the amplitude of the pressure. At rest for t = 0:
!    c(t) = -(omega/g) int_0^t sin(omega (t - s)) P(s) ds,   P(s) = g T r(s) a_m b_n cos(kx (x0 + V s)),
! where a_m and b_n are the cosine coefficients of the hull and r = sin^2(pi s/(2 ramp)) its ramp. The integrand is a
! sum of sines of linear functions of s.
module spectral_ship
   use boussinesq, only: frequency_squared, profile_integrals, profile_parabola
   use host, only: dp, gravity, pi
   use ship_pressure, only: hull_shape, ship
   implicit none
   private
   public :: spectral_elevation

contains

   ! Return zeta at the cell centers of a basin of nx x ny cells of width dx. The ship sails east on the center line
   ! from x = x0. Reflecting walls: the cosines in x have a zero derivative there. In y, the basin is symmetric about
   ! the center line, and the cosines with the period of the basin's width have a zero derivative on both walls.
   function spectral_elevation(vessel, nx, ny, dx, h, x0, time) result(zeta)
      type(ship), intent(in) :: vessel
      integer, intent(in) :: nx, ny
      real(dp), intent(in) :: dx, h, x0, time
      real(dp) :: zeta(nx, ny)
      real(dp), parameter :: shortest = 4             ! m: the hull has no shorter waves that matter
      real(dp), allocatable :: c(:, :), of_x(:, :), of_y(:, :), a(:), b(:)
      real(dp) :: kx, ky, hd, m_, n_, omega
      integer :: i, m, n, waves_x, waves_y

      waves_x = nint(2*nx*dx/shortest)
      waves_y = nint(ny*dx/shortest)
      allocate (a(0:waves_x), b(0:waves_y), c(0:waves_x, 0:waves_y), of_x(nx, 0:waves_x), of_y(0:waves_y, ny))
      do m = 0, waves_x
         a(m) = merge(1, 2, m == 0)/(nx*dx)*hull_integral(vessel%hull, vessel%length, pi*m/(nx*dx))
         of_x(:, m) = [(cos(pi*m*(i - 0.5_dp)/nx), i=1, nx)]
      end do
      do n = 0, waves_y
         b(n) = merge(1, 2, n == 0)/(ny*dx)*hull_integral(vessel%hull, vessel%beam, 2*pi*n/(ny*dx))
         of_y(n, :) = [(cos(2*pi*n*(i - 0.5_dp - ny/2.0_dp)/ny), i=1, ny)]
      end do
      call profile_integrals(profile_parabola, h, 0.0_dp, hd, m_, n_)
      do n = 0, waves_y
         do m = 0, waves_x
            kx = pi*m/(nx*dx)
            ky = 2*pi*n/(ny*dx)
            omega = sqrt(frequency_squared(h, hd, m_, n_, kx**2 + ky**2))
            c(m, n) = -omega*vessel%draft*a(m)*b(n)*response(omega, kx)
         end do
      end do
      zeta = matmul(matmul(of_x, c), of_y)

   contains

      ! int_0^time sin(omega (time - s)) r(s) cos(kx (x0 + V s)) ds, with 2 r = 1 - cos(pi s/ramp) up to the ramp's end.
      real(dp) function response(omega, kx)
         real(dp), intent(in) :: omega, kx
         real(dp) :: start, rate, turn, ramp
         integer :: sign
         turn = pi/vessel%ramp
         ramp = min(vessel%ramp, time)
         response = 0
         do sign = -1, 1, 2
            start = omega*time + sign*kx*x0
            rate = sign*kx*vessel%speed - omega
            response = response + integral(start, rate, 0.0_dp, ramp)/4 - integral(start, rate + turn, 0.0_dp, ramp)/8 &
                       - integral(start, rate - turn, 0.0_dp, ramp)/8 + integral(start, rate, ramp, time)/2
         end do
      end function response

      ! int_from^to sin(start + rate s) ds
      pure real(dp) function integral(start, rate, from, to)
         real(dp), intent(in) :: start, rate, from, to
         real(dp) :: half
         half = rate*(to - from)/2
         integral = (to - from)*sin(start + rate*(from + to)/2)
         if (abs(half) > 1e-8_dp) integral = integral*sin(half)/half
      end function integral

   end function spectral_elevation

   ! int s(x) cos(k x) dx over the hull, by the midpoint rule.
   pure real(dp) function hull_integral(hull, extent, k) result(total)
      integer, intent(in) :: hull
      real(dp), intent(in) :: extent, k
      integer, parameter :: points = 2000
      real(dp) :: x
      integer :: i
      total = 0
      do i = 1, points
         x = 4*extent*((i - 0.5_dp)/points - 0.5_dp)      ! the Gaussian hull ends at exp(-36)
         total = total + hull_shape(hull, x, extent)*cos(k*x)*4*extent/points
      end do
   end function hull_integral

end module spectral_ship
