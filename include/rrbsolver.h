/* rrbsolver.h: solvers for stencil systems of simulation codes and for general sparse matrices. C99 and C++.
 *
 * Threads: different threads may use different handles at the same time. Only one thread at a time may use a handle;
 * this thread need not be the thread that created the handle. The option `threads` sets the number of threads that
 * compute. Callbacks run on the calling thread, between iterations. The library holds no lock while a callback runs. A
 * callback must not use the handle of the call that invoked the callback. The log callback may run on any thread that
 * uses the library.
 *
 * Statuses: every function that can fail returns an rrb_status. The values are listed below. If the status is positive,
 * the outputs are written and usable. If the status is not RRB_OK, the call also stores a message for the calling
 * thread, and rrbsolver_last_error copies this message.
 *
 * Arrays: the element (i, j) is a[j*ld + i] in 2D, and the element (i, j, k) is a[k*lp + j*ld + i] in 3D. Elements with
 * consecutive i = 0..nx-1 are contiguous. By default, ld is nx and lp is ny*ld; the options leading_dimension and
 * leading_plane set other values. The library uses a pointer to an array only during the call to which the pointer is
 * passed. An output array must not overlap any other array of the call.
 *
 * Handles: rrb_create, dpcg_create, smoother_create, sparse_create_csr and similar functions create a handle. The
 * functions rrb_destroy, dpcg_destroy, smoother_destroy and sparse_destroy free a handle and set the pointer to NULL.
 *
 * The values of the constants for statuses, options, results and choices do not change in later versions.
 *
 * The part "Required" of a description lists conditions that the call cannot check. If one of these conditions is not
 * met, the behaviour is undefined.
 *
 * Generated from the sources of the library; do not edit. */

#ifndef RRBSOLVER_H
#define RRBSOLVER_H

#include <stdint.h>

/* Version of this header; rrbsolver_version() returns the version of the library. */
#define RRBSOLVER_VERSION_MAJOR 0
#define RRBSOLVER_VERSION_MINOR 1
#define RRBSOLVER_VERSION_PATCH 0

/* Statuses. 0 means success, positive values mean success with a caveat, and negative values mean failure. */
#define RRB_OK                    0  /* success */
#define RRB_NOT_CONVERGED         1  /* the tolerance was not reached; x is the last iterate or an earlier iterate
                                        with a smaller residual; rrbsolver_last_error gives the reason */
#define RRB_STOPPED               2  /* a callback stopped the call; x (in smoother_, u) is the current iterate */
#define RRB_ERR_NULL           (-1)  /* a required pointer is NULL */
#define RRB_ERR_ARGUMENT       (-2)  /* an argument is out of range, or arrays overlap */
#define RRB_ERR_DIMENSION      (-3)  /* a size is too small, sizes are inconsistent, or the product of sizes is too
                                        large */
#define RRB_ERR_OPTION         (-4)  /* the key or name of an option, the key of a result, or a choice is unknown */
#define RRB_ERR_STATE          (-5)  /* the order of calls is wrong; call factorize (in smoother_, set_patches) first */
#define RRB_ERR_UNSUPPORTED    (-6)  /* the call is not supported by this build, backend or method */
#define RRB_ERR_MATRIX        (-20)  /* a center or pivot is not positive, or a block is singular; sparse_ also
                                        returns this status if the matrix is not symmetric or a row is empty */
#define RRB_ERR_NOT_FINITE    (-21)  /* an input array contains NaN or infinity, or a result overflows */
#define RRB_ERR_BREAKDOWN     (-22)  /* the matrix or the preconditioner is indefinite; x is unchanged */
#define RRB_ERR_INCOMPATIBLE  (-23)  /* the system is singular, and its right-hand side has a component in the null
                                        space */
#define RRB_ERR_RANGE         (-24)  /* a result underflows */
#define RRB_ERR_MEMORY        (-30)  /* there is not enough memory, or a memory limit is exceeded */
#define RRB_ERR_NO_DEVICE     (-40)  /* there is no CUDA driver or no CUDA device */
#define RRB_ERR_DEVICE        (-41)  /* the CUDA driver reported an error */
#define RRB_ERR_IO            (-50)  /* a file cannot be read or written */
#define RRB_ERR_PARSE         (-51)  /* a file or text cannot be parsed */
#define RRB_ERR_COMMUNICATION (-60)  /* another rank is missing or late; x is unchanged, and the only valid call with
                                        the handle is destroy */
#define RRB_ERR_INTERNAL      (-99)  /* internal error, which is a bug in this library */

/* Keys of the options, for rrb_set_int, rrb_get_int and similar functions. */
#define RRB_OPT_BACKEND               100  /* Backend that runs the solver. `cpu` runs on the CPU, and `cuda` runs on
                                              a CUDA device. `reference` is a simple backend for tests, which runs on
                                              the CPU with one thread. For `auto`, see the rules of `auto`. */
#define RRB_OPT_DEVICE                101  /* ordinal of the CUDA device that the handle uses */
#define RRB_OPT_THREADS               102  /* Number of threads. With 0, the library reads the environment variables
                                              RRBSOLVER_NUM_THREADS, SLURM_CPUS_PER_TASK and OMP_NUM_THREADS in this
                                              order. The first variable that is set to a positive number determines
                                              the number of threads. If there is no such variable, the library uses
                                              one thread per core in the affinity mask of the process. */
#define RRB_OPT_MEMORY                103  /* Memory space of the caller's arrays. With `auto`, the library queries
                                              the CUDA driver for the memory space of each array. */
#define RRB_OPT_REL_TOL               104  /* Relative tolerance. A solve has converged when norm(b - A x) <=
                                              max(rel_tol * R, abs_tol), where R is the norm that the option
                                              `reference` selects. This option is not available in smoother_. */
#define RRB_OPT_ABS_TOL               105  /* absolute tolerance of the stopping test, in the unit of the residual
                                              norm (see `rel_tol`) (not in smoother_) */
#define RRB_OPT_MAX_ITER              106  /* Largest number of iterations per solve. With 0, a solve only computes
                                              the residual of the initial guess. This option is not available in
                                              smoother_. */
#define RRB_OPT_NORM                  107  /* Norm of the stopping test. `true2` is the 2-norm of the residual r =
                                              b - A x. `preconditioned` is sqrt(r' M^-1 r). For each singular
                                              component, this norm subtracts the mean m of r from r and adds the sum
                                              of m^2 / center under the root. With deflation, `preconditioned` uses
                                              the deflated residual and subtracts no mean. This option is not
                                              available in smoother_ and sparse_. */
#define RRB_OPT_REFERENCE             108  /* Norm by which residual norms are divided to obtain relative residuals.
                                              `rhs` selects the norm of b. In rrb_ and dpcg_, the means of b over
                                              singular components are first subtracted from b. If CG runs on the
                                              first Schur complement S1, `norm=preconditioned` also reduces b to S1.
                                              `initial` selects the norm of the initial residual. This option is not
                                              available in smoother_. */
#define RRB_OPT_NULL_SPACE            109  /* Connected components that are treated as singular. With `auto`, these
                                              are the components with |row sum| <= 1e-12 * center in every row. With
                                              `none`, no component is treated as singular. With `constant`, all
                                              components are treated as singular and must have |row sum| <= 1e-6 *
                                              center. This option is not available in smoother_ and sparse_. */
#define RRB_OPT_CHECK_INPUT           110  /* Checks of input arrays. With 0, input arrays are not checked. With 1,
                                              NaN and infinity are errors, and nonzero couplings to nodes outside the
                                              grid are logged once per handle. With 2, these couplings are also
                                              errors. In smoother_ and sparse_, 2 has the effect of 1. For any value,
                                              sparse_ checks the matrix entries. */
#define RRB_OPT_CHECK_COMPATIBILITY   111  /* Check of b on each singular component, before the mean of b is
                                              subtracted. With 0, b is not checked. With 1, |sum b| > 1e-10 ||b||_1
                                              is an error. This option is not available in smoother_ and sparse_. */
#define RRB_OPT_VERBOSITY             112  /* Log lines that the library writes. 0 selects only warnings. 1 adds one
                                              line per solve (in smoother_, per apply). In sparse_, 1 also adds one
                                              line per factorize. 2 adds one line per iteration (in smoother_, per
                                              sweep). */
#define RRB_OPT_LOG                   113  /* Destination of log lines: `callback` (see rrbsolver_set_log), `stderr`,
                                              or the path of a file. The library appends lines to this file. The path
                                              must not contain blanks or commas. */
#define RRB_OPT_LEVELS                200  /* Number of elimination levels. With 0, the number depends on the grid
                                              size. Values above the maximum are reduced to the maximum. */
#define RRB_OPT_COARSE_MEMORY         201  /* memory limit, in bytes, for the exact factor of the coarsest system */
#define RRB_OPT_GRIDS                 202  /* Number of grids that are stored by colour in the arrays r1, r2, b1 and
                                              b2. With 0, the number depends on the grid size. Values above the
                                              maximum are reduced to the maximum. */
#define RRB_OPT_COMPUTE_BLOCK         203  /* row padding and border width of the arrays r1, r2, b1 and b2, in values */
#define RRB_OPT_LUMPING               204  /* Nodes whose dropped couplings are lumped into the diagonal. `m1`
                                              selects the red nodes, and `m2` selects the red and black nodes. In the
                                              text of rrb_set_options, `m1u` and `m2u` also set `relaxation=0`, and
                                              `m1m` and `m2m` also set `relaxation=1`. */
#define RRB_OPT_RELAXATION            205  /* relaxation factor omega, the fraction of each dropped coupling that is
                                              added to the diagonal */
#define RRB_OPT_FUSION                206  /* Fusion of the stages of an iteration. With `on`, the stages are fused
                                              if the backend supports fusion. With `off`, the solver uses the unfused
                                              reference formulation. This option is also available in dpcg_. */
#define RRB_OPT_COMPENSATION          207  /* Treatment of positive off-diagonal entries in M. With `always`, these
                                              entries are moved to the diagonal. With `never`, these entries are
                                              unchanged. For `auto`, see the rules of `auto`. */
#define RRB_OPT_PRECISION             208  /* Precision in which the preconditioner is stored. For regular 5-point
                                              systems on the CPU, `mixed` selects bf16 for the preconditioner and
                                              single precision for CG. For other systems, `mixed` has the effect of
                                              `bf16`. In sparse_, `single` stores the matrix and the vectors in f32,
                                              too; it requires a device and a `rel_tol` of at least 1e-5. For `auto`,
                                              see the rules of `auto`. This option is also available in dpcg_ and
                                              sparse_. */
#define RRB_OPT_CYCLE                 209  /* Cycle of the preconditioner. `v` is the V-cycle of RRB. `amli` and `k`
                                              are recursive cycles of RRB. `aggregation` selects multigrid by
                                              aggregation instead of RRB. For `auto`, see the rules of `auto`. */
#define RRB_OPT_CYCLE_SPACING         210  /* Number of levels between the recursions of a recursive cycle. The
                                              number must be even; 0 means 4. */
#define RRB_OPT_CYCLE_STEPS           211  /* number of inner iterations per recursion of a recursive cycle */
#define RRB_OPT_SWITCH_MEMORY         213  /* Memory limit, in bytes, for the aggregation cycle. The limit applies if
                                              `cycle=auto` selects aggregation at factorize or during a slow solve.
                                              -1 means no limit. With 0, `auto` never selects aggregation. */
#define RRB_OPT_LEADING_DIMENSION     212  /* Distance, in values, between consecutive rows of the caller's arrays.
                                              The distance must be at least nx; 0 means nx. This option is also
                                              available in dpcg_. */
#define RRB_OPT_DEVICES               220  /* Ordinals of up to eight CUDA devices that share the rows of large
                                              grids, such as 0+1+2. With `none`, the solver uses one device, which
                                              the option `device` selects. */
#define RRB_OPT_REPRODUCIBLE          218  /* Reproducibility of results on several ranks. With 1, results are
                                              bitwise identical for any number of ranks. With 0, results are bitwise
                                              identical only for equal numbers of ranks, but global sums need less
                                              communication. */
#define RRB_OPT_COMM_TIMEOUT          219  /* time in seconds for which a rank waits for other ranks; 0 means no
                                              limit */
#define RRB_OPT_METHOD                300  /* relaxation method: coloured block Gauss-Seidel, block Jacobi, or
                                              chaotic block Gauss-Seidel */
#define RRB_OPT_OMEGA                 301  /* relaxation factor; 0 means 0.8 for `block_jacobi` and 1 for the other
                                              methods */
#define RRB_OPT_STAGGER               302  /* Sweeps of smoother_apply in which the blocks are shifted by floor(b /
                                              2) cells, where b is the block size. 0 selects no sweeps, 1 selects the
                                              even sweeps, and 2 selects the odd sweeps. Sweeps are counted from 1. */
#define RRB_OPT_REVERSE               303  /* Order of the colours in a sweep. With 1, a sweep processes the colours
                                              in reverse order, for post-smoothing. With 1 and
                                              `method=chaotic_gauss_seidel`, a sweep processes the blocks in reverse
                                              order. */
#define RRB_OPT_BLOCK_SOLVER          304  /* Solver of the diagonal blocks. `fast_diagonalization` uses sine
                                              transforms; set_patches returns an error if the transforms would lose
                                              more than four digits. `dense` uses dense inverses. For `auto`, see the
                                              rules of `auto`. */
#define RRB_OPT_REMAINDER             305  /* Treatment of blocks that extend beyond the edge of a patch. With
                                              `exact`, these blocks are solved as smaller blocks. With `overlap`,
                                              these blocks are moved inwards and overlap other blocks. */
#define RRB_OPT_PARALLEL              306  /* Distribution of the work among the threads. With `auto`, all blocks of
                                              all patches are distributed. With `patch`, whole patches are
                                              distributed, and `chaotic_gauss_seidel` is lexicographic in each patch.
                                              With `block`, the blocks of one patch at a time are distributed. With
                                              `nested`, patches are distributed among groups of threads, and the
                                              blocks of a patch among the threads of a group. */
#define RRB_OPT_PATCH_THREADS         307  /* number of groups of threads with `parallel=nested`; 0 selects the
                                              number automatically */
#define RRB_OPT_TRANSFER              308  /* Order of copies and kernels if a device processes patches that are in
                                              host memory. With `depth_first`, the first sweep of a group of patches
                                              overlaps the transfer of the next group. With `breadth_first`, all
                                              patches are transferred before the first sweep. For `auto`, see the
                                              rules of `auto`. */
#define RRB_OPT_PRECONDITIONER        400  /* Preconditioner. `neumann` is a Neumann series with `order` + 1 terms.
                                              `ic0` is incomplete Cholesky without fill; in dpcg_, it runs on the CPU
                                              only. `ric` is relaxed incomplete Cholesky without fill, which runs on
                                              the CPU only. `multigrid` is geometric multigrid. `amg` is multigrid by
                                              aggregation; in sparse_, it requires `solver=cg` or `steepest_descent`.
                                              `ssor` is symmetric SOR with the relaxation factor `sor_omega`. `ilu0`
                                              is incomplete LU without fill. `chebyshev` is a polynomial in D^-1 A;
                                              the option `degree` sets its degree. For `auto`, see the rules of
                                              `auto`. This option is also available in sparse_. */
#define RRB_OPT_ORDER                 401  /* number of terms of the Neumann series after the first term; 0 has the
                                              effect of `preconditioner=jacobi` (also in sparse_) */
#define RRB_OPT_RIC_OMEGA             402  /* Fraction of the dropped fill that `ric` subtracts from the diagonal. 0
                                              has the effect of `ic0`. 1 selects modified incomplete Cholesky. */
#define RRB_OPT_DEFLATION             403  /* Deflation regions; each region has one deflation vector. `subdomain`
                                              selects boxes of cells. `levelset` selects the caller's regions or, if
                                              there are none, the components of strong couplings.
                                              `levelset_subdomain` splits the regions of `levelset` by boxes. For
                                              `auto`, see the rules of `auto`. */
#define RRB_OPT_SUBDOMAINS_X          404  /* number of deflation boxes in x, at most nx; 0 selects the number
                                              automatically */
#define RRB_OPT_SUBDOMAINS_Y          405  /* number of deflation boxes in y, at most ny; 0 selects the number
                                              automatically */
#define RRB_OPT_SUBDOMAINS_Z          406  /* number of deflation boxes in z, at most nz; 0 selects the number
                                              automatically */
#define RRB_OPT_KEEP_ALL              407  /* Use of the deflation vectors if the system is singular. With 0, the
                                              vector of one region of weak couplings is omitted. With 1, all vectors
                                              are used, and the coarse matrix is shifted. */
#define RRB_OPT_COARSE_SOLVER         408  /* Solver of systems with the coarse deflation matrix. `inverse` uses the
                                              explicit inverse. `cholesky` uses a Cholesky factorization. `cg` uses
                                              inner CG iterations and runs on the CPU only. For `auto`, see the rules
                                              of `auto`. */
#define RRB_OPT_COARSE_TOL            409  /* relative tolerance of `coarse_solver=cg` */
#define RRB_OPT_COARSENING            410  /* Coarsening of multigrid. `vertex` keeps every second cell; it uses
                                              operator-dependent interpolation and Galerkin coarse grids. `cell`
                                              joins pairs of cells; it uses constant interpolation and a coarsest
                                              grid of at most 64 cells. For `auto`, see the rules of `auto`. */
#define RRB_OPT_SWEEPS                411  /* number of multigrid sweeps before and after each coarse-grid
                                              correction; 0 selects the number automatically */
#define RRB_OPT_DILATION              412  /* Number of layers of cells by which each region of `levelset` is
                                              enlarged. -1 means 1 for the caller's regions and 0 for components of
                                              strong couplings. */
#define RRB_OPT_LEADING_PLANE         413  /* Distance, in values, between consecutive planes of the caller's arrays.
                                              The distance must be at least ny * leading_dimension; 0 means ny *
                                              leading_dimension. */
#define RRB_OPT_SOLVER                500  /* Iterative method. In the text of sparse_set_options, `jcbi`, `gs` and
                                              `gssor` are other names for `jacobi`, `gauss_seidel` and `sor`. For
                                              `auto`, see the rules of `auto`. */
#define RRB_OPT_FORMAT                502  /* storage format for products; for `auto`, see the rules of `auto` */
#define RRB_OPT_ORDERING              503  /* Order of the rows in sweeps of `gauss_seidel` and `sor`, and in the
                                              preconditioners `ssor`, `ic0` and `ilu0`. With `natural`, the order is
                                              ascending. With `multicolour`, the rows are ordered by first-fit
                                              colours of A + A'; a preconditioner is then that of the permuted
                                              matrix, which has fewer levels of triangular solves, but usually needs
                                              more iterations. With `blocks`, the rows are divided into blocks, and
                                              each block uses the old values of the other blocks. With `symmetric`, a
                                              descending sweep follows each ascending sweep. The last two values
                                              affect sweeps only. */
