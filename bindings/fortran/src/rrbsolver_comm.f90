! Communication between ranks that share a domain: the argument comm of create_distributed of type(rrb_solver).
!
! For MPI, use type(rrb_comm) of module rrbsolver_mpi, which fills the table. That module has its own source files,
! rrbsolver_mpi.f90 and rrbsolver_mpi.c; programs without MPI need neither. For another transport, fill the table of a
! type(rrb_comm_base) with functions of your own, as rrbsolver.h describes.
module rrbsolver_comm
   use, intrinsic :: iso_c_binding, only: c_funptr, c_int32_t, c_int64_t, c_null_funptr, c_null_ptr, c_ptr
   implicit none
   private

   public :: rrb_comm_table, rrb_comm_base

   ! The structure rrbsolver_comm of rrbsolver.h.
   type, bind(c) :: rrb_comm_table
      integer(c_int64_t) :: struct_size = 0   ! bytes of the table: c_sizeof(table)
      type(c_ptr) :: context = c_null_ptr
      integer(c_int32_t) :: rank = 0, size = 0, flags = 0, reserved = 0   ! ranks count from 0
      type(c_funptr) :: exchange = c_null_funptr, allreduce = c_null_funptr, allgather = c_null_funptr
      type(c_funptr) :: start = c_null_funptr, test = c_null_funptr, release = c_null_funptr
   end type rrb_comm_table

   ! Copies share the context, which must exist as long as any solver created with one of them.
   type :: rrb_comm_base
      type(rrb_comm_table) :: table
   end type rrb_comm_base
end module rrbsolver_comm
