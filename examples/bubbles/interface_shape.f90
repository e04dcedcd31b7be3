! Curvature of the interface by height functions (Popinet, J. Comput. Phys. 228 (2009) 5838-5866), and its area.
module interface_shape
   use grid_fields, only: flow, ghosts, grid, mirror
   use host, only: dp
   use plic, only: interface_normal
   use vof, only: is_mixed
   implicit none
   private
   public :: find_curvature, set_curvature, smooth_twice, surface, no_interface, by_height, by_mean, by_smoothing

   ! Method that determined the curvature of a cell. Methods with smaller numbers are more accurate.
   integer, parameter :: no_interface = 0, by_height = 1, by_mean = 2, by_smoothing = 3

   integer, parameter :: reach = ghosts            ! number of cells of a column on each side of its start
   real(dp), parameter :: empty = 1e-6_dp          ! distance to 0 or 1 at which a column ends

contains

   subroutine find_curvature(f)
      type(flow), intent(inout) :: f
      real(dp), allocatable :: smooth(:, :, :)
      integer :: i, j, k, missing
      logical :: found
      f%kind = no_interface
      f%kappa = 0
      missing = 0
      do k = 1, f%g%n(3)
         do j = 1, f%g%n(2)
            do i = 1, f%g%n(1)
               if (.not. at_interface(f%c, i, j, k)) cycle
               call curvature_by_height(f%g, f%c, [i, j, k], f%kappa(i, j, k), found)
               f%kind(i, j, k) = merge(by_height, by_smoothing, found)
               if (.not. found) missing = missing + 1
            end do
         end do
      end do
      if (missing > 0) then
         call smooth_twice(f%g, f%c, smooth)
         call fill_missing(f, smooth)
      end if
      ! The grid resolves no curvature larger than that of a bubble with a radius of one cell.
      f%kappa = max(min(f%kappa, (f%g%directions - 1)/f%g%h), -(f%g%directions - 1)/f%g%h)
   end subroutine find_curvature

   ! Sets the same curvature in every cell, for tests of the discrete balance of surface tension and pressure.
   subroutine set_curvature(f, kappa)
      type(flow), intent(inout) :: f
      real(dp), intent(in) :: kappa
      f%kappa = kappa
      f%kind = by_height
   end subroutine set_curvature

   ! Returns whether a cell is mixed, or the interface coincides with one of its faces.
   pure logical function at_interface(c, i, j, k)
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer, intent(in) :: i, j, k
      real(dp), parameter :: jump = 1 - 1e-12_dp
      real(dp) :: here
      here = c(i, j, k)
      at_interface = is_mixed(here)
      if (at_interface) return
      at_interface = max(abs(c(i - 1, j, k) - here), abs(c(i + 1, j, k) - here), abs(c(i, j - 1, k) - here), &
                         abs(c(i, j + 1, k) - here), abs(c(i, j, k - 1) - here), abs(c(i, j, k + 1) - here)) >= jump
   end function at_interface

   ! Computes the curvature by height functions. Tries the direction of the largest component of the normal first, then
   ! the others.
   subroutine curvature_by_height(g, c, at, kappa, found)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer, intent(in) :: at(3)
      real(dp), intent(inout) :: kappa
      logical, intent(out) :: found
      real(dp) :: m(3), height(-1:1, -1:1)
      integer :: attempt, d
      m = interface_normal(c(at(1) - 1:at(1) + 1, at(2) - 1:at(2) + 1, at(3) - 1:at(3) + 1))
      found = .false.
      do attempt = 1, 3
         d = maxloc(abs(m), dim=1)
         if (abs(m(d)) <= 0) return
         if (g%active(d)) then
            call heights(g, c, at, d, nint(sign(1.0_dp, m(d))), height, found)
            if (found) then
               kappa = graph_curvature(height)/g%h
               return
            end if
         end if
         m(d) = 0
      end do
   end subroutine curvature_by_height

   ! Curvature of the graph z = H(x, y), minus the divergence of its unit normal, from heights in units of cells:
   !
   !    kappa = -( Hxx (1 + Hy^2) + Hyy (1 + Hx^2) - 2 Hxy Hx Hy ) / (1 + Hx^2 + Hy^2)^(3/2)
   pure real(dp) function graph_curvature(height) result(kappa)
      real(dp), intent(in) :: height(-1:1, -1:1)
      real(dp) :: hx, hy, hxx, hyy, hxy
      hx = (height(1, 0) - height(-1, 0))/2
      hy = (height(0, 1) - height(0, -1))/2
      hxx = height(1, 0) - 2*height(0, 0) + height(-1, 0)
      hyy = height(0, 1) - 2*height(0, 0) + height(0, -1)
      hxy = (height(1, 1) - height(-1, 1) - height(1, -1) + height(-1, -1))/4
      kappa = -(hxx*(1 + hy**2) + hyy*(1 + hx**2) - 2*hxy*hx*hy)/(1 + hx**2 + hy**2)**1.5_dp
   end function graph_curvature

   ! Heights of the nine columns along d around the cell. `found` is false if one column does not end in pure gas and
   ! pure liquid.
   pure subroutine heights(g, c, at, d, toward_liquid, height, found)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer, intent(in) :: at(3), d, toward_liquid
      real(dp), intent(out) :: height(-1:1, -1:1)
      logical, intent(out) :: found
      integer, parameter :: across(2, 3) = reshape([2, 3, 1, 3, 1, 2], [2, 3]), middle_first(3) = [0, -1, 1]
      integer :: p(3), a, b, s, t
      height = 0
      do t = 1, 3
         b = middle_first(t)
         do s = 1, 3
            a = middle_first(s)
            p = at
            p(across(1, d)) = p(across(1, d)) + a
            p(across(2, d)) = p(across(2, d)) + b
            ! In a direction with one cell, all columns are equal.
            if (a /= 0 .and. .not. g%active(across(1, d))) then
               height(a, b) = height(0, b)
            else if (b /= 0 .and. .not. g%active(across(2, d))) then
               height(a, b) = height(a, 0)
            else
               call column(c, p, d, toward_liquid, height(a, b), found)
               if (.not. found) return
            end if
         end do
      end do
   end subroutine heights

   ! Height of the gas in the column through the cell `start`, in units of cells, from the column's end in the gas,
   ! `reach` cells away. The column ends early in pure gas or liquid, or before another interface.
   pure subroutine column(c, start, d, toward_liquid, height, found)
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer, intent(in) :: start(3), d, toward_liquid
      real(dp), intent(out) :: height
      logical, intent(out) :: found
      real(dp) :: last, next
      integer :: p(3), walked

      last = c(start(1), start(2), start(3))
      height = last
      p = start
      do walked = 0, reach - 1
         if (last <= empty) exit
         p(d) = p(d) + toward_liquid
         next = c(p(1), p(2), p(3))
         if (next > last .and. last < 0.5_dp) exit
         height = height + next
         last = next
      end do
      found = walked < reach .or. last <= empty
      if (.not. found) return

      last = c(start(1), start(2), start(3))
      p = start
      do walked = 0, reach - 1
         if (last >= 1 - empty) exit
         p(d) = p(d) - toward_liquid
         next = c(p(1), p(2), p(3))
         if (next < last .and. last > 0.5_dp) exit
         height = height + next
         last = next
      end do
      found = walked < reach .or. last >= 1 - empty
      height = height + (reach - walked)      ! the remaining cells contain only gas
   end subroutine column

   ! Sets the curvature of cells in which height functions failed in all directions: the mean over neighbouring cells
   ! with a curvature by height functions if there are at least two, else the curvature of the smoothed gas fraction.
   subroutine fill_missing(f, smooth)
      type(flow), intent(inout) :: f
      real(dp), intent(in) :: smooth(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer :: i, j, k, lo(3), hi(3), neighbours
      do k = 1, f%g%n(3)
         do j = 1, f%g%n(2)
            do i = 1, f%g%n(1)
               if (f%kind(i, j, k) /= by_smoothing) cycle
               lo = max([i, j, k] - 1, 1)
               hi = min([i, j, k] + 1, f%g%n)
               associate (kinds => f%kind(lo(1):hi(1), lo(2):hi(2), lo(3):hi(3)), &
                          kappas => f%kappa(lo(1):hi(1), lo(2):hi(2), lo(3):hi(3)))
                  neighbours = count(kinds == by_height)
                  if (neighbours >= 2) then
                     f%kappa(i, j, k) = sum(kappas, mask=kinds == by_height)/neighbours
                     f%kind(i, j, k) = by_mean
                  else
                     f%kappa(i, j, k) = normal_divergence(smooth(i - 1:i + 1, j - 1:j + 1, k - 1:k + 1))/f%g%h
                  end if
               end associate
            end do
         end do
      end do
   end subroutine fill_missing

   ! Computes -div(grad s/|grad s|) in the middle cell from the unit normals at its six faces; the cell size is 1.
   pure real(dp) function normal_divergence(s) result(kappa)
      real(dp), intent(in) :: s(-1:1, -1:1, -1:1)
      kappa = -(flux_x(0) - flux_x(-1) + flux_y(0) - flux_y(-1) + flux_z(0) - flux_z(-1))
   contains
      ! Component of grad s/|grad s| normal to the face between the cells i and i + 1. flux_y and flux_z are analogous.
      pure real(dp) function flux_x(i)
         integer, intent(in) :: i
         flux_x = unit(s(i + 1, 0, 0) - s(i, 0, 0), sum(s(i:i + 1, 1, 0) - s(i:i + 1, -1, 0))/4, &
                       sum(s(i:i + 1, 0, 1) - s(i:i + 1, 0, -1))/4)
      end function flux_x
      pure real(dp) function flux_y(j)
         integer, intent(in) :: j
         flux_y = unit(s(0, j + 1, 0) - s(0, j, 0), sum(s(1, j:j + 1, 0) - s(-1, j:j + 1, 0))/4, &
                       sum(s(0, j:j + 1, 1) - s(0, j:j + 1, -1))/4)
      end function flux_y
      pure real(dp) function flux_z(k)
         integer, intent(in) :: k
         flux_z = unit(s(0, 0, k + 1) - s(0, 0, k), sum(s(1, 0, k:k + 1) - s(-1, 0, k:k + 1))/4, &
                       sum(s(0, 1, k:k + 1) - s(0, -1, k:k + 1))/4)
      end function flux_z
      pure real(dp) function unit(normal, along, across)
         real(dp), intent(in) :: normal, along, across
         unit = normal/max(sqrt(normal**2 + along**2 + across**2), tiny(unit))
      end function unit
   end function normal_divergence

   ! Smooths the gas fraction twice with the weights (1 2 1)/4 in each direction.
   subroutine smooth_twice(g, c, s)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp), allocatable, intent(out) :: s(:, :, :)
      real(dp), allocatable :: t(:, :, :)
      integer :: pass, nx, ny, nz
      nx = g%n(1)
      ny = g%n(2)
      nz = g%n(3)
      allocate (s(1 - ghosts:nx + ghosts, 1 - ghosts:ny + ghosts, 1 - ghosts:nz + ghosts))
      allocate (t(nx, ny, nz))
      s = c
      do pass = 1, 2
         t = (s(0:nx - 1, 1:ny, 1:nz) + 2*s(1:nx, 1:ny, 1:nz) + s(2:nx + 1, 1:ny, 1:nz))/4
         s(1:nx, 1:ny, 1:nz) = t
         call mirror(g, s)
         t = (s(1:nx, 0:ny - 1, 1:nz) + 2*s(1:nx, 1:ny, 1:nz) + s(1:nx, 2:ny + 1, 1:nz))/4
         s(1:nx, 1:ny, 1:nz) = t
         call mirror(g, s)
         t = (s(1:nx, 1:ny, 0:nz - 1) + 2*s(1:nx, 1:ny, 1:nz) + s(1:nx, 1:ny, 2:nz + 1))/4
         s(1:nx, 1:ny, 1:nz) = t
         call mirror(g, s)
      end do
   end subroutine smooth_twice

   ! Area of the interface [m^2], or its length [m] in 2D: the integral of |grad s|, where s is the smoothed gas
   ! fraction.
   real(dp) function surface(g, c)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp), allocatable :: s(:, :, :)
      integer :: i, j, k
      call smooth_twice(g, c, s)
      surface = 0
      do k = 1, g%n(3)
         do j = 1, g%n(2)
            do i = 1, g%n(1)
               surface = surface + sqrt((s(i + 1, j, k) - s(i - 1, j, k))**2 + (s(i, j + 1, k) - s(i, j - 1, k))**2 &
                                        + (s(i, j, k + 1) - s(i, j, k - 1))**2)
            end do
         end do
      end do
      surface = surface*g%h**g%directions/(2*g%h)
   end function surface

end module interface_shape
