/* rrbsolver.h: stencil solvers for simulators. C99 and C++.
 *
 * Threads: different handles are independent; one handle is used by one thread at a time; handles may move between
 * threads. The library uses threads of its own (option threads), never a global pool. Callbacks come on the calling
 * thread, between iterations, with no lock held; they must not use the handle that calls them.
 *
 * Statuses: every function that can fail returns an rrb_status, named below. A failing call leaves a sentence for its
 * thread, read by rrbsolver_last_error.
 *
 * Arrays: a[j*ld + i], i = 0..nx-1 fastest, ld = nx unless the option leading_dimension says otherwise. Pointers are
 * borrowed for the call only; an array that is written must overlap no other of the call. Handles: X_create makes one, X_destroy frees it and
 * sets the pointer to NULL.
 *
 * Numbers are append-only: a published one never changes its meaning.
 *
 * Generated from the library's sources; do not edit. */

#ifndef RRBSOLVER_H
#define RRBSOLVER_H

#include <stdint.h>

/* Version of this header; rrbsolver_version() tells that of the library. */
#define RRBSOLVER_VERSION_MAJOR 0
#define RRBSOLVER_VERSION_MINOR 1
#define RRBSOLVER_VERSION_PATCH 0

/* Statuses. 0: done. Positive: finished with a caveat, outputs are written and usable. Negative: failed. */
#define RRB_OK                   0  /* done */
#define RRB_NOT_CONVERGED        1  /* the tolerance was not reached; x is the last iterate */
#define RRB_STOPPED              2  /* the monitor asked to stop; x is the iterate at the stop */
#define RRB_ERR_NULL          (-1)  /* a required pointer is NULL */
#define RRB_ERR_ARGUMENT      (-2)  /* a value is out of range, or arrays overlap */
#define RRB_ERR_DIMENSION     (-3)  /* an extent is below 1, or their product is too large */
#define RRB_ERR_OPTION        (-4)  /* unknown option key, option name or choice */
#define RRB_ERR_STATE         (-5)  /* calls in the wrong order: factorize must come (again) before this call */
#define RRB_ERR_UNSUPPORTED   (-6)  /* not offered by this build or this method */
#define RRB_ERR_MATRIX       (-20)  /* zero or negative center or pivot */
#define RRB_ERR_NOT_FINITE   (-21)  /* NaN or infinity in an input array, or a result too large for a double */
#define RRB_ERR_BREAKDOWN    (-22)  /* the matrix or the preconditioner is indefinite; x is as given */
#define RRB_ERR_INCOMPATIBLE (-23)  /* singular system whose right-hand side has a component in the null space */
#define RRB_ERR_MEMORY       (-30)  /* out of memory, or above a memory limit */
#define RRB_ERR_NO_DEVICE    (-40)  /* no CUDA driver or device */
#define RRB_ERR_DEVICE       (-41)  /* the CUDA driver reported an error */
#define RRB_ERR_IO           (-50)  /* a file could not be read or written */
#define RRB_ERR_PARSE        (-51)  /* a file or text could not be understood */
#define RRB_ERR_INTERNAL     (-99)  /* a defect of this library */

/* Options: keys of set and get. */
#define RRB_OPT_BACKEND               100  /* where the solver runs; auto: cuda where a device is and the problem is
                                              large enough, else cpu */
#define RRB_OPT_DEVICE                101  /* CUDA ordinal */
#define RRB_OPT_THREADS               102  /* threads of the handle's own team; 0: RRBSOLVER_NUM_THREADS,
                                              SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, affinity mask, in that order */
#define RRB_OPT_MEMORY                103  /* where the caller's arrays are; auto asks the driver */
#define RRB_OPT_REL_TOL               104  /* stop when norm(r) <= max(rel_tol * reference, abs_tol) */
#define RRB_OPT_ABS_TOL               105  /* see rel_tol; unit of the tested norm */
#define RRB_OPT_MAX_ITER              106  /* iterations at most; 0 only evaluates the residual */
#define RRB_OPT_NORM                  107  /* true2: 2-norm of b - A x on the whole grid; preconditioned: sqrt(r'
                                              M^-1 r), as in the papers */
