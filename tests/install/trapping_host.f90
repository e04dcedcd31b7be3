! A Fortran host that traps invalid operations, divisions by zero, overflows and underflows (-ffpe-trap). It solves on
! closed basins with 30 % land, with every storage format and cycle. After every call and in the monitor, halting modes
! and exception flags must be unchanged.
module watch
   use, intrinsic :: ieee_arithmetic
   use, intrinsic :: iso_c_binding, only: dp => c_double
   implicit none
   integer :: calls = 0
contains
   subroutine check(place)
      character(*), intent(in) :: place
      logical :: halting(4), raised(5)
      call ieee_get_halting_mode([ieee_invalid, ieee_divide_by_zero, ieee_overflow, ieee_underflow], halting)
      call ieee_get_flag(ieee_all, raised)
      if (.not. all(halting)) error stop 'a trap is off after '//place
      if (any(raised)) error stop 'a flag is raised after '//place
   end subroutine check

   function monitor(iteration, relative_residual) result(stop_now)
      integer, intent(in) :: iteration
      real(dp), intent(in) :: relative_residual
      logical :: stop_now
      call check('an iteration')
      calls = calls + 1
      stop_now = iteration > 1000 .or. relative_residual < 0
      call ieee_set_flag(ieee_all, .false.)
   end function monitor
end module watch

program trapping_host
   use rrbsolver
   use watch
   use, intrinsic :: iso_fortran_env, only: int64
   implicit none
   integer, parameter :: n = 40
   character(5), parameter :: precisions(5) = ['auto ', 'f64  ', 'f32  ', 'bf16 ', 'mixed']
   character(4), parameter :: cycles(3) = ['v   ', 'amli', 'k   ']
   real(dp), dimension(n, n) :: center, east, north, b, x
   logical :: wet(0:n+1, 0:n+1)
   type(rrb_solver) :: solver
   integer(int64) :: seed
   integer :: basin, p, c, status
   seed = 1
   do basin = 1, 3
      call make_basin()
      do p = 1, size(precisions)
         do c = 1, size(cycles)
            call quiet()
            call solver%create(n, n)
            call check('create')
            call solver%set('precision='//trim(precisions(p))//' cycle='//trim(cycles(c))//' threads=2')
            call check('set')
            call solver%set_monitor(monitor)
            call solver%factorize(center, east, north, stat=status)
            call check('factorize')
            if (status /= 0) error stop 'factorize'
            x = 0
            call quiet()
            call solver%solve(b, x, stat=status)
            call check('solve')
            if (status < 0) error stop 'solve'
            call solver%destroy()
            call check('destroy')
         end do
      end do
   end do
   if (calls == 0) error stop 'no monitor was called'
   print '(a,i0,a)', 'trapping host: ', calls, ' iterations, all as before'
   call quiet()
contains
   ! Clears the flags that the host itself has raised.
   subroutine quiet()
      call ieee_set_flag(ieee_all, .false.)
   end subroutine quiet

   ! Returns a pseudorandom integer from 0 to 99.
   integer function random_percent()
      seed = iand(seed*1103515245_int64 + 12345_int64, 2147483647_int64)
      random_percent = int(mod(seed/65536_int64, 100_int64))
   end function random_percent

   subroutine make_basin()
      integer :: i, j
      wet = .false.
      do j = 1, n
         do i = 1, n
            wet(i, j) = random_percent() >= 30
         end do
      end do
      do j = 1, n
         do i = 1, n
            east(i, j) = merge(-1, 0, wet(i, j) .and. wet(i+1, j))
            north(i, j) = merge(-1, 0, wet(i, j) .and. wet(i, j+1))
            b(i, j) = merge(random_percent() - 50, 0, wet(i, j))
         end do
      end do
      do j = 1, n
         do i = 1, n
            center(i, j) = count([wet(i-1, j), wet(i+1, j), wet(i, j-1), wet(i, j+1)])
            if (.not. wet(i, j) .or. center(i, j) < 0.5_dp) center(i, j) = 1
         end do
      end do
   end subroutine make_basin
end program trapping_host
