/* Checks each call when memory allocation fails: `inject AT_LEAST SITES [device]`.

   Each request of a call for AT_LEAST bytes or more fails once alone, and once together with all later requests. Each
   failure has a process of its own. For calls with more than SITES requests, only about SITES of them are tried (0:
   all). With `device`, handles use the first CUDA device.

   The process must survive. The call must return RRB_ERR_MEMORY with an error message, or continue without the memory.
   The handle must remain usable: after a failed factorization, solve returns RRB_ERR_STATE and the next factorization
   works. The solution must be bitwise identical to the solution without failures. The last line counts the failures;
   the exit status is 1 if a check failed. */

#include <stdint.h>

/* Rows of more than 4 KB, and a grid of 24,000 points: enough for several threads and for the choices of `auto`.
   Smaller on a device, because an emulated device is slow. */
enum { NX = 600, NY = 40, N = NX * NY };
static int nx = NX, ny = NY;
/* PX x PY x PZ patches of 8^3 cells in a slab, so that lists of patches need more than a kilobyte. */
enum { PX = 6, PY = 5, PZ = 2, PATCHES = PX * PY * PZ, SIDE = 8, CELLS = SIDE * SIDE * SIDE };
enum { GHOSTED = (SIDE + 2) * (SIDE + 2) * (SIDE + 2) };

/* Cells of a two-phase box, enough for several threads. */
enum { BX = 30, BY = 20, BZ = 30, BOX = BX * BY * BZ };
static int bx = BX, by = BY, bz = BZ;

/* Results without failures. */
struct solutions {
    /* For the first matrix, the second matrix after it, the second matrix on a new handle, and rrb_solve_once. */
    double solutions[4][N];
    /* u of a smoother after all calls. */
    double u[PATCHES][GHOSTED];
    /* For a box: the first matrix, the second matrix after it, and the second matrix on a new handle. */
    double pressures[3][BOX];
    /* Number of factorizations that continued with another preconditioner than `auto` selects with enough memory. */
    long with_another[2];
};

#include "inject.h"

/* ---- Two-dimensional systems ---- */

typedef struct {
    double center[N], east[N], north[N], northeast[N], northwest[N];
    int nine_points;
} matrix;

static matrix first_matrix, second_matrix;
static double rhs[N];

/* STRONG has strong couplings to the east, so that `auto` selects aggregation, or levels if memory is insufficient. */
typedef enum { REGULAR, NINE_POINTS, SINGULAR, COASTS, STRONG } kind;

static int is_land(kind k, int i, int j)
{
    return k == COASTS && (i * 7 + j * 13) % 11 == 0;
}

/* Sets couplings of -1 between nodes that are not land. Each center is minus the sum of the couplings, plus a mass in
   regular systems. */
static void fill(matrix *a, kind k)
{
    memset(a, 0, sizeof *a);
    a->nine_points = k == NINE_POINTS;
    for (int j = 0; j < ny; j++) {
        for (int i = 0; i < nx; i++) {
            double sum = 0;
            for (int dj = -1; dj <= 1; dj++) {
                for (int di = -1; di <= 1; di++) {
                    int straight = abs(di) + abs(dj) == 1, diagonal = abs(di) + abs(dj) == 2;
                    if (!straight && !(diagonal && a->nine_points))
                        continue;
                    int other_i = i + di, other_j = j + dj;
                    if (other_i < 0 || other_i >= nx || other_j < 0 || other_j >= ny)
                        continue;
                    if (is_land(k, i, j) || is_land(k, other_i, other_j))
                        continue;
                    int c = j * nx + i;
                    double east = k == STRONG ? 1024 : 1;
                    if (di == 1 && dj == 0)
                        a->east[c] = -east;
                    if (di == 0 && dj == 1)
                        a->north[c] = -1;
                    if (di == 1 && dj == 1)
                        a->northeast[c] = -1;
                    if (di == -1 && dj == 1)
                        a->northwest[c] = -1;
                    sum += dj == 0 ? east : 1;
                }
            }
            double more = k == SINGULAR || k == COASTS ? 0 : 0.1;
            a->center[j * nx + i] = sum > 0 ? sum + more : 1;
        }
    }
}

