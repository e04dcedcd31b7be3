! Messages between the ranks that share a domain: what create_distributed of type(rrb_solver) takes.
!
! With MPI take type(rrb_comm) of the module rrbsolver_mpi, which fills the table. It lies in a file of its own,
! rrbsolver_mpi.f90, beside rrbsolver_mpi.c: without MPI neither is needed. For messages of another kind fill the table
! of a type(rrb_comm_base) by functions of your own, as rrbsolver.h describes them.
module rrbsolver_comm
   use, intrinsic :: iso_c_binding, only: c_funptr, c_int32_t, c_int64_t, c_null_funptr, c_null_ptr, c_ptr
   implicit none
   private

   public :: rrb_comm_table, rrb_comm_base

   ! rrbsolver_comm of rrbsolver.h.
   type, bind(c) :: rrb_comm_table
      integer(c_int64_t) :: struct_size = 0   ! c_sizeof of the table
      type(c_ptr) :: context = c_null_ptr
      integer(c_int32_t) :: rank = 0, size = 0, flags = 0, reserved = 0   ! rank from 0
      type(c_funptr) :: exchange = c_null_funptr, allreduce = c_null_funptr, allgather = c_null_funptr
      type(c_funptr) :: start = c_null_funptr, test = c_null_funptr, release = c_null_funptr
   end type rrb_comm_table

   ! Copies share the context, which must live as long as solvers made with any of them.
   type :: rrb_comm_base
      type(rrb_comm_table) :: table
   end type rrb_comm_base
end module rrbsolver_comm
