! One line per test, and random numbers that are the same everywhere.
module test_report
   use host, only: dp
   implicit none
   private
   public :: report, failed_tests, start_random, random, random_depth

   integer :: failures = 0, seed = 12345

contains

   ! Print a line; the test passes if measured <= limit.
   subroutine report(name, what, measured, limit)
      character(*), intent(in) :: name, what
      real(dp), intent(in) :: measured, limit
      character(4) :: verdict
      verdict = 'ok  '
      if (.not. measured <= limit) then
         verdict = 'FAIL'
         failures = failures + 1
      end if
      write (*, '(a, 1x, a, 1x, a, es9.2, a, es9.2)') verdict, name, what//':', measured, ' <=', limit
   end subroutine report

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
