! One line per test, random numbers that are the same everywhere, and short runs for the comparison of thread counts.
module test_report
   use host, only: dp, text
   implicit none
   private
   public :: report, failed_tests, start_random, random, random_depth
   public :: start_short_runs, end_short_runs, in_short_runs, run_length, options_of_library, keep

   integer :: failures = 0, seed = 12345
   integer :: short_threads = 0                   ! number of threads of short runs; 0: full runs
   real(dp), allocatable :: kept(:)               ! values of the short runs
   integer, parameter :: short_length = 10        ! steps, more than the orders of the guess

contains

   ! Print a line; the test passes if measured <= limit.
   subroutine report(name, what, measured, limit)
      character(*), intent(in) :: name, what
      real(dp), intent(in) :: measured, limit
      character(4) :: verdict
      if (in_short_runs()) return
      verdict = 'ok  '
      if (.not. measured <= limit) then
         verdict = 'FAIL'
         failures = failures + 1
      end if
      write (*, '(a, 1x, a, 1x, a, es9.2, a, es9.2)') verdict, name, what//':', measured, ' <=', limit
   end subroutine report

   ! From here on, tests make few steps, keep their states instead of reporting, and the library uses so many threads.
   subroutine start_short_runs(threads)
      integer, intent(in) :: threads
      short_threads = threads
      kept = [real(dp) ::]
   end subroutine start_short_runs

   ! values: the states of all short runs since their start.
   subroutine end_short_runs(values)
      real(dp), allocatable, intent(out) :: values(:)
      short_threads = 0
      call move_alloc(kept, values)
   end subroutine end_short_runs

   pure logical function in_short_runs()
      in_short_runs = short_threads > 0
   end function in_short_runs

   pure integer function run_length(steps)
      integer, intent(in) :: steps
      run_length = steps
      if (in_short_runs()) run_length = min(steps, short_length)
   end function run_length

   pure function options_of_library() result(options)
      character(:), allocatable :: options
      options = ''
      if (in_short_runs()) options = 'threads='//text(short_threads)
   end function options_of_library

   subroutine keep(values)
      real(dp), intent(in) :: values(:, :)
      if (in_short_runs()) kept = [kept, reshape(values, [size(values)])]
   end subroutine keep

   integer function failed_tests()
      failed_tests = failures
   end function failed_tests

   subroutine start_random(first)
      integer, intent(in) :: first
      seed = first
   end subroutine start_random

   ! Uniform in (0, 1), the same numbers everywhere.
   real(dp) function random()
      integer, parameter :: wide = selected_int_kind(18)
      seed = int(mod(16807_wide*seed, 2147483647_wide))
      random = seed/2147483647.0_dp
   end function random

   function random_depth(nx, ny, least, most) result(depth)
      integer, intent(in) :: nx, ny
      real(dp), intent(in) :: least, most
      real(dp) :: depth(nx, ny)
      integer :: i, j
      do j = 1, ny
         do i = 1, nx
            depth(i, j) = least + (most - least)*random()
         end do
      end do
   end function random_depth

end module test_report
