! Still-water depth on a grid of square cells, from an ESRI ASCII grid or from a formula.
module bathymetry
   use, intrinsic :: iso_fortran_env, only: int64
   use host, only: dp, pi, refuse, text
   implicit none
   private
   public :: depth_grid, read_esri_grid, read_matching_grid, refine_grid, refined, synthetic_harbour, parse_real

   type :: depth_grid
      integer :: nx = 0, ny = 0
      real(dp) :: cell = 0                  ! side of a cell [m]
      real(dp) :: x0 = 0, y0 = 0            ! south-west corner [m]
      real(dp), allocatable :: depth(:, :)  ! (nx, ny), west to east, south to north [m], positive down, <= 0 is land
   contains
      procedure :: cell_of
      procedure :: center_of
   end type depth_grid

   ! The file as one text and the place where the reader stands.
   type :: reader
      character(:), allocatable :: name, content
      integer(int64) :: position = 1
      integer :: line = 1
   contains
      procedure :: next_word
      procedure :: end_of_line
      procedure :: complain
   end type reader

   character(*), parameter :: line_feed = achar(10), carriage_return = achar(13), tab = achar(9)

contains

   ! Cell (i, j) that holds the point (x, y); outside the grid i or j is out of range.
   pure subroutine cell_of(grid, x, y, i, j)
      class(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: x, y
      integer, intent(out) :: i, j
      i = floor(max(-1.0_dp, min((x - grid%x0)/grid%cell, real(grid%nx, dp)))) + 1
      j = floor(max(-1.0_dp, min((y - grid%y0)/grid%cell, real(grid%ny, dp)))) + 1
   end subroutine cell_of

   pure function center_of(grid, i, j) result(point)
      class(depth_grid), intent(in) :: grid
      integer, intent(in) :: i, j
      real(dp) :: point(2)
      point = [grid%x0 + (i - 0.5_dp)*grid%cell, grid%y0 + (j - 0.5_dp)*grid%cell]
   end function center_of

   ! Header of keys and values in any order and case (ncols, nrows, xllcorner or xllcenter, yllcorner or yllcenter,
   ! cellsize, optional nodata_value), then nrows lines of ncols depths, the first line in the north.
   function read_esri_grid(name) result(grid)
      character(*), intent(in) :: name
      type(depth_grid) :: grid
      type(reader) :: file
      character(:), allocatable :: key, word, wrong
      real(dp) :: value, no_data, x_corner, y_corner
      logical :: has_columns, has_rows, has_x, has_y, has_cell, x_is_center, y_is_center, ok
      integer :: i, j, status
      integer(int64) :: start
      integer :: start_line

      call load(name, file)
      has_columns = .false.; has_rows = .false.; has_x = .false.; has_y = .false.; has_cell = .false.
      x_is_center = .false.; y_is_center = .false.
      x_corner = 0; y_corner = 0; no_data = -9999
      do
         start = file%position
         start_line = file%line
         call file%next_word(key)
         do while (len(key) == 0 .and. file%position <= len(file%content, int64))
            call file%end_of_line()
            start = file%position
            start_line = file%line
            call file%next_word(key)
         end do
         if (len(key) == 0) call file%complain('the file ends inside the header')
         if (scan(key(1:1), '+-.0123456789') == 1) then
            file%position = start
            file%line = start_line
            exit
         end if
         key = lower_case(key)
         select case (key)
         case ('ncols', 'nrows', 'xllcorner', 'xllcenter', 'yllcorner', 'yllcenter', 'cellsize', 'nodata_value')
         case default
            call file%complain('"'//printable(key)//'" is not a key of an ESRI ASCII grid')
         end select
         call file%next_word(word)
         call parse_real(word, value, ok)
         if (.not. ok) call file%complain(key//' must be a number, got "'//printable(word)//'"')
         select case (key)
         case ('ncols')
            call extent(value, grid%nx)
            has_columns = .true.
         case ('nrows')
            call extent(value, grid%ny)
            has_rows = .true.
         case ('xllcorner', 'xllcenter')
            x_corner = value
            x_is_center = key == 'xllcenter'
            has_x = .true.
         case ('yllcorner', 'yllcenter')
            y_corner = value
            y_is_center = key == 'yllcenter'
            has_y = .true.
         case ('cellsize')
            if (value <= 0) call file%complain('cellsize must be positive, got '//word)
            grid%cell = value
            has_cell = .true.
         case ('nodata_value')
            no_data = value
         end select
         call file%next_word(word)
         if (len(word) > 0) call file%complain('"'//printable(word)//'" follows the value of '//key)
         call file%end_of_line()
      end do
      wrong = ''
      if (.not. has_columns) wrong = 'ncols'
      if (.not. has_rows) wrong = 'nrows'
      if (.not. has_x) wrong = 'xllcorner'
      if (.not. has_y) wrong = 'yllcorner'
      if (.not. has_cell) wrong = 'cellsize'
      if (wrong /= '') call file%complain('the header lacks '//wrong)
      grid%x0 = x_corner
      grid%y0 = y_corner
      if (x_is_center) grid%x0 = x_corner - grid%cell/2
      if (y_is_center) grid%y0 = y_corner - grid%cell/2

      ! A value takes two characters at least: checked before memory is asked for.
      if (2*int(grid%nx, int64)*int(grid%ny, int64) - 1 > len(file%content, int64)) &
         call file%complain('the file is too short for ncols x nrows = '//text(grid%nx)//' x '//text(grid%ny)//' values')
      allocate (grid%depth(grid%nx, grid%ny), stat=status)
      if (status /= 0) call file%complain('no memory for '//text(grid%nx)//' x '//text(grid%ny)//' values')
      do j = grid%ny, 1, -1
         do i = 1, grid%nx
            call file%next_word(word)
            if (len(word) == 0) then
               if (i == 1 .and. file%position > len(file%content, int64)) &
                  call file%complain('the file has '//text(grid%ny - j)//' rows, the header promises '//text(grid%ny))
               call file%complain('this row has '//text(i - 1)//' values, the header promises '//text(grid%nx))
            end if
            call parse_real(word, value, ok)
            if (.not. ok) call file%complain('value '//text(i)//' is not a number: "'//printable(word)//'"')
            ! Header and rows may print one number to different lengths.
            if (abs(value - no_data) <= 1e-6_dp*abs(no_data)) value = 0
            grid%depth(i, j) = value
         end do
         call file%next_word(word)
         if (len(word) > 0) call file%complain('this row has more than the promised '//text(grid%nx)//' values')
         call file%end_of_line()
      end do
      do while (file%position <= len(file%content, int64))
         call file%next_word(word)
         if (len(word) > 0) call file%complain('the file has more than the promised '//text(grid%ny)//' rows')
         call file%end_of_line()
      end do

   contains

      subroutine extent(number, n)
         real(dp), intent(in) :: number
         integer, intent(out) :: n
         if (number < 1 .or. number > 1e9_dp .or. abs(number - aint(number)) > 0) &
            call file%complain(key//' must be a whole number from 1 to 1000000000, got '//word)
         n = nint(number)
      end subroutine extent

   end function read_esri_grid

   ! Return the values of an ESRI ASCII grid that has the cells of `grid`; values without data are 0.
   function read_matching_grid(name, grid) result(values)
      character(*), intent(in) :: name
      type(depth_grid), intent(in) :: grid
      real(dp), allocatable :: values(:, :)
      type(depth_grid) :: other
      other = read_esri_grid(name)
      if (other%nx /= grid%nx .or. other%ny /= grid%ny) &
         call refuse('grid file "'//name//'": '//text(other%nx)//' x '//text(other%ny)//' values, but the depths have ' &
                     //text(grid%nx)//' x '//text(grid%ny))
      if (abs(other%cell - grid%cell) > 1e-6_dp*grid%cell) &
         call refuse('grid file "'//name//'": cellsize '//text(other%cell)//', but the depths have '//text(grid%cell))
      if (hypot(other%x0 - grid%x0, other%y0 - grid%y0) > 0.01_dp*grid%cell) &
         call refuse('grid file "'//name//'": the south-west corner is ('//text(other%x0)//', '//text(other%y0) &
                     //'), but that of the depths is ('//text(grid%x0)//', '//text(grid%y0)//')')
      call move_alloc(other%depth, values)
   end function read_matching_grid

   ! Divide each cell into k x k cells. The coast does not change.
   subroutine refine_grid(grid, k, h_min)
      type(depth_grid), intent(inout) :: grid
      integer, intent(in) :: k
      real(dp), intent(in) :: h_min
      grid%depth = refined(grid%depth, grid%depth >= h_min, k)
      grid%nx = k*grid%nx
      grid%ny = k*grid%ny
      grid%cell = grid%cell/k
   end subroutine refine_grid

   ! Return values at the centers of k x k cells per cell. A new cell is wet if the cell around it is. Its value is
   ! bilinear between the four nearest centers, restricted to wet cells:
   !    sum w_q v_q / sum w_q,   w_q = (1 - |x - x_q|/dx) (1 - |y - y_q|/dy),   q: wet cells among the four.
   ! The cell around it is one of them, and its weight is at least 1/4. New cells on land have the value of their cell.
   function refined(values, wet, k) result(fine)
      real(dp), intent(in) :: values(:, :)
      logical, intent(in) :: wet(:, :)
      integer, intent(in) :: k
      real(dp), allocatable :: fine(:, :)
      real(dp) :: x, y, sums(2)
      integer :: i, j, i_side, j_side, a, b, status, nx, ny
      nx = size(values, 1)
      ny = size(values, 2)
      allocate (fine(k*nx, k*ny), stat=status)
      if (status /= 0) call refuse('no memory for '//text(k*nx)//' x '//text(k*ny)//' cells: choose a smaller --refine')
      do j = 1, k*ny
         call find_sides(j, y, j_side)
         do i = 1, k*nx
            call find_sides(i, x, i_side)
            a = (i - 1)/k + 1
            b = (j - 1)/k + 1
            fine(i, j) = values(a, b)
            if (.not. wet(a, b)) cycle
            sums = 0
            call add(a, b, (1 - x)*(1 - y))
            call add(a + i_side, b, x*(1 - y))
            call add(a, b + j_side, (1 - x)*y)
            call add(a + i_side, b + j_side, x*y)
            fine(i, j) = sums(1)/sums(2)
         end do
      end do

   contains

      ! away: distance from the center of the cell, in cell widths; side: direction of the next center.
      subroutine find_sides(number, away, side)
         integer, intent(in) :: number
         real(dp), intent(out) :: away
         integer, intent(out) :: side
         away = (modulo(number - 1, k) + 0.5_dp)/k - 0.5_dp
         side = merge(1, -1, away > 0)
         away = abs(away)
      end subroutine find_sides

      subroutine add(m, n, weight)
         integer, intent(in) :: m, n
         real(dp), intent(in) :: weight
         if (m < 1 .or. m > nx .or. n < 1 .or. n > ny) return
         if (wet(m, n)) sums = sums + weight*[values(m, n), 1.0_dp]
      end subroutine add

   end function refined

   subroutine load(name, file)
      character(*), intent(in) :: name
      type(reader), intent(out) :: file
      integer :: unit, status
      integer(int64) :: length

      file%name = name
      open (newunit=unit, file=name, access='stream', form='unformatted', status='old', action='read', iostat=status)
      if (status /= 0) call refuse('cannot read the grid file "'//name//'"')
      inquire (unit=unit, size=length)
      if (length < 1) call refuse('the grid file "'//name//'" is empty or not a file')
      allocate (character(length) :: file%content, stat=status)
      if (status /= 0) call refuse('no memory to read the grid file "'//name//'"')
      read (unit, iostat=status) file%content
      if (status /= 0) call refuse('cannot read the grid file "'//name//'"')
      close (unit)
      if (length > 1) then
         if (iachar(file%content(1:1)) == 31 .and. iachar(file%content(2:2)) == 139) &
            call refuse('the grid file "'//name//'" is compressed: unpack it first (gunzip)')
      end if
   end subroutine load

   ! The next word of this line, empty at the line's end.
   subroutine next_word(file, word)
      class(reader), intent(inout) :: file
      character(:), allocatable, intent(out) :: word
      integer(int64) :: first, last
      first = file%position
      do while (first <= len(file%content, int64))
         if (.not. is_blank(file%content(first:first))) exit
         first = first + 1
      end do
      last = first
      do while (last <= len(file%content, int64))
         if (is_blank(file%content(last:last)) .or. file%content(last:last) == line_feed) exit
         last = last + 1
      end do
      word = file%content(first:last - 1)
      file%position = last
   end subroutine next_word

   subroutine end_of_line(file)
      class(reader), intent(inout) :: file
      file%position = file%position + 1
      file%line = file%line + 1
   end subroutine end_of_line

   subroutine complain(file, message)
      class(reader), intent(in) :: file
      character(*), intent(in) :: message
      call refuse('grid file "'//file%name//'", line '//text(file%line)//': '//message)
   end subroutine complain

   pure logical function is_blank(c)
      character, intent(in) :: c
      is_blank = c == ' ' .or. c == tab .or. c == carriage_return
   end function is_blank

   ! A decimal number and nothing else (no lists, no repeat counts, no NaN, as Fortran's own reading would allow).
   pure subroutine parse_real(word, value, ok)
      character(*), intent(in) :: word
      real(dp), intent(out) :: value
      logical, intent(out) :: ok
      real(dp), parameter :: power(0:15) = [1e0_dp, 1e1_dp, 1e2_dp, 1e3_dp, 1e4_dp, 1e5_dp, 1e6_dp, 1e7_dp, 1e8_dp, 1e9_dp, &
                                            1e10_dp, 1e11_dp, 1e12_dp, 1e13_dp, 1e14_dp, 1e15_dp]
      integer :: k, status, digits, decimals
      integer(int64) :: mantissa
      logical :: point

      ! Short plain numbers exactly and fast: an integer below 10^15 divided by a power of ten is rounded once.
      value = 0
      mantissa = 0
      digits = 0
      decimals = 0
      point = .false.
      ok = len(word) > 0
      do k = 1, len(word)
         select case (word(k:k))
         case ('0':'9')
            mantissa = 10*mantissa + (iachar(word(k:k)) - iachar('0'))
            digits = digits + 1
            if (point) decimals = decimals + 1
         case ('.')
            if (point) ok = .false.
            point = .true.
         case ('+', '-')
            if (k > 1) ok = .false.
         case default
            ok = .false.
         end select
         if (digits > 15) ok = .false.
         if (.not. ok) exit
      end do
      if (ok .and. digits > 0) then
         value = real(mantissa, dp)/power(decimals)
         if (word(1:1) == '-') value = -value
         return
      end if
      ok = .false.
      if (len(word) == 0 .or. len(word) > 64) return
      if (verify(word, '+-.0123456789eEdD') > 0 .or. scan(word, '0123456789') == 0) return
      ! Fortran reads 1-2 as 1e-2.
      do k = 2, len(word)
         if (scan(word(k:k), '+-') == 1 .and. scan(word(k - 1:k - 1), 'eEdD') == 0) return
      end do
      ! The exponent first: a number too large must not raise an exception.
      k = scan(word, 'eEdD')
      if (k > 0) then
         if (len(word) - k > 4) return
         read (word(k + 1:), *, iostat=status) decimals
         if (status /= 0) return
         if (decimals + k > 300) return
      end if
      read (word, *, iostat=status) value
      ok = status == 0
      if (.not. ok) value = 0
   end subroutine parse_real

   pure function lower_case(word) result(lower)
      character(*), intent(in) :: word
      character(len(word)) :: lower
      integer :: k
      lower = word
      do k = 1, len(word)
         if (word(k:k) >= 'A' .and. word(k:k) <= 'Z') lower(k:k) = achar(iachar(word(k:k)) + 32)
      end do
   end function lower_case

   ! The word for an error message: at most 24 characters, none of them unprintable.
   pure function printable(word) result(shown)
      character(*), intent(in) :: word
      character(min(len(word), 24)) :: shown
      integer :: k
      shown = word
      do k = 1, len(shown)
         if (iachar(shown(k:k)) < 32 .or. iachar(shown(k:k)) > 126) shown(k:k) = '?'
      end do
   end function printable

   ! A harbour of 500 x 400 cells of 5 m: a coast in the south, two breakwaters, an island, a dredged channel from the
   ! open sea to a basin with quays and two piers.
   function synthetic_harbour() result(grid)
      type(depth_grid) :: grid
      integer :: i, j
      real(dp) :: x, y
      grid%nx = 500
      grid%ny = 400
      grid%cell = 5
      allocate (grid%depth(grid%nx, grid%ny))
      do j = 1, grid%ny
         y = (j - 0.5_dp)*grid%cell
         do i = 1, grid%nx
            x = (i - 0.5_dp)*grid%cell
            grid%depth(i, j) = harbour_depth(x, y)
         end do
      end do
   end function synthetic_harbour

   pure real(dp) function harbour_depth(x, y) result(h)
      real(dp), intent(in) :: x, y
      real(dp) :: coast, away, rim
      real(dp), parameter :: fairway(2, 4) = reshape( &
         [2520.0_dp, 1710.0_dp, 1490.0_dp, 990.0_dp, 1240.0_dp, 750.0_dp, 940.0_dp, 580.0_dp], [2, 4])
      real(dp), parameter :: west_arm(2, 4) = reshape( &
         [675.0_dp, 200.0_dp, 690.0_dp, 720.0_dp, 900.0_dp, 970.0_dp, 1345.0_dp, 1085.0_dp], [2, 4])
      real(dp), parameter :: east_arm(2, 4) = reshape( &
         [2025.0_dp, 200.0_dp, 2010.0_dp, 580.0_dp, 1850.0_dp, 780.0_dp, 1610.0_dp, 885.0_dp], [2, 4])

      ! Sea bed: a beach that falls to 14 m, with gentle banks.
      coast = 150 + 70*sin(2*pi*x/1900 + 0.6_dp) + 25*sin(2*pi*x/620)
      away = (y - coast)/1100
      h = -4 + 18*smooth_step(away + 0.16_dp) + 0.8_dp*sin(2*pi*x/830)*sin(2*pi*y/710)*smooth_step(2*away)
      ! Harbour basin, dredged to 11 m, and the fairway, to 15.5 m; both end in a slope.
      rim = min(x - 700, 2000 - x, y - 250, 950 - y)
      h = max(h, 11*smooth_step((rim + 30)/60))
      h = max(h, h + (15.5_dp - h)*smooth_step((150 - distance(fairway, x, y))/75))
      ! Island with a flat beach.
      rim = hypot((x - 520)/230, (y - 1400)/150) + 0.10_dp*sin(3*atan2(y - 1400, x - 520))
      h = min(h, 26*(rim - 1))
      ! Quay, piers and breakwaters stand up with vertical walls.
      if (x > 675 .and. x < 2025 .and. y < 260) h = -3
      if (x > 1440 .and. x < 1500 .and. y < 510) h = -3
      if (x > 1720 .and. x < 1780 .and. y < 510) h = -3
      if (min(distance(west_arm, x, y), distance(east_arm, x, y)) < 17) h = -3
   end function harbour_depth

   ! Distance from (x, y) to a line through points.
   pure real(dp) function distance(points, x, y)
      real(dp), intent(in) :: points(:, :), x, y
      real(dp) :: along, step(2), from(2)
      integer :: k
      distance = huge(distance)
      do k = 1, size(points, 2) - 1
         step = points(:, k + 1) - points(:, k)
         from = [x, y] - points(:, k)
         along = max(0.0_dp, min(1.0_dp, dot_product(from, step)/dot_product(step, step)))
         distance = min(distance, norm2(from - along*step))
      end do
   end function distance

   pure real(dp) function smooth_step(s)
      real(dp), intent(in) :: s
      real(dp) :: t
      t = max(0.0_dp, min(1.0_dp, s))
      smooth_step = t*t*(3 - 2*t)
   end function smooth_step

end module bathymetry
