! The live view: the run at the pace of the wall clock, frames on the standard output, commands on the standard input.
!
! A frame is the line "frame BYTES JSON" and BYTES bytes of elevations in units of 0.25 mm (integer(int16) in the byte order
! of the machine) of the cells in the window, row by row from the south-west. The keys of JSON are named in put_frame.
! Each command is a line; ships are numbered from 1:
!    rudder SHIP DEGREES         positive turns to starboard
!    speed SHIP METRES_PER_SECOND
!    ship X Y DEGREES            a new steered ship at (X, Y) with this heading, clockwise from north
!    pause on|off
!    window X0 Y0 X1 Y1 COLUMNS ROWS     the part of the grid that is seen, with at most so many elevations
! Other lines are reported on the error channel and ignored. The run ends with its standard input.
module live
   use, intrinsic :: iso_fortran_env, only: int16
   use bathymetry, only: depth_grid, parse_real
   use fleet, only: fleet_ship, most_ships, steered
   use host, only: dp, give_up, log_line, pi, read_input, seconds, text, wait_for_input, write_output
   use psi_solver, only: use_iccg
   use ship_pressure, only: ship
   use simulation, only: simulated
   implicit none
   private
   public :: run_live

   real(dp), parameter :: unit = 0.25e-3_dp              ! m of an elevation in a frame
   integer(int16), parameter :: land = -huge(0_int16)
   real(dp), parameter :: frame_interval = 1/30.0_dp     ! s of the wall clock
   real(dp), parameter :: patience = 0.25_dp             ! s of the wall clock: a run that is later does not catch up
   real(dp), parameter :: fastest = 20                   ! m/s
   integer, parameter :: most_columns = 4096, most_rows = 2160, longest_line = 200, most_words = 7

   type :: live_view
      logical :: ended = .false., paused = .false.
      character(:), allocatable :: rest                  ! characters after the last complete line
      integer :: commands = 0                            ! number of lines read
      integer :: first(2) = 1, last(2) = 0, stride = 1   ! cells of the window, and of which each stride-th is shown
      integer(int16), allocatable :: heights(:)
      real(dp) :: next_frame = 0                         ! wall clock [s]
      real(dp) :: wall_start = 0, time_start = 0         ! a pair of times of the wall clock and of the simulation [s]
      real(dp) :: measured_at = 0, measured_time = 0, measured_factor = 0, measured_solve = 0
      real(dp) :: solve_seconds = 0                      ! of the last solve
   end type live_view