#define RRB_OPT_SOR_OMEGA             504  /* Relaxation factor of `jacobi`, `sor` and `ssor`, which must be below 2.
                                              0 means 1.25 for `sor` and 1 for `jacobi` and `ssor`. */
#define RRB_OPT_BLOCKS                505  /* number of blocks with `ordering=blocks`; 0 means 16 */
#define RRB_OPT_BLOCK_SIZE            506  /* Number of rows and columns per block of `format=bsr`. With 0, the
                                              library tries the numbers 2 to 6 and 8, and uses the number with which
                                              the format needs the fewest bytes. */
#define RRB_OPT_SLICE                 507  /* number of rows per slice of `format=sell`, often called C in the
                                              literature; 0 means 8, and 32 for products on a device */
#define RRB_OPT_SIGMA                 508  /* Number of rows per sorting window of `format=sell`. 0 means 256 if this
                                              number saves bytes, otherwise 1 (unsorted). For products on a device,
                                              4096 replaces 256. */
#define RRB_OPT_RESTART               509  /* number of iterations of `gmres` between restarts */
#define RRB_OPT_SHADOW                510  /* dimension s of the shadow space of `idr` */
#define RRB_OPT_SHIFT                 511  /* Shift s of `ic0`, which factorizes A + s diag(A). With a negative
                                              value, `ic0` starts with s = 0 and continues with s = 1e-3, 2e-3, 4e-3,
                                              ... until all pivots are positive. */
#define RRB_OPT_DEGREE                513  /* degree of the polynomial of `preconditioner=chebyshev` */
#define RRB_OPT_TRANSPOSE             514  /* Matrix for products of `bicg` with A'. `copy` uses a stored copy of A'.
                                              `none` uses A itself; on a device, an unsymmetric A must then have the
                                              format `dia` or `diagonal`. For `auto`, see the rules of `auto`. */
#define RRB_OPT_DIVERGENCE_LIMIT      515  /* Factor of the divergence test. A solve has diverged when its residual
                                              norm exceeds this factor times max(R, initial residual norm), where R
                                              is the norm that the option `reference` selects. 0 means 1e100 for
                                              `jacobi`, `gauss_seidel` and `sor`, and 1e10 for the other methods. */
#define RRB_OPT_FORMAT_MEMORY         516  /* memory limit, in bytes, for the arrays of a format other than `csr` */

/* Rules of auto. For each option, the first condition that holds determines the choice. The notes are in
 * docs/reference/auto.md.
 *
 * memory (all families):
 *   device if the CUDA driver reports that the array is on the handle's device
 *   host otherwise
 *
 * null_space (all families):
 *   singular component if |row sum| <= 1e-12 * center in all rows of the component
 *   regular component otherwise
 *
 * backend (rrb_):
 *   cuda if a CUDA device is present, nx * ny >= 10,000, and cycle is not k
 *   cpu otherwise
 *
 * cycle (rrb_):
 *   v if nx * ny < 16,384
 *   v if lumping or relaxation does not have its default value
 *   aggregation if aggregation is possible, no option of the levels is set (see the notes), and the estimated cost
 *     of a solve is lower with aggregation than with RRB
 *   amli if the estimated condition numbers of the recursions are in the range given in the notes
 *   v otherwise
 *
 * precision (rrb_):
 *   f32 if the cycle is aggregation
 *   f64 if nx * ny < 16,384
 *   f64 if lumping or relaxation does not have its default value
 *   f64 if the ratio of the largest to the smallest center is above 1e6
 *   f64 if there is a singular component, and this ratio is above 1e4
 *   bf16 if the solver does not run on the CPU
 *   bf16 if the stencil has 9 points, a coupling is positive, or there is a singular component
 *   bf16 if grids is 1, norm is not true2, or cycle is not auto
 *   mixed if aggregation is possible (see the notes on cycle), or the handle is distributed
 *   bf16 otherwise
 *
 * compensation (rrb_):
 *   always if A has positive couplings, and the cycle is not aggregation
 *   never otherwise
 *
 * backend (dpcg_):
 *   cuda if a CUDA device is present, nx * ny * nz >= 20,000, preconditioner is neither ic0 nor ric, and
 *     coarse_solver is not cg
 *   cpu otherwise
 *
 * preconditioner (dpcg_):
 *   multigrid if the caller set labels, or deflation is neither auto nor none
 *   multigrid if coarsening or sweeps does not have its default value, or backend is reference
 *   multigrid if there are fewer than 12 unresolved components (see the notes)
 *   amg if cells are flat (see the notes)
 *   amg if components are not deflated (see the notes)
 *   multigrid otherwise
 *
 * coarsening (dpcg_):
 *   cell if cells are flat (see the notes on preconditioner)
 *   vertex otherwise
 *
 * deflation (dpcg_):
 *   levelset if the preconditioner is multigrid or amg, and the caller set labels
 *   none if the preconditioner is amg
 *   none if the preconditioner is multigrid, and the number of components of strong couplings is not in [2, 1,000]
 *   levelset if the preconditioner is multigrid, and the contrast is at most 1e-4
 *   levelset if the preconditioner is multigrid, and a component is less than 4 cells across
 *   levelset if the preconditioner is multigrid, and the coarsening is cell
 *   none if the preconditioner is multigrid
 *   levelset_subdomain if the caller set labels, or there is a component of strong couplings
 *   subdomain otherwise
 *
 * coarse_solver (dpcg_):
 *   inverse if there are at most 1024 deflation vectors on the CPU, or at most 4096 deflation vectors on a device
 *   cholesky otherwise
 *
 * precision (dpcg_):
 *   f32 if the preconditioner is multigrid or amg
 *   f64 otherwise
 *
 * backend (smoother_):
 *   cuda if a CUDA device is present, and memory=device is set
 *   cpu otherwise
 *
 * block_solver (smoother_):
 *   fast_diagonalization if a diagonal scaling makes the stencil symmetric in x, y and z, and the condition number
 *     of the scaling on a block is below 300
 *   dense otherwise
 *
 * parallel (smoother_):
 *   all blocks always
 *
 * transfer (smoother_):
 *   depth_first always
 *
 * backend (sparse_):
 *   cuda if a CUDA device is present, the matrix has at least 500,000 entries, and a device has kernels for the
 *     options
 *   cpu otherwise
 *
 * solver (sparse_):
 *   jacobi if the matrix is diagonal
 *   idr if the matrix is not symmetric
 *   cg if all diagonal entries are positive
 *   minres otherwise
 *
 * preconditioner (sparse_):
 *   none if the solver is jacobi, gauss_seidel or sor
 *   none if the solver is cg, steepest_descent or minres, and a diagonal entry is zero
 *   amg if the solver is cg or steepest_descent, all diagonal entries are positive, more than half of the
 *     off-diagonal entries are negative, and the matrix has at least 100,000 rows (on a device: 1,000)
 *   ic0 if the solver is cg or steepest_descent, and all diagonal entries are positive
 *   jacobi if the solver is cg, steepest_descent or minres
 *   ilu0 otherwise
 *
 * precision (sparse_):
 *   f32 if the preconditioner is amg
 *   f64 otherwise
 *
 * format (sparse_):
 *   diagonal if all entries are on the diagonal
 *   csr, dia, sell or bsr if this format moves the fewest bytes in a product
 *
 * transpose (sparse_):
 *   none if the format is dia, diagonal or skyline, or a copy of the transpose needs more memory than format_memory
 *     allows
 *   copy otherwise
 */

/* Keys of the results, for rrb_get_int, rrb_get_real and similar functions. */
#define RRB_INFO_ITERATIONS             1000  /* number of iterations of the last solve; in smoother_, number of
                                                 sweeps of the last smoother_apply */
#define RRB_INFO_STOP_REASON            1001  /* Reason why the last solve stopped. In smoother_, the value is
                                                 RRB_STOP_REASON_MONITOR if a callback stopped the last
                                                 smoother_apply, otherwise RRB_STOP_REASON_NONE. */
#define RRB_INFO_INITIAL_RESIDUAL       1002  /* Relative residual of the initial guess, in the norm of the stopping
                                                 test. In smoother_, the value is 1, but it is available only after a
                                                 smoother_apply with a monitor or with `verbosity=2`. */
#define RRB_INFO_FINAL_RESIDUAL         1003  /* Relative residual of x in the norm of the stopping test, computed
                                                 from b - A x at the end of the solve. In smoother_, the value is the
                                                 relative residual after the last sweep. It is available only after a
                                                 smoother_apply with a monitor or with `verbosity=2`. */
#define RRB_INFO_SECONDS_SETUP          1004  /* Wall time, in seconds, of the last factorize (in smoother_, of the
                                                 last smoother_set_patches). In sparse_, a product that converts the
                                                 matrix to another format also sets this value, to the time of the
                                                 conversion. */
#define RRB_INFO_SECONDS_SOLVE          1005  /* wall time, in seconds, of the last solve; in smoother_, wall time of
                                                 the last smoother_apply */
#define RRB_INFO_SECONDS_TRANSFER       1006  /* Wall time, in seconds, of copies between host and device in the last
                                                 solve, product or `sparse_set_values`. In a solve, this time is part
                                                 of `seconds_solve`. */
#define RRB_INFO_BYTES_HOST             1007  /* number of bytes of host memory that the handle uses */
#define RRB_INFO_BYTES_DEVICE           1008  /* number of bytes of device memory that the handle uses */
#define RRB_INFO_LAMBDA_MIN             1009  /* Smallest eigenvalue of M^-1 A, estimated in the last solve by the
                                                 Lanczos method. 0 means that there is no estimate. In this case, the
                                                 method is not `cg`, or fewer than two CG iterations had positive
                                                 coefficients. This result is not available in smoother_. */
#define RRB_INFO_LAMBDA_MAX             1010  /* largest eigenvalue of M^-1 A, estimated by the same method as
                                                 `lambda_min` (not in smoother_) */
#define RRB_INFO_BACKEND                1011  /* backend in use */
#define RRB_INFO_DEVICE                 1012  /* ordinal of the CUDA device in use; -1 means that no device is in use */
#define RRB_INFO_THREADS                1013  /* number of threads in use */
#define RRB_INFO_CUDA_KERNELS           1014  /* 1 if the library was built with CUDA kernels; 0 if the library was
                                                 built with RRBSOLVER_CUDA=off */
#define RRB_INFO_LEVELS                 1100  /* number of elimination levels in use; with `cycle=aggregation`,
                                                 number of coarse levels */
#define RRB_INFO_PRECISION              1101  /* precision in use (also in dpcg_ and sparse_) */
#define RRB_INFO_CYCLE                  1102  /* Cycle in use. With `k`, M depends on the residual r. With
                                                 `aggregation` on the CPU, M depends on r in rrb_solve, but not in
                                                 rrb_apply. */
#define RRB_INFO_COMPONENTS             1103  /* number of connected components of the matrix that have at least two
                                                 nodes (also in dpcg_) */
#define RRB_INFO_SINGULAR_COMPONENTS    1104  /* number of singular components of the matrix that have at least two
                                                 nodes (also in dpcg_) */
#define RRB_INFO_COMPENSATED_COUPLINGS  1105  /* number of positive couplings that are moved to the diagonal of M */
#define RRB_INFO_GRIDS                  1106  /* number of grids that are stored by colour in the arrays r1, r2, b1
                                                 and b2 */
#define RRB_INFO_AGGREGATES_KEPT        1108  /* Number of aggregates, on all levels, that the last factorize with
                                                 `cycle=aggregation` or `preconditioner=amg` reused. 0 means that all
                                                 aggregates are new. This result is also available in dpcg_ and
                                                 sparse_. */
#define RRB_INFO_MESSAGES_SENT          1110  /* Number of messages that this rank sent in the last call. A
                                                 collective operation counts as one message. */
#define RRB_INFO_BYTES_SENT             1111  /* number of bytes in the messages that `messages_sent` counts */
#define RRB_INFO_BLOCK_SOLVER           1200  /* block solver in use */
#define RRB_INFO_BLOCK_INVERSES         1201  /* number of distinct blocks whose inverses are stored */
#define RRB_INFO_GHOST_COPIES           1202  /* number of boxes of ghost cells that are copied between patches
                                                 before each sweep */
#define RRB_INFO_CELLS                  1203  /* total number of cells of all patches */
#define RRB_INFO_PRECONDITIONER         1300  /* preconditioner in use (also in sparse_) */
#define RRB_INFO_AUTO_REASON            1301  /* Condition that determined the choices of `auto`. `crowded` means
                                                 that there are too many components of strong couplings for multigrid
                                                 and deflation, or that flat cells hide these components.
                                                 `anisotropic` means that the couplings in one direction are weak.
                                                 `labels` means that the caller set regions. `contrast` means that
                                                 the couplings of one direction differ strongly. `thin` means that a
                                                 component of strong couplings is only a few cells across. `plain`
                                                 means that none of these conditions holds. `asked` means that the
                                                 caller set the options preconditioner, coarsening and deflation. */
#define RRB_INFO_DEFLATION              1302  /* deflation in use */
#define RRB_INFO_COARSENING             1303  /* coarsening in use; `auto` means that there is no multigrid */
#define RRB_INFO_COARSE_SOLVER          1304  /* coarse solver in use; `auto` means that there is no deflation */
#define RRB_INFO_DEFLATION_VECTORS      1305  /* number of deflation vectors in use */
#define RRB_INFO_REGIONS                1306  /* number of deflation regions, including regions without a vector */
#define RRB_INFO_STRONG_COMPONENTS      1307  /* number of components that consist of at least two cells joined by
                                                 strong couplings */
#define RRB_INFO_NEUMANN_ROW_SUM        1308  /* Largest row sum of |L D^-1| with `preconditioner=neumann`. If this
                                                 sum is below 1, the Neumann series converges for any order. */
#define RRB_INFO_SECONDS_DEFLATION      1309  /* Wall time, in seconds, for the deflation regions, the coarse matrix
                                                 and the factorization of the coarse matrix. This time is part of
                                                 `seconds_setup`. */
#define RRB_INFO_SECONDS_COARSE         1310  /* Wall time, in seconds, for the solution of systems with the coarse
                                                 matrix. This time is part of `seconds_solve`. */
#define RRB_INFO_SECONDS_ITERATIONS     1311  /* Wall time, in seconds, of the CG iterations. This time is part of
                                                 `seconds_solve`. */
#define RRB_INFO_ROWS                   1400  /* number of rows of the matrix */
#define RRB_INFO_COLS                   1401  /* number of columns of the matrix */
#define RRB_INFO_NONZEROS               1402  /* number of entries of the matrix, including explicit zeros */
#define RRB_INFO_STORED                 1403  /* number of values, including padding, that the format in use stores;
                                                 the number is 0 before the first product */
#define RRB_INFO_FORMAT                 1404  /* format in use; the value is auto before the first product */
#define RRB_INFO_SOLVER                 1405  /* method in use; after a solve, the method with which the solve ended;
                                                 before the first factorize, the value is auto */
#define RRB_INFO_SYMMETRIC              1407  /* 1 if the matrix is symmetric, that is, if |a_ij - a_ji| <= 1e-12
                                                 sqrt(|a_ii a_jj|) for all entries (for a_ii a_jj = 0, the limit is
                                                 1e-12 times the smaller of the largest magnitudes in rows i and j);
                                                 0 if the matrix is not symmetric */
#define RRB_INFO_DOMINANCE              1408  /* kind of diagonal dominance of the rows of the matrix */
#define RRB_INFO_ZERO_DIAGONALS         1409  /* number of rows whose diagonal entry is zero or missing */
#define RRB_INFO_EMPTY_ROWS             1410  /* number of rows without entries */
#define RRB_INFO_DUPLICATES             1411  /* number of entries that were added to an earlier entry with the same
                                                 row and column */
#define RRB_INFO_COLOURS                1412  /* number of colours in a sweep or a triangular solve with
                                                 `ordering=multicolour` */
#define RRB_INFO_SWEEP_LEVELS           1413  /* Number of levels in a sweep or a triangular solve. Each level
                                                 consists of groups of rows that are independent of each other. With
                                                 one thread, the number is 1. In triangular solves with
                                                 `ordering=multicolour`, the levels are the colours; for sweeps with
                                                 `ordering=multicolour` or `ordering=blocks`, the number is 0. */
#define RRB_INFO_SHIFT                  1414  /* shift that ic0 uses */
#define RRB_INFO_BYTES_PER_NONZERO      1415  /* number of bytes that a product moves per entry of the matrix,
                                                 including x and y; the number is 0 before the first product */
#define RRB_INFO_LONGEST_ROW            1416  /* number of entries in the longest row of the matrix */
#define RRB_INFO_FILE_RHS               1417  /* number of right-hand sides in the file of the matrix */
#define RRB_INFO_TRIANGLE               1418  /* triangles of the matrix that have off-diagonal entries; lower or
                                                 upper may mean that only half of a symmetric matrix was passed,
                                                 although both halves are needed */

