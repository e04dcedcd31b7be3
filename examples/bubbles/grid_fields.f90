! The grid and its fields: cubic cells of side h, with velocities on the cell faces in the positive directions (plus
! faces; marker-and-cell grid of Harlow and Welch, Phys. Fluids 8 (1965) 2182-2189), and ghost cells beyond the walls.
!
! All fields have the same shape, (1-ghosts:nx+ghosts, ...), with x as the first index and z upwards. Procedures for an
! arbitrary direction treat a field as a vector, in which the neighbour of cell l in direction d is l + stride(d). A 2D
! problem has ny = 1.
module grid_fields
   use host, only: dp
   implicit none
   private
   public :: grid, flow, fluids, ghosts, make_grid, make_flow, mirror, set_velocity_ghosts, first_of_row, unit_step

   ! The columns of the height function extend four cells to each side of their cell.
   integer, parameter :: ghosts = 4

   type :: grid
      integer :: n(3) = 0                        ! cells in x, y, z
      integer :: stride(3) = 0, cells = 0        ! index distances and length of a field with ghost cells as a vector
      integer :: directions = 0                  ! number of directions with more than one cell: 2 or 3
      logical :: active(3) = .false.             ! whether each direction has more than one cell
      real(dp) :: h = 0                          ! side of a cell [m]
      logical :: slip(3) = .false.               ! free slip at the pair of walls across x, y, z; otherwise no slip
   end type grid

   type :: fluids
      real(dp) :: rho_liquid = 1000, rho_gas = 1   ! [kg/m^3]
      real(dp) :: mu_liquid = 1, mu_gas = 0.01_dp  ! [Pa s]
      real(dp) :: sigma = 0, gravity = 0           ! [N/m], [m/s^2]
      logical :: harmonic = .false.                ! whether means of the viscosity are harmonic, not arithmetic
   end type fluids

   type :: flow
      type(grid) :: g
      type(fluids) :: of
      integer :: step = 0
      real(dp) :: time = 0, dt = 0
      real(dp), allocatable :: c(:, :, :)            ! gas fraction; at the new time after the advection
      real(dp), allocatable :: c_old(:, :, :)        ! gas fraction at the old time
      real(dp), allocatable :: kappa(:, :, :)        ! curvature of the interface [1/m], positive for a bubble
      integer, allocatable :: kind(:, :, :)          ! how kappa was found (interface_shape)
      real(dp), allocatable :: u(:, :, :, :)         ! velocity [m/s], component d on the plus face of direction d
      real(dp), allocatable :: u_star(:, :, :, :)    ! predicted velocity, before the pressure correction
      real(dp), allocatable :: gas_flux(:, :, :, :)  ! gas volume through the plus faces in one step, over h^3
      real(dp), allocatable :: rho_face(:, :, :, :)  ! density on the plus faces at the new time
   end type flow

