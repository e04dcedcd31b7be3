! The C functions that module rrbsolver calls, one interface each, as include/rrbsolver.h declares them.
! Private to the binding: programs use module rrbsolver.
module rrbsolver_c
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr, c_size_t
   implicit none
   public

   interface
      function c_rrbsolver_version() result(text) bind(c, name="rrbsolver_version")
         import :: c_ptr
         type(c_ptr) :: text
      end function c_rrbsolver_version

      function c_rrbsolver_status_string(status) result(text) bind(c, name="rrbsolver_status_string")
         import :: c_int32_t, c_ptr
         integer(c_int32_t), value :: status
         type(c_ptr) :: text
      end function c_rrbsolver_status_string

      function c_rrbsolver_last_error_based(index_base, buffer, capacity) result(length) &
         bind(c, name="rrbsolver_last_error_based")
         import :: c_char, c_int32_t, c_int64_t
         integer(c_int32_t), value :: index_base
         character(kind=c_char), intent(inout) :: buffer(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t) :: length
      end function c_rrbsolver_last_error_based

      function c_rrbsolver_cuda_device_count(count) result(status) bind(c, name="rrbsolver_cuda_device_count")
         import :: c_int32_t
         integer(c_int32_t), intent(inout) :: count
         integer(c_int32_t) :: status
      end function c_rrbsolver_cuda_device_count

      function c_rrb_create(nx, ny, handle) result(status) bind(c, name="rrb_create")
         import :: c_int32_t, c_int64_t, c_ptr
         integer(c_int64_t), value :: nx, ny
         type(c_ptr), intent(inout) :: handle
         integer(c_int32_t) :: status
      end function c_rrb_create

      function c_rrb_destroy(handle) result(status) bind(c, name="rrb_destroy")
         import :: c_int32_t, c_ptr
         type(c_ptr), intent(inout) :: handle
         integer(c_int32_t) :: status
      end function c_rrb_destroy

      function c_rrb_set_int(handle, key, val) result(status) bind(c, name="rrb_set_int")
         import :: c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         integer(c_int64_t), value :: val
         integer(c_int32_t) :: status
      end function c_rrb_set_int

      function c_rrb_set_real(handle, key, val) result(status) bind(c, name="rrb_set_real")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         real(c_double), value :: val
         integer(c_int32_t) :: status
      end function c_rrb_set_real

      function c_rrb_set_options(handle, text) result(status) bind(c, name="rrb_set_options")
         import :: c_char, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         character(kind=c_char), intent(in) :: text(*)
         integer(c_int32_t) :: status
      end function c_rrb_set_options

      function c_rrb_get_int(handle, key, val) result(status) bind(c, name="rrb_get_int")
         import :: c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         integer(c_int64_t), intent(inout) :: val
         integer(c_int32_t) :: status
      end function c_rrb_get_int

      function c_rrb_get_real(handle, key, val) result(status) bind(c, name="rrb_get_real")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         real(c_double), intent(inout) :: val
         integer(c_int32_t) :: status
      end function c_rrb_get_real

      function c_rrb_set_stream(handle, stream) result(status) bind(c, name="rrb_set_stream")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, stream
         integer(c_int32_t) :: status
      end function c_rrb_set_stream

      function c_rrb_set_monitor(handle, callback, user) result(status) bind(c, name="rrb_set_monitor")
         import :: c_funptr, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: status
      end function c_rrb_set_monitor

      function c_rrb_get_history(handle, residuals, capacity, count) result(status) bind(c, name="rrb_get_history")
         import :: c_double, c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         real(c_double), intent(inout) :: residuals(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t), intent(inout) :: count
         integer(c_int32_t) :: status
      end function c_rrb_get_history

      ! northeast and northwest: both absent (NULL) for a 5-point stencil.
      function c_rrb_factorize(handle, center, east, north, northeast, northwest) result(status) &
         bind(c, name="rrb_factorize")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         real(c_double), intent(in) :: center(*), east(*), north(*)
         real(c_double), intent(in), optional :: northeast(*), northwest(*)
         integer(c_int32_t) :: status
      end function c_rrb_factorize

      function c_rrb_solve(handle, b, x) result(status) bind(c, name="rrb_solve")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         real(c_double), intent(in) :: b(*)
         real(c_double), intent(inout) :: x(*)
         integer(c_int32_t) :: status
      end function c_rrb_solve

      function c_rrb_apply(handle, r, z) result(status) bind(c, name="rrb_apply")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         real(c_double), intent(in) :: r(*)
         real(c_double), intent(inout) :: z(*)
         integer(c_int32_t) :: status
      end function c_rrb_apply

      function c_rrb_multiply(handle, x, y) result(status) bind(c, name="rrb_multiply")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         real(c_double), intent(in) :: x(*)
         real(c_double), intent(inout) :: y(*)
         integer(c_int32_t) :: status
      end function c_rrb_multiply

      function c_rrb_solve_once(nx, ny, center, east, north, northeast, northwest, b, x, rel_tol, max_iter, iterations) &
         result(status) bind(c, name="rrb_solve_once")
         import :: c_double, c_int32_t, c_int64_t
         integer(c_int64_t), value :: nx, ny
         real(c_double), intent(in) :: center(*), east(*), north(*)
         real(c_double), intent(in), optional :: northeast(*), northwest(*)
         real(c_double), intent(in) :: b(*)
         real(c_double), intent(inout) :: x(*)
         real(c_double), value :: rel_tol
         integer(c_int64_t), value :: max_iter
         integer(c_int64_t), intent(inout) :: iterations
         integer(c_int32_t) :: status
      end function c_rrb_solve_once

      function c_strlen(text) result(length) bind(c, name="strlen")
         import :: c_ptr, c_size_t
         type(c_ptr), value :: text
         integer(c_size_t) :: length
      end function c_strlen

      function c_smoother_create(points, stencil, bx, by, bz, handle) result(status) bind(c, name="smoother_create")
         import :: c_double, c_int32_t, c_int64_t, c_ptr
         integer(c_int32_t), value :: points
         real(c_double), intent(in) :: stencil(*)
         integer(c_int64_t), value :: bx, by, bz
         type(c_ptr), intent(inout) :: handle
         integer(c_int32_t) :: status
      end function c_smoother_create

      function c_smoother_destroy(handle) result(status) bind(c, name="smoother_destroy")
         import :: c_int32_t, c_ptr
         type(c_ptr), intent(inout) :: handle
         integer(c_int32_t) :: status
      end function c_smoother_destroy

      function c_smoother_set_patches(handle, count, lower, size) result(status) bind(c, name="smoother_set_patches")
         import :: c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int64_t), value :: count
         integer(c_int64_t), intent(in) :: lower(3, *), size(3, *)
         integer(c_int32_t) :: status
      end function c_smoother_set_patches

      function c_smoother_apply(handle, u, f, sweeps) result(status) bind(c, name="smoother_apply")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, u, f
         integer(c_int32_t), value :: sweeps
         integer(c_int32_t) :: status
      end function c_smoother_apply

      function c_smoother_exchange(handle, u) result(status) bind(c, name="smoother_exchange")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, u
         integer(c_int32_t) :: status
      end function c_smoother_exchange

      function c_smoother_residual(handle, u, f, r, norm2) result(status) bind(c, name="smoother_residual")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle, u, f, r
         real(c_double), intent(inout) :: norm2
         integer(c_int32_t) :: status
      end function c_smoother_residual

      function c_smoother_upload(handle, u, f) result(status) bind(c, name="smoother_upload")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, u, f
         integer(c_int32_t) :: status
      end function c_smoother_upload

      function c_smoother_download(handle, u) result(status) bind(c, name="smoother_download")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, u
         integer(c_int32_t) :: status
      end function c_smoother_download

      function c_smoother_device_pointers(handle, u, f) result(status) bind(c, name="smoother_device_pointers")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, u, f
         integer(c_int32_t) :: status
      end function c_smoother_device_pointers

      function c_smoother_set_ghost_fill(handle, callback, user) result(status) bind(c, name="smoother_set_ghost_fill")
         import :: c_funptr, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: status
      end function c_smoother_set_ghost_fill

      function c_smoother_set_monitor(handle, callback, user) result(status) bind(c, name="smoother_set_monitor")
         import :: c_funptr, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: status
      end function c_smoother_set_monitor

      function c_smoother_set_int(handle, key, val) result(status) bind(c, name="smoother_set_int")
         import :: c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         integer(c_int64_t), value :: val
         integer(c_int32_t) :: status
      end function c_smoother_set_int

      function c_smoother_set_real(handle, key, val) result(status) bind(c, name="smoother_set_real")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         real(c_double), value :: val
         integer(c_int32_t) :: status
      end function c_smoother_set_real

      function c_smoother_set_options(handle, text) result(status) bind(c, name="smoother_set_options")
         import :: c_char, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         character(kind=c_char), intent(in) :: text(*)
         integer(c_int32_t) :: status
      end function c_smoother_set_options

      function c_smoother_get_int(handle, key, val) result(status) bind(c, name="smoother_get_int")
         import :: c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         integer(c_int64_t), intent(inout) :: val
         integer(c_int32_t) :: status
      end function c_smoother_get_int

      function c_smoother_get_real(handle, key, val) result(status) bind(c, name="smoother_get_real")
         import :: c_double, c_int32_t, c_ptr
         type(c_ptr), value :: handle
         integer(c_int32_t), value :: key
         real(c_double), intent(inout) :: val
         integer(c_int32_t) :: status
      end function c_smoother_get_real

      function c_smoother_get_history(handle, residuals, capacity, count) result(status) &
         bind(c, name="smoother_get_history")
         import :: c_double, c_int32_t, c_int64_t, c_ptr
         type(c_ptr), value :: handle
         real(c_double), intent(inout) :: residuals(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t), intent(inout) :: count
         integer(c_int32_t) :: status
      end function c_smoother_get_history

      function c_smoother_set_stream(handle, stream) result(status) bind(c, name="smoother_set_stream")
         import :: c_int32_t, c_ptr
         type(c_ptr), value :: handle, stream
         integer(c_int32_t) :: status
      end function c_smoother_set_stream
   end interface
