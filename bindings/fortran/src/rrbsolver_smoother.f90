! Family smoother_: block relaxation on 3D patches with a constant stencil.
module rrbsolver_smoother_handle
   use rrbsolver_smoother_c
   include "rrbsolver_handle.inc"
end module rrbsolver_smoother_handle

module rrbsolver_smoother
   use, intrinsic :: iso_c_binding, only: c_double, c_f_pointer, c_funloc, c_int32_t, c_int64_t, c_loc, c_null_funptr, &
                                          c_null_ptr, c_ptr
   use, intrinsic :: iso_fortran_env, only: int32, int64
   use rrbsolver_constants
   use rrbsolver_base, only: report, differs, decimal
   use rrbsolver_smoother_c
   use rrbsolver_smoother_handle, only: handle_base
   implicit none
   private

   public :: smoother, smoother_patch, smoother_ghost_fill

   ! The arrays of one patch: u(0:nx+1, 0:ny+1, 0:nz+1) with one layer of ghost cells (other lower bounds are allowed),
   ! f(nx, ny, nz), and r(nx, ny, nz) if the residual is needed.
   type :: smoother_patch
      real(c_double), pointer, contiguous :: u(:, :, :) => null()
      real(c_double), pointer, contiguous :: f(:, :, :) => null()
      real(c_double), pointer, contiguous :: r(:, :, :) => null()
   end type smoother_patch

   abstract interface
      ! Fills the ghost cells that no patch covers. It is called before each sweep with the number of the sweep, from 0,
      ! and with u of all patches, u(0:nx+1, 0:ny+1, 0:nz+1). The number is -1 where a residual is computed. The result
      ! .true. stops the call with RRB_STOPPED.
      function smoother_ghost_fill(sweep, patches) result(stop_now)
         import :: smoother_patch
         integer, intent(in) :: sweep
         type(smoother_patch), intent(inout) :: patches(:)
         logical :: stop_now
      end function smoother_ghost_fill
   end interface

   ! The user pointer of the C callback: the address of such an object.
   type :: ghost_context
      procedure(smoother_ghost_fill), pointer, nopass :: fill => null()
      integer(int64), allocatable :: extents(:, :)
   end type ghost_context

   ! A block smoother. It inherits set, get, history, set_monitor and set_stream from rrbsolver_handle.inc. It cannot be
   ! copied by assignment.
   !
   !    type(smoother) :: s
   !    call s%create([6, -1, -1, -1, -1, -1, -1]*1.0_dp, [8, 8, 8])    ! or 27 values: the 3x3x3 cube, x fastest
   !    call s%set_patches(lower, extents)                              ! (3, patches); again after regridding
   !    call s%apply(patches, 3)                                        ! type(smoother_patch) :: patches(:)
   !
   ! For arrays that are not Fortran pointers, such as device memory, apply, exchange, residual, upload and download
   ! also accept tables of addresses, type(c_ptr) :: u(:), with one element per patch.
   type, extends(handle_base) :: smoother
      private
      type(ghost_context), pointer :: context => null()
   contains
      procedure, private :: create_int32, create_int64
      procedure, private :: set_patches_int32, set_patches_int64
      procedure, private :: apply_patches, apply_tables, apply_resident
      procedure, private :: exchange_patches, exchange_tables, exchange_resident
      procedure, private :: residual_patches, norm_tables, residual_tables
      procedure, private :: norm_resident, residual_resident
      procedure, private :: upload_patches, upload_tables
      procedure, private :: download_patches, download_tables
      generic :: create => create_int32, create_int64
      generic :: set_patches => set_patches_int32, set_patches_int64
      generic :: apply => apply_patches, apply_tables, apply_resident
      generic :: exchange => exchange_patches, exchange_tables, exchange_resident
      generic :: residual => residual_patches, norm_tables, residual_tables, norm_resident, residual_resident
      generic :: upload => upload_patches, upload_tables
      generic :: download => download_patches, download_tables
      procedure :: device_pointers
      procedure :: set_ghost_fill
      procedure :: destroy
      final :: finalize
   end type smoother

