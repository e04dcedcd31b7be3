/* Applies one sweep to 64 patches of 64^3 cells in device memory for each block size, for measurements by Nsight
 * Compute (docs/development/experiments.md):
 *
 *     cc -O1 -Iinclude benches/gpu/block_occupancy.c -Lbuild/lib -lrrbsolver -o block_occupancy
 *     ncu --clock-control none -k regex:smoother_relax --metrics sm__warps_active.avg.pct_of_peak_sustained_active,\
 *     sm__maximum_warps_per_active_cycle_pct,launch__registers_per_thread,\
 *     lts__throughput.avg.pct_of_peak_sustained_elapsed ./block_occupancy
 */
#include "rrbsolver.h"
#include <stdio.h>
#include <stdlib.h>

enum { PATCHES = 64, SIDE = 64 };

static const struct {
    int points;
    int64_t block[3];
    const char *options;
} cases[] = {
    {7, {2, 2, 2}, ""},
    {7, {4, 2, 2}, ""},
    {7, {4, 4, 2}, ""},
    {7, {4, 4, 4}, ""},
    {7, {8, 4, 4}, ""},
    {7, {8, 8, 4}, ""},
    {7, {8, 8, 8}, ""},
    {7, {2, 2, 2}, "method=block_jacobi"},
    {7, {4, 2, 2}, "method=block_jacobi"},
    {7, {4, 4, 2}, "method=block_jacobi"},
    {7, {4, 4, 4}, "method=block_jacobi"},
    {7, {8, 4, 4}, "method=block_jacobi"},
    {7, {8, 8, 4}, "method=block_jacobi"},
    {7, {8, 8, 8}, "method=block_jacobi"},
    {7, {4, 4, 4}, "block_solver=dense"},
    {7, {8, 8, 8}, "block_solver=dense"},
    {7, {8, 8, 8}, "block_solver=dense method=block_jacobi"},
    {27, {4, 4, 4}, ""},
    {27, {8, 8, 8}, ""},
};

static void check(rrb_status status) {
    char sentence[1024];
    if (status >= 0) return;
    rrbsolver_last_error(sentence, sizeof sentence);
    fprintf(stderr, "%s\n", sentence);
    exit(1);
}

static void *allocated(size_t values) {
    void *memory = calloc(values, sizeof(double));
    if (!memory) exit(1);
    return memory;
}

int main(void) {
    static int64_t lower[PATCHES][3], size[PATCHES][3];
    double *u[PATCHES], *f[PATCHES], stencil[27];
    const double k[3] = {-1, 2, -1}, m[3] = {1 / 6., 4 / 6., 1 / 6.}, seven[7] = {6, -1, -1, -1, -1, -1, -1};
    for (int p = 0; p < PATCHES; ++p) {
        const int64_t at[3] = {p % 4, p / 4 % 4, p / 16};
        for (int d = 0; d < 3; ++d) lower[p][d] = SIDE * at[d], size[p][d] = SIDE;
        u[p] = allocated((SIDE + 2) * (SIDE + 2) * (SIDE + 2));
        f[p] = allocated(SIDE * SIDE * SIDE);
        for (int q = 0; q < SIDE * SIDE * SIDE; ++q) f[p][q] = q % 17 - 8;
    }
    /* Stencil of trilinear finite elements: K x M x M + M x K x M + M x M x K, with 1D stiffness K and mass M. */
    for (int q = 0; q < 27; ++q) {
        const int a = q % 3, b = q / 3 % 3, c = q / 9;
        stencil[q] = k[a] * m[b] * m[c] + m[a] * k[b] * m[c] + m[a] * m[b] * k[c];
    }
    for (size_t q = 0; q < sizeof cases / sizeof *cases; ++q) {
        smoother_handle *h = NULL;
        char options[128];
        const int64_t *b = cases[q].block;
        snprintf(options, sizeof options, "backend=cuda check_input=0 %s", cases[q].options);
        check(smoother_create(cases[q].points, cases[q].points == 7 ? seven : stencil, b[0], b[1], b[2], &h));
        check(smoother_set_options(h, options));
        check(smoother_set_patches(h, PATCHES, (const int64_t(*)[3])lower, (const int64_t(*)[3])size));
        check(smoother_upload(h, u, (const double *const *)f));
        printf("%d points, %dx%dx%d, %s\n", cases[q].points, (int)b[0], (int)b[1], (int)b[2], options);
        check(smoother_apply(h, NULL, NULL, 1));
        check(smoother_destroy(&h));
    }
    for (int p = 0; p < PATCHES; ++p) {
        free(u[p]);
        free(f[p]);
    }
    return 0;
}
