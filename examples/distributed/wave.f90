! Long waves in a bay with land, distributed over MPI ranks: each rank has one block of the grid. Ranks whose block is
! all land do not take part in the solve. Below the first line the output is the same for any number of ranks. It ends
! with a checksum of all bits of the result.
!
! Linear shallow water, implicit in time:
!
!    d(eta)/dt = -div q              eta: surface elevation [m]
!    dq/dt     = -g h grad(eta)      q: transport, depth times velocity [m^2/s];  h: depth at rest [m]
!
!    q^(n+1)   = q^n - g dt h grad(eta^(n+1))
!    eta^(n+1) = eta^n - dt/A sum q^(n+1) l         over the faces of a cell, outwards; A: its area; l: length of a face
!
! Inserting the first equation into the second gives a symmetric 5-point system for eta^(n+1). No water flows through
! faces between water and land:
!
!    A/(g dt^2) eta + sum h l/d (eta - eta_neighbour) = A/(g dt^2) eta^n - 1/(g dt) sum q^n l
!
! d: distance between the centers of two cells. All terms are in m^2.
program wave
   use, intrinsic :: iso_c_binding, only: dp => c_double
   use, intrinsic :: iso_fortran_env, only: error_unit, int64
   use mpi
   use rrbsolver
   use rrbsolver_mpi
   implicit none

   integer, parameter :: cells(2) = [160, 120], steps = 50, steps_a_line = 10
   real(dp), parameter :: dx = 200, dy = 200         ! [m]
   real(dp), parameter :: dt = 30                    ! [s], 5 times the limit of an explicit scheme
   real(dp), parameter :: gravity = 9.81_dp          ! [m/s^2]
   real(dp), parameter :: area = dx*dy               ! of a cell [m^2]
   real(dp), parameter :: largest_drift = 1e-9_dp    ! of the volume, relative

   ! Values of the cells of a block, with one layer of ghost cells on each side. The library receives `inner`. With its
   ! option leading_dimension it neither reads nor writes the ghost cells.
   type :: field
      real(dp), pointer, contiguous :: storage(:) => null()
      real(dp), pointer, contiguous :: at(:, :) => null()      ! (0:nx+1, 0:ny+1)
      real(dp), pointer, contiguous :: inner(:, :) => null()   ! (nx+2, ny), from cell (1, 1) on
   end type field

   integer :: ierror
   integer :: cart                                   ! all ranks, one for each block
   integer :: water                                  ! ranks whose block has water; MPI_COMM_NULL on other ranks
   integer :: rank                                   ! rank in the communicator water
   integer :: west, east, south, north               ! ranks in water; MPI_PROC_NULL: all land, or outside of the bay
   integer :: lower(2, 1), extents(2, 1)             ! of this rank's block: first cell in the bay, cells in x and y
   integer :: nx, ny                                 ! extents(1, 1) and extents(2, 1)
   type(field) :: eta, rhs                           ! [m], [m^2]
   real(dp), allocatable :: h_east(:, :), h_north(:, :)   ! depth at faces [m], 0 where no water flows through
   real(dp), allocatable :: q_east(:, :), q_north(:, :)   ! transport through faces [m^2/s]
   type(rrb_comm) :: comm
   type(rrb_solver) :: solver
   integer :: step, iterations
   real(dp) :: first_volume

   call MPI_Init(ierror)
   call cut_bay()
   if (water /= MPI_COMM_NULL) then
      call run()
      call MPI_Comm_free(water, ierror)
   end if
   call MPI_Comm_free(cart, ierror)
   call MPI_Finalize(ierror)

