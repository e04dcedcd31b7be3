! Piecewise linear interface. The gas of a cell occupies {x in [0,1]^3 : m.x <= alpha}, where the normal m points from
! gas to liquid and sum |m| = 1 (Scardovelli and Zaleski, J. Comput. Phys. 164 (2000) 228-237). The normal is that of
! Aulisa, Manservisi, Scardovelli and Zaleski, J. Comput. Phys. 225 (2007) 2301-2319.
module plic
   use host, only: dp
   implicit none
   private
   public :: cut_volume, cut_alpha, interface_normal, slab_fraction

contains

   ! Volume of {m.x <= alpha} in the unit cube; m >= 0, sum m = 1. With m1 <= m2 <= m3 and a = min(alpha, 1 - alpha),
   ! the volume of the smaller part is
   !
   !    V = ( a^3 - (a-m1)+^3 - (a-m2)+^3 - (a-m3)+^3 + (a-m1-m2)+^3 ) / (6 m1 m2 m3),   t+ = max(t, 0).
   !
   ! The code uses an equivalent form without cancellation for tiny or zero m1 or m2.
   pure real(dp) function cut_volume(alpha, m) result(volume)
      real(dp), intent(in) :: alpha, m(3)
      real(dp) :: s(3), a
      s = sorted(m)
      a = min(max(alpha, 0.0_dp), 1.0_dp)
      volume = volume_below_half(min(a, 1 - a), s)
      if (a > 0.5_dp) volume = 1 - volume
   end function cut_volume

   pure real(dp) function volume_below_half(a, s) result(volume)
      real(dp), intent(in) :: a, s(3)
      if (a < s(1)) then
         volume = a**3/six_product(s)
      else if (a >= s(1) + s(2)) then
         volume = (2*a - s(1) - s(2))/(2*s(3))
      else
         volume = (3*a*(a - s(1)) + s(1)**2)/(6*s(2)*s(3)) &
                  - (max(a - s(2), 0.0_dp)**3 + max(a - s(3), 0.0_dp)**3)/six_product(s)
      end if
   end function volume_below_half

   ! Inverse of cut_volume: alpha of the plane with normal m >= 0 that cuts off this volume.
   pure real(dp) function cut_alpha(volume, m) result(alpha)
      real(dp), intent(in) :: volume, m(3)
      real(dp) :: s(3), v, v1, v2
      s = sorted(m)
      v = min(max(volume, 0.0_dp), 1.0_dp)
      v = min(v, 1 - v)
      v1 = s(1)**2/max(6*s(2)*s(3), 1e-50_dp)      ! V(m1)
      v2 = v1 + (s(2) - s(1))/(2*s(3))             ! V(m2)
      if (v < v1) then
         alpha = (six_product(s)*v)**(1/3.0_dp)
      else if (v < v2) then
         alpha = (s(1) + sqrt(s(1)**2 + 8*s(2)*s(3)*(v - v1)))/2
      else
         alpha = (s(1) + s(2))/2 + s(3)*v          ! valid if it is at least m1 + m2
         if (alpha < s(1) + s(2)) alpha = cubic_alpha(v, s)
      end if
      if (volume > 0.5_dp) alpha = 1 - alpha
   end function cut_alpha

   ! Solves V(a) = v in m2 <= a <= min(m1 + m2, 1/2), where V is cubic, increasing and convex. Newton's method from the
   ! right end therefore converges monotonically.
   pure real(dp) function cubic_alpha(v, s) result(a)
      real(dp), intent(in) :: v, s(3)
      integer, parameter :: enough = 50
      real(dp) :: slope, step
      integer :: k
      a = min(s(1) + s(2), 0.5_dp)
      do k = 1, enough
         slope = (2*a - s(1))/(2*s(2)*s(3)) - 3*(max(a - s(2), 0.0_dp)**2 + max(a - s(3), 0.0_dp)**2)/six_product(s)
         step = (volume_below_half(a, s) - v)/slope
         a = a - step
         if (step <= epsilon(a)*a) exit
      end do
   end function cubic_alpha

   pure real(dp) function six_product(s)
      real(dp), intent(in) :: s(3)
      six_product = max(6*s(1)*s(2)*s(3), 1e-50_dp)
   end function six_product

   pure function sorted(m) result(s)
      real(dp), intent(in) :: m(3)
      real(dp) :: s(3)
      s(1) = min(m(1), m(2), m(3))
      s(2) = max(min(m(1), m(2)), min(max(m(1), m(2)), m(3)))
      s(3) = max(m(1), m(2), m(3))
   end function sorted

   ! Normal in the middle cell of 3 x 3 x 3 gas fractions: the best of three normals by centred differences, or Youngs'
   ! normal (mixed Youngs-centred scheme of Aulisa et al. 2007).
   pure function interface_normal(c) result(m)
      real(dp), intent(in) :: c(-1:1, -1:1, -1:1)
      real(dp) :: m(3), youngs(3), candidate(3), best
      integer :: d
      youngs = youngs_normal(c)
      best = -1
      m = [0, 0, 1]
      do d = 1, 3
         candidate = centred_normal(c, d, youngs(d))
         if (abs(candidate(d)) > best) then
            best = abs(candidate(d))
            m = candidate
         end if
      end do
      if (maxval(abs(youngs)) < best) m = youngs
      if (sum(abs(m)) <= 0) m = [0, 0, 1]
   end function interface_normal

   pure function youngs_normal(c) result(m)
      real(dp), intent(in) :: c(-1:1, -1:1, -1:1)
      real(dp), parameter :: w(3, 3) = reshape([1, 2, 1, 2, 4, 2, 1, 2, 1], [3, 3])
      real(dp) :: m(3)
      m(1) = sum(w*(c(-1, :, :) - c(1, :, :)))
      m(2) = sum(w*(c(:, -1, :) - c(:, 1, :)))
      m(3) = sum(w*(c(:, :, -1) - c(:, :, 1)))
      if (sum(abs(m)) > 0) m = m/sum(abs(m))
   end function youngs_normal

   ! Normal of the interface as a graph over the plane normal to d. Its slopes are centred differences of columns of
   ! three cells. `sign_of` gives the sign of component d.
   pure function centred_normal(c, d, sign_of) result(m)
      real(dp), intent(in) :: c(-1:1, -1:1, -1:1), sign_of
      integer, intent(in) :: d
      real(dp) :: m(3)
      select case (d)
      case (1)
         m(2) = sum(c(:, -1, 0) - c(:, 1, 0))/2
         m(3) = sum(c(:, 0, -1) - c(:, 0, 1))/2
      case (2)
         m(1) = sum(c(-1, :, 0) - c(1, :, 0))/2
         m(3) = sum(c(0, :, -1) - c(0, :, 1))/2
      case default
         m(1) = sum(c(-1, 0, :) - c(1, 0, :))/2
         m(2) = sum(c(0, -1, :) - c(0, 1, :))/2
      end select
      m(d) = 0
      if (abs(sign_of) > 0) m(d) = sign(1.0_dp, sign_of)
      if (sum(abs(m)) > 0) m = m/sum(abs(m))
   end function centred_normal

   ! Gas fraction of the slab of width |a| at the plus side (a > 0) or at the minus side (a < 0) in direction d, in a
   ! cell with the gas fraction c and the normal m.
   pure real(dp) function slab_fraction(c, m, d, a) result(fraction)
      real(dp), intent(in) :: c, m(3), a
      integer, intent(in) :: d
      real(dp) :: alpha, n(3), total
      n = m
      alpha = cut_alpha(c, abs(n)) + sum(min(n, 0.0_dp))
      ! The slab is stretched to a unit cell with a corner at the origin,
      if (a > 0) alpha = alpha - n(d)*(1 - a)
      n(d) = n(d)*abs(a)
      ! and mirrored in directions with a negative component of the normal.
      alpha = alpha - sum(min(n, 0.0_dp))
      total = max(sum(abs(n)), tiny(total))
      fraction = cut_volume(alpha/total, abs(n)/total)
   end function slab_fraction

end module plic
