! Writes fields for ParaView (.vti), tables (.csv), and one pressure system for other programs. Each file is written
! under a temporary name and renamed when it is complete.
module output
   use, intrinsic :: iso_fortran_env, only: int32, int64, real32
   use grid_fields, only: flow
   use host, only: delete_file, dp, make_folder, refuse, rename_file, scientific, text
   use iccg_solver, only: matrix
   implicit none
   private
   public :: output_file, prepare_folder, write_vti, write_system

   ! A file: call start, then put for each part, then finish. finish reports failures of all parts and deletes the
   ! incomplete file. It also checks the length of the file, because not every Fortran library reports a full disk.
   type :: output_file
      private
      integer :: unit = -1, status = 0
      integer(int64) :: length = 0
      character(:), allocatable :: name
   contains
      procedure :: start
      procedure, private :: put_line, put_bytes, put_reals, put_doubles, put_whole, put_long
      generic :: put => put_reals, put_doubles, put_whole, put_long
      procedure :: line => put_line
      procedure :: bytes => put_bytes
      procedure :: finish
   end type output_file

contains

   subroutine start(file, name)
      class(output_file), intent(inout) :: file
      character(*), intent(in) :: name
      file%name = name
      file%length = 0
      open (newunit=file%unit, file=name//'.part', status='replace', action='write', access='stream', &
            form='unformatted', iostat=file%status)
   end subroutine start

   subroutine put_line(file, line)
      class(output_file), intent(inout) :: file
      character(*), intent(in) :: line
      call file%bytes(line//new_line(line))
      if (file%status == 0) flush (file%unit, iostat=file%status)
   end subroutine put_line

   subroutine put_bytes(file, bytes)
      class(output_file), intent(inout) :: file
      character(*), intent(in) :: bytes
      if (file%status == 0) write (file%unit, iostat=file%status) bytes
      file%length = file%length + len(bytes, int64)
   end subroutine put_bytes

   subroutine put_reals(file, values)
      class(output_file), intent(inout) :: file
      real(real32), intent(in) :: values(:)
      if (file%status == 0) write (file%unit, iostat=file%status) values
      file%length = file%length + 4*size(values, kind=int64)
   end subroutine put_reals

   subroutine put_doubles(file, values)
      class(output_file), intent(inout) :: file
      real(dp), intent(in) :: values(:)
      if (file%status == 0) write (file%unit, iostat=file%status) values
      file%length = file%length + 8*size(values, kind=int64)
   end subroutine put_doubles

   subroutine put_whole(file, values)
      class(output_file), intent(inout) :: file
      integer(int32), intent(in) :: values(:)
      if (file%status == 0) write (file%unit, iostat=file%status) values
      file%length = file%length + 4*size(values, kind=int64)
   end subroutine put_whole

   subroutine put_long(file, value)
      class(output_file), intent(inout) :: file
      integer(int64), intent(in) :: value
      if (file%status == 0) write (file%unit, iostat=file%status) value
      file%length = file%length + 8
   end subroutine put_long

   subroutine finish(file)
      class(output_file), intent(inout) :: file
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

   ! Creates the folder and checks that files can be written there, before the computation starts.
   subroutine prepare_folder(folder)
      character(*), intent(in) :: folder
      integer :: unit, status
      call make_folder(folder)
      open (newunit=unit, file=folder//'/probe.part', status='replace', action='write', iostat=status)
      if (status /= 0) call refuse('cannot write into the output folder "'//folder//'"')
      close (unit, status='delete')
   end subroutine prepare_folder

   ! Writes VTK image data: gas fraction, pressure [Pa] and velocity [m/s] of each cell as 32-bit floats, after the
   ! header.
   subroutine write_vti(name, f, p)
      character(*), intent(in) :: name
      type(flow), intent(in) :: f
      real(dp), intent(in) :: p(:, :, :)
      type(output_file) :: file
      character(:), allocatable :: extent, spacing
      integer(int64) :: array
      integer :: n(3), j, k
      n = f%g%n
      array = 8 + 4*product(int(n, int64))
      extent = '0 '//text(n(1))//' 0 '//text(n(2))//' 0 '//text(n(3))
      spacing = scientific(f%g%h, 16)
      spacing = spacing//' '//spacing//' '//spacing
      call file%start(name)
      call file%line('<?xml version="1.0"?>')
      call file%line('<VTKFile type="ImageData" version="1.0" byte_order="'//byte_order()//'" header_type="UInt64">')
      call file%line('<ImageData WholeExtent="'//extent//'" Origin="0 0 0" Spacing="'//spacing//'">')
      call file%line('<FieldData>')
      call file%line('<DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">' &
                     //scientific(f%time, 16)//'</DataArray>')
      call file%line('</FieldData>')
      call file%line('<Piece Extent="'//extent//'">')
      call file%line('<CellData Scalars="c" Vectors="velocity">')
      call file%line('<DataArray type="Float32" Name="c" format="appended" offset="0"/>')
      call file%line('<DataArray type="Float32" Name="p" format="appended" offset="'//text(array)//'"/>')
      call file%line('<DataArray type="Float32" Name="velocity" NumberOfComponents="3" format="appended" offset="' &
                     //text(2*array)//'"/>')
      call file%line('</CellData>')
      call file%line('</Piece>')
      call file%line('</ImageData>')
      call file%line('<AppendedData encoding="raw">')
      call file%bytes('_')
      call file%put(array - 8)
      do k = 1, n(3)
         do j = 1, n(2)
            call file%put(real(f%c(1:n(1), j, k), real32))
         end do
      end do
      call file%put(array - 8)
      do k = 1, n(3)
         do j = 1, n(2)
            call file%put(real(p(:, j, k), real32))
         end do
      end do
      call put_velocity(file, f)
      call file%line('')
      call file%line('</AppendedData>')
      call file%line('</VTKFile>')
      call file%finish()
   end subroutine write_vti

   ! Writes the velocity at the cell centres, three components per cell.
   subroutine put_velocity(file, f)
      type(output_file), intent(inout) :: file
      type(flow), intent(in) :: f
      real(real32) :: row(3, f%g%n(1))
      integer :: i, j, k
      call file%put(12*product(int(f%g%n, int64)))
      do k = 1, f%g%n(3)
         do j = 1, f%g%n(2)
            do i = 1, f%g%n(1)
               row(1, i) = real(f%u(i - 1, j, k, 1) + f%u(i, j, k, 1), real32)/2
               row(2, i) = real(f%u(i, j - 1, k, 2) + f%u(i, j, k, 2), real32)/2
               row(3, i) = real(f%u(i, j, k - 1, 3) + f%u(i, j, k, 3), real32)/2
            end do
            call file%put(reshape(row, [size(row)]))
         end do
      end do
   end subroutine put_velocity

   pure function byte_order() result(name)
      character(:), allocatable :: name
      character(1) :: c(4)
      c = transfer(1_int32, c)
      name = trim(merge('LittleEndian', 'BigEndian   ', iachar(c(1)) == 1))
   end function byte_order

   ! Writes a system with its initial guess. File format: "STENCIL1"; int32 dimension, nx, ny, nz, 1 (constants are in
   ! the null space), 0; a name of 16 characters; float64 arrays center, east, north, top, b and guess, x fastest.
   subroutine write_system(name, title, a, b, guess)
      character(*), intent(in) :: name, title
      type(matrix), intent(in) :: a
      real(dp), intent(in) :: b(:, :, :), guess(:, :, :)
      type(output_file) :: file
      character(16) :: padded
      padded = title
      padded(len_trim(padded) + 1:) = repeat(achar(0), 16)
      call file%start(name)
      call file%bytes('STENCIL1')
      call file%put([3, a%nx, a%ny, a%nz, 1, 0])
      call file%bytes(padded)
      call put_field(file, a%center)
      call put_field(file, a%east)
      call put_field(file, a%north)
      call put_field(file, a%top)
      call put_field(file, b)
      call put_field(file, guess)
      call file%finish()
   end subroutine write_system

   subroutine put_field(file, field)
      type(output_file), intent(inout) :: file
      real(dp), intent(in) :: field(:, :, :)
      integer :: j, k
      do k = 1, size(field, 3)
         do j = 1, size(field, 2)
            call file%put(field(:, j, k))
         end do
      end do
   end subroutine put_field

end module output