/* Choices, which are values of options and results. */
#define RRB_BACKEND_AUTO                          0
#define RRB_BACKEND_CPU                           1
#define RRB_BACKEND_CUDA                          2
#define RRB_BACKEND_REFERENCE                     3
#define RRB_MEMORY_AUTO                           0
#define RRB_MEMORY_HOST                           1
#define RRB_MEMORY_DEVICE                         2
#define RRB_NORM_TRUE2                            0
#define RRB_NORM_PRECONDITIONED                   1
#define RRB_REFERENCE_RHS                         0
#define RRB_REFERENCE_INITIAL                     1
#define RRB_NULL_SPACE_AUTO                       0
#define RRB_NULL_SPACE_NONE                       1
#define RRB_NULL_SPACE_CONSTANT                   2
#define RRB_LUMPING_M1                            0
#define RRB_LUMPING_M2                            1
#define RRB_FUSION_ON                             1
#define RRB_FUSION_OFF                            0
#define RRB_COMPENSATION_AUTO                     0
#define RRB_COMPENSATION_NEVER                    1
#define RRB_COMPENSATION_ALWAYS                   2
#define RRB_PRECISION_AUTO                        0
#define RRB_PRECISION_F64                         1
#define RRB_PRECISION_F32                         2
#define RRB_PRECISION_BF16                        3
#define RRB_PRECISION_MIXED                       4
#define RRB_PRECISION_SINGLE                      5
#define RRB_CYCLE_AUTO                            0
#define RRB_CYCLE_V                               1
#define RRB_CYCLE_AMLI                            2
#define RRB_CYCLE_K                               3
#define RRB_CYCLE_AGGREGATION                     4
#define RRB_METHOD_COLOURED_GAUSS_SEIDEL          0
#define RRB_METHOD_BLOCK_JACOBI                   1
#define RRB_METHOD_CHAOTIC_GAUSS_SEIDEL           2
#define RRB_BLOCK_SOLVER_AUTO                     0
#define RRB_BLOCK_SOLVER_FAST_DIAGONALIZATION     1
#define RRB_BLOCK_SOLVER_DENSE                    2
#define RRB_REMAINDER_EXACT                       0
#define RRB_REMAINDER_OVERLAP                     1
#define RRB_PARALLEL_AUTO                         0
#define RRB_PARALLEL_PATCH                        1
#define RRB_PARALLEL_BLOCK                        2
#define RRB_PARALLEL_NESTED                       3
#define RRB_TRANSFER_AUTO                         0
#define RRB_TRANSFER_DEPTH_FIRST                  1
#define RRB_TRANSFER_BREADTH_FIRST                2
#define RRB_PRECONDITIONER_AUTO                   0
#define RRB_PRECONDITIONER_NONE                   1
#define RRB_PRECONDITIONER_JACOBI                 2
#define RRB_PRECONDITIONER_NEUMANN                3
#define RRB_PRECONDITIONER_IC0                    4
#define RRB_PRECONDITIONER_RIC                    5
#define RRB_PRECONDITIONER_MULTIGRID              6
#define RRB_PRECONDITIONER_AMG                    7
#define RRB_PRECONDITIONER_SSOR                   8
#define RRB_PRECONDITIONER_ILU0                   9
#define RRB_PRECONDITIONER_CHEBYSHEV             10
#define RRB_DEFLATION_AUTO                        0
#define RRB_DEFLATION_NONE                        1
#define RRB_DEFLATION_SUBDOMAIN                   2
#define RRB_DEFLATION_LEVELSET                    3
#define RRB_DEFLATION_LEVELSET_SUBDOMAIN          4
#define RRB_COARSE_SOLVER_AUTO                    0
#define RRB_COARSE_SOLVER_INVERSE                 1
#define RRB_COARSE_SOLVER_CHOLESKY                2
#define RRB_COARSE_SOLVER_CG                      3
#define RRB_COARSENING_AUTO                       0
#define RRB_COARSENING_VERTEX                     1
#define RRB_COARSENING_CELL                       2
#define RRB_SOLVER_AUTO                           0
#define RRB_SOLVER_JACOBI                         1
#define RRB_SOLVER_GAUSS_SEIDEL                   2
#define RRB_SOLVER_SOR                            3
#define RRB_SOLVER_CG                             4
#define RRB_SOLVER_BICG                           5
#define RRB_SOLVER_MINRES                         6
#define RRB_SOLVER_BICGSTAB                       7
#define RRB_SOLVER_GMRES                          8
#define RRB_SOLVER_IDR                            9
#define RRB_SOLVER_STEEPEST_DESCENT              10
#define RRB_FORMAT_AUTO                           0
#define RRB_FORMAT_COO                            1
#define RRB_FORMAT_CSR                            2
#define RRB_FORMAT_CSC                            3
#define RRB_FORMAT_BSR                            4
#define RRB_FORMAT_DIA                            5
#define RRB_FORMAT_ELL                            6
#define RRB_FORMAT_SELL                           7
#define RRB_FORMAT_JDS                            8
#define RRB_FORMAT_TJDS                           9
#define RRB_FORMAT_SKYLINE                       10
#define RRB_FORMAT_DIAGONAL                      11
#define RRB_ORDERING_NATURAL                      0
#define RRB_ORDERING_MULTICOLOUR                  1
#define RRB_ORDERING_BLOCKS                       2
#define RRB_ORDERING_SYMMETRIC                    3
#define RRB_TRANSPOSE_AUTO                        0
#define RRB_TRANSPOSE_COPY                        1
#define RRB_TRANSPOSE_NONE                        2
#define RRB_STOP_REASON_NONE                      0
#define RRB_STOP_REASON_CONVERGED                 1
#define RRB_STOP_REASON_INITIAL_GUESS             2
#define RRB_STOP_REASON_ZERO_RHS                  3
#define RRB_STOP_REASON_MAX_ITER                  4
#define RRB_STOP_REASON_MONITOR                   5
#define RRB_STOP_REASON_STAGNATED                 6
#define RRB_STOP_REASON_BREAKDOWN                 7
#define RRB_STOP_REASON_DIVERGED                  8
#define RRB_AUTO_REASON_ASKED                     0
#define RRB_AUTO_REASON_PLAIN                     1
#define RRB_AUTO_REASON_CONTRAST                  2
#define RRB_AUTO_REASON_THIN                      3
#define RRB_AUTO_REASON_ANISOTROPIC               4
#define RRB_AUTO_REASON_LABELS                    5
#define RRB_AUTO_REASON_CROWDED                   6
#define RRB_DOMINANCE_NONE                        0
#define RRB_DOMINANCE_WEAK                        1
#define RRB_DOMINANCE_IRREDUCIBLE                 2
#define RRB_DOMINANCE_STRICT                      3
#define RRB_TRIANGLE_BOTH                         0
#define RRB_TRIANGLE_LOWER                        1
#define RRB_TRIANGLE_UPPER                        2

/* Choices of arguments. */
#define RRB_VECTOR_RHS          0  /* argument which of sparse_get_vector */
#define RRB_VECTOR_GUESS        1  /* argument which of sparse_get_vector */
#define RRB_VECTOR_SOLUTION     2  /* argument which of sparse_get_vector */
#define RRB_FILE_MTX            0  /* argument file_format of sparse_write */
#define RRB_FILE_HB             1  /* argument file_format of sparse_write */
#define RRB_FILE_RB             2  /* argument file_format of sparse_write */

/**
 * Handle of a solver for 3D systems with a 7-point stencil. The handle contains the options, the deflation regions,
 * the factorization and the workspace. Only one thread at a time may use a handle.
 */
typedef struct dpcg_handle dpcg_handle;

/**
 * Handle of a solver for 2D systems with a 5-point or 9-point stencil. The handle contains the options, the
 * factorization and the workspace. Only one thread at a time may use a handle.
 */
typedef struct rrb_handle rrb_handle;

/**
 * Handle of a block smoother. The handle contains the stencil, the block size, the patches, the block inverses and the
 * options. Only one thread at a time may use a handle.
 */
typedef struct smoother_handle smoother_handle;

/**
 * Handle of a sparse matrix. The handle contains the matrix, its storage format, the options, the factorization and
 * the workspace. Only one thread at a time may use a handle.
 */
typedef struct sparse_handle sparse_handle;

/**
 * Status of a call. The value 0 means success. A positive value means that the outputs are usable, but the call did
 * not do everything that was requested. A negative value means failure.
 */
typedef int32_t rrb_status;

/**
 * Type of the log callback. The callback receives one log line without a newline character.
 *
 * The argument `level` is 0 for a warning, 1 for a line about a solve, and 2 for a line about an iteration. The
 * pointer `message` is valid only during the call.
 */
typedef void (*rrb_log_fn)(void *user, int32_t level, const char *message);

/**
 * A pair of messages: a message to another rank, and a message from this other rank. Each of the two messages may be
 * empty.
 */
typedef struct {
    /**
     * Number of the other rank.
     */
    int32_t peer;
    /**
     * Tag of the messages, equal on both ranks. For each peer and tag, an exchange has one pair of messages.
     */
    int32_t tag;
    /**
     * Number of bytes to send; 0 if there is no message to send.
     */
    int64_t send_bytes;
    /**
     * Number of bytes to receive; 0 if there is no message to receive.
     */
    int64_t receive_bytes;
    /**
     * Buffer with the values to send.
     */
    const void *send;
    /**
     * Buffer for the received values.
     */
    void *receive;
} rrbsolver_message;

/**
 * Table of functions that send messages between the ranks of a domain, for `rrb_create_distributed`.
 *
 * The functions `exchange`, `allreduce` and `allgather` create a plan. A plan is a communication that can be repeated
 * with the same buffers. The function `start` starts a plan, `test` checks whether the plan is complete, and `release`
 * frees the plan. The functions `test` and `release` must not wait. The library may release a plan before the plan is
 * complete.
 *
 * - All functions return 0 after success and another number after failure.
 * - All ranks start the plans of `allreduce` and `allgather` in the same order. Ranks may create a plan at different
 *   times. The creation of a plan must therefore not wait for other ranks.
 * - The library calls these functions only on the thread that called the library.
 * - The library copies the table. The pointer `context` must remain valid until all handles that were created with the
 *   table are destroyed.
 */
typedef struct {
    /**
     * `sizeof(rrbsolver_comm)`.
     */
    int64_t struct_size;
    /**
     * Pointer that the library passes as the first argument of all functions.
     */
    void *context;
    /**
     * Number of this rank, counted from 0.
     */
    int32_t rank;
    /**
     * Number of ranks.
     */
    int32_t size;
    /**
     * Must be 0. Later versions of the library may define 1 for functions that accept device pointers, and 2 for a
     * function `start` that enqueues its work on the CUDA stream.
     */
    int32_t flags;
    /**
     * Must be 0.
     */
    int32_t reserved;
    /**
     * Creates a plan for `count` pairs of messages. The list `messages` is valid only during this call. Each start of
     * the plan sends from and receives into the buffers of the pairs.
     */
    int32_t (*exchange)(void *context, int64_t count, const rrbsolver_message *messages, void **plan);
    /**
     * Creates a plan that reduces `count` doubles over all ranks, in place and in any order. The values of `operation`
     * are 0 (sum), 1 (maximum) and 2 (minimum).
     */
    int32_t (*allreduce)(void *context, int64_t count, double *values, int32_t operation, void **plan);
    /**
     * Creates a plan that gathers `bytes[rank]` bytes of each rank into `receive`, in the order of the ranks. The list
     * `bytes` is valid only during this call.
     */
    int32_t (*allgather)(void *context, const void *send, void *receive, const int64_t *bytes, void **plan);
    /**
     * Starts a plan. If the buffers are in host memory, `cuda_stream` is NULL.
     */
    int32_t (*start)(void *context, void *plan, void *cuda_stream);
    /**
     * Sets `done` to 1 if the plan is complete, otherwise to 0.
     */
    int32_t (*test)(void *context, void *plan, int32_t *done);
    /**
     * Frees a plan.
     */
    int32_t (*release)(void *context, void *plan);
} rrbsolver_comm;

/**
 * Type of the ghost function. Before each sweep, the ghost function fills the ghost cells that no patch covers.
 *
 * The argument `sweep` is the number of the sweep, counted from 0; it is -1 before a residual is computed. The
 * argument `u` contains one pointer per patch to the array of the patch. A nonzero return value stops the call.
 */
typedef int32_t (*smoother_ghost_fn)(void *user, int32_t sweep, double *const *u);

/**
 * Type of the monitor. The library calls the monitor before the first iteration, with `iteration` equal to 0, and
 * after each iteration.
 *
 * The argument `relative_residual` is the residual norm of the stopping test, divided by the reference of this test.
 * In `smoother_apply`, the argument is the residual norm divided by the residual norm before the first sweep. A
 * nonzero return value stops the solve.
 */
typedef int32_t (*rrb_monitor_fn)(void *user, int64_t iteration, double relative_residual);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Creates a solver for symmetric matrices with a 7-point stencil on nx x ny x nz cells.
 *
 * The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides these defaults.
 * `dpcg_factorize` allocates the memory for the matrix. `dpcg_destroy` frees the handle.
 *
 * Parameters:
 * - `nx`, `ny`, `nz` (in): numbers of cells in x, y and z. Each must be at least 1, and nx * ny * nz must be at most
 *   2^32 - 1.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL.
 * - `RRB_ERR_DIMENSION`: `nx`, `ny` or `nz` is below 1, or nx * ny * nz is above 2^32 - 1.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * Notes:
 * - One process solves the whole system, because `dpcg_` does not run over several MPI ranks. If the matrix is
 *   distributed, gather it on one rank.
 * - Periodic boundaries are not supported. The solver ignores the couplings of the last cell in each direction to
 *   cells outside the grid.
 *
 * Required:
 * `out` must be NULL or point to a pointer.
 */
rrb_status dpcg_create(int64_t nx, int64_t ny, int64_t nz, dpcg_handle **out);

/**
 * Sets the deflation regions of `deflation=levelset` and `deflation=levelset_subdomain` by one label per cell.
 *
 * Cells with the same label form one region, such as one bubble. Each region has one deflation vector. The call copies
 * the labels, and the next `dpcg_factorize` uses the labels. Before this factorization, `dpcg_solve` returns
 * `RRB_ERR_STATE`. Without labels, `dpcg_factorize` determines the regions from the strong couplings of the matrix.
 *
 * Parameters:
 * - `h` (in/out): handle from `dpcg_create`.
 * - `labels` (in): label of each cell, in the same layout as the arrays of `dpcg_factorize`. The array must be in host
 *   memory. A label is the number of a region, counted from 0; -1 marks a cell outside all regions. NULL removes the
 *   regions.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_ARGUMENT`: a label is below -1; or `labels` is not 4-byte aligned; or `labels` is in device memory.
 * - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of the array overflows.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation of the copy of the labels failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `labels`.
 *
 * After an error the regions are unchanged.
 *
 * Notes:
 * - Labels need not be consecutive. `dpcg_factorize` splits a region that extends over several connected components of
 *   the matrix.
 * - The call does not read the padding between rows and planes.
 * - If there are more than 65,535 regions, `dpcg_factorize` returns `RRB_ERR_ARGUMENT`. With `deflation=none` or
 *   `deflation=subdomain`, `dpcg_factorize` ignores the labels.
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`. `labels` must be NULL or have the size of the arrays of
 * `dpcg_factorize`.
 */
rrb_status dpcg_set_regions(dpcg_handle *h, const int32_t *labels);

/**
 * Copies the coefficients of A and computes the preconditioner M, the deflation vectors Z and the coarse matrix E =
 * Z^T A Z.
 *
 * The sign convention is that of -div(k grad x): `center` is positive, and couplings are normally negative. For a
 * Neumann problem, the center is minus the sum of the six couplings of the cell. A second call replaces the matrix and
 * reuses the memory of the first call. After an error the handle holds no matrix.
 *
 * Parameters:
 * - `h` (in/out): handle from `dpcg_create`.
 * - `center` (in): diagonal entry of cell (i, j, k), which must be positive.
 * - `east` (in): matrix entry that couples the cells (i, j, k) and (i + 1, j, k).
 * - `north` (in): matrix entry that couples the cells (i, j, k) and (i, j + 1, k).
 * - `top` (in): matrix entry that couples the cells (i, j, k) and (i, j, k + 1).
 *
 * Entry (i, j, k) of an array `a` is `a[k*lp + j*ld + i]`. The option `leading_dimension` sets ld; the default is nx.
 * The option `leading_plane` sets lp; the default is ny * ld.
 *
 * Each array has (nz - 1) * lp + (ny - 1) * ld + nx values. The arrays are in host memory or in the memory of the
 * handle's device.
 *
 * All four arrays are required, even if nz = 1. The call does not read the padding between rows and planes.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_ARGUMENT`: `subdomains_x` is greater than nx, `subdomains_y` is greater than ny, or `subdomains_z` is
 *   greater than nz.
 * - `RRB_ERR_ARGUMENT`: there are more than 65,535 deflation regions.
 * - `RRB_ERR_ARGUMENT`: `check_input=2` is set, and a coupling to a cell outside the grid is not zero.
 * - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
 * - `RRB_ERR_DIMENSION`: the solver runs on a device, but the grid has more than 2^31 cells in total, or more than
 *   2^31 - 1 cells in one direction.
 * - `RRB_ERR_MATRIX`: a center is not positive, or is below the smallest positive normal double. If all centers are
 *   negative, the message suggests that the arrays may hold -A and -b.
 * - `RRB_ERR_MATRIX`: a pivot is not positive in the ic0 or ric factorization, or in the factorization of E or of the
 *   coarsest-grid matrix. With `ric_omega=1`, every singular matrix has a pivot that is not positive.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and a coefficient is NaN or infinite.
 * - `RRB_ERR_UNSUPPORTED`: the solver runs on a device, but `preconditioner=ic0`, `preconditioner=ric` or
 *   `coarse_solver=cg` is set.
 * - `RRB_ERR_UNSUPPORTED`: `preconditioner=amg` is set together with `backend=reference`.
 * - `RRB_ERR_UNSUPPORTED`: `preconditioner=amg` is set, but there are too many cells for 32-bit indices.
 * - `RRB_ERR_UNSUPPORTED`: `null_space=constant` is set, but the row sums of the matrix are not zero.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the library was built without CUDA kernels.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
 * - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * - Positive couplings are accepted. If the caller passes couplings with the wrong sign, the library therefore reports
 *   no error, and `dpcg_solve` computes a wrong solution.
 * - Couplings to cells outside the grid are ignored. If a coupling of this kind is a nonzero number, the library
 *   writes one log line per handle.
 * - To exclude a solid cell, pass zero couplings and a positive center for this cell.
 * - If all boundaries have Neumann conditions, the matrix is singular. The option `null_space` determines which
 *   connected components of the matrix are treated as singular.
 * - The values that `auto` selects depend on the matrix, the options and the machine, but not on measured times.
 *   `RRB_INFO_PRECONDITIONER`, `RRB_INFO_DEFLATION`, `RRB_INFO_COARSENING` and `RRB_INFO_COARSE_SOLVER` report the
 *   selected values. `RRB_INFO_AUTO_REASON` reports the reason for the selection.
 * - Sources: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370 (deflated CG); van der Vorst, SIAM J.
 *   Sci. Stat. Comput. 3 (1982), 350-356 (Neumann series).
 * - Sources: Dendy, J. Comput. Phys. 48 (1982), 366-386 (multigrid); Napov and Notay, SIAM J. Sci. Comput. 34 (2012),
 *   A1079-A1109 (amg).
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`. Each array must be NULL or have the size given above.
 */
rrb_status dpcg_factorize(dpcg_handle *h,
                          const double *center,
                          const double *east,
                          const double *north,
                          const double *top);