static rrb_status factorize(rrb_handle *h, const matrix *a)
{
    return rrb_factorize(h, a->center, a->east, a->north, a->nine_points ? a->northeast : NULL,
                         a->nine_points ? a->northwest : NULL);
}

typedef struct {
    const char *options;
    kind first, second;
} system_of_kinds;

static const system_of_kinds ON_THE_HOST[] = {
    {"threads=3", REGULAR, SINGULAR},
    {"threads=1 max_iter=5000", REGULAR, NINE_POINTS},
    {"threads=2 precision=f64 cycle=v", NINE_POINTS, COASTS},
    {"threads=3 precision=f64 cycle=amli", COASTS, REGULAR},
    {"threads=2 precision=f32 cycle=k", REGULAR, COASTS},
    {"threads=1 precision=bf16 cycle=amli", SINGULAR, REGULAR},
    {"threads=3 precision=mixed", REGULAR, NINE_POINTS},
    {"threads=2 precision=mixed cycle=v fusion=off", SINGULAR, REGULAR},
    {"threads=1 backend=reference", REGULAR, SINGULAR},
    {"threads=2 verbosity=2 null_space=constant", SINGULAR, COASTS},
    {"threads=2 levels=4 lumping=m2m", NINE_POINTS, REGULAR},
    {"threads=2", STRONG, STRONG},
};
static const system_of_kinds ON_A_DEVICE[] = {
    {"backend=cuda", REGULAR, SINGULAR},
    {"backend=cuda precision=f64 cycle=v", COASTS, NINE_POINTS},
    {"backend=cuda precision=f32 cycle=amli", NINE_POINTS, REGULAR},
    {"backend=cuda levels=4 threads=2", REGULAR, COASTS},
};
static const system_of_kinds *systems = ON_THE_HOST;
static int system_count = sizeof ON_THE_HOST / sizeof ON_THE_HOST[0];

static int chosen;
static double x[N];
static const double REL_TOL = 1e-8;

static void solve_to(rrb_handle *h, double *solution)
{
    memset(solution, 0, sizeof x);
    must(rrb_solve(h, rhs, solution), RRB_OK, "solve");
}

/* Whether a handle has switched to another preconditioner, which it keeps from then on. */
static int with_another;

static void same_bits(const double *solution, const char *what)
{
    if (!with_another && memcmp(x, solution, sizeof x) != 0)
        complain("%s has other bits", what);
}

/* Checks a handle after a factorization that may have failed: it works, and its solution is correct. */
static void factorized(rrb_handle *h, const matrix *a, int refused, const double *here, const double *anew)
{
    if (refused) {
        must(rrb_solve(h, rhs, x), RRB_ERR_STATE, "solve after a refused factorization");
        must(factorize(h, a), RRB_OK, "factorize");
    }
    solve_to(h, x);
    int64_t cycle = 0;
    rrb_get_int(h, RRB_INFO_CYCLE, &cycle);
    if (systems[chosen].first == STRONG && cycle != RRB_CYCLE_AGGREGATION) {
        results->solutions.with_another[0]++;
        with_another = 1;
    }
    same_bits(refused ? anew : here, "the solution");
}

/* Returns options with a history longer than the initial one. Log lines of verbose solves are discarded. */
static void options_of_system(char *text, size_t room)
{
    snprintf(text, room, "max_iter=9000 log=/dev/null %s", systems[chosen].options);
}

static rrb_status solve_once(double *solution)
{
    const matrix *a = &first_matrix;
    memset(solution, 0, sizeof x);
    return rrb_solve_once(nx, ny, a->center, a->east, a->north, a->nine_points ? a->northeast : NULL,
                          a->nine_points ? a->northwest : NULL, rhs, solution, REL_TOL, 9000, NULL);
}

enum { CREATE, SET, FACTORIZE, FACTORIZE_ANOTHER, FACTORIZE_AGAIN, SOLVE, SOLVE_ONCE, SYSTEM_PHASES };

