! The ranks of an MPI communicator, for create_distributed of type(rrb_solver). The program must contain
! rrbsolver_mpi.c. This module uses no MPI module: programs may use mpi, mpi_f08 or mpif.h.
!
!    use mpi
!    use rrbsolver
!    use rrbsolver_mpi
!    type(rrb_comm) :: comm
!    call comm%from_mpi(MPI_COMM_WORLD)      ! with use mpi_f08: MPI_COMM_WORLD%MPI_VAL
!    call solver%create_distributed(nx, ny, lower, extents, comm)
!    ...
!    call solver%destroy()
!    call comm%free()
!    call MPI_Finalize(ierror)
module rrbsolver_mpi
   use, intrinsic :: iso_c_binding, only: c_int32_t
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_constants
   use rrbsolver_base, only: report, decimal
   use rrbsolver_comm, only: rrb_comm_base, rrb_comm_table
   implicit none
   private

   public :: rrb_comm

   type, extends(rrb_comm_base) :: rrb_comm
   contains
      procedure, private :: from_int32, from_int64
      generic :: from_mpi => from_int32, from_int64
      procedure :: free
   end type rrb_comm

   interface
      function c_comm(comm, out) result(code) bind(c, name="rrbsolver_mpi_comm_f")
         import :: c_int32_t, rrb_comm_table
         integer(c_int32_t), value :: comm
         type(rrb_comm_table), intent(inout) :: out
         integer(c_int32_t) :: code
      end function c_comm

      subroutine c_free(comm) bind(c, name="rrbsolver_mpi_free")
         import :: rrb_comm_table
         type(rrb_comm_table), intent(inout) :: comm
      end subroutine c_free
   end interface

contains

   ! from_mpi(comm [, stat] [, errmsg]): duplicates a communicator. Collective over comm, between MPI_Init and
   ! MPI_Finalize.
   !
   ! comm is the integer of use mpi, or the component MPI_VAL of a type(MPI_Comm) of use mpi_f08. A previous duplicate
   ! in self is freed. stat is RRB_OK or RRB_ERR_COMMUNICATION.
   subroutine from_int32(self, comm, stat, errmsg)
      class(rrb_comm), intent(inout) :: self
      integer(int32), intent(in) :: comm
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: code
      call self%free()
      code = c_comm(comm, self%table)
      if (code == 0) then
         call report(RRB_OK, stat, errmsg)
      else
         call report(RRB_ERR_COMMUNICATION, stat, errmsg, "MPI could not duplicate the communicator: error code " // &
                     decimal(int(code, int64)))
      end if
   end subroutine from_int32

   ! The same for default integers of 8 bytes.
   subroutine from_int64(self, comm, stat, errmsg)
      class(rrb_comm), intent(inout) :: self
      integer(int64), intent(in) :: comm
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%from_int32(int(comm, int32), stat, errmsg)
   end subroutine from_int64

   ! free(): frees the duplicate; no effect if self has none. Collective; call it before MPI_Finalize, after the solvers
   ! are destroyed. If self was copied by assignment, free one of the copies only.
   subroutine free(self)
      class(rrb_comm), intent(inout) :: self
      call c_free(self%table)
   end subroutine free
end module rrbsolver_mpi
