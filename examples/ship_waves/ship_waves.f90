! A ship sails through a harbour: linear variational Boussinesq waves, one pressure-like system a time step.
program ship_waves
   use, intrinsic :: iso_fortran_env, only: output_unit
   use bathymetry, only: depth_grid, read_esri_grid, read_matching_grid, synthetic_harbour
   use boussinesq, only: build_model, profile_cosh, wave_model
   use command_line, only: read_command_line, settings
   use host, only: dp, give_up, gravity, output_is_terminal, pi, refuse, seconds, text
   use output, only: prepare_folder, text_file, write_history, write_vti
   use psi_solver, only: psi_system, setup_psi, solver_statistics, use_both, use_iccg, use_rrb
   use fleet, only: check_fleet, fleet_ship, most_ships, place_fleet, sail
   use fleet_file, only: read_ships
   use ship_pressure, only: longest_straight_track
   use time_stepping, only: advance, safe_time_step, start_at_rest, use_current, use_sponge, wave_state
   implicit none

   type(settings) :: set
   type(depth_grid) :: grid
   type(wave_model) :: model
   type(psi_system) :: system
   type(wave_state) :: state
   real(dp), allocatable :: pressure(:, :), current_u(:, :), current_v(:, :)
   real(dp) :: frequency, dt, start, loop_seconds, shown
   type(fleet_ship), allocatable :: ships(:)
   type(text_file) :: forces
   integer :: n
   logical :: found, terminal, reported(most_ships) = .false.

   call read_command_line(set)
   if (set%grid_file == '') then
      grid = synthetic_harbour()
      if (.not. allocated(set%vessel%track)) set%vessel%track = reshape([2020.0_dp, 1370.0_dp, 1490.0_dp, 990.0_dp, &
                                                                         1240.0_dp, 750.0_dp, 940.0_dp, 580.0_dp], [2, 4])
   else
      grid = read_esri_grid(set%grid_file)
   end if

   if (set%current_u /= '') then
      current_u = read_matching_grid(set%current_u, grid)
      current_v = read_matching_grid(set%current_v, grid)
   end if

   if (set%ships_file == '') then
      ships = [fleet_ship(name='ship', hull=set%vessel)]
   else
      ships = read_ships(set%ships_file)
   end if
   frequency = 0
   if (set%profile == profile_cosh) then
      if (maxval(ships%hull%speed) <= 0) call refuse('--profile cosh needs a ship with a speed above 0')
      frequency = gravity/maxval(ships%hull%speed)
   end if
   if (maxval(grid%depth) < set%h_min) &
      call refuse('no cell of the grid is wet: the largest depth is '//text(maxval(grid%depth))//' m, --h-min is ' &
                  //text(set%h_min)//' m')
   call build_model(grid%depth, grid%cell, grid%cell, set%h_min, set%profile, frequency, model)
   dt = set%dt
   if (dt <= 0) dt = safe_time_step(model)
   if (dt*model%omega_max >= 2) &
      call refuse('dt = '//text(dt)//' s is unstable on this grid: it must be below '//text(2/model%omega_max)//' s')
   if (set%ships_file == '' .and. .not. allocated(set%vessel%track)) then
      call longest_straight_track(ships(1)%hull, grid, set%vessel%speed*dt*set%steps, found)
      if (.not. found) call refuse('no straight line of water is long and deep enough for this ship: give a --track')
   end if
   call check_fleet(ships, grid, set%h_min)
   call setup_psi(system, model, set%solver, set%rel_tol, set%rrb_options)
   call prepare_folder(set%output_folder)

   call start_at_rest(state, model, dt)
   if (allocated(current_u)) call use_current(state, model, current_u, current_v)
   if (set%sponge_cells > 0) call use_sponge(state, model, set%sponge_cells)
   allocate (pressure(model%nx, model%ny), source=0.0_dp)
   call print_head()
   call forces%start(set%output_folder//'/forces.csv')
   call forces%put('time_s,ship,x_m,y_m,heading_deg,speed_m_s,ahead_kN,to_port_kN,moment_kNm')

   terminal = output_is_terminal()
   shown = 0
   start = seconds()
   do n = 1, set%steps
      call place_fleet(ships, grid, model%wet, merge(dt/4, state%time, n == 1), state%zeta, pressure)
      call put_forces()
      call sail(ships, grid, set%h_min, state%time, dt)
      call advance(state, model, system, pressure)
      if (state%blown_up) call give_up('the waves blew up at step '//text(n)//', t = '//text(state%time)//' s')
      if (set%write_interval > 0) then
         if (mod(n, set%write_interval) == 0) call write_field('waves_'//six_digits(n)//'.vti')
      end if
      if (terminal) call show_progress()
   end do
   loop_seconds = seconds() - start
   if (terminal) write (output_unit, '(a)', advance='no') achar(13)//repeat(' ', 78)//achar(13)

   call forces%finish()
   call write_field('waves.vti')
   if (set%solver /= use_rrb) &
      call write_history(set%output_folder//'/convergence_iccg.csv', system%of_iccg%first_history)
   if (set%solver /= use_iccg) &
      call write_history(set%output_folder//'/convergence_rrb.csv', system%of_rrb%first_history)
   call print_table()
   call write_table()
   call system%rrb%destroy()      ! what a main program holds is not finalized at its end

contains

   subroutine print_head()
      character(:), allocatable :: name, label
      integer :: k
      name = 'embedded harbour'
      if (set%grid_file /= '') name = set%grid_file
      write (output_unit, '(a)') 'grid         '//name//', '//text(grid%nx)//' x '//text(grid%ny)//' cells of ' &
         //text(grid%cell)//' m, '//text(model%unknowns)//' wet, depth up to '//text(maxval(model%h))//' m'
      do k = 1, size(ships)
         associate (s => ships(k))
            label = s%name//repeat(' ', max(1, 13 - len(s%name)))
            write (output_unit, '(a)') label//text(s%hull%length)//' x '//text(s%hull%beam)//' x '//text(s%hull%draft) &
               //' m at '//text(s%hull%speed)//' m/s'
         end associate
      end do
      write (output_unit, '(a)') 'time         '//text(set%steps)//' steps of '//text(dt)//' s'
      if (allocated(state%current)) write (output_unit, '(a)') &
         'current      up to '//text(state%current%fastest)//' m/s; '//text(state%current%limited) &
         //' faces limited to 0.9 sqrt(g h/6); '//text(state%current%sweeps)//' sweeps'
   end subroutine print_head

   subroutine show_progress()
      character(:), allocatable :: line
      if (seconds() - shown < 0.1_dp) return
      shown = seconds()
      line = 'step '//text(n)//' of '//text(set%steps)//', t = '//text(nint(state%time))//' s, highest wave '
      line = line//text(nint(100*maxval(abs(state%zeta))))//' cm, iterations'
      if (set%solver /= use_rrb) line = line//' iccg '//text(system%of_iccg%last_iterations)
      if (set%solver /= use_iccg) line = line//' rrb '//text(system%of_rrb%last_iterations)
      line = line//repeat(' ', max(0, 78 - len(line)))
      write (output_unit, '(a)', advance='no') achar(13)//line
      flush (output_unit)
   end subroutine show_progress

   subroutine write_field(name)
      character(*), intent(in) :: name
      call write_vti(set%output_folder//'/'//name, grid, model%h, state%zeta, pressure/gravity, state%time)
   end subroutine write_field

   ! The state of each ship at t^n, and the force of the waves on it.
   subroutine put_forces()
      integer :: k
      do k = 1, size(ships)
         associate (s => ships(k))
            call forces%put(text(state%time)//','//s%name//','//text(s%position(1))//','//text(s%position(2))//',' &
               //text(modulo(s%heading, 2*pi)*180/pi)//','//text(s%hull%speed)//','//text(s%force(1)/1e3_dp)//',' &
               //text(s%force(2)/1e3_dp)//','//text(s%force(3)/1e3_dp))
            if (s%aground .and. .not. reported(k)) then
               reported(k) = .true.
               if (terminal) write (output_unit, '(a)', advance='no') achar(13)//repeat(' ', 78)//achar(13)
               write (output_unit, '(a)') s%name//' ran aground at ('//text(s%position(1))//', '//text(s%position(2)) &
                  //'), t = '//text(state%time)//' s'
            end if
         end associate
      end do
   end subroutine put_forces

   function six_digits(k) result(word)
      integer, intent(in) :: k
      character(:), allocatable :: word
      word = text(k)
      word = repeat('0', max(0, 6 - len(word)))//word
   end function six_digits

   ! Seconds of one step beside the solves.
   real(dp) function other_seconds()
      other_seconds = loop_seconds - system%of_iccg%solve_seconds - system%of_rrb%solve_seconds
   end function other_seconds

   subroutine print_table()
      character(12) :: unknowns
      write (unknowns, '(i0)') model%unknowns
      write (output_unit, '(a)') ''
      write (output_unit, '(a)') &
         'solver     unknowns   steps   iterations   max   ms/solve   speedup   simulated s per wall s'
      if (set%solver /= use_rrb) call print_row('ICCG(0)', system%of_iccg)
      if (set%solver /= use_iccg) call print_row('RRB', system%of_rrb)
      write (output_unit, '(a)') ''
      if (set%solver == use_both) write (output_unit, '(a, es8.1)') &
         'largest difference of the two solutions, relative to max |psi|:', system%largest_difference
      write (output_unit, '(a, f8.3, a)') 'highest wave:', maxval(abs(state%zeta)), ' m'
      write (output_unit, '(a)') 'files: '//set%output_folder//'/'
   end subroutine print_table

   subroutine print_row(name, statistics)
      character(*), intent(in) :: name
      type(solver_statistics), intent(in) :: statistics
      write (output_unit, '(a, t9, i11, i8, f13.1, i6, f11.2, a10, f25.2)') name, model%unknowns, statistics%solves, &
         statistics%iterations/statistics%solves, statistics%most_iterations, &
         1e3_dp*statistics%solve_seconds/statistics%solves, speedup(statistics), &
         state%time/(other_seconds() + statistics%solve_seconds)
   end subroutine print_row

   ! Time of ICCG over the time of this solver, where both ran.
   function speedup(statistics) result(word)
      type(solver_statistics), intent(in) :: statistics
      character(10) :: word
      word = '-'
      if (set%solver == use_both) write (word, '(f10.2)') system%of_iccg%solve_seconds/statistics%solve_seconds
      word = adjustr(word)
   end function speedup

   subroutine write_table()
      type(text_file) :: file
      call file%start(set%output_folder//'/table.csv')
      call file%put('solver,nx,ny,unknowns,dt,steps,iterations_mean,iterations_max,setup_ms,ms_per_solve,' &
                    //'simulated_seconds_per_second,other_ms_per_step')
      if (set%solver /= use_rrb) call file%put('iccg,'//csv_row(system%of_iccg))
      if (set%solver /= use_iccg) call file%put('rrb,'//csv_row(system%of_rrb))
      call file%finish()
   end subroutine write_table

   function csv_row(statistics) result(row)
      type(solver_statistics), intent(in) :: statistics
      character(:), allocatable :: row
      row = text(model%nx)//','//text(model%ny)//','//text(model%unknowns)//','//text(dt)//','//text(statistics%solves) &
            //','//text(statistics%iterations/statistics%solves)//','//text(statistics%most_iterations) &
            //','//text(1e3_dp*statistics%setup_seconds)//','//text(1e3_dp*statistics%solve_seconds/statistics%solves) &
            //','//text(state%time/(other_seconds() + statistics%solve_seconds)) &
            //','//text(1e3_dp*other_seconds()/set%steps)
   end function csv_row

end program ship_waves