static void system_case(void)
{
    rrb_handle *h = NULL;
    refuse(CREATE);
    if (watched(rrb_create(nx, ny, &h))) {
        if (h)
            complain("a handle in spite of the refusal");
        must(rrb_create(nx, ny, &h), RRB_OK, "create");
    }
    must(rrb_set_real(h, RRB_OPT_REL_TOL, REL_TOL), RRB_OK, "set_real");
    refuse(SET);
    char text[200];
    options_of_system(text, sizeof text);
    int64_t before = 0, after = 0;
    rrb_get_int(h, RRB_OPT_MAX_ITER, &before);
    if (watched(rrb_set_options(h, text))) {
        rrb_get_int(h, RRB_OPT_MAX_ITER, &after);
        if (after != before)
            complain("options of a refused call are set");
        must(rrb_set_options(h, text), RRB_OK, "set_options");
    }
    refuse(FACTORIZE);
    int refused = watched(factorize(h, &first_matrix));
    factorized(h, &first_matrix, refused, results->solutions.solutions[0], results->solutions.solutions[0]);
    refuse(FACTORIZE_ANOTHER);
    refused = watched(factorize(h, &second_matrix));
    factorized(h, &second_matrix, refused, results->solutions.solutions[1], results->solutions.solutions[2]);
    refuse(FACTORIZE_AGAIN);
    refused = watched(factorize(h, &second_matrix));
    /* On a new handle, `auto` need not make the choice of the first handle. */
    const double *here = phase_wanted == FACTORIZE_ANOTHER ? x : results->solutions.solutions[1];
    factorized(h, &second_matrix, refused, here, results->solutions.solutions[2]);
    refuse(SOLVE);
    memset(x, 0, sizeof x);
    watched(rrb_solve(h, rhs, x));
    if (phase_wanted < FACTORIZE_ANOTHER || phase_wanted >= SOLVE)
        same_bits(results->solutions.solutions[1], "the last solution");
    rrb_destroy(&h);

    refuse(SOLVE_ONCE);
    /* rrb_solve_once does not report which preconditioner it used. */
    with_another |= phase_wanted == SOLVE_ONCE && systems[chosen].first == STRONG;
    if (!watched(solve_once(x)))
        same_bits(results->solutions.solutions[3], "the solution of rrb_solve_once");
}

/* Creates a right-hand side that is orthogonal to all null spaces: the values of two neighbours cancel on every region.
 */
static void prepare_system(void)
{
    fill(&first_matrix, systems[chosen].first);
    fill(&second_matrix, systems[chosen].second);
    memset(rhs, 0, sizeof rhs);
    for (int j = 0; j < ny; j++) {
        for (int i = 0; i + 1 < nx; i++) {
            if (is_land(COASTS, i, j) || is_land(COASTS, i + 1, j))
                continue;
            double value = ((j * nx + i) * 7919 % 1013) / 1013.0 - 0.5;
            rhs[j * nx + i] += value;
            rhs[j * nx + i + 1] -= value;
        }
    }
}

static rrb_handle *made(const char *options)
{
    rrb_handle *h = NULL;
    must(rrb_create(nx, ny, &h), RRB_OK, "create");
    must(rrb_set_real(h, RRB_OPT_REL_TOL, REL_TOL), RRB_OK, "set_real");
    must(rrb_set_options(h, options), RRB_OK, "set_options");
    return h;
}

/* Computes the results without failures. */
static void solve_all(void)
{
    char text[200];
    options_of_system(text, sizeof text);
    rrb_handle *h = made(text);
    must(factorize(h, &first_matrix), RRB_OK, "factorize");
    solve_to(h, results->solutions.solutions[0]);
    must(factorize(h, &second_matrix), RRB_OK, "factorize");
    solve_to(h, results->solutions.solutions[1]);
    rrb_destroy(&h);
    h = made(text);
    must(factorize(h, &second_matrix), RRB_OK, "factorize");
    solve_to(h, results->solutions.solutions[2]);
    rrb_destroy(&h);
    must(solve_once(results->solutions.solutions[3]), RRB_OK, "rrb_solve_once");
}

/* ---- Threads that cannot be started ---- */

static long threads_given;

