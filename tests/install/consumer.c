/* A C99 program as a user builds it against the installed package. It solves systems with known solution and smallest
 * eigenvalue, and calls every function once with wrong arguments. The exit status is 0 if the library behaves as
 * documented. */
#include "check.h"

#include <rrbsolver.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NX = 37, NY = 22, LD = NX + 3, SIZE = LD * NY };
static const double REL_TOL = 1e-8;
static const double PI = 3.14159265358979323846;

typedef struct {
    double center[SIZE], east[SIZE], north[SIZE], northeast[SIZE], northwest[SIZE];
    double solution[SIZE], b[SIZE], x[SIZE], work[SIZE];
} problem;

/* Computes y = A x for a constant stencil: c at the node, e east, n north, d on both diagonals; zero outside the grid.
 */
static void multiply(int ld, double c, double e, double n, double d, const double *x, double *y) {
    for (int j = 0; j < NY; j++) {
        for (int i = 0; i < NX; i++) {
            double sum = 0.0;
            for (int dj = -1; dj <= 1; dj++) {
                for (int di = -1; di <= 1; di++) {
                    const int k = i + di, l = j + dj;
                    const double entry = di == 0 && dj == 0 ? c : dj == 0 ? e : di == 0 ? n : d;
                    if (k >= 0 && k < NX && l >= 0 && l < NY) sum += entry * x[l * ld + k];
                }
            }
            y[j * ld + i] = sum;
        }
    }
}

static double norm(int ld, const double *a, const double *b) {
    double sum = 0.0;
    for (int j = 0; j < NY; j++)
        for (int i = 0; i < NX; i++) sum += (a[j * ld + i] - b[j * ld + i]) * (a[j * ld + i] - b[j * ld + i]);
    return sqrt(sum);
}

/* Fills all arrays. Padding, and entries that point outside the grid, are NaN and must not be read. */
static void fill(problem *p, int ld, double c, double e, double n, double d) {
    for (int k = 0; k < SIZE; k++) {
        p->center[k] = p->east[k] = p->north[k] = p->northeast[k] = p->northwest[k] = (double)NAN;
        p->solution[k] = p->b[k] = p->x[k] = p->work[k] = (double)NAN;
    }
    for (int j = 0; j < NY; j++) {
        for (int i = 0; i < NX; i++) {
            const int k = j * ld + i;
            p->center[k] = c;
            if (i + 1 < NX) p->east[k] = e;
            if (j + 1 < NY) p->north[k] = n;
            if (i + 1 < NX && j + 1 < NY) p->northeast[k] = d;
            if (i > 0 && j + 1 < NY) p->northwest[k] = d;
            p->solution[k] = sin(0.3 * i + 0.1) + cos(0.2 * i * j);
            p->x[k] = 0.0;
        }
    }
    multiply(ld, c, e, n, d, p->solution, p->b);
}

/* Recomputes the stopping test, and its consequence |x - solution| <= |b - A x| / lambda_min(A). */
static void check_solution(problem *p, int ld, double c, double e, double n, double d) {
    double zero[SIZE];
    memset(zero, 0, sizeof zero);
    multiply(ld, c, e, n, d, p->x, p->work);
    const double cos_x = cos(PI / (NX + 1)), cos_y = cos(PI / (NY + 1));
    const double lambda_min = c + 2 * e * cos_x + 2 * n * cos_y + 4 * d * cos_x * cos_y;
    /* Rounding of nine products and sums; the |entries| of a row sum to at most 2 c. */
    const double rounding = 16 * DBL_EPSILON * 2 * c * norm(ld, p->x, zero);
    const double residual = norm(ld, p->b, p->work);
    CHECK(residual <= REL_TOL * norm(ld, p->b, zero) + rounding);
    CHECK(norm(ld, p->x, p->solution) <= (residual + rounding) / lambda_min);
}

static int contains(const char *part) {
    char sentence[512];
    const int64_t length = rrbsolver_last_error(sentence, (int64_t)sizeof sentence);
    return length == (int64_t)strlen(sentence) + 1 && strstr(sentence, part) != NULL;
}