/**
 * Solves A x = b by deflated preconditioned conjugate gradients.
 *
 * The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The options `norm` and `reference` select
 * the norm and the reference value. With the default `norm=true2`, A is the caller's matrix, not the deflated matrix.
 *
 * The residual is recomputed from x before convergence is reported. For b = 0, the result is x = 0. If the initial
 * guess satisfies the stopping test, the call returns the guess after 0 iterations.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `dpcg_factorize`.
 * - `b` (in): right-hand side, with the sign of -div(k grad x) = b.
 * - `x` (in/out): initial guess on entry, solution on return; must not overlap `b`.
 *
 * Both arrays have the layout described at `dpcg_factorize`. They are in host memory or in the memory of the handle's
 * device.
 *
 * Returns:
 * - `RRB_OK`: the solve has converged.
 * - `RRB_NOT_CONVERGED`: the solve reached the limit `max_iter`, or it stagnated. `x` is the last iterate, or an
 *   earlier iterate with a smaller residual.
 * - `RRB_STOPPED`: the monitor stopped the solve; `x` is the current iterate.
 *
 * After `RRB_NOT_CONVERGED` and `RRB_STOPPED`, the message of `rrbsolver_last_error` contains the number of
 * iterations, the residual, the tolerance and the stop reason. `RRB_INFO_ITERATIONS`, `RRB_INFO_STOP_REASON` and
 * `RRB_INFO_FINAL_RESIDUAL` return the number of iterations, the stop reason and the residual as numbers.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `b` or `x` is NULL.
 * - `RRB_ERR_ARGUMENT`: `b` and `x` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_ARGUMENT`: the initial guess x is so large that max abs(x) is above 1e150 * max abs(b) / max abs(center).
 * - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
 * - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
 *   "at factorize".
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `b` or `x` contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: the solution is too large for a double.
 * - `RRB_ERR_RANGE`: the values of the solution are so small that they underflow.
 * - `RRB_ERR_BREAKDOWN`: A or M is indefinite, or the iteration overflowed.
 * - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `b` contains NaN or infinity.
 * - `RRB_ERR_INCOMPATIBLE`: `check_compatibility=1` is set, and `b` does not sum to zero over a singular component.
 * - `RRB_ERR_MEMORY`: allocation of transfer buffers failed. This error occurs only if the solver runs on a device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * After an error `x` is unchanged.
 *
 * Notes:
 * - On each singular component, the solver subtracts the mean of b from b. On this component, the solution has the
 *   same mean as the initial guess.
 * - `x` and the stopping test are in double precision, regardless of the option `precision`.
 * - On the CPU, the call allocates no memory and starts no thread. On a device, the first solve with pageable host
 *   arrays allocates page-locked buffers. This solve also starts threads that copy the arrays to and from these
 *   buffers.
 * - Source: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370.
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`. The arrays must be NULL or hold (nz - 1) * lp + (ny - 1) * ld + nx
 * values.
 */
rrb_status dpcg_solve(dpcg_handle *h, const double *b, double *x);

/**
 * Computes z = M^-1 r or, with deflation, z = (P^T M^-1 P + Z E^-1 Z^T) r, for a Krylov method of the caller.
 *
 * The projection is P = I - A Z E^-1 Z^T. The operator that maps r to z is fixed, symmetric and positive definite,
 * except with `preconditioner=amg` on the CPU. These properties hold up to rounding errors in the selected
 * `precision`. With `coarse_solver=cg`, they hold up to errors of relative size `coarse_tol`.
 *
 * With `preconditioner=amg` on the CPU, the operator depends on r. In this case, use the operator only in a flexible
 * Krylov method, such as flexible CG.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `dpcg_factorize`.
 * - `r` (in): residual, in the layout described at `dpcg_factorize`.
 * - `z` (out): result, in the layout of `r`; must not overlap `r`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `r` or `z` is NULL.
 * - `RRB_ERR_ARGUMENT`: `r` and `z` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
 * - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
 *   "at factorize".
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `r` contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: `z` is too large for a double.
 * - `RRB_ERR_RANGE`: the values of `z` are so small that they underflow.
 * - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `r` contains NaN or infinity.
 * - `RRB_ERR_MEMORY`, `RRB_ERR_DEVICE`: these errors occur under the same conditions as in `dpcg_solve`.
 *
 * After an error `z` is unchanged.
 *
 * Notes:
 * If the matrix has singular components, the call subtracts the means of r and z on each of these components. In this
 * case, the operator is positive definite on the complement of the null space.
 *
 * Required:
 * The requirements are those of `dpcg_solve`.
 */
rrb_status dpcg_apply(dpcg_handle *h, const double *r, double *z);

/**
 * Computes y = A x with the matrix of the last `dpcg_factorize`, without deflation.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `dpcg_factorize`.
 * - `x` (in): vector to multiply, in the layout described at `dpcg_factorize`.
 * - `y` (out): product, in the layout of `x`; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `x` or `y` is NULL.
 * - `RRB_ERR_ARGUMENT`: `x` and `y` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
 * - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
 *   "at factorize".
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `x` contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: `y` is too large for a double.
 * - `RRB_ERR_MEMORY`, `RRB_ERR_DEVICE`: these errors occur under the same conditions as in `dpcg_solve`.
 *
 * After an error `y` is unchanged.
 *
 * Required:
 * The requirements are those of `dpcg_solve`.
 */
rrb_status dpcg_multiply(dpcg_handle *h, const double *x, double *y);

/**
 * Solves one system A x = b without a handle.
 *
 * The function can replace a call to an ICCG routine in an existing program. It creates a handle, factorizes the
 * matrix, solves the system and frees the handle. If you solve repeatedly on the same grid, use a handle, because a
 * handle reuses the memory, the threads and the factorization.
 *
 * Parameters:
 * - `nx`, `ny`, `nz` (in): numbers of cells in x, y and z, as for `dpcg_create`.
 * - `center`, `east`, `north`, `top` (in): coefficients, as for `dpcg_factorize`. The arrays have no padding: entry
 *   (i, j, k) is `a[(k * ny + j) * nx + i]`.
 * - `b` (in): right-hand side, an array without padding.
 * - `x` (in/out): initial guess on entry, solution on return. The array has no padding and must not overlap another
 *   array.
 * - `rel_tol` (in): relative tolerance in (0, 1): the solve stops when norm(b - A x) <= rel_tol * norm(b).
 * - `max_iter` (in): iteration limit, in [0, 2147483647].
 * - `iterations` (out): number of iterations; unchanged after an error. The pointer may be NULL.
 *
 * Returns:
 * `RRB_OK` or `RRB_NOT_CONVERGED`, with the same meaning as for `dpcg_solve`.
 *
 * Errors:
 * - `RRB_ERR_ARGUMENT`: `rel_tol` or `max_iter` is out of range, or `x` overlaps another array.
 * - all errors of `dpcg_create`, `dpcg_factorize` and `dpcg_solve`, except `RRB_ERR_STATE`.
 *
 * After an error `x` is unchanged.
 *
 * Notes:
 * The environment variable `RRBSOLVER_OPTIONS` overrides the arguments `rel_tol` and `max_iter`. It also overrides the
 * defaults of all other options.
 *
 * Required:
 * The requirements are those of `dpcg_factorize` and `dpcg_solve`. `iterations` must be NULL or point to an `int64_t`.
 */
rrb_status dpcg_solve_once(int64_t nx,
                           int64_t ny,
                           int64_t nz,
                           const double *center,
                           const double *east,
                           const double *north,
                           const double *top,
                           const double *b,
                           double *x,
                           double rel_tol,
                           int64_t max_iter,
                           int64_t *iterations);

/**
 * Returns the version of the library, such as "0.1.0".
 *
 * Parameters:
 * None.
 *
 * Returns:
 * The function returns a text that ends with NUL. The pointer to this text is valid until the program ends.
 *
 * Errors:
 * None.
 *
 * Notes:
 * The macros `RRBSOLVER_VERSION_MAJOR`, `RRBSOLVER_VERSION_MINOR` and `RRBSOLVER_VERSION_PATCH` contain the version of
 * the header at compile time.
 */
const char *rrbsolver_version(void);

/**
 * Returns a short description of a status.
 *
 * Parameters:
 * - `status` (in): any number. If the number is not a status, the function returns "unknown status".
 *
 * Returns:
 * The function returns a text that ends with NUL. The pointer to this text is valid until the program ends.
 *
 * Errors:
 * None.
 *
 * Notes:
 * For the details of an error or the stop reason of a solve, call `rrbsolver_last_error`.
 */
const char *rrbsolver_status_string(rrb_status status);

/**
 * Copies the message about the last call of this thread that did not return `RRB_OK`.
 *
 * An error message names the argument, its value and the allowed range. Indices in messages count from 0. After
 * `RRB_NOT_CONVERGED` or `RRB_STOPPED`, the message contains the number of iterations, the residual, the tolerance and
 * the stop reason.
 *
 * Parameters:
 * - `buffer` (out): array that receives at most `capacity` bytes of the message, including NUL at the end. NULL is
 *   allowed if `capacity` is 0.
 * - `capacity` (in): size of `buffer` in bytes.
 *
 * Returns:
 * The function returns the number of bytes of the complete message, including NUL. If there is no message, the
 * function returns 1.
 *
 * Errors:
 * None.
 *
 * Notes:
 * A successful call does not clear the message. Test the status of a call before you use the message.
 *
 * Required:
 * `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error(char *buffer, int64_t capacity);

/**
 * Copies the message of `rrbsolver_last_error`, with indices that count from `index_base`.
 *
 * Parameters:
 * - `index_base` (in): index of the first element in each direction: 0 as in C, or 1 as in Fortran.
 * - `buffer` (out): array that receives at most `capacity` bytes of the message, including NUL at the end. NULL is
 *   allowed if `capacity` is 0.
 * - `capacity` (in): size of `buffer` in bytes.
 *
 * Returns:
 * The function returns the number of bytes of the complete message, including NUL. If there is no message, the
 * function returns 1.
 *
 * Errors:
 * None.
 *
 * Notes:
 * This function is intended for bindings to languages in which indices start at 1.
 *
 * Required:
 * `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error_based(int32_t index_base, char *buffer, int64_t capacity);

/**
 * Counts the CUDA devices that the library can use.
 *
 * Parameters:
 * - `count` (out): number of devices. The number is 0 if there is no CUDA driver, or if the library was built without
 *   CUDA kernels.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `count` is NULL.
 *
 * Notes:
 * The first call loads the CUDA driver if the driver is installed. Later calls set `count` to the same number as the
 * first call.
 *
 * Required:
 * `count` must be NULL or point to an `int32_t`.
 */
rrb_status rrbsolver_cuda_device_count(int32_t *count);

/**
 * Sets or removes the callback that receives the log lines of all handles with `log=callback`.
 *
 * The call waits until no other thread runs the previous callback. When the call returns, the previous callback is not
 * running and will not be called again. The caller must hold no lock that the previous callback needs.
 *
 * Parameters:
 * - `callback` (in): the function that receives each log line with its level; NULL removes the callback.
 * - `user` (in): pointer that is passed to the callback; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - The library may call the callback on any thread that uses the library, and on several threads at the same time.
 * - The callback may call the library with other handles, but not with the handle that writes the log line. The
 *   library drops the log lines of calls inside the callback. A thread therefore never runs the callback recursively.
 * - The callback must remain valid until it is replaced. If the callback itself calls `rrbsolver_set_log`, this call
 *   does not wait.
 * - The option `verbosity` of a handle selects the log lines of this handle. Without a callback, the library drops the
 *   log lines.
 */
rrb_status rrbsolver_set_log(rrb_log_fn callback, void *user);

/**
 * Creates a solver for symmetric matrices with a 5-point or 9-point stencil on nx x ny nodes.
 *
 * The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides these defaults.
 * `rrb_factorize` allocates the memory for the matrix. `rrb_destroy` frees the handle.
 *
 * Parameters:
 * - `nx`, `ny` (in): numbers of nodes in x and y. Each must be at least 1, and nx * ny must be at most 2^32 - 1.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL.
 * - `RRB_ERR_DIMENSION`: `nx` or `ny` is below 1, or nx * ny is above 2^32 - 1.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * Required:
 * `out` must be NULL or point to a pointer.
 */
rrb_status rrb_create(int64_t nx, int64_t ny, rrb_handle **out);

/**
 * Copies the coefficients of A and computes the preconditioner M.
 *
 * With `cycle=v`, `cycle=amli` or `cycle=k`, M is the incomplete RRB factorization L D L^T = A - R, where R is the
 * error of the factorization. With `cycle=aggregation`, M is an aggregation-based multigrid method. The sign
 * convention is that of -div(k grad u): `center` is positive, and couplings are normally negative.
 *
 * After success, the handle holds the new matrix. After an error, the handle holds no matrix. A second call reuses the
 * memory of the first call if possible.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create` or `rrb_create_distributed`.
 * - `center` (in): diagonal entries of A, which must be positive.
 * - `east` (in): entries of A that couple the nodes (i, j) and (i+1, j).
 * - `north` (in): entries of A that couple the nodes (i, j) and (i, j+1).
 * - `northeast` (in): entries of A that couple the nodes (i, j) and (i+1, j+1); NULL for a 5-point stencil.
 * - `northwest` (in): entries of A that couple the nodes (i, j) and (i-1, j+1); NULL for a 5-point stencil.
 *
 * Each array has (ny - 1) * ld + nx values, where ld is the option `leading_dimension` (by default nx). The arrays are
 * in host memory or in the memory of the handle's device. The call does not read the padding between rows.
 *
 * The call ignores array values that couple a node of the grid to a node outside the grid. The option `check_input`
 * determines whether nonzero values of this kind are logged or cause an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or a required array is NULL, or exactly one of `northeast` and `northwest` is NULL.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_ARGUMENT`: `cycle_spacing` is odd.
 * - `RRB_ERR_ARGUMENT`: with the values of `cycle_steps` and `cycle_spacing`, one AMLI-cycle or K-cycle would cost
 *   more than 100 V-cycles.
 * - `RRB_ERR_ARGUMENT`: `check_input=2` is set, and a coupling to a node outside the grid is not zero.
 * - `RRB_ERR_DIMENSION`: `leading_dimension` is so large that the length of an array overflows.
 * - `RRB_ERR_UNSUPPORTED`: the solver runs on a device, and `cycle=k` is set.
 * - `RRB_ERR_UNSUPPORTED`: `cycle=aggregation` is set together with `precision=bf16`, `precision=mixed` or
 *   `backend=reference`.
 * - `RRB_ERR_UNSUPPORTED`: `null_space=constant` is set, but a connected component of the matrix is not singular.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver does not run on a device.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the library was built without CUDA kernels.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MATRIX`: a center or a pivot is not positive, or a pivot underflows in the selected `precision`.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and an array contains NaN or infinity.
 * - `RRB_ERR_MEMORY`: allocation failed, or the exact factor of the coarsest system needs more memory than
 *   `coarse_memory` allows.
 * - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
 *
 * Notes:
 * - The choices of `precision=auto` and `cycle=auto` depend on the matrix. The rules of auto describe these choices.
 *   `RRB_INFO_PRECISION` and `RRB_INFO_CYCLE` report the choices.
 * - `auto` changes some choices after a failed factorization or a slow solve. The new choices also apply to later
 *   matrices, until an option that affects these choices changes.
 * - The call performs about 40 flops per node. With `cycle=amli`, the call also performs 6 to 16 CG steps on each grid
 *   on which the cycle recurses. With the default `cycle_spacing`, the largest of these grids has 1/16 of all nodes.
 * - A second call allocates memory only if the precision or the cycle has changed, or if the matrix has more connected
 *   components than before.
 * - With `cycle=aggregation` on the CPU, the call tests the quality of the aggregates of the previous matrix for the
 *   new matrix. The call reuses each aggregate that passes this test.
 * - On a distributed handle, the call is collective: all ranks must make this call. A rank with one box passes the
 *   arrays of that box.
 * - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, section 2.2.
 *
 * Required:
 * `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`. Each array must be NULL or have the size
 * given above.
 */
rrb_status rrb_factorize(rrb_handle *h,
                         const double *center,
                         const double *east,
                         const double *north,
                         const double *northeast,
                         const double *northwest);

/**
 * Solves A x = b by conjugate gradients with the preconditioner M.
 *
 * The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The options `norm` and `reference` select
 * the norm and the reference value. `x` and the stopping test are in double precision, regardless of the option
 * `precision`.
 *
 * Parameters:
 * - `h` (in/out): handle with a factorized matrix.
 * - `b` (in): right-hand side, an array of (ny - 1) * ld + nx values in host memory or in the memory of the handle's
 *   device.
 * - `x` (in/out): initial guess on entry, solution on return. The array has the size of `b` and must not overlap `b`.
 *
 * Returns:
 * - `RRB_OK`: the solve has converged. If b = 0, the call returns x = 0 after 0 iterations. If the initial guess
 *   satisfies the stopping test, the call returns the guess after 0 iterations.
 * - `RRB_NOT_CONVERGED`: the solve reached the limit `max_iter`, or it stagnated. x is the last iterate, or an earlier
 *   iterate with a smaller residual. `RRB_INFO_STOP_REASON` reports the stop reason.
 * - `RRB_STOPPED`: the monitor stopped the solve; x is the current iterate.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: the arrays overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts "at factorize" has changed since the last
 *   `rrb_factorize`.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_ARGUMENT`: the initial guess x is so large that max abs(x) is above 1e150 * max abs(b) / max abs(center).
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and b or x contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: the solution is too large for a double.
 * - `RRB_ERR_RANGE`: the values of the solution are so small that they underflow.
 * - `RRB_ERR_BREAKDOWN`: the matrix or the preconditioner is indefinite, or the iteration overflowed.
 * - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and b contains NaN or infinity.
 * - `RRB_ERR_INCOMPATIBLE`: `check_compatibility=1` is set, and b has a component in the null space.
 * - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the solver runs on a device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
 *
 * After an error x is unchanged, except after `RRB_ERR_DEVICE`.
 *
 * Notes:
 * - On each singular component, the solver subtracts the mean of b from b. On this component, the solution has the
 *   same mean as the initial guess.
 * - With `precision=f32`, `precision=bf16` or `precision=mixed`, the solver replaces the initial guess with zero if
 *   max |x| > 1e15 max |b| / max center.
 * - With `cycle=auto`, CG may detect that the selected cycle is indefinite. In this case, the solve continues with
 *   `cycle=v`. All later solves before the next `rrb_factorize` also use `cycle=v`.
 * - With `cycle=auto`, a slow solve may switch to `cycle=aggregation`, which allocates memory. The option
 *   `switch_memory` limits this memory; `switch_memory=0` prevents the switch. The rules of auto describe the switch.
 * - If `cycle` is not `auto`, or if `switch_memory=0` is set, a solve on the CPU allocates no memory and starts no
 *   thread.
 * - On a distributed handle with `precision=auto`, a solve with `precision=mixed` may stagnate. The call then
 *   factorizes the matrix again with `precision=bf16` and continues the solve.
 * - If the solver runs on a device, the first call with pageable host arrays allocates page-locked buffers. This call
 *   also starts threads that copy the arrays to and from these buffers.
 * - With a 5-point stencil and `fusion=on`, an iteration reads and writes 48 to 122 bytes of memory per unknown,
 *   depending on `cycle` and `precision`.
 * - On a distributed handle, the call is collective: all ranks must make this call.
 * - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, algorithms 1 and 3.
 *
 * Required:
 * `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`. Each array must be NULL or have the size
 * given above.
 */