static void threads_case(void)
{
    rrb_handle *h = NULL;
    must(rrb_create(nx, ny, &h), RRB_OK, "create");
    must(rrb_set_options(h, "threads=4"), RRB_OK, "set_options");
    failmalloc_threads(threads_given);
    rrb_status status = factorize(h, &first_matrix);
    failmalloc_threads(-1);
    if (status != (threads_given < 3 ? RRB_ERR_MEMORY : RRB_OK))
        complain("factorize with %ld threads answers %d", threads_given, status);
    if (status == RRB_ERR_MEMORY) {
        must(rrb_solve(h, rhs, x), RRB_ERR_STATE, "solve");
        must(factorize(h, &first_matrix), RRB_OK, "factorize");
    }
    must(rrb_solve(h, rhs, x), RRB_OK, "solve");
    rrb_destroy(&h);
    last_status = status;
}

/* ---- Block smoothers ---- */

typedef struct {
    const char *options;
    int points;
    /* Options set later, which need more inverses or another array. */
    const char *later;
} smoother_of_points;

static const smoother_of_points BLOCKS_ON_THE_HOST[] = {
    {"threads=3 method=coloured_gauss_seidel", 7, "method=block_jacobi"},
    {"threads=1 method=block_jacobi", 7, "stagger=1"},
    {"threads=2 block_solver=dense method=block_jacobi", 27, "stagger=2"},
    {"threads=1 method=chaotic_gauss_seidel parallel=patch", 7, "method=coloured_gauss_seidel"},
    {"threads=2 method=coloured_gauss_seidel verbosity=2", 27, "method=block_jacobi stagger=1"},
    {"threads=1 backend=reference", 7, "stagger=1"},
};
static const smoother_of_points BLOCKS_ON_A_DEVICE[] = {
    {"backend=cuda method=coloured_gauss_seidel", 7, "method=block_jacobi"},
    {"backend=cuda method=block_jacobi block_solver=dense", 27, "stagger=1"},
};
static const smoother_of_points *smoothers = BLOCKS_ON_THE_HOST;
static int smoother_count = sizeof BLOCKS_ON_THE_HOST / sizeof BLOCKS_ON_THE_HOST[0];

static int64_t lower[PATCHES][3], size[PATCHES][3];
static double u[PATCHES][GHOSTED], f[PATCHES][CELLS], r[PATCHES][CELLS];
static double *u_of[PATCHES], *r_of[PATCHES];
static const double *f_of[PATCHES];
static double stencil[27];

static void prepare_smoother(void)
{
    for (int p = 0; p < PATCHES; p++) {
        int at[3] = {p % PX, p / PX % PY, p / PX / PY};
        for (int d = 0; d < 3; d++) {
            lower[p][d] = SIDE * at[d];
            size[p][d] = SIDE;
        }
        for (int c = 0; c < CELLS; c++)
            f[p][c] = ((p * CELLS + c) * 7919 % 1013) / 1013.0 - 0.5;
        u_of[p] = u[p];
        f_of[p] = f[p];
        r_of[p] = r[p];
    }
    int points = smoothers[chosen].points;
    for (int q = 0; q < points; q++)
        stencil[q] = -1;
    stencil[points == 7 ? 0 : 13] = points;
}

enum { MAKE, SET_TEXT, PATCHES_FIRST, PATCHES_LATER, CHANGE, APPLY, RESIDUAL, EXCHANGE, UPLOAD, DOWNLOAD };
enum { SMOOTHER_PHASES = DOWNLOAD + 1 };

