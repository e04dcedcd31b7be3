! Solves the test problem of the RRB papers: -Laplace(u) = f on the unit square, u = 0 on the boundary. The exact
! solution is u = x(x-1) y(y-1) exp(xy). The matrix entries are 4 and -1, the right-hand side is h^2 f. Prints the
! number of iterations and the largest error for 1/h = 64, 128, ...
program poisson
   use, intrinsic :: iso_c_binding, only: dp => c_double
   use rrbsolver
   implicit none
   real(dp), allocatable :: center(:, :), off(:, :), b(:, :), x(:, :), exact(:, :)
   real(dp) :: h
   integer :: n, m, i, j, k, iterations
   type(rrb_solver) :: solver

   write (*, '(a)') ' 1/h  iterations  largest error'
   do k = 6, 10
      n = 2**k
      m = n - 1                                    ! m x m unknowns; unknown (i, j) is at the point (i h, j h)
      h = 1.0_dp/n
      allocate (center(m, m), source=4.0_dp)
      allocate (off(m, m), source=-1.0_dp)         ! both east and north; entries that leave the grid are ignored
      allocate (x(m, m), source=0.0_dp)
      allocate (b(m, m), exact(m, m))
      do j = 1, m
         do i = 1, m
            b(i, j) = h**2*f(i*h, j*h)
            exact(i, j) = u(i*h, j*h)
         end do
      end do

      call solver%create(m, m)
      call solver%set('norm=preconditioned rel_tol=1e-6')             ! the stopping test of the papers
      call solver%factorize(center, off, off)
      call solver%solve(b, x)                                         ! x: initial guess in, solution out
      call solver%get(RRB_INFO_ITERATIONS, iterations)

      write (*, '(i4, i12, es15.2)') n, iterations, maxval(abs(x - exact))
      deallocate (center, off, b, x, exact)
   end do

contains

   pure real(dp) function u(x, y)
      real(dp), intent(in) :: x, y
      u = x*(x - 1)*y*(y - 1)*exp(x*y)
   end function u

   pure real(dp) function f(x, y)
      real(dp), intent(in) :: x, y
      real(dp) :: a, b, u_xx, u_yy
      a = x*(x - 1)
      b = y*(y - 1)
      u_xx = b*(2 + 2*(2*x - 1)*y + a*y**2)
      u_yy = a*(2 + 2*(2*y - 1)*x + b*x**2)
      f = -(u_xx + u_yy)*exp(x*y)
   end function f

end program poisson
