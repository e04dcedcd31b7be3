! The command line: names, defaults and checks of every option.
module command_line
   use, intrinsic :: iso_fortran_env, only: output_unit
   use bathymetry, only: parse_real
   use boussinesq, only: profile_cosh, profile_parabola
   use fleet_file, only: read_pairs, without_repetitions
   use host, only: dp, refuse, text
   use psi_solver, only: use_both, use_iccg, use_rrb
   use ship_pressure, only: hull_cosine, hull_gaussian, ship
   implicit none
   private
   public :: settings, read_command_line

   type :: settings
      character(:), allocatable :: grid_file      ! empty: the embedded harbour
      character(:), allocatable :: current_u, current_v      ! files of the current, both empty: no current
      real(dp), allocatable :: flow(:, :)         ! ends of a computed current [m]; not allocated: none
      real(dp) :: discharge = 0                   ! of the computed current [m^3/s]
      character(:), allocatable :: output_folder, rrb_options
      integer :: steps = 350, write_interval = 0, sponge_cells = 15
      integer :: refine = 1                       ! cells per cell of the grid file, in each direction
      integer :: profile = profile_parabola, solver = use_both
      real(dp) :: dt = 0                          ! 0: by the rule
      real(dp) :: h_min = 0.3_dp, rel_tol = 1e-6_dp
      integer :: device = -1                      ! number of a CUDA device; -1: the CPU
      real(dp) :: live = 0                        ! simulated seconds per second of the live view; 0: no live view
      character(:), allocatable :: ships_file       ! empty: the one ship of the options
      type(ship) :: vessel
   end type settings

