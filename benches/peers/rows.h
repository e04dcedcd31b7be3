// A general sparse system from a file of `rrbsolver-bench sparse NAME --write FILE`, and what the drivers of other
// libraries share: the true residual, and the lines that `rrbsolver-bench sparse --peer` reads.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using Numbers = std::vector<double>;
using Indices = std::vector<int>;

[[noreturn]] static void fail(const char *why, const char *what) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::exit(2);
}

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double median(Numbers values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A square matrix in csr format on the host, with sorted columns.
struct Rows {
  Indices ptr, col;
  Numbers val;
  int n() const { return (int)ptr.size() - 1; }
  int entries() const { return (int)val.size(); }
};

static Rows read_rows(const char *path) {
  std::FILE *file = std::fopen(path, "rb");
  int64_t counts[2];
  if (!file || std::fread(counts, 8, 2, file) != 2) fail("cannot be read", path);
  if (counts[0] < 1 || counts[1] < 1 || std::max(counts[0], counts[1]) > INT32_MAX - 1) fail("no system", path);
  const size_t n = counts[0], entries = counts[1];
  Rows a{Indices(n + 1), Indices(entries), Numbers(entries)};
  if (std::fread(a.ptr.data(), 4, n + 1, file) != n + 1 || std::fread(a.col.data(), 4, entries, file) != entries ||
      std::fread(a.val.data(), 8, entries, file) != entries)
    fail("ends early", path);
  std::fclose(file);
  return a;
}

// Returns A x. `bound`, if any, receives the bound of the rounding errors of each row.
static Numbers multiplied(const Rows &a, const Numbers &x, Numbers *bound = nullptr) {
  Numbers y(a.n());
  if (bound) bound->resize(a.n());
  for (int i = 0; i < a.n(); i++) {
    double sum = 0, size = 0;
    for (int k = a.ptr[i]; k < a.ptr[i + 1]; k++) {
      sum += a.val[k] * x[a.col[k]];
      size += std::fabs(a.val[k] * x[a.col[k]]);
    }
    y[i] = sum;
    if (bound) (*bound)[i] = size * (a.ptr[i + 1] - a.ptr[i]) * 0x1p-52;
  }
  return y;
}

static double norm(const Numbers &v) {
  double sum = 0;
  for (double value : v) sum += value * value;
  return std::sqrt(sum);
}

// Prints nine fields: program, system, rows, 1, seconds of setup, seconds of solve, iterations, |b - A x| / |b|, 0.
static void print_solve(const std::string &program, const char *system, const Rows &a, const Numbers &b,
                        const Numbers &x, const Numbers &setup, const Numbers &solve, int iterations) {
  Numbers residual = multiplied(a, x);
  for (int i = 0; i < a.n(); i++) residual[i] = b[i] - residual[i];
  std::printf("%s,%s,%d,1,%.6f,%.6f,%d,%.3e,0\n", program.c_str(), system, a.n(), median(setup), median(solve),
              iterations, norm(residual) / norm(b));
  std::fflush(stdout);
}

// Returns the name of the system in a file FOLDER/NAME.bin.
static std::string system_of(const char *path) {
  const std::string file = path, name = file.substr(file.find_last_of('/') + 1);
  return name.substr(0, name.find('.'));
}
