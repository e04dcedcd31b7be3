! Initial pressure around a gas bubble (density 1) in a closed box of liquid (density 1000):
!
!    -div(1/rho grad p) = -div(w),   w = (0, 0, -g) inside the box, zero normal component at the walls
!
! The resulting acceleration is w - (1/rho) grad p. Theory predicts 2 g for a massless sphere (added mass 1/2).
program rising_bubble
   use, intrinsic :: iso_c_binding, only: dp => c_double
   use rrbsolver
   implicit none
   integer, parameter :: nx = 24, ny = 24, nz = 32
   real(dp), parameter :: h = 0.001_dp, g = 9.81_dp                 ! cell width [m], gravity [m/s^2]
   real(dp), dimension(nx, ny, nz) :: rho, center, east, north, top, b, p
   real(dp) :: a_p(nx, ny, nz), upward(nx, ny, nz - 1)              ! A p; acceleration at faces [m/s^2]
   logical :: gas(nx, ny, nz), within(nx, ny, nz - 1)
   integer :: i, j, k, iterations, status
   type(dpcg_solver) :: solver

   do concurrent(i=1:nx, j=1:ny, k=1:nz)                            ! radius 5 cells, center (12, 12, 12)
      gas(i, j, k) = (i - 12.5_dp)**2 + (j - 12.5_dp)**2 + (k - 12.5_dp)**2 < 25
   end do
   rho = merge(1.0_dp, 1000.0_dp, gas)                              ! [kg/m^3]

   east = 0                                                         ! no flux through the walls
   north = 0
   top = 0
   east(:nx - 1, :, :) = -2/(rho(:nx - 1, :, :) + rho(2:, :, :))    ! -1/rho at the face: matrix entries are negative
   north(:, :ny - 1, :) = -2/(rho(:, :ny - 1, :) + rho(:, 2:, :))
   top(:, :, :nz - 1) = -2/(rho(:, :, :nz - 1) + rho(:, :, 2:))
   center = -(east + eoshift(east, -1, dim=1) + north + eoshift(north, -1, dim=2) + top + eoshift(top, -1, dim=3))
   b = 0                                                            ! -div(w) h^2: nonzero at the bottom and the top
   b(:, :, 1) = g*h
   b(:, :, nz) = -g*h

   call solver%create(nx, ny, nz)
   call solver%set('rel_tol=1e-8')
   call solver%factorize(center, east, north, top)                  ! in every time step, since the interface moves
   p = 0
   call solver%solve(b, p, stat=status)                             ! p: initial guess in, pressure out
   call solver%get(RRB_INFO_ITERATIONS, iterations)
   print '(a, l1, a, i0)', 'converged: ', status == RRB_OK, ', iterations: ', iterations

   upward = -g + top(:, :, :nz - 1)*(p(:, :, 2:) - p(:, :, :nz - 1))/h
   within = gas(:, :, :nz - 1) .and. gas(:, :, 2:)                  ! faces within the gas
   print '(a, f0.2, a)', 'acceleration of the bubble: ', sum(upward, within)/count(within)/g, ' g'
   call solver%multiply(p, a_p)
   print '(a, l1)', 'divergence below 1e-6 g / h: ', maxval(abs(b - a_p)) < 1e-6_dp*g*h
end program rising_bubble
