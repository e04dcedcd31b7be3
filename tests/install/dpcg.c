/* 3D systems as a user of the installed package solves them: a bubble in a closed box, whose pressure is known up to a
 * constant, with padded arrays and with regions of the caller; and wrong calls. Exit status 0: all as documented. */
#include "check.h"

#include <rrbsolver.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NX = 13, NY = 9, NZ = 11, LD = NX + 2, LP = LD * NY + 5, SIZE = LP * NZ };
static const double REL_TOL = 1e-8;

typedef struct {
    int ld, lp;
    double center[SIZE], east[SIZE], north[SIZE], top[SIZE];
    double solution[SIZE], b[SIZE], x[SIZE], work[SIZE];
    int32_t labels[SIZE];
} problem;

static int in_bubble(int i, int j, int k) {
    return (i - 6) * (i - 6) + (j - 4) * (j - 4) + (k - 5) * (k - 5) < 9;
}

/* Returns the coupling across the face between two cells: the harmonic mean of 1/density, which is 1000 in the bubble.
 */
static double face(int in, int out) {
    const double a = in ? 1000 : 1, b = out ? 1000 : 1;
    return 2 * a * b / (a + b);
}

/* Computes y = A x from the arrays. */
static void multiply(const problem *p, const double *x, double *y) {
    for (int k = 0; k < NZ; k++) {
        for (int j = 0; j < NY; j++) {
            for (int i = 0; i < NX; i++) {
                const int c = k * p->lp + j * p->ld + i;
                double sum = p->center[c] * x[c];
                if (i > 0) sum += p->east[c - 1] * x[c - 1];
                if (i + 1 < NX) sum += p->east[c] * x[c + 1];
                if (j > 0) sum += p->north[c - p->ld] * x[c - p->ld];
                if (j + 1 < NY) sum += p->north[c] * x[c + p->ld];
                if (k > 0) sum += p->top[c - p->lp] * x[c - p->lp];
                if (k + 1 < NZ) sum += p->top[c] * x[c + p->lp];
                y[c] = sum;
            }
        }
    }
}

static double norm(const problem *p, const double *a, const double *b) {
    double sum = 0;
    for (int k = 0; k < NZ; k++)
        for (int j = 0; j < NY; j++)
            for (int i = 0; i < NX; i++) {
                const int c = k * p->lp + j * p->ld + i;
                const double d = a[c] - (b == NULL ? 0 : b[c]);
                sum += d * d;
            }
    return sqrt(sum);
}

/* Sets x = 0 in the cells. */
static void clear(const problem *p, double *x) {
    for (int k = 0; k < NZ; k++)
        for (int j = 0; j < NY; j++) memset(x + k * p->lp + j * p->ld, 0, NX * sizeof *x);
}

/* Fills all arrays. Padding, and entries that point out of the box, are NaN and must not be read. */
static void fill(problem *p, int ld, int lp) {
    p->ld = ld;
    p->lp = lp;
    for (int c = 0; c < SIZE; c++) {
        p->center[c] = p->east[c] = p->north[c] = p->top[c] = (double)NAN;
        p->solution[c] = p->b[c] = p->x[c] = p->work[c] = (double)NAN;
        p->labels[c] = -99;
    }
    for (int k = 0; k < NZ; k++) {
        for (int j = 0; j < NY; j++) {
            for (int i = 0; i < NX; i++) {
                const int c = k * lp + j * ld + i, here = in_bubble(i, j, k);
                double sum = 0;
                if (i > 0) sum += face(here, in_bubble(i - 1, j, k));
                if (j > 0) sum += face(here, in_bubble(i, j - 1, k));
                if (k > 0) sum += face(here, in_bubble(i, j, k - 1));
                if (i + 1 < NX) sum -= p->east[c] = -face(here, in_bubble(i + 1, j, k));
                if (j + 1 < NY) sum -= p->north[c] = -face(here, in_bubble(i, j + 1, k));
                if (k + 1 < NZ) sum -= p->top[c] = -face(here, in_bubble(i, j, k + 1));
                p->center[c] = sum;
                p->solution[c] = sin(0.3 * i + 0.1) + cos(0.2 * j * k);
                p->labels[c] = here ? 0 : -1;
            }
        }
    }
    multiply(p, p->solution, p->b);
    clear(p, p->x);
}

