# Compares what a program printed with what is stored: awk -f compare.awk STORED PRINTED
# Words (apart by blanks or commas) must be equal, numbers with a decimal point to 2 percent (rounding differs between
# compilers and machines), and the stored word * stands for anything. The case of letters is ignored (1e-6 and 1E-6 are
# the same number).
function number(word) { return word ~ /^[-+]?[0-9]*\.[0-9]*([eE][-+]?[0-9]+)?$/ }
function complain(what) { print FILENAME ": line " FNR ": " what; failed = 1 }
{ gsub(/,/, " ") }
FNR == NR { stored[FNR] = $0; lines = FNR; next }
{
  printed = FNR
  n = split(tolower(stored[FNR]), want)
  m = split(tolower($0), got)
  if (FNR > lines || n != m) { complain("got \"" $0 "\", stored is \"" stored[FNR] "\""); next }
  for (k = 1; k <= n; k++) {
    if (want[k] == "*" || want[k] == got[k]) continue
    if (number(want[k]) && number(got[k])) {
      apart = want[k] - got[k]; size = want[k] + 0
      if (apart < 0) apart = -apart
      if (size < 0) size = -size
      if (apart <= 0.02 * size) continue
    }
    complain("got " got[k] ", stored is " want[k])
  }
}
END {
  if (printed != lines) complain("got " printed + 0 " lines, stored are " lines)
  exit failed
}
