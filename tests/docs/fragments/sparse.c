// Declarations for the examples of sparse_ on the reference pages: a factorized 5-point matrix on nx x ny nodes, and
// vectors.
#include <rrbsolver.h>
#include <stdio.h>
#include <stdlib.h>

enum { nx = 20, ny = 15, rows = nx * ny };
static int32_t entry_row[5 * rows], entry_col[5 * rows];
static double entry[5 * rows], b[rows], x[rows], r[rows], z[rows], y[rows];

static int32_t print_residual(void *user, int64_t iteration, double relative_residual) {
    printf("%d %.2e\n", (int)iteration, relative_residual);
    return 0;
}

int main(void) {
    sparse_handle *solver = NULL;
    int64_t count = 0;
    for (int k = 0; k < rows; k++) {
        const int neighbours[5] = {k, k % nx > 0 ? k - 1 : -1, k % nx < nx - 1 ? k + 1 : -1, k - nx, k + nx};
        for (int n = 0; n < 5; n++) {
            if (neighbours[n] < 0 || neighbours[n] >= rows) continue;
            entry_row[count] = k, entry_col[count] = neighbours[n];
            entry[count++] = n == 0 ? 4 : -1;
        }
        b[k] = r[k] = 1;
    }
    int status = sparse_create_coo(rows, rows, count, entry_row, entry_col, entry, 4, 0, &solver);
    if (status == RRB_OK) status = sparse_factorize(solver);
    if (status < 0) return 2;
    {
@BODY@
    }
    sparse_destroy(&solver);
    return status < 0;
}
