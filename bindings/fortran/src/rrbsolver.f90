! rrbsolver for Fortran 2018: A x = b on a 2D grid, A symmetric with a 5-point or 9-point stencil, solved by CG with the
! RRB preconditioner.
!
!    use rrbsolver
!    type(rrb_solver) :: solver
!    call solver%create(nx, ny)
!    call solver%factorize(center, east, north)      ! again whenever the coefficients change
!    call solver%solve(b, x)                         ! x: initial guess in, solution out
!
! Arrays are real(c_double) of shape (nx, ny), i = 1..nx fastest: the order of a(nx, ny). With the option leading_dimension
! set to ld >= nx their shape is (ld, ny), and rows i > nx are ignored; their contents may be anything.
!
!    center(i,j)      the matrix entry of (i,j) with itself, positive
!    east(i,j)        the entry between (i,j) and (i+1,j), usually negative
!    north(i,j)       the entry between (i,j) and (i,j+1)
!    northeast(i,j)   the entry between (i,j) and (i+1,j+1)
!    northwest(i,j)   the entry between (i,j) and (i-1,j+1)
!
! Entries that point outside the grid are ignored. Unit: any; x then has the unit of b over that of the entries.
!
! Errors follow Fortran's rule for allocate. Every procedure takes the optional arguments stat (0: done; positive: finished
! with a caveat, results usable; negative: failed; named RRB_OK, RRB_NOT_CONVERGED, RRB_ERR_...) and errmsg (changed only
! when stat is not 0). Without stat, a negative status ends the program by error stop with the library's sentence, and a
! positive one goes on. Indices in sentences count from 1.
!
! Threads: different solvers are independent; one solver is used by one thread at a time.
module rrbsolver
   use, intrinsic :: iso_c_binding, only: c_associated, c_double, c_f_pointer, c_funloc, c_int32_t, c_int64_t, c_loc, &
                                          c_null_funptr, c_null_ptr, c_ptr
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_c
   use rrbsolver_support, only: report, differs, to_fortran, decimal
   use rrbsolver_rrb_handle, only: rrb_options => handle_options
   use rrbsolver_smoother_handle, only: smoother_options => handle_options
   implicit none
   private

   public :: rrb_solver, rrb_monitor, rrb_solve_once
   public :: smoother, smoother_patch, smoother_ghost_fill
   public :: rrbsolver_version, rrbsolver_status_string, rrbsolver_cuda_device_count

   ! RRB_OK, RRB_ERR_..., RRB_OPT_..., RRB_INFO_... and the choices, each public.
   include "rrbsolver_constants.inc"

   abstract interface
      ! Called by solve before the first iteration (iteration = 0) and after each one, with the residual that the stopping
      ! test looks at, relative to its reference. The result .true. stops the solve with RRB_STOPPED. It must not use the
      ! solver that calls it.
      function rrb_monitor(iteration, relative_residual) result(stop_now)
         import :: c_double
         integer, intent(in) :: iteration
         real(c_double), intent(in) :: relative_residual
         logical :: stop_now
      end function rrb_monitor
   end interface

   type :: monitor_context
      procedure(rrb_monitor), pointer, nopass :: monitor => null()
   end type monitor_context

   ! The arrays of one patch of a smoother: u(0:nx+1, 0:ny+1, 0:nz+1) with its layer of ghost cells (other lower bounds do as
   ! well), f(nx, ny, nz), and, where a residual is wanted, r(nx, ny, nz).
   type :: smoother_patch
      real(c_double), pointer, contiguous :: u(:, :, :) => null()
      real(c_double), pointer, contiguous :: f(:, :, :) => null()
      real(c_double), pointer, contiguous :: r(:, :, :) => null()
   end type smoother_patch

   abstract interface
      ! Called before each sweep with its number, from 0, and the u of all patches, u(0:nx+1, 0:ny+1, 0:nz+1), to fill the
      ! ghost cells that no patch covers; -1 where a residual is computed instead. The result .true. stops with RRB_STOPPED.
      function smoother_ghost_fill(sweep, patches) result(stop_now)
         import :: smoother_patch
         integer, intent(in) :: sweep
         type(smoother_patch), intent(inout) :: patches(:)
         logical :: stop_now
      end function smoother_ghost_fill
   end interface

   ! What the functions that C calls find by their user pointer.
   type :: smoother_context
      procedure(smoother_ghost_fill), pointer, nopass :: fill => null()
      procedure(rrb_monitor), pointer, nopass :: monitor => null()
      integer(int64), allocatable :: extents(:, :)
   end type smoother_context

   ! Block relaxation on 3D patches with a constant stencil. It cannot be copied by assignment.
   !
   !    type(smoother) :: s
   !    call s%create([6, -1, -1, -1, -1, -1, -1]*1.0_dp, [8, 8, 8])    ! or 27 values: the 3x3x3 cube, x fastest
   !    call s%set_patches(lower, extents)                              ! (3, patches); again after regridding
   !    call s%apply(patches, 3)                                        ! type(smoother_patch) :: patches(:)
   !
   ! Where arrays are not Fortran pointers (device memory, say), apply, exchange, residual, upload and download also take
   ! tables of their addresses, type(c_ptr) :: u(:), one for each patch.
   type, extends(smoother_options) :: smoother
      private
      type(smoother_context), pointer :: context => null()
   contains
      procedure, private :: smoother_create_int32, smoother_create_int64
      procedure, private :: smoother_set_patches_int32, smoother_set_patches_int64
      procedure, private :: smoother_apply_patches, smoother_apply_tables, smoother_apply_resident
      procedure, private :: smoother_exchange_patches, smoother_exchange_tables, smoother_exchange_resident
      procedure, private :: smoother_residual_patches, smoother_norm_tables, smoother_residual_tables
      procedure, private :: smoother_norm_resident, smoother_residual_resident
      procedure, private :: smoother_upload_patches, smoother_upload_tables
      procedure, private :: smoother_download_patches, smoother_download_tables
      procedure, private :: smoother_refuse_copy
      generic :: create => smoother_create_int32, smoother_create_int64
      generic :: set_patches => smoother_set_patches_int32, smoother_set_patches_int64
      generic :: apply => smoother_apply_patches, smoother_apply_tables, smoother_apply_resident
      generic :: exchange => smoother_exchange_patches, smoother_exchange_tables, smoother_exchange_resident
      generic :: residual => smoother_residual_patches, smoother_norm_tables, smoother_residual_tables, &
                             smoother_norm_resident, smoother_residual_resident
      generic :: upload => smoother_upload_patches, smoother_upload_tables
      generic :: download => smoother_download_patches, smoother_download_tables
      generic :: assignment(=) => smoother_refuse_copy
      procedure :: device_pointers => smoother_device_pointers
      procedure :: set_ghost_fill => smoother_set_ghost_fill
      procedure :: set_monitor => smoother_set_monitor
      procedure :: destroy => smoother_destroy
      final :: smoother_finalize
   end type smoother

   ! One solver: a grid size, options, a factorization and its workspace. It cannot be copied by assignment.
   type, extends(rrb_options) :: rrb_solver
      private
      integer(int64) :: nx = 0, ny = 0
      type(monitor_context), pointer :: context => null()
   contains
      procedure, private :: create_int32, create_int64
      procedure, private :: factorize_5_point, factorize_9_point
      procedure, private :: refuse_copy
      generic :: create => create_int32, create_int64
      generic :: factorize => factorize_5_point, factorize_9_point
      generic :: assignment(=) => refuse_copy
      procedure :: solve
      procedure :: apply
      procedure :: multiply
      procedure :: set_monitor
      procedure :: destroy
      final :: finalize
   end type rrb_solver