rrb_status rrb_solve(rrb_handle *h, const double *b, double *x);

/**
 * Computes z = M^-1 r with the preconditioner M.
 *
 * M is symmetric and positive definite, except with `cycle=k`. If the matrix has singular components, the call
 * subtracts the means of r and z on each of these components. In this case, M^-1 is positive definite on the
 * complement of the null space.
 *
 * Parameters:
 * - `h` (in/out): handle with a factorized matrix.
 * - `r` (in): array of (ny - 1) * ld + nx values in host memory or in the memory of the handle's device.
 * - `z` (out): array of the size of `r`; must not overlap `r`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: the arrays overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts "at factorize" has changed since the last
 *   `rrb_factorize`.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and r contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: z is too large for a double.
 * - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and r contains NaN or infinity.
 * - `RRB_ERR_RANGE`: the values of z are so small that they underflow.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
 *
 * After an error z is unchanged.
 *
 * Notes:
 * - With `cycle=k`, z is not a linear function of r. In this case, use M only in a flexible Krylov method. With all
 *   other cycles, M is a fixed matrix up to rounding errors.
 * - With `precision=f64`, z has double precision. With any other precision, z has single precision.
 * - On a distributed handle, the call is collective: all ranks must make this call.
 *
 * Required:
 * The requirements are those of `rrb_solve`.
 */
rrb_status rrb_apply(rrb_handle *h, const double *r, double *z);

/**
 * Computes y = A x with the matrix A of the last `rrb_factorize`.
 *
 * Parameters:
 * - `h` (in/out): handle with a factorized matrix.
 * - `x` (in): array of (ny - 1) * ld + nx values in host memory or in the memory of the handle's device.
 * - `y` (out): array of the size of `x`; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: the arrays overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
 *   specifies.
 * - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts "at factorize" has changed since the last
 *   `rrb_factorize`.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and x contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: y is too large for a double.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
 *
 * After an error y is unchanged.
 *
 * Notes:
 * - The product is computed in double precision, regardless of the option `precision`.
 * - On a distributed handle, the call is collective: all ranks must make this call.
 *
 * Required:
 * The requirements are those of `rrb_solve`.
 */
rrb_status rrb_multiply(rrb_handle *h, const double *x, double *y);

/**
 * Solves one system A x = b without a handle.
 *
 * The function can replace a call to an ICCG routine in an existing program. It creates a handle, factorizes the
 * matrix, solves the system and frees the handle. If you solve repeatedly on the same grid, use a handle, because a
 * handle reuses the memory and the factorization.
 *
 * Parameters:
 * - `nx`, `ny` (in): numbers of nodes in x and y, as for `rrb_create`.
 * - `center`, `east`, `north` (in): coefficients, as for `rrb_factorize`, with ld = nx.
 * - `northeast`, `northwest` (in): additional coefficients of a 9-point stencil; NULL for a 5-point stencil.
 * - `b` (in): right-hand side, an array of nx * ny values.
 * - `x` (in/out): initial guess on entry, solution on return; must not overlap another array.
 * - `rel_tol` (in): relative tolerance in (0, 1): the solve stops when ||b - A x||_2 <= rel_tol * ||b||_2.
 * - `max_iter` (in): iteration limit, at least 0.
 * - `iterations` (out): number of iterations; may be NULL.
 *
 * Returns:
 * `RRB_OK` or `RRB_NOT_CONVERGED`, with the same meaning as for `rrb_solve`.
 *
 * Errors:
 * - all errors of `rrb_create`, `rrb_factorize` and `rrb_solve`.
 * - `RRB_ERR_ARGUMENT`: `rel_tol` or `max_iter` is out of range.
 *
 * After an error x is unchanged.
 *
 * Notes:
 * The environment variable `RRBSOLVER_OPTIONS` overrides the arguments `rel_tol` and `max_iter`. It also overrides the
 * defaults of all other options.
 *
 * Required:
 * The requirements are those of `rrb_factorize` and `rrb_solve`. `iterations` must be NULL or point to an `int64_t`.
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
 * Creates a solver for one domain of nx x ny nodes that is distributed over several ranks.
 *
 * Each rank owns zero, one or several boxes of nodes. Boxes must not overlap. Nodes outside all boxes are land; the
 * solver ignores couplings to land nodes. With MPI, the function `rrbsolver_mpi_comm` fills the table `comm`; see the
 * guide to MPI.
 *
 * Parameters:
 * - `nx`, `ny` (in): numbers of nodes of the whole domain in x and y. They must be the same on all ranks; the limits
 *   are those of `rrb_create`.
 * - `count` (in): number of boxes of this rank, at least 0.
 * - `lower` (in): for each box, the indices in x and y of its first node, counted from 0. NULL is allowed if `count`
 *   is 0.
 * - `size` (in): for each box, the numbers of nodes in x and y, each at least 1. NULL is allowed if `count` is 0.
 * - `comm` (in): table of functions that send messages between the ranks. The library copies the table.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out`, `comm` or a function of `comm` is NULL.
 * - `RRB_ERR_NULL`: `lower` or `size` is NULL, but `count` is not 0.
 * - `RRB_ERR_DIMENSION`: `nx` or `ny` is below 1, or nx * ny is above 2^32 - 1.
 * - `RRB_ERR_ARGUMENT`: a box extends beyond the domain, boxes overlap, no rank has a box, or `nx` or `ny` differs
 *   between ranks.
 * - `RRB_ERR_ARGUMENT`: `count` is negative, or the field `struct_size`, `rank`, `size`, `flags` or `reserved` of
 *   `comm` is not valid.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed.
 *
 * Notes:
 * - This call is collective: all ranks must make this call. With this handle, `rrb_factorize`, `rrb_solve`,
 *   `rrb_apply`, `rrb_multiply` and the functions for boxes are also collective. All ranks must make these calls in
 *   the same order and with the same options.
 * - Only the options `threads`, `verbosity`, `log`, `leading_dimension`, `memory`, `device` and `comm_timeout` may
 *   differ between ranks.
 * - The call returns the same status on all ranks. If one rank fails, the messages on the other ranks begin with the
 *   number of the failed rank. A rank whose `comm` is incomplete cannot notify the other ranks.
 * - After `RRB_ERR_COMMUNICATION`, the only valid call with the handle is `rrb_destroy`.
 * - A rank with one box calls `rrb_factorize`, `rrb_solve`, `rrb_apply` and `rrb_multiply` with the arrays of its box.
 *   A rank without a box calls these functions with NULL. A rank with several boxes calls the functions whose names
 *   end with `_boxes`.
 * - The rank that owns node (i, j) passes `east[i, j]`, even if node (i + 1, j) is in another box. Here i and j are
 *   indices in the whole domain.
 * - With `reproducible=1`, results are bitwise identical for any partition into boxes, any number of ranks and any
 *   number of threads.
 * - On a distributed handle, `cycle=auto` selects `cycle=v` or `cycle=amli`, but never `cycle=aggregation`.
 * - With `backend=cuda`, rank 0 solves on the devices that its options `device` and `devices` select. The other ranks
 *   transfer their data to rank 0 and receive their results from rank 0.
 * - The pointer `context` in `comm` must remain valid until the handle is destroyed.
 *
 * Required:
 * `out` must be NULL or point to a pointer. `lower` and `size` must be NULL or hold `count` pairs. `comm` must be NULL
 * or point to a table whose functions work as described at `rrbsolver_comm`.
 */
rrb_status rrb_create_distributed(int64_t nx,
                                  int64_t ny,
                                  int64_t count,
                                  const int64_t (*lower)[2],
                                  const int64_t (*size)[2],
                                  const rrbsolver_comm *comm,
                                  rrb_handle **out);

/**
 * Copies the coefficients of A and computes M like `rrb_factorize`, with one array per coefficient and box of this
 * rank.
 *
 * The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
 * `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
 *   NULL means that the arrays have no padding.
 * - `center`, `east`, `north` (in): lists with one array of coefficients per box, as for `rrb_factorize`.
 * - `northeast`, `northwest` (in): lists of the additional arrays of a 9-point stencil. For a 5-point stencil, all
 *   ranks pass NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - all errors of `rrb_factorize`.
 * - `RRB_ERR_NULL`: `center`, `east` or `north` is NULL on a rank with boxes.
 * - `RRB_ERR_NULL`: an array in a list is NULL.
 * - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
 * - `RRB_ERR_ARGUMENT`: the options differ between ranks.
 * - `RRB_ERR_ARGUMENT`: `northeast` and `northwest` are NULL on some ranks, but not on all ranks.
 * - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of this
 * rank. Each array must contain the values of its box.
 */
rrb_status rrb_factorize_boxes(rrb_handle *h,
                               const int64_t *leading_dimensions,
                               const double *const *center,
                               const double *const *east,
                               const double *const *north,
                               const double *const *northeast,
                               const double *const *northwest);

/**
 * Solves A x = b like `rrb_solve`, with one array per box of this rank.
 *
 * The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
 * `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
 *   NULL means that the arrays have no padding.
 * - `b` (in): list of the arrays of the right-hand side, one array per box.
 * - `x` (in/out): list of the arrays of x, one array per box. The arrays contain the initial guess on entry and the
 *   solution on return.
 *
 * Returns:
 * `RRB_OK`, `RRB_NOT_CONVERGED` or `RRB_STOPPED`, with the same meaning as for `rrb_solve`. The call returns the same
 * status on all ranks.
 *
 * Errors:
 * - all errors of `rrb_solve`.
 * - `RRB_ERR_NULL`: `b`, `x` or an array in these lists is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
 * - `RRB_ERR_ARGUMENT`: the options differ between ranks.
 * - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
 * An output array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of this
 * rank. Each array must contain the values of its box.
 */
rrb_status rrb_solve_boxes(rrb_handle *h, const int64_t *leading_dimensions, const double *const *b, double *const *x);

/**
 * Computes z = M^-1 r like `rrb_apply`, with one array per box of this rank.
 *
 * The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
 * `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
 *   NULL means that the arrays have no padding.
 * - `r` (in): list of the arrays of r, one array per box.
 * - `z` (out): list of the arrays for the result, one array per box.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - all errors of `rrb_apply`.
 * - `RRB_ERR_NULL`: `r`, `z` or an array in these lists is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
 * - `RRB_ERR_ARGUMENT`: the options differ between ranks.
 * - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
 * An output array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of this
 * rank. Each array must contain the values of its box.
 */
rrb_status rrb_apply_boxes(rrb_handle *h, const int64_t *leading_dimensions, const double *const *r, double *const *z);

/**
 * Computes y = A x like `rrb_multiply`, with one array per box of this rank.
 *
 * The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
 * `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
 *   NULL means that the arrays have no padding.
 * - `x` (in): list of the arrays of x, one array per box.
 * - `y` (out): list of the arrays for the product, one array per box.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - all errors of `rrb_multiply`.
 * - `RRB_ERR_NULL`: `x`, `y` or an array in these lists is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
 * - `RRB_ERR_ARGUMENT`: the options differ between ranks.
 * - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
 *   `comm` failed.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
 * An output array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of this
 * rank. Each array must contain the values of its box.
 */
rrb_status rrb_multiply_boxes(rrb_handle *h,
                              const int64_t *leading_dimensions,
                              const double *const *x,
                              double *const *y);

/**
 * Creates a block smoother for an operator with a constant stencil. A block has bx x by x bz cells.
 *
 * The operator is (A u)[c] = sum over k of stencil[k] u[c + offset[k]], with the same stencil in every cell. The call
 * copies the stencil. Later, `smoother_set_patches` computes the inverses of the blocks.
 *
 * Parameters:
 * - `stencil_points` (in): number of points of the stencil, 7 or 27.
 * - `stencil` (in): array of the `stencil_points` coefficients, which must be finite. The order of 7 values is center,
 *   west, east, south, north, bottom, top. If there are 27 values, they form a 3 x 3 x 3 cube in which the index in x
 *   varies fastest. The center of the cube has index 13.
 * - `bx`, `by`, `bz` (in): numbers of cells of a block in x, y and z, each in [1, 8].
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `stencil` or `out` is NULL.
 * - `RRB_ERR_ARGUMENT`: `stencil_points` is not 7 or 27, or `stencil` is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: `bx`, `by` or `bz` is above 8.
 * - `RRB_ERR_DIMENSION`: `bx`, `by` or `bz` is below 1.
 * - `RRB_ERR_NOT_FINITE`: a value of the stencil is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * Notes:
 * - The stencil may be nonsymmetric, and its center may be positive or negative. If a block is singular,
 *   `smoother_set_patches` returns an error.
 * - A handle does not extend over several MPI ranks. In an MPI program, each rank creates its own handle. The ghost
 *   function, which `smoother_set_ghost_fill` sets, must then copy the values of ghost cells from other ranks.
 *
 * Required:
 * `stencil` must be NULL or hold `stencil_points` values. `out` must be NULL or point to a pointer.
 */
rrb_status smoother_create(int32_t stencil_points,
                           const double *stencil,
                           int64_t bx,
                           int64_t by,
                           int64_t bz,
                           smoother_handle **out);

/**
 * Sets the list of patches and computes the inverses of their blocks.
 *
 * In each direction, patch p covers the cells lower[p] .. lower[p] + size[p] - 1 of a global index space. Blocks end
 * where the global index is a multiple of the block size, and at the edges of patches.
 *
 * The call also determines which patch covers which ghost cells. A call after regridding is cheap, because it reuses
 * the block inverses of the previous call.
 *
 * Parameters:
 * - `h` (in/out): handle from `smoother_create`.
 * - `count` (in): number of patches; 0 is allowed.
 * - `lower` (in): for each patch, the indices (i, j, k) of its first cell, in [-2^60, 2^60]. NULL is allowed if
 *   `count` is 0.
 * - `size` (in): for each patch, the numbers of cells in x, y and z, each at least 1. NULL is allowed if `count` is 0.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_NULL`: `lower` or `size` is NULL, but `count` is not 0.
 * - `RRB_ERR_ARGUMENT`: two patches overlap, or `lower` or `size` is not 8-byte aligned.
 * - `RRB_ERR_DIMENSION`: `count` is below 0, or a size is below 1.
 * - `RRB_ERR_DIMENSION`: an index, a size or the number of cells is too large. On a device, these numbers must fit
 *   into 32-bit integers.
 * - `RRB_ERR_MATRIX`: a block is singular, or the inverse of a block is too large for a double. The message names the
 *   size and a cell of the block.
 * - `RRB_ERR_UNSUPPORTED`: `block_solver=fast_diagonalization` is set, but sine transforms are not possible for the
 *   stencil, or would lose more than 4 digits.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the library was built without CUDA kernels.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
 *
 * After an error the handle has no patches.
 *
 * Notes:
 * - The call frees the arrays of `smoother_upload`.
 * - With dense inverses, the call performs 2 n^3 flops for each distinct block shape, where n is the number of cells
 *   of the block. With sine transforms, the cost is negligible.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`. `lower` and `size` must be NULL or hold `count` triples.
 */
rrb_status smoother_set_patches(smoother_handle *h, int64_t count, const int64_t (*lower)[3], const int64_t (*size)[3]);

/**
 * Performs `sweeps` sweeps of block relaxation on all patches. For each block b, a sweep computes u_b = u_b + omega
 * A_b^-1 (f - A u)_b.
 *
 * The option `method` selects coloured Gauss-Seidel, block Jacobi or chaotic Gauss-Seidel. Before each sweep, each
 * ghost cell that another patch covers receives the value of u from that other patch. The ghost function fills the
 * other ghost cells. On return from a call without a monitor, ghost cells hold the values that the last sweep read.
 *
 * Parameters:
 * - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
 * - `u` (in/out): table with one pointer per patch. For a patch of nx x ny x nz cells, its pointer refers to (nx +
 *   2) * (ny + 2) * (nz + 2) values. These values include one layer of ghost cells around the patch. The index in x
 *   varies fastest.
 * - `f` (in): table with one pointer per patch. Each pointer refers to nx * ny * nz values. The index in x varies
 *   fastest.
 * - `sweeps` (in): number of sweeps, at least 0. If `sweeps` is 0, the call only checks the input and calls the
 *   monitor once.
 *
 * If both tables are NULL, the call works on the copies of u and f that `smoother_upload` made.
 *
 * Returns:
 * `RRB_OK`, or `RRB_STOPPED` if the ghost function or the monitor stopped the call. After `RRB_STOPPED`, u is the
 * current iterate.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL, exactly one of the tables `u` and `f` is NULL, or a pointer in a table is NULL.
 * - `RRB_ERR_ARGUMENT`: `sweeps` is below 0.
 * - `RRB_ERR_ARGUMENT`: an array of `u` overlaps another array, or an array or table is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
 *   memory, or are on another device.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
 *   set_patches".
 * - `RRB_ERR_STATE`: both tables are NULL, but `smoother_upload` has not been called.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and a value of u or f is NaN or infinite. Values of ghost cells are
 *   not checked.
 * - `RRB_ERR_NOT_FINITE`: a monitor is set, and the norm of the residual is too large for a double. After this error,
 *   u is the current iterate.
 * - `RRB_ERR_UNSUPPORTED`: `remainder=overlap` is set, and a block extends beyond the edge of a patch. Such blocks
 *   require `method=chaotic_gauss_seidel` and `parallel=patch`.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the smoother runs on a device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * - The memory traffic per cell and sweep is 24 bytes, or 32 bytes for block Jacobi. If `check_input` is not 0, the
 *   check reads u and f once more per call.
 * - If the smoother runs on the CPU, the arrays must be in host memory. The call does not check whether the pointers
 *   are device pointers.
 * - The call allocates no memory and starts no thread, with one exception. If the smoother runs on a device, the first
 *   call with host arrays allocates copies of these arrays in device memory.
 * - For periodic boundaries, the ghost function must copy the values from the opposite boundary into the ghost cells.
 * - Source: Rodriguez, Philip, Wang and Berrill, Block-relaxation methods for 3D constant-coefficient stencils on GPUs
 *   and multicore CPUs, algorithms 1 to 3.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`. `u` and `f` must be NULL or hold one pointer per patch. Each
 * pointer must be NULL or refer to (nx+2)(ny+2)(nz+2) values in `u` and nx*ny*nz values in `f`.
 */
