/* Convection and diffusion of heat in a rotating fluid, by finite volumes on N x N cells of the unit square:
 *
 *    div(u T) - div(grad T) = 0,   T = 1 on the left wall, T = 0 on the right wall, no flux through bottom and top
 *
 * u = (d psi/dy, -d psi/dx), psi = 50 sin(pi x) sin(pi y). Upwind differences make the matrix nonsymmetric.
 * Prints the heat fluxes through both walls, relative to those of a fluid at rest (Nusselt numbers); they must agree.
 * */
#include <math.h>
#include <rrbsolver.h>
#include <stdio.h>

enum { N = 40, ROWS = N * N };
static int32_t row_ptr[ROWS + 1], col[5 * ROWS]; /* indices count from 0 */
static double values[5 * ROWS], b[ROWS], t[ROWS];
static int entries;

static double psi(int i, int j) { return 50 * sin(acos(-1) * i / N) * sin(acos(-1) * j / N); } /* cell corners */
static void add(int column, double value) {
    col[entries] = column;
    values[entries++] = value;
}
static double face(int neighbour, double flow) { /* flow out of the cell; returns the contribution to the diagonal */
    add(neighbour, -1 + fmin(flow, 0));
    return 1 + fmax(flow, 0);
}

int main(void) {
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) {
            int row = j * N + i;
            double diagonal = i == 0 || i == N - 1 ? 2 : 0; /* the wall is half a cell away */
            if (i > 0) diagonal += face(row - 1, psi(i, j) - psi(i, j + 1));
            if (i < N - 1) diagonal += face(row + 1, psi(i + 1, j + 1) - psi(i + 1, j));
            if (j > 0) diagonal += face(row - N, psi(i + 1, j) - psi(i, j));
            if (j < N - 1) diagonal += face(row + N, psi(i, j + 1) - psi(i + 1, j + 1));
            add(row, diagonal); /* the order within a row is arbitrary */
            row_ptr[row + 1] = entries;
            b[row] = i == 0 ? 2 : 0;
            t[row] = 0.5;
        }

    sparse_handle *a = NULL;
    int64_t iterations = 0;
    rrb_status status = sparse_create_csr(ROWS, ROWS, entries, row_ptr, col, values, sizeof *col, 0, &a);
    if (status >= 0) status = sparse_set_options(a, "rel_tol=1e-8");
    if (status >= 0) status = sparse_factorize(a);
    if (status >= 0) status = sparse_solve(a, b, t); /* t: initial guess in, solution out */
    if (status < 0) {
        char message[512];
        rrbsolver_last_error(message, sizeof message);
        return printf("%s\n", message), 1;
    }
    sparse_get_int(a, RRB_INFO_ITERATIONS, &iterations);
    sparse_destroy(&a);
    double in = 0, out = 0;
    for (int j = 0; j < N; j++) in += 2 * (1 - t[j * N]), out += 2 * t[j * N + N - 1];
    printf("converged: %c, iterations: %d\n", status == RRB_OK ? 'T' : 'F', (int)iterations);
    printf("Nusselt number: %.3f at the hot wall, %.3f at the cold wall\n", in, out);
    return 0;
}
