! Writes pictures in the portable pixmap format: the middle slice of a field, and a 3D view of the interface.
module pictures
   use grid_fields, only: flow, ghosts, grid
   use host, only: dp, text
   use output, only: output_file
   implicit none
   private
   public :: write_slice, write_interface_view, slice_fraction, slice_speed, slice_pressure

   integer, parameter :: slice_fraction = 1, slice_speed = 2, slice_pressure = 3
   integer, parameter :: width = 400      ! pixels across the box

   type :: picture
      integer :: columns = 0, rows = 0
      integer, allocatable :: pixel(:, :, :)      ! red, green, blue; column from the left; row from the top
   end type picture

   interface
      ! Returns the colour of a value in 0..1.
      pure function colour_map(value) result(colour)
         import :: dp
         real(dp), intent(in) :: value
         real(dp) :: colour(3)
      end function colour_map
   end interface

contains

   ! Writes the slice at half the extent in y. Slices of speed and pressure show the interface as a dark line.
   subroutine write_slice(name, f, p, what)
      character(*), intent(in) :: name
      type(flow), intent(in) :: f
      real(dp), intent(in) :: p(:, :, :)
      integer, intent(in) :: what
      real(dp) :: field(f%g%n(1), f%g%n(3)), gas(f%g%n(1), f%g%n(3))
      integer :: middle, i, k
      middle = (f%g%n(2) + 1)/2
      gas = f%c(1:f%g%n(1), middle, 1:f%g%n(3))
      select case (what)
      case (slice_speed)
         do k = 1, f%g%n(3)
            do i = 1, f%g%n(1)
               field(i, k) = norm2(f%u(i, middle, k, :) + [f%u(i - 1, middle, k, 1), f%u(i, middle - 1, k, 2), &
                                                           f%u(i, middle, k - 1, 3)])/2
            end do
         end do
         call paint(name, field/max(maxval(field), tiny(1.0_dp)), gas, heat, .true.)
      case (slice_pressure)
         field = p(:, middle, :)
         field = (field - minval(field))/max(maxval(field) - minval(field), tiny(1.0_dp))
         call paint(name, field, gas, cold_warm, .true.)
      case default
         call paint(name, gas, gas, water, .false.)
      end select
   end subroutine write_slice

   subroutine paint(name, field, gas, colours, outline)
      character(*), intent(in) :: name
      real(dp), intent(in) :: field(:, :), gas(:, :)
      procedure(colour_map) :: colours
      logical, intent(in) :: outline
      type(picture) :: image
      real(dp) :: x, z, cell, rgb(3)
      integer :: column, row
      cell = real(width, dp)/size(field, 1)
      call make_picture(image, width, nint(cell*size(field, 2)))
      do row = 1, image%rows
         do column = 1, image%columns
            x = (column - 0.5_dp)/cell
            z = (image%rows - row + 0.5_dp)/cell
            rgb = colours(bilinear(field, x, z))
            ! Draws the interface (gas fraction 1/2) as a line with a width of about two pixels.
            if (outline) then
               if (abs(bilinear(gas, x, z) - 0.5_dp) < 1.2_dp/cell) rgb = 0.1_dp
            end if
            image%pixel(:, column, row) = nint(255*rgb)
         end do
      end do
      call write_picture(name, image)
   end subroutine paint

   ! Bilinear interpolation between cell centres. x and z are in units of cells, from the corner of the box.
   pure real(dp) function bilinear(field, x, z) result(value)
      real(dp), intent(in) :: field(:, :), x, z
      real(dp) :: s, t
      integer :: i, k, i1, k1
      i = floor(x + 0.5_dp)
      k = floor(z + 0.5_dp)
      s = x + 0.5_dp - i
      t = z + 0.5_dp - k
      i1 = min(i + 1, size(field, 1))
      k1 = min(k + 1, size(field, 2))
      i = max(i, 1)
      k = max(k, 1)
      value = (1 - t)*((1 - s)*field(i, k) + s*field(i1, k)) + t*((1 - s)*field(i, k1) + s*field(i1, k1))
   end function bilinear

   pure function water(value) result(colour)
      real(dp), intent(in) :: value
      real(dp) :: colour(3)
      colour = (1 - value)*[0.10_dp, 0.33_dp, 0.56_dp] + value*[0.96_dp, 0.97_dp, 0.98_dp]
   end function water

   pure function heat(value) result(colour)
      real(dp), intent(in) :: value
      real(dp) :: colour(3)
      colour = min(max(3*(1 - value) - [0, 1, 2], 0.0_dp), 1.0_dp)
   end function heat

   pure function cold_warm(value) result(colour)
      real(dp), intent(in) :: value
      real(dp) :: colour(3)
      real(dp), parameter :: cold(3) = [0.23_dp, 0.30_dp, 0.75_dp], warm(3) = [0.71_dp, 0.02_dp, 0.15_dp]
      if (value < 0.5_dp) then
         colour = (1 - 2*value)*cold + 2*value*0.9_dp
      else
         colour = (2*value - 1)*warm + (2 - 2*value)*0.9_dp
      end if
   end function cold_warm

   ! Writes a view of the surface c = 1/2 by parallel rays, from slightly below. The light comes from the viewer's left.
   subroutine write_interface_view(name, g, c)
      character(*), intent(in) :: name
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      real(dp), parameter :: turn = 0.5_dp, lift = 0.25_dp      ! [rad]
      type(picture) :: image
      real(dp) :: right(3), up(3), away(3), center(3), corner(3), across, aloft, start(3), scale
      integer :: column, row
      right = [cos(turn), sin(turn), 0.0_dp]
      away = [-sin(turn)*cos(lift), cos(turn)*cos(lift), sin(lift)]
      up = [sin(turn)*sin(lift), -cos(turn)*sin(lift), cos(lift)]
      corner = g%n
      center = corner/2
      across = dot_product(abs(right), corner)      ! extents of the projected box, in cells
      aloft = dot_product(abs(up), corner)
      scale = width/across
      call make_picture(image, width, nint(scale*aloft))
      do row = 1, image%rows
         do column = 1, image%columns
            start = center + right*((column - 0.5_dp)/scale - across/2) + up*(aloft/2 - (row - 0.5_dp)/scale)
            image%pixel(:, column, row) = nint(255*ray_colour(g, c, start, right, up, away))
         end do
      end do
      call write_picture(name, image)
   end subroutine write_interface_view

   ! Colour of a ray: follows the ray through the box in steps of half a cell up to the surface.
   function ray_colour(g, c, middle, right, up, away) result(colour)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:), middle(3), right(3), up(3), away(3)
      real(dp), parameter :: step = 0.5_dp, background(3) = [0.93_dp, 0.95_dp, 0.97_dp]
      real(dp) :: colour(3), near, far, t, here, before, normal(3)
      integer :: d
      logical :: inside
      colour = background
      ! Parameters at which the ray enters and leaves the box.
      near = -huge(near)
      far = huge(far)
      do d = 1, 3
         near = max(near, min(-middle(d)/away(d), (g%n(d) - middle(d))/away(d)))
         far = min(far, max(-middle(d)/away(d), (g%n(d) - middle(d))/away(d)))
      end do
      if (near >= far) return
      colour = 0.96_dp*background
      before = trilinear(c, middle + near*away)
      inside = before > 0.5_dp
      t = near + step
      do while (t < far)
         here = trilinear(c, middle + t*away)
         if ((here > 0.5_dp) .neqv. inside) then
            t = t - step*(here - 0.5_dp)/(here - before)
            normal = gradient(c, middle + t*away)
            if (inside) normal = -normal
            colour = shade(normal, right, up, away)
            return
         end if
         before = here
         t = t + step
      end do
   end function ray_colour

   ! Colour of the surface by diffuse reflection and a specular highlight.
   pure function shade(normal, right, up, away) result(colour)
      real(dp), intent(in) :: normal(3), right(3), up(3), away(3)
      real(dp) :: colour(3), n(3), light(3), half(3)
      n = -normal/max(norm2(normal), tiny(1.0_dp))      ! out of the gas, against the ray
      light = (-right + up - 1.5_dp*away)/norm2(-right + up - 1.5_dp*away)
      half = (light - away)/norm2(light - away)
      colour = [0.25_dp, 0.52_dp, 0.75_dp]*(0.35_dp + 0.65_dp*max(dot_product(n, light), 0.0_dp)) &
               + 0.5_dp*max(dot_product(n, half), 0.0_dp)**30
      colour = min(colour, 1.0_dp)
   end function shade

   pure real(dp) function trilinear(c, x) result(value)
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:), x(3)
      real(dp) :: t(3), v(2, 2)
      integer :: p(3)
      p = floor(x + 0.5_dp)
      t = x + 0.5_dp - p
      v = (1 - t(1))*c(p(1), p(2):p(2) + 1, p(3):p(3) + 1) + t(1)*c(p(1) + 1, p(2):p(2) + 1, p(3):p(3) + 1)
      value = (1 - t(3))*((1 - t(2))*v(1, 1) + t(2)*v(2, 1)) + t(3)*((1 - t(2))*v(1, 2) + t(2)*v(2, 2))
   end function trilinear

   pure function gradient(c, x) result(slope)
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:), x(3)
      real(dp) :: slope(3), e(3)
      integer :: d
      do d = 1, 3
         e = 0
         e(d) = 1
         slope(d) = trilinear(c, x + e) - trilinear(c, x - e)
      end do
   end function gradient

   subroutine make_picture(image, columns, rows)
      type(picture), intent(out) :: image
      integer, intent(in) :: columns, rows
      image%columns = columns
      image%rows = rows
      allocate (image%pixel(3, columns, rows), source=0)
   end subroutine make_picture

   subroutine write_picture(name, image)
      character(*), intent(in) :: name
      type(picture), intent(in) :: image
      type(output_file) :: file
      character(:), allocatable :: line
      integer :: column, row, k
      call file%start(name)
      call file%line('P6')
      call file%line(text(image%columns)//' '//text(image%rows))
      call file%line('255')
      allocate (character(3*image%columns) :: line)
      do row = 1, image%rows
         do column = 1, image%columns
            do k = 1, 3
               line(3*(column - 1) + k:3*(column - 1) + k) = achar(min(max(image%pixel(k, column, row), 0), 255))
            end do
         end do
         call file%bytes(line)
      end do
      call file%finish()
   end subroutine write_picture

end module pictures
