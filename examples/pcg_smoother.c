/* Uses the block smoother as preconditioner of conjugate gradients, and as a solver. Solves -Laplace(u) = f on 64^3
 * cells in 8 patches of 32^3, with u = 0 on the boundary, to a relative residual of 1e-8. The symmetric preconditioner
 * starts from u = 0 and applies one sweep and one sweep with the colours in reverse order. Prints the iterations of
 * plain and of preconditioned CG. Also prints the sweeps of relaxation to a residual of 0.01; its convergence factor of
 * 0.98 per sweep shows that relaxation alone is not a practical solver. */
#include <rrbsolver.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 32, PARTS = 2, PATCHES = PARTS * PARTS * PARTS, CELLS = SIDE * SIDE * SIDE, GHOSTED = (SIDE + 2) * (SIDE + 2) * (SIDE + 2) };

/* Vectors store patch after patch; a table points to the part of each patch. */
typedef double *table[PATCHES];

static void check(rrb_status status) {
    if (status < 0) {
        char message[256];
        rrbsolver_last_error(message, sizeof message);
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}

static double *values(size_t count) {
    double *array = calloc(count, sizeof *array);
    if (!array) exit(1);
    return array;
}

static void point(table t, double *array, size_t each) {
    for (size_t p = 0; p < PATCHES; ++p) t[p] = array + p * each;
}

static size_t ghosted(size_t cell) { /* index of a cell in an array with ghost cells */
    const size_t i = cell % SIDE, j = cell / SIDE % SIDE, k = cell / SIDE / SIDE;
    return ((k + 1) * (SIDE + 2) + j + 1) * (SIDE + 2) + i + 1;
}

static void with_ghosts(const double *plain, double *u) {
    for (size_t c = 0; c < PATCHES * CELLS; ++c) u[c / CELLS * GHOSTED + ghosted(c % CELLS)] = plain[c];
}

static double dot(const double *a, const double *b) {
    double sum = 0;
    for (size_t c = 0; c < PATCHES * CELLS; ++c) sum += a[c] * b[c];
    return sum;
}

static int32_t stop_at(void *tolerance, int64_t sweep, double relative_residual) {
    (void)sweep;
    return relative_residual <= *(double *)tolerance;
}

int main(void) {
    const double stencil[7] = {6, -1, -1, -1, -1, -1, -1};
    int64_t lower[PATCHES][3], size[PATCHES][3];
    for (int p = 0; p < PATCHES; ++p) {
        const int place[3] = {p % PARTS, p / PARTS % PARTS, p / PARTS / PARTS};
        for (int d = 0; d < 3; ++d) {
            lower[p][d] = (int64_t)place[d] * SIDE;
            size[p][d] = SIDE;
        }
    }
    smoother_handle *smoother = NULL;
    check(smoother_create(7, stencil, 8, 8, 8, &smoother));
    check(smoother_set_options(smoother, "check_input=0"));
    check(smoother_set_patches(smoother, PATCHES, (const int64_t(*)[3])lower, (const int64_t(*)[3])size));

    const size_t n = (size_t)PATCHES * CELLS;
    double *b = values(n), *x = values(n), *r = values(n), *z = values(n), *p = values(n), *q = values(n);
    double *u = values((size_t)PATCHES * GHOSTED), *zero = values(n);
    table tu, tr, tq, tzero, tb;
    point(tu, u, GHOSTED);
    point(tr, r, CELLS);
    point(tq, q, CELLS);
    point(tzero, zero, CELLS);
    point(tb, b, CELLS);
    for (size_t c = 0; c < n; ++c) b[c] = (double)((c * 2654435761u >> 7) % 1000) / 1000 - 0.5;

    for (int preconditioned = 0; preconditioned <= 1; ++preconditioned) {
        double rho = 0, stop = 1e-8 * sqrt(dot(b, b));
        int iterations = 0;
        for (size_t c = 0; c < n; ++c) x[c] = p[c] = 0, r[c] = b[c];
        while (sqrt(dot(r, r)) > stop) {
            if (preconditioned) { /* z = M^-1 r: a forward and a backward sweep from 0 */
                for (size_t c = 0; c < (size_t)PATCHES * GHOSTED; ++c) u[c] = 0;
                check(smoother_set_int(smoother, RRB_OPT_REVERSE, 0));
                check(smoother_apply(smoother, tu, (const double *const *)tr, 1));
                check(smoother_set_int(smoother, RRB_OPT_REVERSE, 1));
                check(smoother_apply(smoother, tu, (const double *const *)tr, 1));
                for (size_t c = 0; c < n; ++c) z[c] = u[c / CELLS * GHOSTED + ghosted(c % CELLS)];
            } else {
                for (size_t c = 0; c < n; ++c) z[c] = r[c];
            }
            const double before = rho;
            rho = dot(r, z);
            for (size_t c = 0; c < n; ++c) p[c] = z[c] + (before > 0 ? rho / before : 0) * p[c];
            with_ghosts(p, u); /* q = A p = -(0 - A p) */
            check(smoother_residual(smoother, tu, (const double *const *)tzero, tq, NULL));
            const double alpha = -rho / dot(p, q);
            for (size_t c = 0; c < n; ++c) x[c] += alpha * p[c], r[c] += alpha * q[c];
            ++iterations;
        }
        with_ghosts(x, u);
        double norm = 0;
        check(smoother_residual(smoother, tu, (const double *const *)tb, NULL, &norm));
        printf("%-28s %4d iterations, ||b - A x|| / ||b|| below 1e-8: %s\n",
               preconditioned ? "CG with a symmetric sweep" : "CG", iterations, norm <= 1.01 * stop ? "yes" : "no");
    }

    /* Relaxation without CG, stopped by the monitor. */
    double tolerance = 0.01;
    int64_t sweeps = 0;
    for (size_t c = 0; c < (size_t)PATCHES * GHOSTED; ++c) u[c] = 0;
    check(smoother_set_int(smoother, RRB_OPT_REVERSE, 0));
    check(smoother_set_monitor(smoother, stop_at, &tolerance));
    check(smoother_apply(smoother, tu, (const double *const *)tb, 10000));
    check(smoother_get_int(smoother, RRB_INFO_ITERATIONS, &sweeps));
    printf("%-28s %4d sweeps to 0.01\n", "block Gauss-Seidel alone", (int)sweeps);

    check(smoother_destroy(&smoother));
    double *all[] = {b, x, r, z, p, q, u, zero};
    for (size_t a = 0; a < sizeof all / sizeof *all; ++a) free(all[a]);
    return 0;
}
