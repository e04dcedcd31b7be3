! A user's program for sparse matrices with type(sparse_solver), built against the installed package. Exit status 0: the
! library behaves as documented.
program sparse
   use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t
   use, intrinsic :: iso_fortran_env, only: int64
   use rrbsolver
   implicit none

   ! Sample matrix with the rows [10 . 20 .] [. 30 . 40] [50 . 60 70] [. . . 80].
   integer, parameter :: row_ptr(5) = [1, 3, 5, 8, 9], col(8) = [1, 3, 2, 4, 1, 3, 4, 4]
   real(c_double), parameter :: values(8) = [10, 20, 30, 40, 50, 60, 70, 80], x(4) = [1, 10, 100, 1000]
   type(sparse_solver) :: a, b
   integer(c_int64_t), allocatable :: i0(:), i1(:), i2(:)
   real(c_double), allocatable :: stored(:)
   real(c_double) :: y(4), solution(4), short_one(3)
   integer :: stat, number
   character(200) :: errmsg

   call a%create(4, 4, row_ptr, col, values)
   call a%multiply(x, y)
   call check(equal(y, [2010, 40300, 76050, 80000]), "multiply")
   call a%multiply_transposed(x, y)
   call check(equal(y, [5010, 300, 6020, 87400]), "multiply_transposed")
   call b%create(4, 4, row_ptr - 1, col - 1, values, base=0)
   call b%set("format=tjds")
   call b%multiply(x, y)
   call check(equal(y, [2010, 40300, 76050, 80000]), "base 0")
   call b%get(RRB_INFO_FORMAT, number)
   call check(number == RRB_FORMAT_TJDS, "the format in use")
   call b%create_coo(4, 4, [4, 1], [4, 2], [80.0_c_double, 7.0_c_double])
   call b%set_values([8.0_c_double, 5.0_c_double])
   call b%multiply(x, y)
   call check(equal(y, [50, 0, 0, 8000]), "set_values in the order given")
   call b%create_csc(2_int64, 1_int64, [1_int64, 3_int64], [2_int64, 1_int64], [3.0_c_double, 4.0_c_double])
   call b%multiply([1.0_c_double], y(1:2))
   call check(equal(y(1:2), [4, 3]), "by columns, indices of 8 bytes")
   ! One triangle of a symmetric matrix.
   call b%create_coo(2, 2, [1, 1, 2], [1, 2, 2], values(1:3))
   call b%factorize()
   call b%get(RRB_INFO_TRIANGLE, number)
   call check(number == RRB_TRIANGLE_UPPER, "the triangle")
   call a%set("rel_tol=1e-12")
   call a%factorize()
   call a%multiply(x, y)
   solution = 0
   call a%solve(y, solution)
   ! The condition number of the sample is below 10, so the relative error is at most 10 times the relative residual.
   call check(all(abs(solution - x) < 1e-8_c_double), "solve")
   call a%get(RRB_INFO_SOLVER, number)
   call check(number == RRB_SOLVER_IDR, "the method in use")
   call a%apply(y, solution)
   call a%set("solver=cg")
   call a%factorize(stat, errmsg)
   call check(stat == RRB_ERR_MATRIX .and. index(errmsg, "solver=cg needs a symmetric matrix: a(1, 3)") > 0, errmsg)
   call a%arrays(RRB_FORMAT_DIA, i0, i1, i2, stored)
   call check(all(i0 == [-2, 0, 1, 2]) .and. size(stored) == 16 .and. size(i1) == 0, "arrays")
   call b%create_from(RRB_FORMAT_DIA, 4, 4, i0, i1, i2, stored)
   call b%multiply(x, y)
   call check(equal(y, [2010, 40300, 76050, 80000]), "create_from")
   call a%write("sparse_f.mtx", RRB_FILE_MTX)
   call b%read("sparse_f.mtx")
   open (newunit=number, file="sparse_f.mtx")
   close (number, status="delete")
   call b%multiply(x, y)
   call check(equal(y, [2010, 40300, 76050, 80000]), "read")

   call b%set_values(values(1:7), stat, errmsg)
   call check(stat == RRB_ERR_DIMENSION .and. index(errmsg, "values must have the shape (8), got (7)") > 0, errmsg)
   call a%multiply(x, short_one, stat, errmsg)
   call check(stat == RRB_ERR_DIMENSION .and. index(errmsg, "y must have the shape (4), got (3)") > 0, errmsg)
   call a%solve(short_one, y, stat, errmsg)
   call check(stat == RRB_ERR_DIMENSION .and. index(errmsg, "b must have the shape (4), got (3)") > 0, errmsg)
   call b%get_vector(RRB_VECTOR_RHS, 1, y, stat, errmsg)
   call check(stat == RRB_ERR_ARGUMENT, errmsg)
   call check(index(errmsg, "there is no rhs 1: the matrix has no rhs") > 0, errmsg)
   call b%create(4, 4, row_ptr - 1, col - 1, values, stat=stat, errmsg=errmsg)
   call check(stat == RRB_ERR_ARGUMENT, errmsg)
   call check(index(errmsg, "entry 1 of row_ptr must be the base, 1 (or is base 0?), got 0") > 0, errmsg)
   call b%create(4, 4, row_ptr, col, values, base=99, stat=stat, errmsg=errmsg)
   call check(stat == RRB_ERR_ARGUMENT .and. index(errmsg, "base must be 0 or 1, got 99; stat") == 1, errmsg)
   call b%create(4, 4, row_ptr(1:4), col, values, stat=stat, errmsg=errmsg)
   call check(stat == RRB_ERR_DIMENSION .and. index(errmsg, "row_ptr must have the shape (5), got (4)") > 0, errmsg)
   call b%read("none.mtx", stat, errmsg)
   call check(stat == RRB_ERR_IO .and. index(errmsg, "none.mtx") > 0, errmsg)
   deallocate (i0, i1, i2, stored)
   print "(a)", "sparse matrices in Fortran: all as documented"

contains

   ! Sums of integers are exact.
   logical function equal(a, b)
      real(c_double), intent(in) :: a(:)
      integer, intent(in) :: b(:)
      equal = all(abs(a - b) <= 0)
   end function equal

   subroutine check(right, what)
      logical, intent(in) :: right
      character(*), intent(in) :: what
      if (.not. right) error stop "failed: " // trim(what)
   end subroutine check
end program sparse
