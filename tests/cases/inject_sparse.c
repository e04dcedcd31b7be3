/* Checks the calls of the family sparse_ when memory allocation fails: `inject_sparse AT_LEAST SITES`, as inject.c does
   for the families on grids. After a failed factorization, solve returns RRB_ERR_STATE and the next factorization
   works. The solution must be bitwise identical to the solution without failures. The reference handle keeps data of
   the previous matrix (amg keeps its aggregates). If the previous factorization failed, the reference is a new handle.
 */

#include <stdint.h>

/* Points of a grid, with enough rows for several threads. */
enum { NX = 150, NY = 120, N = NX * NY, ENTRIES = 5 * N };

/* Results without failures: for the first values, the second values after them, and the second values alone. */
struct solutions {
    double x[3][N];
};

#include "inject.h"

static const char *const METHODS[] = {
    "preconditioner=ic0",
    "solver=cg preconditioner=chebyshev format=sell",
    "solver=cg preconditioner=amg",
    "solver=minres format=dia",
    "solver=bicg preconditioner=ilu0 transpose=copy format=csr",
    "solver=bicgstab preconditioner=neumann precision=f32",
    "solver=gmres preconditioner=ssor restart=10 format=bsr",
    "solver=idr preconditioner=jacobi format=ell",
    "solver=steepest_descent preconditioner=ic0 ordering=multicolour",
    "solver=sor ordering=natural",
    "solver=sor ordering=multicolour format=skyline",
    "solver=gauss_seidel ordering=blocks",
};
enum { COUNT = sizeof METHODS / sizeof METHODS[0] };
static int chosen;

static int32_t row_ptr[N + 1], col[ENTRIES];
static double values[2][ENTRIES], rhs[N], x[N];

/* Diagonally dominant matrices: 4.5 and -1, then 5 and -1; symmetric for the methods that need symmetry. */
static void prepare(void)
{
    int count = 0;
    for (int p = 0; p < N; p++) {
        int i = p % NX, j = p / NX;
        int there[5] = {j > 0, i > 0, 1, i + 1 < NX, j + 1 < NY}, to[5] = {p - NX, p - 1, p, p + 1, p + NX};
        row_ptr[p] = count;
        for (int k = 0; k < 5; k++) {
            if (!there[k])
                continue;
            col[count] = to[k];
            values[0][count] = k == 2 ? 4.5 : -1;
            values[1][count] = k == 2 ? 5 : -1;
            count++;
        }
        rhs[p] = (p * 7919 % 1013) / 1013.0 - 0.5;
    }
    row_ptr[N] = count;
}

static rrb_status create(sparse_handle **h)
{
    return sparse_create_csr(N, N, row_ptr[N], row_ptr, col, values[0], 4, 0, h);
}

static void options(char *text, size_t room)
{
    snprintf(text, room, "log=/dev/null rel_tol=1e-8 threads=2 %s", METHODS[chosen]);
}

static void solve(sparse_handle *h)
{
    memset(x, 0, sizeof x);
    must(sparse_solve(h, rhs, x), RRB_OK, "solve");
}

static void factorized(sparse_handle *h, int refused, int which)
{
    if (refused) {
        must(sparse_solve(h, rhs, x), RRB_ERR_STATE, "solve after a refused factorization");
        must(sparse_factorize(h), RRB_OK, "factorize");
    }
    solve(h);
    if (memcmp(x, results->solutions.x[which == 1 && refused ? 2 : which], sizeof x) != 0)
        complain("the solution has other bits");
}

enum { CREATE, SET, PRODUCT, FACTORIZE, VALUES, ANOTHER, SOLVE, PHASES };

static void method_case(void)
{
    sparse_handle *h = NULL;
    char text[200];
    options(text, sizeof text);
    refuse(CREATE);
    if (watched(create(&h))) {
        if (h)
            complain("a handle in spite of the refusal");
        must(create(&h), RRB_OK, "create");
    }
    refuse(SET);
    if (watched(sparse_set_options(h, text)))
        must(sparse_set_options(h, text), RRB_OK, "set_options");
    refuse(PRODUCT);
    watched(sparse_multiply(h, rhs, x));
    refuse(FACTORIZE);
    factorized(h, watched(sparse_factorize(h)), 0);
    refuse(VALUES);
    if (watched(sparse_set_values(h, values[1])))
        must(sparse_set_values(h, values[1]), RRB_OK, "set_values");
    refuse(ANOTHER);
    factorized(h, watched(sparse_factorize(h)), 1);
    refuse(SOLVE);
    memset(x, 0, sizeof x);
    watched(sparse_solve(h, rhs, x));
    sparse_destroy(&h);
}

/* Computes the results without failures. */
static void solve_all(void)
{
    sparse_handle *h = NULL;
    char text[200];
    options(text, sizeof text);
    must(create(&h), RRB_OK, "create");
    must(sparse_set_options(h, text), RRB_OK, "set_options");
    for (int which = 0; which < 3; which++) {
        if (which == 2) {
            sparse_destroy(&h);
            must(create(&h), RRB_OK, "create");
            must(sparse_set_options(h, text), RRB_OK, "set_options");
        }
        must(sparse_set_values(h, values[which > 0]), RRB_OK, "set_values");
        must(sparse_factorize(h), RRB_OK, "factorize");
        solve(h);
        memcpy(results->solutions.x[which], x, sizeof x);
    }
    sparse_destroy(&h);
}

int main(int count_of_arguments, char **arguments)
{
    if (begin(count_of_arguments, arguments) != 0) {
        fprintf(stderr, "inject_sparse AT_LEAST SITES\n");
        return 2;
    }
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    prepare();
    for (chosen = 0; chosen < COUNT; chosen++) {
        snprintf(place, sizeof place, "sparse %s", METHODS[chosen]);
        run(solve_all, -1);
        refuse_all(method_case, PHASES, SOLVE);
    }
    return end();
}
