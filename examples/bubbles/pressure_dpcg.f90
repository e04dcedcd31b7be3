! Solves the pressure systems with the family dpcg of rrbsolver: deflated conjugate gradients for 7-point matrices.
module pressure_dpcg
   use rrbsolver, only: dpcg_solver, RRB_INFO_ITERATIONS, RRB_OK, RRB_OPT_MAX_ITER, RRB_OPT_REL_TOL
   use, intrinsic :: iso_c_binding, only: c_int32_t
   use host, only: dp, give_up, refuse, text
   use iccg_solver, only: matrix
   implicit none
   private
   public :: dpcg_pressure

   type :: dpcg_pressure
      private
      type(dpcg_solver) :: solver
   contains
      procedure :: create
      procedure :: set_regions
      procedure :: solve
      procedure :: destroy
   end type dpcg_pressure

contains

   ! options: option text for rrbsolver, such as "preconditioner=neumann deflation=levelset".
   subroutine create(self, n, rel_tol, max_iter, options)
      class(dpcg_pressure), intent(inout) :: self
      integer, intent(in) :: n(3), max_iter
      real(dp), intent(in) :: rel_tol
      character(*), intent(in) :: options
      character(512) :: message
      integer :: status
      call self%solver%create(n(1), n(2), n(3), stat=status, errmsg=message)
      if (status < 0) call refuse('rrbsolver: '//trim(message))
      call self%solver%set(RRB_OPT_REL_TOL, rel_tol)
      call self%solver%set(RRB_OPT_MAX_ITER, max_iter)
      if (options == '') return
      call self%solver%set(options, stat=status, errmsg=message)
      if (status < 0) call refuse('--dpcg-options: '//trim(message))
   end subroutine create

   ! Sets the deflation regions for the next matrix: one label per bubble, from 0; -1 in the liquid.
   subroutine set_regions(self, labels)
      class(dpcg_pressure), intent(inout) :: self
      integer(c_int32_t), contiguous, intent(in) :: labels(:, :, :)
      character(512) :: message
      integer :: status
      call self%solver%set_regions(labels, stat=status, errmsg=message)
      if (status < 0) call give_up('rrbsolver: '//trim(message))
   end subroutine set_regions

   ! Factorizes and solves. The matrix changes in every step, because the interface moves. p: guess on entry, solution
   ! on return.
   subroutine solve(self, a, b, p, iterations)
      class(dpcg_pressure), intent(inout) :: self
      type(matrix), intent(in) :: a
      real(dp), contiguous, intent(in) :: b(:, :, :)
      real(dp), contiguous, intent(inout) :: p(:, :, :)
      integer, intent(out) :: iterations
      character(512) :: message
      integer :: status
      iterations = 0
      call self%solver%factorize(a%center, a%east, a%north, a%top, stat=status, errmsg=message)
      if (status < 0) call give_up('rrbsolver: '//trim(message))
      call self%solver%solve(b, p, stat=status, errmsg=message)
      if (status < 0) call give_up('rrbsolver: '//trim(message))
      call self%solver%get(RRB_INFO_ITERATIONS, iterations)
      if (status /= RRB_OK) call give_up('rrbsolver, after '//text(iterations)//' iterations: '//trim(message))
   end subroutine solve

   subroutine destroy(self)
      class(dpcg_pressure), intent(inout) :: self
      call self%solver%destroy()
   end subroutine destroy

end module pressure_dpcg