contains

   ! create(nx, ny [, stat, errmsg]): a solver for nx x ny points, 1 x 1 and up. What self held before is destroyed.
   subroutine create_int32(self, nx, ny, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      integer(int32), intent(in) :: nx, ny
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%create_int64(int(nx, int64), int(ny, int64), stat, errmsg)
   end subroutine create_int32

   subroutine create_int64(self, nx, ny, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      integer(int64), intent(in) :: nx, ny
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      call self%destroy()
      status = c_rrb_create(nx, ny, self%handle)
      if (status >= 0) then
         self%nx = nx
         self%ny = ny
      end if
      call report(status, stat, errmsg)
   end subroutine create_int64

   ! destroy(): frees everything; nothing happens to a solver that was not created. Also done when self goes out of scope.
   subroutine destroy(self)
      class(rrb_solver), intent(inout) :: self
      integer(c_int32_t) :: status
      status = c_rrb_destroy(self%handle)
      if (associated(self%context)) deallocate (self%context)
      self%context => null()
      self%nx = 0
      self%ny = 0
   end subroutine destroy

   impure elemental subroutine finalize(self)
      type(rrb_solver), intent(inout) :: self
      call self%destroy()
   end subroutine finalize

   ! Two solvers with one handle would free it twice.
   subroutine refuse_copy(to, from)
      class(rrb_solver), intent(inout) :: to
      type(rrb_solver), intent(in) :: from
      if (c_associated(from%handle) .or. c_associated(to%handle)) &
         error stop "rrbsolver: an rrb_solver cannot be copied by assignment; create a second one"
   end subroutine refuse_copy

   ! factorize(center, east, north [, northeast, northwest] [, stat, errmsg]): takes new coefficients; without the corner
   ! arrays the stencil has 5 points. The values are copied. Called again, it reuses all memory.
   subroutine factorize_5_point(self, center, east, north, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: center(:, :)   ! (ld, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)     ! (ld, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)    ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_shape(self, "center", shape(center, int64), stat, errmsg)) return
      if (wrong_shape(self, "east", shape(east, int64), stat, errmsg)) return
      if (wrong_shape(self, "north", shape(north, int64), stat, errmsg)) return
      call report(c_rrb_factorize(self%handle, center, east, north), stat, errmsg)
   end subroutine factorize_5_point

   subroutine factorize_9_point(self, center, east, north, northeast, northwest, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: center(:, :)      ! (ld, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)        ! (ld, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)       ! (ld, ny)
      real(c_double), contiguous, intent(in) :: northeast(:, :)   ! (ld, ny)
      real(c_double), contiguous, intent(in) :: northwest(:, :)   ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_shape(self, "center", shape(center, int64), stat, errmsg)) return
      if (wrong_shape(self, "east", shape(east, int64), stat, errmsg)) return
      if (wrong_shape(self, "north", shape(north, int64), stat, errmsg)) return
      if (wrong_shape(self, "northeast", shape(northeast, int64), stat, errmsg)) return
      if (wrong_shape(self, "northwest", shape(northwest, int64), stat, errmsg)) return
      call report(c_rrb_factorize(self%handle, center, east, north, northeast, northwest), stat, errmsg)
   end subroutine factorize_9_point

   ! solve(b, x [, stat, errmsg]): A x = b. stat is RRB_OK, RRB_NOT_CONVERGED (max_iter reached), RRB_STOPPED (by the
   ! monitor) or negative. With the default norm it iterates until ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol).
   subroutine solve(self, b, x, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: b(:, :)      ! (ld, ny) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :)   ! (ld, ny) initial guess in, solution out
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_shape(self, "b", shape(b, int64), stat, errmsg)) return
      if (wrong_shape(self, "x", shape(x, int64), stat, errmsg)) return
      call report(c_rrb_solve(self%handle, b, x), stat, errmsg)
   end subroutine solve

   ! apply(r, z [, stat, errmsg]): z = M^-1 r with the RRB preconditioner M, for a Krylov loop of your own.
   subroutine apply(self, r, z, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: r(:, :)      ! (ld, ny)
      real(c_double), contiguous, intent(inout) :: z(:, :)   ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_shape(self, "r", shape(r, int64), stat, errmsg)) return
      if (wrong_shape(self, "z", shape(z, int64), stat, errmsg)) return
      call report(c_rrb_apply(self%handle, r, z), stat, errmsg)
   end subroutine apply

   ! multiply(x, y [, stat, errmsg]): y = A x with the factorized matrix.
   subroutine multiply(self, x, y, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: x(:, :)      ! (ld, ny)
      real(c_double), contiguous, intent(inout) :: y(:, :)   ! (ld, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_shape(self, "x", shape(x, int64), stat, errmsg)) return
      if (wrong_shape(self, "y", shape(y, int64), stat, errmsg)) return
      call report(c_rrb_multiply(self%handle, x, y), stat, errmsg)
   end subroutine multiply

   ! set_monitor([monitor] [, stat, errmsg]): monitor is called in every solve from now on; without it, no longer.
   subroutine set_monitor(self, monitor, stat, errmsg)
      class(rrb_solver), intent(inout) :: self
      procedure(rrb_monitor), optional :: monitor
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (present(monitor)) then
         if (.not. associated(self%context)) allocate (self%context)
         self%context%monitor => monitor
         status = c_rrb_set_monitor(self%handle, c_funloc(call_monitor), c_loc(self%context))
      else
         status = c_rrb_set_monitor(self%handle, c_null_funptr, c_null_ptr)
      end if
      call report(status, stat, errmsg)
   end subroutine set_monitor

   ! What C calls: user is the monitor_context of the solver.
   function call_monitor(user, iteration, relative_residual) result(stop_now) bind(c, name="")
      type(c_ptr), value :: user
      integer(c_int64_t), value :: iteration
      real(c_double), value :: relative_residual
      integer(c_int32_t) :: stop_now
      type(monitor_context), pointer :: context
      call c_f_pointer(user, context)
      stop_now = merge(1_c_int32_t, 0_c_int32_t, context%monitor(int(iteration), relative_residual))
   end function call_monitor

   ! The whole of it in one call, in place of an ICCG subroutine: factorizes, solves, forgets. Without the corner arrays the
   ! stencil has 5 points. Stops when ||b - A x||_2 <= rel_tol * ||b||_2. Prefer rrb_solver when the coefficients stay.
   subroutine rrb_solve_once(center, east, north, b, x, rel_tol, max_iter, iterations, northeast, northwest, stat, errmsg)
      real(c_double), contiguous, intent(in) :: center(:, :)   ! (nx, ny)
      real(c_double), contiguous, intent(in) :: east(:, :)     ! (nx, ny)
      real(c_double), contiguous, intent(in) :: north(:, :)    ! (nx, ny)
      real(c_double), contiguous, intent(in) :: b(:, :)        ! (nx, ny) right-hand side
      real(c_double), contiguous, intent(inout) :: x(:, :)     ! (nx, ny) initial guess in, solution out
      real(c_double), intent(in) :: rel_tol
      integer, intent(in) :: max_iter
      integer, intent(inout) :: iterations                     ! how many were done
      real(c_double), contiguous, intent(in), optional :: northeast(:, :), northwest(:, :)   ! (nx, ny)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      integer(c_int64_t) :: extent(2), wide
      extent = shape(center, int64)
      if (differs("east", shape(east, int64), extent, stat, errmsg)) return
      if (differs("north", shape(north, int64), extent, stat, errmsg)) return
      if (differs("b", shape(b, int64), extent, stat, errmsg)) return
      if (differs("x", shape(x, int64), extent, stat, errmsg)) return
      if (present(northeast)) then
         if (differs("northeast", shape(northeast, int64), extent, stat, errmsg)) return
      end if
      if (present(northwest)) then
         if (differs("northwest", shape(northwest, int64), extent, stat, errmsg)) return
      end if
      wide = iterations
      status = c_rrb_solve_once(extent(1), extent(2), center, east, north, northeast, northwest, b, x, rel_tol, &
                                int(max_iter, c_int64_t), wide)
      iterations = int(wide)
      call report(status, stat, errmsg)
   end subroutine rrb_solve_once

   ! create(stencil, block [, stat, errmsg]): 7 legs (center, west, east, south, north, bottom, top) or 27 (the 3x3x3 cube, x
   ! fastest), and the cells of a block in x, y and z, 1 to 8 each. What self held before is destroyed.
   subroutine smoother_create_int32(self, stencil, block, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: stencil(:)
      integer(int32), intent(in) :: block(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%smoother_create_int64(stencil, int(block, int64), stat, errmsg)
   end subroutine smoother_create_int32

   subroutine smoother_create_int64(self, stencil, block, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: stencil(:)
      integer(int64), intent(in) :: block(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      call self%destroy()
      status = c_smoother_create(size(stencil, kind=c_int32_t), stencil, block(1), block(2), block(3), self%handle)
      if (status >= 0) allocate (self%context)
      call report(status, stat, errmsg)
   end subroutine smoother_create_int64

   ! destroy(): frees everything; nothing happens to a smoother that was not created. Also done when self goes out of scope.
   subroutine smoother_destroy(self)
      class(smoother), intent(inout) :: self
      integer(c_int32_t) :: status
      status = c_smoother_destroy(self%handle)
      if (associated(self%context)) deallocate (self%context)
      self%context => null()
   end subroutine smoother_destroy

   impure elemental subroutine smoother_finalize(self)
      type(smoother), intent(inout) :: self
      call self%destroy()
   end subroutine smoother_finalize

   subroutine smoother_refuse_copy(to, from)
      class(smoother), intent(inout) :: to
      type(smoother), intent(in) :: from
      if (c_associated(from%handle) .or. c_associated(to%handle)) &
         error stop "rrbsolver: a smoother cannot be copied by assignment; create a second one"
   end subroutine smoother_refuse_copy

   ! set_patches(lower, extents [, stat, errmsg]): patch p covers cells lower(:, p) .. lower(:, p) + extents(:, p) - 1 of one
   ! level's index space. Block inverses stay.
   subroutine smoother_set_patches_int32(self, lower, extents, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer(int32), intent(in) :: lower(:, :), extents(:, :)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%smoother_set_patches_int64(int(lower, int64), int(extents, int64), stat, errmsg)
   end subroutine smoother_set_patches_int32

   subroutine smoother_set_patches_int64(self, lower, extents, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer(int64), contiguous, intent(in) :: lower(:, :), extents(:, :)   ! (3, patches)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (differs("lower", shape(lower, int64), [3_int64, size(lower, 2, int64)], stat, errmsg)) return
      if (differs("extents", shape(extents, int64), shape(lower, int64), stat, errmsg)) return
      status = c_smoother_set_patches(self%handle, size(lower, 2, c_int64_t), lower, extents)
      if (associated(self%context)) then
         if (allocated(self%context%extents)) deallocate (self%context%extents)
         if (status >= 0) allocate (self%context%extents, source=extents)
      end if
      call report(status, stat, errmsg)
   end subroutine smoother_set_patches_int64

   ! apply(patches, sweeps [, stat, errmsg]): relaxes u of all patches; stat is RRB_OK, RRB_STOPPED or negative.
   subroutine smoother_apply_patches(self, patches, sweeps, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(in) :: sweeps
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .true., .false., stat, errmsg)) return
      call self%smoother_apply_tables(table_of(patches, "u"), table_of(patches, "f"), sweeps, stat, errmsg)
   end subroutine smoother_apply_patches

   ! apply(u, f, sweeps [, stat, errmsg]): the same with the addresses of the arrays, one for each patch, on the host or on
   ! the device of a smoother with backend=cuda, all of a call in one place.
   subroutine smoother_apply_tables(self, u, f, sweeps, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:), f(:)
      integer, intent(in) :: sweeps
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      call report(c_smoother_apply(self%handle, table_address(u), table_address(f), int(sweeps, c_int32_t)), stat, errmsg)
   end subroutine smoother_apply_tables

   ! apply(sweeps [, stat, errmsg]): the same on the patches of upload.
   subroutine smoother_apply_resident(self, sweeps, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer, intent(in) :: sweeps
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_smoother_apply(self%handle, c_null_ptr, c_null_ptr, int(sweeps, c_int32_t)), stat, errmsg)
   end subroutine smoother_apply_resident

   ! exchange([patches] [, stat, errmsg]), exchange(u ...): ghost cells of u that another patch covers are read from it;
   ! without arrays, those of upload.
   subroutine smoother_exchange_patches(self, patches, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .false., .false., stat, errmsg)) return
      call self%smoother_exchange_tables(table_of(patches, "u"), stat, errmsg)
   end subroutine smoother_exchange_patches

   subroutine smoother_exchange_tables(self, u, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      call report(c_smoother_exchange(self%handle, table_address(u)), stat, errmsg)
   end subroutine smoother_exchange_tables

   subroutine smoother_exchange_resident(self, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_smoother_exchange(self%handle, c_null_ptr), stat, errmsg)
   end subroutine smoother_exchange_resident

   ! residual(patches, norm2 [, stat, errmsg]): norm2 = ||f - A u||_2 over all patches, with fresh ghost cells; the residual
   ! itself goes to r of the patches if all have one.
   subroutine smoother_residual_patches(self, patches, norm2, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wanted
      integer :: p
      wanted = size(patches) > 0
      do p = 1, size(patches)
         wanted = wanted .and. associated(patches(p)%r)
      end do
      if (wrong_patches(self, patches, .true., wanted, stat, errmsg)) return
      if (wanted) then
         call self%smoother_residual_tables(table_of(patches, "u"), table_of(patches, "f"), norm2, table_of(patches, "r"), &
                                            stat, errmsg)
      else
         call self%smoother_norm_tables(table_of(patches, "u"), table_of(patches, "f"), norm2, stat, errmsg)
      end if
   end subroutine smoother_residual_patches

   ! residual(u, f, norm2 [, r] [, stat, errmsg]): the same with addresses.
   subroutine smoother_norm_tables(self, u, f, norm2, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:), f(:)
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      call report(c_smoother_residual(self%handle, table_address(u), table_address(f), c_null_ptr, norm2), stat, errmsg)
   end subroutine smoother_norm_tables

   subroutine smoother_residual_tables(self, u, f, norm2, r, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:), f(:), r(:)
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "r", size(r, kind=int64), stat, errmsg)) return
      call report(c_smoother_residual(self%handle, table_address(u), table_address(f), table_address(r), norm2), stat, errmsg)
   end subroutine smoother_residual_tables

   ! residual(norm2 [, r] [, stat, errmsg]): the same of the patches of upload; r: addresses, where the patches are.
   subroutine smoother_norm_resident(self, norm2, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_smoother_residual(self%handle, c_null_ptr, c_null_ptr, c_null_ptr, norm2), stat, errmsg)
   end subroutine smoother_norm_resident

   subroutine smoother_residual_resident(self, norm2, r, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), intent(inout) :: norm2
      type(c_ptr), contiguous, target, intent(in) :: r(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "r", size(r, kind=int64), stat, errmsg)) return
      call report(c_smoother_residual(self%handle, c_null_ptr, c_null_ptr, table_address(r), norm2), stat, errmsg)
   end subroutine smoother_residual_resident

   ! upload(patches [, stat, errmsg]): keeps u and f in the library's memory, on the device where there is one. Called again,
   ! it takes new values.
   subroutine smoother_upload_patches(self, patches, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .true., .false., stat, errmsg)) return
      call self%smoother_upload_tables(table_of(patches, "u"), table_of(patches, "f"), stat, errmsg)
   end subroutine smoother_upload_patches

   ! upload([u] [, f] [, stat, errmsg]): the same with addresses; what is not given stays as it is.
   subroutine smoother_upload_tables(self, u, f, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in), optional :: u(:), f(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      type(c_ptr) :: u_table, f_table
      u_table = c_null_ptr
      f_table = c_null_ptr
      if (present(u)) then
         if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
         u_table = table_address(u)
      end if
      if (present(f)) then
         if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
         f_table = table_address(f)
      end if
      call report(c_smoother_upload(self%handle, u_table, f_table), stat, errmsg)
   end subroutine smoother_upload_tables

   ! download(patches [, stat, errmsg]), download(u ...): brings u back, ghost cells included.
   subroutine smoother_download_patches(self, patches, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .false., .false., stat, errmsg)) return
      call self%smoother_download_tables(table_of(patches, "u"), stat, errmsg)
   end subroutine smoother_download_patches

   subroutine smoother_download_tables(self, u, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      call report(c_smoother_download(self%handle, table_address(u)), stat, errmsg)
   end subroutine smoother_download_tables

   ! device_pointers(u, f [, stat, errmsg]): where the patches of upload are, one address for each patch, for kernels of your
   ! own: on the device, or on the host with a CPU backend. Good until the next set_patches.
   subroutine smoother_device_pointers(self, u, f, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(inout) :: u(:), f(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      call report(c_smoother_device_pointers(self%handle, table_address(u), table_address(f)), stat, errmsg)
   end subroutine smoother_device_pointers

   ! set_ghost_fill([fill] [, stat, errmsg]): fill is called before every sweep from now on; without it, no longer.
   subroutine smoother_set_ghost_fill(self, fill, stat, errmsg)
      class(smoother), intent(inout) :: self
      procedure(smoother_ghost_fill), optional :: fill
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (present(fill) .and. associated(self%context)) then
         self%context%fill => fill
         status = c_smoother_set_ghost_fill(self%handle, c_funloc(call_ghost_fill), c_loc(self%context))
      else
         status = c_smoother_set_ghost_fill(self%handle, c_null_funptr, c_null_ptr)
      end if
      call report(status, stat, errmsg)
   end subroutine smoother_set_ghost_fill

   ! What C calls: user is the smoother_context of the smoother, u a table of one pointer a patch.
   function call_ghost_fill(user, sweep, u) result(stop_now) bind(c, name="")
      type(c_ptr), value :: user, u
      integer(c_int32_t), value :: sweep
      integer(c_int32_t) :: stop_now
      type(smoother_context), pointer :: context
      type(c_ptr), pointer :: table(:)
      type(smoother_patch), allocatable :: patches(:)
      real(c_double), pointer, contiguous :: values(:, :, :)
      integer :: p
      call c_f_pointer(user, context)
      allocate (patches(size(context%extents, 2)))
      call c_f_pointer(u, table, [size(patches)])
      do p = 1, size(patches)
         call c_f_pointer(table(p), values, context%extents(:, p) + 2)
         patches(p)%u(0:, 0:, 0:) => values
      end do
      stop_now = merge(1_c_int32_t, 0_c_int32_t, context%fill(int(sweep), patches))
   end function call_ghost_fill

   ! set_monitor([monitor] [, stat, errmsg]): monitor is called with ||f - A u||_2 relative to its first value, before the
   ! first sweep and after each one of every apply from now on; without it, no longer.
   subroutine smoother_set_monitor(self, monitor, stat, errmsg)
      class(smoother), intent(inout) :: self
      procedure(rrb_monitor), optional :: monitor
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (present(monitor) .and. associated(self%context)) then
         self%context%monitor => monitor
         status = c_smoother_set_monitor(self%handle, c_funloc(call_sweep_monitor), c_loc(self%context))
      else
         status = c_smoother_set_monitor(self%handle, c_null_funptr, c_null_ptr)
      end if
      call report(status, stat, errmsg)
   end subroutine smoother_set_monitor

   function call_sweep_monitor(user, sweep, relative_residual) result(stop_now) bind(c, name="")
      type(c_ptr), value :: user
      integer(c_int64_t), value :: sweep
      real(c_double), value :: relative_residual
      integer(c_int32_t) :: stop_now
      type(smoother_context), pointer :: context
      call c_f_pointer(user, context)
      stop_now = merge(1_c_int32_t, 0_c_int32_t, context%monitor(int(sweep), relative_residual))
   end function call_sweep_monitor

   ! Addresses of one array of each patch; null where it is not associated.
   function table_of(patches, name) result(table)
      type(smoother_patch), intent(in) :: patches(:)
      character, intent(in) :: name
      type(c_ptr), allocatable :: table(:)
      integer :: p
      allocate (table(size(patches)))
      table = c_null_ptr
      do p = 1, size(patches)
         select case (name)
         case ("u")
            if (associated(patches(p)%u)) table(p) = address(patches(p)%u)
         case ("f")
            if (associated(patches(p)%f)) table(p) = address(patches(p)%f)
         case default
            if (associated(patches(p)%r)) table(p) = address(patches(p)%r)
         end select
      end do
   end function table_of

   ! What C gets for a table: c_loc needs something to point at.
   function table_address(table) result(where)
      type(c_ptr), contiguous, target, intent(in) :: table(:)
      type(c_ptr) :: where
      where = c_null_ptr
      if (size(table) > 0) where = c_loc(table)
   end function table_address

   function address(values)
      real(c_double), contiguous, target, intent(in) :: values(:, :, :)
      type(c_ptr) :: address
      address = c_loc(values)
   end function address

   ! Whether patches have other numbers or shapes than set_patches was told. Arrays that are not associated are the C side's
   ! to report.
   function wrong_patches(self, patches, with_f, with_r, stat, errmsg) result(wrong)
      class(smoother), intent(in) :: self
      type(smoother_patch), intent(in) :: patches(:)
      logical, intent(in) :: with_f, with_r
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      integer :: p
      wrong = .false.
      if (present(stat)) stat = RRB_OK
      if (.not. associated(self%context)) return
      if (.not. allocated(self%context%extents)) return
      wrong = wrong_count(self, "patches", size(patches, kind=int64), stat, errmsg)
      if (wrong) return
      associate (extents => self%context%extents)
         do p = 1, size(patches)
            if (associated(patches(p)%u)) wrong = &
               other_shape("u", p, shape(patches(p)%u, int64), extents(:, p) + 2, stat, errmsg)
            if (.not. wrong .and. with_f .and. associated(patches(p)%f)) wrong = &
               other_shape("f", p, shape(patches(p)%f, int64), extents(:, p), stat, errmsg)
            if (.not. wrong .and. with_r .and. associated(patches(p)%r)) wrong = &
               other_shape("r", p, shape(patches(p)%r, int64), extents(:, p), stat, errmsg)
            if (wrong) return
         end do
      end associate
   end function wrong_patches

   ! Whether there are other numbers of arrays than set_patches was told of patches. Without patches the C side says so.
   function wrong_count(self, name, count, stat, errmsg) result(wrong)
      class(smoother), intent(in) :: self
      character(*), intent(in) :: name
      integer(int64), intent(in) :: count
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      wrong = .false.
      if (present(stat)) stat = RRB_OK
      if (.not. associated(self%context)) return
      if (.not. allocated(self%context%extents)) return
      wrong = count /= size(self%context%extents, 2, int64)
      if (wrong) call report(RRB_ERR_DIMENSION, stat, errmsg, name // " must have " // &
                             decimal(size(self%context%extents, 2, int64)) // " elements, got " // decimal(count))
   end function wrong_count

   function other_shape(name, p, extent, expected, stat, errmsg) result(wrong)
      character(*), intent(in) :: name
      integer, intent(in) :: p
      integer(int64), intent(in) :: extent(3), expected(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      if (present(stat)) stat = RRB_OK
      wrong = any(extent /= expected)
      if (wrong) call report(RRB_ERR_DIMENSION, stat, errmsg, name // " of patch " // decimal(int(p, int64)) // &
                             " must have the shape " // triple(expected) // ", got " // triple(extent))
   end function other_shape

   function triple(n) result(text)
      integer(int64), intent(in) :: n(3)
      character(:), allocatable :: text
      text = "(" // decimal(n(1)) // ", " // decimal(n(2)) // ", " // decimal(n(3)) // ")"
   end function triple

   ! The library's version, as in "0.1.0".
   function rrbsolver_version() result(text)
      character(:), allocatable :: text
      text = to_fortran(c_rrbsolver_version())
   end function rrbsolver_version

   ! What a status means, in a few words.
   function rrbsolver_status_string(status) result(text)
      integer, intent(in) :: status
      character(:), allocatable :: text
      text = to_fortran(c_rrbsolver_status_string(int(status, c_int32_t)))
   end function rrbsolver_status_string

   ! Number of usable CUDA devices; 0 without a driver.
   function rrbsolver_cuda_device_count() result(count)
      integer :: count
      integer(c_int32_t) :: devices, status
      devices = 0
      status = c_rrbsolver_cuda_device_count(devices)
      count = merge(int(devices), 0, status >= 0)
   end function rrbsolver_cuda_device_count

   ! Whether an array that the C side takes by address alone has another shape than (ld, ny).
   function wrong_shape(self, name, extent, stat, errmsg) result(wrong)
      class(rrb_solver), intent(in) :: self
      character(*), intent(in) :: name
      integer(int64), intent(in) :: extent(2)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      logical :: wrong
      integer(c_int64_t) :: ld
      integer(c_int32_t) :: status
      wrong = .false.
      if (present(stat)) stat = RRB_OK
      ld = 0
      status = c_rrb_get_int(self%handle, RRB_OPT_LEADING_DIMENSION, ld)
      ! A solver that was not created is the C side's to report.
      if (status < 0) return
      wrong = differs(name, extent, [max(ld, self%nx), self%ny], stat, errmsg)
   end function wrong_shape

end module rrbsolver
