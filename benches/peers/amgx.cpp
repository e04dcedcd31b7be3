// amgx FILE TOLERANCE CONFIG...: solvers of AMGX on one GPU.
//
// `rrbsolver-bench sparse NAME --write FILE` writes the system. The right-hand side is A (1, 1, ..), and solves start
// from zero. A CONFIG is a file in AMGX's folder src/configs. TOLERANCE, relative to b in the 2-norm, and 1000
// iterations replace its limits.
// AMGX in A, built in A/build, and CUDA in C:
//
//     c++ -O3 -I$A/include -I$C/include benches/peers/amgx.cpp -L$A/build -lamgxsh -L$C/lib64 -lcudart -o amgx
//
// stdout receives a line of nine fields per CONFIG, for `rrbsolver-bench sparse --peer`. The setup begins with the csr
// arrays on the host and includes their upload; b and x are on the device.
#include "rows.h"
#include <amgx_c.h>
#include <cuda_runtime_api.h>

// A warm-up run precedes the measured runs.
enum { RUNS = 3 };

static void check(AMGX_RC status, const char *what) {
  char why[4096];
  if (status == AMGX_RC_OK) return;
  AMGX_get_error_string(status, why, sizeof why);
  fail(why, what);
}

#define CHECK(call) check(call, #call)

static void measure(const Rows &a, const char *system, const char *tolerance, const char *config) {
  const std::string limits = "config_version=2, main:max_iters=1000, main:norm=L2, main:convergence=RELATIVE_INI, "
                             "main:print_solve_stats=0, main:obtain_timings=0, amg:print_grid_stats=0, "
                             "main:tolerance=";
  const Numbers b = multiplied(a, Numbers(a.n(), 1.0));
  Numbers x(a.n()), setup, solve;
  int iterations = 0;
  AMGX_config_handle parameters;
  AMGX_resources_handle resources;
  CHECK(AMGX_config_create_from_file_and_string(&parameters, config, (limits + tolerance).c_str()));
  CHECK(AMGX_resources_create_simple(&resources, parameters));
  for (int run = -1; run < RUNS; run++) {
    AMGX_matrix_handle matrix;
    AMGX_vector_handle device_b, device_x;
    AMGX_solver_handle solver;
    CHECK(AMGX_vector_create(&device_b, resources, AMGX_mode_dDDI));
    CHECK(AMGX_vector_create(&device_x, resources, AMGX_mode_dDDI));
    CHECK(AMGX_vector_upload(device_b, a.n(), 1, b.data()));
    CHECK(AMGX_vector_set_zero(device_x, a.n(), 1));
    cudaDeviceSynchronize();
    const double begin = now();
    CHECK(AMGX_matrix_create(&matrix, resources, AMGX_mode_dDDI));
    CHECK(AMGX_matrix_upload_all(matrix, a.n(), a.entries(), 1, 1, a.ptr.data(), a.col.data(), a.val.data(), nullptr));
    CHECK(AMGX_solver_create(&solver, resources, AMGX_mode_dDDI, parameters));
    CHECK(AMGX_solver_setup(solver, matrix));
    cudaDeviceSynchronize();
    const double ready = now();
    CHECK(AMGX_solver_solve_with_0_initial_guess(solver, device_b, device_x));
    cudaDeviceSynchronize();
    const double end = now();
    if (run >= 0) {
      setup.push_back(ready - begin);
      solve.push_back(end - ready);
    }
    CHECK(AMGX_solver_get_iterations_number(solver, &iterations));
    CHECK(AMGX_vector_download(device_x, x.data()));
    AMGX_solver_destroy(solver);
    AMGX_matrix_destroy(matrix);
    AMGX_vector_destroy(device_x);
    AMGX_vector_destroy(device_b);
  }
  AMGX_resources_destroy(resources);
  AMGX_config_destroy(parameters);
  print_solve("AMGX " + system_of(config), system, a, b, x, setup, solve, iterations);
}

// Messages go to stderr, since stdout contains the results.
static void print_message(const char *text, int) { std::fputs(text, stderr); }

int main(int count, char **words) {
  if (count < 4) fail("FILE TOLERANCE CONFIG...", words[0]);
  const Rows a = read_rows(words[1]);
  CHECK(AMGX_initialize());
  CHECK(AMGX_register_print_callback(print_message));
  for (int k = 3; k < count; k++) measure(a, system_of(words[1]).c_str(), words[2], words[k]);
  CHECK(AMGX_finalize());
  return 0;
}