rrb_status smoother_apply(smoother_handle *h, double *const *u, const double *const *f, int32_t sweeps);

/**
 * Copies values of u between patches. Each ghost cell that another patch covers receives the value from that other
 * patch.
 *
 * The call changes no other values of u. `smoother_apply` and `smoother_residual` also perform this exchange.
 *
 * Parameters:
 * - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
 * - `u` (in/out): table with one pointer per patch, as for `smoother_apply`. If `u` is NULL, the call works on the
 *   copy of u that `smoother_upload` made.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or a pointer in the table is NULL.
 * - `RRB_ERR_NULL`: `u` is NULL, but `smoother_upload` has not been called.
 * - `RRB_ERR_ARGUMENT`: two arrays overlap, or an array or the table is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
 *   memory, or are on another device.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
 *   set_patches".
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the smoother runs on a device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Required:
 * The requirements are those of `smoother_apply`.
 */
rrb_status smoother_exchange(smoother_handle *h, double *const *u);

/**
 * Sets or removes the ghost function, a callback that fills the ghost cells that no patch covers.
 *
 * The library calls the ghost function on the calling thread before each sweep, after the exchange between patches.
 * The ghost function can implement boundary conditions, or copy values from other levels or other ranks. Without a
 * ghost function, the library does not change the ghost cells that no patch covers.
 *
 * Parameters:
 * - `h` (in/out): handle from `smoother_create`.
 * - `callback` (in): the ghost function `int32_t f(void *user, int32_t sweep, double *const *u)`; NULL removes the
 *   ghost function.
 * - `user` (in): pointer that is passed to `callback`; may be NULL.
 *
 * The argument `sweep` is the number of the sweep, counted from 0. It is -1 before the computation of a residual. The
 * argument `u` contains one pointer per patch to the array of the patch. If the caller passed NULL tables, these
 * arrays are the arrays of `smoother_upload`. If the arrays are in device memory, the pointers are device pointers.
 *
 * The callback must write ghost cells only. If the callback returns a nonzero value, `smoother_apply` or
 * `smoother_residual` stops and returns `RRB_STOPPED`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - The callback must not use this handle, and must not throw an exception.
 * - If the callback starts work on a device, this work must run on the stream of `smoother_set_stream` or be complete
 *   when the callback returns.
 * - If the smoother runs on a device with host arrays, the library transfers u to the host and back for each call of
 *   the ghost function.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`. It must be safe to call `callback` with `user` until another
 * callback replaces `callback` or the handle is destroyed.
 */
rrb_status smoother_set_ghost_fill(smoother_handle *h, smoother_ghost_fn callback, void *user);

/**
 * Computes r = f - A u and its 2-norm over all patches.
 *
 * Like `smoother_exchange`, the call first copies values of u between patches. The call then calls the ghost function.
 * Both steps change only the ghost cells of u. The norm is bitwise identical for any number of threads.
 *
 * Parameters:
 * - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
 * - `u` (in/out): table with one pointer per patch, as for `smoother_apply`. The call writes only the ghost cells.
 * - `f` (in): table with one pointer per patch, as for `smoother_apply`.
 * - `r` (out): table with one pointer per patch. Each pointer refers to nx * ny * nz values. Pass NULL if r is not
 *   needed.
 * - `norm2` (out): the 2-norm of r over all patches; unchanged after an error. The pointer may be NULL.
 *
 * If both `u` and `f` are NULL, the call works on the copies of u and f that `smoother_upload` made.
 *
 * Returns:
 * `RRB_OK`, or `RRB_STOPPED` if the ghost function stopped the call. After `RRB_STOPPED`, `r` and `norm2` are not
 * valid.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL, exactly one of `u` and `f` is NULL, or a pointer in a table is NULL.
 * - `RRB_ERR_ARGUMENT`: an output array overlaps another array, or an array or table is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
 *   memory, or are on another device. With the arrays of `smoother_upload`, r must be in device memory.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
 *   set_patches".
 * - `RRB_ERR_STATE`: `u` and `f` are NULL, but `smoother_upload` has not been called.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and a value of u or f is NaN or infinite.
 * - `RRB_ERR_NOT_FINITE`: the norm is too large for a double.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the smoother runs on a device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * The memory traffic is 16 bytes per cell, or 24 bytes per cell if the call writes r. If the squares in the norm
 * overflow or underflow, a second pass computes the norm with scaling.
 *
 * Required:
 * The requirements are those of `smoother_apply`. In addition, `r` must be NULL or hold one pointer per patch to
 * nx*ny*nz values. `norm2` must be NULL or point to a `double`.
 */
rrb_status smoother_residual(smoother_handle *h,
                             double *const *u,
                             const double *const *f,
                             double *const *r,
                             double *norm2);

/**
 * Copies u and f into arrays of the library. The next `smoother_set_patches` frees these arrays.
 *
 * If the smoother runs on a device, these arrays are in device memory. Otherwise they are in host memory. If the
 * caller passes NULL tables to the other functions, these functions use the library's arrays. A second call of
 * `smoother_upload` replaces the values in these arrays.
 *
 * Parameters:
 * - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
 * - `u` (in): table with one pointer per patch. Each pointer refers to an array with ghost cells, as for
 *   `smoother_apply`. If `u` is NULL, the call does not change the values of u in the library. These values are
 *   initially zero.
 * - `f` (in): table with one pointer per patch. If `f` is NULL, the call does not change the values of f in the
 *   library. These values are initially zero.
 *
 * The call only reads the arrays of the caller. Several patches may therefore use the same array.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or a pointer in a table is NULL.
 * - `RRB_ERR_ARGUMENT`: an array or table is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
 *   memory, or are on another device.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
 *   set_patches".
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Required:
 * The requirements are those of `smoother_apply`.
 */
rrb_status smoother_upload(smoother_handle *h, const double *const *u, const double *const *f);

/**
 * Copies u, including ghost cells, from the arrays of `smoother_upload` into the arrays of the caller.
 *
 * Parameters:
 * - `h` (in/out): handle with arrays from `smoother_upload`.
 * - `u` (out): table with one pointer per patch, as for `smoother_apply`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `u` or a pointer in the table is NULL.
 * - `RRB_ERR_ARGUMENT`: two arrays overlap, or an array or the table is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
 *   memory, or are on another device.
 * - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`.
 * - `RRB_ERR_STATE`: an option that acts "at set_patches" has changed since the last `smoother_set_patches`.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation of an internal list of array sections failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Required:
 * The requirements are those of `smoother_apply`.
 */
rrb_status smoother_download(smoother_handle *h, double *const *u);

/**
 * Returns the addresses of the arrays of `smoother_upload`, for kernels of the caller.
 *
 * If the smoother runs on a device, the addresses are device pointers. Otherwise they are host pointers. The addresses
 * are valid until the next `smoother_set_patches` or `smoother_destroy`.
 *
 * Parameters:
 * - `h` (in): handle with arrays from `smoother_upload`.
 * - `u` (out): table that receives, for each patch, a pointer to the array of u with ghost cells. The table may be
 *   NULL.
 * - `f` (out): table that receives, for each patch, a pointer to the array of f. The table may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`.
 * - `RRB_ERR_STATE`: an option that acts "at set_patches" has changed since the last `smoother_set_patches`.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * Kernels that write to these arrays must run on the stream of `smoother_set_stream` or be complete before the next
 * call with this handle.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`. `u` and `f` must be NULL or have room for one pointer per patch.
 */
rrb_status smoother_device_pointers(smoother_handle *h, double **u, double **f);

/**
 * Creates a handle with a matrix in compressed sparse row (CSR) form.
 *
 * Row i has the entries k = row_ptr[i] .. row_ptr[i + 1] - 1, with the columns `col[k]` and the values `values[k]`.
 * The columns of a row may have any order. The call adds up values with the same row and column in the order of the
 * arrays.
 *
 * Explicit zeros are entries of the sparsity pattern. The call copies all arrays.
 *
 * Parameters:
 * - `rows`, `cols` (in): number of rows and columns, at least 0. `sparse_factorize` needs a square matrix.
 * - `nnz` (in): number of entries in the arrays, at least 0.
 * - `row_ptr` (in): array of rows + 1 nondecreasing integers. The first integer is `base`; the last is nnz + `base`.
 * - `col` (in): column of each entry, nnz integers in [base, base + cols - 1].
 * - `values` (in): value of each entry, nnz finite numbers.
 * - `index_bytes` (in): size in bytes of an integer in `row_ptr` and `col`: 4 (`int32_t`) or 8 (`int64_t`).
 * - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays must be in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
 * - `RRB_ERR_ARGUMENT`: `row_ptr` decreases, does not start with `base`, or does not end with nnz + `base`.
 * - `RRB_ERR_ARGUMENT`: a column is out of range. The message names the entry.
 * - `RRB_ERR_ARGUMENT`: an array is not aligned to its element type, or is in device memory.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
 * - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * - Pass both triangles of a symmetric matrix. If you pass only one triangle, the library solves the system with this
 *   triangular matrix, and a log line warns about the missing triangle.
 * - The matrix needs 12 bytes per entry and 8 bytes per row. With 2^31 or more rows or columns, the matrix needs 16
 *   bytes instead of 12 bytes per entry. If there are unsorted or repeated entries, the matrix needs 8 additional
 *   bytes per entry.
 * - The call copies or sorts a large matrix in parallel with the default number of threads.
 * - The `sparse_` functions run in one process. They do not distribute a matrix over MPI ranks.
 *
 * Required:
 * `row_ptr` must be NULL or hold rows + 1 integers. `col` and `values` must be NULL or hold nnz elements. `out` must
 * be NULL or point to a pointer.
 */
rrb_status sparse_create_csr(int64_t rows,
                             int64_t cols,
                             int64_t nnz,
                             const void *row_ptr,
                             const void *col,
                             const double *values,
                             int32_t index_bytes,
                             int32_t base,
                             sparse_handle **out);

/**
 * Creates a handle with a matrix in compressed sparse column (CSC) form.
 *
 * Column j has the entries k = col_ptr[j] .. col_ptr[j + 1] - 1, with the rows `row[k]` and the values `values[k]`.
 * The rows of a column may have any order. The call adds up values with the same row and column in the order of the
 * arrays. Explicit zeros are entries of the sparsity pattern.
 *
 * Parameters:
 * - `rows`, `cols` (in): number of rows and columns, at least 0.
 * - `nnz` (in): number of entries in the arrays, at least 0.
 * - `col_ptr` (in): array of cols + 1 nondecreasing integers. The first integer is `base`; the last is nnz + `base`.
 * - `row` (in): row of each entry, nnz integers in [base, base + rows - 1].
 * - `values` (in): value of each entry, nnz finite numbers.
 * - `index_bytes` (in): size in bytes of an integer in `col_ptr` and `row`: 4 (`int32_t`) or 8 (`int64_t`).
 * - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays must be in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
 * - `RRB_ERR_ARGUMENT`: `col_ptr` decreases, does not start with `base`, or does not end with nnz + `base`.
 * - `RRB_ERR_ARGUMENT`: a row is out of range. The message names the entry.
 * - `RRB_ERR_ARGUMENT`: an array is not aligned to its element type, or is in device memory.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
 * - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * The handle stores the matrix by rows and needs as much memory for it as after `sparse_create_csr`. The handle also
 * stores the original order of the entries for `sparse_set_values`. This order needs 8 bytes per entry.
 *
 * Required:
 * `col_ptr` must be NULL or hold cols + 1 integers. `row` and `values` must be NULL or hold nnz elements. `out` must
 * be NULL or point to a pointer.
 */
rrb_status sparse_create_csc(int64_t rows,
                             int64_t cols,
                             int64_t nnz,
                             const void *col_ptr,
                             const void *row,
                             const double *values,
                             int32_t index_bytes,
                             int32_t base,
                             sparse_handle **out);

/**
 * Creates a handle with a matrix in coordinate (COO) form: one row, column and value per entry, in any order.
 *
 * Entry k has the row `row[k]`, the column `col[k]` and the value `values[k]`. The call adds up values with the same
 * row and column. The arrays can therefore contain the entries of finite-element matrices one after the other.
 * Explicit zeros are entries of the sparsity pattern.
 *
 * Parameters:
 * - `rows`, `cols` (in): number of rows and columns, at least 0.
 * - `nnz` (in): number of entries in the arrays, at least 0.
 * - `row` (in): row of each entry, nnz integers in [base, base + rows - 1].
 * - `col` (in): column of each entry, nnz integers in [base, base + cols - 1].
 * - `values` (in): value of each entry, nnz finite numbers.
 * - `index_bytes` (in): size in bytes of an integer in `row` and `col`: 4 (`int32_t`) or 8 (`int64_t`).
 * - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays must be in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
 * - `RRB_ERR_ARGUMENT`: a row or column is out of range. The message names the entry.
 * - `RRB_ERR_ARGUMENT`: an array is not aligned to its element type, or is in device memory.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
 * - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * The matrix needs as much memory as after `sparse_create_csr`. `RRB_INFO_DUPLICATES` is the number of repeated
 * entries.
 *
 * Required:
 * `row`, `col` and `values` must each be NULL or hold nnz elements. `out` must be NULL or point to a pointer.
 */
rrb_status sparse_create_coo(int64_t rows,
                             int64_t cols,
                             int64_t nnz,
                             const void *row,
                             const void *col,
                             const double *values,
                             int32_t index_bytes,
                             int32_t base,
                             sparse_handle **out);

/**
 * Creates a handle from the arrays of a storage format, for example from the arrays that `sparse_arrays` writes.
 *
 * If the arrays come from `sparse_arrays`, the new matrix is bitwise identical to the original matrix, with one
 * exception. In the formats bsr, dia, ell, sell, skyline and diagonal, the call treats all zeros as padding and does
 * not store them.
 *
 * Parameters:
 * - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
 * - `rows`, `cols` (in): number of rows and columns, at least 0.
 * - `sizes` (in): array of four integers, the lengths of `i0`, `i1`, `i2` and `values`.
 * - `i0`, `i1`, `i2` (in): index arrays of the format; the table below states their contents. Indices count from 0.
 * - `values` (in): array of the values, which must be finite.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays must be in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` or `sizes` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: `format` is not one of these constants.
 * - `RRB_ERR_ARGUMENT`: a row pointer, a column pointer, an index or a permutation is not valid.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is in device memory.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or an entry of `sizes` is negative, or is 2^60 or more.
 * - `RRB_ERR_DIMENSION`: the lengths of the arrays do not match the format and the size of the matrix.
 * - `RRB_ERR_NOT_FINITE`: a value is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * | format | i0 | i1 | i2 |
 * |---|---|---|---|
 * | coo | rows | columns | |
 * | csr | row pointers | columns | |
 * | csc | column pointers | rows | |
 * | bsr | pointers of block rows | block columns | |
 * | dia | offsets (column minus row) of the diagonals | | |
 * | ell | columns of the first entry of all rows, then of the second entry, and so on | | |
 * | sell | permutation of rows | starts of slices | columns |
 * | jds | permutation of rows | starts of jagged diagonals | columns |
 * | tjds | permutation of columns | starts of jagged diagonals | rows |
 * | skyline | row pointers of the lower triangle | column pointers of the strict upper triangle, or empty | |
 * | diagonal | | | |
 *
 * In the format skyline, an empty array `i1` means that the matrix is symmetric.
 *
 * Required:
 * `sizes` must be NULL or hold four integers. Each array must be NULL or have the length given in `sizes`. `out` must
 * be NULL or point to a pointer.
 */
rrb_status sparse_create_from(int32_t format,
                              int64_t rows,
                              int64_t cols,
                              const int64_t *sizes,
                              const int64_t *i0,
                              const int64_t *i1,
                              const int64_t *i2,
                              const double *values,
                              sparse_handle **out);

/**
 * Creates a handle with the matrix of a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, which may be
 * compressed with gzip.
 *
 * The call detects the format from the content of the file, not from its name. If the file stores one triangle of a
 * symmetric or skew-symmetric matrix, the call creates the whole matrix. `sparse_get_vector` returns the right-hand
 * sides, initial guesses and solutions of a Harwell-Boeing file.
 *
 * Parameters:
 * - `path` (in): name of the file, a text that ends with NUL.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `path` or `out` is NULL.
 * - `RRB_ERR_IO`: the file cannot be opened or read.
 * - `RRB_ERR_PARSE`: the file is not a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, or the content of the
 *   file is not valid. The message contains the path, the line and the reason.
 * - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN, infinite or too
 *   large for a double.
 * - `RRB_ERR_UNSUPPORTED`: the matrix is complex, Hermitian or elemental, or the values of the matrix are in another
 *   file.
 * - `RRB_ERR_UNSUPPORTED`: the file is a supplementary Rutherford-Boeing file without assembled right-hand sides.
 * - `RRB_ERR_DIMENSION`: the number of rows, columns or entries of the matrix is out of range.
 * - `RRB_ERR_MEMORY`: an allocation failed, possibly the allocation for the message of another error. After this
 *   error, the call has freed all memory that it allocated.
 *
 * Notes:
 * - The format of a MatrixMarket file may be coordinate or array. The values may be of the kind real, integer or
 *   pattern; with pattern, all values are 1. The symmetry may be general, symmetric or skew-symmetric.
 * - The matrix of a Harwell-Boeing or Rutherford-Boeing file must be assembled. The values may be of the kind real,
 *   integer or pattern.
 * - A wrong number of right-hand-side cards in the header of a Harwell-Boeing file is not an error. In this case, a
 *   log line warns about the wrong number.
 * - The call reads a supplementary Rutherford-Boeing file with right-hand sides as a matrix with one column per
 *   right-hand side.
 * - A gzip file may consist of several gzip members.
 * - The call reads a file of more than 1 MB with the default number of threads. With `RRBSOLVER_NUM_THREADS=1`, the
 *   call starts no threads.
 * - The call needs at most 32 times the memory of the uncompressed text, plus 1 MB, plus 8 bytes per row.
 *
 * Required:
 * `path` must be NULL or end with NUL. `out` must be NULL or point to a pointer.
 */
rrb_status sparse_read(const char *path, sparse_handle **out);

