// Declarations for the examples of smoother_ on the reference pages: a handle with one patch and its arrays.
#include <rrbsolver.h>
#include <stdio.h>
#include <stdlib.h>

enum { nx = 16, ny = 12, nz = 10, ghosted = (nx + 2) * (ny + 2) * (nz + 2) };
static double u_values[ghosted], f_values[nx * ny * nz];

static int32_t print_residual(void *user, int64_t sweep, double relative_residual) {
    printf("%d %.2e\n", (int)sweep, relative_residual);
    return 0;
}

int main(void) {
    const double stencil[7] = {6, -1, -1, -1, -1, -1, -1};
    const int64_t corner[1][3] = {{0, 0, 0}}, extents[1][3] = {{nx, ny, nz}};
    double *u[1] = {u_values};
    const double *f[1] = {f_values};
    smoother_handle *solver = NULL;
    for (int k = 0; k < nx * ny * nz; k++) f_values[k] = 1;
    int status = smoother_create(7, stencil, 4, 4, 4, &solver);
    if (status == RRB_OK) status = smoother_set_patches(solver, 1, corner, extents);
    if (status < 0) return 2;
    {
@BODY@
    }
    smoother_destroy(&solver);
    return status < 0;
}
