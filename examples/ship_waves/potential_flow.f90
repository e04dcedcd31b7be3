! A steady current between two places: potential flow, -div(h grad F) = source, with (u, v) = -grad F.
! The matrix is singular, because F is determined up to a constant.
module potential_flow
   use rrbsolver
   use bathymetry, only: depth_grid
   use boussinesq, only: wave_model
   use host, only: dp, refuse, text
   implicit none
   private
   public :: flow_between

   integer, parameter :: radius = 10       ! cells of a source or sink

contains

   ! Return the components to the east and north at cell centers [m/s], the means of the fluxes through both faces over the
   ! depth. The discharge [m^3/s] enters in the wet cells around the point ends(:, 1), and leaves around ends(:, 2).
   subroutine flow_between(model, grid, ends, discharge, u, v)
      type(wave_model), intent(in) :: model
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: ends(2, 2), discharge
      real(dp), allocatable, intent(out) :: u(:, :), v(:, :)
      type(rrb_solver) :: solver
      real(dp), dimension(:, :), allocatable :: east, north, center, b, f
      integer :: status
      character(512) :: message

      allocate (center(model%nx, model%ny), east(model%nx, model%ny), north(model%nx, model%ny))
      call set_matrix(model, center, east, north)
      allocate (b, f, mold=center)
      b = 0
      call add_source(model, grid, ends(:, 1), discharge, b)
      call add_source(model, grid, ends(:, 2), -discharge, b)
      f = 0
      call solver%create(model%nx, model%ny)
      call solver%set(RRB_OPT_REL_TOL, 1e-8_dp)
      call solver%set(RRB_OPT_MAX_ITER, 10000)
      call solver%set(RRB_OPT_CHECK_COMPATIBILITY, 1)
      call solver%factorize(center, east, north)
      call solver%solve(b, f, stat=status, errmsg=message)
      if (status == RRB_ERR_INCOMPATIBLE) call refuse('--flow: no water connects the two points')
      if (status /= RRB_OK) call refuse('--flow: the current was not computed: '//trim(message))
      call solver%destroy()

      ! Fluxes to the east and north; 0 at the last column and row.
      east = east*(eoshift(f, 1, dim=1) - f)
      north = north*(eoshift(f, 1, dim=2) - f)
      u = (east + eoshift(east, -1, dim=1))/(2*model%dy*max(model%h, tiny(1.0_dp)))
      v = (north + eoshift(north, -1, dim=2))/(2*model%dx*max(model%h, tiny(1.0_dp)))
   end subroutine flow_between

   ! L_h, with 1 on the diagonal of cells without open faces.
   subroutine set_matrix(model, center, east, north)
      type(wave_model), intent(in) :: model
      real(dp), intent(out) :: center(:, :), east(:, :), north(:, :)
      integer :: nx, ny
      nx = model%nx
      ny = model%ny
      east = 0
      north = 0
      where (model%wet(:nx - 1, :) .and. model%wet(2:, :)) &
         east(:nx - 1, :) = -model%weight(1)*(model%h(:nx - 1, :) + model%h(2:, :))/2
      where (model%wet(:, :ny - 1) .and. model%wet(:, 2:)) &
         north(:, :ny - 1) = -model%weight(2)*(model%h(:, :ny - 1) + model%h(:, 2:))/2
      center = -(east + eoshift(east, -1, dim=1) + north + eoshift(north, -1, dim=2))
      where (center <= 0) center = 1
   end subroutine set_matrix

   ! The wet cells within some cells of the point have equal shares.
   subroutine add_source(model, grid, point, discharge, b)
      type(wave_model), intent(in) :: model
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: point(2), discharge
      real(dp), intent(inout) :: b(:, :)
      logical, allocatable :: inside(:, :)
      integer :: i, j
      allocate (inside(model%nx, model%ny))
      do j = 1, model%ny
         do i = 1, model%nx
            inside(i, j) = model%wet(i, j) .and. norm2(grid%center_of(i, j) - point) <= radius*grid%cell
         end do
      end do
      if (.not. any(inside)) call refuse('--flow: no water within '//text(radius)//' cells of ('//text(point(1))//', ' &
                                         //text(point(2))//')')
      where (inside) b = b + discharge/count(inside)
   end subroutine add_source

end module potential_flow
