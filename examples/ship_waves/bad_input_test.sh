#!/bin/sh
# Bad input to ship_waves: one clear sentence on the error channel, exit code 2, nothing printed or written.
# usage: bad_input_test.sh PATH-OF-ship_waves
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# refused "part of the sentence" options...
refused() {
  sentence=$1
  shift
  "$program" --output out "$@" >stdout 2>stderr
  code=$?
  problem=
  [ "$code" -eq 2 ] || problem="exit code $code"
  [ "$(wc -l <stderr)" -eq 1 ] || problem="$problem, $(wc -l <stderr) lines of errors"
  grep -qF -- "$sentence" stderr || problem="$problem, wrong sentence"
  grep -q '^ship_waves: ' stderr || problem="$problem, sentence without the program's name"
  [ -s stdout ] && problem="$problem, something on standard output"
  [ -e out ] && problem="$problem, files written"
  if [ -n "$problem" ]; then
    failures=$((failures + 1))
    echo "FAIL ($problem): ship_waves $*"
    cat stderr
  else
    echo "ok   $(cut -c13- stderr)"
  fi
  rm -rf out
}

# grid NAME HEADER ROWS: lines separated by ;
grid() {
  printf '%s;%s\n' "$2" "$3" | tr ';' '\n' >"$1"
}
head='ncols 3;nrows 2;xllcorner 0;yllcorner 0;cellsize 5;NODATA_value -9999'
rows='5 5 5;5 5 5'

refused 'cannot read the grid file "none.asc"' --grid none.asc
: >empty.asc
refused 'is empty' --grid empty.asc
mkdir folder.asc
refused 'grid file "folder.asc"' --grid folder.asc
printf '\037\213\010\000' >packed.asc
refused 'unpack it first' --grid packed.asc
grid dry.asc "$head" '-1 0 -9999;0 0 0.2'
refused 'no cell of the grid is wet' --grid dry.asc
grid short.asc "$head" '5 5 5;5 5'
refused 'line 8: this row has 2 values, the header promises 3' --grid short.asc
grid long.asc "$head" '5 5 5 5;5 5 5'
refused 'line 7: this row has more than the promised 3 values' --grid long.asc
grid few.asc "$head" '5.0000 5.0000 5.0000'
refused 'the file has 1 rows, the header promises 2' --grid few.asc
grid many.asc "$head" '5 5 5;5 5 5;5 5 5'
refused 'the file has more than the promised 2 rows' --grid many.asc
grid negative.asc "$(echo "$head" | sed 's/ncols 3/ncols -3/')" "$rows"
refused 'ncols must be a whole number from 1' --grid negative.asc
grid zero.asc "$(echo "$head" | sed 's/nrows 2/nrows 0/')" "$rows"
refused 'nrows must be a whole number from 1' --grid zero.asc
grid part.asc "$(echo "$head" | sed 's/nrows 2/nrows 2.5/')" "$rows"
refused 'nrows must be a whole number from 1' --grid part.asc
grid huge.asc "$(echo "$head" | sed 's/ncols 3/ncols 900000000/;s/nrows 2/nrows 900000000/')" "$rows"
refused 'the file is too short for ncols x nrows = 900000000 x 900000000' --grid huge.asc
grid word.asc "$head" '5 5 5;5 deep 5'
refused 'line 8: value 2 is not a number: "deep"' --grid word.asc
grid nan.asc "$head" '5 5 5;5 NaN 5'
refused 'value 2 is not a number: "NaN"' --grid nan.asc
grid repeat.asc "$head" '3*5;5 5 5'
refused 'value 1 is not a number: "3*5"' --grid repeat.asc
grid overflow.asc "$head" '5 5 5;5 1e999 5'
refused 'value 2 is not a number: "1e999"' --grid overflow.asc
grid cell.asc "$(echo "$head" | sed 's/cellsize 5/cellsize 0/')" "$rows"
refused 'cellsize must be positive, got 0' --grid cell.asc
grid key.asc "depth 3;$head" "$rows"
refused 'line 1: "depth" is not a key' --grid key.asc
grid lacks.asc "$(echo "$head" | sed 's/cellsize 5;//')" "$rows"
refused 'the header lacks cellsize' --grid lacks.asc
grid header.asc 'ncols 3;nrows 2' ''
refused 'the file ends inside the header' --grid header.asc
printf '\000\001\002\377 1\n' >binary.asc
refused 'is not a key' --grid binary.asc
grid small.asc "$head" "$rows"
refused 'no straight line of water' --grid small.asc