#define RRB_OPT_REFERENCE             108  /* rhs: the same norm of b (projected where singular, reduced to S1 for
                                              preconditioned); initial: of r0 */
#define RRB_OPT_NULL_SPACE            109  /* auto: a connected component is singular iff |row sum| <= 1e-12 * center
                                              in all its rows; constant: iff <= 1e-6 * center */
#define RRB_OPT_CHECK_INPUT           110  /* refuse NaN and infinity in input arrays */
#define RRB_OPT_CHECK_COMPATIBILITY   111  /* refuse b with |sum b| > 1e-10 ||b||_1 over a singular component instead
                                              of projecting it */
#define RRB_OPT_VERBOSITY             112  /* 0: silent; 1: a line a solve; 2: a line an iteration */
#define RRB_OPT_LOG                   113  /* where lines go: callback, stderr, or the path (without blanks and
                                              commas) of a file to append to */
#define RRB_OPT_LEVELS                200  /* number of red eliminations; 0: by size; more than the grid has: all it
                                              has */
#define RRB_OPT_COARSE_MEMORY         201  /* bytes the exact factor of the remainder may take */
#define RRB_OPT_GRIDS                 202  /* number g of r1/r2/b1/b2 grids; 0: by size; more than g_max: g_max */
#define RRB_OPT_COMPUTE_BLOCK         203  /* row padding and border of the r1/r2/b1/b2 arrays */
#define RRB_OPT_LUMPING               204  /* nodes lumped: m1 red, m2 red and black; the text shorthands m1u, m1m,
                                              m2u, m2m set relaxation too (0 or 1) */
#define RRB_OPT_RELAXATION            205  /* omega: the part of a dropped coupling that is added to the diagonal */
#define RRB_OPT_FUSION                206  /* on: fused stages where the backend has them; off: the unfused textbook
                                              steps */
#define RRB_OPT_COMPENSATION          207  /* positive off-diagonals moved to the diagonals in M; auto: iff there are
                                              any */
#define RRB_OPT_PRECISION             208  /* of the stored preconditioner */
#define RRB_OPT_CYCLE                 209  /* v: the papers' RRB; amli, k: recursive */
#define RRB_OPT_CYCLE_SPACING         210  /* recursion every so many levels; 0: chosen */
#define RRB_OPT_CYCLE_STEPS           211  /* inner iterations of a recursion */
#define RRB_OPT_LEADING_DIMENSION     212  /* values from one row of the caller's arrays to the next, at least nx; 0:
                                              nx */

/* Results: keys of get. */
#define RRB_INFO_ITERATIONS             1000  /* iterations of the last solve */
#define RRB_INFO_STOP_REASON            1001  /* why the last solve ended */
#define RRB_INFO_INITIAL_RESIDUAL       1002  /* relative, in the tested norm, of the guess */
#define RRB_INFO_FINAL_RESIDUAL         1003  /* relative, in the tested norm, of x; recomputed as b - A x when
                                                 converged */
#define RRB_INFO_SECONDS_SETUP          1004  /* wall time of the last factorize */
#define RRB_INFO_SECONDS_SOLVE          1005  /* wall time of the last solve */
#define RRB_INFO_SECONDS_TRANSFER       1006  /* of that, copies between host and device */
#define RRB_INFO_BYTES_HOST             1007  /* host memory of the handle */
#define RRB_INFO_BYTES_DEVICE           1008  /* device memory of the handle */
#define RRB_INFO_LAMBDA_MIN             1009  /* smallest eigenvalue of M^-1 A seen by the last solve (Lanczos); 0
                                                 before two iterations */
#define RRB_INFO_LAMBDA_MAX             1010  /* largest eigenvalue of M^-1 A seen by the last solve; 0 before two
                                                 iterations */
