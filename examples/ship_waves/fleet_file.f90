! The file of --ships. Each line is a key and its values; "ship NAME" begins a ship, # a comment:
!    ship ferry
!    motion track                    # track, moored or steered
!    length 90                       # also beam and draft [m], hull (cosine or gaussian)
!    speed 8                         # [m/s], of track and steered
!    track 385000,6458800 385900,6457900
!    ship pilot
!    motion steered
!    position 385500,6458000         # of moored and steered
!    heading 45                      # degrees clockwise from north, of moored and steered
!    rudder 0,0 30,20                # time [s], angle [degrees]; positive turns to starboard
!    gain 0.05                       # K [1/s]
!    time_constant 20                # T [s]
module fleet_file
   use bathymetry, only: parse_real
   use fleet, only: fleet_ship, moored, most_ships, on_track, steered
   use host, only: dp, pi, refuse, text
   use ship_pressure, only: hull_cosine, hull_gaussian
   implicit none
   private
   public :: read_ships, read_pairs, without_repetitions

   integer, parameter :: longest_line = 4000
   real(dp), parameter :: largest_gain = 1        ! 1/s; ships have 0.01 to 0.2

   ! The line being read, for error messages.
   type :: place
      character(:), allocatable :: file
      integer :: line = 0
   contains
      procedure :: complain
   end type place