static void smoother_case(void)
{
    smoother_handle *h = NULL;
    int points = smoothers[chosen].points;
    refuse(MAKE);
    if (watched(smoother_create(points, stencil, 4, 4, 4, &h)))
        must(smoother_create(points, stencil, 4, 4, 4, &h), RRB_OK, "create");
    refuse(SET_TEXT);
    char text[200];
    snprintf(text, sizeof text, "log=%s %s", "/dev/null", smoothers[chosen].options);
    if (watched(smoother_set_options(h, text)))
        must(smoother_set_options(h, text), RRB_OK, "set_options");
    /* First all but seven patches, then all. */
    for (int phase = PATCHES_FIRST; phase <= PATCHES_LATER; phase++) {
        int64_t patches = phase == PATCHES_FIRST ? PATCHES - 7 : PATCHES;
        refuse(phase);
        if (watched(smoother_set_patches(h, patches, lower, size))) {
            must(smoother_apply(h, u_of, f_of, 1), RRB_ERR_STATE, "apply after refused patches");
            must(smoother_set_patches(h, patches, lower, size), RRB_OK, "set_patches");
        }
    }
    memset(u, 0, sizeof u);
    must(smoother_apply(h, u_of, f_of, 1), RRB_OK, "apply");
    refuse(CHANGE);
    if (watched(smoother_set_options(h, smoothers[chosen].later))) {
        /* The previous options must still be in use. */
        must(smoother_residual(h, u_of, f_of, NULL, NULL), RRB_OK, "residual");
        must(smoother_set_options(h, smoothers[chosen].later), RRB_OK, "set_options");
    }
    refuse(APPLY);
    watched(smoother_apply(h, u_of, f_of, 2));
    refuse(RESIDUAL);
    double norm = 0;
    watched(smoother_residual(h, u_of, f_of, r_of, &norm));
    refuse(EXCHANGE);
    watched(smoother_exchange(h, u_of));
    refuse(UPLOAD);
    if (watched(smoother_upload(h, (const double *const *)u_of, f_of)))
        must(smoother_upload(h, (const double *const *)u_of, f_of), RRB_OK, "upload");
    must(smoother_apply(h, NULL, NULL, 1), RRB_OK, "apply to what was uploaded");
    refuse(DOWNLOAD);
    if (watched(smoother_download(h, u_of)))
        must(smoother_download(h, u_of), RRB_OK, "download");
    if (refuse_at >= 0 && memcmp(u, results->solutions.u, sizeof u) != 0)
        complain("the values have other bits");
    smoother_destroy(&h);
}

/* Computes the results without failures. */
static void smooth_all(void)
{
    smoother_case();
    memcpy(results->solutions.u, u, sizeof u);
}

/* ---- Boxes of two phases ---- */

static const char *const BOXES_ON_THE_HOST[] = {
    "threads=3 deflation=levelset",
    "threads=1",
    "threads=2 preconditioner=multigrid coarsening=cell precision=f64",
    "threads=2 preconditioner=neumann",
    "threads=3 preconditioner=ic0 deflation=subdomain coarse_solver=cg",
    "threads=2 preconditioner=ric deflation=levelset_subdomain coarse_solver=cholesky keep_all=1 verbosity=2",
    "threads=2 preconditioner=neumann order=4 deflation=none fusion=off",
    "threads=1 backend=reference preconditioner=jacobi",
};
static const char *const BOXES_ON_A_DEVICE[] = {
    "backend=cuda deflation=levelset",
    "backend=cuda preconditioner=neumann",
    "backend=cuda preconditioner=neumann deflation=subdomain coarse_solver=cholesky",
};
static const char *const *boxes = BOXES_ON_THE_HOST;
static int box_count = sizeof BOXES_ON_THE_HOST / sizeof BOXES_ON_THE_HOST[0];

typedef struct {
    double center[BOX], forward[3][BOX];
} box_matrix;

static box_matrix first_box, second_box;
static double source[BOX], pressure[BOX];
static int32_t labels[BOX];

/* Conductances of 1 and 1000: two bubbles, whose positions are shifted by `moved`. */
static void fill_box(box_matrix *a, int moved)
{
    int size[3] = {bx, by, bz}, steps[3] = {1, bx, bx * by};
    memset(a, 0, sizeof *a);
    for (int c = 0; c < bx * by * bz; c++) {
        int at[3] = {c % bx, c / bx % by, c / bx / by};
        int low = 1, high = 1;
        for (int d = 0; d < 3; d++) {
            low &= at[d] > 1 + moved && at[d] < size[d] / 2 - 1;
            high &= at[d] > size[d] / 2 && at[d] < size[d] - 2;
        }
        labels[c] = low ? 3 : high ? 7 : -1;
    }
    for (int d = 0; d < 3; d++) {
        for (int c = 0; c < bx * by * bz; c++) {
            if (c / steps[d] % size[d] + 1 == size[d])
                continue;
            int next = c + steps[d];
            double coupling = labels[c] >= 0 && labels[next] >= 0 ? 1000 : 1;
            a->forward[d][c] = -coupling;
            a->center[c] += coupling;
            a->center[next] += coupling;
        }
    }
}

static rrb_status factorize_box(dpcg_handle *h, const box_matrix *a)
{
    return dpcg_factorize(h, a->center, a->forward[0], a->forward[1], a->forward[2]);
}

