! The command line: names, defaults and checks of every option.
module command_line
   use, intrinsic :: iso_fortran_env, only: output_unit
   use bubbles_case, only: known_problems, named_problem, problem, set_cells_across
   use host, only: dp, parse_real, refuse, text
   use pictures, only: slice_fraction, slice_pressure, slice_speed
   use pressure, only: guess_extrapolated, guess_previous, guess_zero, use_both, use_dpcg, use_iccg
   implicit none
   private
   public :: settings, read_command_line

   type :: settings
      type(problem) :: of
      character(:), allocatable :: output_folder, dpcg_options
      integer :: steps = huge(1), write_interval = 0, system_step = 0
      integer :: solver = use_both, guess = guess_previous, slice = slice_fraction
      logical :: regions = .false.
      real(dp) :: rel_tol = 1e-6_dp, table_interval = 0
   end type settings

contains

   subroutine read_command_line(set)
      type(settings), intent(out) :: set
      character(:), allocatable :: name, value
      integer :: k

      set%output_folder = 'bubbles_output'
      set%dpcg_options = ''
      set%of = named_problem('case1')
      ! The case is set first, because other options change it.
      k = 1
      do while (next_option(k, name, value))
         if (name == '--case') set%of = named_problem(value)
      end do
      k = 1
      do while (next_option(k, name, value))
         call set_option(set, name, value)
      end do
      if (set%table_interval <= 0) set%table_interval = set%of%end_time/30
      if (set%solver /= use_iccg) return
      if (set%regions) call refuse('--regions bubbles needs --solver dpcg or both')
      if (len(set%dpcg_options) > 0) call refuse('--dpcg-options needs --solver dpcg or both')
   end subroutine read_command_line

   ! Reads the option at argument k, `--name value` or `--name=value`. Returns .false. after the last argument.
   logical function next_option(k, name, value)
      integer, intent(inout) :: k
      character(:), allocatable, intent(out) :: name, value
      next_option = k <= command_argument_count()
      if (.not. next_option) return
      call argument(k, name)
      if (name == '--help' .or. name == '-h') then
         call print_help()
         stop 0, quiet=.true.
      end if
      if (name(1:min(2, len(name))) /= '--') &
         call refuse('"'//name//'" is not an option: options start with --, see --help')
      if (index(name, '=') > 0) then
         value = name(index(name, '=') + 1:)
         name = name(:index(name, '=') - 1)
         call known(name)
      else
         call known(name)
         if (k == command_argument_count()) call refuse(name//' needs a value')
         k = k + 1
         call argument(k, value)
      end if
      k = k + 1
   end function next_option

   subroutine argument(k, value)
      integer, intent(in) :: k
      character(:), allocatable, intent(out) :: value
      integer :: length
      call get_command_argument(k, length=length)
      allocate (character(length) :: value)
      call get_command_argument(k, value)
   end subroutine argument

   subroutine known(name)
      character(*), intent(in) :: name
      select case (name)
      case ('--case', '--nx', '--end', '--steps', '--viscosity', '--solver', '--dpcg-options', '--regions', '--guess', &
            '--tolerance', '--output', '--table-interval', '--write-interval', '--slice', '--write-system')
      case default
         call refuse('unknown option "'//name//'", see --help')
      end select
   end subroutine known

   subroutine set_option(set, name, value)
      type(settings), intent(inout) :: set
      character(*), intent(in) :: name, value
      select case (name)
      case ('--nx')
         call set_cells_across(set%of, whole(name, value, 8, 512))
      case ('--end')
         set%of%end_time = positive(name, value)
      case ('--steps')
         set%steps = whole(name, value, 1, 100000000)
      case ('--viscosity')
         set%of%of%harmonic = chosen(name, value, ['arithmetic', 'harmonic  ']) == 2
      case ('--solver')
         set%solver = chosen(name, value, ['iccg', 'dpcg', 'both'])
      case ('--dpcg-options')
         set%dpcg_options = value
      case ('--regions')
         set%regions = chosen(name, value, ['none   ', 'bubbles']) == 2
      case ('--guess')
         set%guess = chosen(name, value, ['zero        ', 'previous    ', 'extrapolated'])
      case ('--slice')
         set%slice = chosen(name, value, ['c    ', 'speed', 'p    '])
      case ('--tolerance')
         set%rel_tol = positive(name, value)
         if (set%rel_tol >= 1) call refuse('--tolerance must lie between 0 and 1, got '//value)
      case ('--output')
         if (value == '') call refuse('--output needs the name of a folder')
         set%output_folder = value
      case ('--table-interval')
         set%table_interval = positive(name, value)
      case ('--write-interval')
         set%write_interval = whole(name, value, 0, 100000000)
      case ('--write-system')
         set%system_step = whole(name, value, 1, 100000000)
      end select
   end subroutine set_option

   ! Returns the position of the value in the list `words`. The constants use_iccg, guess_zero, slice_fraction and so on
   ! number the words in this order.
   integer function chosen(name, value, words)
      character(*), intent(in) :: name, value, words(:)
      character(:), allocatable :: list
      integer :: k
      list = trim(words(1))
      do chosen = 1, size(words)
         if (value == words(chosen) .and. value /= '') return
      end do
      do k = 2, size(words)
         list = list//', '//trim(words(k))
      end do
      call refuse(name//' must be one of '//list//'; got "'//value//'"')
   end function chosen

   real(dp) function positive(name, value)
      character(*), intent(in) :: name, value
      logical :: ok
      call parse_real(value, positive, ok)
      if (.not. ok) call refuse(name//' must be a number, got "'//value//'"')
      if (positive <= 0) call refuse(name//' must be positive, got '//value)
   end function positive

   integer function whole(name, value, least, most)
      character(*), intent(in) :: name, value
      integer, intent(in) :: least, most
      real(dp) :: read_value
      logical :: ok
      call parse_real(value, read_value, ok)
      if (.not. ok) call refuse(name//' must be a number, got "'//value//'"')
      if (abs(read_value - anint(read_value)) > 0 .or. read_value < least .or. read_value > most) &
         call refuse(name//' must be a whole number from '//text(least)//' to '//text(most)//', got '//value)
      whole = nint(read_value)
   end function whole

   subroutine print_help()
      write (output_unit, '(a)') &
         'bubbles: gas bubbles rise in a liquid (volume of fluid, projection method).', &
         '', &
         'usage: bubbles [--option value]...', &
         '', &
         '  --case NAME            '//known_problems//' (case1)', &
         '  --nx N                 cells across the box; without: the smallest grid of the case', &
         '  --end T                end of the simulated time [s]; without: that of the case', &
         '  --steps N              at most so many steps', &
         '  --viscosity NAME       means of the viscosity: arithmetic, harmonic; without: harmonic where the gas has', &
         '                         the larger kinematic viscosity', &
         '  --solver NAME          iccg, dpcg or both (default: both solve each step, the dpcg solution goes on)', &
         '  --dpcg-options "TEXT"  options for rrbsolver, such as "preconditioner=neumann deflation=levelset"', &
         '  --regions NAME         deflation regions for dpcg: none (its own choice, the default) or bubbles', &
         '  --guess NAME           start of the iterations: zero, previous (the pressure of the last step, the', &
         '                         default), extrapolated', &
         '  --tolerance T          relative residual at which the solvers stop (1e-6)', &
         '  --output FOLDER        where files go (bubbles_output)', &
         '  --table-interval T     a line of the tables every T seconds of the flow; without: 30 lines in all', &
         '  --write-interval N     fields and pictures every N steps (0: of the last one only)', &
         '  --slice NAME           field of the slice: c (gas fraction, the default), speed, p', &
         '  --write-system N       writes the pressure system of step N', &
         '', &
         'Writes flow.vti (ParaView), slice.ppm, interface.ppm (in space only), table.csv, bubbles.csv, solvers.csv.', &
         'Exit code 0: done; 1: a solver failed or the flow blew up; 2: bad input or unwritable output.'
   end subroutine print_help

end module command_line
