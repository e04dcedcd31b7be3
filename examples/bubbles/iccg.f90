! The in-house solver: conjugate gradients with incomplete Cholesky IC(0) in the natural order of the grid, for
! symmetric 7-point matrices. Meijerink and Van der Vorst, Math. Comp. 31 (1977) 148-162.
module iccg_solver
   use host, only: dp
   implicit none
   private
   public :: matrix, make_matrix, multiply, iccg_work, ic0_factorize, iccg, dot

   ! A symmetric 7-point matrix. center: diagonal entries; east, north, top: entries of row (i,j,k) in the columns
   ! (i+1,j,k), (i,j+1,k), (i,j,k+1).
   type :: matrix
      integer :: nx = 0, ny = 0, nz = 0
      real(dp), allocatable :: center(:, :, :), east(:, :, :), north(:, :, :), top(:, :, :)
   end type matrix

   type :: iccg_work
      real(dp), allocatable :: pivot(:, :, :), r(:, :, :), z(:, :, :), s(:, :, :), q(:, :, :)
   end type iccg_work

contains

   subroutine make_matrix(a, n)
      type(matrix), intent(out) :: a
      integer, intent(in) :: n(3)
      a%nx = n(1)
      a%ny = n(2)
      a%nz = n(3)
      allocate (a%center(n(1), n(2), n(3)), source=0.0_dp)
      allocate (a%east, a%north, a%top, source=a%center)
   end subroutine make_matrix

   ! Computes D of A ~ (D + L) D^-1 (D + L^T), where L is the strictly lower triangle of A; pivot = 1/d. If the row sums
   ! of A are zero, the last pivot may vanish up to rounding. Then the diagonal entry of A replaces it.
   subroutine ic0_factorize(a, work)
      type(matrix), intent(in) :: a
      type(iccg_work), intent(inout) :: work
      real(dp), parameter :: least = 1e-12_dp
      real(dp) :: d
      integer :: i, j, k
      if (.not. allocated(work%pivot)) then
         allocate (work%pivot(a%nx, a%ny, a%nz))
         allocate (work%r, work%z, work%s, work%q, mold=work%pivot)
      end if
      do k = 1, a%nz
         do j = 1, a%ny
            do i = 1, a%nx
               d = a%center(i, j, k)
               if (i > 1) d = d - a%east(i - 1, j, k)**2*work%pivot(i - 1, j, k)
               if (j > 1) d = d - a%north(i, j - 1, k)**2*work%pivot(i, j - 1, k)
               if (k > 1) d = d - a%top(i, j, k - 1)**2*work%pivot(i, j, k - 1)
               if (d <= least*a%center(i, j, k)) d = a%center(i, j, k)
               work%pivot(i, j, k) = 1/d
            end do
         end do
      end do
   end subroutine ic0_factorize

   ! Solves A x = b from the guess in x until ||r||_2 <= rel_tol ||b||_2.
   subroutine iccg(a, work, b, x, rel_tol, max_iter, iterations, converged)
      type(matrix), intent(in) :: a
      type(iccg_work), intent(inout) :: work
      real(dp), intent(in) :: b(a%nx, a%ny, a%nz), rel_tol
      real(dp), intent(inout) :: x(a%nx, a%ny, a%nz)
      integer, intent(in) :: max_iter
      integer, intent(out) :: iterations
      logical, intent(out) :: converged
      real(dp) :: alpha, rho, rho_old, enough

      iterations = 0
      enough = rel_tol*sqrt(dot(b, b))
      if (enough <= 0) then
         x = 0
         converged = .true.
         return
      end if
      associate (r => work%r, z => work%z, s => work%s, q => work%q)
         call multiply(a, x, q)
         r = b - q
         rho_old = 1
         do
            converged = sqrt(dot(r, r)) <= enough
            if (converged .or. iterations == max_iter) return
            call precondition(a, work%pivot, r, z)
            rho = dot(r, z)
            if (iterations == 0) then
               s = z
            else
               s = z + (rho/rho_old)*s
            end if
            call multiply(a, s, q)
            alpha = rho/dot(s, q)
            x = x + alpha*s
            r = r - alpha*q
            rho_old = rho
            iterations = iterations + 1
         end do
      end associate
   end subroutine iccg

   ! Computes y = A u.
   subroutine multiply(a, u, y)
      type(matrix), intent(in) :: a
      real(dp), intent(in) :: u(a%nx, a%ny, a%nz)
      real(dp), intent(out) :: y(a%nx, a%ny, a%nz)
      integer :: j, k, nx
      nx = a%nx
      do k = 1, a%nz
         do j = 1, a%ny
            y(:, j, k) = a%center(:, j, k)*u(:, j, k)
            y(1:nx - 1, j, k) = y(1:nx - 1, j, k) + a%east(1:nx - 1, j, k)*u(2:nx, j, k)
            y(2:nx, j, k) = y(2:nx, j, k) + a%east(1:nx - 1, j, k)*u(1:nx - 1, j, k)
            if (j > 1) y(:, j, k) = y(:, j, k) + a%north(:, j - 1, k)*u(:, j - 1, k)
            if (j < a%ny) y(:, j, k) = y(:, j, k) + a%north(:, j, k)*u(:, j + 1, k)
            if (k > 1) y(:, j, k) = y(:, j, k) + a%top(:, j, k - 1)*u(:, j, k - 1)
            if (k < a%nz) y(:, j, k) = y(:, j, k) + a%top(:, j, k)*u(:, j, k + 1)
         end do
      end do
   end subroutine multiply

   ! Solves (D + L) D^-1 (D + L^T) y = v by a forward and a backward sweep.
   subroutine precondition(a, pivot, v, y)
      type(matrix), intent(in) :: a
      real(dp), intent(in) :: pivot(a%nx, a%ny, a%nz), v(a%nx, a%ny, a%nz)
      real(dp), intent(out) :: y(a%nx, a%ny, a%nz)
      integer :: i, j, k
      do k = 1, a%nz
         do j = 1, a%ny
            y(:, j, k) = v(:, j, k)
            if (j > 1) y(:, j, k) = y(:, j, k) - a%north(:, j - 1, k)*y(:, j - 1, k)
            if (k > 1) y(:, j, k) = y(:, j, k) - a%top(:, j, k - 1)*y(:, j, k - 1)
            y(1, j, k) = pivot(1, j, k)*y(1, j, k)
            do i = 2, a%nx
               y(i, j, k) = pivot(i, j, k)*(y(i, j, k) - a%east(i - 1, j, k)*y(i - 1, j, k))
            end do
         end do
      end do
      do k = a%nz, 1, -1
         do j = a%ny, 1, -1
            if (j < a%ny) y(:, j, k) = y(:, j, k) - pivot(:, j, k)*a%north(:, j, k)*y(:, j + 1, k)
            if (k < a%nz) y(:, j, k) = y(:, j, k) - pivot(:, j, k)*a%top(:, j, k)*y(:, j, k + 1)
            do i = a%nx - 1, 1, -1
               y(i, j, k) = y(i, j, k) - pivot(i, j, k)*a%east(i, j, k)*y(i + 1, j, k)
            end do
         end do
      end do
   end subroutine precondition

   ! Inner product, summed row by row in a fixed order.
   pure real(dp) function dot(u, v)
      real(dp), intent(in) :: u(:, :, :), v(:, :, :)
      integer :: j, k
      dot = 0
      do k = 1, size(u, 3)
         do j = 1, size(u, 2)
            dot = dot + dot_product(u(:, j, k), v(:, j, k))
         end do
      end do
   end function dot

end module iccg_solver