static dpcg_handle *box_of(const char *options)
{
    dpcg_handle *h = NULL;
    must(dpcg_create(bx, by, bz, &h), RRB_OK, "create");
    must(dpcg_set_options(h, options), RRB_OK, "set_options");
    return h;
}

static void options_of_box(char *text, size_t room)
{
    snprintf(text, room, "max_iter=9000 log=/dev/null rel_tol=1e-8 %s", boxes[chosen]);
}

static void solve_box(dpcg_handle *h, double *solution)
{
    memset(solution, 0, sizeof pressure);
    must(dpcg_solve(h, source, solution), RRB_OK, "solve");
}

static void same_pressure(const double *solution, const char *what)
{
    if (memcmp(pressure, solution, sizeof pressure) != 0)
        complain("%s has other bits", what);
}

static void box_factorized(dpcg_handle *h, const box_matrix *a, int refused, const double *expected)
{
    if (refused) {
        must(dpcg_solve(h, source, pressure), RRB_ERR_STATE, "solve after a refused factorization");
        must(factorize_box(h, a), RRB_OK, "factorize");
    }
    solve_box(h, pressure);
    same_pressure(expected, "the solution");
}

enum { BOX_CREATE, BOX_SET, BOX_REGIONS, BOX_FACTORIZE, BOX_ANOTHER, BOX_SOLVE, BOX_APPLY, BOX_PHASES };

static void box_case(void)
{
    dpcg_handle *h = NULL;
    char text[200];
    options_of_box(text, sizeof text);
    refuse(BOX_CREATE);
    if (watched(dpcg_create(bx, by, bz, &h))) {
        if (h)
            complain("a handle in spite of the refusal");
        must(dpcg_create(bx, by, bz, &h), RRB_OK, "create");
    }
    refuse(BOX_SET);
    if (watched(dpcg_set_options(h, text)))
        must(dpcg_set_options(h, text), RRB_OK, "set_options");
    refuse(BOX_REGIONS);
    if (watched(dpcg_set_regions(h, labels)))
        must(dpcg_set_regions(h, labels), RRB_OK, "set_regions");
    refuse(BOX_FACTORIZE);
    int refused = watched(factorize_box(h, &first_box));
    box_factorized(h, &first_box, refused, results->solutions.pressures[0]);
    refuse(BOX_ANOTHER);
    refused = watched(factorize_box(h, &second_box));
    box_factorized(h, &second_box, refused, results->solutions.pressures[refused ? 2 : 1]);
    refuse(BOX_SOLVE);
    memset(pressure, 0, sizeof pressure);
    if (!watched(dpcg_solve(h, source, pressure)))
        same_pressure(results->solutions.pressures[1], "the last solution");
    refuse(BOX_APPLY);
    watched(dpcg_apply(h, source, pressure));
    dpcg_destroy(&h);
}

/* Creates a source that is orthogonal to the null space: the values of two neighbours cancel. */
static void prepare_box(void)
{
    fill_box(&second_box, 1);
    fill_box(&first_box, 0);
    memset(source, 0, sizeof source);
    for (int c = 0; c + 1 < bx * by * bz; c++) {
        double value = (c * 7919 % 1013) / 1013.0 - 0.5;
        source[c] += value;
        source[c + 1] -= value;
    }
}

/* Creates rods of strong couplings in flat cells, which coarse grids do not resolve. `auto` selects amg, or multigrid
   if memory is insufficient. */
static void fill_crowd(box_matrix *a)
{
    int size[3] = {bx, by, bz}, steps[3] = {1, bx, bx * by};
    memset(a, 0, sizeof *a);
    for (int d = 0; d < 3; d++) {
        for (int c = 0; c < bx * by * bz; c++) {
            int i = c % bx, j = c / bx % by, k = c / bx / by;
            if (c / steps[d] % size[d] + 1 == size[d])
                continue;
            int next = c + steps[d], in_rod = d == 0 && i % 8 > 0 && i % 8 < 6 && j % 4 == 2 && k % 4 == 2;
            double coupling = (in_rod ? 1000 : 1) * (d == 2 ? 0.0625 : 1);
            a->forward[d][c] = -coupling;
            a->center[c] += coupling;
            a->center[next] += coupling;
        }
    }
}