contains

   function make_grid(n, h, slip) result(g)
      integer, intent(in) :: n(3)
      real(dp), intent(in) :: h
      logical, intent(in) :: slip(3)
      type(grid) :: g
      integer :: extent(3)
      extent = n + 2*ghosts
      g%n = n
      g%h = h
      g%slip = slip
      g%stride = [1, extent(1), extent(1)*extent(2)]
      g%cells = product(extent)
      g%active = n > 1
      g%directions = count(g%active)
   end function make_grid

   subroutine make_flow(f, g, of)
      type(flow), intent(out) :: f
      type(grid), intent(in) :: g
      type(fluids), intent(in) :: of
      integer :: lo, hi(3)
      f%g = g
      f%of = of
      lo = 1 - ghosts
      hi = g%n + ghosts
      allocate (f%c(lo:hi(1), lo:hi(2), lo:hi(3)), source=0.0_dp)
      allocate (f%c_old, f%kappa, source=f%c)
      allocate (f%kind(lo:hi(1), lo:hi(2), lo:hi(3)), source=0)
      allocate (f%u(lo:hi(1), lo:hi(2), lo:hi(3), 3), source=0.0_dp)
      allocate (f%u_star, f%gas_flux, f%rho_face, source=f%u)
   end subroutine make_flow

   ! Index of cell (i, j, k) in the vector of a field.
   pure integer function first_of_row(g, i, j, k) result(l)
      type(grid), intent(in) :: g
      integer, intent(in) :: i, j, k
      l = 1 + sum(([i, j, k] + ghosts - 1)*g%stride)
   end function first_of_row

   pure function unit_step(d) result(e)
      integer, intent(in) :: d
      integer :: e(3)
      e = 0
      e(d) = 1
   end function unit_step

   ! Fills the ghost cells of a cell field with the values of the cells mirrored at the walls. If a direction has fewer
   ! cells than ghost layers, the mirroring is repeated. In a direction with one cell, only the first layer is filled
   ! and read.
   subroutine mirror(g, c)
      type(grid), intent(in) :: g
      real(dp), intent(inout) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer :: layer, layers(3)
      layers = merge(ghosts, 1, g%active)
      do layer = 1, layers(1)
         c(1 - layer, 1:g%n(2), 1:g%n(3)) = c(folded(layer, g%n(1)), 1:g%n(2), 1:g%n(3))
         c(g%n(1) + layer, 1:g%n(2), 1:g%n(3)) = c(folded(g%n(1) + 1 - layer, g%n(1)), 1:g%n(2), 1:g%n(3))
      end do
      do layer = 1, layers(2)
         c(:, 1 - layer, 1:g%n(3)) = c(:, folded(layer, g%n(2)), 1:g%n(3))
         c(:, g%n(2) + layer, 1:g%n(3)) = c(:, folded(g%n(2) + 1 - layer, g%n(2)), 1:g%n(3))
      end do
      do layer = 1, layers(3)
         c(:, :, 1 - layer) = c(:, :, folded(layer, g%n(3)))
         c(:, :, g%n(3) + layer) = c(:, :, folded(g%n(3) + 1 - layer, g%n(3)))
      end do
   end subroutine mirror

   ! Returns the cell in 1..n whose value the ghost cell with index i receives: the index is mirrored at both walls
   ! until it is in range.
   pure integer function folded(i, n)
      integer, intent(in) :: i, n
      folded = modulo(i - 1, 2*n)
      if (folded >= n) folded = 2*n - 1 - folded
      folded = folded + 1
   end function folded

   ! Fills the ghost values of the velocity. Across a wall, the normal component is odd; the tangential components are
   ! even (slip) or odd (no slip). Faces 0 and n of the normal component are the walls and remain 0.
   subroutine set_velocity_ghosts(g, u)
      type(grid), intent(in) :: g
      real(dp), intent(inout) :: u(1 - ghosts:, 1 - ghosts:, 1 - ghosts:, :)
      real(dp) :: s
      integer :: d, q, below, above, n
      do d = 1, 3
         if (.not. g%active(d)) cycle
         do q = 1, 3
            n = g%n(q)
            s = merge(1, -1, g%slip(q) .and. q /= d)
            below = merge(-1, 0, q == d)          ! ghost face that mirrors face 1
            above = merge(n - 1, n, q == d)       ! face that ghost face n + 1 mirrors
            select case (q)
            case (1)
               u(below, :, :, d) = s*u(1, :, :, d)
               u(n + 1, :, :, d) = s*u(above, :, :, d)
            case (2)
               u(:, below, :, d) = s*u(:, 1, :, d)
               u(:, n + 1, :, d) = s*u(:, above, :, d)
            case (3)
               u(:, :, below, d) = s*u(:, :, 1, d)
               u(:, :, n + 1, d) = s*u(:, :, above, d)
            end select
         end do
      end do
   end subroutine set_velocity_ghosts

end module grid_fields