typedef struct {
    int64_t calls, stop_at;
    double last;
} watch;

static int32_t watch_solve(void *user, int64_t iteration, double relative_residual) {
    watch *w = user;
    CHECK(iteration == w->calls);
    w->calls++;
    w->last = relative_residual;
    return iteration == w->stop_at;
}

static void solves(problem *p) {
    rrb_handle *h = NULL;
    int64_t value = 0, count = 0;
    double real = 0.0, history[64];
    CHECK(rrb_create(NX, NY, &h) == RRB_OK && h != NULL);
    CHECK(rrb_set_real(h, RRB_OPT_REL_TOL, REL_TOL) == RRB_OK);
    CHECK(rrb_get_real(h, RRB_OPT_REL_TOL, &real) == RRB_OK && real == REL_TOL);

    /* 5 points. */
    fill(p, NX, 4.0, -1.0, -1.0, 0.0);
    CHECK(rrb_factorize(h, p->center, p->east, p->north, NULL, NULL) == RRB_OK);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_OK);
    check_solution(p, NX, 4.0, -1.0, -1.0, 0.0);
    CHECK(rrb_get_int(h, RRB_INFO_ITERATIONS, &value) == RRB_OK && value > 0 && value < 30);
    CHECK(rrb_get_history(h, history, 64, &count) == RRB_OK && count == value + 1);
    CHECK(rrb_get_real(h, RRB_INFO_FINAL_RESIDUAL, &real) == RRB_OK && real <= REL_TOL);
    CHECK(rrb_get_int(h, RRB_INFO_STOP_REASON, &value) == RRB_OK && value == RRB_STOP_REASON_CONVERGED);
    /* The solution as initial guess satisfies the test. */
    CHECK(rrb_solve(h, p->b, p->x) == RRB_OK);
    CHECK(rrb_get_int(h, RRB_INFO_ITERATIONS, &value) == RRB_OK && value == 0);
    /* b = 0. */
    memset(p->work, 0, sizeof p->work);
    CHECK(rrb_solve(h, p->work, p->x) == RRB_OK);
    for (int k = 0; k < NX * NY; k++) CHECK(p->x[k] == 0.0);
    /* A product alone, accurate to rounding: the |entries| of a row sum to 8, and |solution| <= 2. */
    CHECK(rrb_multiply(h, p->solution, p->work) == RRB_OK);
    for (int k = 0; k < NX * NY; k++) CHECK(fabs(p->work[k] - p->b[k]) <= 16 * DBL_EPSILON * 16);
    /* The preconditioner alone is positive. */
    CHECK(rrb_apply(h, p->b, p->work) == RRB_OK);
    real = 0.0;
    for (int k = 0; k < NX * NY; k++) real += p->work[k] * p->b[k];
    CHECK(real > 0.0);

    /* The monitor receives every iteration in order, with the values of the history, and stops a solve. */
    watch w = {0, -1, 0.0};
    CHECK(rrb_set_monitor(h, watch_solve, &w) == RRB_OK);
    memset(p->x, 0, sizeof p->x);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_OK);
    CHECK(rrb_get_history(h, history, 64, &count) == RRB_OK && count == w.calls && history[count - 1] == w.last);
    w.calls = 0;
    w.stop_at = 3;
    memset(p->x, 0, sizeof p->x);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_STOPPED);
    CHECK(rrb_get_int(h, RRB_INFO_ITERATIONS, &value) == RRB_OK && value == 3 && w.calls == 4);
    CHECK(rrb_get_int(h, RRB_INFO_STOP_REASON, &value) == RRB_OK && value == RRB_STOP_REASON_MONITOR);
    CHECK(rrb_set_monitor(h, NULL, NULL) == RRB_OK);

    /* Too few iterations: a positive status, and x is better than the guess. */
    CHECK(rrb_set_int(h, RRB_OPT_MAX_ITER, 2) == RRB_OK);
    memset(p->x, 0, sizeof p->x);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_NOT_CONVERGED);
    CHECK(contains("not converged: 2 iterations, relative residual "));
    CHECK(contains("(iteration limit reached; raise max_iter"));
    CHECK(rrb_get_real(h, RRB_INFO_FINAL_RESIDUAL, &real) == RRB_OK && real > REL_TOL && real < 1.0);
    CHECK(rrb_set_int(h, RRB_OPT_MAX_ITER, 1000) == RRB_OK);

    /* 9 points (bilinear elements) on the same handle, with padded rows. */
    fill(p, LD, 8.0 / 3, -1.0 / 3, -1.0 / 3, -1.0 / 3);
    CHECK(rrb_set_int(h, RRB_OPT_LEADING_DIMENSION, LD) == RRB_OK);
    CHECK(rrb_factorize(h, p->center, p->east, p->north, p->northeast, p->northwest) == RRB_OK);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_OK);
    check_solution(p, LD, 8.0 / 3, -1.0 / 3, -1.0 / 3, -1.0 / 3);
    CHECK(isnan(p->x[NX]));
    CHECK(rrb_destroy(&h) == RRB_OK && h == NULL);

    /* rrb_solve_once. */
    fill(p, NX, 4.0, -1.0, -1.0, 0.0);
    CHECK(rrb_solve_once(NX, NY, p->center, p->east, p->north, NULL, NULL, p->b, p->x, REL_TOL, 100, &value) == RRB_OK);
    CHECK(value > 0 && value < 30);
    check_solution(p, NX, 4.0, -1.0, -1.0, 0.0);
}