contains

   ! factor: simulated seconds per second of the wall clock.
   subroutine run_live(sim, factor)
      type(simulated), intent(inout) :: sim
      real(dp), intent(in) :: factor
      type(live_view) :: view
      real(dp) :: due, late
      logical :: aground(most_ships)

      view%rest = ''
      call set_window(view, sim, whole_grid(sim%grid), most_columns, most_rows)
      call report_current(sim)
      call set_clock(view, sim)
      view%measured_at = view%wall_start
      aground = .false.
      do while (.not. view%ended)
         due = view%wall_start + (sim%state%time - view%time_start)/factor
         late = seconds() - due
         if (view%paused .or. late < 0) then
            call wait(view, sim, due)
            cycle
         end if
         if (late > patience) call set_clock(view, sim)
         call take_commands(view, sim, 0.0_dp)
         call sim%place_ships()
         call sim%make_step()
         if (sim%state%blown_up) call give_up('the waves blew up at t = '//text(sim%state%time)//' s')
         call report_grounding(sim, aground)
         call put_frame_when_due(view, sim)
      end do
   end subroutine run_live

   subroutine report_current(sim)
      type(simulated), intent(in) :: sim
      if (.not. allocated(sim%state%current)) return
      if (sim%state%current%limited > 0) call log_line('the current is reduced at ' &
         //text(sim%state%current%limited)//' faces, where it is faster than 0.9 of the speed of the shortest waves')
   end subroutine report_current

   ! Let the simulation continue from now on.
   subroutine set_clock(view, sim)
      type(live_view), intent(inout) :: view
      type(simulated), intent(in) :: sim
      view%wall_start = seconds()
      view%time_start = sim%state%time
   end subroutine set_clock

   ! Wait for a command until the next step or the next frame is due. A run that pauses shows frames too.
   subroutine wait(view, sim, due)
      type(live_view), intent(inout) :: view
      type(simulated), intent(inout) :: sim
      real(dp), intent(in) :: due
      real(dp) :: until
      until = view%next_frame
      if (.not. view%paused) until = min(due, until)
      call take_commands(view, sim, until - seconds())
      call put_frame_when_due(view, sim)
   end subroutine wait

   subroutine report_grounding(sim, reported)
      type(simulated), intent(in) :: sim
      logical, intent(inout) :: reported(most_ships)
      integer :: k
      do k = 1, size(sim%ships)
         if (sim%ships(k)%aground .and. .not. reported(k)) call log_line(sim%ships(k)%name//' ran aground')
         reported(k) = sim%ships(k)%aground
      end do
   end subroutine report_grounding

   ! Obey all lines that are there, after waiting for them at most `time` seconds.
   subroutine take_commands(view, sim, time)
      type(live_view), intent(inout) :: view
      type(simulated), intent(inout) :: sim
      real(dp), intent(in) :: time
      character(:), allocatable :: new
      integer :: break
      if (.not. wait_for_input(time)) return
      new = read_input()
      if (len(new) == 0) then
         view%ended = .true.
         return
      end if
      view%rest = view%rest//new
      do
         break = index(view%rest, new_line('a'))
         if (break == 0) exit
         view%commands = view%commands + 1
         call obey(view, sim, view%rest(:break - 1))
         view%rest = view%rest(break + 1:)
      end do
      if (len(view%rest) > longest_line) then
         call log_line('ignored '//text(len(view%rest))//' characters of input without the end of a line')
         view%rest = ''
      end if
   end subroutine take_commands

   subroutine obey(view, sim, line)
      type(live_view), intent(inout) :: view
      type(simulated), intent(inout) :: sim
      character(*), intent(in) :: line
      character(:), allocatable :: problem
      character(longest_line) :: word(most_words)
      real(dp) :: number(most_words)
      logical :: is_number(most_words)
      integer :: words, k
      call split(line, word, words)
      do k = 1, most_words
         call parse_real(trim(word(k)), number(k), is_number(k))
      end do
      problem = 'it has another form than the known commands'
      select case (trim(word(1)))
      case ('rudder', 'speed')
         if (words == 3 .and. all(is_number(2:3))) problem = steer(sim%ships, trim(word(1)), number(2), number(3))
      case ('ship')
         if (words == 4 .and. all(is_number(2:4))) problem = add_ship(sim, number(2:3), number(4))
      case ('pause')
         if (words == 2 .and. (word(2) == 'on' .or. word(2) == 'off')) then
            problem = ''
            view%paused = word(2) == 'on'
            if (.not. view%paused) call set_clock(view, sim)
         end if
      case ('window')
         if (words == 7 .and. all(is_number(2:7))) then
            problem = ''
            call set_window(view, sim, number(2:5), bounded(number(6), most_columns), bounded(number(7), most_rows))
         end if
      end select
      if (problem /= '') call log_line('ignored the command "'//printable(line)//'": '//problem)
   end subroutine obey

   ! The words of a line; words: their number, which is most_words + 1 if there are more.
   pure subroutine split(line, word, words)
      character(*), intent(in) :: line
      character(longest_line), intent(out) :: word(most_words)
      integer, intent(out) :: words
      character(:), allocatable :: rest
      integer :: blank
      word = ''
      words = 0
      rest = trim(adjustl(line))
      do while (len(rest) > 0)
         words = words + 1
         if (words > most_words) return
         blank = index(rest//' ', ' ')
         word(words) = rest(:blank - 1)
         rest = trim(adjustl(rest(min(blank, len(rest) + 1):)))
      end do
   end subroutine split

   ! The first characters of a line, with a question mark for each that a terminal would not show.
   pure function printable(line) result(shown)
      character(*), intent(in) :: line
      character(:), allocatable :: shown
      integer :: k
      shown = line(:min(len(line), 60))
      do k = 1, len(shown)
         if (iachar(shown(k:k)) < 32 .or. iachar(shown(k:k)) > 126) shown(k:k) = '?'
      end do
   end function printable

   pure integer function bounded(value, most)
      real(dp), intent(in) :: value
      integer, intent(in) :: most
      bounded = int(min(max(value, 1.0_dp), real(most, dp)))
   end function bounded

   ! Returns why the order is ignored, or an empty text.
   function steer(ships, order, number, value) result(problem)
      type(fleet_ship), intent(inout) :: ships(:)
      character(*), intent(in) :: order
      real(dp), intent(in) :: number, value
      character(:), allocatable :: problem
      problem = ''
      if (.not. (number >= 1 .and. number <= size(ships)) .or. abs(number - aint(number)) > 0) then
         problem = 'ships are numbered from 1 to '//text(size(ships))
         return
      end if
      associate (s => ships(int(number)))
         if (s%motion /= steered) then
            problem = 'this ship is not steered'
         else if (s%aground) then
            problem = 'this ship is aground'
         else if (order == 'rudder' .and. abs(value) <= 90) then
            s%rudder = reshape([-huge(value), pi/180*value], [2, 1])
         else if (order == 'speed' .and. value >= 0 .and. value <= fastest) then
            s%hull%speed = value
         else if (order == 'rudder') then
            problem = 'rudder angles are from -90 to 90 degrees'
         else
            problem = 'speeds are from 0 to '//text(fastest)//' m/s'
         end if
      end associate
   end function steer

   ! A ship like the first one. Returns why it is not added, or an empty text.
   function add_ship(sim, position, degrees) result(problem)
      type(simulated), intent(inout) :: sim
      real(dp), intent(in) :: position(2), degrees
      character(:), allocatable :: problem
      type(fleet_ship) :: new
      type(ship) :: default
      problem = ''
      if (size(sim%ships) == most_ships) then
         problem = 'there are '//text(most_ships)//' ships'
         return
      end if
      new = fleet_ship(name='ship '//text(size(sim%ships) + 1), hull=sim%ships(1)%hull, motion=steered, position=position, &
                       placed=.true., heading=pi/180*degrees, since=sim%state%time)
      if (allocated(new%hull%track)) deallocate (new%hull%track)
      if (new%hull%speed <= 0) new%hull%speed = default%speed      ! the first ship is moored or aground
      if (new%touches_ground(sim%grid, sim%h_min)) then
         problem = 'this ship would be aground there'
         return
      end if
      sim%ships = [sim%ships, new]
   end function add_ship

   ! West, south, east and north end [m].
   pure function whole_grid(grid) result(ends)
      type(depth_grid), intent(in) :: grid
      real(dp) :: ends(4)
      ends = [grid%x0, grid%y0, grid%x0 + grid%nx*grid%cell, grid%y0 + grid%ny*grid%cell]
   end function whole_grid

   ! Show the cells between the corners, or all cells if there is none, by at most so many elevations.
   subroutine set_window(view, sim, corners, columns, rows)
      type(live_view), intent(inout) :: view
      type(simulated), intent(in) :: sim
      real(dp), intent(in) :: corners(4)
      integer, intent(in) :: columns, rows
      integer :: cells(2), shown(2)
      call sim%grid%cell_of(corners(1), corners(2), view%first(1), view%first(2))
      call sim%grid%cell_of(corners(3), corners(4), view%last(1), view%last(2))
      view%first = max(view%first, 1)
      view%last = min(view%last, [sim%grid%nx, sim%grid%ny])
      if (any(view%last < view%first)) then
         view%first = 1
         view%last = [sim%grid%nx, sim%grid%ny]
      end if
      cells = view%last - view%first + 1
      view%stride = max((cells(1) + columns - 1)/columns, (cells(2) + rows - 1)/rows)
      shown = (cells + view%stride - 1)/view%stride
      if (allocated(view%heights)) deallocate (view%heights)
      allocate (view%heights(shown(1)*shown(2)))
   end subroutine set_window

   subroutine put_frame_when_due(view, sim)
      type(live_view), intent(inout) :: view
      type(simulated), intent(in) :: sim
      if (seconds() < view%next_frame) return
      view%next_frame = max(view%next_frame + frame_interval, seconds())
      call measure(view, sim)
      call put_heights(view, sim)
      call put_frame(view, sim)
   end subroutine put_frame_when_due

   ! Simulated seconds per second, and seconds per solve, over about one second.
   subroutine measure(view, sim)
      type(live_view), intent(inout) :: view
      type(simulated), intent(in) :: sim
      real(dp) :: now, solved
      now = seconds()
      if (now - view%measured_at < 1) return
      associate (rrb => sim%system%of_rrb, iccg => sim%system%of_iccg)
         solved = rrb%solve_seconds + iccg%solve_seconds
         view%measured_factor = (sim%state%time - view%measured_time)/(now - view%measured_at)
         if (sim%state%time > view%measured_time) view%solve_seconds = (solved - view%measured_solve) &
            /nint((sim%state%time - view%measured_time)/sim%state%dt)
      end associate
      view%measured_at = now
      view%measured_time = sim%state%time
      view%measured_solve = solved
   end subroutine measure

   subroutine put_heights(view, sim)
      type(live_view), intent(inout) :: view
      type(simulated), intent(in) :: sim
      integer :: i, j, k
      real(dp), parameter :: limit = huge(0_int16) - 1
      if (sim%device%used) then
         call sim%device%frame(view%first, (view%last - view%first)/view%stride + 1, view%stride, unit, view%heights)
         return
      end if
      k = 0
      do j = view%first(2), view%last(2), view%stride
         do i = view%first(1), view%last(1), view%stride
            k = k + 1
            view%heights(k) = land
            if (sim%model%wet(i, j)) &
               view%heights(k) = int(nint(max(-limit, min(limit, sim%state%zeta(i, j)/unit))), int16)
         end do
      end do
   end subroutine put_heights

   ! t [s], factor (simulated seconds per second), iterations and ms of a solve, paused, commands (number of lines read),
   ! columns and rows of elevations, x and y (south-west corner of the window [m]), cell (distance of elevations [m]),
   ! scale (m per unit of elevation), extent (west, south, east, north end of the grid [m]), ships.
   subroutine put_frame(view, sim)
      type(live_view), intent(inout) :: view
      type(simulated), intent(in) :: sim
      character(:), allocatable :: json, separator
      real(dp) :: corner(2), cell, ends(4)
      integer :: shown(2), k, iterations
      associate (grid => sim%grid)
         ends = whole_grid(grid)
         iterations = sim%system%of_rrb%last_iterations
         if (sim%system%solver == use_iccg) iterations = sim%system%of_iccg%last_iterations
         shown = (view%last - view%first)/view%stride + 1
         cell = grid%cell*view%stride
         ! The elevation of a cell is drawn in the middle of a square of `cell` metres.
         corner = grid%center_of(view%first(1), view%first(2)) - cell/2
         json = '{"t":'//text(sim%state%time)//',"factor":'//text(view%measured_factor)//',"iterations":'//text(iterations) &
            //',"ms":'//text(1e3_dp*view%solve_seconds)//',"paused":'//json_logical(view%paused)//',"commands":' &
            //text(view%commands)//',"columns":'//text(shown(1))//',"rows":'//text(shown(2))//',"x":'//text(corner(1)) &
            //',"y":'//text(corner(2))//',"cell":'//text(cell)//',"scale":'//text(unit)//',"extent":['//text(ends(1))//',' &
            //text(ends(2))//','//text(ends(3))//','//text(ends(4))//'],"ships":['
      end associate
      separator = ''
      do k = 1, size(sim%ships)
         json = json//separator//json_ship(sim%ships(k), sim%state%time)
         separator = ','
      end do
      json = json//']}'
      if (.not. write_output('frame '//text(2*size(view%heights))//' '//json, view%heights)) view%ended = .true.
   end subroutine put_frame

   ! x, y [m], heading [degrees clockwise from north], length, beam [m], speed [m/s], rudder [degrees], steered, aground,
   ! force (along the bow, to port [N]), moment (counterclockwise [N m]).
   function json_ship(s, time) result(json)
      type(fleet_ship), intent(in) :: s
      real(dp), intent(in) :: time
      character(:), allocatable :: json
      json = '{"x":'//text(s%position(1))//',"y":'//text(s%position(2))//',"heading":' &
         //text(modulo(s%heading, 2*pi)*180/pi)//',"length":'//text(s%hull%length)//',"beam":'//text(s%hull%beam) &
         //',"speed":'//text(s%hull%speed)//',"rudder":'//text(s%rudder_at(time)*180/pi)//',"steered":' &
         //json_logical(s%motion == steered)//',"aground":'//json_logical(s%aground)//',"force":['//text(s%force(1))//',' &
         //text(s%force(2))//'],"moment":'//text(s%force(3))//'}'
   end function json_ship

   pure function json_logical(value) result(word)
      logical, intent(in) :: value
      character(:), allocatable :: word
      word = 'false'
      if (value) word = 'true'
   end function json_logical

end module live
