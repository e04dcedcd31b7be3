# Warnings, and for -DCMAKE_BUILD_TYPE=Debug every check that gfortran has.
function(add_warnings target)
  set(checks -fcheck=all -fbacktrace -ffpe-trap=invalid,zero,overflow)
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:Fortran>,$<Fortran_COMPILER_ID:GNU>>:-std=f2018;-Wall;-Wextra;-pedantic>
    "$<$<AND:$<COMPILE_LANGUAGE:Fortran>,$<Fortran_COMPILER_ID:GNU>,$<CONFIG:Debug>>:${checks}>"
    $<$<AND:$<COMPILE_LANGUAGE:C>,$<C_COMPILER_ID:GNU,Clang>>:-Wall;-Wextra;-pedantic>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU,Clang>>:-Wall;-Wextra;-pedantic>)
endfunction()