static void misuse(problem *p) {
    rrb_handle *h = NULL;
    int64_t value = 0;
    double real = 0.0;
    char text[8];

    CHECK(rrb_create(NX, NY, NULL) == RRB_ERR_NULL);
    CHECK(rrb_create(0, 5, &h) == RRB_ERR_DIMENSION && h == NULL);
    CHECK(rrb_create(5, -1, &h) == RRB_ERR_DIMENSION && h == NULL);
    CHECK(rrb_create(INT64_MAX, INT64_MAX, &h) == RRB_ERR_DIMENSION && h == NULL);
    CHECK(rrb_destroy(NULL) == RRB_OK);
    CHECK(rrb_destroy(&h) == RRB_OK);
    CHECK(rrb_set_int(NULL, RRB_OPT_MAX_ITER, 5) == RRB_ERR_NULL);
    CHECK(rrb_solve(NULL, p->b, p->x) == RRB_ERR_NULL);

    CHECK(rrb_create(NX, NY, &h) == RRB_OK);
    fill(p, NX, 4.0, -1.0, -1.0, 0.0);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_ERR_STATE);
    CHECK(rrb_set_int(h, 9999, 1) == RRB_ERR_OPTION);
    CHECK(rrb_get_int(h, 9999, &value) == RRB_ERR_OPTION);
    CHECK(rrb_get_int(h, RRB_OPT_MAX_ITER, NULL) == RRB_ERR_NULL);
    CHECK(rrb_set_options(h, NULL) == RRB_ERR_NULL);
    CHECK(rrb_set_options(h, "levls=3") == RRB_ERR_OPTION && contains("did you mean 'levels'"));
    CHECK(rrb_set_real(h, RRB_OPT_REL_TOL, -1.0) == RRB_ERR_ARGUMENT);
    CHECK(contains("rel_tol must lie in (0, 1), got -1"));
    CHECK(rrb_get_real(h, RRB_OPT_REL_TOL, &real) == RRB_OK && real == 1e-6);
    /* A buffer that is too short: the text is truncated and NUL-terminated, and the required length is returned. */
    rrb_set_real(h, RRB_OPT_REL_TOL, -1.0);
    CHECK(rrbsolver_last_error(text, 8) > 8 && strcmp(text, "rel_tol") == 0);

    CHECK(rrb_factorize(h, NULL, p->east, p->north, NULL, NULL) == RRB_ERR_NULL && contains("center"));
    p->center[2 * NX + 5] = 0.0;
    CHECK(rrb_factorize(h, p->center, p->east, p->north, NULL, NULL) == RRB_ERR_MATRIX && contains("(5, 2)"));
    CHECK(rrb_solve(h, p->b, p->x) == RRB_ERR_STATE);
    p->center[2 * NX + 5] = 4.0;
    p->east[3 * NX + 1] = (double)INFINITY;
    CHECK(rrb_factorize(h, p->center, p->east, p->north, NULL, NULL) == RRB_ERR_NOT_FINITE);
    CHECK(contains("east") && contains("(1, 3)"));
    p->east[3 * NX + 1] = -1.0;

    CHECK(rrb_factorize(h, p->center, p->east, p->north, NULL, NULL) == RRB_OK);
    CHECK(rrb_solve(h, p->b, p->b) == RRB_ERR_ARGUMENT);
    CHECK(rrb_solve(h, p->b, NULL) == RRB_ERR_NULL);
    p->b[7] = (double)NAN;
    CHECK(rrb_solve(h, p->b, p->x) == RRB_ERR_NOT_FINITE && contains("(7, 0)"));
    for (int k = 0; k < NX * NY; k++) CHECK(p->x[k] == 0.0);
    p->b[7] = 1.0;
    /* An option that takes effect at factorize. */
    CHECK(rrb_set_options(h, "levels=2") == RRB_OK);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_ERR_STATE);
    CHECK(rrb_factorize(h, p->center, p->east, p->north, NULL, NULL) == RRB_OK);
    CHECK(rrb_solve(h, p->b, p->x) == RRB_OK);
    /* cuda is accepted; factorize reports what is missing. */
    CHECK(rrb_set_int(h, RRB_OPT_BACKEND, RRB_BACKEND_CUDA) == RRB_OK);
    {
        int32_t devices = -1;
        rrb_status answer = rrb_factorize(h, p->center, p->east, p->north, NULL, NULL);
        CHECK(rrbsolver_cuda_device_count(&devices) == RRB_OK);
        CHECK(devices > 0 ? answer == RRB_OK : answer == RRB_ERR_NO_DEVICE || answer == RRB_ERR_UNSUPPORTED);
    }
    CHECK(rrb_destroy(&h) == RRB_OK && rrb_destroy(&h) == RRB_OK);

    CHECK(rrb_solve_once(0, 1, p->center, p->east, p->north, NULL, NULL, p->b, p->x, 1e-6, 9, &value) == RRB_ERR_DIMENSION);
}

