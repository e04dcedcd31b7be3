! Linear variational Boussinesq model in space: coefficients, matrix, operators.
! Cell-centred finite volumes; a face between two wet cells carries the ARITHMETIC mean of their coefficients, every
! other face 0 (a reflecting wall). One kind of mean for h, hD and N keeps the kinetic energy positive.
module boussinesq
   use host, only: dp, gravity
   use wet_runs, only: find_runs, run
   implicit none
   private
   public :: profile_parabola, profile_cosh, profile_integrals, characteristic_wave_number, frequency_squared
   public :: wave_model, build_model, largest_frequency

   integer, parameter :: profile_parabola = 1, profile_cosh = 2

   ! All arrays are (nx, ny). Face arrays of S: east(i, j) between (i, j) and (i+1, j), north(i, j) between (i, j) and
   ! (i, j+1).
   type :: wave_model
      integer :: nx = 0, ny = 0
      integer :: unknowns = 0                                 ! wet cells
      real(dp) :: dx = 0, dy = 0, area = 0
      logical, allocatable :: wet(:, :)
      type(run), allocatable :: runs(:)                       ! of wet cells
      real(dp) :: weight(2) = 0                               ! w_f: dy/dx on east faces, dx/dy on north faces
      real(dp), allocatable :: h(:, :)                        ! depth, 0 on land [m]
      real(dp), allocatable :: hd(:, :)                       ! hD, 0 on land [m^2]
      real(dp), allocatable :: center(:, :), east(:, :), north(:, :)  ! S = L_N + diag(A M); land: 1 on the diagonal
      real(dp) :: omega_max = 0                               ! largest frequency of the discrete model [1/s]
   end type wave_model