/**
 * Writes the matrix to a file, and compresses this file with gzip if its name ends with .gz.
 *
 * The call writes each value with the fewest digits that reproduce the double exactly. If the matrix is exactly
 * symmetric, the call writes only its lower triangle. The call replaces an existing file only when the new file is
 * complete. After an error, the existing file is unchanged.
 *
 * Parameters:
 * - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
 * - `path` (in): name of the file, a text that ends with NUL.
 * - `file_format` (in): `RRB_FILE_MTX` (MatrixMarket), `RRB_FILE_HB` (Harwell-Boeing) or `RRB_FILE_RB`
 *   (Rutherford-Boeing).
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `path` is NULL.
 * - `RRB_ERR_ARGUMENT`: `file_format` is not one of these constants.
 * - `RRB_ERR_IO`: the file cannot be created or written.
 * - `RRB_ERR_MEMORY`: an allocation failed, possibly the allocation for the message of another error. The handle is
 *   unchanged, and no incomplete file remains.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - The call writes the data to a new file in the same folder and then renames this file. If the new file replaces an
 *   existing file, the new file has the permissions of the existing file.
 * - If the path is a symbolic link, the call replaces the target of the link. If the path is a pipe or a device, the
 *   call writes directly to this path.
 * - The call needs 0.1 MB of memory for buffers, and 0.5 MB more if it compresses the file. If the matrix is not
 *   symmetric, the formats `RRB_FILE_HB` and `RRB_FILE_RB` also need a copy of the matrix that is stored by columns.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `path` must be NULL or end with NUL.
 */
rrb_status sparse_write(const sparse_handle *h, const char *path, int32_t file_format);

/**
 * Copies a right-hand side, initial guess or solution from the Harwell-Boeing file of the matrix.
 *
 * Parameters:
 * - `h` (in): handle from `sparse_read`.
 * - `which` (in): kind of the vector: `RRB_VECTOR_RHS`, `RRB_VECTOR_GUESS` or `RRB_VECTOR_SOLUTION`.
 * - `k` (in): number of the vector, counted from 0.
 * - `v` (out): array for the vector, with as many values as the matrix has rows, in host memory.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `v` is NULL.
 * - `RRB_ERR_ARGUMENT`: `which` is not one of these constants, or the file has no vector of this kind with the number
 *   `k`.
 * - `RRB_ERR_ARGUMENT`: `v` is not 8-byte aligned, or is in device memory.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `v`.
 *
 * Notes:
 * `RRB_INFO_FILE_RHS` is the number of right-hand sides. If the file contains guesses, it contains one guess per
 * right-hand side. If the file contains solutions, it contains one solution per right-hand side.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `v` must be NULL or have room for as many values as the
 * matrix has rows.
 */
rrb_status sparse_get_vector(const sparse_handle *h, int32_t which, int64_t k, double *v);

/**
 * Replaces the values of all entries and keeps the sparsity pattern.
 *
 * If the arrays of the storage format are on a device, the call updates them; otherwise, the next product or
 * `sparse_factorize` does. `sparse_solve` and `sparse_apply` return `RRB_ERR_STATE` until `sparse_factorize` is called
 * again.
 *
 * Parameters:
 * - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
 * - `values` (in): the new values, in host memory or, if the solver runs on a device, on this device. Pass as many
 *   values as for the creation of the matrix, in the same order. For a matrix from a file, pass `RRB_INFO_NONZEROS`
 *   values in CSR order. NULL is allowed if the matrix has no entries.
 *
 * If a device already stores the matrix, the device permutes the values, and one of its threads adds the duplicates of
 * an entry. During the call, the device needs 8 bytes per passed value and per entry, and the host 8 bytes per entry.
 * The handle keeps 4 bytes per passed value and per stored value on the device.
 *
 * For a matrix from `sparse_create_from`, omit the zeros that `sparse_create_from` treated as padding. For a symmetric
 * matrix in the format skyline, pass each off-diagonal value twice in succession.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `values` is NULL.
 * - `RRB_ERR_ARGUMENT`: `values` is not 8-byte aligned, is in device memory although the solver runs on the CPU, is on
 *   another device than the option `device` selects, or is in host memory although `memory=device` is set.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed. The call allocates memory only if the matrix was created from unsorted or
 *   repeated entries, or if the solver runs on a device.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate, copy or permute `values`.
 *
 * After an error the values are unchanged. A factorization remains valid, except after `RRB_ERR_DEVICE`.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `values` must be NULL or contain the number of values given
 * above.
 */
rrb_status sparse_set_values(sparse_handle *h, const double *values);

/**
 * Computes the lengths of the arrays that store this matrix in a given storage format.
 *
 * `sparse_arrays` writes these arrays. The lengths depend on the options `block_size`, `slice` and `sigma`. The option
 * `format_memory` limits the memory of these arrays.
 *
 * Parameters:
 * - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
 * - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
 * - `sizes` (out): array that receives four integers, the lengths of `i0`, `i1`, `i2` and `values`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `sizes` is NULL.
 * - `RRB_ERR_ARGUMENT`: `format` is not one of these constants.
 * - `RRB_ERR_ARGUMENT`: `sizes` is not 8-byte aligned, or is in device memory.
 * - `RRB_ERR_ARGUMENT`: `format` is `RRB_FORMAT_DIAGONAL`, but the matrix has an off-diagonal entry. The message names
 *   this entry.
 * - `RRB_ERR_DIMENSION`: `format` is `RRB_FORMAT_SKYLINE`, but the matrix is not square.
 * - `RRB_ERR_MEMORY`: the arrays need more memory than the option `format_memory` allows, or allocation failed.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `sizes`.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `sizes` must be NULL or have room for four integers.
 */
rrb_status sparse_sizes(const sparse_handle *h, int32_t format, int64_t *sizes);

/**
 * Writes the arrays that store this matrix in a given storage format, with indices that count from 0.
 *
 * The section of `sparse_create_from` lists the arrays of each format. Before this call, call `sparse_sizes` with the
 * same options to determine the lengths.
 *
 * Parameters:
 * - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
 * - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
 * - `i0`, `i1`, `i2` (out): index arrays with the lengths that `sparse_sizes` returns; an array of length 0 may be
 *   NULL.
 * - `values` (out): array for the values, including padding.
 *
 * The arrays must be in host memory and must not overlap.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: two arrays overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is in device memory.
 * - `RRB_ERR_ARGUMENT`: `format` is not one of these constants.
 * - `RRB_ERR_ARGUMENT`: `format` is `RRB_FORMAT_DIAGONAL`, but the matrix has an off-diagonal entry.
 * - `RRB_ERR_DIMENSION`: `format` is `RRB_FORMAT_SKYLINE`, but the matrix is not square.
 * - `RRB_ERR_MEMORY`: the arrays need more memory than the option `format_memory` allows, or allocation failed.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. Each array must be NULL or have the length that
 * `sparse_sizes` returned. The options must not have changed since `sparse_sizes`.
 */
rrb_status sparse_arrays(const sparse_handle *h, int32_t format, int64_t *i0, int64_t *i1, int64_t *i2, double *values);

/**
 * Checks a square matrix and sets up the method, the storage format, the preconditioner and the workspace.
 *
 * `RRB_INFO_SOLVER`, `RRB_INFO_PRECONDITIONER` and `RRB_INFO_FORMAT` report the choices of `auto`. With `verbosity=1`,
 * a log line also reports these choices. A second call, for example after `sparse_set_values`, reuses the memory of
 * the first call. After an error, the handle has the matrix but no factorization.
 *
 * Parameters:
 * - `h` (in/out): handle with a square matrix of at least one row.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_DIMENSION`: the matrix is not square, or has no rows.
 * - `RRB_ERR_MATRIX`: a row or column has no nonzero entry.
 * - `RRB_ERR_MATRIX`: the matrix is not symmetric, but the method is cg, steepest_descent or minres, or the
 *   preconditioner is ic0. The message names an entry a_ij that differs from a_ji.
 * - `RRB_ERR_MATRIX`: a diagonal entry is zero or missing, but the method or the preconditioner divides by this entry.
 *   The methods jacobi, gauss_seidel and sor divide by diagonal entries. The preconditioners jacobi, ssor, ic0,
 *   neumann, chebyshev and amg also divide by diagonal entries. With ilu0, each diagonal entry must exist but may be
 *   zero.
 * - `RRB_ERR_MATRIX`: the preconditioner is ic0, but a diagonal entry or a pivot is not positive.
 * - `RRB_ERR_MATRIX`: the preconditioner is ilu0, but a pivot is zero.
 * - `RRB_ERR_MATRIX`: `precision=f32` is set, but an entry of M is outside the range of single precision.
 * - `RRB_ERR_MATRIX`: `precision=single` is set, but the infinity norm of the matrix is below 1e-30 or above 1e30, or
 *   an entry of M is outside the range of single precision.
 * - `RRB_ERR_UNSUPPORTED`: the method does not accept the preconditioner. The methods jacobi, gauss_seidel and sor
 *   accept only `preconditioner=none`. The method minres accepts only `preconditioner=none` and
 *   `preconditioner=jacobi`. The preconditioner amg requires the method cg or steepest_descent.
 * - `RRB_ERR_UNSUPPORTED`: the preconditioner is amg, but the matrix has 2^32 - 1 rows or more.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the storage format, the preconditioner or the order of the rows
 *   has no kernel on a device. The methods gauss_seidel and sor and the preconditioners ssor, ic0 and ilu0 require
 *   `ordering=multicolour`. The message names what has kernels.
 * - `RRB_ERR_UNSUPPORTED`: the method is bicg, A is not symmetric, and a device stores A in another format than dia
 *   and diagonal. Either `transpose=none` is set, or `transpose=auto` is set and a copy of A' exceeds `format_memory`.
 * - `RRB_ERR_UNSUPPORTED`: `precision=single` is set, but the solver runs on the CPU.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the matrix has 2^31 rows or more, or the library was built
 *   without kernels.
 * - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_ARGUMENT`: `sor_omega=2` is set.
 * - `RRB_ERR_ARGUMENT`: `format=diagonal` is set, but the matrix has an off-diagonal entry.
 * - `RRB_ERR_MEMORY`: the storage format needs more memory than the option `format_memory` allows, or allocation
 *   failed.
 * - `RRB_ERR_MEMORY`: with `transpose=copy`, the copy of A' for bicg needs more memory than `format_memory` allows.
 *
 * Notes:
 * - If `auto` selects ic0 or ilu0, but the factorization fails at a pivot or leaves the range of the precision, the
 *   call uses `preconditioner=jacobi` instead. If a diagonal entry is zero or missing, the call uses no
 *   preconditioner.
 * - A log line warns if the matrix has off-diagonal entries in one triangle only. A log line also warns if the method
 *   is jacobi, gauss_seidel or sor, but the matrix is not diagonally dominant.
 * - The call costs as much as a few matrix-vector products and the setup of the preconditioner.
 * - Sources: Saad, Iterative Methods for Sparse Linear Systems, 2003 (methods, ic0, ilu0); Napov and Notay, SIAM J.
 *   Sci. Comput. 34 (2012), A1079-A1109 (amg).
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions.
 */
rrb_status sparse_factorize(sparse_handle *h);

/**
 * Solves A x = b with the method of `sparse_factorize`.
 *
 * The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The norm is the 2-norm, and the option
 * `reference` selects the reference value.
 *
 * The residual is recomputed from x before convergence is reported. For b = 0, the result is x = 0. If the initial
 * guess satisfies the stopping test, the call returns the guess after 0 iterations.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `sparse_factorize`.
 * - `b` (in): right-hand side, with as many values as the matrix has rows.
 * - `x` (in/out): initial guess on entry, solution on return; must not overlap `b`.
 *
 * On the CPU, both arrays must be in host memory. If the solver runs on a device, each array may be in host memory or
 * on this device.
 *
 * Returns:
 * - `RRB_OK`: the solve has converged.
 * - `RRB_NOT_CONVERGED`: the solve has not converged; `RRB_INFO_STOP_REASON` reports the reason. If the reason is
 *   `max_iter`, `x` is the last iterate, or an earlier iterate with a smaller residual. If the reason is `stagnated`
 *   or `diverged`, `x` is the iterate with the smallest known residual, which may be the initial guess.
 * - `RRB_STOPPED`: the monitor stopped the solve; `x` is the current iterate.
 *
 * After `RRB_NOT_CONVERGED` and `RRB_STOPPED`, the message of `rrbsolver_last_error` contains the number of
 * iterations, the residual, the tolerance and the stop reason.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `b` or `x` is NULL.
 * - `RRB_ERR_ARGUMENT`: `b` and `x` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
 *   than the solver, or in host memory although `memory=device` is set.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_ARGUMENT`: the matrix was factorized with `precision=single`, but `rel_tol` is below 1e-5.
 * - `RRB_ERR_ARGUMENT`: the initial guess x is so large that max abs(x) is above 1e150 * max abs(b) / d. Here d is
 *   half of the largest row sum of abs(a_ij).
 * - `RRB_ERR_STATE`: `sparse_factorize` has not succeeded since the last change of the values or of an option that
 *   acts "at factorize".
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `b` or `x` contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: the solution is too large for a double.
 * - `RRB_ERR_RANGE`: the values of the solution are so small that they underflow.
 * - `RRB_ERR_BREAKDOWN`: the method is cg or steepest_descent, but A or M is indefinite. If A is indefinite, use
 *   `solver=minres`.
 * - `RRB_ERR_BREAKDOWN`: the iteration overflowed.
 * - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `b` contains NaN or infinity.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
 *
 * After an error `x` is unchanged.
 *
 * Notes:
 * - If `solver=auto` selected cg, and this method detects that the matrix is indefinite, the solve continues with the
 *   method minres. `RRB_INFO_SOLVER` then reports minres.
 * - The results are bitwise identical for any number of threads.
 * - On the CPU, the call starts no thread and allocates no memory. On a device, the first call with arrays on the host
 *   allocates buffers and starts up to seven threads.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. Each array must be NULL or contain as many values as the
 * matrix has rows.
 */
rrb_status sparse_solve(sparse_handle *h, const double *b, double *x);

/**
 * Computes z = M^-1 r with the preconditioner of `sparse_factorize`, for a Krylov method of the caller.
 *
 * With `preconditioner=amg` on the CPU, M depends on r, so use a flexible Krylov method. Otherwise, M does not depend
 * on r.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `sparse_factorize`.
 * - `r` (in): residual, with as many values as the matrix has rows.
 * - `z` (out): result, with as many values as the matrix has rows; must not overlap `r`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `r` or `z` is NULL.
 * - `RRB_ERR_ARGUMENT`: `r` and `z` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
 *   than the solver, or in host memory although `memory=device` is set.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_STATE`: `sparse_factorize` has not succeeded since the last change of the values or of an option that
 *   acts "at factorize".
 * - `RRB_ERR_UNSUPPORTED`: the method is jacobi, gauss_seidel or sor, which has no preconditioner.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `r` contains NaN or infinity.
 * - `RRB_ERR_NOT_FINITE`: `z` is too large for a double.
 * - `RRB_ERR_RANGE`: the values of `z` are so small that they underflow.
 * - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `r` contains NaN or infinity.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
 *
 * After an error `z` is unchanged.
 *
 * Required:
 * The requirements are those of `sparse_solve`.
 */
rrb_status sparse_apply(sparse_handle *h, const double *r, double *z);

/**
 * Computes the product y = A x.
 *
 * The call needs no factorization, and the matrix may be rectangular. If the matrix is not yet in the storage format
 * that the option `format` selects, the call first converts it. Later products use the converted matrix until the
 * values or the options of the format change.
 *
 * Parameters:
 * - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
 * - `x` (in): vector with as many values as the matrix has columns.
 * - `y` (out): vector with as many values as the matrix has rows; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: `x` and `y` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
 *   than the solver, or in host memory although `memory=device` is set.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_ARGUMENT`: `format=diagonal` is set, but the matrix has an off-diagonal entry.
 * - `RRB_ERR_DIMENSION`: `format=skyline` is set, but the matrix is not square.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the storage format has no kernel on a device, the matrix has
 *   2^31 or more rows or columns, or the library was built without kernels.
 * - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `x` contains NaN or infinity.
 * - `RRB_ERR_MEMORY`: the storage format needs more memory than the option `format_memory` allows, or allocation
 *   failed.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
 *
 * After an error `y` is unchanged.
 *
 * Notes:
 * - The call moves `RRB_INFO_BYTES_PER_NONZERO` bytes of memory per entry of the matrix and performs 2 flops per
 *   stored value.
 * - Products in the formats coo, jds, tjds and skyline use one thread. Products in the other formats use as many
 *   threads as the option `threads` specifies.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. Each array must be NULL or have the size given above.
 */
rrb_status sparse_multiply(sparse_handle *h, const double *x, double *y);

/**
 * Computes the product y = A' x with the transpose A' of A.
 *
 * Except for the transpose, the description of `sparse_multiply` also applies to this call.
 *
 * Parameters:
 * - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
 * - `x` (in): vector with as many values as the matrix has rows.
 * - `y` (out): vector with as many values as the matrix has columns; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL, or an array of nonzero length is NULL.
 * - `RRB_ERR_ARGUMENT`: `x` and `y` overlap.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
 *   than the solver, or in host memory although `memory=device` is set.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
 * - `RRB_ERR_ARGUMENT`: `format=diagonal` is set, but the matrix has an off-diagonal entry.
 * - `RRB_ERR_DIMENSION`: `format=skyline` is set, but the matrix is not square.
 * - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the storage format has no kernel on a device, the matrix has
 *   2^31 or more rows or columns, or the library was built without kernels.
 * - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
 * - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `x` contains NaN or infinity.
 * - `RRB_ERR_MEMORY`: the storage format needs more memory than the option `format_memory` allows, or allocation
 *   failed.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
 *
 * After an error `y` is unchanged.
 *
 * Notes:
 * - On the CPU, the call does not copy A'. The call needs up to 64 bytes per column for partial sums. This memory
 *   remains allocated after the call.
 * - On a device, the first call copies A' to the device, in CSR. The formats dia and diagonal need no copy.
 *
 * Required:
 * The requirements are those of `sparse_multiply`.
 */
rrb_status sparse_multiply_transposed(sparse_handle *h, const double *x, double *y);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the pointer to the handle. On return, this pointer is NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - The call does not wait for other ranks.
 * - In a child process, the call does not free a handle that was created before the fork. In this case, the call only
 *   sets the pointer to NULL.
 *
 * Required:
 * `h` must be NULL, point to NULL, or point to a handle of the `rrb_` functions that no other thread uses.
 */
rrb_status rrb_destroy(rrb_handle **h);

/**
 * Sets an option whose value is an integer or a named choice.
 *
 * The options page lists the keys and ranges. The column "acts" of that page states when a new value of an option
 * takes effect.
 *
 * After a change of an option that acts "at factorize", call `rrb_factorize` before the next solve.
 *
 * Parameters:
 * - `h` (in/out): handle of the `rrb_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value. If the option has named choices, the value is one of the constants
 *   `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that
 *   accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The call also accepts the key of a real option. The call then converts the integer value to a real value.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions.
 */