#define RRB_INFO_BACKEND                1011  /* the one in use */
#define RRB_INFO_DEVICE                 1012  /* CUDA ordinal in use, -1: none */
#define RRB_INFO_THREADS                1013  /* threads in use */
#define RRB_INFO_CUDA_KERNELS           1014  /* 1: this build of the library has CUDA kernels; 0: it was built with
                                                 RRBSOLVER_CUDA=off */
#define RRB_INFO_LEVELS                 1100  /* red eliminations done */
#define RRB_INFO_PRECISION              1101  /* the one in use */
#define RRB_INFO_CYCLE                  1102  /* the one in use; amli and v are fixed linear M, k is not */
#define RRB_INFO_COMPONENTS             1103  /* connected components of two nodes or more */
#define RRB_INFO_SINGULAR_COMPONENTS    1104  /* of those, singular ones */
#define RRB_INFO_COMPENSATED_COUPLINGS  1105  /* positive couplings moved to the diagonals of M */
#define RRB_INFO_GRIDS                  1106  /* r1/r2/b1/b2 grids in use */

/* Choices: values of options and results. */
#define RRB_BACKEND_AUTO                  0
#define RRB_BACKEND_CPU                   1
#define RRB_BACKEND_CUDA                  2
#define RRB_BACKEND_REFERENCE             3
#define RRB_MEMORY_AUTO                   0
#define RRB_MEMORY_HOST                   1
#define RRB_MEMORY_DEVICE                 2
#define RRB_NORM_TRUE2                    0
#define RRB_NORM_PRECONDITIONED           1
#define RRB_REFERENCE_RHS                 0
#define RRB_REFERENCE_INITIAL             1
#define RRB_NULL_SPACE_AUTO               0
#define RRB_NULL_SPACE_NONE               1
#define RRB_NULL_SPACE_CONSTANT           2
#define RRB_LUMPING_M1                    0
#define RRB_LUMPING_M2                    1
#define RRB_FUSION_ON                     1
#define RRB_FUSION_OFF                    0
#define RRB_COMPENSATION_AUTO             0
#define RRB_COMPENSATION_NEVER            1
#define RRB_COMPENSATION_ALWAYS           2
#define RRB_PRECISION_AUTO                0
#define RRB_PRECISION_F64                 1
#define RRB_PRECISION_F32                 2
#define RRB_PRECISION_BF16                3
#define RRB_PRECISION_MIXED               4
#define RRB_CYCLE_AUTO                    0
#define RRB_CYCLE_V                       1
#define RRB_CYCLE_AMLI                    2
#define RRB_CYCLE_K                       3
#define RRB_STOP_REASON_NONE              0
#define RRB_STOP_REASON_CONVERGED         1
#define RRB_STOP_REASON_INITIAL_GUESS     2
#define RRB_STOP_REASON_ZERO_RHS          3
#define RRB_STOP_REASON_MAX_ITER          4
#define RRB_STOP_REASON_MONITOR           5
#define RRB_STOP_REASON_STAGNATED         6
#define RRB_STOP_REASON_BREAKDOWN         7

/**
 * One matrix with its factorization. One thread at a time; different handles are independent.
 */
typedef struct rrb_handle rrb_handle;

/**
 * Status of a call: 0 done, positive finished with a caveat, negative failed.
 */
typedef int32_t rrb_status;

/**
 * Receives log lines; `level` is 0 for complaints, 1 for a line a solve, 2 for a line an iteration.
 */
typedef void (*rrb_log_fn)(void *user, int32_t level, const char *message);

/**
 * Called after every iteration with the tested relative residual, from iteration 0; nonzero stops.
 */
typedef int32_t (*rrb_monitor_fn)(void *user, int64_t iteration, double relative_residual);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Version of the library, such as "0.1.0". The text lives as long as the program.
 */
const char *rrbsolver_version(void);

/**
 * Name and meaning of a status. The text lives as long as the program; an unknown number has one too.
 */
const char *rrbsolver_status_string(rrb_status status);