contains

   subroutine read_command_line(set)
      type(settings), intent(out) :: set
      character(:), allocatable :: name, value, of_one_ship, of_files
      logical :: solver_given
      integer :: k

      solver_given = .false.
      set%grid_file = ''
      set%current_u = ''
      set%current_v = ''
      set%ships_file = ''
      of_one_ship = ''
      of_files = ''
      set%output_folder = 'ship_waves_output'
      set%rrb_options = ''
      k = 1
      do while (k <= command_argument_count())
         call argument(k, name)
         if (name == '--help' .or. name == '-h') then
            call print_help()
            stop 0, quiet=.true.
         end if
         if (name(1:min(2, len(name))) /= '--') &
            call refuse('"'//name//'" is not an option: options start with --, see --help')
         ! --name value or --name=value
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
         call set_option(set, name, value)
         select case (name)
         case ('--track', '--speed', '--length', '--beam', '--draft', '--hull')
            of_one_ship = name
         case ('--steps', '--output', '--write-interval')
            of_files = name
         case ('--solver')
            solver_given = .true.
         end select
         k = k + 1
      end do
      if (set%ships_file /= '' .and. of_one_ship /= '') &
         call refuse('--ships excludes '//of_one_ship//': the file describes all ships')
      if ((set%live > 0 .or. set%device >= 0) .and. .not. solver_given) set%solver = use_rrb
      if (set%device >= 0 .and. set%solver /= use_rrb) call refuse('--device needs --solver rrb')
      if (set%live > 0 .and. of_files /= '') &
         call refuse('--live excludes '//of_files//': a live view ends with its standard input, and writes no files')
      if (set%current_u /= '' .and. set%current_v == '') call refuse('--current-u needs --current-v')
      if (set%current_v /= '' .and. set%current_u == '') call refuse('--current-v needs --current-u')
      if (allocated(set%flow) .neqv. set%discharge > 0) call refuse('--flow and --discharge need each other')
      if (allocated(set%flow) .and. set%current_u /= '') call refuse('--flow excludes --current-u and --current-v')
   end subroutine read_command_line

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
      case ('--grid', '--refine', '--current-u', '--current-v', '--flow', '--discharge', '--steps', '--dt', '--ships', &
            '--length', '--beam', '--draft', '--speed', '--track', '--hull', '--profile', '--h-min', '--sponge', '--solver', &
            '--rrb-options', '--tolerance', '--output', '--write-interval', '--live', '--device')
      case default
         call refuse('unknown option "'//name//'", see --help')
      end select
   end subroutine known

   subroutine set_option(set, name, value)
      type(settings), intent(inout) :: set
      character(*), intent(in) :: name, value
      select case (name)
      case ('--grid')
         if (value == '') call refuse('--grid needs the name of a file')
         set%grid_file = value
      case ('--current-u')
         if (value == '') call refuse('--current-u needs the name of a file')
         set%current_u = value
      case ('--current-v')
         if (value == '') call refuse('--current-v needs the name of a file')
         set%current_v = value
      case ('--ships')
         if (value == '') call refuse('--ships needs the name of a file')
         set%ships_file = value
      case ('--refine')
         set%refine = whole(name, value, 1, 16)
      case ('--steps')
         set%steps = whole(name, value, 1, 100000000)
      case ('--dt')
         set%dt = positive(name, value)
      case ('--length')
         set%vessel%length = positive(name, value)
      case ('--beam')
         set%vessel%beam = positive(name, value)
      case ('--draft')
         set%vessel%draft = positive(name, value)
      case ('--speed')
         set%vessel%speed = number(name, value)
         if (set%vessel%speed < 0) call refuse('--speed must not be negative, got '//value)
      case ('--track')
         call read_track(name, value, set%vessel%track)
      case ('--flow')
         call read_track(name, value, set%flow)
         if (size(set%flow, 2) /= 2) call refuse('--flow must be "x1,y1 x2,y2", got "'//value//'"')
      case ('--discharge')
         set%discharge = positive(name, value)
      case ('--hull')
         select case (value)
         case ('cosine')
            set%vessel%hull = hull_cosine
         case ('gaussian')
            set%vessel%hull = hull_gaussian
         case default
            call refuse('--hull must be cosine or gaussian, got "'//value//'"')
         end select
      case ('--profile')
         select case (value)
         case ('parabola')
            set%profile = profile_parabola
         case ('cosh')
            set%profile = profile_cosh
         case default
            call refuse('--profile must be parabola or cosh, got "'//value//'"')
         end select
      case ('--h-min')
         set%h_min = positive(name, value)
      case ('--sponge')
         set%sponge_cells = whole(name, value, 0, 100000)
      case ('--solver')
         select case (value)
         case ('iccg')
            set%solver = use_iccg
         case ('rrb')
            set%solver = use_rrb
         case ('both')
            set%solver = use_both
         case default
            call refuse('--solver must be iccg, rrb or both, got "'//value//'"')
         end select
      case ('--rrb-options')
         set%rrb_options = value
      case ('--tolerance')
         set%rel_tol = positive(name, value)
         if (set%rel_tol >= 1) call refuse('--tolerance must lie between 0 and 1, got '//value)
      case ('--output')
         if (value == '') call refuse('--output needs the name of a folder')
         set%output_folder = value
      case ('--live')
         set%live = positive(name, value)
      case ('--device')
         set%device = whole(name, value, 0, 1023)
      case ('--write-interval')
         set%write_interval = whole(name, value, 0, 100000000)
      end select
   end subroutine set_option

   real(dp) function number(name, value)
      character(*), intent(in) :: name, value
      logical :: ok
      call parse_real(value, number, ok)
      if (.not. ok) call refuse(name//' must be a number, got "'//value//'"')
   end function number

   real(dp) function positive(name, value)
      character(*), intent(in) :: name, value
      positive = number(name, value)
      if (positive <= 0) call refuse(name//' must be positive, got '//value)
   end function positive

   integer function whole(name, value, least, most)
      character(*), intent(in) :: name, value
      integer, intent(in) :: least, most
      real(dp) :: read_value
      read_value = number(name, value)
      if (abs(read_value - anint(read_value)) > 0 .or. read_value < least .or. read_value > most) &
         call refuse(name//' must be a whole number from '//text(least)//' to '//text(most)//', got '//value)
      whole = nint(read_value)
   end function whole

   ! "x1,y1 x2,y2 ...": at least two different points.
   subroutine read_track(name, value, track)
      character(*), intent(in) :: name, value
      real(dp), allocatable, intent(out) :: track(:, :)
      character(:), allocatable :: form
      logical :: ok
      form = name//' must be "x1,y1 x2,y2 ..." with at least two different points'
      call read_pairs(value, track, ok)
      if (.not. ok) call refuse(form//', got "'//value//'"')
      track = without_repetitions(track)
      if (size(track, 2) < 2) call refuse(form)
   end subroutine read_track

   subroutine print_help()
      write (output_unit, '(a)') &
         'ship_waves: a ship sails through a harbour (linear variational Boussinesq waves).', &
         '', &
         'usage: ship_waves [--option value]...', &
         '', &
         '  --grid FILE            ESRI ASCII grid of depths [m], positive down; without: an embedded harbour', &
         '  --current-u FILE, --current-v FILE   grids of a mean current to the east and north [m/s], with the cells of', &
         '                         the depths; without: no current', &
         '  --flow "x,y x,y" --discharge Q   instead: a potential flow of Q m^3/s from the first point to the second', &
         '  --refine K             K x K cells per cell, with the same coast (1)', &
         '  --track "x,y x,y ..."  way points in the coordinates of the grid [m]; without: the longest straight line', &
         '                         of deep water (embedded harbour: along its fairway)', &
         '  --length --beam --draft L   ship [m] (110, 24, 1)', &
         '  --speed V              [m/s] (8)', &
         '  --hull NAME            cosine (blunt, the default) or gaussian (smooth)', &
         '  --ships FILE           up to 16 ships on tracks, moored or steered, instead of these options (see the guide)', &
         '  --profile NAME         vertical structure: parabola (default) or cosh, exact at the wake''s frequency g/V', &
         '  --steps N              time steps (350)', &
         '  --dt T                 time step [s]; without: the smaller of dx/sqrt(g h_max) and 1.4/omega_max', &
         '  --h-min H              cells shallower than this are land [m] (0.3)', &
         '  --sponge N             cells of absorbing layer along open edges (15); 0: all edges reflect', &
         '  --solver NAME          iccg, rrb or both (default: both solve each step, the rrb solution goes on)', &
         '  --rrb-options "TEXT"   options for rrbsolver, such as "levels=12 threads=1"', &
         '  --tolerance T          relative residual at which the solvers stop (1e-6)', &
         '  --output FOLDER        where files go (ship_waves_output)', &
         '  --write-interval N     a wave field every N steps (0: the last one only)', &
         '  --live F               frames for rrbsolver-live on standard output, commands from standard input, F simulated', &
         '                         seconds per second; the default solver is rrb; no files', &
         '  --device N             compute the waves and solve on CUDA device N (needs --solver rrb, the default then)', &
         '', &
         'Writes waves.vti (ParaView), convergence_iccg.csv, convergence_rrb.csv (first step), forces.csv and table.csv.', &
         'Exit code 0: done; 1: a solver failed or the waves blew up; 2: bad input or unwritable output.'
   end subroutine print_help

end module command_line