rrb_status rrb_set_int(rrb_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): handle of the `rrb_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value. It must be 0 or a normal double.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that is
 *   not real.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions.
 */
rrb_status rrb_set_real(rrb_handle *h, int32_t key, double value);

/**
 * Sets options from a text such as "name=value name=value".
 *
 * Blanks or commas separate the entries of the text. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): handle of the `rrb_` functions.
 * - `text` (in): UTF-8 text that ends with NUL. The options page lists the names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry lacks the `=`, or contains an unknown name or choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file that the option `log` names cannot be opened.
 *
 * Notes:
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 * - If the text contains several entries for one option, the last of these entries applies.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. `text` must be NULL or end with NUL.
 */
rrb_status rrb_set_options(rrb_handle *h, const char *text);

/**
 * Reads an option or a result whose value is an integer or a named choice.
 *
 * Parameters:
 * - `h` (in): handle of the `rrb_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a real option, a real result or a
 *   text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - `RRB_INFO_DEVICE` is -1 if the handle uses no device.
 * - If the environment variable `RRBSOLVER_OPTIONS` sets an option, the call returns the value from this variable.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. `value` must be NULL or point to an `int64_t`.
 */
rrb_status rrb_get_int(const rrb_handle *h, int32_t key, int64_t *value);

/**
 * Reads an option or a result and converts its value to a real number.
 *
 * Parameters:
 * - `h` (in): handle of the `rrb_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. `value` must be NULL or point to a `double`.
 */
rrb_status rrb_get_real(const rrb_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream on which the handle computes.
 *
 * The stream has no effect if the solver runs on the CPU.
 *
 * Parameters:
 * - `h` (in/out): handle of the `rrb_` functions.
 * - `cuda_stream` (in): stream of type `cudaStream_t`. NULL selects the handle's own non-blocking stream, which is the
 *   default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - If the stream belongs to another device or CUDA context, the next call that computes returns `RRB_ERR_DEVICE`.
 * - If other streams, such as the default stream, write to the arrays of a call, synchronize these streams before the
 *   call.
 * - Before you destroy the stream, set another stream or NULL with this function.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions.
 */
rrb_status rrb_set_stream(rrb_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that receives the residuals and may stop the iteration.
 *
 * `rrb_solve` calls the monitor with iteration 0 before the first iteration, and then after each iteration. The
 * monitor receives the relative residual of the stopping test.
 *
 * Parameters:
 * - `h` (in/out): handle of the `rrb_` functions.
 * - `callback` (in): the monitor. If the monitor returns a nonzero value, `rrb_solve` stops and returns `RRB_STOPPED`.
 *   NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - The library calls the monitor on the calling thread, in the order of the iterations. The library holds no lock
 *   while the monitor runs.
 * - The monitor must not use this handle. The monitor must not throw a C++ exception and must not unwind the stack in
 *   another way.
 * - On a distributed handle, a rank may set a monitor even if other ranks set none. If one monitor stops the solve,
 *   the solve stops on all ranks.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. It must be safe to call `callback` with `user` until another
 * callback replaces `callback` or the handle is destroyed.
 */
rrb_status rrb_set_monitor(rrb_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the residual history of the handle.
 *
 * The values are the relative residuals of the stopping test in the last solve. The first value belongs to iteration
 * 0.
 *
 * Parameters:
 * - `h` (in): handle of the `rrb_` functions.
 * - `residuals` (out): array that receives the first min(`capacity`, `count`) values. NULL is allowed if `capacity` is
 *   0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle stores.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL and `capacity` is positive.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * The handle stores at most min(`max_iter` + 1, 1,000,000) values.
 *
 * Required:
 * `h` must be NULL or a handle of the `rrb_` functions. `residuals` must have room for `capacity` values. `count` must
 * be NULL or point to an `int64_t`.
 */
rrb_status rrb_get_history(const rrb_handle *h, double *residuals, int64_t capacity, int64_t *count);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the pointer to the handle. On return, this pointer is NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - In a child process, the call does not free a handle that was created before the fork. In this case, the call only
 *   sets the pointer to NULL.
 *
 * Required:
 * `h` must be NULL, point to NULL, or point to a handle of the `smoother_` functions that no other thread uses.
 */
rrb_status smoother_destroy(smoother_handle **h);

/**
 * Sets an option whose value is an integer or a named choice.
 *
 * The options page lists the keys and ranges. The column "acts" of that page states when a new value of an option
 * takes effect.
 *
 * After a change of an option that acts "at set_patches", call `smoother_set_patches` before the next
 * `smoother_apply`.
 *
 * Parameters:
 * - `h` (in/out): handle of the `smoother_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value. If the option has named choices, the value is one of the constants
 *   `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that
 *   accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 * - `RRB_ERR_MATRIX`: `stagger` is not 0, and a shifted block is singular.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The call also accepts the key of a real option. The call then converts the integer value to a real value.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 * - If `stagger` is not 0, this call creates the additional inverses of the shifted blocks. If `method=block_jacobi`
 *   is set, this call creates a second array for u.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions.
 */
rrb_status smoother_set_int(smoother_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): handle of the `smoother_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value. It must be 0 or a normal double.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that is
 *   not real.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions.
 */
rrb_status smoother_set_real(smoother_handle *h, int32_t key, double value);

/**
 * Sets options from a text such as "name=value name=value".
 *
 * Blanks or commas separate the entries of the text. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): handle of the `smoother_` functions.
 * - `text` (in): UTF-8 text that ends with NUL. The options page lists the names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry lacks the `=`, or contains an unknown name or choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file that the option `log` names cannot be opened.
 * - `RRB_ERR_MATRIX`: `stagger` is not 0, and a shifted block is singular.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 * - If the text contains several entries for one option, the last of these entries applies.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions. `text` must be NULL or end with NUL.
 */
rrb_status smoother_set_options(smoother_handle *h, const char *text);

/**
 * Reads an option or a result whose value is an integer or a named choice.
 *
 * Parameters:
 * - `h` (in): handle of the `smoother_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a real option, a real result or a
 *   text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - `RRB_INFO_DEVICE` is -1 if the handle uses no device.
 * - If the environment variable `RRBSOLVER_OPTIONS` sets an option, the call returns the value from this variable.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions. `value` must be NULL or point to an `int64_t`.
 */
rrb_status smoother_get_int(const smoother_handle *h, int32_t key, int64_t *value);

/**
 * Reads an option or a result and converts its value to a real number.
 *
 * Parameters:
 * - `h` (in): handle of the `smoother_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_STATE`: `key` is the key of a residual, but the last `smoother_apply` computed no residuals.
 *   `smoother_apply` computes residuals only with a monitor or with `verbosity=2`.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions. `value` must be NULL or point to a `double`.
 */
rrb_status smoother_get_real(const smoother_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream on which the handle computes.
 *
 * The stream has no effect if the solver runs on the CPU.
 *
 * Parameters:
 * - `h` (in/out): handle of the `smoother_` functions.
 * - `cuda_stream` (in): stream of type `cudaStream_t`. NULL selects the handle's own non-blocking stream, which is the
 *   default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_DEVICE`: the stream belongs to another device or CUDA context. After this error, the handle still uses
 *   the previous stream.
 *
 * Notes:
 * - If other streams, such as the default stream, write to the arrays of a call, synchronize these streams before the
 *   call.
 * - Before you destroy the stream, set another stream or NULL with this function.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions.
 */
rrb_status smoother_set_stream(smoother_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that receives the residuals and may stop the iteration.
 *
 * `smoother_apply` calls the monitor with sweep 0 before the first sweep, and then after each sweep. The monitor
 * receives the 2-norm of f - A u, divided by the value of this norm before the first sweep.
 *
 * Parameters:
 * - `h` (in/out): handle of the `smoother_` functions.
 * - `callback` (in): the monitor. If the monitor returns a nonzero value, `smoother_apply` stops and returns
 *   `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation of the residual history failed.
 *
 * Notes:
 * - The library calls the monitor on the calling thread, in the order of the iterations. The library holds no lock
 *   while the monitor runs.
 * - The monitor must not use this handle. The monitor must not throw a C++ exception and must not unwind the stack in
 *   another way.
 * - With a monitor, `smoother_apply` updates the ghost cells after each sweep and reads u and f once more to compute
 *   the residual. On return, ghost cells therefore hold the values after the last sweep. Without a monitor, ghost
 *   cells hold the values that the last sweep read.
 * - A call of `smoother_apply` with 0 sweeps calls the monitor once.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions. It must be safe to call `callback` with `user` until
 * another callback replaces `callback` or the handle is destroyed.
 */
rrb_status smoother_set_monitor(smoother_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the residual history of the handle.
 *
 * The values are the relative residuals that the monitor received in the last `smoother_apply`. The first value is the
 * relative residual before the first sweep.
 *
 * Parameters:
 * - `h` (in): handle of the `smoother_` functions.
 * - `residuals` (out): array that receives the first min(`capacity`, `count`) values. NULL is allowed if `capacity` is
 *   0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle stores.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL and `capacity` is positive.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * The handle stores at most 100,000 values.
 *
 * Required:
 * `h` must be NULL or a handle of the `smoother_` functions. `residuals` must have room for `capacity` values. `count`
 * must be NULL or point to an `int64_t`.
 */
rrb_status smoother_get_history(const smoother_handle *h, double *residuals, int64_t capacity, int64_t *count);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the pointer to the handle. On return, this pointer is NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - In a child process, the call does not free a handle that was created before the fork. In this case, the call only
 *   sets the pointer to NULL.
 *
 * Required:
 * `h` must be NULL, point to NULL, or point to a handle of the `dpcg_` functions that no other thread uses.
 */
rrb_status dpcg_destroy(dpcg_handle **h);

/**
 * Sets an option whose value is an integer or a named choice.
 *
 * The options page lists the keys and ranges. The column "acts" of that page states when a new value of an option
 * takes effect.
 *
 * After a change of an option that acts "at factorize", call `dpcg_factorize` before the next solve.
 *
 * Parameters:
 * - `h` (in/out): handle of the `dpcg_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value. If the option has named choices, the value is one of the constants
 *   `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that
 *   accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The call also accepts the key of a real option. The call then converts the integer value to a real value.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions.
 */
rrb_status dpcg_set_int(dpcg_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): handle of the `dpcg_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value. It must be 0 or a normal double.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that is
 *   not real.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions.
 */
rrb_status dpcg_set_real(dpcg_handle *h, int32_t key, double value);

/**
 * Sets options from a text such as "name=value name=value".
 *
 * Blanks or commas separate the entries of the text. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): handle of the `dpcg_` functions.
 * - `text` (in): UTF-8 text that ends with NUL. The options page lists the names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry lacks the `=`, or contains an unknown name or choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file that the option `log` names cannot be opened.
 *
 * Notes:
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 * - If the text contains several entries for one option, the last of these entries applies.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions. `text` must be NULL or end with NUL.
 */
rrb_status dpcg_set_options(dpcg_handle *h, const char *text);

/**
 * Reads an option or a result whose value is an integer or a named choice.
 *
 * Parameters:
 * - `h` (in): handle of the `dpcg_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a real option, a real result or a
 *   text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - `RRB_INFO_DEVICE` is -1 if the handle uses no device.
 * - If the environment variable `RRBSOLVER_OPTIONS` sets an option, the call returns the value from this variable.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions. `value` must be NULL or point to an `int64_t`.
 */
rrb_status dpcg_get_int(const dpcg_handle *h, int32_t key, int64_t *value);

/**
 * Reads an option or a result and converts its value to a real number.
 *
 * Parameters:
 * - `h` (in): handle of the `dpcg_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions. `value` must be NULL or point to a `double`.
 */
rrb_status dpcg_get_real(const dpcg_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream on which the handle computes.
 *
 * The stream has no effect if the solver runs on the CPU.
 *
 * Parameters:
 * - `h` (in/out): handle of the `dpcg_` functions.
 * - `cuda_stream` (in): stream of type `cudaStream_t`. NULL selects the handle's own non-blocking stream, which is the
 *   default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - If the stream belongs to another device or CUDA context, the next call that computes returns `RRB_ERR_DEVICE`.
 * - If other streams, such as the default stream, write to the arrays of a call, synchronize these streams before the
 *   call.
 * - Before you destroy the stream, set another stream or NULL with this function.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions.
 */
rrb_status dpcg_set_stream(dpcg_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that receives the residuals and may stop the iteration.
 *
 * `dpcg_solve` calls the monitor with iteration 0 before the first iteration, and then after each iteration. The
 * monitor receives the relative residual of the stopping test.
 *
 * Parameters:
 * - `h` (in/out): handle of the `dpcg_` functions.
 * - `callback` (in): the monitor. If the monitor returns a nonzero value, `dpcg_solve` stops and returns
 *   `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - The library calls the monitor on the calling thread, in the order of the iterations. The library holds no lock
 *   while the monitor runs.
 * - The monitor must not use this handle. The monitor must not throw a C++ exception and must not unwind the stack in
 *   another way.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions. It must be safe to call `callback` with `user` until another
 * callback replaces `callback` or the handle is destroyed.
 */
rrb_status dpcg_set_monitor(dpcg_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the residual history of the handle.
 *
 * The values are the relative residuals of the stopping test in the last solve. The first value belongs to iteration
 * 0.
 *
 * Parameters:
 * - `h` (in): handle of the `dpcg_` functions.
 * - `residuals` (out): array that receives the first min(`capacity`, `count`) values. NULL is allowed if `capacity` is
 *   0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle stores.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL and `capacity` is positive.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * The handle stores at most min(`max_iter` + 1, 1,000,000) values.
 *
 * Required:
 * `h` must be NULL or a handle of the `dpcg_` functions. `residuals` must have room for `capacity` values. `count`
 * must be NULL or point to an `int64_t`.
 */
rrb_status dpcg_get_history(const dpcg_handle *h, double *residuals, int64_t capacity, int64_t *count);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the pointer to the handle. On return, this pointer is NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - In a child process, the call does not free a handle that was created before the fork. In this case, the call only
 *   sets the pointer to NULL.
 *
 * Required:
 * `h` must be NULL, point to NULL, or point to a handle of the `sparse_` functions that no other thread uses.
 */
rrb_status sparse_destroy(sparse_handle **h);

/**
 * Sets an option whose value is an integer or a named choice.
 *
 * The options page lists the keys and ranges. The column "acts" of that page states when a new value of an option
 * takes effect.
 *
 * After a change of an option that acts "at factorize", call `sparse_factorize` before the next solve.
 *
 * Parameters:
 * - `h` (in/out): handle of the `sparse_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value. If the option has named choices, the value is one of the constants
 *   `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that
 *   accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The call also accepts the key of a real option. The call then converts the integer value to a real value.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 * - After a change of an option of the storage format, the next product converts the matrix again.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions.
 */
rrb_status sparse_set_int(sparse_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): handle of the `sparse_` functions.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value. It must be 0 or a normal double.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option that is
 *   not real.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions.
 */
rrb_status sparse_set_real(sparse_handle *h, int32_t key, double value);

/**
 * Sets options from a text such as "name=value name=value".
 *
 * Blanks or commas separate the entries of the text. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): handle of the `sparse_` functions.
 * - `text` (in): UTF-8 text that ends with NUL. The options page lists the names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry lacks the `=`, or contains an unknown name or choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file that the option `log` names cannot be opened.
 *
 * Notes:
 * - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable sets
 *   the same option, the value in the variable overrides the change.
 * - If the text contains several entries for one option, the last of these entries applies.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `text` must be NULL or end with NUL.
 */
rrb_status sparse_set_options(sparse_handle *h, const char *text);

/**
 * Reads an option or a result whose value is an integer or a named choice.
 *
 * Parameters:
 * - `h` (in): handle of the `sparse_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a real option, a real result or a
 *   text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - If the environment variable `RRBSOLVER_OPTIONS` sets an option, the call returns the value from this variable.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `value` must be NULL or point to an `int64_t`.
 */
rrb_status sparse_get_int(const sparse_handle *h, int32_t key, int64_t *value);

/**
 * Reads an option or a result and converts its value to a real number.
 *
 * Parameters:
 * - `h` (in): handle of the `sparse_` functions.
 * - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the table of options) or of a result (`RRB_INFO_<NAME>`, see
 *   the table of results).
 * - `value` (out): value of the option or result; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a text option.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `value` must be NULL or point to a `double`.
 */
rrb_status sparse_get_real(const sparse_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream on which the handle computes.
 *
 * The stream has no effect if the solver runs on the CPU.
 *
 * Parameters:
 * - `h` (in/out): handle of the `sparse_` functions.
 * - `cuda_stream` (in): stream of type `cudaStream_t`. NULL selects the handle's own non-blocking stream, which is the
 *   default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - If the stream belongs to another device or CUDA context, the next call that computes returns `RRB_ERR_DEVICE`.
 * - If other streams, such as the default stream, write to the arrays of a call, synchronize these streams before the
 *   call.
 * - Before you destroy the stream, set another stream or NULL with this function.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions.
 */
rrb_status sparse_set_stream(sparse_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that receives the residuals and may stop the iteration.
 *
 * `sparse_solve` calls the monitor with iteration 0 before the first iteration, and then after each iteration. The
 * monitor receives the relative residual of the stopping test.
 *
 * Parameters:
 * - `h` (in/out): handle of the `sparse_` functions.
 * - `callback` (in): the monitor. If the monitor returns a nonzero value, `sparse_solve` stops and returns
 *   `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * - The library calls the monitor on the calling thread, in the order of the iterations. The library holds no lock
 *   while the monitor runs.
 * - The monitor must not use this handle. The monitor must not throw a C++ exception and must not unwind the stack in
 *   another way.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. It must be safe to call `callback` with `user` until
 * another callback replaces `callback` or the handle is destroyed.
 */
rrb_status sparse_set_monitor(sparse_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the residual history of the handle.
 *
 * The values are the relative residuals of the stopping test in the last solve. The first value belongs to iteration
 * 0.
 *
 * Parameters:
 * - `h` (in): handle of the `sparse_` functions.
 * - `residuals` (out): array that receives the first min(`capacity`, `count`) values. NULL is allowed if `capacity` is
 *   0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle stores.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL and `capacity` is positive.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
 *
 * Notes:
 * The handle stores at most min(`max_iter` + 1, 1,000,000) values.
 *
 * Required:
 * `h` must be NULL or a handle of the `sparse_` functions. `residuals` must have room for `capacity` values. `count`
 * must be NULL or point to an `int64_t`.
 */
rrb_status sparse_get_history(const sparse_handle *h, double *residuals, int64_t capacity, int64_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RRBSOLVER_H */
