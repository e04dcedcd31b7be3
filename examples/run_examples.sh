#!/bin/sh
# Builds all examples against an installed rrbsolver, runs their tests and compares what they print with expected/.
# usage: run_examples.sh PREFIX [CMAKE_BUILD_TYPE]      (PREFIX: where rrbsolver is installed)
set -eu
[ $# -ge 1 ] || { echo "usage: run_examples.sh PREFIX [CMAKE_BUILD_TYPE]" >&2; exit 2; }
prefix=$(cd "$1" && pwd)
type=${2:-Release}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build="$work/with a space"

cmake -S "$here" -B "$build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE="$type" >"$work/log" 2>&1 \
  && cmake --build "$build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
if grep -i 'warning:' "$work/log"; then
  echo "the examples must build without warnings"
  exit 1
fi
# Threads of OpenMP that poll after a loop would occupy the cores that the solver needs.
export OMP_WAIT_POLICY=passive
(cd "$build" && ctest --output-on-failure)

failed=0
# same STORED FILE
same() {
  if awk -f "$here/compare.awk" "$here/expected/$1" "$2"; then
    echo "ok   ${2##*/} as in expected/$1"
  else
    echo "FAIL ${2##*/} differs from expected/$1"
    failed=1
  fi
}
cd "$work"
for program in poisson_c poisson_cpp poisson_f90 dpcg_c dpcg_f90 csr_c csr_f90 replace_iccg multigrid3d amr_two_level \
               pcg_smoother; do
  "$build/$program" >"$program"
done
"$build/ship_waves/ship_waves" --steps 60 --output output >ship_waves
same poisson.txt poisson_c
same poisson.txt poisson_cpp
same poisson.txt poisson_f90
same dpcg.txt dpcg_c
same dpcg.txt dpcg_f90
same csr.txt csr_c
same csr.txt csr_f90
same replace_iccg.txt replace_iccg
same multigrid3d.txt multigrid3d
same amr_two_level.txt amr_two_level
same pcg_smoother.txt pcg_smoother
same ship_waves.txt ship_waves
same convergence_iccg.csv output/convergence_iccg.csv
same convergence_rrb.csv output/convergence_rrb.csv

# One domain over several ranks. Started by root, and with more ranks than cores, Open MPI asks for a word (the last one
# is that of version 5).
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
# over_ranks PROGRAM RANKS
over_ranks() {
  "$mpirun" -n "$2" "$build/distributed/$1" >"$1_$2" || { echo "FAIL $1 with $2 ranks"; failed=1; }
  same "$1.txt" "$1_$2"
}
if [ ! -x "$mpirun" ] || [ ! -x "$build/distributed/wave" ]; then
  echo "skipped: programs over several ranks, as there is no MPI for C and Fortran, or no mpirun"
  exit $failed
fi
for ranks in 1 2 3 4; do
  over_ranks wave $ranks
  # The first line tells the number of ranks. In all others each character is the same.
  tail -n +2 wave_$ranks >bits_$ranks
  cmp -s bits_1 bits_$ranks || { echo "FAIL wave: $ranks ranks print other bits than one"; failed=1; }
done
if [ -x "$build/distributed/petsc_shell" ]; then
  over_ranks petsc_shell 1
  over_ranks petsc_shell 2
else
  echo "skipped: petsc_shell, as there is no PETSc of real doubles for this MPI"
fi
exit $failed