/* Recomputes the stopping test; seven products per row, whose |entries| sum to at most 2 * 6000. */
static void check_solution(problem *p) {
    const double rounding = 16 * DBL_EPSILON * 12000 * norm(p, p->x, NULL);
    multiply(p, p->x, p->work);
    CHECK(norm(p, p->b, p->work) <= REL_TOL * norm(p, p->b, NULL) + rounding);
}

static int contains(const char *part) {
    char sentence[512];
    rrbsolver_last_error(sentence, (int64_t)sizeof sentence);
    return strstr(sentence, part) != NULL;
}

static int32_t count_calls(void *user, int64_t iteration, double relative_residual) {
    int64_t *calls = user;
    CHECK(iteration == *calls && relative_residual >= 0);
    ++*calls;
    return 0;
}

static int64_t whole(const dpcg_handle *h, int32_t key) {
    int64_t value = -1;
    CHECK(dpcg_get_int(h, key, &value) == RRB_OK);
    return value;
}

static void solves(problem *p) {
    static const char *const methods[] = {"none", "jacobi", "neumann order=3", "ic0", "ric", "multigrid", "amg"};
    dpcg_handle *h = NULL;
    int64_t calls = 0, count = -1, iterations = -1;
    double real = -1;
    CHECK(dpcg_create(NX, NY, NZ, &h) == RRB_OK && h != NULL);
    CHECK(dpcg_set_real(h, RRB_OPT_REL_TOL, REL_TOL) == RRB_OK);
    CHECK(dpcg_set_int(h, RRB_OPT_LEADING_DIMENSION, LD) == RRB_OK && dpcg_set_int(h, RRB_OPT_LEADING_PLANE, LP) == RRB_OK);
    CHECK(dpcg_set_monitor(h, count_calls, &calls) == RRB_OK);
    fill(p, LD, LP);
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_OK);
    CHECK(whole(h, RRB_INFO_COMPONENTS) == 1 && whole(h, RRB_INFO_SINGULAR_COMPONENTS) == 1);
    CHECK(dpcg_solve(h, p->b, p->x) == RRB_OK && isnan(p->x[NX]) && isnan(p->x[LP - 1]));
    check_solution(p);
    CHECK(calls == whole(h, RRB_INFO_ITERATIONS) + 1 && whole(h, RRB_INFO_PRECONDITIONER) != RRB_PRECONDITIONER_AUTO);
    CHECK(dpcg_get_history(h, NULL, 0, &count) == RRB_OK && count == calls);
    CHECK(dpcg_get_real(h, RRB_INFO_FINAL_RESIDUAL, &real) == RRB_OK && real <= REL_TOL);
    CHECK(dpcg_set_monitor(h, NULL, NULL) == RRB_OK);
    CHECK(dpcg_multiply(h, p->solution, p->work) == RRB_OK && norm(p, p->work, p->b) <= 1e-12 * norm(p, p->b, NULL));
    CHECK(dpcg_apply(h, p->b, p->work) == RRB_OK && norm(p, p->work, NULL) > 0);

    /* Regions of the caller take effect at factorize. */
    CHECK(dpcg_set_options(h, "preconditioner=jacobi deflation=levelset dilation=0") == RRB_OK);
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_OK);
    CHECK(dpcg_set_regions(h, p->labels) == RRB_OK);
    CHECK(dpcg_solve(h, p->b, p->x) == RRB_ERR_STATE && contains("regions were set after the last dpcg_factorize"));
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_OK);
    CHECK(whole(h, RRB_INFO_DEFLATION) == RRB_DEFLATION_LEVELSET && whole(h, RRB_INFO_DEFLATION_VECTORS) == 1);
    clear(p, p->x);
    CHECK(dpcg_solve(h, p->b, p->x) == RRB_OK);
    check_solution(p);
    CHECK(dpcg_set_regions(h, NULL) == RRB_OK && dpcg_set_options(h, "deflation=none") == RRB_OK);

    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        char text[64];
        snprintf(text, sizeof text, "preconditioner=%s", methods[m]);
        CHECK(dpcg_set_options(h, text) == RRB_OK && dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_OK);
        CHECK(whole(h, RRB_INFO_PRECONDITIONER) == (int64_t)m + 1);
        clear(p, p->x);
        CHECK(dpcg_solve(h, p->b, p->x) == RRB_OK);
        check_solution(p);
    }
    CHECK(dpcg_destroy(&h) == RRB_OK && h == NULL && dpcg_destroy(&h) == RRB_OK);

    /* dpcg_solve_once, with dense arrays. */
    fill(p, NX, NX * NY);
    CHECK(dpcg_solve_once(NX, NY, NZ, p->center, p->east, p->north, p->top, p->b, p->x, REL_TOL, 500, &iterations) == RRB_OK);
    CHECK(iterations > 0);
    check_solution(p);
}

