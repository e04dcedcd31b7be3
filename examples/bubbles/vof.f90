! Volume of fluid: advects the gas fraction, one direction after the other. The fluxes are computed from the planes of
! module plic. All sweeps of a step use the same indicator cc of gas at the cell centres, so that the volume changes
! only by the divergence of the velocity (Weymouth and Yue, J. Comput. Phys. 229 (2010) 2853-2865).
module vof
   use grid_fields, only: flow, ghosts, grid, mirror, unit_step
   use host, only: dp
   use plic, only: interface_normal, slab_fraction
   implicit none
   private
   public :: advect, is_mixed

   real(dp), parameter :: pure = 1e-12_dp      ! gas fractions with this distance to 0 or 1 count as 0 or 1

contains

   ! Computes c^(n+1) from c^n with the velocity u^n. f%gas_flux receives the gas flux through each face, for the
   ! momentum.
   subroutine advect(f)
      type(flow), intent(inout) :: f
      real(dp), allocatable :: cc(:, :, :)
      integer :: s, d
      f%c_old = f%c
      allocate (cc, mold=f%c)
      cc = merge(1.0_dp, 0.0_dp, f%c > 0.5_dp)
      f%gas_flux = 0
      ! The order of the directions rotates from step to step.
      do s = 1, 3
         d = mod(f%step - 1 + s, 3) + 1
         if (.not. f%g%active(d)) cycle
         call gas_fluxes(f%g, f%c, f%u(:, :, :, d), f%dt/f%g%h, d, f%gas_flux(:, :, :, d))
         call sweep(f%g, f%u(:, :, :, d), f%dt/f%g%h, cc, unit_step(d), f%gas_flux(:, :, :, d), f%c)
         call mirror(f%g, f%c)
      end do
   end subroutine advect

   elemental logical function is_mixed(c)
      real(dp), intent(in) :: c
      is_mixed = c > pure .and. c < 1 - pure
   end function is_mixed

   ! Gas volume that flows through the plus face of each cell in direction d, divided by h^3: the gas in the slab that
   ! leaves the upstream cell.
   subroutine gas_fluxes(g, c, u, courant, d, flux)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:), u(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp), intent(in) :: courant
      integer, intent(in) :: d
      real(dp), intent(inout) :: flux(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp) :: a, donor
      integer :: e(3), last(3), i, j, k, at(3)
      e = unit_step(d)
      last = g%n - e      ! the face of the last cell is a wall
      do k = 1, last(3)
         do j = 1, last(2)
            do i = 1, last(1)
               a = u(i, j, k)*courant
               donor = merge(c(i, j, k), c(i + e(1), j + e(2), k + e(3)), a > 0)
               if (donor <= pure) then
                  flux(i, j, k) = 0
               else if (donor >= 1 - pure) then
                  flux(i, j, k) = a
               else if (abs(a) > 0) then
                  at = [i, j, k]
                  if (a < 0) at = at + e
                  flux(i, j, k) = a*slab_fraction(donor, normal_at(c, at), d, a)
               end if
            end do
         end do
      end do
   end subroutine gas_fluxes

   pure function normal_at(c, at) result(m)
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer, intent(in) :: at(3)
      real(dp) :: m(3)
      m = interface_normal(c(at(1) - 1:at(1) + 1, at(2) - 1:at(2) + 1, at(3) - 1:at(3) + 1))
   end function normal_at

   ! Adds to c the flux through the minus face minus the flux through the plus face, and cc times the difference of u
   ! dt/h between both faces. Values that differ from 0 or 1 only by rounding become 0 or 1.
   subroutine sweep(g, u, courant, cc, e, flux, c)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: u(1 - ghosts:, 1 - ghosts:, 1 - ghosts:), cc(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp), intent(in) :: courant
      integer, intent(in) :: e(3)
      real(dp), intent(in) :: flux(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp), intent(inout) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp) :: new
      integer :: i, j, k, im, jm, km
      do k = 1, g%n(3)
         km = k - e(3)
         do j = 1, g%n(2)
            jm = j - e(2)
            do i = 1, g%n(1)
               im = i - e(1)
               new = c(i, j, k) + flux(im, jm, km) - flux(i, j, k) &
                     + cc(i, j, k)*courant*(u(i, j, k) - u(im, jm, km))
               if (new < pure) new = 0
               if (new > 1 - pure) new = 1
               c(i, j, k) = new
            end do
         end do
      end do
   end subroutine sweep

end module vof
