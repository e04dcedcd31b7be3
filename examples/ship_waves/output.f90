! Files: the wave field for ParaView (.vti), convergence histories and the table (.csv). Each is written under a
! temporary name and renamed when it is whole.
module output
   use, intrinsic :: iso_fortran_env, only: int32, int64, real32
   use bathymetry, only: depth_grid
   use host, only: delete_file, dp, make_folder, refuse, rename_file, text
   implicit none
   private
   public :: prepare_folder, write_vti, write_history, text_file

   ! start, put line by line, finish. A failure is reported once, at the end, and leaves no file. Its length is checked
   ! against what was written, because not every compiler's library reports a full disk.
   type :: text_file
      private
      integer :: unit = -1, status = 0
      integer(int64) :: length = 0
      character(:), allocatable :: name
   contains
      procedure :: start
      procedure :: put
      procedure :: finish
   end type text_file

contains

   subroutine start(file, name)
      class(text_file), intent(inout) :: file
      character(*), intent(in) :: name
      file%name = name
      open (newunit=file%unit, file=name//'.part', status='replace', action='write', iostat=file%status)
   end subroutine start

   subroutine put(file, line)
      class(text_file), intent(inout) :: file
      character(*), intent(in) :: line
      if (file%status == 0) write (file%unit, '(a)', iostat=file%status) line
      file%length = file%length + len(line, int64) + 1
   end subroutine put

   subroutine finish(file)
      class(text_file), intent(inout) :: file
      integer(int64) :: length
      integer :: status
      close (file%unit, iostat=status)
      inquire (file=file%name//'.part', size=length)
      if (file%status == 0 .and. status == 0 .and. length == file%length) then
         if (rename_file(file%name//'.part', file%name)) return
      end if
      call delete_file(file%name//'.part')
      call refuse('cannot write "'//file%name//'"')
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

   ! VTK image data, one value a cell, row by row from the south-west: zeta [m], depth [m] (0 on land), the ship as its
   ! draft [m], and the current [m/s] if there is one (arguments that are not allocated are absent). Values as 32-bit floats in base64, which keeps the file valid XML.
   subroutine write_vti(name, grid, depth, zeta, draft, time, current_u, current_v)
      character(*), intent(in) :: name
      type(depth_grid), intent(in) :: grid
      real(dp), intent(in) :: depth(:, :), zeta(:, :), draft(:, :), time
      real(dp), optional, intent(in) :: current_u(:, :), current_v(:, :)
      type(text_file) :: file
      character(:), allocatable :: extent
      character(80) :: origin
      call file%start(name)
      extent = '0 '//text(grid%nx)//' 0 '//text(grid%ny)//' 0 0'
      write (origin, '(es24.16, 1x, es24.16, " 0")') grid%x0, grid%y0
      call file%put('<?xml version="1.0"?>')
      call file%put('<VTKFile type="ImageData" version="1.0" byte_order="'//byte_order()//'" header_type="UInt64">')
      call file%put('<ImageData WholeExtent="'//extent//'" Origin="'//trim(adjustl(origin))//'" Spacing="' &
                    //text(grid%cell)//' '//text(grid%cell)//' 1">')
      call file%put('<FieldData>')
      call file%put('<DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">'//text(time)//'</DataArray>')
      call file%put('</FieldData>')
      call file%put('<Piece Extent="'//extent//'">')
      call file%put('<CellData Scalars="zeta">')
      call write_array(file, 'zeta', zeta)
      call write_array(file, 'depth', depth)
      call write_array(file, 'draft', draft)
      if (present(current_u)) call write_array(file, 'current_u', current_u)
      if (present(current_v)) call write_array(file, 'current_v', current_v)
      call file%put('</CellData>')
      call file%put('</Piece>')
      call file%put('</ImageData>')
      call file%put('</VTKFile>')
      call file%finish()
   end subroutine write_vti

   subroutine write_array(file, name, values)
      type(text_file), intent(inout) :: file
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
      call file%put('<DataArray type="Float32" Name="'//name//'" format="binary">')
      call file%put(base64(words))
      call file%put('</DataArray>')
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
      call file%put('iteration,relative_residual')
      do k = 1, size(residuals)
         write (number, '(es12.6)') residuals(k)
         call file%put(text(k - 1)//','//number)
      end do
      call file%finish()
   end subroutine write_history

end module output
