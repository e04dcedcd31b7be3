# Warnings, and for -DCMAKE_BUILD_TYPE=Debug every check that gfortran has, but not its notes of array temporaries.
function(add_warnings target)
  set(checks -fcheck=all -fcheck=no-array-temps -fbacktrace -ffpe-trap=invalid,zero,overflow)
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:Fortran>,$<Fortran_COMPILER_ID:GNU>>:-std=f2018;-Wall;-Wextra;-pedantic>
    "$<$<AND:$<COMPILE_LANGUAGE:Fortran>,$<Fortran_COMPILER_ID:GNU>,$<CONFIG:Debug>>:${checks}>")
endfunction()
