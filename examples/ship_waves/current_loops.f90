! The loop of a time step with a current: a fixed-point sweep for the implicit half of the transport by the current.
! Over half a time step, the current changes phi by -t(phi) and zeta by -t(zeta),
!    t(phi)_P = sum over faces of c_f (phi_nb - phi_P),    t(zeta)_P = sum over faces of c_f (zeta_nb + zeta_P),
! with c_f = dt U_f.n/(4 dx), n outwards. These are G dt/2 and D dt/2 with D = -G^T: phi is advected, zeta is in flux
! form. The loop is the same; only the sign of the cell's own value differs (`own`). As in wave_loops, its body is a
! pure function of one cell.
module current_loops
   use, intrinsic :: iso_fortran_env, only: int64
   use host, only: dp
   use wet_runs, only: run
   implicit none
   private
   public :: sweep, transport_times

   real(dp), parameter, public :: of_potential = -1, of_elevation = 1      ! values of `own`

contains

   ! y = right - share t(x). c_east, c_north: c_f with n to the east or north, 0 on closed faces.
   subroutine sweep(runs, cells, c_east, c_north, own, share, right, x, y)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: c_east(cells), c_north(cells), own, share, right(cells), x(cells)
      real(dp), intent(inout) :: y(cells)
      integer(int64) :: k
      !$omp parallel do schedule(static)
      do k = 1, size(runs, kind=int64)
         call sweep_of_run(runs(k), cells, c_east, c_north, own, share, right, x, y)
      end do
   end subroutine sweep

   ! At the west and south edge of the grid, the neighbour is the cell itself, and its face is closed: factor 0.
   pure subroutine sweep_of_run(r, cells, c_east, c_north, own, share, right, x, y)
      type(run), value :: r
      integer(int64), value :: cells
      real(dp), value :: own, share
      real(dp), intent(in) :: c_east(cells), c_north(cells), right(cells), x(cells)
      real(dp), intent(inout) :: y(cells)
      real(dp) :: west, south
      integer(int64) :: p
      west = merge(0, 1, r%west == 0)
      south = merge(0, 1, r%south == 0)
      do p = r%first, r%last
         y(p) = right(p) - share*transport_of_cell(own, c_east(p), west*c_east(p + r%west), c_north(p), &
            south*c_north(p + r%south), x(p), x(p + r%east), x(p + r%west), x(p + r%north), x(p + r%south))
      end do
   end subroutine sweep_of_run

   ! t(x)_P
   pure real(dp) function transport_of_cell(own, c_east, c_west, c_north, c_south, x, x_east, x_west, x_north, &
                                            x_south) result(transport)
      real(dp), value :: own, c_east, c_west, c_north, c_south, x, x_east, x_west, x_north, x_south
      transport = c_east*(x_east + own*x) - c_west*(x_west + own*x) + c_north*(x_north + own*x) &
         - c_south*(x_south + own*x)
   end function transport_of_cell

   ! sum over wet cells of u t(x), in the order of the cells.
   pure real(dp) function transport_times(runs, cells, c_east, c_north, own, x, u) result(total)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: c_east(cells), c_north(cells), own, x(cells), u(cells)
      integer(int64) :: k, p
      total = 0
      do k = 1, size(runs, kind=int64)
         associate (r => runs(k))
            do p = r%first, r%last
               total = total + u(p)*transport_of_cell(own, c_east(p), merge(c_east(p + r%west), 0.0_dp, r%west /= 0), &
                  c_north(p), merge(c_north(p + r%south), 0.0_dp, r%south /= 0), &
                  x(p), x(p + r%east), x(p + r%west), x(p + r%north), x(p + r%south))
            end do
         end associate
      end do
   end function transport_times

end module current_loops
