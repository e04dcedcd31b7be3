! Up to 16 ships: on a track, moored, or steered. Their motion does not depend on the waves.
! A steered ship has a constant speed V. Its rate of turn r obeys the model of Nomoto (Int. Shipbuilding Progress 4, 1957),
!    T r' + r = K delta,
! with the rudder angle delta, the gain K and the time constant T of the ship. It stops where it runs aground.
module fleet
   use bathymetry, only: depth_grid
   use host, only: dp, pi, refuse
   use ship_pressure, only: add_hull, check_depth, check_track, hull_force, ship
   implicit none
   private
   public :: fleet_ship, most_ships, on_track, moored, steered, check_fleet, follow_tracks, place_fleet, sail
   public :: angle_of_bow

   integer, parameter :: most_ships = 16
   integer, parameter :: on_track = 1, moored = 2, steered = 3

   type :: fleet_ship
      character(:), allocatable :: name
      type(ship) :: hull
      integer :: motion = on_track
      real(dp) :: position(2) = 0                    ! of the middle [m]
      logical :: placed = .false.                    ! the position was given
      real(dp) :: heading = 0                        ! clockwise from north [rad]
      real(dp) :: turning = 0                        ! rate of turn r, clockwise [rad/s]
      real(dp) :: gain = 0.05_dp                     ! K [1/s]
      real(dp) :: time_constant = 20                 ! T [s]
      real(dp), allocatable :: rudder(:, :)          ! (2, n): from time [s] on, angle [rad], positive turns clockwise
      real(dp) :: since = 0                          ! time at which the ship appears [s]
      logical :: aground = .false.
      integer :: box(4) = 1                          ! cells of its pressure
      real(dp) :: force(3) = 0                       ! along the bow [N], to port [N], moment counterclockwise [N m]
   contains
      procedure :: bow
      procedure :: strength
      procedure :: rudder_at
      procedure :: touches_ground
   end type fleet_ship

contains

   ! Unit vector from stern to bow.
   pure function bow(self)
      class(fleet_ship), intent(in) :: self
      real(dp) :: bow(2)
      bow = [sin(self%heading), cos(self%heading)]
   end function bow

   ! Heading of a unit vector, in [0, 2 pi).
   pure real(dp) function angle_of_bow(direction)
      real(dp), intent(in) :: direction(2)
      angle_of_bow = modulo(atan2(direction(1), direction(2)), 2*pi)
   end function angle_of_bow

   pure real(dp) function strength(self, time)
      class(fleet_ship), intent(in) :: self
      real(dp), intent(in) :: time
      strength = self%hull%strength(time - self%since)
   end function strength

   ! The last angle whose time has come; 0 before the first one.
   pure real(dp) function rudder_at(self, time) result(angle)
      class(fleet_ship), intent(in) :: self
      real(dp), intent(in) :: time
      integer :: k
      angle = 0
      if (.not. allocated(self%rudder)) return
      do k = 1, size(self%rudder, 2)
         if (self%rudder(1, k) <= time) angle = self%rudder(2, k)
      end do
   end function rudder_at

   ! Refuse ships that do not float at the start, and tracks that leave the water.
   subroutine check_fleet(ships, grid, h_min)
      type(fleet_ship), intent(in) :: ships(:)
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: h_min
      integer :: k
      do k = 1, size(ships)
         if (ships(k)%motion == on_track) then
            call check_track(ships(k)%hull, grid, h_min)
         else
            call check_depth(ships(k)%hull, grid, h_min, ships(k)%position, 'the position of ship "'//ships(k)%name//'"')
            if (ships(k)%touches_ground(grid, h_min)) call refuse('the hull of ship "'//ships(k)%name//'" touches land,' &
               //' the ground or the end of the grid: bow, stern and sides need a depth of at least the draft and --h-min')
         end if
      end do
   end subroutine check_fleet

   ! Set the sum of the pressures of all ships at the given time, and the force of the waves zeta on each ship.
   subroutine place_fleet(ships, grid, wet, time, zeta, pressure)
      type(fleet_ship), intent(inout) :: ships(:)
      type(depth_grid), intent(in) :: grid
      logical, intent(in) :: wet(:, :)
      real(dp), intent(in) :: time, zeta(:, :)
      real(dp), intent(inout) :: pressure(:, :)
      integer :: k
      do k = 1, size(ships)
         associate (box => ships(k)%box)
            pressure(box(1):box(2), box(3):box(4)) = 0
         end associate
      end do
      call follow_tracks(ships, time)
      do k = 1, size(ships)
         associate (s => ships(k))
            call add_hull(s%hull, grid, wet, s%position, s%bow(), s%strength(time), pressure, s%box)
            s%force = hull_force(s%hull, grid, wet, s%position, s%bow(), s%strength(time), zeta)
         end associate
      end do
   end subroutine place_fleet

   ! Position and heading of the ships on tracks.
   subroutine follow_tracks(ships, time)
      type(fleet_ship), intent(inout) :: ships(:)
      real(dp), intent(in) :: time
      integer :: k
      do k = 1, size(ships)
         associate (s => ships(k))
            if (s%motion /= on_track) cycle
            s%position = s%hull%position(s%hull%speed*time)
            s%heading = angle_of_bow(s%hull%heading(s%hull%speed*time))
         end associate
      end do
   end subroutine follow_tracks

   ! Move the steered ships from `time` to time + dt. The rate of turn is exact for a constant rudder angle; the position
   ! is of second order: the ship sails along the mean of the old and the new heading.
   subroutine sail(ships, grid, h_min, time, dt)
      type(fleet_ship), intent(inout) :: ships(:)
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: h_min, time, dt
      real(dp) :: final, old_turning, old_heading, middle
      integer :: k
      do k = 1, size(ships)
         associate (s => ships(k))
            if (s%motion /= steered .or. s%aground) cycle
            final = s%gain*s%rudder_at(time)
            old_turning = s%turning
            old_heading = s%heading
            s%turning = final + (old_turning - final)*exp(-dt/s%time_constant)
            ! int r dt = K delta dt + T (r_old - r_new)
            s%heading = old_heading + final*dt + s%time_constant*(old_turning - s%turning)
            middle = (old_heading + s%heading)/2
            s%position = s%position + s%hull%speed*dt*[sin(middle), cos(middle)]
            if (s%touches_ground(grid, h_min)) then
               s%aground = .true.
               s%turning = 0
               s%hull%speed = 0
            end if
         end associate
      end do
   end subroutine sail

   ! Whether bow, stern or a side amidships is outside the grid, on land, or in water that is not deep enough.
   pure logical function touches_ground(self, grid, h_min)
      class(fleet_ship), intent(in) :: self
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: h_min
      real(dp) :: along(2), aside(2), points(2, 5)
      integer :: k, i, j
      along = self%hull%length/2*self%bow()
      aside = self%hull%beam/2*[along(2), -along(1)]/norm2(along)
      points = spread(self%position, 2, 5)
      points(:, 2) = points(:, 2) + along
      points(:, 3) = points(:, 3) - along
      points(:, 4) = points(:, 4) + aside
      points(:, 5) = points(:, 5) - aside
      touches_ground = .false.
      do k = 1, 5
         call grid%cell_of(points(1, k), points(2, k), i, j)
         if (i < 1 .or. i > grid%nx .or. j < 1 .or. j > grid%ny) then
            touches_ground = .true.
         else if (grid%depth(i, j) < max(h_min, self%hull%draft)) then
            touches_ground = .true.
         end if
      end do
   end function touches_ground

end module fleet
