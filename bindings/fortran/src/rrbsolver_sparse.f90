! Family sparse_: general sparse matrices with solvers, products, storage formats and files. It runs on the CPUs of one
! process, or with backend=cuda on a CUDA device.
!
!    type(sparse_solver) :: a, b
!    call a%create(rows, cols, row_ptr, col, values)       ! CSR, indices from 1
!    call a%factorize()
!    call a%solve(b, x)                                    ! A x = b
!    call a%multiply(x, y)                                 ! y = A x
!    call b%read("matrix.mtx")
!
! Indices are default integers or integer(int64), and count from 1 unless base = 0 is given. The entries of a row may
! have any order. Values for the same place are added; zeros remain entries of the pattern. Give both triangles of a
! symmetric matrix.
module rrbsolver_sparse_handle
   use rrbsolver_sparse_c
   include "rrbsolver_handle.inc"
end module rrbsolver_sparse_handle

module rrbsolver_sparse
   use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t, c_loc, c_null_ptr, c_ptr
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_constants
   use rrbsolver_base, only: report, differs, to_c, decimal
   use rrbsolver_sparse_c
   use rrbsolver_sparse_handle, only: handle_base
   implicit none
   private

   public :: sparse_solver

   ! A matrix with its options, factorization and workspace. It inherits set, get, history, set_monitor, set_stream and
   ! destroy from rrbsolver_handle.inc. It cannot be copied by assignment.
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

   ! Orders of the entries.
   integer, parameter :: by_rows = 1, by_columns = 2, by_entries = 3

contains

   ! create(rows, cols, row_ptr, col, values [, base] [, stat] [, errmsg]): creates a matrix in CSR form. The entries
   ! row_ptr(i) .. row_ptr(i+1) - 1 of row i have the columns col(k) and the values values(k). With base = 0, pointers
   ! and columns count from 0.
   !
   ! The argument after values is base, not stat. Pass stat and errmsg by keyword: create(..., values, stat=stat). A
   ! positional stat would be taken for base. A previous matrix in self is destroyed, with its options and monitor.
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

   ! create_csc(rows, cols, col_ptr, row, values [, base] [, stat] [, errmsg]): the same in CSC form, by columns. Pass
   ! stat and errmsg by keyword.
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

   ! create_coo(rows, cols, row, col, values [, base] [, stat] [, errmsg]): the same in coordinate form, in any order.
   ! Pass stat and errmsg by keyword.
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
      if (all(from /= [0, 1])) then
         ! A positional stat is the argument base.
         call report(RRB_ERR_ARGUMENT, stat, errmsg, "base must be 0 or 1, got " // decimal(int(from, int64)) // &
                     "; stat and errmsg are passed by keyword: stat=...")
         return
      end if
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

   ! Returns the address of an array, null for an empty one.
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

   ! Stores the size of a new matrix. given: number of values that set_values expects; -1: the number of entries.
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

   ! create_from(format, rows, cols, i0, i1, i2, values [, stat] [, errmsg]): creates a matrix from the arrays of a
   ! storage format, such as RRB_FORMAT_ELL, as arrays returns them. Indices count from 0. The options and the monitor
   ! of a previous matrix are lost.
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

   ! read(path [, stat] [, errmsg]): reads the matrix of a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, plain
   ! or gzip. The options and the monitor of a previous matrix are lost.
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

   ! write(path, file_format [, stat] [, errmsg]): writes the matrix as RRB_FILE_MTX, RRB_FILE_HB or RRB_FILE_RB, with
   ! gzip if the name ends with .gz.
   subroutine write_file(self, path, file_format, stat, errmsg)
      class(sparse_solver), intent(in) :: self
      character(*), intent(in) :: path
      integer(c_int32_t), intent(in) :: file_format
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_write(self%handle, to_c(path), file_format), stat, errmsg)
   end subroutine write_file

   ! get_vector(which, k, v [, stat] [, errmsg]): copies vector k = 1, 2, ... that came with the matrix in a file. which
   ! is RRB_VECTOR_RHS, RRB_VECTOR_GUESS or RRB_VECTOR_SOLUTION; there are RRB_INFO_FILE_RHS right-hand sides.
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

   ! set_values(values [, stat] [, errmsg]): replaces the values of all entries, in the order in which they were given.
   ! For a matrix from a file the order is row by row.
   subroutine set_values(self, values, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: values(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (differs("values", shape(values, int64), [self%given], stat, errmsg)) return
      call report(c_set_values(self%handle, values), stat, errmsg)
   end subroutine set_values

   ! arrays(format, i0, i1, i2, values [, stat] [, errmsg]): allocates and writes the arrays of a storage format, such
   ! as RRB_FORMAT_ELL. Indices count from 0.
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

   ! factorize([stat] [, errmsg]): checks the matrix and sets up method, format and preconditioner.
   subroutine factorize(self, stat, errmsg)
      class(sparse_solver), intent(inout) :: self
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_factorize(self%handle), stat, errmsg)
   end subroutine factorize

   ! solve(b, x [, stat] [, errmsg]): solves A x = b until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol), with the
   ! default reference.
   !
   ! stat is RRB_OK, RRB_NOT_CONVERGED (iteration limit, stagnation or divergence), RRB_STOPPED (by the monitor) or
   ! negative.
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

   ! apply(r, z [, stat] [, errmsg]): computes z = M^-1 r with the preconditioner, for a Krylov method of the caller.
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

   ! multiply(x, y [, stat] [, errmsg]): computes y = A x.
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

   ! multiply_transposed(x, y [, stat] [, errmsg]): computes y = A' x.
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