contains

   ! create(stencil, block [, stat] [, errmsg]): creates a smoother. stencil has 7 values (center, west, east, south,
   ! north, bottom, top) or 27 (the 3x3x3 cube, x fastest). block has the cells of a block in x, y and z, each in [1,
   ! 8]. A previous smoother in self is destroyed.
   subroutine create_int32(self, stencil, block, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: stencil(:)
      integer(int32), intent(in) :: block(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%create_int64(stencil, int(block, int64), stat, errmsg)
   end subroutine create_int32

   subroutine create_int64(self, stencil, block, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), contiguous, intent(in) :: stencil(:)
      integer(int64), intent(in) :: block(3)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      call self%destroy()
      status = c_create(size(stencil, kind=c_int32_t), stencil, block(1), block(2), block(3), self%handle)
      if (status >= 0) allocate (self%context)
      call report(status, stat, errmsg)
   end subroutine create_int64

   subroutine destroy(self)
      class(smoother), intent(inout) :: self
      call self%handle_base%destroy()
      if (associated(self%context)) deallocate (self%context)
      self%context => null()
   end subroutine destroy

   impure elemental subroutine finalize(self)
      type(smoother), intent(inout) :: self
      call self%destroy()
   end subroutine finalize

   ! set_patches(lower, extents [, stat] [, errmsg]): patch p covers the cells lower(:, p) .. lower(:, p) + extents(:,
   ! p) - 1 of the global index space of one level. Block inverses remain.
   subroutine set_patches_int32(self, lower, extents, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer(int32), intent(in) :: lower(:, :), extents(:, :)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call self%set_patches_int64(int(lower, int64), int(extents, int64), stat, errmsg)
   end subroutine set_patches_int32

   subroutine set_patches_int64(self, lower, extents, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer(int64), contiguous, intent(in) :: lower(:, :), extents(:, :)   ! (3, patches)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (differs("lower", shape(lower, int64), [3_int64, size(lower, 2, int64)], stat, errmsg)) return
      if (differs("extents", shape(extents, int64), shape(lower, int64), stat, errmsg)) return
      status = c_set_patches(self%handle, size(lower, 2, c_int64_t), lower, extents)
      if (associated(self%context)) then
         if (allocated(self%context%extents)) deallocate (self%context%extents)
         if (status >= 0) allocate (self%context%extents, source=extents)
      end if
      call report(status, stat, errmsg)
   end subroutine set_patches_int64

   ! apply(patches, sweeps [, stat] [, errmsg]): performs sweeps on u of all patches. stat is RRB_OK, RRB_STOPPED or
   ! negative.
   subroutine apply_patches(self, patches, sweeps, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(in) :: sweeps
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .true., .false., stat, errmsg)) return
      call self%apply_tables(table_of(patches, "u"), table_of(patches, "f"), sweeps, stat, errmsg)
   end subroutine apply_patches

   ! apply(u, f, sweeps [, stat] [, errmsg]): the same with tables of addresses, one element per patch. All arrays are
   ! on the host, or all on the device of a smoother with backend=cuda.
   subroutine apply_tables(self, u, f, sweeps, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:), f(:)
      integer, intent(in) :: sweeps
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      call report(c_apply(self%handle, table_address(u), table_address(f), int(sweeps, c_int32_t)), stat, errmsg)
   end subroutine apply_tables

   ! apply(sweeps [, stat] [, errmsg]): the same on the arrays of upload.
   subroutine apply_resident(self, sweeps, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer, intent(in) :: sweeps
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_apply(self%handle, c_null_ptr, c_null_ptr, int(sweeps, c_int32_t)), stat, errmsg)
   end subroutine apply_resident

   ! exchange([patches] [, stat] [, errmsg]) or exchange(u ...): copies ghost cells of u that another patch covers from
   ! that patch. Without arrays it works on those of upload.
   subroutine exchange_patches(self, patches, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .false., .false., stat, errmsg)) return
      call self%exchange_tables(table_of(patches, "u"), stat, errmsg)
   end subroutine exchange_patches

   subroutine exchange_tables(self, u, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      call report(c_exchange(self%handle, table_address(u)), stat, errmsg)
   end subroutine exchange_tables

   subroutine exchange_resident(self, stat, errmsg)
      class(smoother), intent(inout) :: self
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_exchange(self%handle, c_null_ptr), stat, errmsg)
   end subroutine exchange_resident

   ! residual(patches, norm2 [, stat] [, errmsg]): computes norm2 = ||f - A u||_2 over all patches, after an exchange of
   ! ghost cells. If r of all patches is associated, r = f - A u is stored there.
   subroutine residual_patches(self, patches, norm2, stat, errmsg)
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
         call self%residual_tables(table_of(patches, "u"), table_of(patches, "f"), norm2, table_of(patches, "r"), &
                                            stat, errmsg)
      else
         call self%norm_tables(table_of(patches, "u"), table_of(patches, "f"), norm2, stat, errmsg)
      end if
   end subroutine residual_patches

   ! residual(u, f, norm2 [, r] [, stat] [, errmsg]): the same with tables of addresses.
   subroutine norm_tables(self, u, f, norm2, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:), f(:)
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      call report(c_residual(self%handle, table_address(u), table_address(f), c_null_ptr, norm2), stat, errmsg)
   end subroutine norm_tables

   subroutine residual_tables(self, u, f, norm2, r, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:), f(:), r(:)
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "r", size(r, kind=int64), stat, errmsg)) return
      call report(c_residual(self%handle, table_address(u), table_address(f), table_address(r), norm2), stat, errmsg)
   end subroutine residual_tables

   ! residual(norm2 [, r] [, stat] [, errmsg]): the same on the arrays of upload. r is a table of addresses in the same
   ! memory.
   subroutine norm_resident(self, norm2, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), intent(inout) :: norm2
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      call report(c_residual(self%handle, c_null_ptr, c_null_ptr, c_null_ptr, norm2), stat, errmsg)
   end subroutine norm_resident

   subroutine residual_resident(self, norm2, r, stat, errmsg)
      class(smoother), intent(inout) :: self
      real(c_double), intent(inout) :: norm2
      type(c_ptr), contiguous, target, intent(in) :: r(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "r", size(r, kind=int64), stat, errmsg)) return
      call report(c_residual(self%handle, c_null_ptr, c_null_ptr, table_address(r), norm2), stat, errmsg)
   end subroutine residual_resident

   ! upload(patches [, stat] [, errmsg]): copies u and f into arrays of the library, on the device with backend=cuda. A
   ! second upload replaces the values.
   subroutine upload_patches(self, patches, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .true., .false., stat, errmsg)) return
      call self%upload_tables(table_of(patches, "u"), table_of(patches, "f"), stat, errmsg)
   end subroutine upload_patches

   ! upload([u] [, f] [, stat] [, errmsg]): the same with tables of addresses; an absent argument leaves its array
   ! unchanged.
   subroutine upload_tables(self, u, f, stat, errmsg)
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
      call report(c_upload(self%handle, u_table, f_table), stat, errmsg)
   end subroutine upload_tables

   ! download(patches [, stat] [, errmsg]) or download(u ...): copies u of the library, ghost cells included, to the
   ! caller.
   subroutine download_patches(self, patches, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(smoother_patch), intent(in) :: patches(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_patches(self, patches, .false., .false., stat, errmsg)) return
      call self%download_tables(table_of(patches, "u"), stat, errmsg)
   end subroutine download_patches

   subroutine download_tables(self, u, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(in) :: u(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      call report(c_download(self%handle, table_address(u)), stat, errmsg)
   end subroutine download_tables

   ! device_pointers(u, f [, stat] [, errmsg]): returns the addresses of the arrays of upload, one per patch, for
   ! kernels of the caller. They are on the device with backend=cuda, else on the host. They are valid until the next
   ! set_patches.
   subroutine device_pointers(self, u, f, stat, errmsg)
      class(smoother), intent(inout) :: self
      type(c_ptr), contiguous, target, intent(inout) :: u(:), f(:)
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      if (wrong_count(self, "u", size(u, kind=int64), stat, errmsg)) return
      if (wrong_count(self, "f", size(f, kind=int64), stat, errmsg)) return
      call report(c_device_pointers(self%handle, table_address(u), table_address(f)), stat, errmsg)
   end subroutine device_pointers

   ! set_ghost_fill([fill] [, stat] [, errmsg]): sets the function that fills ghost cells before each sweep, or removes
   ! it. Pass stat and errmsg by keyword if fill is absent: set_ghost_fill(stat=stat).
   subroutine set_ghost_fill(self, fill, stat, errmsg)
      class(smoother), intent(inout) :: self
      procedure(smoother_ghost_fill), optional :: fill
      integer, intent(out), optional :: stat
      character(*), intent(inout), optional :: errmsg
      integer(c_int32_t) :: status
      if (present(fill) .and. associated(self%context)) then
         self%context%fill => fill
         status = c_set_ghost_fill(self%handle, c_funloc(call_ghost_fill), c_loc(self%context))
      else
         status = c_set_ghost_fill(self%handle, c_null_funptr, c_null_ptr)
      end if
      call report(status, stat, errmsg)
   end subroutine set_ghost_fill

   ! Called from C; user is the ghost_context of the smoother, u a table of one pointer per patch.
   function call_ghost_fill(user, sweep, u) result(stop_now) bind(c, name="")
      type(c_ptr), value :: user, u
      integer(c_int32_t), value :: sweep
      integer(c_int32_t) :: stop_now
      type(ghost_context), pointer :: context
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

   ! Returns the addresses of one array of each patch; null where it is not associated.
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

   ! Returns the address of a table; c_loc does not accept an empty one.
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

   ! Returns .true. and reports RRB_ERR_DIMENSION if the patches differ from those of set_patches in number or shape.
   ! The C function reports arrays that are not associated.
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

   ! Returns .true. and reports RRB_ERR_DIMENSION if a table does not have one element per patch. The C function reports
   ! missing patches.
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

end module rrbsolver_smoother
