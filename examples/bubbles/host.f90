! Kinds of numbers, error messages, conversion between numbers and text, and functions of the C library that Fortran
! lacks.
module host
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_null_char
   use, intrinsic :: iso_fortran_env, only: error_unit, int64
   implicit none
   private
   public :: dp, pi, refuse, give_up, text, fixed, scientific, parse_real
   public :: make_folder, rename_file, delete_file, seconds

   interface text
      module procedure text_of_int, text_of_long
   end interface text

   integer, parameter :: dp = c_double
   real(dp), parameter :: pi = acos(-1.0_dp)

   interface
      integer(c_int) function c_mkdir(path, mode) bind(c, name='mkdir')
         import :: c_char, c_int
         character(kind=c_char), intent(in) :: path(*)
         integer(c_int), value :: mode
      end function c_mkdir
      integer(c_int) function c_rename(old, new) bind(c, name='rename')
         import :: c_char, c_int
         character(kind=c_char), intent(in) :: old(*), new(*)
      end function c_rename
      integer(c_int) function c_unlink(path) bind(c, name='unlink')
         import :: c_char, c_int
         character(kind=c_char), intent(in) :: path(*)
      end function c_unlink
   end interface

contains

   ! For bad input: prints an error message and ends the program with exit code 2.
   subroutine refuse(message)
      character(*), intent(in) :: message
      write (error_unit, '(2a)') 'bubbles: ', message
      stop 2, quiet=.true.
   end subroutine refuse

   ! For a failure during the run, such as no convergence or a velocity that is NaN: prints an error message and ends
   ! the program with exit code 1.
   subroutine give_up(message)
      character(*), intent(in) :: message
      write (error_unit, '(2a)') 'bubbles: ', message
      stop 1, quiet=.true.
   end subroutine give_up

   pure function text_of_int(value) result(word)
      integer, intent(in) :: value
      character(:), allocatable :: word
      word = text_of_long(int(value, int64))
   end function text_of_int

   pure function text_of_long(value) result(word)
      integer(int64), intent(in) :: value
      character(:), allocatable :: word
      character(20) :: buffer
      write (buffer, '(i0)') value
      word = trim(buffer)
   end function text_of_long

   ! Formats a value with `digits` digits after the decimal point.
   pure function fixed(value, digits) result(word)
      real(dp), intent(in) :: value
      integer, intent(in) :: digits
      character(:), allocatable :: word
      character(40) :: buffer
      write (buffer, '(f40.'//text(digits)//')') value
      word = trim(adjustl(buffer))
   end function fixed

   pure function scientific(value, digits) result(word)
      real(dp), intent(in) :: value
      integer, intent(in) :: digits
      character(:), allocatable :: word
      character(40) :: buffer
      write (buffer, '(es40.'//text(digits)//'e3)') value
      word = trim(adjustl(buffer))
   end function scientific

   ! Parses a decimal number. NaN, infinity and Fortran's repeat counts are rejected.
   pure subroutine parse_real(word, value, ok)
      character(*), intent(in) :: word
      real(dp), intent(out) :: value
      logical, intent(out) :: ok
      integer :: status
      value = 0
      ok = len_trim(word) > 0 .and. verify(trim(word), '0123456789+-.eEdD') == 0
      if (.not. ok) return
      read (word, *, iostat=status) value
      ok = status == 0 .and. abs(value) <= huge(value)
   end subroutine parse_real

   ! Creates the folder and its parents. Failures are detected when the first file is written.
   subroutine make_folder(path)
      character(*), intent(in) :: path
      integer :: k
      integer(c_int) :: ignored
      do k = 2, len(path)
         if (path(k:k) == '/') ignored = c_mkdir(path(:k - 1)//c_null_char, int(o'777', c_int))
      end do
      ignored = c_mkdir(path//c_null_char, int(o'777', c_int))
   end subroutine make_folder

   logical function rename_file(old, new)
      character(*), intent(in) :: old, new
      rename_file = c_rename(old//c_null_char, new//c_null_char) == 0
   end function rename_file

   subroutine delete_file(path)
      character(*), intent(in) :: path
      integer(c_int) :: ignored
      ignored = c_unlink(path//c_null_char)
   end subroutine delete_file

   real(dp) function seconds()
      integer(int64) :: count, rate
      call system_clock(count, rate)
      seconds = real(count, dp)/real(rate, dp)
   end function seconds

end module host
