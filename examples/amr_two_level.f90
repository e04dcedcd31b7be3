! Solves -Laplace(u) = f on the unit cube, u = 0 on the boundary, on two levels of an adaptive grid (FAC, MLAT). The
! coarse level has 32^3 cells. A refined patch on [1/4, 3/4]^3 has 32^3 cells of half the size. One cycle has these
! steps:
!
!    1. Fill the ghost cells of the patch from the coarse level by trilinear interpolation.
!    2. Apply nu sweeps of the block smoother to the patch.
!    3. Solve A_c w = c exactly on the coarse level: c = A_c (R u) + R (f - A u) under the patch, c = f elsewhere.
!    4. Correct the patch: u = u + P (w - R u).
!
! R averages eight cells, P interpolates trilinearly. Prints the convergence factor per cycle (residual of the patch)
! for block Jacobi and coloured block Gauss-Seidel with blocks of 4^3 and 8^3 cells and nu = 1, 2, 3. The program fails
! if a factor differs by more than 5 percent from that of an independent program.
program amr_two_level
   use, intrinsic :: iso_c_binding, only: dp => c_double
   use rrbsolver
   implicit none

   integer, parameter :: n = 32, low = n/4 + 1, high = 3*n/4        ! coarse cells under the patch: low..high
   integer, parameter :: cycles = 11, first = 5, last = 11          ! measures the factor from cycle first to last
   real(dp), parameter :: pi = acos(-1.0_dp)
   type(smoother) :: relaxation
   type(smoother_patch) :: patch(1)
   real(dp), allocatable, target :: u(:, :, :), f(:, :, :)          ! the patch, u with ghost cells 0..n+1
   real(dp) :: coarse(n, n, n), modes(n, n), eigenvalue(n)

   logical :: all_agree

   call make_modes()
   all_agree = .true.
   allocate (u(0:n + 1, 0:n + 1, 0:n + 1), f(n, n, n))
   patch(1)%u => u
   patch(1)%f => f
   print '(a)', 'smoother                     block   nu=1   nu=2   nu=3'
   call table('block Jacobi, 0.8', 'method=block_jacobi', 4, [0.52_dp, 0.32_dp, 0.21_dp])
   call table('block Jacobi, 0.8', 'method=block_jacobi', 8, [0.49_dp, 0.31_dp, 0.20_dp])
   call table('coloured Gauss-Seidel, 1', 'omega=1', 4, [0.22_dp, 0.10_dp, 0.14_dp])
   call table('coloured Gauss-Seidel, 1', 'omega=1', 8, [0.22_dp, 0.16_dp, 0.18_dp])
   call table('coloured Gauss-Seidel, 0.85', 'omega=0.85', 4, [0.38_dp, 0.18_dp, 0.10_dp])
   if (.not. all_agree) error stop 'factors differ from the known ones by more than 5 percent'
   print '(a)', 'all within 5 percent of the known factors'

