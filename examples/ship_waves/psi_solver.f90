! S psi = b, the linear system of every time step: by the in-house ICCG(0), by rrbsolver, or by both side by side.
! The switch is the `call` in solve_psi; all the rest is timing and counting.
module psi_solver
   use, intrinsic :: iso_c_binding, only: c_ptr
   use rrbsolver
   use boussinesq, only: wave_model
   use host, only: dp, give_up, refuse, seconds, text
   use iccg_solver, only: ic0_factorize, iccg
   implicit none
   private
   public :: psi_system, solver_statistics, setup_psi, solve_psi, use_iccg, use_rrb, use_both

   integer, parameter :: use_iccg = 1, use_rrb = 2, use_both = 3
   integer, parameter :: max_iterations = 1000

   type :: solver_statistics
      integer :: solves = 0, most_iterations = 0
      integer :: last_iterations = 0
      real(dp) :: iterations = 0, solve_seconds = 0, setup_seconds = 0
      real(dp), allocatable :: first_history(:)   ! relative residual per iteration of the first solve
   end type solver_statistics

   type :: psi_system
      integer :: solver = use_both
      real(dp) :: rel_tol = 1e-6_dp
      type(rrb_solver) :: rrb
      real(dp), allocatable :: pivot(:, :)        ! of the incomplete Cholesky factor
      real(dp), allocatable :: other(:, :)        ! the ICCG solution where both run
      type(solver_statistics) :: of_iccg, of_rrb
      real(dp) :: largest_difference = 0          ! max |psi_iccg - psi_rrb| / max |psi|, where both run
   end type psi_system

contains

   ! rrb_options: "levels=12 threads=1", as rrbsolver reads them. device, stream: rrbsolver uses this CUDA device, and the
   ! arrays of all solves are in its memory.
   subroutine setup_psi(system, model, solver, rel_tol, rrb_options, device, stream)
      type(psi_system), intent(inout) :: system
      type(wave_model), intent(in) :: model
      integer, intent(in) :: solver
      real(dp), intent(in) :: rel_tol
      character(*), intent(in) :: rrb_options
      integer, intent(in), optional :: device
      type(c_ptr), intent(in), optional :: stream
      character(512) :: message
      integer :: status
      real(dp) :: start

      system%solver = solver
      system%rel_tol = rel_tol
      if (solver /= use_iccg) then
         start = seconds()
         call system%rrb%create(model%nx, model%ny)
         call system%rrb%set(RRB_OPT_REL_TOL, rel_tol)
         call system%rrb%set(RRB_OPT_MAX_ITER, max_iterations)
         if (present(device)) then
            call system%rrb%set('backend=cuda device='//text(device))
            call system%rrb%set_stream(stream)
         end if
         if (rrb_options /= '') then
            call system%rrb%set(rrb_options, stat=status, errmsg=message)
            if (status < 0) call refuse('--rrb-options: '//trim(message))
         end if
         call system%rrb%factorize(model%center, model%east, model%north, stat=status, errmsg=message)
         if (status < 0) call refuse('rrbsolver: '//trim(message))
         system%of_rrb%setup_seconds = seconds() - start
      end if
      if (solver /= use_rrb) then
         start = seconds()
         allocate (system%pivot(model%nx, model%ny))
         call ic0_factorize(model%nx, model%ny, model%center, model%east, model%north, system%pivot)
         system%of_iccg%setup_seconds = seconds() - start
      end if
      if (solver == use_both) allocate (system%other(model%nx, model%ny))
   end subroutine setup_psi

   ! psi: the initial guess in, the solution out.
   subroutine solve_psi(system, model, b, psi)
      type(psi_system), intent(inout) :: system
      type(wave_model), intent(in) :: model
      real(dp), contiguous, intent(in) :: b(:, :)
      real(dp), contiguous, intent(inout) :: psi(:, :)

      select case (system%solver)
      case (use_iccg)
         call solve_by_iccg(system, model, b, psi)
      case (use_rrb)
         call solve_by_rrb(system, b, psi)
      case (use_both)
         system%other = psi
         call solve_by_iccg(system, model, b, system%other)
         call solve_by_rrb(system, b, psi)
         if (maxval(abs(psi)) > 0) system%largest_difference = &
            max(system%largest_difference, maxval(abs(psi - system%other))/maxval(abs(psi)))
      end select
   end subroutine solve_psi

   subroutine solve_by_iccg(system, model, b, psi)
      type(psi_system), intent(inout) :: system
      type(wave_model), intent(in) :: model
      real(dp), contiguous, intent(in) :: b(:, :)
      real(dp), contiguous, intent(inout) :: psi(:, :)
      real(dp) :: start, history(0:max_iterations)
      integer :: iterations
      logical :: converged

      start = seconds()
      call iccg(model%nx, model%ny, model%center, model%east, model%north, system%pivot, b, psi, system%rel_tol, &
                max_iterations, iterations, history, converged)
      call count_solve(system%of_iccg, iterations, seconds() - start)
      if (.not. converged) call give_up('ICCG did not reach the tolerance in '//text(max_iterations)//' iterations')
      if (system%of_iccg%solves == 1) system%of_iccg%first_history = history(0:iterations)
   end subroutine solve_by_iccg

   subroutine solve_by_rrb(system, b, psi)
      type(psi_system), intent(inout) :: system
      real(dp), contiguous, intent(in) :: b(:, :)
      real(dp), contiguous, intent(inout) :: psi(:, :)
      real(dp) :: start, history(max_iterations + 1)
      integer :: iterations, status, count
      character(512) :: message

      start = seconds()
      call system%rrb%solve(b, psi, stat=status, errmsg=message)
      if (status < 0) call give_up('rrbsolver: '//trim(message))
      call system%rrb%get(RRB_INFO_ITERATIONS, iterations)
      call count_solve(system%of_rrb, iterations, seconds() - start)
      if (status /= RRB_OK) call give_up('rrbsolver did not reach the tolerance in '//text(iterations)//' iterations')
      if (system%of_rrb%solves == 1) then
         call system%rrb%history(history, count)
         system%of_rrb%first_history = history(1:count)
      end if
   end subroutine solve_by_rrb

   subroutine count_solve(statistics, iterations, time)
      type(solver_statistics), intent(inout) :: statistics
      integer, intent(in) :: iterations
      real(dp), intent(in) :: time
      statistics%solves = statistics%solves + 1
      statistics%last_iterations = iterations
      statistics%iterations = statistics%iterations + iterations
      statistics%most_iterations = max(statistics%most_iterations, iterations)
      statistics%solve_seconds = statistics%solve_seconds + time
   end subroutine count_solve

end module psi_solver
