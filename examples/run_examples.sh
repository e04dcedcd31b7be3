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
for program in poisson_c poisson_cpp poisson_f90 replace_iccg multigrid3d amr_two_level pcg_smoother; do
  "$build/$program" >"$program"
done
"$build/ship_waves/ship_waves" --steps 60 --output output >ship_waves
same poisson.txt poisson_c
same poisson.txt poisson_cpp
same poisson.txt poisson_f90
same replace_iccg.txt replace_iccg
same multigrid3d.txt multigrid3d
same amr_two_level.txt amr_two_level
same pcg_smoother.txt pcg_smoother
same ship_waves.txt ship_waves
same convergence_iccg.csv output/convergence_iccg.csv
same convergence_rrb.csv output/convergence_rrb.csv
exit $failed
