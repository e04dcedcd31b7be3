! Files: the wave field for ParaView (.vti), convergence histories and the table (.csv). Each is written under a
! temporary name and renamed when it is whole.
module output
   use, intrinsic :: iso_fortran_env, only: int32, int64, real32
   use bathymetry, only: depth_grid
   use host, only: delete_file, dp, give_up, make_folder, refuse, rename_file, text
   implicit none
   private
   public :: prepare_folder, write_vti, write_history, text_file

   type :: text_file
      integer :: unit = -1
      character(:), allocatable :: name
   contains
      procedure :: start
      procedure :: finish
   end type text_file

contains

   subroutine start(file, name)
      class(text_file), intent(inout) :: file
      character(*), intent(in) :: name
      integer :: status
      file%name = name
      open (newunit=file%unit, file=name//'.part', status='replace', action='write', iostat=status)
      if (status /= 0) call give_up('cannot write "'//name//'"')
   end subroutine start

   subroutine finish(file)
      class(text_file), intent(inout) :: file
      integer :: status
      close (file%unit, iostat=status)
      if (status == 0) then
         if (rename_file(file%name//'.part', file%name)) return
      end if
      call delete_file(file%name//'.part')
      call give_up('cannot write "'//file%name//'"')
   end subroutine finish

   ! Makes the folder and proves that files can be written there, before any work is done.
   subroutine prepare_folder(folder)
      character(*), intent(in) :: folder
      integer :: unit, status
      call make_folder(folder)
      open (newunit=unit, file=folder//'/probe.part', status='replace', action='write', iostat=status)
      if (status /= 0) call refuse('cannot write into the output folder "'//folder//'"')
      close (unit, status='delete')
   end subroutine prepare_folder

   ! VTK image data, one value a cell, row by row from the south-west: zeta [m], depth [m] (0 on land) and the ship as its
   ! draft [m]. Values as 32-bit floats in base64, which keeps the file valid XML.
   subroutine write_vti(name, grid, depth, zeta, draft, time)
      character(*), intent(in) :: name
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: depth(:, :), zeta(:, :), draft(:, :), time
      type(text_file) :: file
      character(:), allocatable :: extent
      character(80) :: origin
      call file%start(name)
      extent = '0 '//text(grid%nx)//' 0 '//text(grid%ny)//' 0 0'
      write (origin, '(es24.16, 1x, es24.16, " 0")') grid%x0, grid%y0
      write (file%unit, '(a)') '<?xml version="1.0"?>', &
         '<VTKFile type="ImageData" version="1.0" byte_order="'//byte_order()//'" header_type="UInt64">', &
         '<ImageData WholeExtent="'//extent//'" Origin="'//trim(adjustl(origin))//'" Spacing="' &
         //text(grid%cell)//' '//text(grid%cell)//' 1">', '<FieldData>', &
         '<DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">'//text(time)//'</DataArray>', &
         '</FieldData>', '<Piece Extent="'//extent//'">', '<CellData Scalars="zeta">'
      call write_array(file%unit, 'zeta', zeta)
      call write_array(file%unit, 'depth', depth)
      call write_array(file%unit, 'draft', draft)
      write (file%unit, '(a)') '</CellData>', '</Piece>', '</ImageData>', '</VTKFile>'
      call file%finish()
   end subroutine write_vti

   subroutine write_array(unit, name, values)
      integer, intent(in) :: unit
      character(*), intent(in) :: name
      real(dp), intent(in) :: values(:, :)
      integer(int32), allocatable :: words(:)
      integer(int64) :: bytes
      integer :: j, nx
      nx = size(values, 1)
      bytes = 4*size(values, kind=int64)
      ! A 64-bit byte count, then the numbers, as one base64 text.
      allocate (words(2 + size(values)))
      words(1:2) = transfer(bytes, words(1:2))
      do j = 1, size(values, 2)
         words(3 + (j - 1)*nx:2 + j*nx) = transfer(real(values(:, j), real32), words(1:nx))
      end do
      write (unit, '(a)') '<DataArray type="Float32" Name="'//name//'" format="binary">'
      write (unit, '(a)') base64(words)
      write (unit, '(a)') '</DataArray>'
   end subroutine write_array

   pure function base64(words) result(coded)
      integer(int32), intent(in) :: words(:)
      character(:), allocatable :: coded
      character(64), parameter :: digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
      integer, parameter :: chunk = 3
      integer(int64) :: n, k, at
      integer :: byte(12), m, triple, d
      n = size(words, kind=int64)
      allocate (character(4*((4*n + 2)/3)) :: coded)
      at = 0
      do k = 1, n, chunk
         ! Three words are twelve bytes are sixteen digits.
         byte = 0
         m = int(min(int(chunk, int64), n - k + 1))
         byte(1:4*m) = bytes_of(words(k:k + m - 1))
         do m = 1, (4*m + 2)/3
            triple = ishft(byte(3*m - 2), 16) + ishft(byte(3*m - 1), 8) + byte(3*m)
            do d = 1, 4
               coded(at + d:at + d) = digits(iand(ishft(triple, -6*(4 - d)), 63) + 1:iand(ishft(triple, -6*(4 - d)), 63) + 1)
            end do
            at = at + 4
         end do
      end do
      ! Digits beyond the last byte are padding.
      select case (mod(4*n, 3_int64))
      case (1)
         coded(at - 1:at) = '=='
      case (2)
         coded(at:at) = '='
      end select
   end function base64

   pure function bytes_of(words) result(byte)
      integer(int32), intent(in) :: words(:)
      integer :: byte(4*size(words))
      character(1) :: c(4*size(words))
      c = transfer(words, c)
      byte = iachar(c)
   end function bytes_of

   pure function byte_order() result(name)
      character(:), allocatable :: name
      character(1) :: c(4)
      c = transfer(1_int32, c)
      if (iachar(c(1)) == 1) then
         name = 'LittleEndian'
      else
         name = 'BigEndian'
      end if
   end function byte_order

   subroutine write_history(name, residuals)
      character(*), intent(in) :: name
      real(dp), intent(in) :: residuals(:)
      type(text_file) :: file
      integer :: k
      character(12) :: number
      call file%start(name)
      write (file%unit, '(a)') 'iteration,relative_residual'
      do k = 1, size(residuals)
         write (number, '(es12.6)') residuals(k)
         write (file%unit, '(i0, ",", a)') k - 1, number
      end do
      call file%finish()
   end subroutine write_history

end module output
