! Family sparse: general sparse matrices, solves with them, their products, storage formats and files.
!
!    type(sparse_solver) :: a
!    call a%create(rows, cols, row_ptr, col, values)       ! by rows; indices from 1
!    call a%factorize()
!    call a%solve(b, x)                                    ! A x = b
!    call a%multiply(x, y)                                 ! y = A x
!    call b%read("matrix.mtx")
!
! Indices of entries are default integers (or integer(int64)), counted from 1 unless base = 0 is given. Any order within
! a row is taken, values given at one place are added, zeros stay.
module rrbsolver_sparse_handle
   use rrbsolver_sparse_c
   include "rrbsolver_handle.inc"
end module rrbsolver_sparse_handle

module rrbsolver_sparse
   use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t, c_loc, c_null_ptr, c_ptr
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_constants
   use rrbsolver_base, only: report, differs, to_c
   use rrbsolver_sparse_c
   use rrbsolver_sparse_handle, only: handle_base
   implicit none
   private

   public :: sparse_solver

   ! One matrix. Besides the procedures here it has set, get, history, set_monitor, set_stream and destroy of
   ! rrbsolver_handle.inc. It cannot be copied by assignment.
   type, extends(handle_base) :: sparse_solver
      private
      integer(int64) :: rows = 0, cols = 0, given = 0
   contains
      procedure, private :: create_int32, create_int64, create_csc_int32, create_csc_int64
      procedure, private :: create_coo_int32, create_coo_int64
      generic :: create => create_int32, create_int64
      generic :: create_csc => create_csc_int32, create_csc_int64
      generic :: create_coo => create_coo_int32, create_coo_int64
      procedure :: create_from
      procedure :: read => read_file
      procedure :: write => write_file
      procedure :: get_vector
      procedure :: set_values
      procedure :: arrays
      procedure :: factorize
      procedure :: solve
      procedure :: apply
      procedure :: multiply
      procedure :: multiply_transposed
   end type sparse_solver

   ! How entries are given.
   integer, parameter :: by_rows = 1, by_columns = 2, by_entries = 3

