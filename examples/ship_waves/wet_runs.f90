! Runs of wet cells: the loops of a time step visit water only.
module wet_runs
   use, intrinsic :: iso_c_binding, only: c_int64_t
   use, intrinsic :: iso_fortran_env, only: int64
   implicit none
   private
   public :: run, find_runs

   ! Neighbouring wet cells of one row. Cell (i, j) has the number i + nx (j - 1). Its neighbours have the numbers
   ! p + west, p + east, p + south and p + north. Beyond the edge of the grid, the offset is 0: the neighbour is the cell
   ! itself, and a difference across this face is 0. Therefore the cells of the first and last column are runs of their own.
   type, bind(c) :: run
      integer(c_int64_t) :: first, last
      integer(c_int64_t) :: west, east, south, north
   end type run

   ! Short runs balance the threads; the rows of 256 cells of a run remain in the first-level cache.
   integer, parameter :: longest = 256

contains

   ! Return the runs of all wet cells, from south to north and from west to east.
   function find_runs(wet) result(runs)
      logical, intent(in) :: wet(:, :)
      type(run), allocatable :: runs(:)
      integer(int64) :: number
      number = 0
      allocate (runs(0))
      call visit()                   ! counts
      deallocate (runs)
      allocate (runs(number))
      number = 0
      call visit()                   ! stores

   contains

      subroutine visit()
         integer :: i, j, last, nx
         nx = size(wet, 1)
         do j = 1, size(wet, 2)
            i = 1
            do while (i <= nx)
               if (.not. wet(i, j)) then
                  i = i + 1
                  cycle
               end if
               last = i
               if (i > 1) then
                  do while (last - i + 1 < longest .and. last + 1 < nx)
                     if (.not. wet(last + 1, j)) exit
                     last = last + 1
                  end do
               end if
               number = number + 1
               if (number <= size(runs)) runs(number) = run_of(i, last, j)
               i = last + 1
            end do
         end do
      end subroutine visit

      pure type(run) function run_of(first, last, j)
         integer, intent(in) :: first, last, j
         integer(int64) :: nx
         nx = size(wet, 1)
         run_of%first = first + nx*(j - 1)
         run_of%last = last + nx*(j - 1)
         run_of%west = merge(-1, 0, first > 1)
         run_of%east = merge(1, 0, last < nx)
         run_of%south = merge(-nx, 0_int64, j > 1)
         run_of%north = merge(nx, 0_int64, j < size(wet, 2))
      end function run_of

   end function find_runs

end module wet_runs
