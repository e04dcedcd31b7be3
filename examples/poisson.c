/* Solves the test problem of the RRB papers: -Laplace(u) = f on the unit square, u = 0 on the boundary. The exact
 * solution is u = x(x-1) y(y-1) exp(xy). The matrix entries are 4 and -1, the right-hand side is h^2 f. Prints the
 * number of iterations and the largest error for 1/h = 64, 128, ... */
#include <math.h>
#include <rrbsolver.h>
#include <stdio.h>
#include <stdlib.h>

static double u(double x, double y) { return x * (x - 1) * y * (y - 1) * exp(x * y); }

static double f(double x, double y) {
    double a = x * (x - 1), b = y * (y - 1);
    double u_xx = b * (2 + 2 * (2 * x - 1) * y + a * y * y), u_yy = a * (2 + 2 * (2 * y - 1) * x + b * x * x);
    return -(u_xx + u_yy) * exp(x * y);
}

/* A negative status is an error, with a message. A positive status is a warning: x is usable but not converged. */
static void check(rrb_status status) {
    if (status < 0) {
        char message[512];
        rrbsolver_last_error(message, sizeof message);
        fprintf(stderr, "poisson: %s\n", message);
        exit(1);
    }
}

int main(void) {
    printf(" 1/h  iterations  largest error\n");
    for (int64_t n = 64; n <= 1024; n *= 2) {
        int64_t m = n - 1, count = m * m, iterations = 0; /* m x m unknowns; b[j * m + i] is at ((i+1) h, (j+1) h) */
        double h = 1.0 / (double)n, error = 0;
        double *center = malloc((size_t)count * sizeof *center), *off = malloc((size_t)count * sizeof *off);
        double *b = malloc((size_t)count * sizeof *b), *x = calloc((size_t)count, sizeof *x);
        if (!center || !off || !b || !x) return 1;
        for (int64_t j = 0; j < m; j++)
            for (int64_t i = 0; i < m; i++) {
                center[j * m + i] = 4;
                off[j * m + i] = -1; /* both east and north; entries that leave the grid are ignored */
                b[j * m + i] = h * h * f((double)(i + 1) * h, (double)(j + 1) * h);
            }

        rrb_handle *solver = NULL;
        check(rrb_create(m, m, &solver));
        check(rrb_set_options(solver, "norm=preconditioned rel_tol=1e-6")); /* the papers' test */
        check(rrb_factorize(solver, center, off, off, NULL, NULL));
        check(rrb_solve(solver, b, x)); /* x: initial guess in, solution out */
        check(rrb_get_int(solver, RRB_INFO_ITERATIONS, &iterations));
        check(rrb_destroy(&solver));

        for (int64_t j = 0; j < m; j++)
            for (int64_t i = 0; i < m; i++)
                error = fmax(error, fabs(x[j * m + i] - u((double)(i + 1) * h, (double)(j + 1) * h)));
        printf("%4d  %10d  %13.2e\n", (int)n, (int)iterations, error);
        free(center);
        free(off);
        free(b);
        free(x);
    }
    return 0;
}
