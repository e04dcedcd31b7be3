! The ship: a pressure patch of the hull's shape that follows a track of way points.
module ship_pressure
   use bathymetry, only: depth_grid
   use host, only: dp, gravity, pi, refuse, text
   implicit none
   private
   public :: ship, hull_cosine, hull_gaussian, hull_shape, place_ship, add_hull, cells_of_hull, hull_force
   public :: check_track, check_depth, longest_straight_track

   integer, parameter :: hull_cosine = 1, hull_gaussian = 2

   type :: ship
      real(dp) :: length = 110, beam = 24, draft = 1, speed = 8   ! m, m, m, m/s
      integer :: hull = hull_cosine
      real(dp) :: ramp = 10                                      ! the draft grows and fades over this time [s]
      real(dp), allocatable :: track(:, :)                       ! (2, points), map coordinates [m]
   contains
      procedure :: track_length
      procedure :: position
      procedure :: heading
      procedure :: strength
   end type ship

contains

   pure real(dp) function track_length(self)
      class(ship), intent(in) :: self
      integer :: k
      track_length = 0
      do k = 1, size(self%track, 2) - 1
         track_length = track_length + norm2(self%track(:, k + 1) - self%track(:, k))
      end do
   end function track_length

   ! The point at distance s along the track; the first and last legs go on straight.
   pure function position(self, s) result(point)
      class(ship), intent(in) :: self
      real(dp), intent(in) :: s
      real(dp) :: point(2), leg(2), left
      integer :: k
      left = s
      k = 1
      leg = self%track(:, 2) - self%track(:, 1)
      do while (left > norm2(leg) .and. k < size(self%track, 2) - 1)
         left = left - norm2(leg)
         k = k + 1
         leg = self%track(:, k + 1) - self%track(:, k)
      end do
      point = self%track(:, k) + left*leg/norm2(leg)
   end function position

   ! Unit vector from stern to bow, both on the track: the ship turns smoothly at a way point.
   pure function heading(self, s) result(direction)
      class(ship), intent(in) :: self
      real(dp), intent(in) :: s
      real(dp) :: direction(2)
      direction = self%position(s + self%length/2) - self%position(s - self%length/2)
      if (norm2(direction) <= 0) direction = [1.0_dp, 0.0_dp]
      direction = direction/norm2(direction)
   end function heading

   ! 0 at the start, 1 after the ramp; at the end of the track the ship fades away over the same time.
   pure real(dp) function strength(self, time)
      class(ship), intent(in) :: self
      real(dp), intent(in) :: time
      real(dp) :: last
      strength = ramp_at(time)
      if (allocated(self%track) .and. self%speed > 0) then
         last = self%track_length()/self%speed
         strength = strength*(1 - ramp_at(time - last))
      end if
   contains
      pure real(dp) function ramp_at(t)
         real(dp), intent(in) :: t
         ramp_at = 1
         if (t < self%ramp) ramp_at = sin(pi/2*max(t, 0.0_dp)/self%ramp)**2
      end function ramp_at
   end function strength

   ! s of P_s = g T s(X) s(Y). cosine: 1 on the inner 60 % of the half length, cos^2 down to 0 at its end.
   pure real(dp) function hull_shape(hull, x, extent)
      integer, intent(in) :: hull
      real(dp), intent(in) :: x, extent
      real(dp) :: s
      if (hull == hull_gaussian) then
         hull_shape = exp(-(3*x/extent)**2)
      else
         s = 2*abs(x)/extent
         if (s <= 0.6_dp) then
            hull_shape = 1
         else if (s < 1) then
            hull_shape = cos(pi/2*(s - 0.6_dp)/0.4_dp)**2
         else
            hull_shape = 0
         end if
      end if
   end function hull_shape

   ! pressure = P_s/rho [m^2/s^2] at the given time, 0 on land. box: the cells that may be nonzero, (i1, i2, j1, j2);
   ! those of the call before are cleared first.
   subroutine place_ship(self, grid, wet, time, pressure, box)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      logical, intent(in) :: wet(:, :)
      real(dp), intent(in) :: time
      real(dp), intent(inout) :: pressure(:, :)
      integer, intent(inout) :: box(4)
      pressure(box(1):box(2), box(3):box(4)) = 0
      call add_hull(self, grid, wet, self%position(self%speed*time), self%heading(self%speed*time), self%strength(time), &
                    pressure, box)
   end subroutine place_ship

   ! Add the pressure of the hull at `middle` with the unit vector `bow` from stern to bow. box: the cells of the hull.
   subroutine add_hull(self, grid, wet, middle, bow, strength, pressure, box)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      logical, intent(in) :: wet(:, :)
      real(dp), intent(in) :: middle(2), bow(2), strength
      real(dp), intent(inout) :: pressure(:, :)
      integer, intent(out) :: box(4)
      integer :: i, j
      box = cells_of_hull(self, grid, middle)
      do j = box(3), box(4)
         do i = box(1), box(2)
            if (wet(i, j)) pressure(i, j) = pressure(i, j) + strength*hull_pressure(self, grid, i, j, middle, bow)
         end do
      end do
   end subroutine add_hull

   ! First and last column, first and last row of the cells that the hull can cover.
   pure function cells_of_hull(self, grid, middle) result(box)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: middle(2)
      integer :: box(4)
      real(dp) :: reach
      reach = hypot(self%length, self%beam)/2
      if (self%hull == hull_gaussian) reach = 4*reach      ! exp(-(3 * 4/2)^2) = 2e-16
      call grid%cell_of(middle(1) - reach, middle(2) - reach, box(1), box(3))
      call grid%cell_of(middle(1) + reach, middle(2) + reach, box(2), box(4))
      box = [max(box(1), 1), min(box(2), grid%nx), max(box(3), 1), min(box(4), grid%ny)]
   end function cells_of_hull

   ! P_s/rho at the center of cell (i, j), without the ramp.
   pure real(dp) function hull_pressure(self, grid, i, j, middle, bow)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      integer, intent(in) :: i, j
      real(dp), intent(in) :: middle(2), bow(2)
      real(dp) :: from(2)
      from = grid%center_of(i, j) - middle
      hull_pressure = gravity*self%draft*hull_shape(self%hull, dot_product(from, bow), self%length) &
                      *hull_shape(self%hull, bow(1)*from(2) - bow(2)*from(1), self%beam)
   end function hull_pressure

   ! Force [N] of the water on the hull along the bow and to port, and its moment [N m] about the middle, positive
   ! counterclockwise, from the pressure and the slope of the surface: F = -rho int P_s grad zeta dA. For steady waves this
   ! is the wave resistance: the work V F of the pressure per second becomes energy of the waves.
   pure function hull_force(self, grid, wet, middle, bow, strength, zeta) result(force)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      logical, intent(in) :: wet(:, :)
      real(dp), intent(in) :: middle(2), bow(2), strength, zeta(:, :)
      real(dp) :: force(3)
      real(dp), parameter :: density = 1000      ! kg/m^3
      real(dp) :: part(2), from(2)
      integer :: i, j, box(4)
      force = 0
      box = cells_of_hull(self, grid, middle)
      do j = box(3), box(4)
         do i = box(1), box(2)
            if (.not. wet(i, j)) cycle
            part = -density*grid%cell**2*strength*hull_pressure(self, grid, i, j, middle, bow)*slope(i, j)
            from = grid%center_of(i, j) - middle
            force = force + [dot_product(part, bow), bow(1)*part(2) - bow(2)*part(1), from(1)*part(2) - from(2)*part(1)]
         end do
      end do

   contains

      ! grad zeta by differences between the wet neighbours; 0 in a direction without one.
      pure function slope(i, j)
         integer, intent(in) :: i, j
         real(dp) :: slope(2)
         integer :: west, east, south, north
         west = max(i - 1, 1)
         east = min(i + 1, grid%nx)
         south = max(j - 1, 1)
         north = min(j + 1, grid%ny)
         if (.not. wet(west, j)) west = i
         if (.not. wet(east, j)) east = i
         if (.not. wet(i, south)) south = j
         if (.not. wet(i, north)) north = j
         slope = [(zeta(east, j) - zeta(west, j))/(max(east - west, 1)*grid%cell), &
                  (zeta(i, north) - zeta(i, south))/(max(north - south, 1)*grid%cell)]
      end function slope

   end function hull_force

   ! Refuses a track that leaves the grid or on which the ship runs aground.
   subroutine check_track(self, grid, h_min)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: h_min
      real(dp) :: total
      integer :: k, points
      total = self%track_length()
      points = ceiling(2*total/grid%cell)
      do k = 0, points
         call check_depth(self, grid, h_min, self%position(k*total/max(points, 1)), 'the track')
      end do
   end subroutine check_track

   ! Refuses a point outside the grid, on land, or not deep enough for the ship.
   subroutine check_depth(self, grid, h_min, point, what)
      type(ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: h_min, point(2)
      character(*), intent(in) :: what
      character(:), allocatable :: at
      integer :: i, j
      at = '('//text(point(1))//', '//text(point(2))//')'
      call grid%cell_of(point(1), point(2), i, j)
      if (i < 1 .or. i > grid%nx .or. j < 1 .or. j > grid%ny) call refuse(what//' leaves the grid at '//at)
      if (grid%depth(i, j) < h_min) call refuse(what//' meets land at '//at)
      if (grid%depth(i, j) < self%draft) &
         call refuse('the ship runs aground at '//at//': depth '//text(grid%depth(i, j))//' m, draft '//text(self%draft) &
                     //' m')
   end subroutine check_depth

   ! Where no track is given: the longest straight line (24 directions, up to `wanted` long) through water deeper than
   ! twice the draft, at least half a ship's length of such water ahead and astern and a beam to each side.
   subroutine longest_straight_track(self, grid, wanted, found)
      type(ship), intent(inout) :: self
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: wanted
      logical, intent(out) :: found
      integer, parameter :: directions = 24, starts = 80
      real(dp) :: direction(2), side(2), point(2), best, length, reach
      integer :: i, j, k, stride, step
      real(dp) :: first(2), last(2)

      first = 0
      last = 0
      reach = max(wanted, grid%cell)        ! a ship at rest needs a direction too
      best = min(reach, self%length)/2
      found = .false.
      stride = max(1, max(grid%nx, grid%ny)/starts)
      do k = 0, directions - 1
         direction = [cos(2*pi*k/directions), sin(2*pi*k/directions)]
         side = self%beam*[-direction(2), direction(1)]
         do j = 1, grid%ny, stride
            do i = 1, grid%nx, stride
               point = [grid%x0 + (i - 0.5_dp)*grid%cell, grid%y0 + (j - 0.5_dp)*grid%cell]
               do step = 0, ceiling((reach + self%length)/grid%cell)
                  if (.not. (afloat(point) .and. afloat(point + side) .and. afloat(point - side))) exit
                  point = point + grid%cell*direction
               end do
               length = (step - 1)*grid%cell - self%length
               if (length > best) then
                  best = length
                  found = .true.
                  last = point - (grid%cell + self%length/2)*direction
                  first = last - length*direction
               end if
            end do
         end do
      end do
      if (found) self%track = reshape([first, last], [2, 2])

   contains

      logical function afloat(at)
         real(dp), intent(in) :: at(2)
         integer :: m, n
         call grid%cell_of(at(1), at(2), m, n)
         afloat = m >= 1 .and. m <= grid%nx .and. n >= 1 .and. n <= grid%ny
         if (afloat) afloat = grid%depth(m, n) > 2*self%draft
      end function afloat

   end subroutine longest_straight_track

end module ship_pressure