contains

   subroutine table(name, options, block, known)
      character(*), intent(in) :: name, options
      integer, intent(in) :: block
      real(dp), intent(in) :: known(3)
      real(dp) :: factor(3)
      integer :: nu
      call relaxation%create([6, -1, -1, -1, -1, -1, -1]*1.0_dp, [block, block, block])
      call relaxation%set(options)
      ! Box of the patch in the index space of the fine level, where the domain has the cells 0..2n-1.
      call relaxation%set_patches(reshape([n/2, n/2, n/2], [3, 1]), reshape([n, n, n], [3, 1]))
      do nu = 1, 3
         factor(nu) = factor_of(nu)
      end do
      print '(a28, i5, "^3", 3f7.3)', name//repeat(' ', 28 - len(name)), block, factor
      all_agree = all_agree .and. all(abs(factor - known) <= 0.05_dp*known)
   end subroutine table

   real(dp) function factor_of(nu)
      integer, intent(in) :: nu
      real(dp) :: residual(cycles)
      integer :: c
      call start()
      call fill_ghosts()
      do c = 1, cycles
         call relaxation%apply(patch, nu)
         call correct()
         call fill_ghosts()
         call relaxation%residual(patch, residual(c))
      end do
      factor_of = (residual(last)/residual(first))**(1.0_dp/(last - first))
   end function factor_of

   ! Pseudorandom numbers between -1/2 and 1/2, identical with every compiler.
   subroutine start()
      integer :: i, j, k, state
      state = 12345
      do k = 1, n
         do j = 1, n
            do i = 1, n
               coarse(i, j, k) = next(state)
               u(i, j, k) = next(state)
            end do
         end do
      end do
      f = 0
   end subroutine start

   real(dp) function next(state)
      integer, intent(inout) :: state
      integer :: quotient
      quotient = state/127773                                       ! Park and Miller's generator, by Schrage's method
      state = 16807*(state - quotient*127773) - 2836*quotient
      if (state <= 0) state = state + 2147483647
      next = state/2147483647.0_dp - 0.5_dp
   end function next

   ! Coarse values with ghost cells, which hold the mirror image with opposite sign (u = 0 on the boundary).
   pure function with_ghosts(v) result(w)
      real(dp), intent(in) :: v(n, n, n)
      real(dp) :: w(0:n + 1, 0:n + 1, 0:n + 1)
      w(1:n, 1:n, 1:n) = v
      w(0, 1:n, 1:n) = -w(1, 1:n, 1:n)
      w(n + 1, 1:n, 1:n) = -w(n, 1:n, 1:n)
      w(:, 0, 1:n) = -w(:, 1, 1:n)
      w(:, n + 1, 1:n) = -w(:, n, 1:n)
      w(:, :, 0) = -w(:, :, 1)
      w(:, :, n + 1) = -w(:, :, n)
   end function with_ghosts

   ! Trilinear interpolation to the patch and its ghost cells.
   pure function interpolated(v) result(fine)
      real(dp), intent(in) :: v(n, n, n)
      real(dp) :: fine(0:n + 1, 0:n + 1, 0:n + 1)
      real(dp), allocatable :: w(:, :, :)
      integer :: i, j, k, at(3), to(3), fine_cell(3)
      allocate (w(0:n + 1, 0:n + 1, 0:n + 1))
      w = with_ghosts(v)
      do k = 0, n + 1
         do j = 0, n + 1
            do i = 0, n + 1
               fine_cell = [i, j, k] + n/2 - 1                      ! counted from 0 at the corner of the domain
               at = fine_cell/2 + 1
               to = at + 2*mod(fine_cell, 2) - 1
               fine(i, j, k) = 27*w(at(1), at(2), at(3)) + 9*w(to(1), at(2), at(3)) + 9*w(at(1), to(2), at(3)) &
                               + 9*w(at(1), at(2), to(3)) + 3*w(to(1), to(2), at(3)) + 3*w(to(1), at(2), to(3)) &
                               + 3*w(at(1), to(2), to(3)) + w(to(1), to(2), to(3))
            end do
         end do
      end do
      fine = fine/64
   end function interpolated

   ! Each ghost cell of the patch is interpolated from the coarse level.
   subroutine fill_ghosts()
      real(dp), allocatable :: inside(:, :, :)
      allocate (inside, source=u(1:n, 1:n, 1:n))
      u = interpolated(coarse)
      u(1:n, 1:n, 1:n) = inside
   end subroutine fill_ghosts

   pure function average(v) result(w)
      real(dp), intent(in) :: v(n, n, n)
      real(dp) :: w(n/2, n/2, n/2)
      w = (v(1:n:2, 1:n:2, 1:n:2) + v(2:n:2, 1:n:2, 1:n:2) + v(1:n:2, 2:n:2, 1:n:2) + v(2:n:2, 2:n:2, 1:n:2) &
           + v(1:n:2, 1:n:2, 2:n:2) + v(2:n:2, 1:n:2, 2:n:2) + v(1:n:2, 2:n:2, 2:n:2) + v(2:n:2, 2:n:2, 2:n:2))/8
   end function average

   pure function times_a(w) result(v)
      real(dp), intent(in) :: w(0:n + 1, 0:n + 1, 0:n + 1)
      real(dp) :: v(n, n, n)
      v = 6*w(1:n, 1:n, 1:n) - w(0:n - 1, 1:n, 1:n) - w(2:, 1:n, 1:n) - w(1:n, 0:n - 1, 1:n) - w(1:n, 2:, 1:n) &
          - w(1:n, 1:n, 0:n - 1) - w(1:n, 1:n, 2:)
   end function times_a

   ! Solves on the coarse level and corrects the patch. Coarse matrix entries are in units of 1/H^2, a quarter of 1/h^2
   ! on the fine level.
   subroutine correct()
      real(dp), allocatable :: before(:, :, :), rhs(:, :, :), change(:, :, :), a_before(:, :, :)
      allocate (before(n, n, n), rhs(n, n, n), a_before(n, n, n), change(0:n + 1, 0:n + 1, 0:n + 1))
      before = coarse
      before(low:high, low:high, low:high) = average(u(1:n, 1:n, 1:n))
      a_before = times_a(with_ghosts(before))
      rhs = 0
      rhs(low:high, low:high, low:high) = a_before(low:high, low:high, low:high) + 4*average(f - times_a(u))
      coarse = solved(rhs)
      change = interpolated(coarse - before)
      u(1:n, 1:n, 1:n) = u(1:n, 1:n, 1:n) + change(1:n, 1:n, 1:n)
   end subroutine correct

   ! Eigenvectors and eigenvalues of the one-dimensional operator: sin(k pi (i - 1/2) / n), 2 - 2 cos(k pi / n).
   subroutine make_modes()
      integer :: i, k
      do k = 1, n
         eigenvalue(k) = 2 - 2*cos(k*pi/n)
         do i = 1, n
            modes(i, k) = sin(k*pi*(i - 0.5_dp)/n)
         end do
         modes(:, k) = modes(:, k)/norm2(modes(:, k))
      end do
   end subroutine make_modes

   ! Solves A_c w = rhs exactly: sine transforms in three directions, division by the eigenvalues, and transforms back.
   function solved(rhs) result(w)
      real(dp), intent(in) :: rhs(n, n, n)
      real(dp) :: w(n, n, n)
      integer :: i, j, k
      w = transformed(rhs, transpose(modes))
      do k = 1, n
         do j = 1, n
            do i = 1, n
               w(i, j, k) = w(i, j, k)/(eigenvalue(i) + eigenvalue(j) + eigenvalue(k))
            end do
         end do
      end do
      w = transformed(w, modes)
   end function solved

   function transformed(v, m) result(w)
      real(dp), intent(in) :: v(n, n, n), m(n, n)
      real(dp) :: w(n, n, n)
      integer :: k
      do k = 1, n
         w(:, :, k) = matmul(m, matmul(v(:, :, k), transpose(m)))
      end do
      do k = 1, n
         w(:, k, :) = matmul(w(:, k, :), transpose(m))
      end do
   end function transformed

end program amr_two_level
