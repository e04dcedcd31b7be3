! The in-house solver: conjugate gradients with incomplete Cholesky IC(0) in the natural order of the grid, for
! 5-point matrices. Meijerink and Van der Vorst, Math. Comp. 31 (1977) 148-162.
module iccg_solver
   use host, only: dp
   implicit none
   private
   public :: ic0_factorize, iccg

contains

   ! pivot(i, j) = 1/d(i, j) of A ~ (D + L) D^-1 (D + L^T) with L the lower part of A itself.
   subroutine ic0_factorize(nx, ny, center, east, north, pivot)
      integer, intent(in) :: nx, ny
      real(dp), intent(in) :: center(nx, ny), east(nx, ny), north(nx, ny)
      real(dp), intent(out) :: pivot(nx, ny)
      real(dp) :: d
      integer :: i, j, west, south
      do j = 1, ny
         south = j - 1
         do i = 1, nx
            west = i - 1
            d = center(i, j)
            if (west > 0) d = d - east(west, j)**2*pivot(west, j)
            if (south > 0) d = d - north(i, south)**2*pivot(i, south)
            pivot(i, j) = 1/d
         end do
      end do
   end subroutine ic0_factorize

   ! Solves A x = b from the guess in x until ||r||_2 <= rel_tol ||b||_2. history(0:): ||r||_2/||b||_2 per iteration.
   subroutine iccg(nx, ny, center, east, north, pivot, b, x, rel_tol, max_iter, iterations, history, converged)
      integer, intent(in) :: nx, ny, max_iter
      real(dp), intent(in) :: center(nx, ny), east(nx, ny), north(nx, ny), pivot(nx, ny), b(nx, ny), rel_tol
      real(dp), intent(inout) :: x(nx, ny)
      integer, intent(out) :: iterations
      real(dp), intent(out) :: history(0:max_iter)
      logical, intent(out) :: converged
      real(dp), allocatable, save :: r(:, :), z(:, :), p(:, :), q(:, :)
      real(dp) :: alpha, beta, rho, rho_old, norm_b

      if (allocated(r)) then
         if (any(shape(r) /= [nx, ny])) deallocate (r, z, p, q)
      end if
      if (.not. allocated(r)) allocate (r(nx, ny), z(nx, ny), p(nx, ny), q(nx, ny))

      iterations = 0
      norm_b = sqrt(dot(b, b))
      if (norm_b <= 0) then
         x = 0
         history(0) = 0
         converged = .true.
         return
      end if
      call multiply(x, q)
      r = b - q
      history(0) = sqrt(dot(r, r))/norm_b
      rho_old = 1
      do
         converged = history(iterations) <= rel_tol
         if (converged .or. iterations == max_iter) return
         call precondition(r, z)
         rho = dot(r, z)
         if (iterations == 0) then
            p = z
         else
            beta = rho/rho_old
            p = z + beta*p
         end if
         call multiply(p, q)
         alpha = rho/dot(p, q)
         x = x + alpha*p
         r = r - alpha*q
         rho_old = rho
         iterations = iterations + 1
         history(iterations) = sqrt(dot(r, r))/norm_b
      end do

   contains

      ! y = A u
      subroutine multiply(u, y)
         real(dp), intent(in) :: u(nx, ny)
         real(dp), intent(out) :: y(nx, ny)
         integer :: i, j, south
         do j = 1, ny
            south = j - 1
            do i = 1, nx
               y(i, j) = center(i, j)*u(i, j)
            end do
            do i = 1, nx - 1
               y(i, j) = y(i, j) + east(i, j)*u(i + 1, j)
            end do
            do i = 2, nx
               y(i, j) = y(i, j) + east(i - 1, j)*u(i - 1, j)
            end do
            if (j < ny) then
               do i = 1, nx
                  y(i, j) = y(i, j) + north(i, j)*u(i, j + 1)
               end do
            end if
            if (south > 0) then
               do i = 1, nx
                  y(i, j) = y(i, j) + north(i, south)*u(i, south)
               end do
            end if
         end do
      end subroutine multiply

      ! (D + L) D^-1 (D + L^T) y = v, forward then backward.
      subroutine precondition(v, y)
         real(dp), intent(in) :: v(nx, ny)
         real(dp), intent(out) :: y(nx, ny)
         integer :: i, j, south
         do j = 1, ny
            south = j - 1
            if (south > 0) then
               do i = 1, nx
                  y(i, j) = v(i, j) - north(i, south)*y(i, south)
               end do
            else
               y(:, j) = v(:, j)
            end if
            y(1, j) = pivot(1, j)*y(1, j)
            do i = 2, nx
               y(i, j) = pivot(i, j)*(y(i, j) - east(i - 1, j)*y(i - 1, j))
            end do
         end do
         do j = ny, 1, -1
            if (j < ny) then
               do i = 1, nx
                  y(i, j) = y(i, j) - pivot(i, j)*north(i, j)*y(i, j + 1)
               end do
            end if
            do i = nx - 1, 1, -1
               y(i, j) = y(i, j) - pivot(i, j)*east(i, j)*y(i + 1, j)
            end do
         end do
      end subroutine precondition

      pure real(dp) function dot(u, v)
         real(dp), intent(in) :: u(nx, ny), v(nx, ny)
         integer :: j
         dot = 0
         do j = 1, ny
            dot = dot + dot_product(u(:, j), v(:, j))
         end do
      end function dot

   end subroutine iccg

end module iccg_solver
