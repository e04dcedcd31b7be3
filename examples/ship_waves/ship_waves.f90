! A ship sails through a harbour: linear variational Boussinesq waves, one linear system per time step.
program ship_waves
   use, intrinsic :: iso_fortran_env, only: output_unit
   use command_line, only: read_command_line, settings
   use host, only: dp, give_up, gravity, output_is_terminal, pi, seconds, text
   use live, only: run_live
   use output, only: prepare_folder, text_file, write_history, write_vti
   use psi_solver, only: solver_statistics, use_both, use_iccg, use_rrb
   use fleet, only: most_ships
   use simulation, only: prepare, simulated
   implicit none

   type(settings) :: set
   type(simulated) :: sim
   real(dp) :: start, loop_seconds, shown
   type(text_file) :: forces
   integer :: n
   logical :: terminal, reported(most_ships) = .false.

   call read_command_line(set)
   call prepare(sim, set)
   if (set%live > 0) then
      call run_live(sim, set%live)
      call sim%finish()
      stop
   end if
   call prepare_folder(set%output_folder)
   call print_head()
   call forces%start(set%output_folder//'/forces.csv')
   call forces%put('time_s,ship,x_m,y_m,heading_deg,speed_m_s,ahead_kN,to_port_kN,moment_kNm')

   terminal = output_is_terminal()
   shown = 0
   start = seconds()
   do n = 1, set%steps
      call sim%place_ships()
      call put_forces()
      call sim%make_step()
      call stop_if_blown_up()
      if (set%write_interval > 0) then
         if (mod(n, set%write_interval) == 0) call write_field('waves_'//six_digits(n)//'.vti')
      end if
      if (terminal) call show_progress()
   end do
   loop_seconds = seconds() - start
   if (terminal) write (output_unit, '(a)', advance='no') achar(13)//repeat(' ', 78)//achar(13)

   call sim%fetch_fields()
   call stop_if_blown_up()
   call forces%finish()
   call write_field('waves.vti')
   if (set%solver /= use_rrb) &
      call write_history(set%output_folder//'/convergence_iccg.csv', sim%system%of_iccg%first_history)
   if (set%solver /= use_iccg) &
      call write_history(set%output_folder//'/convergence_rrb.csv', sim%system%of_rrb%first_history)
   call print_table()
   call write_table()
   call sim%finish()

contains

   subroutine print_head()
      character(:), allocatable :: name, label
      integer :: k
      name = 'embedded harbour'
      if (set%grid_file /= '') name = set%grid_file
      write (output_unit, '(a)') 'grid         '//name//', '//text(sim%grid%nx)//' x '//text(sim%grid%ny)//' cells of ' &
         //text(sim%grid%cell)//' m, '//text(sim%model%unknowns)//' wet, depth up to '//text(maxval(sim%model%h))//' m'
      do k = 1, size(sim%ships)
         associate (s => sim%ships(k))
            label = s%name//repeat(' ', max(1, 13 - len(s%name)))
            write (output_unit, '(a)') label//text(s%hull%length)//' x '//text(s%hull%beam)//' x '//text(s%hull%draft) &
               //' m at '//text(s%hull%speed)//' m/s'
         end associate
      end do
      write (output_unit, '(a)') 'time         '//text(set%steps)//' steps of '//text(sim%state%dt)//' s'
      if (allocated(sim%state%current)) write (output_unit, '(a)') &
         'current      up to '//text(sim%state%current%fastest)//' m/s, reduced at ' &
         //text(sim%state%current%limited)//' faces to 0.9 of the speed of the shortest waves; ' &
         //text(sim%state%current%sweeps)//' sweeps'
   end subroutine print_head

   subroutine stop_if_blown_up()
      if (.not. sim%state%blown_up) return
      call forces%finish()
      call give_up('the waves blew up at step '//text(sim%state%step)//', t = '//text(sim%state%time)//' s')
   end subroutine stop_if_blown_up

   subroutine show_progress()
      character(:), allocatable :: line
      if (seconds() - shown < 0.1_dp) return
      shown = seconds()
      line = 'step '//text(n)//' of '//text(set%steps)//', t = '//text(nint(sim%state%time))//' s, highest wave '
      line = line//text(nint(100*sim%highest_wave()))//' cm, iterations'
      if (set%solver /= use_rrb) line = line//' iccg '//text(sim%system%of_iccg%last_iterations)
      if (set%solver /= use_iccg) line = line//' rrb '//text(sim%system%of_rrb%last_iterations)
      line = line//repeat(' ', max(0, 78 - len(line)))
      write (output_unit, '(a)', advance='no') achar(13)//line
      flush (output_unit)
   end subroutine show_progress

   subroutine write_field(name)
      character(*), intent(in) :: name
      call sim%fetch_fields()
      call write_vti(set%output_folder//'/'//name, sim%grid, sim%model%h, sim%state%zeta, sim%pressure/gravity, sim%state%time, &
                     sim%current_u, sim%current_v)
   end subroutine write_field

   ! The state of each ship at t^n, and the force of the waves on it.
   subroutine put_forces()
      integer :: k
      do k = 1, size(sim%ships)
         associate (s => sim%ships(k))
            call forces%put(text(sim%state%time)//','//s%name//','//text(s%position(1))//','//text(s%position(2))//',' &
               //text(modulo(s%heading, 2*pi)*180/pi)//','//text(s%hull%speed)//','//text(s%force(1)/1e3_dp)//',' &
               //text(s%force(2)/1e3_dp)//','//text(s%force(3)/1e3_dp))
            if (s%aground .and. .not. reported(k)) then
               reported(k) = .true.
               if (terminal) write (output_unit, '(a)', advance='no') achar(13)//repeat(' ', 78)//achar(13)
               write (output_unit, '(a)') s%name//' ran aground at ('//text(s%position(1))//', '//text(s%position(2)) &
                  //'), t = '//text(sim%state%time)//' s'
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

   ! Seconds of all steps without the solves.
   real(dp) function other_seconds()
      other_seconds = loop_seconds - sim%system%of_iccg%solve_seconds - sim%system%of_rrb%solve_seconds
   end function other_seconds

   subroutine print_table()
      character(12) :: unknowns
      write (unknowns, '(i0)') sim%model%unknowns
      write (output_unit, '(a)') ''
      write (output_unit, '(a)') &
         'solver     unknowns   steps   iterations   max   ms/solve   speedup   simulated s per wall s'
      if (set%solver /= use_rrb) call print_row('ICCG(0)', sim%system%of_iccg)
      if (set%solver /= use_iccg) call print_row('RRB', sim%system%of_rrb)
      write (output_unit, '(a)') ''
      if (set%solver == use_both) write (output_unit, '(a, es8.1)') &
         'largest difference of the two solutions, relative to max |psi|:', sim%system%largest_difference
      write (output_unit, '(a, f8.3, a)') 'highest wave:', sim%highest_wave(), ' m'
      write (output_unit, '(a)') 'files: '//set%output_folder//'/'
   end subroutine print_table

   subroutine print_row(name, statistics)
      character(*), intent(in) :: name
      type(solver_statistics), intent(in) :: statistics
      write (output_unit, '(a, t9, i11, i8, f13.1, i6, f11.2, a10, f25.2)') name, sim%model%unknowns, statistics%solves, &
         statistics%iterations/statistics%solves, statistics%most_iterations, &
         1e3_dp*statistics%solve_seconds/statistics%solves, speedup(statistics), &
         sim%state%time/(other_seconds() + statistics%solve_seconds)
   end subroutine print_row

   ! Time of ICCG over the time of this solver, where both ran.
   function speedup(statistics) result(word)
      type(solver_statistics), intent(in) :: statistics
      character(10) :: word
      word = '-'
      if (set%solver == use_both) write (word, '(f10.2)') sim%system%of_iccg%solve_seconds/statistics%solve_seconds
      word = adjustr(word)
   end function speedup

   subroutine write_table()
      type(text_file) :: file
      call file%start(set%output_folder//'/table.csv')
      call file%put('solver,nx,ny,unknowns,dt,steps,iterations_mean,iterations_max,setup_ms,ms_per_solve,' &
                    //'simulated_seconds_per_second,other_ms_per_step')
      if (set%solver /= use_rrb) call file%put('iccg,'//csv_row(sim%system%of_iccg))
      if (set%solver /= use_iccg) call file%put('rrb,'//csv_row(sim%system%of_rrb))
      call file%finish()
   end subroutine write_table

   function csv_row(statistics) result(row)
      type(solver_statistics), intent(in) :: statistics
      character(:), allocatable :: row
      row = text(sim%model%nx)//','//text(sim%model%ny)//','//text(sim%model%unknowns)//','//text(sim%state%dt)//',' &
            //text(statistics%solves)//','//text(statistics%iterations/statistics%solves)//','//text(statistics%most_iterations) &
            //','//text(1e3_dp*statistics%setup_seconds)//','//text(1e3_dp*statistics%solve_seconds/statistics%solves) &
            //','//text(sim%state%time/(other_seconds() + statistics%solve_seconds)) &
            //','//text(1e3_dp*other_seconds()/set%steps)
   end function csv_row

end program ship_waves