static void crowd_case(void)
{
    dpcg_handle *h = box_of("rel_tol=1e-8 threads=2");
    refuse(0);
    int refused = watched(factorize_box(h, &first_box));
    if (refused) {
        must(dpcg_solve(h, source, pressure), RRB_ERR_STATE, "solve after a refused factorization");
        must(factorize_box(h, &first_box), RRB_OK, "factorize");
    }
    solve_box(h, pressure);
    int64_t preconditioner = 0;
    dpcg_get_int(h, RRB_INFO_PRECONDITIONER, &preconditioner);
    if (preconditioner != RRB_PRECONDITIONER_AMG && preconditioner != RRB_PRECONDITIONER_MULTIGRID)
        complain("preconditioner %ld", (long)preconditioner);
    results->solutions.with_another[1] += preconditioner == RRB_PRECONDITIONER_MULTIGRID;
    dpcg_destroy(&h);
}

/* Computes the results without failures. */
static void solve_boxes(void)
{
    char text[200];
    options_of_box(text, sizeof text);
    for (int anew = 0; anew < 2; anew++) {
        dpcg_handle *h = box_of(text);
        must(dpcg_set_regions(h, labels), RRB_OK, "set_regions");
        if (!anew) {
            must(factorize_box(h, &first_box), RRB_OK, "factorize");
            solve_box(h, results->solutions.pressures[0]);
        }
        must(factorize_box(h, &second_box), RRB_OK, "factorize");
        solve_box(h, results->solutions.pressures[1 + anew]);
        dpcg_destroy(&h);
    }
}

int main(int count_of_arguments, char **arguments)
{
    int device = count_of_arguments == 4 && strcmp(arguments[3], "device") == 0;
    if (count_of_arguments != 3 && !device) {
        fprintf(stderr, "inject AT_LEAST SITES [device]\n");
        return 2;
    }
    if (begin(count_of_arguments, arguments) != 0)
        return 2;
    if (device) {
        failmalloc_only_of((const void *)rrb_create);
        nx = 40;
        ny = 16;
        systems = ON_A_DEVICE;
        system_count = sizeof ON_A_DEVICE / sizeof ON_A_DEVICE[0];
        smoothers = BLOCKS_ON_A_DEVICE;
        smoother_count = sizeof BLOCKS_ON_A_DEVICE / sizeof BLOCKS_ON_A_DEVICE[0];
        bx = 12;
        by = 10;
        bz = 12;
        boxes = BOXES_ON_A_DEVICE;
        box_count = sizeof BOXES_ON_A_DEVICE / sizeof BOXES_ON_A_DEVICE[0];
    } else {
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
    }
    for (chosen = 0; chosen < system_count; chosen++) {
        snprintf(place, sizeof place, "rrb %s", systems[chosen].options);
        prepare_system();
        run(solve_all, -1);
        refuse_all(system_case, SYSTEM_PHASES, device ? NONE : SOLVE);
    }
    chosen = 0;
    prepare_system();
    for (threads_given = 0; threads_given < 5 && !device; threads_given++) {
        snprintf(place, sizeof place, "rrb with %ld of 3 threads", threads_given);
        refuse_one(threads_case, -1, -1, 0);
    }
    for (chosen = 0; chosen < smoother_count; chosen++) {
        snprintf(place, sizeof place, "smoother %s", smoothers[chosen].options);
        prepare_smoother();
        run(smooth_all, -1);
        refuse_all(smoother_case, SMOOTHER_PHASES, device ? NONE : APPLY);
    }
    for (chosen = 0; chosen < box_count; chosen++) {
        snprintf(place, sizeof place, "dpcg %s", boxes[chosen]);
        prepare_box();
        run(solve_boxes, -1);
        refuse_all(box_case, BOX_PHASES, device ? NONE : BOX_SOLVE);
    }
    if (!device) {
        snprintf(place, sizeof place, "dpcg with many bubbles");
        chosen = 1;
        prepare_box();
        fill_crowd(&first_box);
        refuse_all(crowd_case, 1, -1);
        for (int k = 0; k < 2; k++) {
            if (results->solutions.with_another[k] == 0) {
                printf("no factorization went on with %s\n", k == 0 ? "levels" : "multigrid");
                failures += 1;
            }
        }
    }
    return end();
}