contains

   function read_ships(name) result(ships)
      character(*), intent(in) :: name
      type(fleet_ship), allocatable :: ships(:)
      type(fleet_ship) :: new
      type(place) :: here
      character(longest_line + 1) :: line
      character(:), allocatable :: key, value
      integer :: unit, status, blank

      here%file = name
      allocate (ships(0))
      open (newunit=unit, file=name, status='old', action='read', iostat=status)
      if (status /= 0) call refuse('cannot read the file "'//name//'" of --ships')
      do
         read (unit, '(a)', iostat=status) line
         if (status < 0) exit
         here%line = here%line + 1
         if (status > 0) call here%complain('cannot read this line')
         if (len_trim(line) > longest_line) call here%complain('this line is longer than '//text(longest_line)//' characters')
         if (index(line, '#') > 0) line = line(:index(line, '#') - 1)
         do blank = 1, len_trim(line)
            if (line(blank:blank) == achar(9) .or. line(blank:blank) == achar(13)) line(blank:blank) = ' '
         end do
         value = trim(adjustl(line))
         if (value == '') cycle
         blank = index(value//' ', ' ')
         key = value(:blank - 1)
         value = trim(adjustl(value(min(blank, len(value) + 1):)))
         if (value == '') call here%complain(key//' needs a value')
         if (key == 'ship') then
            if (size(ships) == most_ships) call here%complain('more than '//text(most_ships)//' ships')
            if (size(ships) > 0) call check_complete(here, ships(size(ships)))
            if (index(value, ',') > 0) call here%complain('the name of a ship must not contain a comma: "'//value//'"')
            new = fleet_ship(name=value)
            ships = [ships, new]
         else
            if (size(ships) == 0) call here%complain('"'//key//'" before the first "ship NAME"')
            call set_key(here, ships(size(ships)), key, value)
         end if
      end do
      close (unit)
      if (size(ships) == 0) call refuse('the file "'//name//'" of --ships has no ship')
      call check_complete(here, ships(size(ships)))
   end function read_ships

   subroutine complain(here, message)
      class(place), intent(in) :: here
      character(*), intent(in) :: message
      call refuse('ships file "'//here%file//'", line '//text(here%line)//': '//message)
   end subroutine complain

   subroutine set_key(here, s, key, value)
      type(place), intent(in) :: here
      type(fleet_ship), intent(inout) :: s
      character(*), intent(in) :: key, value
      real(dp), allocatable :: pairs(:, :)
      logical :: ok
      select case (key)
      case ('motion')
         select case (value)
         case ('track')
            s%motion = on_track
         case ('moored')
            s%motion = moored
         case ('steered')
            s%motion = steered
         case default
            call here%complain('motion must be track, moored or steered, got "'//value//'"')
         end select
      case ('hull')
         select case (value)
         case ('cosine')
            s%hull%hull = hull_cosine
         case ('gaussian')
            s%hull%hull = hull_gaussian
         case default
            call here%complain('hull must be cosine or gaussian, got "'//value//'"')
         end select
      case ('length')
         s%hull%length = positive(here, key, value)
      case ('beam')
         s%hull%beam = positive(here, key, value)
      case ('draft')
         s%hull%draft = positive(here, key, value)
      case ('speed')
         s%hull%speed = number(here, key, value)
         if (s%hull%speed < 0) call here%complain('speed must not be negative, got '//value)
      case ('heading')
         s%heading = pi/180*number(here, key, value)
      case ('gain')
         s%gain = number(here, key, value)
         if (abs(s%gain) > largest_gain) &
            call here%complain('gain must be from -'//text(largest_gain)//' to '//text(largest_gain)//' 1/s, got '//value)
      case ('time_constant')
         s%time_constant = positive(here, key, value)
      case ('track')
         call read_pairs(value, s%hull%track, ok)
         if (.not. ok) call here%complain('track must be "x1,y1 x2,y2 ...", got "'//value//'"')
         s%hull%track = without_repetitions(s%hull%track)
         if (size(s%hull%track, 2) < 2) call here%complain('track needs at least two different points')
      case ('position')
         call read_pairs(value, pairs, ok)
         if (ok) ok = size(pairs, 2) == 1
         if (.not. ok) call here%complain('position must be "x,y", got "'//value//'"')
         s%position = pairs(:, 1)
         s%placed = .true.
      case ('rudder')
         call read_pairs(value, pairs, ok)
         if (.not. ok) call here%complain('rudder must be "time,angle time,angle ...", got "'//value//'"')
         if (any(abs(pairs(2, :)) > 90)) call here%complain('rudder angles must be from -90 to 90 degrees, got "'//value//'"')
         if (any(pairs(1, 2:) <= pairs(1, :size(pairs, 2) - 1))) &
            call here%complain('the times of rudder must increase, got "'//value//'"')
         s%rudder = pairs
         s%rudder(2, :) = pi/180*pairs(2, :)
      case default
         call here%complain('unknown key "'//key//'"; keys are ship, motion, length, beam, draft, hull, speed, track, ' &
                            //'position, heading, rudder, gain and time_constant')
      end select
   end subroutine set_key

   subroutine check_complete(here, s)
      type(place), intent(in) :: here
      type(fleet_ship), intent(inout) :: s
      select case (s%motion)
      case (on_track)
         if (.not. allocated(s%hull%track)) call here%complain('ship "'//s%name//'" has no track')
         if (s%placed) call here%complain('ship "'//s%name//'" has a track and a position')
      case default
         if (.not. s%placed) call here%complain('ship "'//s%name//'" has no position')
         if (allocated(s%hull%track)) call here%complain('ship "'//s%name//'" has a track, but its motion is not track')
      end select
      if (allocated(s%rudder) .and. s%motion /= steered) &
         call here%complain('ship "'//s%name//'" has a rudder, but its motion is not steered')
      if (s%motion == moored) s%hull%speed = 0
   end subroutine check_complete

   real(dp) function number(here, key, value)
      type(place), intent(in) :: here
      character(*), intent(in) :: key, value
      logical :: ok
      call parse_real(value, number, ok)
      if (.not. ok) call here%complain(key//' must be a number, got "'//value//'"')
   end function number

   real(dp) function positive(here, key, value)
      type(place), intent(in) :: here
      character(*), intent(in) :: key, value
      positive = number(here, key, value)
      if (positive <= 0) call here%complain(key//' must be positive, got '//value)
   end function positive

   ! "a,b c,d ...": pairs(:, k) are the numbers of the k-th pair. ok: there is at least one, and each has two numbers.
   subroutine read_pairs(value, pairs, ok)
      character(*), intent(in) :: value
      real(dp), allocatable, intent(out) :: pairs(:, :)
      logical, intent(out) :: ok
      character(:), allocatable :: rest, pair
      real(dp) :: first, second
      integer :: blank, comma
      logical :: first_ok, second_ok
      allocate (pairs(2, 0))
      rest = trim(adjustl(value))
      ok = len(rest) > 0
      do while (len(rest) > 0)
         blank = index(rest//' ', ' ')
         pair = rest(:blank - 1)
         rest = trim(adjustl(rest(min(blank, len(rest) + 1):)))
         comma = index(pair, ',')
         call parse_real(pair(:comma - 1), first, first_ok)
         call parse_real(pair(comma + 1:), second, second_ok)
         if (comma == 0 .or. .not. (first_ok .and. second_ok)) then
            ok = .false.
            return
         end if
         pairs = reshape([pairs, first, second], [2, size(pairs, 2) + 1])
      end do
   end subroutine read_pairs

   ! The points without those that are equal to the point before.
   pure function without_repetitions(points) result(track)
      real(dp), intent(in) :: points(:, :)
      real(dp), allocatable :: track(:, :)
      integer :: k
      track = points(:, :1)
      do k = 2, size(points, 2)
         if (norm2(points(:, k) - points(:, k - 1)) > 0) &
            track = reshape([track, points(:, k)], [2, size(track, 2) + 1])
      end do
   end function without_repetitions

end module fleet_file