/* One patch of 8^3 cells that is one block: one sweep solves it. */
static void smooths(void) {
    static double u[10 * 10 * 10], f[8 * 8 * 8];
    const double stencil[7] = {6, -1, -1, -1, -1, -1, -1};
    const int64_t lower[1][3] = {{0, 8, -16}}, size[1][3] = {{8, 8, 8}};
    double *us[1] = {u};
    const double *fs[1] = {f};
    double norm = -1;
    int64_t solver = 0;
    smoother_handle *h = NULL;
    for (int c = 0; c < 512; ++c) f[c] = c % 7 - 3;
    CHECK(smoother_create(7, stencil, 8, 8, 8, &h) == RRB_OK && h != NULL);
    CHECK(smoother_apply(h, us, fs, 1) == RRB_ERR_STATE);
    CHECK(smoother_set_patches(h, 1, lower, size) == RRB_OK);
    CHECK(smoother_apply(h, us, fs, 1) == RRB_OK);
    CHECK(smoother_residual(h, us, fs, NULL, &norm) == RRB_OK && norm < 1e-12);
    CHECK(smoother_get_int(h, RRB_INFO_BLOCK_SOLVER, &solver) == RRB_OK && solver == RRB_BLOCK_SOLVER_FAST_DIAGONALIZATION);
    CHECK(smoother_apply(h, NULL, fs, 1) == RRB_ERR_NULL);
    CHECK(smoother_destroy(&h) == RRB_OK && h == NULL);
}

