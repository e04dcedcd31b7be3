#!/bin/sh
# The live view without a browser: commands on the standard input, frames on the standard output.
# usage: live_test.sh PATH-OF-ship_waves
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# holds DESCRIPTION COMMAND...
holds() {
  description=$1
  shift
  if "$@"; then
    echo "ok   $description"
  else
    failures=$((failures + 1))
    echo "FAIL $description"
  fi
}

# The waits are longer than an interval between frames (33 ms), also on a busy machine.
{
  echo 'window 0 0 1000 800 100 80'
  echo 'rudder 1 20'
  printf 'speed\t1 \t6.5\r\n'
  echo 'ship 2000 1200 90'
  sleep 2
  echo 'pause on'
  sleep 2
  for line in '' garbage 'rudder 1' 'rudder 9 5' 'rudder 1 nan' 'rudder 1 100' 'speed 1 -3' 'speed 1 1e9' \
              'pause maybe' 'ship 1000 100 0' 'rudder 1.5 5' 'window 1 2 3' 'window a b c d e f'; do
    echo "$line"
  done
  head -c 5000 /dev/zero
  sleep 1
} | "$program" --live 1 >frames 2>errors
code=$?

# First lines of the frames; the elevations between them are not text.
grep -a -o 'frame [0-9]* {"t".*' frames >heads
last() { tail -n 1 heads; }
value() { last | sed "s/.*\"$1\":\([^,]*\),.*/\1/"; }

holds 'the run ends with its input' [ "$code" -eq 0 ]
holds 'frames arrive' [ "$(wc -l <heads)" -ge 20 ]
holds 'the frame is the window' [ "$(value columns)x$(value rows)" = 67x54 ]
holds 'the frame has two bytes per elevation' [ "$(last | cut -d' ' -f2)" -eq $((2 * 67 * 54)) ]
holds 'the run is paused' [ "$(value paused)" = true ]
paused=$(grep -c '"paused":true' heads)
holds 'a paused run shows frames' [ "$paused" -ge 5 ]
holds 'time stands still during a pause' \
  [ "$(grep '"paused":true' heads | sed 's/.*"t":\([^,]*\),.*/\1/' | sort -u | wc -l)" -eq 1 ]
holds 'the ship obeys rudder and speed' grep -q '"speed":6.5,"rudder":20,"steered":true' heads
holds 'there are two ships' [ "$(last | grep -o '"beam"' | wc -l)" -eq 2 ]
holds 'wrong commands change no ship' [ "$(last | grep -o '"speed":6.5,"rudder":20' | wc -l)" -eq 1 ]
holds 'each wrong command is reported' [ "$(grep -c '^ship_waves: ignored the command' errors)" -eq 13 ]
holds 'input without lines is reported' grep -q 'characters of input without the end of a line' errors
holds 'the reason is reported' grep -q '"rudder 9 5": ships are numbered from 1 to 2' errors
holds 'no file is written' [ "$(ls)" = "$(printf 'errors\nframes\nheads')" ]

# The standard input stays open, so only the failed output can end these runs.
mkfifo input
exec 3<>input
"$program" --live 1 <&3 >/dev/full 2>errors_full
code=$?
holds 'a frame that is not written ends the run' [ "$code" -eq 1 ]
holds 'the failed output is reported' [ "$(grep -c '^ship_waves: a frame was not written' errors_full)" -eq 1 ]
"$program" --live 1 <&3 2>errors_closed | head -c 1000 >head_of_frames
holds 'a reader that ends ends the run' [ "$(wc -c <head_of_frames)" -eq 1000 ]

[ "$failures" -eq 0 ] || { cat errors; echo "$failures failures"; exit 1; }
