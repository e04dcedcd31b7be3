! Convection and diffusion of heat in a rotating fluid, by finite volumes on n x n cells of the unit square:
!
!    div(u T) - div(grad T) = 0,   T = 1 on the left wall, T = 0 on the right wall, no flux through bottom and top
!
! u = (d psi/dy, -d psi/dx), psi = 50 sin(pi x) sin(pi y). Upwind differences make the matrix nonsymmetric.
! Prints the heat fluxes through both walls, relative to those of a fluid at rest (Nusselt numbers); they must agree.
program convection
   use, intrinsic :: iso_c_binding, only: dp => c_double
   use rrbsolver
   implicit none
   integer, parameter :: n = 40
   integer :: row_ptr(n*n + 1), col(5*n*n), i, j, row, iterations, status, entries = 0
   real(dp) :: values(5*n*n), b(n*n), t(n*n), diagonal
   type(sparse_solver) :: a

   row_ptr(1) = 1                                                  ! indices count from 1
   do j = 1, n
      do i = 1, n
         row = (j - 1)*n + i
         diagonal = merge(2, 0, i == 1 .or. i == n)                ! the wall is half a cell away
         b(row) = merge(2, 0, i == 1)
         if (i > 1) call face(row - 1, psi(i - 1, j - 1) - psi(i - 1, j))
         if (i < n) call face(row + 1, psi(i, j) - psi(i, j - 1))
         if (j > 1) call face(row - n, psi(i, j - 1) - psi(i - 1, j - 1))
         if (j < n) call face(row + n, psi(i - 1, j) - psi(i, j))
         call add(row, diagonal)                                   ! the order within a row is arbitrary
         row_ptr(row + 1) = entries + 1
      end do
   end do

   call a%create(n*n, n*n, row_ptr, col(:entries), values(:entries))
   call a%set('rel_tol=1e-8')
   call a%factorize()
   t = 0.5_dp
   call a%solve(b, t, stat=status)                                 ! t: initial guess in, solution out
   call a%get(RRB_INFO_ITERATIONS, iterations)
   print '(a, l1, a, i0)', 'converged: ', status == RRB_OK, ', iterations: ', iterations
   print '(a, f0.3, a, f0.3, a)', 'Nusselt number: ', sum(2*(1 - t(1::n))), ' at the hot wall, ', &
      sum(2*t(n::n)), ' at the cold wall'

contains
   pure real(dp) function psi(i, j)                                ! at cell corners
      integer, intent(in) :: i, j
      psi = 50*sin(acos(-1.0_dp)*i/n)*sin(acos(-1.0_dp)*j/n)
   end function psi
   subroutine face(neighbour, flow)                                ! flow out of the cell
      integer, intent(in) :: neighbour
      real(dp), intent(in) :: flow
      call add(neighbour, -1 + min(flow, 0.0_dp))
      diagonal = diagonal + 1 + max(flow, 0.0_dp)
   end subroutine face
   subroutine add(column, value)
      integer, intent(in) :: column
      real(dp), intent(in) :: value
      entries = entries + 1
      col(entries) = column
      values(entries) = value
   end subroutine add
end program convection