static int32_t stops(void *user, int32_t sweep, double *const *u) {
    (void)u;
    *(int32_t *)user = sweep;
    return sweep == 1;
}

/* Two adjacent resident patches of 4^3 cells. */
static void keeps(void) {
    static double u[2][216], f[2][64], r[2][64];
    const double stencil[7] = {6, -1, -1, -1, -1, -1, -1};
    const int64_t lower[2][3] = {{-4, 0, 0}, {0, 0, 0}}, size[2][3] = {{4, 4, 4}, {4, 4, 4}};
    double *us[2] = {u[0], u[1]}, *rs[2] = {r[0], r[1]}, *ours[2] = {NULL, NULL}, *right[2] = {NULL, NULL};
    const double *fs[2] = {f[0], f[1]};
    double start = -1, end = -1, sum = 0;
    int32_t sweep = -9;
    smoother_handle *h = NULL;
    for (int c = 0; c < 216; ++c) u[0][c] = u[1][c] = 1 + c % 5;
    CHECK(smoother_create(7, stencil, 2, 4, 3, &h) == RRB_OK);
    CHECK(smoother_upload(h, (const double *const *)us, fs) == RRB_ERR_STATE);
    CHECK(smoother_set_patches(h, 2, lower, size) == RRB_OK);
    CHECK(smoother_download(h, us) == RRB_ERR_STATE && smoother_residual(h, NULL, NULL, NULL, &start) == RRB_ERR_STATE);
    CHECK(start == -1);
    CHECK(smoother_upload(h, (const double *const *)us, fs) == RRB_OK);
    CHECK(smoother_device_pointers(h, ours, right) == RRB_OK && ours[0] != NULL && ours[0] != us[0] && right[1] != NULL);
    CHECK(smoother_device_pointers(h, ours, NULL) == RRB_OK);
    CHECK(smoother_residual(h, NULL, NULL, rs, &start) == RRB_OK && start > 1);
    for (int c = 0; c < 64; ++c) sum += r[0][c] * r[0][c] + r[1][c] * r[1][c];
    CHECK(fabs(sqrt(sum) - start) <= 1e-14 * start); /* rounding of 128 terms */
    CHECK(smoother_apply(h, NULL, NULL, 20) == RRB_OK && smoother_exchange(h, NULL) == RRB_OK);
    CHECK(smoother_residual(h, NULL, NULL, NULL, &end) == RRB_OK && end < 0.1 * start);
    CHECK(u[0][43] == 1 + 43 % 5 && smoother_download(h, us) == RRB_OK && u[0][43] != 1 + 43 % 5);
    CHECK(smoother_residual(h, us, fs, NULL, &start) == RRB_OK && start == end);
    CHECK(smoother_residual(h, ours, fs, NULL, &start) == RRB_OK && start == end); /* ours are the caller's to read */
    /* The ghost function stops before the second sweep; a residual calls it with -1. */
    CHECK(smoother_set_ghost_fill(h, stops, &sweep) == RRB_OK);
    CHECK(smoother_apply(h, NULL, NULL, 5) == RRB_STOPPED && sweep == 1);
    CHECK(smoother_residual(h, NULL, NULL, NULL, NULL) == RRB_OK && sweep == -1);
    CHECK(smoother_destroy(&h) == RRB_OK && h == NULL && smoother_destroy(&h) == RRB_OK);
}

/* Casts non-const arrays, because C before C23 does not convert them implicitly in pedantic mode. */
static rrb_status set_patches(smoother_handle *h, int64_t count, int64_t (*lower)[3], int64_t (*size)[3]) {
    return smoother_set_patches(h, count, (const int64_t(*)[3])lower, (const int64_t(*)[3])size);
}