/**
 * The sentence of this thread's last failing call, node indices counted from 0. Writes at most `capacity`
 * bytes, always ended by NUL if `capacity` > 0, and returns the bytes needed, NUL included; 1 means that no
 * call failed. `buffer` may be NULL with `capacity` 0.
 *
 * Required: `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error(char *buffer, int64_t capacity);

/**
 * As `rrbsolver_last_error`, with node indices counted from `index_base`: 1 for Fortran.
 *
 * Required: `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error_based(int32_t index_base, char *buffer, int64_t capacity);

/**
 * Number of CUDA devices; 0 without a driver, and in a build without kernels. Errors: `RRB_ERR_NULL`.
 *
 * Required: `count` must be NULL or point to an `int32_t`.
 */
rrb_status rrbsolver_cuda_device_count(int32_t *count);

/**
 * Sets (or with NULL removes) the function that receives log lines of all handles whose option `log` is
 * `callback`. It may be called from any thread that solves, but never inside another call of itself on that
 * thread's behalf; it must not use the handle that is solving.
 */
rrb_status rrbsolver_set_log(rrb_log_fn callback, void *user);

/**
 * Makes a handle for matrices on nx x ny nodes, with the default options and those of `RRBSOLVER_OPTIONS`.
 * Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`. Cost: none worth naming; memory for the
 * matrix is taken at `rrb_factorize`.
 *
 * Required: `out` must be NULL or point to a pointer.
 */
rrb_status rrb_create(int64_t nx, int64_t ny, rrb_handle **out);

/**
 * Copies the coefficients and factorizes M = L D L^T = A - R. With `northeast` and `northwest` NULL the
 * stencil has 5 points. Entries that point outside the grid, and padding, are not read.
 * Host arrays of (ny - 1) * ld + nx values, read. Afterwards, or after a failure, the handle holds the new
 * matrix or none. Errors: `RRB_ERR_NULL`, `RRB_ERR_UNSUPPORTED`, `RRB_ERR_MATRIX`, `RRB_ERR_NOT_FINITE`,
 * `RRB_ERR_MEMORY`. Cost: about 40 flops a node; a second call reuses all memory.
 * Source: report 16-06, section 2.2.
 *
 * Required: `h` must be NULL or come from `rrb_create`; the arrays must be NULL or have the size named.
 */
rrb_status rrb_factorize(rrb_handle *h,
                         const double *center,
                         const double *east,
                         const double *north,
                         const double *northeast,
                         const double *northwest);

/**
 * Solves A x = b by RRB-PCG. `x` is the initial guess on entry and the solution on return; `b` is not
 * written. Stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). b = 0 gives x = 0 at once; a guess
 * that meets the test is returned in 0 iterations. On singular components b is projected and x keeps the
 * guess's mean. Returns `RRB_OK`, `RRB_NOT_CONVERGED`, `RRB_STOPPED`; errors: `RRB_ERR_NULL`,
 * `RRB_ERR_ARGUMENT` (overlap), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE`, `RRB_ERR_BREAKDOWN` (x as given),
 * `RRB_ERR_INCOMPATIBLE`. Takes no memory, starts no thread. Cost of an iteration: about 25 words
 * of memory traffic per black node with 5 points (75 without fusion), two waits for all threads and one per
 * shared grid. Source: report 16-06, algorithms 1 and 3.
 *
 * Required: `h` must be NULL or come from `rrb_create`; the arrays must be NULL or hold (ny - 1) * ld + nx values.
 */
rrb_status rrb_solve(rrb_handle *h, const double *b, double *x);

/**
 * z = M^-1 r, for a foreign Krylov loop; symmetric and positive definite (on the complement of the null space
 * where singular: r and z are projected). Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap),
 * `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE`. Source: report 16-06, section 2.6.
 *
 * Required: As for `rrb_solve`.
 */
rrb_status rrb_apply(rrb_handle *h, const double *r, double *z);

