! Version, devices, statuses and error reports of rrbsolver: what is common to all families.
module rrbsolver_base
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_int32_t, c_int64_t, c_null_char, c_ptr, &
                                          c_size_t
   use, intrinsic :: iso_fortran_env, only: int64
   use rrbsolver_constants
   use rrbsolver_c
   implicit none
   private

   public :: rrb_monitor, rrbsolver_version, rrbsolver_status_string, rrbsolver_cuda_device_count
   public :: report, differs, to_c, decimal

   abstract interface
      ! Called before the first iteration or sweep (iteration = 0) and after each one, with the residual of the stopping
      ! test relative to its reference. The result .true. stops the solve with RRB_STOPPED. The function must not use
      ! the object that calls it.
      function rrb_monitor(iteration, relative_residual) result(stop_now)
         import :: c_double
         integer, intent(in) :: iteration
         real(c_double), intent(in) :: relative_residual
         logical :: stop_now
      end function rrb_monitor
   end interface

   interface
      function c_strlen(text) result(length) bind(c, name="strlen")
         import :: c_ptr, c_size_t
         type(c_ptr), value :: text
         integer(c_size_t) :: length
      end function c_strlen
   end interface

contains

   ! Returns the version of the library, such as "0.1.0".
   function rrbsolver_version() result(text)
      character(:), allocatable :: text
      text = to_fortran(c_version())
   end function rrbsolver_version

   ! Returns the name and the meaning of a status.
   function rrbsolver_status_string(status) result(text)
      integer, intent(in) :: status
      character(:), allocatable :: text
      text = to_fortran(c_status_string(int(status, c_int32_t)))
   end function rrbsolver_status_string

   ! Returns the number of usable CUDA devices, 0 without a driver.
   function rrbsolver_cuda_device_count() result(count)
      integer :: count
      integer(c_int32_t) :: devices, status
      devices = 0
      status = c_cuda_device_count(devices)
      count = merge(int(devices), 0, status >= 0)
   end function rrbsolver_cuda_device_count

   ! Ends every procedure: sets stat and errmsg, or stops as allocate does. message is the message of an error found
   ! here; otherwise the message of the library is fetched, and only if it is returned or printed.
   subroutine report(status, stat, errmsg, message)
      integer(c_int32_t), intent(in) :: status
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      character(*), intent(in), optional :: message
      character(:), allocatable :: text
      if (present(stat)) stat = int(status)
      if (status == RRB_OK) return
      if (present(stat) .and. .not. present(errmsg)) return
      if (status > 0 .and. .not. present(errmsg)) return
      if (present(message)) then
         text = message
      else
         text = last_error()
      end if
      if (present(errmsg)) errmsg = text
      if (status < 0 .and. .not. present(stat)) error stop "rrbsolver: " // text
   end subroutine report

   ! Returns .true. and reports RRB_ERR_DIMENSION if an array does not have the expected shape.
   function differs(name, extent, expected, stat, errmsg) result(wrong)
      character(*), intent(in) :: name
      integer(int64), intent(in) :: extent(:), expected(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      if (present(stat)) stat = RRB_OK
      wrong = any(extent /= expected)
      if (wrong) call report(RRB_ERR_DIMENSION, stat, errmsg, name // " must have the shape " // listed(expected) // &
                             ", got " // listed(extent))
   end function differs

   ! Formats a shape: "(3, 4, 5)".
   function listed(numbers) result(text)
      integer(int64), intent(in) :: numbers(:)
      character(:), allocatable :: text
      integer :: i
      text = "(" // decimal(numbers(1))
      do i = 2, size(numbers)
         text = text // ", " // decimal(numbers(i))
      end do
      text = text // ")"
   end function listed

   function last_error() result(text)
      character(:), allocatable :: text
      character(kind=c_char), allocatable :: buffer(:)
      integer(c_int64_t) :: length, i
      length = c_last_error_based(1_c_int32_t, capacity=0_c_int64_t)
      allocate (buffer(length))
      length = c_last_error_based(1_c_int32_t, buffer, length)
      ! The last character is the NUL of C.
      allocate (character(length - 1) :: text)
      do i = 1, length - 1
         text(i:i) = buffer(i)
      end do
   end function last_error

   function to_fortran(c_text) result(text)
      type(c_ptr), intent(in) :: c_text
      character(:), allocatable :: text
      character(kind=c_char), pointer :: characters(:)
      integer :: i, length
      length = int(c_strlen(c_text))
      call c_f_pointer(c_text, characters, [length])
      allocate (character(length) :: text)
      do i = 1, length
         text(i:i) = characters(i)
      end do
   end function to_fortran

   function to_c(text) result(characters)
      character(*), intent(in) :: text
      character(kind=c_char), allocatable :: characters(:)
      integer :: i, length
      length = len_trim(text)
      allocate (characters(length + 1))
      do i = 1, length
         characters(i) = text(i:i)
      end do
      characters(length + 1) = c_null_char
   end function to_c

   function decimal(n) result(text)
      integer(int64), intent(in) :: n
      character(:), allocatable :: text
      character(20) :: buffer
      write (buffer, "(i0)") n
      text = trim(buffer)
   end function decimal
end module rrbsolver_base
