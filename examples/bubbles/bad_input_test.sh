#!/bin/sh
# Tests the program bubbles with bad input. It must print one error message to standard error, end with exit code 2,
# print nothing to standard output and write no file.
# usage: bad_input_test.sh PATH-OF-bubbles
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# Usage: refused TEXT OPTION...; the error message must contain TEXT.
refused() {
  sentence=$1
  shift
  "$program" --output out --solver iccg "$@" >stdout 2>stderr
  code=$?
  problem=
  [ "$code" -eq 2 ] || problem="exit code $code"
  [ "$(wc -l <stderr)" -eq 1 ] || problem="$problem, $(wc -l <stderr) lines of errors"
  grep -qF -- "$sentence" stderr || problem="$problem, wrong sentence"
  grep -q '^bubbles: ' stderr || problem="$problem, sentence without the program's name"
  [ -s stdout ] && problem="$problem, something on standard output"
  [ -e out ] && problem="$problem, files written"
  if [ -n "$problem" ]; then
    failures=$((failures + 1))
    echo "FAIL ($problem): bubbles $*"
    cat stderr
  else
    echo "ok   $(cut -c10- stderr)"
  fi
  rm -rf out
}

refused '--case must be one of case1,' --case case3
refused 'unknown option "--csae"' --csae case1
refused 'unknown option "--stepss"' --stepss=3
refused 'is not an option' case1
refused '--nx needs a value' --nx
refused '--nx must be a whole number from 8 to 512, got 4' --nx 4
refused '--nx must be a whole number from 8 to 512, got 1e9' --nx 1e9
refused '--nx must be a whole number' --nx 40.5
refused '--nx must be a number, got "forty"' --nx forty
refused '--nx must be a number, got ""' --nx=
refused '--nx must be a number, got "nan"' --nx nan
refused '--end must be positive, got -1' --end -1
refused '--end must be a number, got "inf"' --end inf
refused '--end must be a number, got "2*3"' --end '2*3'
refused '--steps must be a whole number' --steps 0
refused '--steps must be a whole number' --steps 1.5
refused '--viscosity must be one of arithmetic, harmonic; got "mean"' --viscosity mean
refused '--solver must be one of iccg, dpcg, both; got "mrilu"' --solver mrilu
refused '--guess must be one of zero, previous, extrapolated; got ""' --guess=
refused '--slice must be one of c, speed, p; got "vorticity"' --slice vorticity
refused '--tolerance must lie between 0 and 1, got 1' --tolerance 1
refused '--tolerance must be positive, got 0' --tolerance 0
refused '--tolerance must be a number' --tolerance 1e-6x
refused '--table-interval must be positive' --table-interval 0
refused '--write-interval must be a whole number' --write-interval -1
refused '--write-system must be a whole number' --write-system 0
refused '--regions must be one of none, bubbles; got "all"' --regions all
refused '--regions bubbles needs --solver dpcg or both' --regions bubbles
refused '--dpcg-options needs --solver dpcg or both' --dpcg-options order=2
refused "--dpcg-options: unknown option 'oder'; did you mean 'order'?" --solver dpcg --dpcg-options oder=2
refused '--dpcg-options: order must lie in [0, 8], got 99' --solver dpcg --dpcg-options order=99
refused 'the grid is too coarse for the bubbles of "swarm"' --case swarm --nx 8
refused '--output needs the name of a folder' --output ''
: >file
refused 'cannot write into the output folder "file/out"' --output file/out

# If the disk is full, the program fails in the same way, and leaves no incomplete file.
mkdir out
ln -s /dev/full out/flow.vti.part
"$program" --output out --steps 1 --solver iccg >stdout 2>stderr
code=$?
if [ "$code" -eq 2 ] && grep -qF 'bubbles: cannot write "out/flow.vti"' stderr && ! ls out | grep -q flow; then
  echo "ok   $(cut -c10- stderr)"
else
  failures=$((failures + 1))
  echo "FAIL (exit code $code): a full disk; left: $(ls out)"
  cat stderr
fi
rm -rf out

# A short run must write all files. The sizes of the binary files must be correct.
if "$program" --output out --case static_3d --nx 16 --steps 2 --write-interval 1 --write-system 2 --solver iccg \
  >stdout 2>stderr; then
  for name in flow.vti flow_000001.vti slice.ppm interface.ppm table.csv bubbles.csv solvers.csv system.bin; do
    [ -s "out/$name" ] || { failures=$((failures + 1)); echo "FAIL no out/$name"; }
  done
  bytes=$((8 + 6 * 4 + 16 + 6 * 8 * 16 * 16 * 16))
  [ "$(wc -c <out/system.bin)" -eq "$bytes" ] ||
    { failures=$((failures + 1)); echo "FAIL system.bin has not $bytes bytes"; }
  bytes=$((5 * (16 * 16 * 16 * 4) + 3 * 8))
  grep -a -q 'header_type="UInt64"' out/flow.vti && [ "$(wc -c <out/flow.vti)" -gt "$bytes" ] ||
    { failures=$((failures + 1)); echo "FAIL flow.vti is not whole"; }
  [ -z "$(ls out | grep part)" ] || { failures=$((failures + 1)); echo "FAIL unfinished files stay"; }
else
  failures=$((failures + 1))
  echo "FAIL a short run"
  cat stderr
fi

[ "$failures" -eq 0 ] || { echo "$failures failures"; exit 1; }