contains

   subroutine run()
      call make_water()
      call make_solver()

      first_volume = volume()
      if (rank == 0) print '(a)', ' time [s]  iterations  highest [m]  volume [m^3]'
      do step = 1, steps
         call advance()
         if (mod(step, steps_a_line) == 0) call print_line()
      end do
      call print_checksum()

      call solver%destroy()
      call comm%free()
      call free_field(eta)
      call free_field(rhs)
   end subroutine run

   ! Depth at rest in cell (i, j) of the bay [m]; 0 on land and outside the bay. The bay is L-shaped, becomes shallower
   ! to the east, and has an island.
   pure real(dp) function depth(i, j)
      integer, intent(in) :: i, j
      real(dp) :: x, y, width, height
      depth = 0
      if (any([i, j] < 1) .or. any([i, j] > cells)) return
      width = cells(1)*dx
      height = cells(2)*dy
      x = (i - 0.5_dp)*dx
      y = (j - 0.5_dp)*dy
      if (x > width/2 .and. y > height/3) return
      depth = max(0.0_dp, 60 - 40*x/width - 100*mound(x, y, [0.25_dp*width, 0.65_dp*height]))
   end function depth

   ! (1 - r^2/R^2)^2 within R = 3 km of a center, else 0.
   pure real(dp) function mound(x, y, center)
      real(dp), intent(in) :: x, y, center(2)
      real(dp), parameter :: radius = 3000
      mound = max(0.0_dp, 1 - ((x - center(1))**2 + (y - center(2))**2)/radius**2)**2
   end function mound

   ! ---- blocks ----

   ! Divides the bay into one block per rank. The communicator `water` contains the ranks whose block has water. The
   ! other ranks only wait.
   subroutine cut_bay()
      integer :: ranks, workers, parts(2), place(2), i, j
      logical :: wet
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
      parts = 0
      call MPI_Dims_create(ranks, 2, parts, ierror)
      ! Blocks without cells would separate blocks that should be neighbours.
      if (any(parts > cells)) call refuse('more blocks than cells in a direction: take another number of ranks')
      call MPI_Cart_create(MPI_COMM_WORLD, 2, parts, [.false., .false.], .true., cart, ierror)
      call MPI_Comm_rank(cart, rank, ierror)
      call MPI_Cart_coords(cart, rank, 2, place, ierror)
      lower(:, 1) = cells*place/parts + 1
      extents(:, 1) = cells*(place + 1)/parts - cells*place/parts
      nx = extents(1, 1)
      ny = extents(2, 1)
      wet = any([((depth(i, j) > 0, i=lower(1, 1), lower(1, 1) + nx - 1), j=lower(2, 1), lower(2, 1) + ny - 1)])
      call MPI_Comm_split(cart, merge(0, MPI_UNDEFINED, wet), rank, water, ierror)
      if (water == MPI_COMM_NULL) return
      call MPI_Comm_rank(water, rank, ierror)
      call find_neighbours()
      call MPI_Comm_size(water, workers, ierror)
      if (rank == 0) print '(a, i0, a, i0, a, i0, a, i0)', 'ranks ', ranks, ', blocks ', parts(1), ' x ', parts(2), &
         ', all land: ', ranks - workers
   end subroutine cut_bay

   ! Ranks of the neighbouring blocks in the communicator `water`. Blocks of land have no rank there.
   subroutine find_neighbours()
      integer :: all_blocks, wet_blocks, around(4)
      call MPI_Cart_shift(cart, 0, 1, west, east, ierror)
      call MPI_Cart_shift(cart, 1, 1, south, north, ierror)
      call MPI_Comm_group(cart, all_blocks, ierror)
      call MPI_Comm_group(water, wet_blocks, ierror)
      call MPI_Group_translate_ranks(all_blocks, 4, [west, east, south, north], wet_blocks, around, ierror)
      where (around == MPI_UNDEFINED) around = MPI_PROC_NULL
      west = around(1)
      east = around(2)
      south = around(3)
      north = around(4)
      call MPI_Group_free(all_blocks, ierror)
      call MPI_Group_free(wet_blocks, ierror)
   end subroutine find_neighbours

   ! Stops the program on all ranks with an error message, which rank 0 prints. All ranks of `water` must call this.
   subroutine refuse(message)
      character(*), intent(in) :: message
      if (rank == 0) then
         write (error_unit, '(2a)') 'wave: ', message
         call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
      end if
      call MPI_Finalize(ierror)
      stop 1, quiet=.true.
   end subroutine refuse

   ! ---- fields ----

   subroutine make_field(f)
      type(field), intent(inout) :: f
      integer :: wide
      wide = nx + 2
      allocate (f%storage(wide*(ny + 2)), source=0.0_dp)
      f%at(0:nx + 1, 0:ny + 1) => f%storage
      f%inner(1:wide, 1:ny) => f%storage(wide + 2:)
   end subroutine make_field

   subroutine free_field(f)
      type(field), intent(inout) :: f
      deallocate (f%storage)
      nullify (f%at, f%inner)
   end subroutine free_field

   ! Fills the ghost cells from the neighbouring blocks. Corners are not needed, since the stencil has 5 points.
   subroutine exchange_ghosts(f)
      type(field), intent(inout) :: f
      call shift(f%at(nx, 1:ny), east, f%at(0, 1:ny), west)
      call shift(f%at(1, 1:ny), west, f%at(nx + 1, 1:ny), east)
      call shift(f%at(1:nx, ny), north, f%at(1:nx, 0), south)
      call shift(f%at(1:nx, 1), south, f%at(1:nx, ny + 1), north)
   end subroutine exchange_ghosts

   ! Without a sender, `ghosts` is unchanged.
   subroutine shift(edge, receiver, ghosts, sender)
      real(dp), intent(in) :: edge(:)
      real(dp), intent(inout) :: ghosts(:)
      integer, intent(in) :: receiver, sender
      real(dp) :: sent(size(edge)), received(size(edge))
      integer, parameter :: tag = 0
      sent = edge
      received = ghosts
      call MPI_Sendrecv(sent, size(sent), MPI_DOUBLE_PRECISION, receiver, tag, received, size(received), &
                        MPI_DOUBLE_PRECISION, sender, tag, water, MPI_STATUS_IGNORE, ierror)
      ghosts = received
   end subroutine shift

   ! ---- the model ----

   ! Initial state: water at rest with a mound of 1 m. Face (i, j) of `east` is between cells (i, j) and (i+1, j).
   subroutine make_water()
      integer :: i, j, x, y
      call make_field(eta)
      call make_field(rhs)
      allocate (h_east(0:nx, ny), h_north(nx, 0:ny))
      allocate (q_east(0:nx, ny), q_north(nx, 0:ny), source=0.0_dp)
      x = lower(1, 1) - 1
      y = lower(2, 1) - 1
      do j = 1, ny
         do i = 0, nx
            h_east(i, j) = between(depth(x + i, y + j), depth(x + i + 1, y + j))
         end do
      end do
      do j = 0, ny
         do i = 1, nx
            h_north(i, j) = between(depth(x + i, y + j), depth(x + i, y + j + 1))
         end do
      end do
      do j = 1, ny
         do i = 1, nx
            if (depth(x + i, y + j) > 0) eta%at(i, j) = &
               mound((x + i - 0.5_dp)*dx, (y + j - 0.5_dp)*dy, cells*[dx, dy]/4)
         end do
      end do
   end subroutine make_water

   ! Depth at a face: the mean of both cells if both have water, else 0.
   pure real(dp) function between(h, h_next)
      real(dp), intent(in) :: h, h_next
      between = 0
      if (min(h, h_next) > 0) between = (h + h_next)/2
   end function between

   ! The matrix has A/(g dt^2) + sum h l/d on the diagonal and -h l/d between two cells [m]. The row of a land cell has
   ! only a diagonal entry, so eta = 0 there.
   subroutine make_solver()
      type(field) :: center, east, north
      integer :: i, j
      call make_field(center)
      call make_field(east)
      call make_field(north)
      do j = 1, ny
         do i = 1, nx
            east%at(i, j) = -h_east(i, j)*dy/dx
            north%at(i, j) = -h_north(i, j)*dx/dy
            center%at(i, j) = area/(gravity*dt**2) + (h_east(i, j) + h_east(i - 1, j))*dy/dx &
                              + (h_north(i, j) + h_north(i, j - 1))*dx/dy
         end do
      end do

      call comm%from_mpi(water)
      call solver%create_distributed(cells(1), cells(2), lower, extents, comm)
      call solver%set('threads=1')                            ! one core per rank
      call solver%set(RRB_OPT_LEADING_DIMENSION, nx + 2)
      call solver%factorize(center%inner, east%inner, north%inner)

      call free_field(center)
      call free_field(east)
      call free_field(north)
   end subroutine make_solver

   ! Net outflow of cell (i, j) [m^3/s].
   pure real(dp) function outflow(i, j)
      integer, intent(in) :: i, j
      outflow = (q_east(i, j) - q_east(i - 1, j))*dy + (q_north(i, j) - q_north(i, j - 1))*dx
   end function outflow

   ! One time step. At its end, eta is computed from the transport: the outflow of one cell is the inflow of another.
   ! The volume is therefore conserved to rounding, for any tolerance of the solver. Both blocks at a common edge
   ! compute the transport through it, with the same formula from the same values.
   subroutine advance()
      real(dp) :: before(nx, ny)
      integer :: i, j
      before = eta%at(1:nx, 1:ny)
      do j = 1, ny
         do i = 1, nx
            rhs%at(i, j) = area/(gravity*dt**2)*before(i, j) - outflow(i, j)/(gravity*dt)
         end do
      end do
      call solve()
      call exchange_ghosts(eta)
      do j = 1, ny
         do i = 0, nx
            q_east(i, j) = q_east(i, j) - gravity*dt*h_east(i, j)*(eta%at(i + 1, j) - eta%at(i, j))/dx
         end do
      end do
      do j = 0, ny
         do i = 1, nx
            q_north(i, j) = q_north(i, j) - gravity*dt*h_north(i, j)*(eta%at(i, j + 1) - eta%at(i, j))/dy
         end do
      end do
      do j = 1, ny
         do i = 1, nx
            eta%at(i, j) = before(i, j) - dt/area*outflow(i, j)
         end do
      end do
   end subroutine advance

   ! eta: the guess eta^n in, eta^(n+1) out. The status is the same on all ranks.
   subroutine solve()
      integer :: stat
      character(200) :: errmsg
      call solver%solve(rhs%inner, eta%inner, stat, errmsg)
      if (stat /= RRB_OK) call refuse(trim(errmsg))
      call solver%get(RRB_INFO_ITERATIONS, iterations)
   end subroutine solve

   ! ---- what is printed ----

   ! Volume of the water above the level at rest [m^3]. Its last digits depend on the order of the sum, and therefore on
   ! the number of ranks. They are not printed.
   real(dp) function volume()
      real(dp) :: own
      own = area*sum(eta%at(1:nx, 1:ny))
      call MPI_Allreduce(own, volume, 1, MPI_DOUBLE_PRECISION, MPI_SUM, water, ierror)
   end function volume

   subroutine print_line()
      real(dp) :: own, highest, now
      own = maxval(eta%at(1:nx, 1:ny))
      call MPI_Allreduce(own, highest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, water, ierror)
      now = volume()
      if (abs(now - first_volume) > largest_drift*first_volume) call refuse('the volume of the water has changed')
      if (rank == 0) print '(f9.1, i12, f13.8, es15.8)', step*dt, iterations, highest, now
   end subroutine print_line

   ! Checksum: the exclusive or of the bits of all eta, each rotated by the index of its cell in the bay. The order of
   ! the cells does not matter. A change of any bit changes the checksum.
   subroutine print_checksum()
      integer(int64) :: own, all_of_it
      integer :: i, j, cell
      own = 0
      do j = 1, ny
         do i = 1, nx
            cell = (lower(2, 1) + j - 2)*cells(1) + lower(1, 1) + i - 2
            own = ieor(own, ishftc(transfer(eta%at(i, j), own), mod(cell, storage_size(own))))
         end do
      end do
      call MPI_Reduce(own, all_of_it, 1, MPI_INTEGER8, MPI_BXOR, 0, water, ierror)
      if (rank == 0) print '(a, z16.16)', 'checksum of the bits of eta: ', all_of_it
   end subroutine print_checksum

end program wave