# The depths of these tests are those of the embedded harbour, and of small.asc.
refused '--current-u needs --current-v' --current-u u.asc
refused '--current-v needs --current-u' --current-v v.asc
refused '--current-u needs the name of a file' --current-u ''
refused 'cannot read the grid file "none.asc"' --grid small.asc --current-u none.asc --current-v none.asc
grid u.asc "$head" '1 1 1;1 1 1'
refused 'grid file "u.asc": 3 x 2 values, but the depths have 500 x 400' --current-u u.asc --current-v u.asc
grid wide.asc "$(echo "$head" | sed 's/cellsize 5/cellsize 6/')" '1 1 1;1 1 1'
refused 'grid file "wide.asc": cellsize 6, but the depths have 5' --grid small.asc --current-u u.asc --current-v wide.asc
grid east.asc "$(echo "$head" | sed 's/xllcorner 0/xllcorner 5/')" '1 1 1;1 1 1'
refused 'south-west corner is (5, 0), but that of the depths is (0, 0)' --grid small.asc --current-u east.asc --current-v u.asc
grid fast.asc "$head" '1 1 1;1 fast 1'
refused 'line 8: value 2 is not a number: "fast"' --grid small.asc --current-u fast.asc --current-v u.asc

refused '--flow and --discharge need each other' --flow '100,700 2000,1400'
refused '--flow and --discharge need each other' --discharge 100
refused '--discharge must be positive, got -1' --discharge -1
refused '--flow must be "x1,y1 x2,y2", got' --flow '100,700 2000,1400 2000,1500' --discharge 10
refused '--flow excludes --current-u and --current-v' --flow '0,0 1,1' --discharge 1 --current-u u.asc --current-v u.asc
refused '--flow: no water within 10 cells of (1000, 50)' --flow '1000,50 2000,1400' --discharge 10
grid two.asc "$(echo "$head" | sed 's/ncols 3/ncols 40/;s/nrows 2/nrows 1/')" \
  "$(printf '5 %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)0$(printf ' 5%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19)"
refused '--flow: no water connects the two points' --grid two.asc --flow '2,2 198,2' --discharge 10

# ships FILE LINES: lines separated by ;
ships() {
  printf '%s\n' "$2" | tr ';' '\n' >"$1"
}
good='ship one;motion moored;position 2000,1200'
refused 'cannot read the file "none.txt" of --ships' --ships none.txt
: >none_at_all.txt
refused 'has no ship' --ships none_at_all.txt
ships early.txt "draft 2;$good"
refused 'line 1: "draft" before the first "ship NAME"' --ships early.txt
ships key.txt "$good;spede 3"
refused 'line 4: unknown key "spede"' --ships key.txt
ships value.txt "$good;draft deep"
refused 'line 4: draft must be a number, got "deep"' --ships value.txt
ships zero.txt "$good;beam 0"
refused 'line 4: beam must be positive' --ships zero.txt
ships word.txt "$good;draft"
refused 'line 4: draft needs a value' --ships word.txt
ships motion.txt 'ship one;motion drifting'
refused 'line 2: motion must be track, moored or steered' --ships motion.txt
ships lost.txt 'ship one;motion steered'
refused 'ship "one" has no position' --ships lost.txt
ships trackless.txt 'ship one;speed 5'
refused 'ship "one" has no track' --ships trackless.txt
ships rudder.txt "$good;rudder 0,10"
refused 'ship "one" has a rudder, but its motion is not steered' --ships rudder.txt
ships angle.txt "$good;rudder 0,100"
refused 'rudder angles must be from -90 to 90 degrees' --ships angle.txt
ships order.txt "$good;motion steered;rudder 0,10 20,5 20,0"
refused 'the times of rudder must increase' --ships order.txt
ships comma.txt 'ship one,two'
refused 'the name of a ship must not contain a comma' --ships comma.txt
ships gain.txt "$good;gain 50"
refused 'line 4: gain must be from -1 to 1 1/s, got 50' --ships gain.txt
ships hull.txt 'ship one;motion moored;length 1700;position 2000,1200'
refused 'the hull of ship "one" touches land' --ships hull.txt
ships many.txt "$(for k in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do printf '%s;' "$good"; done)"
refused 'more than 16 ships' --ships many.txt
ships land.txt 'ship one;motion moored;position 1000,100'
refused 'the position of ship "one" meets land' --ships land.txt
ships out.txt 'ship one;motion moored;position -1000,100'
refused 'the position of ship "one" leaves the grid' --ships out.txt
ships deep.txt "$good;draft 30"
refused 'the ship runs aground' --ships deep.txt
ships good.txt "$good"
refused '--ships excludes --draft' --ships good.txt --draft 2
refused '--profile cosh needs a ship with a speed above 0' --ships good.txt --profile cosh

