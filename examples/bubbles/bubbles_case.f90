! The named problems and their initial gas fractions.
!
! case1, case2: rising bubbles of Hysing, Turek, Kuzmin, Parolini, Burman, Ganesan and Tobiska, Int. J. Numer. Meth.
! Fluids 60 (2009) 1259-1288; case1_3d, case2_3d: of Adelsberger, Esser, Griebel, Gross, Klitz and Ruettgers, Proc. WCCM
! XI (2014). The other problems are not from the literature.
module bubbles_case
   use grid_fields, only: flow, fluids, ghosts, grid, make_flow, make_grid, mirror
   use host, only: dp, refuse
   implicit none
   private
   public :: problem, named_problem, set_cells_across, start_at_rest, known_problems

   character(*), parameter :: known_problems = 'case1, case2, case1_3d, case2_3d, nine, swarm, static, static_3d, drop'

   type :: problem
      character(:), allocatable :: name
      real(dp) :: box(3) = 1                       ! [m]
      integer :: n(3) = 0                          ! cells; ny = 1: a plane problem
      type(fluids) :: of
      logical :: slip(3) = .false.
      real(dp) :: end_time = 1                     ! [s]
      real(dp), allocatable :: balls(:, :)         ! x, y, z and radius of each
      logical :: liquid_balls = .false.            ! drops in gas instead of bubbles in liquid
      real(dp) :: gas_above = huge(1.0_dp)         ! z of a free surface
      integer :: random_balls = 0                  ! drawn when the grid is known
      real(dp) :: least_radius = 0, most_radius = 0
   end type problem

