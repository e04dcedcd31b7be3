! Kinds, the one way to refuse bad input, and the few calls to the C library that Fortran lacks.
module host
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_null_char
   use, intrinsic :: iso_fortran_env, only: error_unit, int64
   implicit none
   private
   public :: dp, pi, gravity, refuse, give_up, text, output_is_terminal, make_folder, rename_file, delete_file, seconds

   integer, parameter :: dp = c_double
   real(dp), parameter :: pi = acos(-1.0_dp)
   real(dp), parameter :: gravity = 9.81_dp      ! m/s^2

   interface
      integer(c_int) function c_isatty(descriptor) bind(c, name='isatty')
         import :: c_int
         integer(c_int), value :: descriptor
      end function c_isatty
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

   interface text
      module procedure text_integer, text_real
   end interface text

contains

   ! Bad input: one message on the error channel, exit code 2.
   subroutine refuse(message)
      character(*), intent(in) :: message
      write (error_unit, '(2a)') 'ship_waves: ', message
      stop 2, quiet=.true.
   end subroutine refuse

   ! A failure during the run (no convergence, waves that blow up): exit code 1.
   subroutine give_up(message)
      character(*), intent(in) :: message
      write (error_unit, '(2a)') 'ship_waves: ', message
      stop 1, quiet=.true.
   end subroutine give_up

   pure function text_integer(value) result(word)
      integer, intent(in) :: value
      character(:), allocatable :: word
      character(20) :: buffer
      write (buffer, '(i0)') value
      word = trim(buffer)
   end function text_integer

   ! The value to six digits, without trailing zeros.
   pure function text_real(value) result(word)
      real(dp), intent(in) :: value
      character(:), allocatable :: word
      character(32) :: buffer
      integer :: last
      if (abs(value) < 1e15_dp .and. (abs(value) >= 1e-3_dp .or. abs(value) <= 0)) then
         write (buffer, '(f24.6)') value
         buffer = adjustl(buffer)
         last = verify(trim(buffer), '0', back=.true.)
         if (buffer(last:last) == '.') last = last - 1
         word = buffer(:last)
         if (word(1:1) == '.') word = '0'//word
         if (len(word) > 1) then
            if (word(1:2) == '-.') word = '-0'//word(2:)
         end if
      else
         write (buffer, '(es12.4)') value
         ! An exponent of three digits would drive out its letter.
         if (index(buffer, 'E') == 0) write (buffer, '(es13.4e3)') value
         word = trim(adjustl(buffer))
      end if
   end function text_real

   logical function output_is_terminal()
      output_is_terminal = c_isatty(1_c_int) == 1
   end function output_is_terminal

   ! Makes the folder and its parents; whether it is usable shows at the first file.
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