refused 'unknown option "--grdi"' --grdi x
refused 'unknown option "--speeed"' --speeed=3
refused 'is not an option' harbour.asc
refused '--dt needs a value' --dt
refused '--dt must be a number, got "fast"' --dt fast
refused '--dt must be a number, got ""' --dt=
refused '--dt must be a number, got "inf"' --dt inf
refused '--dt must be a number, got "1-2"' --dt 1-2
refused '--dt must be a number, got "1+400"' --dt 1+400
refused '--dt must be positive, got -0.1' --dt -0.1
refused 'is unstable on this grid: it must be below' --dt 5
refused '--steps must be a whole number' --steps 1.5
refused '--steps must be a whole number' --steps 0
refused '--refine must be a whole number from 1 to 16, got 0' --refine 0
refused '--refine must be a whole number from 1 to 16, got 17' --refine 17
refused '--refine must be a whole number from 1 to 16, got 1.5' --refine 1.5
refused '--refine must be a number, got "fine"' --refine fine
refused 'dt = 0.3 s is unstable on this grid' --refine 4 --dt 0.3
refused '--length must be positive' --length 0
refused '--live must be positive' --live 0
refused '--live excludes --steps' --live 1 --steps 10
refused '--live excludes --output' --live 1
refused '--device must be a whole number' --device -1
refused '--device needs --solver rrb' --device 0 --solver both
# The rest of the message depends on nvcc, driver and devices.
refused '--device 99: th' --device 99
refused '--beam must be positive' --beam -3
refused '--speed must not be negative' --speed -8
refused '--tolerance must lie between 0 and 1' --tolerance 1
refused '--solver must be iccg, rrb or both' --solver mrilu
refused '--profile must be parabola or cosh' --profile sinh
refused '--profile cosh needs a ship with a speed above 0' --profile cosh --speed 0
refused '--hull must be cosine or gaussian' --hull box
refused '--track must be' --track '10,10'
refused '--track must be' --track '10,10 20'
refused '--track must be' --track '10,10 10,10'
refused '--track must be' --track '10,10 20,x'
refused 'the track leaves the grid' --track '2000,1500 3000,1500'
refused 'the track meets land' --track '2000,1500 1000,100'
refused 'the ship runs aground' --draft 14 --track '2000,1200 2000,1000'
refused '--rrb-options: ' --rrb-options 'levles=3'
refused '--rrb-options: ' --rrb-options 'rel_tol=-1'
: >file
refused 'cannot write into the output folder "file/out"' --output file/out

# A disk that is full when the wave field is written: the same, and only the complete forces.csv stays.
mkdir out
ln -s /dev/full out/waves.vti.part
"$program" --output out --steps 1 --solver iccg >stdout 2>stderr
code=$?
if [ "$code" -eq 2 ] && grep -qF 'ship_waves: cannot write "out/waves.vti"' stderr && [ "$(ls out)" = forces.csv ]; then
  echo "ok   $(cut -c13- stderr)"
else
  failures=$((failures + 1))
  echo "FAIL (exit code $code): a full disk; left: $(ls out)"
  cat stderr
fi

[ "$failures" -eq 0 ] || { echo "$failures failures"; exit 1; }