/**
 * y = A x with the matrix of the last `rrb_factorize`. Errors as for `rrb_apply`.
 *
 * Required: As for `rrb_solve`.
 */
rrb_status rrb_multiply(rrb_handle *h, const double *x, double *y);

/**
 * Frees the handle and sets the pointer to NULL. NULL, and a pointer to NULL, are no errors.
 *
 * Required: `h` must be NULL or point to NULL or to a pointer from `rrb_create` that no other thread uses.
 */
rrb_status rrb_destroy(rrb_handle **h);

/**
 * The one-line replacement of an ICCG call: creates, factorizes, solves to `rel_tol` in at most `max_iter`
 * iterations, frees. Arrays have ld = nx; x must overlap none of the others. `iterations` may be NULL. Statuses and errors of `rrb_create`, `rrb_factorize` and `rrb_solve`.
 *
 * Required: As for `rrb_factorize` and `rrb_solve`; `iterations` must be NULL or point to an `int64_t`.
 */
rrb_status rrb_solve_once(int64_t nx,
                          int64_t ny,
                          const double *center,
                          const double *east,
                          const double *north,
                          const double *northeast,
                          const double *northwest,
                          const double *b,
                          double *x,
                          double rel_tol,
                          int64_t max_iter,
                          int64_t *iterations);

/**
 * Sets a whole-number option or a choice. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION` (unknown key),
 * `RRB_ERR_ARGUMENT` (out of range).
 *
 * Required: `h` must be NULL or come from `rrb_create`.
 */
rrb_status rrb_set_int(rrb_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option. Errors as for `rrb_set_int`.
 *
 * Required: `h` must be NULL or come from `rrb_create`.
 */
rrb_status rrb_set_real(rrb_handle *h, int32_t key, double value);

/**
 * Sets options from text, such as "levels=12 rel_tol=1e-8 lumping=m1m"; all of them, or with an error none.
 * Errors: as for `rrb_set_int`, and `RRB_ERR_IO` for a log file that cannot be opened.
 *
 * Required: `h` must be NULL or come from `rrb_create`; `text` must be NULL or end with NUL.
 */
rrb_status rrb_set_options(rrb_handle *h, const char *text);

/**
 * Reads a whole-number option or result. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION`. Results of a factorize or a
 * solve that was not done are 0.
 *
 * Required: `h` must be NULL or come from `rrb_create`; `value` must be NULL or point to an `int64_t`.
 */
rrb_status rrb_get_int(const rrb_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result; whole numbers are converted. Errors as for `rrb_get_int`.
 *
 * Required: `h` must be NULL or come from `rrb_create`; `value` must be NULL or point to a `double`.
 */
rrb_status rrb_get_real(const rrb_handle *h, int32_t key, double *value);

/**
 * The CUDA stream to work on; NULL: the handle's own. Without effect on the CPU. Errors: `RRB_ERR_NULL`.
 *
 * Required: `h` must be NULL or come from `rrb_create`.
 */
rrb_status rrb_set_stream(rrb_handle *h, void *cuda_stream);

/**
 * Sets (or with NULL removes) the monitor: called on the calling thread, in order, from iteration 0, between
 * iterations. It must not use this handle, and should not unwind; a C++ exception must not leave it.
 * Errors: `RRB_ERR_NULL`.
 *
 * Required: `h` must be NULL or come from `rrb_create`; `callback` must accept `user` until it is replaced.
 */
rrb_status rrb_set_monitor(rrb_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Tested relative residuals of the last solve, from iteration 0: writes at most `capacity` of them, and their
 * number (at most `max_iter` + 1 and 1,000,000 are kept) to `count`. `residuals` may be NULL with `capacity` 0.
 * Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT`.
 *
 * Required: `h` must be NULL or come from `rrb_create`; `residuals` must have room for `capacity` values; `count` must
 * be NULL or point to an `int64_t`.
 */
rrb_status rrb_get_history(const rrb_handle *h, double *residuals, int64_t capacity, int64_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RRBSOLVER_H */
