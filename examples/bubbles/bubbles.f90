! Simulates gas bubbles that rise in a liquid, merge and burst. Each time step solves one singular pressure system.
program bubbles
   use, intrinsic :: iso_c_binding, only: c_int32_t
   use, intrinsic :: iso_fortran_env, only: output_unit
   use bubble_labels, only: bubble, label_bubbles, measure_bubbles
   use bubbles_case, only: start_at_rest
   use command_line, only: read_command_line, settings
   use grid_fields, only: flow
   use host, only: dp, fixed, give_up, scientific, seconds, text
   use interface_shape, only: by_height, by_mean, by_smoothing
   use output, only: output_file, prepare_folder, write_system, write_vti
   use pictures, only: write_interface_view, write_slice
   use pressure, only: pressure_system, setup_pressure, solver_statistics, use_both, use_dpcg, use_iccg
   use time_stepping, only: advance, measure, measures
   implicit none

   real(dp), parameter :: absurd_speed = 1e3_dp      ! m/s: the computation has blown up
   type(settings) :: set
   type(flow) :: f
   type(pressure_system) :: system
   type(measures) :: first, now
   type(output_file) :: table, bubble_table
   integer(c_int32_t), allocatable :: labels(:, :, :)
   type(bubble), allocatable :: found(:)
   real(dp), allocatable :: guess(:, :, :)
   real(dp) :: start, loop_seconds, next_line
   integer :: bubble_count

   call read_command_line(set)
   call start_at_rest(set%of, f)
   call setup_pressure(system, f%g%n, set%solver, set%rel_tol, set%guess, set%dpcg_options)
   call prepare_folder(set%output_folder)
   first = measure(f)
   call print_head()
   call start_tables()

   start = seconds()
   next_line = set%table_interval
   do while (f%time < set%of%end_time .and. f%step < set%steps)
      if (set%regions) call label_bubbles(f%g, f%c, system%regions, bubble_count)
      if (set%system_step == f%step + 1) guess = system%p
      call advance(f, system, set%of%end_time)
      now = measure(f)
      if (.not. now%speed < absurd_speed) &
         call give_up('the flow blew up at step '//text(f%step)//', t = '//fixed(f%time, 4)//' s')
      if (set%system_step == f%step) &
         call write_system(set%output_folder//'/system.bin', set%of%name, system%a, system%b, guess)
      if (f%time >= next_line .or. f%time >= set%of%end_time) then
         call write_lines()
         next_line = set%table_interval*(1 + int(f%time/set%table_interval))
      end if
      if (set%write_interval > 0) then
         if (mod(f%step, set%write_interval) == 0) call write_fields('_'//six_digits(f%step))
      end if
   end do
   loop_seconds = seconds() - start

   call table%finish()
   call bubble_table%finish()
   call write_fields('')
   call print_solvers()
   call write_solvers()
   call system%dpcg%destroy()      ! what a main program holds is not finalized at its end

contains

   subroutine print_head()
      write (output_unit, '(a)') &
         'case      '//set%of%name//', '//text(f%g%n(1))//' x '//text(f%g%n(2))//' x '//text(f%g%n(3))//' cells of ' &
         //fixed(f%g%h, 5)//' m', &
         'fluids    rho '//text(nint(f%of%rho_liquid))//' / '//text(nint(f%of%rho_gas))//' kg/m3, mu ' &
         //fixed(f%of%mu_liquid, 2)//' / '//fixed(f%of%mu_gas, 2)//' Pa s (' &
         //trim(merge('harmonic  ', 'arithmetic', f%of%harmonic))//' means), sigma '//fixed(f%of%sigma, 2)//' N/m', &
         'gas       '//scientific(first%volume, 5)//trim(merge(' m2', ' m3', f%g%directions == 2)), &
         '', &
         '      t   step       dt  V/V0-1       z    rise   shape   max div max |u|  iccg  dpcg residual bubbles  '// &
         'height   mean smooth'
   end subroutine print_head

   subroutine start_tables()
      call table%start(set%output_folder//'/table.csv')
      call table%line('t,step,dt,volume_change,z,rise,shape,max_div,max_speed,iterations_iccg,iterations_dpcg,' &
                      //'residual,bubbles,cells_by_height,cells_by_mean,cells_by_smoothing')
      call bubble_table%start(set%output_folder//'/bubbles.csv')
      call bubble_table%line('t,label,volume,x,y,z,u,v,w,at_top')
   end subroutine start_tables

   subroutine write_lines()
      integer :: kinds(3), n
      call label_bubbles(f%g, f%c, labels, bubble_count)
      call measure_bubbles(f, labels, bubble_count, found)
      kinds = [count(f%kind == by_height), count(f%kind == by_mean), count(f%kind == by_smoothing)]
      write (output_unit, '(f7.4, i7, 2es9.1, 3f8.4, es10.1, f8.3, 2i6, es9.1, i8, i8, 2i7)') &
         f%time, f%step, f%dt, now%volume/first%volume - 1, now%height, now%rise, now%roundness/first%roundness, &
         now%divergence, now%speed, system%of_iccg%last_iterations, system%of_dpcg%last_iterations, system%residual, &
         bubble_count, kinds
      flush (output_unit)
      call table%line(fixed(f%time, 6)//','//text(f%step)//','//scientific(f%dt, 6)//',' &
                      //scientific(now%volume/first%volume - 1, 3)//','//fixed(now%height, 6)//',' &
                      //fixed(now%rise, 6)//','//fixed(now%roundness/first%roundness, 6)//',' &
                      //scientific(now%divergence, 6)//','//fixed(now%speed, 6)//',' &
                      //text(system%of_iccg%last_iterations)//','//text(system%of_dpcg%last_iterations)//',' &
                      //scientific(system%residual, 3)//','//text(bubble_count)//',' &
                      //text(kinds(1))//','//text(kinds(2))//','//text(kinds(3)))
      do n = 1, bubble_count
         call bubble_table%line(fixed(f%time, 6)//','//text(n - 1)//','//scientific(found(n)%volume, 6)//',' &
                                //three(found(n)%center)//','//three(found(n)%velocity)//',' &
                                //trim(merge('1', '0', found(n)%at_top)))
      end do
   end subroutine write_lines

   function three(values) result(words)
      real(dp), intent(in) :: values(3)
      character(:), allocatable :: words
      words = fixed(values(1), 6)//','//fixed(values(2), 6)//','//fixed(values(3), 6)
   end function three

   subroutine write_fields(suffix)
      character(*), intent(in) :: suffix
      call write_vti(set%output_folder//'/flow'//suffix//'.vti', f, system%p)
      call write_slice(set%output_folder//'/slice'//suffix//'.ppm', f, system%p, set%slice)
      if (f%g%directions == 3) call write_interface_view(set%output_folder//'/interface'//suffix//'.ppm', f%g, f%c)
   end subroutine write_fields

   function six_digits(k) result(word)
      integer, intent(in) :: k
      character(:), allocatable :: word
      word = text(k)
      word = repeat('0', max(0, 6 - len(word)))//word
   end function six_digits

   subroutine print_solvers()
      write (output_unit, '(a)') '', 'solver   steps   first iterations    mean     max   ms/step   seconds   of all'
      if (set%solver /= use_dpcg) call print_row('ICCG(0)', system%of_iccg)
      if (set%solver /= use_iccg) call print_row('DPCG', system%of_dpcg)
      if (set%solver == use_both) write (output_unit, '(a, es8.1)') &
         'largest difference of the two pressures, relative to max |p|:', system%largest_difference
      write (output_unit, '(a)') 'files: '//set%output_folder//'/'
   end subroutine print_solvers

   ! The last column is the share of the pressure solver in the time of a run that uses only this solver.
   subroutine print_row(name, s)
      character(*), intent(in) :: name
      type(solver_statistics), intent(in) :: s
      write (output_unit, '(a, t8, i7, i19, f8.1, i8, f10.2, f10.2, i7, a)') name, s%solves, s%first_iterations, &
         s%iterations/s%solves, s%most_iterations, 1e3_dp*s%solve_seconds/s%solves, s%solve_seconds, &
         nint(100*s%solve_seconds/(other_seconds() + s%solve_seconds)), ' %'
   end subroutine print_row

   ! Seconds of the time loop outside the pressure solvers.
   real(dp) function other_seconds()
      other_seconds = loop_seconds - system%of_iccg%solve_seconds - system%of_dpcg%solve_seconds
   end function other_seconds

   subroutine write_solvers()
      type(output_file) :: file
      call file%start(set%output_folder//'/solvers.csv')
      call file%line('solver,case,nx,ny,nz,steps,end_time,iterations_first,iterations_mean,iterations_max,' &
                     //'ms_per_step,seconds_of_all_else')
      if (set%solver /= use_dpcg) call file%line('iccg,'//csv_row(system%of_iccg))
      if (set%solver /= use_iccg) call file%line('dpcg,'//csv_row(system%of_dpcg))
      call file%finish()
   end subroutine write_solvers

   function csv_row(s) result(row)
      type(solver_statistics), intent(in) :: s
      character(:), allocatable :: row
      row = set%of%name//','//text(f%g%n(1))//','//text(f%g%n(2))//','//text(f%g%n(3))//','//text(s%solves)//',' &
            //fixed(f%time, 6)//','//text(s%first_iterations)//','//fixed(s%iterations/s%solves, 1)//',' &
            //text(s%most_iterations)//','//fixed(1e3_dp*s%solve_seconds/s%solves, 3)//',' &
            //fixed(other_seconds(), 3)
   end function csv_row

end program bubbles
