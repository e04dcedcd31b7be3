! The loops of a time step over the runs of wet cells: momentum, right-hand side and guess, elevation.
! The body of each loop is a pure function of one cell, so another implementation of the loop (on a device) can be
! compared with it bit by bit. A cell is computed from arrays that the loop does not change, or from its own values:
! results do not depend on the number of threads.
! Memory traffic of a step, in bytes per wet cell: momentum 32, right-hand side and guess 72, elevation 48.
module wave_loops
   use, intrinsic :: iso_fortran_env, only: int64
   use host, only: dp, gravity
   use wet_runs, only: run
   implicit none
   private
   public :: momentum, right_hand_side_and_guess, elevation, rate_times, damp

contains

   ! phi^(n+1/2) = phi^(n-1/2) - span (g zeta^n + P^n)
   subroutine momentum(runs, cells, span, zeta, pressure, phi)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: span, zeta(cells), pressure(cells)
      real(dp), intent(inout) :: phi(cells)
      integer(int64) :: k, p
      !$omp parallel do schedule(static) private(p)
      do k = 1, size(runs, kind=int64)
         do p = runs(k)%first, runs(k)%last
            phi(p) = momentum_of_cell(span, zeta(p), pressure(p), phi(p))
         end do
      end do
   end subroutine momentum

   pure real(dp) function momentum_of_cell(span, zeta, pressure, phi) result(new)
      real(dp), value :: span, zeta, pressure, phi
      new = phi - span*(gravity*zeta + pressure)
   end function momentum_of_cell

   ! b = L_hD phi, and the guess for psi from the four newest solutions psi_1 (newest) to psi_4 (oldest). The guess
   ! overwrites psi_4. weight: dy/dx of east and west faces, dx/dy of north and south faces.
   subroutine right_hand_side_and_guess(runs, cells, weight, hd, phi, b, factor, psi_1, psi_2, psi_3, psi_4)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: weight(2), hd(cells), phi(cells), factor(4), psi_1(cells), psi_2(cells), psi_3(cells)
      real(dp), intent(inout) :: b(cells), psi_4(cells)
      integer(int64) :: k
      !$omp parallel do schedule(static)
      do k = 1, size(runs, kind=int64)
         call right_hand_side_and_guess_of_run(runs(k), cells, weight(1), weight(2), hd, phi, b, &
                                               factor(1), factor(2), factor(3), factor(4), psi_1, psi_2, psi_3, psi_4)
      end do
   end subroutine right_hand_side_and_guess

   ! Scalars are values: a reference would have to be loaded in every cell, which prevents vectorization.
   pure subroutine right_hand_side_and_guess_of_run(r, cells, w_x, w_y, hd, phi, b, f_1, f_2, f_3, f_4, &
                                                    psi_1, psi_2, psi_3, psi_4)
      type(run), value :: r
      integer(int64), value :: cells
      real(dp), value :: w_x, w_y, f_1, f_2, f_3, f_4
      real(dp), intent(in) :: hd(cells), phi(cells), psi_1(cells), psi_2(cells), psi_3(cells)
      real(dp), intent(inout) :: b(cells), psi_4(cells)
      integer(int64) :: p
      do p = r%first, r%last
         b(p) = right_hand_side_of_cell(w_x, w_y, hd(p), hd(p + r%west), hd(p + r%east), hd(p + r%south), &
                                        hd(p + r%north), &
                                        phi(p), phi(p + r%west), phi(p + r%east), phi(p + r%south), phi(p + r%north))
         psi_4(p) = guess_of_cell(f_1, f_2, f_3, f_4, psi_1(p), psi_2(p), psi_3(p), psi_4(p))
      end do
   end subroutine right_hand_side_and_guess_of_run

   ! (L_c u)_P = sum over faces of w_f c_f (u_P - u_neighbour), c_f: mean of both cells on faces between two wet cells.
   pure real(dp) function right_hand_side_of_cell(w_x, w_y, c, c_west, c_east, c_south, c_north, &
                                                  u, u_west, u_east, u_south, u_north) result(b)
      real(dp), value :: w_x, w_y, c, c_west, c_east, c_south, c_north, u, u_west, u_east, u_south, u_north
      b = face(w_x, c, c_east)*(u - u_east) + face(w_x, c, c_west)*(u - u_west) &
          + face(w_y, c, c_north)*(u - u_north) + face(w_y, c, c_south)*(u - u_south)
   end function right_hand_side_of_cell

   ! w_f c_f; 0 if the neighbour is land, where the coefficient is 0. The weight is selected, not the
   ! product: compilers vectorize the selection of a value, but not a branch with arithmetic.
   pure real(dp) function face(weight, c, c_neighbour)
      real(dp), value :: weight, c, c_neighbour
      face = merge(weight, 0.0_dp, c_neighbour > 0)*(c + c_neighbour)/2
   end function face

   pure real(dp) function guess_of_cell(f_1, f_2, f_3, f_4, psi_1, psi_2, psi_3, psi_4) result(guess)
      real(dp), value :: f_1, f_2, f_3, f_4, psi_1, psi_2, psi_3, psi_4
      guess = f_1*psi_1 + f_2*psi_2 + f_3*psi_3 + f_4*psi_4
   end function guess_of_cell

   ! zeta^(n+1) = zeta^n + dt/A (L_h phi - L_hD psi). wild: an elevation is not a number, or
   ! not below the limit.
   subroutine elevation(runs, cells, weight, share, h, hd, phi, psi, zeta, limit, wild)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: weight(2), share, h(cells), hd(cells), phi(cells), psi(cells), limit    ! share = dt/A
      real(dp), intent(inout) :: zeta(cells)
      logical, intent(out) :: wild
      integer(int64) :: k
      wild = .false.
      !$omp parallel do schedule(static) reduction(.or.: wild)
      do k = 1, size(runs, kind=int64)
         call elevation_of_run(runs(k), cells, weight(1), weight(2), share, h, hd, phi, psi, zeta, limit, wild)
      end do
   end subroutine elevation

   pure subroutine elevation_of_run(r, cells, w_x, w_y, share, h, hd, phi, psi, zeta, limit, wild)
      type(run), value :: r
      integer(int64), value :: cells
      real(dp), value :: w_x, w_y, share, limit
      real(dp), intent(in) :: h(cells), hd(cells), phi(cells), psi(cells)
      real(dp), intent(inout) :: zeta(cells)
      logical, intent(inout) :: wild
      integer(int64) :: p
      do p = r%first, r%last
         zeta(p) = zeta(p) + share*rate_of_cell(w_x, w_y, &
            h(p), h(p + r%west), h(p + r%east), h(p + r%south), h(p + r%north), &
            hd(p), hd(p + r%west), hd(p + r%east), hd(p + r%south), hd(p + r%north), &
            phi(p), phi(p + r%west), phi(p + r%east), phi(p + r%south), phi(p + r%north), &
            psi(p), psi(p + r%west), psi(p + r%east), psi(p + r%south), psi(p + r%north))
      end do
      if (.not. all(abs(zeta(r%first:r%last)) < limit)) wild = .true.
   end subroutine elevation_of_run

   ! (L_h phi - L_hD psi)_P, face by face.
   pure real(dp) function rate_of_cell(w_x, w_y, h, h_west, h_east, h_south, h_north, &
                                       hd, hd_west, hd_east, hd_south, hd_north, &
                                       phi, phi_west, phi_east, phi_south, phi_north, &
                                       psi, psi_west, psi_east, psi_south, psi_north) result(rate)
      real(dp), value :: w_x, w_y, h, h_west, h_east, h_south, h_north, hd, hd_west, hd_east, hd_south, hd_north
      real(dp), value :: phi, phi_west, phi_east, phi_south, phi_north, psi, psi_west, psi_east, psi_south, psi_north
      rate = flux(w_x, h, h_east, hd, hd_east, phi - phi_east, psi - psi_east) &
             + flux(w_x, h, h_west, hd, hd_west, phi - phi_west, psi - psi_west) &
             + flux(w_y, h, h_north, hd, hd_north, phi - phi_north, psi - psi_north) &
             + flux(w_y, h, h_south, hd, hd_south, phi - phi_south, psi - psi_south)
   end function rate_of_cell

   ! w_f (h_f dphi - (hD)_f dpsi), bitwise identical in both cells of the face but for the sign. 0 next to land.
   pure real(dp) function flux(weight, h, h_neighbour, hd, hd_neighbour, phi_difference, psi_difference)
      real(dp), value :: weight, h, h_neighbour, hd, hd_neighbour, phi_difference, psi_difference
      real(dp) :: both
      both = (h + h_neighbour)*phi_difference - (hd + hd_neighbour)*psi_difference
      flux = merge(weight, 0.0_dp, h_neighbour > 0)*both/2
   end function flux

   ! sum over wet cells of u (L_h phi - L_hD psi), in the order of the cells.
   pure real(dp) function rate_times(runs, cells, weight, h, hd, phi, psi, u) result(total)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: weight(2), h(cells), hd(cells), phi(cells), psi(cells), u(cells)
      integer(int64) :: k, p
      total = 0
      do k = 1, size(runs, kind=int64)
         associate (r => runs(k))
            do p = r%first, r%last
               total = total + u(p)*rate_of_cell(weight(1), weight(2), &
                  h(p), h(p + r%west), h(p + r%east), h(p + r%south), h(p + r%north), &
                  hd(p), hd(p + r%west), hd(p + r%east), hd(p + r%south), hd(p + r%north), &
                  phi(p), phi(p + r%west), phi(p + r%east), phi(p + r%south), phi(p + r%north), &
                  psi(p), psi(p + r%west), psi(p + r%east), psi(p + r%south), psi(p + r%north))
            end do
         end associate
      end do
   end function rate_times

   ! zeta and phi times the factor of the sponge, in the runs with a sponge.
   subroutine damp(runs, cells, factor, zeta, phi)
      type(run), intent(in) :: runs(:)
      integer(int64), intent(in) :: cells
      real(dp), intent(in) :: factor(cells)
      real(dp), intent(inout) :: zeta(cells), phi(cells)
      integer(int64) :: k, p
      !$omp parallel do schedule(static) private(p)
      do k = 1, size(runs, kind=int64)
         do p = runs(k)%first, runs(k)%last
            zeta(p) = factor(p)*zeta(p)
            phi(p) = factor(p)*phi(p)
         end do
      end do
   end subroutine damp

end module wave_loops