contains

   function named_problem(name) result(p)
      character(*), intent(in) :: name
      type(problem) :: p
      p%name = name
      select case (name)
      case ('case1', 'case1_3d')
         p%of = fluids(rho_liquid=1000, rho_gas=100, mu_liquid=10, mu_gas=1, sigma=24.5_dp, gravity=0.98_dp)
      case ('case2', 'case2_3d')
         p%of = fluids(rho_liquid=1000, rho_gas=1, mu_liquid=10, mu_gas=0.1_dp, sigma=1.96_dp, gravity=0.98_dp)
      case ('static', 'static_3d')
         p%of = fluids(rho_liquid=1000, rho_gas=1, mu_liquid=10, mu_gas=0.1_dp, sigma=24.5_dp, gravity=0)
      case ('nine', 'swarm')
         p%of = fluids(rho_liquid=1000, rho_gas=1, mu_liquid=1, mu_gas=0.01_dp, sigma=4, gravity=0.98_dp)
      case ('drop')
         p%of = fluids(rho_liquid=1000, rho_gas=1, mu_liquid=0.1_dp, mu_gas=0.01_dp, sigma=2, gravity=0.98_dp)
      case default
         call refuse('--case must be one of '//known_problems//'; got "'//name//'"')
      end select
      p%of%harmonic = harmonic_means(p%of)
      call set_shape(p)
   end function named_problem

   ! Arithmetic means are more accurate if both fluids have the same kinematic viscosity. If that of the gas is larger,
   ! arithmetic means make the stable time step several times shorter: the viscosity at an edge with one liquid cell
   ! acts on a face with the density of gas.
   pure logical function harmonic_means(of)
      type(fluids), intent(in) :: of
      real(dp), parameter :: larger = 1.01_dp
      harmonic_means = of%mu_gas/of%rho_gas > larger*of%mu_liquid/of%rho_liquid
   end function harmonic_means

   subroutine set_shape(p)
      type(problem), intent(inout) :: p
      integer, parameter :: plane(3) = [40, 1, 80]
      integer :: k
      select case (p%name)
      case ('case1', 'case2')
         call set_box(p, 2.0_dp, plane, end_time=3.0_dp)
         p%slip = [.true., .true., .false.]
         p%balls = reshape([0.5_dp, 0.0_dp, 0.5_dp, 0.25_dp], [4, 1])
      case ('case1_3d', 'case2_3d')
         call set_box(p, 2.0_dp, [32, 32, 64], end_time=3.0_dp)
         p%balls = reshape([0.5_dp, 0.5_dp, 0.5_dp, 0.25_dp], [4, 1])
      case ('nine')
         call set_box(p, 1.0_dp, [32, 32, 32], end_time=1.0_dp)
         allocate (p%balls(4, 9))
         do k = 0, 7
            p%balls(:, k + 1) = [0.25_dp + 0.5_dp*ibits(k, [0, 1, 2], 1), 0.1_dp]
         end do
         p%balls(:, 9) = [0.5_dp, 0.5_dp, 0.5_dp, 0.1_dp]
      case ('swarm')
         call set_box(p, 2.0_dp, [48, 48, 96], end_time=3.0_dp)
         p%gas_above = 1.7_dp
         p%random_balls = 30
         p%least_radius = 0.07_dp
         p%most_radius = 0.1_dp
      case ('static', 'static_3d')
         call set_box(p, 1.0_dp, [32, merge(1, 32, p%name == 'static'), 32], end_time=0.5_dp)
         p%slip = .true.
         p%balls = reshape([0.5_dp, merge(0.0_dp, 0.5_dp, p%name == 'static'), 0.5_dp, 0.25_dp], [4, 1])
      case ('drop')
         call set_box(p, 2.0_dp, plane, end_time=1.2_dp)
         p%slip = [.true., .true., .false.]
         p%balls = reshape([0.5_dp, 0.0_dp, 1.5_dp, 0.15_dp], [4, 1])
         p%liquid_balls = .true.
      end select
   end subroutine set_shape

   subroutine set_box(p, height, n, end_time)
      type(problem), intent(inout) :: p
      real(dp), intent(in) :: height, end_time
      integer, intent(in) :: n(3)
      p%box = [1.0_dp, 1.0_dp, height]
      p%n = n
      p%end_time = end_time
   end subroutine set_box

   ! Changes the number of cells in x; the cells remain cubes.
   subroutine set_cells_across(p, nx)
      type(problem), intent(inout) :: p
      integer, intent(in) :: nx
      logical :: plane
      plane = p%n(2) == 1
      p%n = nint(nx*p%box/p%box(1))
      if (plane) p%n(2) = 1
   end subroutine set_cells_across

   ! Initial state: fluids at rest. In cells near the interface, the gas fraction is the share of sample points in the
   ! gas.
   subroutine start_at_rest(p, f)
      type(problem), intent(inout) :: p
      type(flow), intent(out) :: f
      integer :: i, j, k, samples
      real(dp) :: h
      h = p%box(1)/p%n(1)
      call make_flow(f, make_grid(p%n, h, p%slip), p%of)
      if (p%random_balls > 0) call draw_balls(p, h)
      samples = merge(64, 16, p%n(2) == 1)
      do k = 1, p%n(3)
         do j = 1, p%n(2)
            do i = 1, p%n(1)
               f%c(i, j, k) = cell_fraction(p, ([i, j, k] - 1)*h, h, samples)
            end do
         end do
      end do
      call mirror(f%g, f%c)
      f%c_old = f%c
   end subroutine start_at_rest

   ! Gas fraction of the cell whose corner with the smallest coordinates is `corner`.
   real(dp) function cell_fraction(p, corner, h, samples) result(c)
      type(problem), intent(in) :: p
      real(dp), intent(in) :: corner(3), h
      integer, intent(in) :: samples
      integer :: i, j, k, hits, in_y
      real(dp) :: distance
      distance = gas_depth(p, corner + h/2)
      if (abs(distance) >= h) then
         c = merge(1, 0, distance > 0)
         return
      end if
      in_y = merge(1, samples, p%n(2) == 1)
      hits = 0
      do k = 1, samples
         do j = 1, in_y
            do i = 1, samples
               if (gas_depth(p, corner + h*([i, j, k] - 0.5_dp)/[samples, in_y, samples]) > 0) hits = hits + 1
            end do
         end do
      end do
      c = real(hits, dp)/(samples*in_y*samples)
   end function cell_fraction

   ! Signed distance to the interface, positive in the gas.
   pure real(dp) function gas_depth(p, x) result(depth)
      type(problem), intent(in) :: p
      real(dp), intent(in) :: x(3)
      real(dp) :: away(3)
      integer :: b
      depth = -huge(depth)
      do b = 1, size(p%balls, 2)
         away = x - p%balls(1:3, b)
         if (p%n(2) == 1) away(2) = 0
         depth = max(depth, p%balls(4, b) - norm2(away))
      end do
      if (p%liquid_balls) depth = -depth
      depth = max(depth, x(3) - p%gas_above)
   end function gas_depth

   ! Draws balls at random positions. Their distance from each other, from the walls and from the free surface is at
   ! least two cells. Lehmer's generator gives the same balls on every machine.
   subroutine draw_balls(p, h)
      type(problem), intent(inout) :: p
      real(dp), intent(in) :: h
      real(dp), parameter :: highest = 0.75_dp      ! of the height of the free surface
      integer, parameter :: most_trials = 1000000
      integer :: seed, drawn, trial, b
      real(dp) :: ball(4), box(3), least, most
      logical :: free
      ! The grid cannot represent the shape of a bubble with a diameter of less than five cells.
      least = max(p%least_radius, 2.5_dp*h)
      most = least + p%most_radius - p%least_radius
      seed = 12345
      drawn = 0
      box = p%box
      box(3) = highest*p%gas_above
      allocate (p%balls(4, 0))
      do trial = 1, most_trials
         ball(4) = least + (most - least)*random(seed)
         do b = 1, 3
            ball(b) = box(b)*random(seed)
         end do
         free = all(ball(1:3) >= ball(4) + 2*h .and. ball(1:3) <= box - ball(4) - 2*h)
         do b = 1, drawn
            free = free .and. norm2(ball(1:3) - p%balls(1:3, b)) >= ball(4) + p%balls(4, b) + 2*h
         end do
         if (.not. free) cycle
         p%balls = reshape([p%balls, ball], [4, drawn + 1])
         drawn = drawn + 1
         if (drawn == p%random_balls) return
      end do
      call refuse('the grid is too coarse for the bubbles of "'//p%name//'": give a larger --nx')
   end subroutine draw_balls

   ! Random number, uniform in (0, 1).
   real(dp) function random(seed)
      integer, intent(inout) :: seed
      integer, parameter :: wide = selected_int_kind(18)
      seed = int(mod(16807_wide*seed, 2147483647_wide))
      random = seed/2147483647.0_dp
   end function random

end module bubbles_case