/* Wrong calls return the errors that the header documents. */
static void smoother_misuse(void) {
    static double u[2][216], f[2][64];
    double stencil[7] = {6, -1, -1, -1, -1, -1, -1}, norm = 0;
    int64_t lower[2][3] = {{0, 0, 0}, {4, 0, 0}}, size[2][3] = {{4, 4, 4}, {4, 4, 4}}, number = -5;
    double *us[2] = {u[0], NULL};
    const double *fs[2] = {f[0], f[1]};
    char sentence[256];
    smoother_handle *h = NULL;
    CHECK(smoother_create(8, stencil, 4, 4, 4, &h) == RRB_ERR_ARGUMENT && smoother_create(7, NULL, 4, 4, 4, &h) == RRB_ERR_NULL);
    CHECK(smoother_create(7, stencil, 4, 0, 4, &h) == RRB_ERR_DIMENSION && smoother_create(7, stencil, 4, 4, 9, &h) == RRB_ERR_ARGUMENT);
    stencil[3] = (double)NAN;
    CHECK(smoother_create(7, stencil, 4, 4, 4, &h) == RRB_ERR_NOT_FINITE && h == NULL);
    CHECK(smoother_apply(NULL, us, fs, 1) == RRB_ERR_NULL && smoother_set_options(NULL, "omega=1") == RRB_ERR_NULL);
    memset(stencil, 0, sizeof stencil); /* zero blocks */
    CHECK(smoother_create(7, stencil, 4, 4, 4, &h) == RRB_OK && set_patches(h, 1, lower, size) == RRB_ERR_MATRIX);
    CHECK(smoother_apply(h, us, fs, 1) == RRB_ERR_STATE && smoother_destroy(&h) == RRB_OK);
    stencil[0] = 6;
    for (int leg = 1; leg < 7; ++leg) stencil[leg] = -1;
    CHECK(smoother_create(7, stencil, 4, 4, 4, &h) == RRB_OK);
    CHECK(smoother_residual(h, us, fs, NULL, &norm) == RRB_ERR_STATE && smoother_exchange(h, us) == RRB_ERR_STATE);
    CHECK(set_patches(h, -1, lower, size) == RRB_ERR_DIMENSION && set_patches(h, 1, NULL, size) == RRB_ERR_NULL);
    size[1][1] = 0;
    CHECK(set_patches(h, 2, lower, size) == RRB_ERR_DIMENSION);
    size[1][1] = -4;
    CHECK(set_patches(h, 2, lower, size) == RRB_ERR_DIMENSION);
    size[1][1] = 4;
    lower[1][0] = 3;
    CHECK(set_patches(h, 2, lower, size) == RRB_ERR_ARGUMENT);
    CHECK(rrbsolver_last_error(sentence, (int64_t)sizeof sentence) > 1 && strstr(sentence, "patches 0 and 1") != NULL);
    lower[1][0] = 4;
    CHECK(set_patches(h, 2, lower, size) == RRB_OK);
    CHECK(smoother_apply(h, us, fs, 1) == RRB_ERR_NULL); /* the second patch */
    us[1] = u[0];
    CHECK(smoother_apply(h, us, fs, 1) == RRB_ERR_ARGUMENT); /* twice the same */
    us[1] = u[1];
    CHECK(smoother_apply(h, us, fs, -1) == RRB_ERR_ARGUMENT && smoother_apply(h, NULL, NULL, 1) == RRB_ERR_STATE);
    f[1][63] = (double)NAN;
    CHECK(smoother_apply(h, us, fs, 1) == RRB_ERR_NOT_FINITE);
    f[1][63] = 0;
    CHECK(smoother_set_options(h, "method=jacobi") == RRB_ERR_OPTION && smoother_set_options(h, NULL) == RRB_ERR_NULL);
    CHECK(smoother_set_int(h, RRB_OPT_METHOD, 9) == RRB_ERR_ARGUMENT && smoother_set_int(h, 999999, 1) == RRB_ERR_OPTION);
    CHECK(smoother_set_real(h, RRB_OPT_OMEGA, (double)NAN) == RRB_ERR_ARGUMENT);
    CHECK(smoother_get_int(h, RRB_OPT_OMEGA, &number) == RRB_ERR_OPTION && smoother_get_int(h, 12345, &number) == RRB_ERR_OPTION);
    CHECK(number == -5 && smoother_get_int(h, RRB_INFO_CELLS, NULL) == RRB_ERR_NULL);
    CHECK(smoother_get_history(h, NULL, 3, &number) == RRB_ERR_NULL && smoother_get_history(h, NULL, -1, &number) == RRB_ERR_ARGUMENT);
    CHECK(smoother_apply(h, us, fs, 2) == RRB_OK && smoother_apply(h, us, fs, 0) == RRB_OK);
    CHECK(smoother_set_options(h, "block_solver=dense") == RRB_OK && smoother_apply(h, us, fs, 1) == RRB_ERR_STATE);
    CHECK(set_patches(h, 0, NULL, NULL) == RRB_OK && smoother_apply(h, NULL, NULL, 1) == RRB_OK);
    CHECK(smoother_destroy(&h) == RRB_OK);
}

