! Bubbles as connected components: cells with more gas than liquid that share faces.
module bubble_labels
   use, intrinsic :: iso_c_binding, only: c_int32_t
   use grid_fields, only: flow, ghosts, grid
   use host, only: dp
   implicit none
   private
   public :: bubble, label_bubbles, measure_bubbles

   type :: bubble
      real(dp) :: volume = 0, center(3) = 0, velocity(3) = 0
      logical :: at_top = .false.      ! the gas above a free surface
   end type bubble

contains

   ! Numbers the bubbles 0, 1, ... in the order of their first cells. labels: the number of the bubble in each cell; -1
   ! in the liquid.
   subroutine label_bubbles(g, c, labels, bubbles)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer(c_int32_t), allocatable, intent(inout) :: labels(:, :, :)
      integer, intent(out) :: bubbles
      integer, allocatable :: stack(:, :)
      integer :: i, j, k
      if (.not. allocated(labels)) allocate (labels(g%n(1), g%n(2), g%n(3)))
      allocate (stack(3, product(g%n)))
      labels = -1
      bubbles = 0
      do k = 1, g%n(3)
         do j = 1, g%n(2)
            do i = 1, g%n(1)
               if (labels(i, j, k) >= 0 .or. c(i, j, k) <= 0.5_dp) cycle
               call flood(g, c, [i, j, k], bubbles, labels, stack)
               bubbles = bubbles + 1
            end do
         end do
      end do
   end subroutine label_bubbles

   ! Labels all cells that are connected to the cell `start`. Each cell enters the stack at most once.
   subroutine flood(g, c, start, label, labels, stack)
      type(grid), intent(in) :: g
      real(dp), intent(in) :: c(1 - ghosts:, 1 - ghosts:, 1 - ghosts:)
      integer, intent(in) :: start(3), label
      integer(c_int32_t), intent(inout) :: labels(:, :, :)
      integer, intent(inout) :: stack(:, :)
      integer :: depth, d, side, at(3), next(3)
      depth = 1
      stack(:, 1) = start
      labels(start(1), start(2), start(3)) = label
      do while (depth > 0)
         at = stack(:, depth)
         depth = depth - 1
         do d = 1, 3
            do side = -1, 1, 2
               next = at
               next(d) = next(d) + side
               if (next(d) < 1 .or. next(d) > g%n(d)) cycle
               if (labels(next(1), next(2), next(3)) >= 0 .or. c(next(1), next(2), next(3)) <= 0.5_dp) cycle
               labels(next(1), next(2), next(3)) = label
               depth = depth + 1
               stack(:, depth) = next
            end do
         end do
      end do
   end subroutine flood

   ! Computes volume (area in 2D), centre and mean velocity of the gas in the cells of each label.
   subroutine measure_bubbles(f, labels, bubbles, found)
      type(flow), intent(in) :: f
      integer(c_int32_t), intent(in) :: labels(:, :, :)
      integer, intent(in) :: bubbles
      type(bubble), allocatable, intent(out) :: found(:)
      real(dp) :: gas, velocity(3)
      integer :: i, j, k, n
      allocate (found(bubbles))
      do k = 1, f%g%n(3)
         do j = 1, f%g%n(2)
            do i = 1, f%g%n(1)
               if (labels(i, j, k) < 0) cycle
               n = labels(i, j, k) + 1
               gas = f%c(i, j, k)
               velocity = (f%u(i, j, k, :) + [f%u(i - 1, j, k, 1), f%u(i, j - 1, k, 2), f%u(i, j, k - 1, 3)])/2
               found(n)%volume = found(n)%volume + gas
               found(n)%center = found(n)%center + gas*([i, j, k] - 0.5_dp)*f%g%h
               found(n)%velocity = found(n)%velocity + gas*velocity
               if (k == f%g%n(3)) found(n)%at_top = .true.
            end do
         end do
      end do
      do n = 1, bubbles
         found(n)%center = found(n)%center/found(n)%volume
         found(n)%velocity = found(n)%velocity/found(n)%volume
         found(n)%volume = found(n)%volume*f%g%h**f%g%directions
      end do
   end subroutine measure_bubbles

end module bubble_labels
