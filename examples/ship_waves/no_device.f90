! The functions of waves_on_device.cu for a program that was built without nvcc: no device can be opened.
module no_device
   use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_int64_t
   implicit none
   private

contains

   subroutine message(size, text) bind(c, name='ship_waves_message')
      integer(c_int64_t), value :: size
      character(kind=c_char), intent(out) :: text(size)
      character(*), parameter :: cause = 'this program was built without nvcc: build it with CUDA 13.0, see the guide'
      integer :: k
      text = ' '
      do k = 1, len(cause)
         text(k) = cause(k:k)
      end do
   end subroutine message

   integer(c_int32_t) function open() bind(c, name='ship_waves_open')
      open = 0
   end function open

   ! The program calls the other functions only if a device is open.

   subroutine use_sponge() bind(c, name='ship_waves_use_sponge')
   end subroutine use_sponge

   subroutine use_current() bind(c, name='ship_waves_use_current')
   end subroutine use_current

   subroutine place() bind(c, name='ship_waves_place')
   end subroutine place

   subroutine before_solve() bind(c, name='ship_waves_before_solve')
   end subroutine before_solve

   subroutine wait() bind(c, name='ship_waves_wait')
   end subroutine wait

   subroutine after_solve() bind(c, name='ship_waves_after_solve')
   end subroutine after_solve

   subroutine highest() bind(c, name='ship_waves_highest')
   end subroutine highest

   subroutine remember() bind(c, name='ship_waves_remember')
   end subroutine remember

   subroutine energy() bind(c, name='ship_waves_energy')
   end subroutine energy

   subroutine frame() bind(c, name='ship_waves_frame')
   end subroutine frame

   subroutine fetch() bind(c, name='ship_waves_fetch')
   end subroutine fetch

   subroutine store() bind(c, name='ship_waves_store')
   end subroutine store

   subroutine close() bind(c, name='ship_waves_close')
   end subroutine close

end module no_device
