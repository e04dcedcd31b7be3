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
# same STORED COMMAND...
same() {
  stored=$here/expected/$1
  shift
  "$@" >"$work/printed"
  if awk -f "$here/compare.awk" "$stored" "$work/printed"; then
    echo "ok   $(basename "$1") as in $(basename "$stored")"
  else
    echo "FAIL $*"
    failed=1
  fi
}
same poisson.txt "$build/poisson_c"
same poisson.txt "$build/poisson_cpp"
same poisson.txt "$build/poisson_f90"
same replace_iccg.txt "$build/replace_iccg"
cd "$work"
same ship_waves.txt "$build/ship_waves/ship_waves" --steps 60 --output out
same convergence_iccg.csv tr , ' ' <out/convergence_iccg.csv
same convergence_rrb.csv tr , ' ' <out/convergence_rrb.csv
exit $failed
