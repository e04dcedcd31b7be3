/* Sparse matrices with the family sparse_, as a user of the installed package uses them. Exit status 0: all as
   documented. */
#include <rrbsolver.h>

#include "check.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    /* [10 . 20 .] [. 30 . 40] [50 . 60 70] [. . . 80], with base 1. */
    const int32_t row_ptr[5] = {1, 3, 5, 8, 9}, col[8] = {1, 3, 2, 4, 1, 3, 4, 4};
    const double values[8] = {10, 20, 30, 40, 50, 60, 70, 80}, x[4] = {1, 10, 100, 1000};
    double y[4] = {0}, dia[16];
    int64_t sizes[4], offsets[4], number = 0;
    char sentence[256];
    sparse_handle *a = NULL, *b = NULL;

    CHECK(sparse_create_csr(4, 4, 8, row_ptr, col, values, 4, 1, &a) == RRB_OK);
    CHECK(sparse_multiply(a, x, y) == RRB_OK);
    CHECK(y[0] == 2010 && y[1] == 40300 && y[2] == 76050 && y[3] == 80000);
    CHECK(sparse_multiply_transposed(a, x, y) == RRB_OK);
    CHECK(y[0] == 5010 && y[1] == 300 && y[2] == 6020 && y[3] == 87400);
    CHECK(sparse_sizes(a, RRB_FORMAT_DIA, sizes) == RRB_OK);
    CHECK(sizes[0] == 4 && sizes[1] == 0 && sizes[2] == 0 && sizes[3] == 16);
    CHECK(sparse_arrays(a, RRB_FORMAT_DIA, offsets, NULL, NULL, dia) == RRB_OK);
    CHECK(offsets[0] == -2 && offsets[3] == 2 && dia[2] == 50 && dia[12] == 20);
    CHECK(sparse_create_from(RRB_FORMAT_DIA, 4, 4, sizes, offsets, NULL, NULL, dia, &b) == RRB_OK);
    CHECK(sparse_set_options(b, "format=sell slice=2") == RRB_OK);
    CHECK(sparse_multiply(b, x, y) == RRB_OK && y[2] == 76050);
    CHECK(sparse_get_int(b, RRB_INFO_FORMAT, &number) == RRB_OK && number == RRB_FORMAT_SELL);
    CHECK(sparse_destroy(&b) == RRB_OK && b == NULL);

    /* A triangle of a symmetric matrix. */
    CHECK(sparse_create_coo(2, 2, 3, (const int32_t[]){1, 2, 2}, (const int32_t[]){1, 1, 2}, values, 4, 1, &b) ==
          RRB_OK);
    CHECK(sparse_factorize(b) == RRB_OK);
    CHECK(sparse_get_int(b, RRB_INFO_TRIANGLE, &number) == RRB_OK && number == RRB_TRIANGLE_LOWER);
    CHECK(sparse_destroy(&b) == RRB_OK);

    /* An unsymmetric matrix: idr with ilu0. */
    CHECK(sparse_solve(a, y, dia) == RRB_ERR_STATE);
    CHECK(sparse_set_options(a, "rel_tol=1e-12") == RRB_OK && sparse_factorize(a) == RRB_OK);
    CHECK(sparse_multiply(a, x, y) == RRB_OK);
    memset(dia, 0, sizeof dia);
    CHECK(sparse_solve(a, y, dia) == RRB_OK);
    for (int i = 0; i < 4; ++i) {
        /* The condition number of the sample is below 10: the relative error is at most 10 times the residual. */
        CHECK(fabs(dia[i] - x[i]) < 1e-8);
    }
    CHECK(sparse_get_int(a, RRB_INFO_SOLVER, &number) == RRB_OK && number == RRB_SOLVER_IDR);
    CHECK(sparse_apply(a, y, dia) == RRB_OK);
    CHECK(sparse_set_int(a, RRB_OPT_SOLVER, RRB_SOLVER_CG) == RRB_OK && sparse_factorize(a) == RRB_ERR_MATRIX);
    CHECK(rrbsolver_last_error(sentence, (int64_t)sizeof sentence) > 1 && strstr(sentence, "symmetric") != NULL);

    CHECK(sparse_write(a, "sparse_c.rsa.gz", RRB_FILE_HB) == RRB_OK);
    CHECK(sparse_read("sparse_c.rsa.gz", &b) == RRB_OK);
    CHECK(remove("sparse_c.rsa.gz") == 0);
    CHECK(sparse_multiply(b, x, y) == RRB_OK && y[2] == 76050);
    CHECK(sparse_set_values(b, values) == RRB_OK);
    CHECK(sparse_get_vector(b, RRB_VECTOR_RHS, 0, y) == RRB_ERR_ARGUMENT);
    CHECK(sparse_read("none.mtx", &a) == RRB_ERR_IO && a != NULL);
    CHECK(rrbsolver_last_error(sentence, (int64_t)sizeof sentence) > 1 && strstr(sentence, "none.mtx") != NULL);
    CHECK(sparse_destroy(&a) == RRB_OK && sparse_destroy(&b) == RRB_OK);
    puts("sparse matrices in C: all as documented");
    return 0;
}