end module rrbsolver_c

! What the types of module rrbsolver share: errors and text.
module rrbsolver_support
   use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int32_t, c_int64_t, c_null_char, c_ptr
   use, intrinsic :: iso_fortran_env, only: int64
   use rrbsolver_c
   implicit none
   private

   public :: report, differs, to_c, to_fortran, decimal

   include "rrbsolver_constants.inc"

contains

   ! Ends every procedure: hands the status over, or stops as allocate does. sentence is given for what is found here;
   ! otherwise the library's own is fetched, and only when somebody will read it.
   subroutine report(status, stat, errmsg, sentence)
      integer(c_int32_t), intent(in) :: status
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      character(*), intent(in), optional :: sentence
      character(:), allocatable :: text
      if (present(stat)) stat = int(status)
      if (status == RRB_OK) return
      if (present(stat) .and. .not. present(errmsg)) return
      if (status > 0 .and. .not. present(errmsg)) return
      if (present(sentence)) then
         text = sentence
      else if (status > 0) then
         text = to_fortran(c_rrbsolver_status_string(status))
      else
         text = last_error()
      end if
      if (present(errmsg)) errmsg = text
      if (status < 0 .and. .not. present(stat)) error stop "rrbsolver: " // text
   end subroutine report

   function differs(name, extent, expected, stat, errmsg) result(wrong)
      character(*), intent(in) :: name
      integer(int64), intent(in) :: extent(2), expected(2)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      if (present(stat)) stat = RRB_OK
      wrong = any(extent /= expected)
      if (wrong) call report(RRB_ERR_DIMENSION, stat, errmsg, name // " must have the shape (" // decimal(expected(1)) // &
                             ", " // decimal(expected(2)) // "), got (" // decimal(extent(1)) // ", " // &
                             decimal(extent(2)) // ")")
   end function differs

   function last_error() result(text)
      character(:), allocatable :: text
      character(kind=c_char), allocatable :: buffer(:)
      character(kind=c_char) :: none(1)
      integer(c_int64_t) :: length, i
      length = c_rrbsolver_last_error_based(1_c_int32_t, none, 0_c_int64_t)
      allocate (buffer(length))
      length = c_rrbsolver_last_error_based(1_c_int32_t, buffer, length)
      ! The last character is C's NUL.
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
end module rrbsolver_support

! Options, results and history of a handle, for each family: the text is one, the C functions have other names.
module rrbsolver_rrb_handle
   use rrbsolver_c, only: c_set_options => c_rrb_set_options, c_set_int => c_rrb_set_int, c_set_real => c_rrb_set_real, &
                          c_get_int => c_rrb_get_int, c_get_real => c_rrb_get_real, &
                          c_get_history => c_rrb_get_history, c_set_stream => c_rrb_set_stream
   include "rrbsolver_handle.inc"
end module rrbsolver_rrb_handle

module rrbsolver_smoother_handle
   use rrbsolver_c, only: c_set_options => c_smoother_set_options, c_set_int => c_smoother_set_int, &
                          c_set_real => c_smoother_set_real, c_get_int => c_smoother_get_int, &
                          c_get_real => c_smoother_get_real, c_get_history => c_smoother_get_history, &
                          c_set_stream => c_smoother_set_stream
   include "rrbsolver_handle.inc"
end module rrbsolver_smoother_handle