static void misuse(problem *p) {
    dpcg_handle *h = NULL;
    fill(p, NX, NX * NY);
    CHECK(dpcg_create(NX, NY, NZ, NULL) == RRB_ERR_NULL && dpcg_create(NX, 0, NZ, &h) == RRB_ERR_DIMENSION);
    CHECK(dpcg_create(INT64_MAX, INT64_MAX, INT64_MAX, &h) == RRB_ERR_DIMENSION && h == NULL);
    CHECK(dpcg_set_regions(NULL, p->labels) == RRB_ERR_NULL && dpcg_solve(NULL, p->b, p->x) == RRB_ERR_NULL);
    CHECK(dpcg_create(NX, NY, NZ, &h) == RRB_OK && dpcg_solve(h, p->b, p->x) == RRB_ERR_STATE);
    CHECK(dpcg_set_options(h, "levels=3") == RRB_ERR_OPTION && contains("it belongs to rrb_"));
    CHECK(dpcg_set_int(h, RRB_OPT_PRECONDITIONER, RRB_PRECONDITIONER_SSOR) == RRB_ERR_ARGUMENT);
    CHECK(contains("7 (amg), got 8"));
    CHECK(dpcg_set_int(h, RRB_OPT_LEADING_PLANE, NX * NY - 1) == RRB_ERR_ARGUMENT && contains("leading_plane"));
    p->labels[2 * NX * NY + NX + 3] = -2;
    CHECK(dpcg_set_regions(h, p->labels) == RRB_ERR_ARGUMENT && contains("got -2 at (3, 1, 2)"));
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, NULL) == RRB_ERR_NULL && contains("top"));
    p->center[NX * NY + 5] = -1;
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_ERR_MATRIX && contains("(5, 0, 1)"));
    CHECK(dpcg_solve(h, p->b, p->x) == RRB_ERR_STATE);
    fill(p, NX, NX * NY);
    CHECK(dpcg_set_options(h, "deflation=subdomain subdomains_y=10") == RRB_OK);
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_ERR_ARGUMENT && contains("subdomains_y"));
    CHECK(dpcg_set_options(h, "deflation=auto subdomains_y=0") == RRB_OK);
    CHECK(dpcg_factorize(h, p->center, p->east, p->north, p->top) == RRB_OK);
    CHECK(dpcg_solve(h, p->b, p->b) == RRB_ERR_ARGUMENT && contains("overlap"));
    p->b[2 * NX * NY + 7] = (double)NAN;
    CHECK(dpcg_solve(h, p->b, p->x) == RRB_ERR_NOT_FINITE && contains("(7, 0, 2)"));
    for (int c = 0; c < NX * NY * NZ; c++) CHECK(p->x[c] == 0.0);
    CHECK(dpcg_destroy(&h) == RRB_OK);
}

int main(void) {
    problem *p = malloc(sizeof *p);
    if (p == NULL) return 1;
    solves(p);
    misuse(p);
    free(p);
    puts("C, 3D: all as documented");
    return 0;
}
