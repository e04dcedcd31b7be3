// Declarations for the examples of dpcg_ on the reference pages: a factorized handle and its arrays.
#include <rrbsolver.h>
#include <stdio.h>
#include <stdlib.h>

enum { nx = 12, ny = 10, nz = 8 };
static double center[nx * ny * nz], east[nx * ny * nz], north[nx * ny * nz], top[nx * ny * nz];
static double b[nx * ny * nz], x[nx * ny * nz], r[nx * ny * nz], z[nx * ny * nz], y[nx * ny * nz];

static int32_t print_residual(void *user, int64_t iteration, double relative_residual) {
    printf("%d %.2e\n", (int)iteration, relative_residual);
    return 0;
}

int main(void) {
    dpcg_handle *solver = NULL;
    for (int k = 0; k < nx * ny * nz; k++) {
        center[k] = 6, east[k] = north[k] = top[k] = -1;
        b[k] = r[k] = 1;
    }
    int status = dpcg_create(nx, ny, nz, &solver);
    if (status == RRB_OK) status = dpcg_factorize(solver, center, east, north, top);
    if (status < 0) return 2;
    {
@BODY@
    }
    dpcg_destroy(&solver);
    return status < 0;
}
