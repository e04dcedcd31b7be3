! Computes the predicted velocity from four terms: advection of momentum with the mass fluxes that belong to the gas
! fluxes (Rudman, Int. J. Numer. Meth. Fluids 28 (1998) 357-378), viscosity, surface tension (Brackbill, Kothe and
! Zemach, J. Comput. Phys. 100 (1992) 335-354), and gravity.
module momentum
   use grid_fields, only: first_of_row, flow, fluids, grid, unit_step
   use host, only: dp, pi
   use interface_shape, only: no_interface
   implicit none
   private
   public :: time_step, predict

   real(dp), parameter :: longest_step = 0.01_dp      ! [s]
   real(dp), parameter :: courant = 0.4_dp            ! largest Courant number; the advection sweeps need less than 1/2
   real(dp), parameter :: viscous_share = 0.75_dp     ! largest dt Lmax; see viscous_rate

contains

   ! Largest stable time step, limited by advection, explicit viscosity, and the shortest capillary wave.
   real(dp) function time_step(f) result(dt)
      type(flow), intent(in) :: f
      real(dp) :: fastest, rate
      integer :: i, j, k
      fastest = 0
      associate (u => f%u)
         do k = 1, f%g%n(3)
            do j = 1, f%g%n(2)
               do i = 1, f%g%n(1)
                  fastest = max(fastest, max(abs(u(i, j, k, 1)), abs(u(i - 1, j, k, 1))) &
                                + max(abs(u(i, j, k, 2)), abs(u(i, j - 1, k, 2))) &
                                + max(abs(u(i, j, k, 3)), abs(u(i, j, k - 1, 3))))
               end do
            end do
         end do
      end associate
      dt = longest_step
      if (fastest*dt > courant*f%g%h) dt = courant*f%g%h/fastest
      rate = viscous_rate(f)
      if (rate*dt > viscous_share) dt = viscous_share/rate
      if (f%of%sigma > 0) &
         dt = min(dt, sqrt((f%of%rho_liquid + f%of%rho_gas)*f%g%h**3/(4*pi*f%of%sigma)))
   end function time_step

   ! Lmax: the largest coefficient of the explicit viscous operator over all faces between cells P and N, with the face
   ! density rho_f:
   !
   !    ( 2 mu_P + 2 mu_N + sum of the edge viscosities ) / (rho_f h^2)
   real(dp) function viscous_rate(f) result(rate)
      type(flow), intent(in) :: f
      real(dp), allocatable :: mu(:)
      integer :: d, n(3)
      allocate (mu(f%g%cells))
      call cell_viscosity(f%of, f%g%cells, f%c, mu)
      rate = 0
      do d = 1, 3
         if (.not. f%g%active(d)) cycle
         n = f%g%n - unit_step(d)
         call rate_of_faces(f%g, f%of, d, n, f%g%cells, mu, f%c, rate)
      end do
   end function viscous_rate

   subroutine rate_of_faces(g, of, d, last, cells, mu, c, rate)
      type(grid), intent(in) :: g
      type(fluids), intent(in) :: of
      integer, intent(in) :: d, last(3), cells
      real(dp), intent(in) :: mu(cells), c(cells)
      real(dp), intent(inout) :: rate
      real(dp) :: row
      integer :: j, k, l, first, sd, sq, q
      sd = g%stride(d)
      do k = 1, last(3)
         do j = 1, last(2)
            first = first_of_row(g, 1, j, k)
            do l = first, first + last(1) - 1
               row = 2*(cell_value(of, mu(l)) + cell_value(of, mu(l + sd)))
               do q = 1, 3
                  if (q == d .or. .not. g%active(q)) cycle
                  sq = g%stride(q)
                  row = row + edge_value(of, mu(l), mu(l + sd), mu(l + sq), mu(l + sd + sq)) &
                        + edge_value(of, mu(l), mu(l + sd), mu(l - sq), mu(l + sd - sq))
               end do
               rate = max(rate, row/(face_density(of, c(l), c(l + sd))*g%h**2))
            end do
         end do
      end do
   end subroutine rate_of_faces

   elemental real(dp) function face_density(of, c_p, c_n)
      type(fluids), intent(in) :: of
      real(dp), intent(in) :: c_p, c_n
      face_density = of%rho_liquid + (of%rho_gas - of%rho_liquid)*(c_p + c_n)/2
   end function face_density

   ! Sets mu of each cell for arithmetic means and 1/mu for harmonic means, so that both means over the cells around an
   ! edge use the same sum.
   subroutine cell_viscosity(of, cells, c, mu)
      type(fluids), intent(in) :: of
      integer, intent(in) :: cells
      real(dp), intent(in) :: c(cells)
      real(dp), intent(out) :: mu(cells)
      if (of%harmonic) then
         mu = (1 - c)/of%mu_liquid + c/of%mu_gas
      else
         mu = of%mu_liquid + (of%mu_gas - of%mu_liquid)*c
      end if
   end subroutine cell_viscosity

   elemental real(dp) function cell_value(of, mu)
      type(fluids), intent(in) :: of
      real(dp), intent(in) :: mu
      cell_value = merge(1/mu, mu, of%harmonic)
   end function cell_value

   elemental real(dp) function edge_value(of, mu1, mu2, mu3, mu4)
      type(fluids), intent(in) :: of
      real(dp), intent(in) :: mu1, mu2, mu3, mu4
      edge_value = cell_value(of, (mu1 + mu2 + mu3 + mu4)/4)
   end function edge_value

   ! Computes f%u_star and f%rho_face from u^n, c^n, c^(n+1), the gas fluxes and the curvature.
   subroutine predict(f)
      type(flow), intent(inout) :: f
      real(dp), allocatable :: mu(:), through(:), change(:)
      integer :: d, q
      allocate (mu(f%g%cells), through(f%g%cells), change(f%g%cells))
      call cell_viscosity(f%of, f%g%cells, f%c, mu)
      do d = 1, 3
         if (.not. f%g%active(d)) cycle
         change = 0
         do q = 1, 3
            if (.not. f%g%active(q)) cycle
            if (q == d) then
               call normal_momentum_flux(f%g, f%of, d, f%dt, f%g%cells, f%u(:, :, :, d), f%gas_flux(:, :, :, d), mu, &
                                         through)
            else
               call edge_momentum_flux(f%g, f%of, d, q, f%dt, f%g%cells, f%u(:, :, :, d), f%u(:, :, :, q), &
                                       f%gas_flux(:, :, :, q), mu, through)
            end if
            call add_difference(f%g, d, q, f%g%cells, through, change)
         end do
         call new_velocity(f%g, f%of, d, f%dt, f%g%cells, f%u(:, :, :, d), f%c_old, f%c, f%kappa, f%kind, change, &
                           f%rho_face(:, :, :, d), f%u_star(:, :, :, d))
      end do
   end subroutine predict

   ! Momentum flux through the side at the centre of cell l + stride(d), for the control volume around the plus face of
   ! cell l, divided by h^3. The flux has an advective part, and a viscous part -2 mu du_d/dx_d.
   subroutine normal_momentum_flux(g, of, d, dt, cells, u, gas, mu, through)
      type(grid), intent(in) :: g
      type(fluids), intent(in) :: of
      integer, intent(in) :: d, cells
      real(dp), intent(in) :: dt, u(cells), gas(cells), mu(cells)
      real(dp), intent(out) :: through(cells)
      real(dp) :: a, mass, courant_number, viscous
      integer :: lo(3), j, k, l, s, first
      s = g%stride(d)
      courant_number = dt/g%h
      viscous = dt/g%h**2
      lo = 1 - unit_step(d)
      do k = lo(3), g%n(3) - 1 + merge(0, 1, d == 3)
         do j = lo(2), g%n(2) - 1 + merge(0, 1, d == 2)
            first = first_of_row(g, lo(1), j, k)
            do l = first, first + g%n(1) - 1
               a = courant_number*(u(l) + u(l + s))/2
               mass = of%rho_liquid*a + (of%rho_gas - of%rho_liquid)*(gas(l) + gas(l + s))/2
               through(l) = mass*limited(a, u(l - s), u(l), u(l + s), u(l + 2*s)) &
                            - viscous*2*cell_value(of, mu(l + s))*(u(l + s) - u(l))
            end do
         end do
      end do
   end subroutine normal_momentum_flux

   ! Momentum flux through the plus side of the same control volume in another direction q. Four cells meet in an edge
   ! at the centre of this side. The viscous part is -mu (du_d/dx_q + du_q/dx_d).
   subroutine edge_momentum_flux(g, of, d, q, dt, cells, u, across, gas, mu, through)
      type(grid), intent(in) :: g
      type(fluids), intent(in) :: of
      integer, intent(in) :: d, q, cells
      real(dp), intent(in) :: dt, u(cells), across(cells), gas(cells), mu(cells)
      real(dp), intent(out) :: through(cells)
      real(dp) :: a, mass, courant_number, viscous
      integer :: lo(3), hi(3), j, k, l, sd, sq, first
      sd = g%stride(d)
      sq = g%stride(q)
      courant_number = dt/g%h
      viscous = dt/g%h**2
      lo = 1 - unit_step(q)
      hi = g%n - unit_step(d)
      do k = lo(3), hi(3)
         do j = lo(2), hi(2)
            first = first_of_row(g, lo(1), j, k)
            do l = first, first + hi(1) - lo(1)
               a = courant_number*(across(l) + across(l + sd))/2
               mass = of%rho_liquid*a + (of%rho_gas - of%rho_liquid)*(gas(l) + gas(l + sd))/2
               through(l) = mass*limited(a, u(l - sq), u(l), u(l + sq), u(l + 2*sq)) &
                            - viscous*edge_value(of, mu(l), mu(l + sd), mu(l + sq), mu(l + sd + sq)) &
                            *(u(l + sq) - u(l) + across(l + sd) - across(l))
            end do
         end do
      end do
   end subroutine edge_momentum_flux

   ! Velocity between u0 and u1: upwind by the sign of a, with the limiter of van Leer (J. Comput. Phys. 14 (1974)
   ! 361-370).
   elemental real(dp) function limited(a, u_minus, u0, u1, u_plus)
      real(dp), intent(in) :: a, u_minus, u0, u1, u_plus
      real(dp) :: upwind, r, s, product
      upwind = merge(u0, u1, a > 0)
      r = upwind - merge(u_minus, u_plus, a > 0)
      s = merge(u1, u0, a > 0) - upwind
      product = r*s
      limited = upwind
      if (product > 0) limited = upwind + (1 - abs(a))*product/(r + s)
   end function limited

   ! Adds the flux through the plus side minus the flux through the minus side to `change`.
   subroutine add_difference(g, d, q, cells, through, change)
      type(grid), intent(in) :: g
      integer, intent(in) :: d, q, cells
      real(dp), intent(in) :: through(cells)
      real(dp), intent(inout) :: change(cells)
      integer :: hi(3), j, k, l, sq, first
      sq = g%stride(q)
      hi = g%n - unit_step(d)
      do k = 1, hi(3)
         do j = 1, hi(2)
            first = first_of_row(g, 1, j, k)
            do l = first, first + hi(1) - 1
               change(l) = change(l) + through(l) - through(l - sq)
            end do
         end do
      end do
   end subroutine add_difference

   ! Computes u* = ( R0 u - change + dt sigma kappa_f (c_N - c_P)/h )/R1 - dt g. R0 and R1 are the face densities at the
   ! old and new time, and kappa_f is the curvature at the face between cells P and N.
   subroutine new_velocity(g, of, d, dt, cells, u, c_old, c, kappa, kind, change, rho_face, u_star)
      type(grid), intent(in) :: g
      type(fluids), intent(in) :: of
      integer, intent(in) :: d, cells, kind(cells)
      real(dp), intent(in) :: dt, u(cells), c_old(cells), c(cells), kappa(cells), change(cells)
      real(dp), intent(inout) :: rho_face(cells), u_star(cells)
      real(dp) :: force, fall
      integer :: hi(3), j, k, l, s, first
      s = g%stride(d)
      hi = g%n - unit_step(d)
      fall = merge(dt*of%gravity, 0.0_dp, d == 3)
      do k = 1, hi(3)
         do j = 1, hi(2)
            first = first_of_row(g, 1, j, k)
            do l = first, first + hi(1) - 1
               rho_face(l) = face_density(of, c(l), c(l + s))
               force = of%sigma*face_curvature(kind(l), kappa(l), kind(l + s), kappa(l + s))*(c(l + s) - c(l))/g%h
               u_star(l) = (face_density(of, c_old(l), c_old(l + s))*u(l) - change(l) + dt*force)/rho_face(l) - fall
            end do
         end do
      end do
   end subroutine new_velocity

   ! Curvature at a face: that of the cell with the more accurate method, or the mean of both cells if the methods are
   ! the same.
   elemental real(dp) function face_curvature(kind_p, kappa_p, kind_n, kappa_n) result(kappa)
      integer, intent(in) :: kind_p, kind_n
      real(dp), intent(in) :: kappa_p, kappa_n
      if (kind_p == kind_n) then
         kappa = (kappa_p + kappa_n)/2
      else if (kind_n == no_interface .or. (kind_p /= no_interface .and. kind_p < kind_n)) then
         kappa = kappa_p
      else
         kappa = kappa_n
      end if
   end function face_curvature

end module momentum