/* Ten thousand patches of one cell, u = 1 around them and 0 inside: each sweep gives the mean of the six neighbours. */
static void many_patches(void) {
    enum { COUNT = 10000, SIDE = 22 };
    const double stencil[7] = {6, -1, -1, -1, -1, -1, -1};
    int64_t(*lower)[3] = malloc(sizeof *lower * COUNT), (*size)[3] = malloc(sizeof *size * COUNT);
    double *values = malloc(sizeof *values * COUNT * 28), **us = malloc(sizeof *us * COUNT), start = -1, end = -1;
    const double **fs = malloc(sizeof *fs * COUNT);
    smoother_handle *h = NULL;
    CHECK(lower != NULL && size != NULL && values != NULL && us != NULL && fs != NULL);
    for (int p = 0; p < COUNT; ++p) {
        lower[p][0] = p % SIDE, lower[p][1] = p / SIDE % SIDE, lower[p][2] = p / (SIDE * SIDE);
        size[p][0] = size[p][1] = size[p][2] = 1;
        us[p] = values + 28 * p;
        fs[p] = us[p] + 27;
        for (int c = 0; c < 28; ++c) us[p][c] = c < 27 && c != 13;
    }
    CHECK(smoother_create(7, stencil, 8, 8, 8, &h) == RRB_OK && set_patches(h, COUNT, lower, size) == RRB_OK);
    CHECK(smoother_residual(h, us, fs, NULL, &start) == RRB_OK && smoother_apply(h, us, fs, 1) == RRB_OK);
    CHECK(fabs(us[0][13] - 3.0 / 6) < DBL_EPSILON && fabs(us[1][13] - 2.0 / 6) < DBL_EPSILON && us[SIDE * SIDE + SIDE + 1][13] == 0);
    CHECK(smoother_apply(h, us, fs, 1) == RRB_OK && fabs(us[0][13] - (3 + 3 * 2.0 / 6) / 6) < DBL_EPSILON);
    CHECK(smoother_residual(h, us, fs, NULL, &end) == RRB_OK && end < start);
    CHECK(smoother_destroy(&h) == RRB_OK);
    free(lower), free(size), free(values), free(us), free((void *)fs);
}

int main(void) {
    char version[32];
    int32_t devices = -1;
    snprintf(version, sizeof version, "%d.%d.%d", RRBSOLVER_VERSION_MAJOR, RRBSOLVER_VERSION_MINOR, RRBSOLVER_VERSION_PATCH);
    CHECK(strcmp(rrbsolver_version(), version) == 0);
    CHECK(rrbsolver_status_string(RRB_ERR_STATE)[0] != '\0' && rrbsolver_status_string(12345)[0] != '\0');
    CHECK(rrbsolver_cuda_device_count(&devices) == RRB_OK && devices >= 0);

    problem *p = malloc(sizeof *p);
    if (p == NULL) return 1;
    solves(p);
    misuse(p);
    smooths();
    keeps();
    smoother_misuse();
    many_patches();
    free(p);
    puts("C: all as documented");
    return 0;
}