contains

   ! create(rows, cols, row_ptr, col, values [, base, stat, errmsg]): a matrix by rows (csr): entries
   ! row_ptr(i) .. row_ptr(i+1) - 1 of row i are in column col(k) and have values(k). With base = 0 pointers and columns
   ! count from 0. What self held before is destroyed.
   subroutine create_int32(self, rows, cols, row_ptr, col, values, base, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(int32), intent(in) :: rows, cols
      integer(int32), contiguous, target, intent(in) :: row_ptr(:)   ! (rows + 1)
      integer(int32), contiguous, target, intent(in) :: col(:)       ! (entries)
      real(c_double), contiguous, intent(in) :: values(:)            ! (entries)
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call make(self, by_rows, int([rows, cols], int64), address32(row_ptr), size(row_ptr, kind=int64), &
                address32(col), size(col, kind=int64), values, 4_c_int32_t, base, stat, errmsg)
   end subroutine create_int32

   subroutine create_int64(self, rows, cols, row_ptr, col, values, base, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(int64), intent(in) :: rows, cols
      integer(int64), contiguous, target, intent(in) :: row_ptr(:)   ! (rows + 1)
      integer(int64), contiguous, target, intent(in) :: col(:)       ! (entries)
      real(c_double), contiguous, intent(in) :: values(:)            ! (entries)
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call make(self, by_rows, [rows, cols], address64(row_ptr), size(row_ptr, kind=int64), &
                address64(col), size(col, kind=int64), values, 8_c_int32_t, base, stat, errmsg)
   end subroutine create_int64

   ! create_csc(rows, cols, col_ptr, row, values [, base, stat, errmsg]): the same by columns.
   subroutine create_csc_int32(self, rows, cols, col_ptr, row, values, base, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(int32), intent(in) :: rows, cols
      integer(int32), contiguous, target, intent(in) :: col_ptr(:)   ! (cols + 1)
      integer(int32), contiguous, target, intent(in) :: row(:)       ! (entries)
      real(c_double), contiguous, intent(in) :: values(:)            ! (entries)
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call make(self, by_columns, int([rows, cols], int64), address32(col_ptr), size(col_ptr, kind=int64), &
                address32(row), size(row, kind=int64), values, 4_c_int32_t, base, stat, errmsg)
   end subroutine create_csc_int32

   subroutine create_csc_int64(self, rows, cols, col_ptr, row, values, base, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(int64), intent(in) :: rows, cols
      integer(int64), contiguous, target, intent(in) :: col_ptr(:)   ! (cols + 1)
      integer(int64), contiguous, target, intent(in) :: row(:)       ! (entries)
      real(c_double), contiguous, intent(in) :: values(:)            ! (entries)
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call make(self, by_columns, [rows, cols], address64(col_ptr), size(col_ptr, kind=int64), &
                address64(row), size(row, kind=int64), values, 8_c_int32_t, base, stat, errmsg)
   end subroutine create_csc_int64

   ! create_coo(rows, cols, row, col, values [, base, stat, errmsg]): the same by entries, in any order.
   subroutine create_coo_int32(self, rows, cols, row, col, values, base, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(int32), intent(in) :: rows, cols
      integer(int32), contiguous, target, intent(in) :: row(:)   ! (entries)
      integer(int32), contiguous, target, intent(in) :: col(:)   ! (entries)
      real(c_double), contiguous, intent(in) :: values(:)        ! (entries)
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call make(self, by_entries, int([rows, cols], int64), address32(row), size(row, kind=int64), &
                address32(col), size(col, kind=int64), values, 4_c_int32_t, base, stat, errmsg)
   end subroutine create_coo_int32

   subroutine create_coo_int64(self, rows, cols, row, col, values, base, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(int64), intent(in) :: rows, cols
      integer(int64), contiguous, target, intent(in) :: row(:)   ! (entries)
      integer(int64), contiguous, target, intent(in) :: col(:)   ! (entries)
      real(c_double), contiguous, intent(in) :: values(:)        ! (entries)
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call make(self, by_entries, [rows, cols], address64(row), size(row, kind=int64), &
                address64(col), size(col, kind=int64), values, 8_c_int32_t, base, stat, errmsg)
   end subroutine create_coo_int64

   subroutine make(self, order, extents, first, first_size, second, second_size, values, index_bytes, base, &
                   stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer, intent(in) :: order
      integer(int64), intent(in) :: extents(2), first_size, second_size
      type(c_ptr), intent(in) :: first, second
      real(c_double), contiguous, intent(in) :: values(:)
      integer(c_int32_t), intent(in) :: index_bytes
      integer, intent(in), optional :: base
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      character(7), parameter :: names(2, 3) = &
         reshape([character(7) :: "row_ptr", "col", "col_ptr", "row", "row", "col"], [2, 3])
      integer(c_int32_t) :: status, from
      integer(int64) :: entries, lanes
      from = 1
      if (present(base)) from = int(base, c_int32_t)
      entries = size(values, kind=int64)
      lanes = entries
      if (order /= by_entries) lanes = max(extents(order), 0_int64) + 1
      call self%destroy()
      self%rows = 0
      self%cols = 0
      self%given = 0
      if (differs(trim(names(1, order)), [first_size], [lanes], stat, errmsg)) return
      if (differs(trim(names(2, order)), [second_size], [entries], stat, errmsg)) return
      select case (order)
      case (by_rows)
         status = c_create_csr(extents(1), extents(2), entries, first, second, values, index_bytes, from, self%handle)
      case (by_columns)
         status = c_create_csc(extents(1), extents(2), entries, first, second, values, index_bytes, from, self%handle)
      case default
         status = c_create_coo(extents(1), extents(2), entries, first, second, values, index_bytes, from, self%handle)
      end select
      call take(self, status, entries, stat, errmsg)
   end subroutine make

   ! Where an array is; one without values is nowhere.
   function address32(array) result(address)
      integer(int32), contiguous, target, intent(in) :: array(:)
      type(c_ptr) :: address
      address = c_null_ptr
      if (size(array) > 0) address = c_loc(array)
   end function address32

   function address64(array) result(address)
      integer(int64), contiguous, target, intent(in) :: array(:)
      type(c_ptr) :: address
      address = c_null_ptr
      if (size(array) > 0) address = c_loc(array)
   end function address64

   ! After the making of a handle: its extents. given: values that set_values takes; -1: as many as entries.
   subroutine take(self, status, given, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(c_int32_t), intent(in) :: status
      integer(int64), intent(in) :: given
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      self%rows = 0
      self%cols = 0
      self%given = 0
      if (status >= 0) then
         call self%get(RRB_INFO_ROWS, self%rows)
         call self%get(RRB_INFO_COLS, self%cols)
         self%given = given
         if (given < 0) call self%get(RRB_INFO_NONZEROS, self%given)
      end if
      call report(status, stat, errmsg)
   end subroutine take

   ! create_from(format, rows, cols, i0, i1, i2, values [, stat, errmsg]): from the arrays of a format, such as
   ! RRB_FORMAT_ELL, as arrays gives them: places count from 0. Options and monitor of the matrix before are gone.
   subroutine create_from(self, format, rows, cols, i0, i1, i2, values, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer(c_int32_t), intent(in) :: format
      integer, intent(in) :: rows, cols
      integer(c_int64_t), contiguous, intent(in) :: i0(:), i1(:), i2(:)
      real(c_double), contiguous, intent(in) :: values(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int64_t) :: sizes(4)
      integer(c_int32_t) :: status
      logical :: as_given
      sizes = [size(i0, kind=c_int64_t), size(i1, kind=c_int64_t), size(i2, kind=c_int64_t), &
               size(values, kind=c_int64_t)]
      as_given = any(format == [RRB_FORMAT_COO, RRB_FORMAT_CSR, RRB_FORMAT_CSC])
      call self%destroy()
      status = c_create_from(format, int(rows, c_int64_t), int(cols, c_int64_t), sizes, i0, i1, i2, values, self%handle)
      call take(self, status, merge(sizes(4), -1_c_int64_t, as_given), stat, errmsg)
   end subroutine create_from

   ! read(path [, stat, errmsg]): the matrix of a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, plain or gz.
   ! As all that makes a matrix: options and the monitor of the one before are gone, too.
   subroutine read_file(self, path, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      character(*), intent(in) :: path
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      call self%destroy()
      status = c_read(to_c(path), self%handle)
      call take(self, status, -1_int64, stat, errmsg)
   end subroutine read_file

   ! write(path, file_format [, stat, errmsg]): as RRB_FILE_MTX, RRB_FILE_HB or RRB_FILE_RB; in gz for a name that ends
   ! with .gz.
   subroutine write_file(self, path, file_format, stat, errmsg)
      class(sparse_solver), intent(in) :: self
      character(*), intent(in) :: path
      integer(c_int32_t), intent(in) :: file_format
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_write(self%handle, to_c(path), file_format), stat, errmsg)
   end subroutine write_file

   ! get_vector(which, k, v [, stat, errmsg]): vector k = 1, 2, ... that came with the matrix in a file: RRB_VECTOR_RHS
   ! (as many as RRB_INFO_FILE_RHS), RRB_VECTOR_GUESS or RRB_VECTOR_SOLUTION.
   subroutine get_vector(self, which, k, v, stat, errmsg)
      class(sparse_solver), intent(in) :: self
      integer(c_int32_t), intent(in) :: which
      integer, intent(in) :: k
      real(c_double), contiguous, intent(inout) :: v(:)   ! (rows)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("v", shape(v, int64), [self%rows], stat, errmsg)) return
      call report(c_get_vector(self%handle, which, int(k, c_int64_t) - 1, v), stat, errmsg)
   end subroutine get_vector

   ! set_values(values [, stat, errmsg]): new values of all entries, in the order in which they were given; of a file,
   ! row by row.
   subroutine set_values(self, values, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: values(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("values", shape(values, int64), [self%given], stat, errmsg)) return
      call report(c_set_values(self%handle, values), stat, errmsg)
   end subroutine set_values

   ! arrays(format, i0, i1, i2, values [, stat, errmsg]): the arrays of a format, such as RRB_FORMAT_ELL; places count
   ! from 0.
   subroutine arrays(self, format, i0, i1, i2, values, stat, errmsg)
      class(sparse_solver), intent(in) :: self
      integer(c_int32_t), intent(in) :: format
      integer(c_int64_t), allocatable, intent(inout) :: i0(:), i1(:), i2(:)
      real(c_double), allocatable, intent(inout) :: values(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int64_t) :: sizes(4)
      integer(c_int32_t) :: status
      status = c_sizes(self%handle, format, sizes)
      if (status >= 0) then
         if (allocated(i0)) deallocate (i0)
         if (allocated(i1)) deallocate (i1)
         if (allocated(i2)) deallocate (i2)
         if (allocated(values)) deallocate (values)
         allocate (i0(sizes(1)), i1(sizes(2)), i2(sizes(3)), values(sizes(4)))
         status = c_arrays(self%handle, format, i0, i1, i2, values)
      end if
      call report(status, stat, errmsg)
   end subroutine arrays

   ! factorize([stat, errmsg]): checks the matrix, chooses what the options leave open, makes the preconditioner.
   subroutine factorize(self, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_factorize(self%handle), stat, errmsg)
   end subroutine factorize

   ! solve(b, x [, stat, errmsg]): A x = b. stat is RRB_OK, RRB_NOT_CONVERGED (max_iter reached, stagnated, diverged),
   ! RRB_STOPPED (by the monitor) or negative. It iterates until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol).
   subroutine solve(self, b, x, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: b(:)      ! (rows) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:)   ! (rows) initial guess in, solution out
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("b", shape(b, int64), [self%rows], stat, errmsg)) return
      if (differs("x", shape(x, int64), [self%rows], stat, errmsg)) return
      call report(c_solve(self%handle, b, x), stat, errmsg)
   end subroutine solve

   ! apply(r, z [, stat, errmsg]): z = M^-1 r with the preconditioner, for a Krylov loop of your own.
   subroutine apply(self, r, z, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: r(:)      ! (rows)
      real(c_double), contiguous, intent(inout) :: z(:)   ! (rows)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("r", shape(r, int64), [self%rows], stat, errmsg)) return
      if (differs("z", shape(z, int64), [self%rows], stat, errmsg)) return
      call report(c_apply(self%handle, r, z), stat, errmsg)
   end subroutine apply

   ! multiply(x, y [, stat, errmsg]): y = A x.
   subroutine multiply(self, x, y, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: x(:)      ! (cols)
      real(c_double), contiguous, intent(inout) :: y(:)   ! (rows)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("x", shape(x, int64), [self%cols], stat, errmsg)) return
      if (differs("y", shape(y, int64), [self%rows], stat, errmsg)) return
      call report(c_multiply(self%handle, x, y), stat, errmsg)
   end subroutine multiply

   ! multiply_transposed(x, y [, stat, errmsg]): y = A' x.
   subroutine multiply_transposed(self, x, y, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: x(:)      ! (rows)
      real(c_double), contiguous, intent(inout) :: y(:)   ! (cols)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("x", shape(x, int64), [self%rows], stat, errmsg)) return
      if (differs("y", shape(y, int64), [self%cols], stat, errmsg)) return
      call report(c_multiply_transposed(self%handle, x, y), stat, errmsg)
   end subroutine multiply_transposed
end module rrbsolver_sparse
