! Kinds, the one way to refuse bad input, and the few calls to the C library that Fortran lacks.
module host
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_int, c_loc, c_long, c_null_char, c_ptr, &
      c_short, c_size_t
   use, intrinsic :: iso_fortran_env, only: error_unit, int16, int64
   implicit none
   private
   public :: dp, pi, gravity, refuse, give_up, log_line, text, output_is_terminal, make_folder, rename_file, delete_file
   public :: blanks_only, seconds, wait_for_input, read_input, write_output

   integer, parameter :: dp = c_double
   real(dp), parameter :: pi = acos(-1.0_dp)
   real(dp), parameter :: gravity = 9.81_dp      ! m/s^2

   ! Of poll in the C library.
   type, bind(c) :: poll_descriptor
      integer(c_int) :: descriptor
      integer(c_short) :: wanted, found
   end type poll_descriptor
   integer(c_short), parameter :: can_read = 1

   interface
      integer(c_int) function c_poll(descriptors, count, milliseconds) bind(c, name='poll')
         import :: c_int, c_long, poll_descriptor
         type(poll_descriptor), intent(inout) :: descriptors(*)
         integer(c_long), value :: count
         integer(c_int), value :: milliseconds
      end function c_poll
      integer(c_size_t) function c_read(descriptor, buffer, count) bind(c, name='read')
         import :: c_char, c_int, c_size_t
         integer(c_int), value :: descriptor
         character(kind=c_char), intent(out) :: buffer(*)
         integer(c_size_t), value :: count
      end function c_read
      integer(c_size_t) function c_write(descriptor, buffer, count) bind(c, name='write')
         import :: c_int, c_ptr, c_size_t
         integer(c_int), value :: descriptor
         type(c_ptr), value :: buffer
         integer(c_size_t), value :: count
      end function c_write
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
      module procedure text_integer, text_long, text_real
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

   ! An event of a run that continues.
   subroutine log_line(message)
      character(*), intent(in) :: message
      write (error_unit, '(2a)') 'ship_waves: ', message
   end subroutine log_line

   ! The line with blanks instead of tabs and carriage returns.
   pure function blanks_only(line) result(new)
      character(*), intent(in) :: line
      character(len(line)) :: new
      integer :: k
      new = line
      do k = 1, len(line)
         if (new(k:k) == achar(9) .or. new(k:k) == achar(13)) new(k:k) = ' '
      end do
   end function blanks_only

   pure function text_integer(value) result(word)
      integer, intent(in) :: value
      character(:), allocatable :: word
      character(20) :: buffer
      write (buffer, '(i0)') value
      word = trim(buffer)
   end function text_integer

   pure function text_long(value) result(word)
      integer(int64), intent(in) :: value
      character(:), allocatable :: word
      character(20) :: buffer
      write (buffer, '(i0)') value
      word = trim(buffer)
   end function text_long

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

   ! Wait until there is standard input, at most `time` seconds, rounded up to milliseconds. Returns whether there is
   ! any; the end of the input counts.
   logical function wait_for_input(time)
      real(dp), intent(in) :: time
      type(poll_descriptor) :: input(1)
      input = poll_descriptor(0_c_int, can_read, 0_c_short)
      wait_for_input = c_poll(input, 1_c_long, int(ceiling(1e3_dp*max(time, 0.0_dp)), c_int)) > 0
   end function wait_for_input

   ! Characters of the standard input that are there; none at its end. Call it after `wait_for_input` has found some.
   function read_input() result(characters)
      character(:), allocatable :: characters
      character(kind=c_char) :: buffer(1024)
      integer :: count, k
      count = int(c_read(0_c_int, buffer, size(buffer, kind=c_size_t)))
      allocate (character(max(count, 0)) :: characters)
      do k = 1, len(characters)
         characters(k:k) = buffer(k)
      end do
   end function read_input

   ! Write a line and `values` to the standard output. Returns whether all was written.
   logical function write_output(line, values)
      character(*), intent(in) :: line
      integer(int16), contiguous, target, intent(in) :: values(:)
      character(kind=c_char), target :: head(len(line) + 1)
      integer :: k
      do k = 1, len(line)
         head(k) = line(k:k)
      end do
      head(len(line) + 1) = new_line('a')
      write_output = written(c_loc(head), size(head, kind=c_size_t))
      if (write_output .and. size(values) > 0) write_output = written(c_loc(values), 2*size(values, kind=c_size_t))
   end function write_output

   ! write may write a part only.
   logical function written(first, bytes)
      type(c_ptr), intent(in) :: first
      integer(c_size_t), intent(in) :: bytes
      character(kind=c_char), pointer :: rest(:)
      integer(c_size_t) :: begin, count
      call c_f_pointer(first, rest, [bytes])
      begin = 1
      do while (begin <= bytes)
         count = c_write(1_c_int, c_loc(rest(begin)), bytes - begin + 1)
         if (count <= 0) exit
         begin = begin + count
      end do
      written = begin > bytes
   end function written

   real(dp) function seconds()
      integer(int64) :: count, rate
      call system_clock(count, rate)
      seconds = real(count, dp)/real(rate, dp)
   end function seconds

end module host