contains

   ! hD = -int f dz, M = int f'^2 dz, N = int f^2 dz over the depth, for f = z + z^2/(2h) or
   ! f = (cosh k0(z+h) - cosh k0 h) / (k0 sinh k0 h), both with f(0) = 0, f'(-h) = 0, f'(0) = 1.
   pure elemental subroutine profile_integrals(profile, h, k0, hd, m, n)
      integer, intent(in) :: profile
      real(dp), intent(in) :: h, k0
      real(dp), intent(out) :: hd, m, n
      ! coth q = 1/q + sum c(k) q^(2k-1): the closed forms cancel for small q = k0 h.
      real(dp), parameter :: c(6) = [1/3.0_dp, -1/45.0_dp, 2/945.0_dp, -1/4725.0_dp, 2/93555.0_dp, -1382/638512875.0_dp]
      real(dp) :: q, s, coth, csch2
      q = k0*h
      if (profile == profile_parabola) then
         hd = h**2/3
         m = h/3
         n = 2*h**3/15
      else if (q < 0.2_dp) then
         s = q**2
         hd = h**2*(c(1) + s*(c(2) + s*(c(3) + s*(c(4) + s*c(5)))))
         m = h*(c(1) + s*(2*c(2) + s*(3*c(3) + s*(4*c(4) + s*5*c(5)))))
         n = -h**3*(6*c(2) + s*(9*c(3) + s*(12*c(4) + s*(15*c(5) + s*18*c(6)))))
      else
         ! Written with coth and 1/sinh^2: nothing overflows in deep water.
         coth = 1/tanh(q)
         csch2 = (coth - 1)*(coth + 1)
         hd = h**2*(q*coth - 1)/q**2
         m = h*(coth - q*csch2)/(2*q)
         n = h**3*(1 + 1.5_dp*(csch2 - coth/q))/q**2
      end if
   end subroutine profile_integrals

   ! k0 > 0 with s^2 = g k0 tanh(k0 h): the cosh profile is exact at this wave number. Newton on q tanh q = s^2 h/g,
   ! from the deep-water value or the shallow-water one.
   pure elemental real(dp) function characteristic_wave_number(s, h) result(k0)
      real(dp), intent(in) :: s, h
      real(dp) :: a, q, step
      integer :: iteration
      a = s**2*h/gravity
      q = max(a, sqrt(a))
      do iteration = 1, 50
         step = (q*tanh(q) - a)/(tanh(q) + q*(1 - tanh(q)**2))
         q = q - step
         if (abs(step) <= 1e-14_dp*q) exit
      end do
      k0 = q/h
   end function characteristic_wave_number

   ! Dispersion relation omega^2 = g k^2 (h - (hD)^2 k^2/(M + N k^2)).
   pure elemental real(dp) function frequency_squared(h, hd, m, n, k_squared)
      real(dp), intent(in) :: h, hd, m, n, k_squared
      frequency_squared = gravity*k_squared*(h - hd**2*k_squared/(m + n*k_squared))
   end function frequency_squared

   ! omega_max over the wet cells at the shortest wave of the grid, K^2 = 4/dx^2 + 4/dy^2. Leapfrog is stable iff
   ! dt omega_max < 2.
   pure real(dp) function largest_frequency(wet, h, hd, m, n, dx, dy)
      logical, intent(in) :: wet(:, :)
      real(dp), intent(in) :: h(:, :), hd(:, :), m(:, :), n(:, :), dx, dy
      real(dp) :: k_squared, largest
      integer :: i, j
      k_squared = 4/dx**2 + 4/dy**2
      largest = 0
      do j = 1, size(h, 2)
         do i = 1, size(h, 1)
            if (wet(i, j)) largest = max(largest, frequency_squared(h(i, j), hd(i, j), m(i, j), n(i, j), k_squared))
         end do
      end do
      largest_frequency = sqrt(largest)
   end function largest_frequency

   ! frequency: the characteristic frequency of the cosh profile [1/s], unused by the parabola.
   subroutine build_model(depth, dx, dy, h_min, profile, frequency, model)
      real(dp), intent(in) :: depth(:, :), dx, dy, h_min, frequency
      integer, intent(in) :: profile
      type(wave_model), intent(out) :: model
      real(dp), allocatable :: m(:, :), n(:, :)
      real(dp) :: k0
      integer :: i, j, nx, ny

      nx = size(depth, 1)
      ny = size(depth, 2)
      model%nx = nx
      model%ny = ny
      model%dx = dx
      model%dy = dy
      model%area = dx*dy
      model%wet = depth >= h_min
      model%unknowns = count(model%wet)
      model%runs = find_runs(model%wet)
      model%weight = [dy/dx, dx/dy]
      allocate (m(nx, ny), n(nx, ny), source=0.0_dp)
      allocate (model%h(nx, ny), model%hd(nx, ny), source=0.0_dp)
      do j = 1, ny
         do i = 1, nx
            if (.not. model%wet(i, j)) cycle
            model%h(i, j) = depth(i, j)
            k0 = 0
            if (profile == profile_cosh) k0 = characteristic_wave_number(frequency, depth(i, j))
            call profile_integrals(profile, depth(i, j), k0, model%hd(i, j), m(i, j), n(i, j))
         end do
      end do
      model%omega_max = largest_frequency(model%wet, model%h, model%hd, m, n, dx, dy)

      call face_coefficients(model, n, model%east, model%north)

      ! S = L_N + diag(A M): the matrix entry across a face is minus its coefficient.
      allocate (model%center(nx, ny))
      do j = 1, ny
         do i = 1, nx
            if (model%wet(i, j)) then
               model%center(i, j) = model%area*m(i, j) + model%east(i, j) + model%north(i, j)
               if (i > 1) model%center(i, j) = model%center(i, j) + model%east(i - 1, j)
               if (j > 1) model%center(i, j) = model%center(i, j) + model%north(i, j - 1)
            else
               model%center(i, j) = 1
            end if
         end do
      end do
      model%east = -model%east
      model%north = -model%north
   end subroutine build_model

   ! w_f c_f with w = dy/dx on east faces and dx/dy on north faces; 0 unless both cells are wet.
   subroutine face_coefficients(model, c, c_east, c_north)
      type(wave_model), intent(in) :: model
      real(dp), intent(in) :: c(:, :)
      real(dp), allocatable, intent(out) :: c_east(:, :), c_north(:, :)
      integer :: i, j
      allocate (c_east(model%nx, model%ny), c_north(model%nx, model%ny), source=0.0_dp)
      do j = 1, model%ny
         do i = 1, model%nx
            if (.not. model%wet(i, j)) cycle
            if (i < model%nx) then
               if (model%wet(i + 1, j)) c_east(i, j) = model%weight(1)*(c(i, j) + c(i + 1, j))/2
            end if
            if (j < model%ny) then
               if (model%wet(i, j + 1)) c_north(i, j) = model%weight(2)*(c(i, j) + c(i, j + 1))/2
            end if
         end do
      end do
   end subroutine face_coefficients

end module boussinesq
