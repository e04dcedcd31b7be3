! A solve with the in-house ICCG(0), then with rrbsolver in its place. Both use the same arrays.
program replace_iccg
   use iccg_solver                       ! before
   use rrbsolver                         ! after
   use, intrinsic :: iso_c_binding, only: dp => c_double
   implicit none
   integer, parameter :: nx = 700, ny = 500, max_iter = 2000
   real(dp), parameter :: tolerance = 1e-8_dp
   real(dp), dimension(nx, ny) :: center, east, north, pivot, b, x
   real(dp) :: history(0:max_iter)
   integer :: iterations, i, j, step
   logical :: converged
   type(rrb_solver) :: solver

   ! - div(k grad u) + u/1000 = b with closed edges. east(i,j) couples (i,j) and (i+1,j), north(i,j) couples it to
   ! (i,j+1).
   east = reshape([((-1 - 0.9_dp*sin(0.03_dp*i)*cos(0.05_dp*j), i=1, nx), j=1, ny)], [nx, ny])
   north = east
   east(nx, :) = 0
   north(:, ny) = 0
   center = 1e-3_dp - east - eoshift(east, -1, dim=1) - north - eoshift(north, -1, dim=2)
   b = 0
   b(100, 100) = 1
   b(600, 400) = -1

   ! Before
   x = 0
   call ic0_factorize(nx, ny, center, east, north, pivot)
   call iccg(nx, ny, center, east, north, pivot, b, x, tolerance, max_iter, iterations, history, converged)
   write (*, '(a, i5, a)') 'ICCG(0):            ', iterations, ' iterations'

   ! After: one call replaces the two calls above
   x = 0
   call rrb_solve_once(center, east, north, b, x, tolerance, max_iter, iterations)
   write (*, '(a, i5, a)') 'rrb_solve_once:     ', iterations, ' iterations'

   ! After, with a matrix that is constant over many time steps: factorize only once
   call solver%create(nx, ny)
   call solver%set(RRB_OPT_REL_TOL, tolerance)
   call solver%factorize(center, east, north)
   x = 0
   do step = 1, 3
      b(100 + 10*step, 100) = 1          ! the right-hand side of this step; x holds the previous solution
      call solver%solve(b, x)
      call solver%get(RRB_INFO_ITERATIONS, iterations)
      write (*, '(a, i2, a, i5, a)') 'rrb_solver, step', step, ': ', iterations, ' iterations'
   end do
end program replace_iccg
