/* rrbsolver.h: solvers for stencil systems of simulation codes and for general sparse matrices. C99 and C++.
 *
 * Threads: different threads may use different handles at the same time. Only one thread at a time may use a handle; it
 * need not be the thread that created it. The option threads sets the number of threads that compute. Callbacks run on
 * the calling thread, between iterations, with no lock held. They must not use the handle of the call.
 *
 * Statuses: every function that can fail returns an rrb_status, listed below. If it is not RRB_OK, the call also stores
 * a message for its thread, which rrbsolver_last_error copies.
 *
 * Arrays: a[j*ld + i] in 2D and a[k*lp + j*ld + i] in 3D; i = 0..nx-1 is contiguous. ld = nx and lp = ny*ld, unless the
 * options leading_dimension and leading_plane are set. Pointers are used during the call only. An output array must not
 * overlap any other array of the call.
 *
 * Handles: X_create (sparse_create_csr, ..., sparse_read) creates a handle. X_destroy frees it and sets the pointer to
 * NULL.
 *
 * Numbers of statuses, options, results and choices never change their meaning.
 *
 * Generated from the sources of the library; do not edit. */

#ifndef RRBSOLVER_H
#define RRBSOLVER_H

#include <stdint.h>

/* Version of this header; rrbsolver_version() returns the version of the library. */
#define RRBSOLVER_VERSION_MAJOR 0
#define RRBSOLVER_VERSION_MINOR 1
#define RRBSOLVER_VERSION_PATCH 0

/* Statuses. 0: success. Positive: success with a caveat; outputs are written and usable. Negative: failure. */
#define RRB_OK                    0  /* success */
#define RRB_NOT_CONVERGED         1  /* the tolerance was not reached; x is the last iterate or a better one (see
                                        rrbsolver_last_error) */
#define RRB_STOPPED               2  /* a callback stopped the call; x (smoother_: u) is the current iterate */
#define RRB_ERR_NULL           (-1)  /* a required pointer is NULL */
#define RRB_ERR_ARGUMENT       (-2)  /* an argument is out of range, or arrays overlap */
#define RRB_ERR_DIMENSION      (-3)  /* a size is too small, sizes are inconsistent, or their product is too large */
#define RRB_ERR_OPTION         (-4)  /* unknown key of an option or result, unknown option name, or unknown choice */
#define RRB_ERR_STATE          (-5)  /* wrong order of calls; call factorize (smoother_: set_patches) first */
#define RRB_ERR_UNSUPPORTED    (-6)  /* the call is not supported by this build, backend or method */
#define RRB_ERR_MATRIX        (-20)  /* a center or pivot is not positive, or a block is singular; sparse_: also if
                                        the matrix is not symmetric, or a row is empty */
#define RRB_ERR_NOT_FINITE    (-21)  /* NaN or infinity in an input array, or overflow of a result */
#define RRB_ERR_BREAKDOWN     (-22)  /* the matrix or the preconditioner is indefinite; x is unchanged */
#define RRB_ERR_INCOMPATIBLE  (-23)  /* the system is singular, and its right-hand side has a component in the null
                                        space */
#define RRB_ERR_RANGE         (-24)  /* underflow of a result */
#define RRB_ERR_MEMORY        (-30)  /* out of memory, or a memory limit is exceeded */
#define RRB_ERR_NO_DEVICE     (-40)  /* no CUDA driver or device */
#define RRB_ERR_DEVICE        (-41)  /* the CUDA driver reported an error */
#define RRB_ERR_IO            (-50)  /* a file cannot be read or written */
#define RRB_ERR_PARSE         (-51)  /* a file or text cannot be parsed */
#define RRB_ERR_COMMUNICATION (-60)  /* a rank is missing or late; x is unchanged, and only destroy may follow */
#define RRB_ERR_INTERNAL      (-99)  /* internal error: a bug in this library */

/* Options: keys of set and get. */
#define RRB_OPT_BACKEND               100  /* where the solver runs; auto: see the rules of auto */
#define RRB_OPT_DEVICE                101  /* CUDA device ordinal (not sparse_) */
#define RRB_OPT_THREADS               102  /* number of threads; 0: the value of the first of RRBSOLVER_NUM_THREADS,
                                              SLURM_CPUS_PER_TASK and OMP_NUM_THREADS that is set (if none is set,
                                              the number of cores in the affinity mask) */
#define RRB_OPT_MEMORY                103  /* memory space of the caller's arrays; auto: the CUDA driver is queried
                                              for each array (not sparse_) */
#define RRB_OPT_REL_TOL               104  /* relative tolerance; a solve has converged when norm(b - A x) <=
                                              max(rel_tol * reference, abs_tol) (not smoother_) */
#define RRB_OPT_ABS_TOL               105  /* absolute tolerance, in the unit of the norm of the stopping test; see
                                              rel_tol (not smoother_) */
#define RRB_OPT_MAX_ITER              106  /* limit of iterations per solve; 0: a solve only evaluates the residual
                                              (not smoother_) */
#define RRB_OPT_NORM                  107  /* norm of the stopping test; true2: 2-norm of b - A x; preconditioned:
                                              sqrt(r' M^-1 r); on singular components r is centered, and its means m
                                              add sum m^2 / center under the root; with deflation r is the deflated
                                              residual, not centered (not smoother_, sparse_) */
#define RRB_OPT_REFERENCE             108  /* reference of relative residuals; rhs: norm of b, projected if A is
                                              singular (with norm=preconditioned, b is also reduced to the first
                                              Schur complement S1); initial: norm of the initial residual (not
                                              smoother_) */
#define RRB_OPT_NULL_SPACE            109  /* connected components that are treated as singular; auto: components
                                              with |row sum| <= 1e-12 * center in every row; none: no component;
                                              constant: all components, which must have |row sum| <= 1e-6 * center
                                              (not smoother_, sparse_) */
#define RRB_OPT_CHECK_INPUT           110  /* 0: no checks; 1: NaN and infinity in input arrays are errors, and
                                              nonzero couplings to nodes outside the grid are logged once per handle;
                                              2: such couplings are errors, too (smoother_, sparse_: same as 1;
                                              sparse_ always checks matrix entries) */
#define RRB_OPT_CHECK_COMPATIBILITY   111  /* check of b on singular components, before its mean is subtracted; 0:
                                              none; 1: |sum b| > 1e-10 ||b||_1 is an error (not smoother_, sparse_) */
#define RRB_OPT_VERBOSITY             112  /* log lines; 0: warnings; 1: also one line per solve (smoother_: per
                                              apply; sparse_: also per factorize); 2: also one line per iteration
                                              (smoother_: per sweep) */
#define RRB_OPT_LOG                   113  /* destination of log lines: callback (see rrbsolver_set_log), stderr, or
                                              a file to which lines are appended; the path must not contain blanks or
                                              commas */
#define RRB_OPT_LEVELS                200  /* number of elimination levels; 0: depends on the grid size; larger
                                              values are reduced to the maximum */
#define RRB_OPT_COARSE_MEMORY         201  /* memory limit, in bytes, for the exact factor of the coarsest system */
#define RRB_OPT_GRIDS                 202  /* number of grids stored by colour as r1, r2, b1 and b2 arrays; 0:
                                              depends on the grid size; larger values are reduced to the maximum */
#define RRB_OPT_COMPUTE_BLOCK         203  /* row padding and border width, in values, of the r1, r2, b1 and b2
                                              arrays */
#define RRB_OPT_LUMPING               204  /* nodes whose dropped couplings are lumped; m1: red; m2: red and black;
                                              in text, m1u and m2u also set relaxation=0, and m1m and m2m set
                                              relaxation=1 */
#define RRB_OPT_RELAXATION            205  /* relaxation factor omega: fraction of each dropped coupling that is
                                              added to the diagonal */
#define RRB_OPT_FUSION                206  /* on: fused stages, if the backend has them; off: unfused reference
                                              formulation (also dpcg_) */
#define RRB_OPT_COMPENSATION          207  /* treatment of positive off-diagonal entries in M; auto: see the rules of
                                              auto; always: moved to the diagonal; never: unchanged */
#define RRB_OPT_PRECISION             208  /* precision in which the preconditioner is stored; mixed: bf16 and CG in
                                              single precision, for regular 5-point systems on the CPU (otherwise
                                              same as bf16); auto: see the rules of auto (also dpcg_, sparse_) */
#define RRB_OPT_CYCLE                 209  /* cycle of the preconditioner; v: V-cycle of RRB; amli, k: recursive
                                              cycles of RRB; aggregation: multigrid by aggregation instead of RRB;
                                              auto: see the rules of auto */
#define RRB_OPT_CYCLE_SPACING         210  /* number of levels between recursions of a recursive cycle, must be even;
                                              0: 4 */
#define RRB_OPT_CYCLE_STEPS           211  /* number of inner iterations per recursion */
#define RRB_OPT_SWITCH_MEMORY         213  /* memory limit, in bytes, for aggregation that cycle=auto selects at
                                              factorize or in a slow solve; -1: no limit; 0: auto never selects
                                              aggregation */
#define RRB_OPT_LEADING_DIMENSION     212  /* distance, in values, between rows of the caller's arrays, at least nx;
                                              0: nx (also dpcg_) */
#define RRB_OPT_DEVICES               220  /* CUDA ordinals of up to eight devices that share the rows of large
                                              grids, such as 0+1+2; none: one device, set by option device */
#define RRB_OPT_REPRODUCIBLE          218  /* 1: results are bitwise identical for any number of ranks; 0: results
                                              are bitwise identical only for the same number of ranks, and global
                                              sums need less communication */
#define RRB_OPT_COMM_TIMEOUT          219  /* time in seconds for which a rank waits for other ranks; 0: no limit */
#define RRB_OPT_METHOD                300  /* relaxation method: coloured block Gauss-Seidel, block Jacobi, or
                                              chaotic block Gauss-Seidel */
#define RRB_OPT_OMEGA                 301  /* relaxation factor; 0: 0.8 for block_jacobi, else 1 */
#define RRB_OPT_STAGGER               302  /* sweeps of an apply in which blocks are shifted by floor(b / 2) cells;
                                              0: none; 1: the second, fourth, ...; 2: the first, third, ... */
#define RRB_OPT_REVERSE               303  /* 1: a sweep processes colours (chaotic_gauss_seidel: blocks) in reverse
                                              order, for post-smoothing */
#define RRB_OPT_BLOCK_SOLVER          304  /* solver of the diagonal blocks; fast_diagonalization: sine transforms,
                                              an error if they would lose more than four digits; dense: dense
                                              inverses; auto: see the rules of auto */
#define RRB_OPT_REMAINDER             305  /* treatment of blocks that extend beyond the edge of a patch; exact: they
                                              are solved as smaller blocks; overlap: they are moved inwards and
                                              overlap other blocks */
#define RRB_OPT_PARALLEL              306  /* work that is distributed among threads; auto: all blocks of all
                                              patches; patch: whole patches (chaotic_gauss_seidel is then
                                              lexicographic in each patch); block: the blocks of one patch at a time;
                                              nested: patches among groups of threads, and the blocks of a patch
                                              within a group */
#define RRB_OPT_PATCH_THREADS         307  /* number of groups of threads with parallel=nested; 0: automatic */
#define RRB_OPT_TRANSFER              308  /* order of copies and kernels if the device processes patches in host
                                              memory */
#define RRB_OPT_PRECONDITIONER        400  /* preconditioner; neumann: Neumann series with `order` + 1 terms; ic0:
                                              incomplete Cholesky without fill (dpcg_: CPU only); ric: the same with
                                              relaxation (CPU only); multigrid: geometric multigrid; amg: multigrid
                                              by aggregation (sparse_: for cg); ssor: SSOR with sor_omega; ilu0:
                                              incomplete LU without fill; chebyshev: polynomial of `degree` in D^-1
                                              A; auto: see the rules of auto (also sparse_) */
#define RRB_OPT_ORDER                 401  /* number of terms of the Neumann series after the first; 0: same as
                                              jacobi (also sparse_) */
#define RRB_OPT_RIC_OMEGA             402  /* fraction of the dropped fill that ric subtracts from the diagonal; 0:
                                              same as ic0; 1: modified incomplete Cholesky */
#define RRB_OPT_DEFLATION             403  /* deflation regions, with one vector per region; subdomain: boxes of
                                              cells; levelset: the caller's regions (if there are none, components of
                                              strong couplings); levelset_subdomain: the regions of levelset, split
                                              by boxes; auto: see the rules of auto */
#define RRB_OPT_SUBDOMAINS_X          404  /* number of deflation boxes in x, at most nx; 0: automatic */
#define RRB_OPT_SUBDOMAINS_Y          405  /* number of deflation boxes in y, at most ny; 0: automatic */
#define RRB_OPT_SUBDOMAINS_Z          406  /* number of deflation boxes in z, at most nz; 0: automatic */
#define RRB_OPT_KEEP_ALL              407  /* deflation vectors for singular systems; 0: the vector of one region of
                                              weak couplings is omitted; 1: all vectors are used, and the coarse
                                              matrix is shifted */
#define RRB_OPT_COARSE_SOLVER         408  /* solver of systems with the coarse deflation matrix; inverse: explicit
                                              inverse; cholesky: factorization; cg: inner CG, CPU only; auto: see the
                                              rules of auto */
#define RRB_OPT_COARSE_TOL            409  /* relative tolerance of coarse_solver=cg */
#define RRB_OPT_COARSENING            410  /* coarsening of multigrid; vertex: every second cell, operator-dependent
                                              interpolation, Galerkin coarse grids; cell: pairs of cells, constant
                                              interpolation, coarsest grid of at most 64 cells; auto: see the rules
                                              of auto */
#define RRB_OPT_SWEEPS                411  /* number of multigrid sweeps before and after each coarse-grid
                                              correction; 0: automatic */
#define RRB_OPT_DILATION              412  /* number of layers of cells by which levelset regions grow; -1: 1 for the
                                              caller's regions, 0 for components of strong couplings */
#define RRB_OPT_LEADING_PLANE         413  /* distance, in values, between planes of the caller's arrays, at least
                                              ny * leading_dimension; 0: ny * leading_dimension */
#define RRB_OPT_SOLVER                500  /* iterative method; auto: see the rules of auto; in text, jcbi, gs and
                                              gssor mean jacobi, gauss_seidel and sor */
#define RRB_OPT_FORMAT                502  /* storage format for products; auto: see the rules of auto */
#define RRB_OPT_ORDERING              503  /* order of rows in sweeps of gauss_seidel and sor; natural: ascending;
                                              multicolour: by first-fit colours of A + A'; blocks: blocks of rows,
                                              each with old values of the other blocks; symmetric: ascending, then
                                              descending */
#define RRB_OPT_SOR_OMEGA             504  /* relaxation factor of jacobi, sor and ssor, below 2; 0: 1.25 for sor,
                                              else 1 */
#define RRB_OPT_BLOCKS                505  /* number of blocks with ordering=blocks; 0: 16 */
#define RRB_OPT_BLOCK_SIZE            506  /* rows and columns per block of format=bsr; 0: one of 2 to 6 and 8, the
                                              one that needs the fewest bytes */
#define RRB_OPT_SLICE                 507  /* rows per slice of format=sell (C); 0: 8 */
#define RRB_OPT_SIGMA                 508  /* rows per sorting window of format=sell; 0: 256 if that saves bytes,
                                              else 1 (unsorted) */
#define RRB_OPT_RESTART               509  /* number of iterations of gmres between restarts */
#define RRB_OPT_SHADOW                510  /* dimension s of the shadow space of idr */
#define RRB_OPT_SHIFT                 511  /* shift s of ic0, which factorizes A + s diag(A); below 0: s = 0, and
                                              then 1e-3, 2e-3, 4e-3, ... while a pivot is not positive */
#define RRB_OPT_DEGREE                513  /* degree of the polynomial of chebyshev */
#define RRB_OPT_TRANSPOSE             514  /* product with A' in bicg; copy: a stored transpose is used; none: A is
                                              used; auto: see the rules of auto */
#define RRB_OPT_DIVERGENCE_LIMIT      515  /* a solve has diverged when its residual exceeds this multiple of
                                              max(reference, initial residual); 0: 1e100 for jacobi, gauss_seidel and
                                              sor, else 1e10 */
#define RRB_OPT_FORMAT_MEMORY         516  /* memory limit, in bytes, for the arrays of a format other than csr */

/* Rules of auto. The first condition that holds decides; docs/reference/auto.md has the notes.
 *
 * memory (all):
 *   device: the CUDA driver reports that the array is on the handle's device
 *   host: otherwise
 *
 * null_space (all):
 *   singular component: |row sum| <= 1e-12 * center in all rows of the component
 *   regular component: otherwise
 *
 * backend (rrb_):
 *   cuda: a CUDA device is present, nx * ny >= 10,000, and cycle is not k
 *   cpu: otherwise
 *
 * cycle (rrb_):
 *   aggregation: aggregation is possible, nx * ny >= 16,384, no option of the levels is set, and the estimated cost
 *     of a solve is lower with aggregation than with RRB (see the notes)
 *   v: nx * ny < 16,384, or lumping or relaxation is not the default
 *   amli: the estimated condition numbers of the recursions are in the range given in the notes
 *   v: otherwise
 *
 * precision (rrb_):
 *   f32: the cycle is aggregation
 *   f64: nx * ny < 16,384; or lumping or relaxation is not the default; or the ratio of the largest to the smallest
 *     center is above 1e6 (1e4 with a singular component)
 *   mixed: on the CPU: 5 points, no positive coupling, no singular component, grids is not 1, norm=true2,
 *     cycle=auto, and aggregation is possible or the handle is distributed
 *   bf16: otherwise
 *
 * compensation (rrb_):
 *   always: A has positive couplings, and the cycle is not aggregation
 *   never: otherwise
 *
 * backend (dpcg_):
 *   cuda: a CUDA device is present, nx * ny * nz >= 20,000, preconditioner is not ic0 or ric, and coarse_solver is
 *     not cg
 *   cpu: otherwise
 *
 * preconditioner (dpcg_):
 *   amg: coarse grids do not resolve at least 12 components of strong couplings, and either these are not deflated
 *     or cells are flat (see the notes). In addition, there are no labels, deflation is auto or none, coarsening and
 *     sweeps have their defaults, and backend is not reference
 *   multigrid: otherwise
 *
 * coarsening (dpcg_):
 *   cell: cells are flat (see preconditioner)
 *   vertex: otherwise
 *
 * deflation (dpcg_):
 *   levelset: the preconditioner is multigrid or amg, and the caller set labels
 *   none: the preconditioner is amg
 *   levelset: the preconditioner is multigrid; there are 2 to 1,000 components of strong couplings; and the contrast
 *     is at most 1e-4, or a component is less than 4 cells across, or the coarsening is cell
 *   none: the preconditioner is multigrid
 *   levelset_subdomain: the caller set labels, or there is a component of strong couplings
 *   subdomain: otherwise
 *
 * coarse_solver (dpcg_):
 *   inverse: at most 1024 deflation vectors, on a device at most 4096
 *   cholesky: otherwise
 *
 * precision (dpcg_):
 *   f32: the preconditioner is multigrid or amg
 *   f64: otherwise
 *
 * backend (smoother_):
 *   cuda: a CUDA device is present, and memory=device
 *   cpu: otherwise
 *
 * block_solver (smoother_):
 *   fast_diagonalization: a diagonal scaling makes the stencil symmetric in x, y and z, and the condition number of
 *     the scaling on a block is below 300
 *   dense: otherwise
 *
 * parallel (smoother_):
 *   all blocks: always: all blocks of all patches form one list, which is distributed among the threads
 *
 * transfer (smoother_):
 *   depth_first: always
 *
 * backend (sparse_):
 *   cpu: always
 *
 * solver (sparse_):
 *   jacobi: the matrix is diagonal
 *   idr: the matrix is not symmetric
 *   cg: all diagonal entries are positive
 *   minres: otherwise
 *
 * preconditioner (sparse_):
 *   none: the solver is jacobi, gauss_seidel or sor; or it is cg or minres, and a diagonal entry is zero
 *   amg: the solver is cg, all diagonal entries are positive, more than half of the off-diagonal entries are
 *     negative, and the matrix has at least 100,000 rows
 *   ic0: the solver is cg, and all diagonal entries are positive
 *   jacobi: the solver is cg or minres
 *   ilu0: otherwise
 *
 * precision (sparse_):
 *   f32: the preconditioner is amg
 *   f64: otherwise
 *
 * format (sparse_):
 *   diagonal: all entries are on the diagonal
 *   csr, dia, sell or bsr: this format moves the fewest bytes in a product
 *
 * transpose (sparse_):
 *   none: the format is dia, diagonal or skyline, or a copy needs more than format_memory
 *   copy: otherwise
 */

/* Results: keys of get. */
#define RRB_INFO_ITERATIONS             1000  /* number of iterations of the last solve (smoother_: of sweeps of the
                                                 last apply) */
#define RRB_INFO_STOP_REASON            1001  /* reason why the last solve stopped; smoother_: monitor if a callback
                                                 stopped the last apply, else none */
#define RRB_INFO_INITIAL_RESIDUAL       1002  /* relative residual of the initial guess, in the norm of the stopping
                                                 test; smoother_: 1, available only after an apply with a monitor */
#define RRB_INFO_FINAL_RESIDUAL         1003  /* relative residual of x in the norm of the stopping test, computed
                                                 from b - A x at the end of the solve; smoother_: last value passed
                                                 to the monitor, available only after an apply with a monitor */
#define RRB_INFO_SECONDS_SETUP          1004  /* wall time of the last factorize, in seconds (smoother_: of
                                                 set_patches; sparse_: also of a format conversion by a product) */
#define RRB_INFO_SECONDS_SOLVE          1005  /* wall time of the last solve, in seconds (smoother_: of the last
                                                 apply) */
#define RRB_INFO_SECONDS_TRANSFER       1006  /* part of seconds_solve that was needed for copies between host and
                                                 device (not sparse_) */
#define RRB_INFO_BYTES_HOST             1007  /* host memory of the handle, in bytes */
#define RRB_INFO_BYTES_DEVICE           1008  /* device memory of the handle, in bytes (not sparse_) */
#define RRB_INFO_LAMBDA_MIN             1009  /* smallest eigenvalue of M^-1 A, estimated in the last solve
                                                 (Lanczos); 0: no estimate, because the method is not cg or fewer
                                                 than two iterations had positive coefficients (not smoother_) */
#define RRB_INFO_LAMBDA_MAX             1010  /* largest eigenvalue of M^-1 A, estimated in the same way as
                                                 lambda_min (not smoother_) */
#define RRB_INFO_BACKEND                1011  /* backend in use */
#define RRB_INFO_DEVICE                 1012  /* CUDA ordinal in use; -1: none (not sparse_) */
#define RRB_INFO_THREADS                1013  /* threads in use */
#define RRB_INFO_CUDA_KERNELS           1014  /* 1: the library was built with CUDA kernels; 0: it was built with
                                                 RRBSOLVER_CUDA=off (not sparse_) */
#define RRB_INFO_LEVELS                 1100  /* number of elimination levels in use (cycle=aggregation: of coarse
                                                 levels) */
#define RRB_INFO_PRECISION              1101  /* precision in use (also dpcg_, sparse_) */
#define RRB_INFO_CYCLE                  1102  /* cycle in use; with k, and with aggregation on the CPU, M depends on
                                                 r */
#define RRB_INFO_COMPONENTS             1103  /* number of connected components of at least two nodes (also dpcg_) */
#define RRB_INFO_SINGULAR_COMPONENTS    1104  /* number of singular components of at least two nodes (also dpcg_) */
#define RRB_INFO_COMPENSATED_COUPLINGS  1105  /* number of positive couplings that are moved to the diagonal of M */
#define RRB_INFO_GRIDS                  1106  /* number of grids stored by colour as r1, r2, b1 and b2 arrays */
#define RRB_INFO_AGGREGATES_KEPT        1108  /* number of aggregates, on all levels, that the last factorize reused
                                                 (with cycle=aggregation or preconditioner=amg); 0: all aggregates
                                                 are new (also dpcg_, sparse_) */
#define RRB_INFO_MESSAGES_SENT          1110  /* number of messages that this rank sent in the last call; a
                                                 collective operation counts once */
#define RRB_INFO_BYTES_SENT             1111  /* number of bytes in the messages counted by messages_sent */
#define RRB_INFO_BLOCK_SOLVER           1200  /* block solver in use */
#define RRB_INFO_BLOCK_INVERSES         1201  /* number of distinct blocks with stored inverses */
#define RRB_INFO_GHOST_COPIES           1202  /* number of boxes of ghost cells that are copied between patches
                                                 before each sweep */
#define RRB_INFO_CELLS                  1203  /* number of cells of all patches */
#define RRB_INFO_PRECONDITIONER         1300  /* preconditioner in use (also sparse_) */
#define RRB_INFO_AUTO_REASON            1301  /* first condition that determined the choice of auto; crowded: there
                                                 are too many components of strong couplings for multigrid and
                                                 deflation, or flat cells hide them; anisotropic: couplings in one
                                                 direction are weak; labels: the caller set regions; contrast:
                                                 couplings of one direction differ strongly; thin: a component of
                                                 strong couplings is few cells across; plain: none of these; asked:
                                                 the caller set preconditioner, coarsening and deflation */
#define RRB_INFO_DEFLATION              1302  /* deflation in use */
#define RRB_INFO_COARSENING             1303  /* coarsening in use; auto: no multigrid */
#define RRB_INFO_COARSE_SOLVER          1304  /* coarse solver in use; auto: no deflation */
#define RRB_INFO_DEFLATION_VECTORS      1305  /* number of deflation vectors in use */
#define RRB_INFO_REGIONS                1306  /* number of deflation regions, including regions without a vector */
#define RRB_INFO_STRONG_COMPONENTS      1307  /* number of components of at least two cells that are joined by strong
                                                 couplings */
#define RRB_INFO_NEUMANN_ROW_SUM        1308  /* largest row sum of |L D^-1|, with preconditioner=neumann; below 1:
                                                 the series converges for any order */
#define RRB_INFO_SECONDS_DEFLATION      1309  /* part of seconds_setup for deflation regions, the coarse matrix and
                                                 its factorization */
#define RRB_INFO_SECONDS_COARSE         1310  /* part of seconds_solve for systems with the coarse matrix */
#define RRB_INFO_SECONDS_ITERATIONS     1311  /* part of seconds_solve for CG iterations */
#define RRB_INFO_ROWS                   1400  /* number of rows of the matrix */
#define RRB_INFO_COLS                   1401  /* number of columns of the matrix */
#define RRB_INFO_NONZEROS               1402  /* number of entries of the matrix, including explicit zeros */
#define RRB_INFO_STORED                 1403  /* number of values that the format in use stores, including padding; 0
                                                 before the first product */
#define RRB_INFO_FORMAT                 1404  /* format in use; auto before the first product */
#define RRB_INFO_SOLVER                 1405  /* method in use; after a solve, the method with which it ended; auto
                                                 before the first factorize */
#define RRB_INFO_SYMMETRIC              1407  /* 1: the matrix is symmetric, |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|)
                                                 for all entries (if a_ii a_jj = 0, the limit is 1e-12 times the
                                                 largest entry of row i); 0: it is not symmetric */
#define RRB_INFO_DOMINANCE              1408  /* diagonal dominance by rows */
#define RRB_INFO_ZERO_DIAGONALS         1409  /* number of rows whose diagonal entry is zero or missing */
#define RRB_INFO_EMPTY_ROWS             1410  /* number of rows without entries */
#define RRB_INFO_DUPLICATES             1411  /* number of entries that were added to an earlier entry with the same
                                                 row and column */
#define RRB_INFO_COLOURS                1412  /* number of colours with ordering=multicolour */
#define RRB_INFO_SWEEP_LEVELS           1413  /* number of levels of independent groups of rows in a sweep or a
                                                 triangular solve; 1 with one thread */
#define RRB_INFO_SHIFT                  1414  /* shift of ic0 in use */
#define RRB_INFO_BYTES_PER_NONZERO      1415  /* bytes that a product moves per entry of the matrix, including x and
                                                 y; 0 before the first product */
#define RRB_INFO_LONGEST_ROW            1416  /* number of entries of the longest row */
#define RRB_INFO_FILE_RHS               1417  /* number of right-hand sides in the file of the matrix */
#define RRB_INFO_TRIANGLE               1418  /* triangles with off-diagonal entries; lower or upper may mean that
                                                 only half of a symmetric matrix was passed, although both halves are
                                                 needed */

/* Choices: values of options and results. */
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
#define RRB_VECTOR_RHS          0  /* which of sparse_get_vector */
#define RRB_VECTOR_GUESS        1  /* which of sparse_get_vector */
#define RRB_VECTOR_SOLUTION     2  /* which of sparse_get_vector */
#define RRB_FILE_MTX            0  /* file_format of sparse_write */
#define RRB_FILE_HB             1  /* file_format of sparse_write */
#define RRB_FILE_RB             2  /* file_format of sparse_write */

/**
 * A solver for 3D 7-point systems: options, deflation regions, factorization and workspace. Only one thread at a time
 * may use a handle.
 */
typedef struct dpcg_handle dpcg_handle;

/**
 * A solver for 2D 5-point and 9-point systems: options, factorization and workspace. Only one thread at a time may use
 * a handle.
 */
typedef struct rrb_handle rrb_handle;

/**
 * A block smoother: stencil, block size, patches, block inverses and options. Only one thread at a time may use a
 * handle.
 */
typedef struct smoother_handle smoother_handle;

/**
 * A sparse matrix with its options, storage format, factorization and workspace. Only one thread at a time may use a
 * handle.
 */
typedef struct sparse_handle sparse_handle;

/**
 * Status of a call: 0 for success, positive for success with a caveat, negative for failure.
 */
typedef int32_t rrb_status;

/**
 * Log callback: receives one line without a newline.
 *
 * `level` is 0 for a warning, 1 for a line about a solve, and 2 for a line about an iteration. `message` is valid
 * during the call only.
 */
typedef void (*rrb_log_fn)(void *user, int32_t level, const char *message);

/**
 * A message to another rank and a message from the same rank. Either may be empty.
 */
typedef struct {
    /**
     * The other rank.
     */
    int32_t peer;
    /**
     * Tag, equal on both sides. An exchange has one message in each direction per peer and tag.
     */
    int32_t tag;
    /**
     * Bytes to send; 0: none.
     */
    int64_t send_bytes;
    /**
     * Bytes to receive; 0: none.
     */
    int64_t receive_bytes;
    /**
     * Values to send.
     */
    const void *send;
    /**
     * Buffer for the received values.
     */
    void *receive;
} rrbsolver_message;

/**
 * Functions that send messages between the ranks of a domain, for `rrb_create_distributed`.
 *
 * `exchange`, `allreduce` and `allgather` create a plan: a communication that can be repeated on the same buffers.
 * `start` starts a plan, `test` checks whether it is complete, and `release` frees it. `test` and `release` must not
 * wait. A plan may be released before it is complete.
 *
 * - All functions return 0 for success and another number for failure.
 * - All ranks start the plans of `allreduce` and `allgather` in the same order. Ranks may create a plan at different
 *   times, so creating a plan must not wait for other ranks.
 * - Only the thread that called the library calls these functions.
 * - The library copies the table. `context` must remain valid until all handles that use it are destroyed.
 */
typedef struct {
    /**
     * `sizeof(rrbsolver_comm)`.
     */
    int64_t struct_size;
    /**
     * First argument of all functions.
     */
    void *context;
    /**
     * Number of this rank, from 0.
     */
    int32_t rank;
    /**
     * Number of ranks.
     */
    int32_t size;
    /**
     * Must be 0. Reserved for later versions: 1: device pointers are accepted; 2: `start` enqueues on the stream.
     */
    int32_t flags;
    /**
     * Must be 0.
     */
    int32_t reserved;
    /**
     * Creates a plan for `count` messages. The list `messages` is read in this call only; the buffers are used in each
     * start.
     */
    int32_t (*exchange)(void *context, int64_t count, const rrbsolver_message *messages, void **plan);
    /**
     * Creates a plan that reduces `count` doubles over all ranks, in place and in any order. `operation`: 0 sum, 1
     * maximum, 2 minimum.
     */
    int32_t (*allreduce)(void *context, int64_t count, double *values, int32_t operation, void **plan);
    /**
     * Creates a plan that gathers `bytes[rank]` bytes of each rank into `receive`, in the order of the ranks. The list
     * `bytes` is read in this call only.
     */
    int32_t (*allgather)(void *context, const void *send, void *receive, const int64_t *bytes, void **plan);
    /**
     * Starts a plan. `cuda_stream` is NULL for host memory.
     */
    int32_t (*start)(void *context, void *plan, void *cuda_stream);
    /**
     * Sets `done` to 1 if the plan is complete, else to 0.
     */
    int32_t (*test)(void *context, void *plan, int32_t *done);
    /**
     * Frees a plan.
     */
    int32_t (*release)(void *context, void *plan);
} rrbsolver_comm;

/**
 * Ghost function: fills the ghost cells that no patch covers, before each sweep.
 *
 * `sweep` is the number of the sweep, counted from 0; it is -1 before a residual is computed. `u` contains the
 * pointers to the arrays of all patches. A nonzero return value stops the call.
 */
typedef int32_t (*smoother_ghost_fn)(void *user, int32_t sweep, double *const *u);

/**
 * Monitor: called before the first iteration with iteration 0, and after each iteration.
 *
 * `relative_residual` is the residual of the stopping test, relative to its reference. A nonzero return value stops
 * the solve.
 */
typedef int32_t (*rrb_monitor_fn)(void *user, int64_t iteration, double relative_residual);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Creates a solver for symmetric matrices with a 7-point stencil on nx x ny x nz cells.
 *
 * The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides them. `dpcg_factorize`
 * allocates the memory for the matrix. `dpcg_destroy` frees the handle.
 *
 * Parameters:
 * - `nx`, `ny`, `nz` (in): cells in x, y and z; each at least 1, and nx * ny * nz at most 2^32 - 1.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL.
 * - `RRB_ERR_DIMENSION`: an extent is below 1, or nx * ny * nz is above 2^32 - 1.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * Notes:
 * - One process solves the whole system: `dpcg_` does not run over MPI ranks. Gather a distributed matrix on one rank.
 * - Periodic boundaries are not supported: couplings beyond the last cell in a direction are ignored.
 *
 * Required:
 * `out` must be NULL or point to a pointer.
 */
rrb_status dpcg_create(int64_t nx, int64_t ny, int64_t nz, dpcg_handle **out);

/**
 * Sets the deflation regions of `deflation=levelset` and `levelset_subdomain`, one label per cell.
 *
 * Cells with the same label form one region, such as one bubble. Each region has one deflation vector. The labels are
 * copied; they act at the next `dpcg_factorize`. Until then `dpcg_solve` returns `RRB_ERR_STATE`. Without labels,
 * `dpcg_factorize` determines the regions from the strong couplings of the matrix.
 *
 * Parameters:
 * - `h` (in/out): handle from `dpcg_create`.
 * - `labels` (in): label of each cell, in the layout of the other arrays, always in host memory. A label is the number
 *   of a region, from 0; -1 marks a cell outside all regions. NULL removes the regions.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_ARGUMENT`: a label is below -1; or `labels` is not 4-byte aligned or resides on a device.
 * - `RRB_ERR_DIMENSION`: the leading dimensions make the length of the array overflow.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation of the copy failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `labels`.
 *
 * After an error the regions are unchanged.
 *
 * Notes:
 * - Labels need not be consecutive. A region that extends over several connected components of the matrix is split.
 * - Padding is not read.
 * - If there are more than 65,535 regions, `dpcg_factorize` returns `RRB_ERR_ARGUMENT`. With `deflation=none` or
 *   `subdomain` it ignores the labels.
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`; `labels` must be NULL or have the size named.
 */
rrb_status dpcg_set_regions(dpcg_handle *h, const int32_t *labels);

/**
 * Copies the coefficients of A; computes the preconditioner M, the deflation vectors Z and E = Z^T A Z.
 *
 * The sign convention is that of -div(k grad x): `center` is positive, and couplings are normally negative. For a
 * Neumann problem, the center is minus the sum of the six couplings of the cell. A second call replaces the matrix and
 * reuses memory. After an error the handle holds no matrix.
 *
 * Parameters:
 * - `h` (in/out): handle from `dpcg_create`.
 * - `center` (in): diagonal entry of (i, j, k); positive.
 * - `east` (in): matrix entry between (i, j, k) and (i + 1, j, k).
 * - `north` (in): matrix entry between (i, j, k) and (i, j + 1, k).
 * - `top` (in): matrix entry between (i, j, k) and (i, j, k + 1).
 *
 * Each array has (nz - 1) * lp + (ny - 1) * ld + nx values, in host or device memory. Entry (i, j, k) is `a[k*lp +
 * j*ld + i]`. Unless `leading_dimension` and `leading_plane` are set, ld = nx and lp = ny * ld.
 *
 * All four arrays are required, also for nz = 1. Padding is not read.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that `memory` specifies.
 * - `RRB_ERR_ARGUMENT`: `subdomains_x`, `_y` or `_z` is above the number of cells; or there are more than 65,535
 *   deflation regions.
 * - `RRB_ERR_ARGUMENT`: with `check_input=2`, a coupling to a cell outside the grid is not zero.
 * - `RRB_ERR_DIMENSION`: the length of the arrays overflows; or, on a device, the grid has more than 2^31 cells in
 *   total, or 2^31 in one direction.
 * - `RRB_ERR_MATRIX`: a center is not positive, or below the smallest normal double. If all centers are negative, the
 *   message suggests that the arrays may hold -A and -b.
 * - `RRB_ERR_MATRIX`: a pivot of ic0, of ric, of the coarsest grid or of E is not positive. With `ric_omega=1`, every
 *   singular matrix has such a pivot.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, a coefficient is NaN or infinite.
 * - `RRB_ERR_UNSUPPORTED`: `preconditioner=ic0` or `ric`, or `coarse_solver=cg`, on a device; `amg` with
 *   `backend=reference`; `amg` on too many cells for 32-bit indices.
 * - `RRB_ERR_UNSUPPORTED`: `null_space=constant` with row sums that are not zero; `memory=device` on the CPU;
 *   `backend=cuda` in a build without kernels; or the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
 * - `RRB_ERR_NO_DEVICE`: with `backend=cuda`, there is no driver or device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * - Positive couplings are accepted. Couplings with the wrong sign therefore cause no error, but x is wrong.
 * - Couplings to cells outside the grid are ignored. If one of them is neither zero nor NaN, the log reports it once
 *   per handle.
 * - A solid cell is a row with zero couplings and a positive center.
 * - The system of a closed box is singular. The option `null_space` selects how singular components are detected.
 * - The choices of `auto` depend on the matrix only. `RRB_INFO_PRECONDITIONER`, `RRB_INFO_DEFLATION`,
 *   `RRB_INFO_COARSENING`, `RRB_INFO_COARSE_SOLVER` and `RRB_INFO_AUTO_REASON` report the choice.
 * - Sources: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370 (deflated CG); van der Vorst, SIAM J.
 *   Sci. Stat. Comput. 3 (1982), 350-356 (Neumann series).
 * - Sources: Dendy, J. Comput. Phys. 48 (1982), 366-386 (multigrid); Napov and Notay, SIAM J. Sci. Comput. 34 (2012),
 *   A1079-A1109 (amg).
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`; the arrays must be NULL or have the size named.
 */
rrb_status dpcg_factorize(dpcg_handle *h,
                          const double *center,
                          const double *east,
                          const double *north,
                          const double *top);

/**
 * Solves A x = b by deflated preconditioned conjugate gradients.
 *
 * The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol), where A is the caller's matrix, not the
 * deflated one. The residual is recomputed from x before convergence is reported. For b = 0 the result is x = 0. An
 * initial guess that satisfies the test is returned after 0 iterations.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `dpcg_factorize`.
 * - `b` (in): right-hand side, with the sign of -div(k grad x) = b.
 * - `x` (in/out): initial guess on entry, solution on return; must not overlap `b`.
 *
 * Both arrays have the layout of `dpcg_factorize`, on the host or on the device of the handle.
 *
 * Returns:
 * - `RRB_OK`: the solve has converged.
 * - `RRB_NOT_CONVERGED`: `max_iter` is reached, or the iteration stagnated; `x` is the last iterate or a better one.
 * - `RRB_STOPPED`: the monitor stopped the solve; `x` is the current iterate.
 *
 * For the last two, the message of `rrbsolver_last_error` contains the iterations, the residual, the tolerance and the
 * stop reason. `RRB_INFO_ITERATIONS`, `RRB_INFO_STOP_REASON` and `RRB_INFO_FINAL_RESIDUAL` return these as numbers.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `b` or `x` is NULL.
 * - `RRB_ERR_ARGUMENT`: `b` and `x` overlap; an array is not 8-byte aligned, or is not in the memory space that
 *   `memory` specifies.
 * - `RRB_ERR_ARGUMENT`: max abs(x) of the guess is above 1e150 * max abs(b) / max abs(diagonal of A).
 * - `RRB_ERR_DIMENSION`: the length of the arrays overflows.
 * - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
 *   at factorize.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` on the CPU, or the handle was created before a fork.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `b` or `x` has a NaN or infinity; or the solution is too large for a
 *   double.
 * - `RRB_ERR_RANGE`: the solution is too small for a double.
 * - `RRB_ERR_BREAKDOWN`: A or M is indefinite, or the iteration overflowed.
 * - `RRB_ERR_INCOMPATIBLE`: with `check_compatibility=1`, `b` does not sum to zero over a singular component.
 * - `RRB_ERR_MEMORY`: allocation of transfer buffers failed (on a device only).
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * After an error `x` is unchanged.
 *
 * Notes:
 * - On a singular component, the mean of b is subtracted, and x has the mean of the initial guess.
 * - `x` and the stopping test are in double precision, regardless of the option `precision`.
 * - On the CPU the call allocates no memory and starts no thread. On a device, the first solve with pageable host
 *   arrays allocates page-locked buffers and starts threads that fill them.
 * - Source: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370.
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`; the arrays must be NULL or hold (nz - 1) * lp + (ny - 1) * ld + nx
 * values.
 */
rrb_status dpcg_solve(dpcg_handle *h, const double *b, double *x);

/**
 * Computes z = M^-1 r, or z = (P^T M^-1 P + Z E^-1 Z^T) r with deflation, for a Krylov method of the caller.
 *
 * Here P = I - A Z E^-1 Z^T. The operator is fixed, symmetric and positive definite, up to rounding in the selected
 * `precision`. With `coarse_solver=cg` it is so up to `coarse_tol`. With `preconditioner=amg` on the CPU, the operator
 * depends on r; use a flexible method, such as flexible CG.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `dpcg_factorize`.
 * - `r` (in): residual, in the layout of `dpcg_factorize`.
 * - `z` (out): result, in the same layout; must not overlap `r`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `r` or `z` is NULL.
 * - `RRB_ERR_ARGUMENT`: `r` and `z` overlap; an array is not 8-byte aligned, or is not in the memory space that
 *   `memory` specifies.
 * - `RRB_ERR_DIMENSION`: the length of the arrays overflows.
 * - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
 *   at factorize.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` on the CPU, or the handle was created before a fork.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `r` has a NaN or infinity; or `z` is too large for a double.
 * - `RRB_ERR_RANGE`: `z` is too small for a double.
 * - `RRB_ERR_BREAKDOWN`: with `check_input=0`, `r` is not finite.
 * - `RRB_ERR_MEMORY`, `RRB_ERR_DEVICE`: as for `dpcg_solve`.
 *
 * After an error `z` is unchanged.
 *
 * Notes:
 * On singular components, the means of r and z are subtracted. The operator is then positive definite on the
 * complement of the null space.
 *
 * Required:
 * As for `dpcg_solve`.
 */
rrb_status dpcg_apply(dpcg_handle *h, const double *r, double *z);

/**
 * Computes y = A x with the matrix of the last `dpcg_factorize`, without deflation.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `dpcg_factorize`.
 * - `x` (in): vector to multiply, in the layout of `dpcg_factorize`.
 * - `y` (out): product, in the same layout; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `x` or `y` is NULL.
 * - `RRB_ERR_ARGUMENT`: `x` and `y` overlap; an array is not 8-byte aligned, or is not in the memory space that
 *   `memory` specifies.
 * - `RRB_ERR_DIMENSION`: the length of the arrays overflows.
 * - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
 *   at factorize.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` on the CPU, or the handle was created before a fork.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `x` has a NaN or infinity; or `y` is too large for a double.
 * - `RRB_ERR_MEMORY`, `RRB_ERR_DEVICE`: as for `dpcg_solve`.
 *
 * After an error `y` is unchanged.
 *
 * Required:
 * As for `dpcg_solve`.
 */
rrb_status dpcg_multiply(dpcg_handle *h, const double *x, double *y);

/**
 * Solves A x = b in one call: creates a handle, factorizes, solves and frees it.
 *
 * The function replaces a call to an ICCG routine. If you solve repeatedly on the same grid, use a handle: it reuses
 * memory, threads and the factorization.
 *
 * Parameters:
 * - `nx`, `ny`, `nz` (in): cells in x, y and z, as for `dpcg_create`.
 * - `center`, `east`, `north`, `top` (in): coefficients, as for `dpcg_factorize`, without padding: entry (i, j, k) is
 *   `a[(k * ny + j) * nx + i]`.
 * - `b` (in): right-hand side, without padding.
 * - `x` (in/out): initial guess on entry, solution on return; without padding; must not overlap another array.
 * - `rel_tol` (in): relative tolerance in (0, 1): the solve stops when norm(b - A x) <= rel_tol * norm(b).
 * - `max_iter` (in): largest number of iterations, in [0, 2147483647].
 * - `iterations` (out): number of iterations; unchanged after an error. May be NULL.
 *
 * Returns:
 * `RRB_OK` or `RRB_NOT_CONVERGED`, as for `dpcg_solve`.
 *
 * Errors:
 * - `RRB_ERR_ARGUMENT`: `rel_tol` or `max_iter` is out of range, or `x` overlaps another array.
 * - all errors of `dpcg_create`, `dpcg_factorize` and `dpcg_solve`, except `RRB_ERR_STATE`.
 *
 * After an error `x` is unchanged.
 *
 * Notes:
 * The environment variable `RRBSOLVER_OPTIONS` overrides `rel_tol` and `max_iter`, and the defaults of all other
 * options.
 *
 * Required:
 * As for `dpcg_factorize` and `dpcg_solve`; `iterations` must be NULL or point to an `int64_t`.
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
 * Text with NUL at its end. It is valid until the program ends.
 *
 * Errors:
 * None.
 *
 * Notes:
 * `RRBSOLVER_VERSION_MAJOR`, `_MINOR` and `_PATCH` are the version of the header at compile time.
 */
const char *rrbsolver_version(void);

/**
 * Returns the meaning of a status in a few words.
 *
 * Parameters:
 * - `status` (in): any number; if it is not a status, the function returns "unknown status".
 *
 * Returns:
 * Text with NUL at its end. It is valid until the program ends.
 *
 * Errors:
 * None.
 *
 * Notes:
 * `rrbsolver_last_error` returns the details of the last call: names, values and the allowed range, or the stop
 * reason.
 */
const char *rrbsolver_status_string(rrb_status status);

/**
 * Copies the message of the last call of this thread that did not return `RRB_OK`.
 *
 * An error message names the argument, its value and the allowed range. Indices in messages count from 0. After
 * `RRB_NOT_CONVERGED` or `RRB_STOPPED`, the message contains the iterations, the residual, the tolerance and the stop
 * reason.
 *
 * Parameters:
 * - `buffer` (out): receives at most `capacity` bytes, including NUL at the end; may be NULL if `capacity` is 0.
 * - `capacity` (in): size of `buffer` in bytes.
 *
 * Returns:
 * The number of bytes of the complete message, NUL included; 1 if there is no message.
 *
 * Errors:
 * None.
 *
 * Notes:
 * A successful call does not clear the message. Test the status first.
 *
 * Required:
 * `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error(char *buffer, int64_t capacity);

/**
 * Copies the same message as `rrbsolver_last_error`, with indices that count from `index_base`.
 *
 * Parameters:
 * - `index_base` (in): number of the first node in each direction: 0 as in C, 1 as in Fortran.
 * - `buffer` (out): receives at most `capacity` bytes, including NUL at the end; may be NULL if `capacity` is 0.
 * - `capacity` (in): size of `buffer` in bytes.
 *
 * Returns:
 * The number of bytes of the complete message, NUL included; 1 if there is no message.
 *
 * Errors:
 * None.
 *
 * Notes:
 * This function is for bindings of languages in which indices start at 1.
 *
 * Required:
 * `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error_based(int32_t index_base, char *buffer, int64_t capacity);

/**
 * Counts the CUDA devices that the library can use.
 *
 * Parameters:
 * - `count` (out): number of devices; 0 without a driver, and in a build without CUDA kernels.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `count` is NULL.
 *
 * Notes:
 * The first call loads the CUDA driver if there is one. Later calls return the same number.
 *
 * Required:
 * `count` must be NULL or point to an `int32_t`.
 */
rrb_status rrbsolver_cuda_device_count(int32_t *count);

/**
 * Sets or removes the callback that receives the log lines of all handles with `log=callback`.
 *
 * The call waits until no other thread runs the previous callback. When it returns, the previous callback is not
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
 * - The callback may be called from any thread that uses the library, and from several threads at the same time.
 * - The callback may call the library with other handles, but not with the handle that writes the line. Log lines of
 *   these calls are dropped, so the callback is never called recursively on one thread.
 * - The callback must remain valid until it is replaced. If the callback itself calls this function, the call does not
 *   wait.
 * - The option `verbosity` of a handle selects its log lines. Without a callback they are dropped.
 */
rrb_status rrbsolver_set_log(rrb_log_fn callback, void *user);

/**
 * Creates a solver for symmetric matrices with a 5-point or 9-point stencil on nx x ny nodes.
 *
 * The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides them. `rrb_factorize`
 * allocates the memory for the matrix. `rrb_destroy` frees the handle.
 *
 * Parameters:
 * - `nx`, `ny` (in): nodes in x and y; each at least 1, and nx * ny at most 2^32 - 1.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out` is NULL.
 * - `RRB_ERR_DIMENSION`: an extent is below 1, or nx * ny is above 2^32 - 1.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * Required:
 * `out` must be NULL or point to a pointer.
 */
rrb_status rrb_create(int64_t nx, int64_t ny, rrb_handle **out);

/**
 * Copies the coefficients of A and computes the preconditioner M.
 *
 * With `cycle` v, amli or k, M = L D L^T = A - R is the incomplete RRB factorization. With `cycle=aggregation`, M is
 * aggregation-based multigrid. The sign convention is that of -div(k grad u): `center` is positive, and couplings are
 * normally negative.
 *
 * After success, the handle holds the new matrix. After an error, it holds no matrix. A second call with a similar
 * matrix reuses all memory.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create` or `rrb_create_distributed`.
 * - `center` (in): diagonal of A, positive.
 * - `east` (in): entries between (i, j) and (i+1, j).
 * - `north` (in): entries between (i, j) and (i, j+1).
 * - `northeast` (in): entries between (i, j) and (i+1, j+1); NULL with 5 points.
 * - `northwest` (in): entries between (i, j) and (i-1, j+1); NULL with 5 points.
 *
 * Each array holds (ny - 1) * ld + nx values, on the host or on the handle's device. Padding is not read. Couplings to
 * nodes outside the grid are ignored; `check_input` selects whether nonzero ones are logged or are an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or a required array is NULL, or exactly one of `northeast` and `northwest` is NULL.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that `memory` specifies.
 * - `RRB_ERR_ARGUMENT`: `cycle_spacing` is odd, or one recursive cycle would cost more than 100 V-cycles.
 * - `RRB_ERR_ARGUMENT`: with `check_input=2`, a coupling to a node outside the grid is not zero.
 * - `RRB_ERR_DIMENSION`: the leading dimension makes the length of an array overflow.
 * - `RRB_ERR_UNSUPPORTED`: `cycle=k` on a device; `cycle=aggregation` with `precision` bf16 or mixed, or with
 *   `backend=reference`.
 * - `RRB_ERR_UNSUPPORTED`: `null_space=constant`, and a component is regular.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` without a device; `backend=cuda` in a build without kernels; or the handle
 *   was created before a fork.
 * - `RRB_ERR_MATRIX`: a center or a pivot is not positive, or a pivot underflows in the selected `precision`.
 * - `RRB_ERR_NOT_FINITE`: an array holds NaN or infinity (with `check_input`).
 * - `RRB_ERR_MEMORY`: allocation failed, or the exact factor needs more than `coarse_memory`.
 * - `RRB_ERR_NO_DEVICE`: with `backend=cuda`, there is no driver or device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
 *
 * Notes:
 * - The choices of `precision=auto` and `cycle=auto` depend on the matrix; see the rules of auto. `RRB_INFO_PRECISION`
 *   and `RRB_INFO_CYCLE` report them.
 * - Choices that `auto` made after a failed or slow attempt also apply to later matrices, until an option that affects
 *   them changes.
 * - The cost is about 40 flops per node. `cycle=amli` adds 6 to 16 applications of M on coarse grids, which have at
 *   most 1/16 of the nodes.
 * - A second call allocates memory only if it needs another precision or cycle, or if the matrix has more connected
 *   components than before.
 * - With `cycle=aggregation`, the CPU reuses those aggregates of the previous matrix that still pass the quality test.
 * - On a distributed handle the call is collective. A rank with one box passes the arrays of that box.
 * - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, section 2.2.
 *
 * Required:
 * `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`; the arrays must be NULL or have the size
 * named.
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
 * The iteration stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The options `norm` and `reference`
 * define the norm and the reference. `x` and the stopping test are in double precision, regardless of the option
 * `precision`.
 *
 * Parameters:
 * - `h` (in/out): handle with a factorized matrix.
 * - `b` (in): right-hand side; (ny - 1) * ld + nx values, on the host or on the handle's device.
 * - `x` (in/out): initial guess on entry, solution on return; same size as `b`; must not overlap it.
 *
 * Returns:
 * - `RRB_OK`: the solve has converged. With b = 0 (then x = 0), or if the initial guess satisfies the test, it ends
 *   after 0 iterations.
 * - `RRB_NOT_CONVERGED`: the iteration limit is reached, or the iteration stagnated; x is the last iterate or a better
 *   one. `RRB_INFO_STOP_REASON` reports the reason.
 * - `RRB_STOPPED`: the monitor stopped the solve; x is the current iterate.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: the arrays overlap, an array is not 8-byte aligned, or it is not in the memory space that
 *   `memory` specifies.
 * - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts at factorize has changed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_ARGUMENT`: max abs(x) of the guess is above 1e150 * max abs(b) / max abs(center).
 * - `RRB_ERR_NOT_FINITE`: b or x holds NaN or infinity, or the solution is too large for a double.
 * - `RRB_ERR_RANGE`: the solution is so small that it would underflow.
 * - `RRB_ERR_BREAKDOWN`: the matrix or the preconditioner is indefinite, or the iteration overflowed.
 * - `RRB_ERR_INCOMPATIBLE`: with `check_compatibility=1`, b has a component in the null space.
 * - `RRB_ERR_MEMORY`: allocation failed on a device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
 *
 * After an error x is unchanged, except after `RRB_ERR_DEVICE`.
 *
 * Notes:
 * - On a singular component, the mean of b is subtracted, and x has the mean of the initial guess.
 * - With `precision` f32, bf16 or mixed, an initial guess with max |x| > 1e15 max |b| / max center is replaced with
 *   zero.
 * - If the cycle that `cycle=auto` selected is indefinite, this solve and later ones use v, until the next
 *   `rrb_factorize`.
 * - With `cycle=auto`, a slow solve may switch to aggregation, which allocates memory; see the rules of auto.
 *   `switch_memory` limits this memory. `switch_memory=0` prevents the switch.
 * - With an explicit `cycle` or `switch_memory=0`, a solve on the CPU allocates no memory and starts no thread.
 * - On a distributed handle with `precision=auto`, a solve that stagnates with mixed factorizes again with bf16 and
 *   continues.
 * - On a device, the first call with pageable host arrays allocates page-locked buffers and starts threads.
 * - With five points and fused stages, an iteration reads and writes 48 to 122 bytes of memory per unknown, depending
 *   on `cycle` and `precision`.
 * - On a distributed handle the call is collective.
 * - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, algorithms 1 and 3.
 *
 * Required:
 * `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`; the arrays must be NULL or hold the values
 * named.
 */
rrb_status rrb_solve(rrb_handle *h,
                     const double *b,
                     double *x);

/**
 * Computes z = M^-1 r with the preconditioner M.
 *
 * M is symmetric and positive definite. On singular components, the means of r and z are subtracted; M^-1 is then
 * positive definite on the complement of the null space.
 *
 * Parameters:
 * - `h` (in/out): handle with a factorized matrix.
 * - `r` (in): (ny - 1) * ld + nx values, on the host or on the handle's device.
 * - `z` (out): same size as `r`; must not overlap it.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: the arrays overlap, an array is not 8-byte aligned, or it is not in the memory space that
 *   `memory` specifies.
 * - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts at factorize has changed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_NOT_FINITE`: r holds NaN or infinity, or z is too large for a double.
 * - `RRB_ERR_RANGE`: z is so small that it would underflow.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
 *
 * After an error z is unchanged.
 *
 * Notes:
 * - With `cycle` v, amli or aggregation, M is a fixed matrix up to rounding. With `cycle=k`, z is not a linear
 *   function of r: use a flexible Krylov method.
 * - With `precision=f64` the result has double precision, else single precision.
 * - On a distributed handle the call is collective.
 *
 * Required:
 * As for `rrb_solve`.
 */
rrb_status rrb_apply(rrb_handle *h, const double *r, double *z);

/**
 * Computes y = A x with the factorized matrix.
 *
 * Parameters:
 * - `h` (in/out): handle with a factorized matrix.
 * - `x` (in): (ny - 1) * ld + nx values, on the host or on the handle's device.
 * - `y` (out): same size as `x`; must not overlap it.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or an array is NULL.
 * - `RRB_ERR_ARGUMENT`: the arrays overlap, an array is not 8-byte aligned, or it is not in the memory space that
 *   `memory` specifies.
 * - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts at factorize has changed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_NOT_FINITE`: x holds NaN or infinity (with `check_input`), or y is too large for a double.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
 *
 * After an error y is unchanged.
 *
 * Notes:
 * - The product is computed in double precision, regardless of the option `precision`.
 * - On a distributed handle the call is collective.
 *
 * Required:
 * As for `rrb_solve`.
 */
rrb_status rrb_multiply(rrb_handle *h, const double *x, double *y);

/**
 * Solves one system A x = b without a handle.
 *
 * The function replaces a call to an ICCG routine. It creates a handle, factorizes, solves and frees the handle. If
 * you solve repeatedly on the same grid, use a handle: it reuses memory and the factorization.
 *
 * Parameters:
 * - `nx`, `ny` (in): nodes in x and y, as for `rrb_create`.
 * - `center`, `east`, `north` (in): coefficients, as for `rrb_factorize`, with ld = nx.
 * - `northeast`, `northwest` (in): the same for 9 points; NULL with 5 points.
 * - `b` (in): right-hand side, nx * ny values.
 * - `x` (in/out): initial guess on entry, solution on return; must not overlap another array.
 * - `rel_tol` (in): tolerance relative to ||b||_2, in (0, 1).
 * - `max_iter` (in): iteration limit, at least 0.
 * - `iterations` (out): number of iterations; may be NULL.
 *
 * Returns:
 * `RRB_OK`, `RRB_NOT_CONVERGED` or `RRB_STOPPED`, as `rrb_solve`.
 *
 * Errors:
 * - all errors of `rrb_create`, `rrb_factorize` and `rrb_solve`.
 * - `RRB_ERR_ARGUMENT`: also if `rel_tol` or `max_iter` is out of range.
 *
 * After an error x is unchanged.
 *
 * Notes:
 * The environment variable `RRBSOLVER_OPTIONS` overrides `rel_tol` and `max_iter`, and the defaults of all other
 * options.
 *
 * Required:
 * As for `rrb_factorize` and `rrb_solve`; `iterations` must be NULL or point to an `int64_t`.
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
 * Each rank owns zero, one or several boxes of nodes. Boxes must not overlap. Nodes outside all boxes are land;
 * couplings to them are ignored. With MPI, `rrbsolver_mpi_comm` fills `comm`; see the guide to MPI.
 *
 * Parameters:
 * - `nx`, `ny` (in): nodes of the whole domain, the same on all ranks; limits as for `rrb_create`.
 * - `count` (in): number of boxes of this rank, at least 0.
 * - `lower` (in): for each box the indices of its first node in x and y, counted from 0; NULL if `count` is 0.
 * - `size` (in): for each box the number of nodes in x and y, at least 1; NULL if `count` is 0.
 * - `comm` (in): functions that send messages between the ranks; the table is copied.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`, on all ranks.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out`, `comm`, a function of `comm`, `lower` or `size` is NULL.
 * - `RRB_ERR_DIMENSION`: an extent is below 1, or nx * ny is above 2^32 - 1.
 * - `RRB_ERR_ARGUMENT`: a box extends beyond the domain, boxes overlap, no rank has a box, or `nx` or `ny` differs
 *   between ranks.
 * - `RRB_ERR_ARGUMENT`: `comm` has a wrong size, rank or flag, or `count` is negative.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_COMMUNICATION`: a rank is missing for longer than `comm_timeout`, or a function of `comm` failed.
 *
 * Notes:
 * - This call is collective: all ranks must make it. Factorize, solve, apply and multiply with the handle are
 *   collective, too. All ranks must make these calls in the same order with the same options.
 * - Only these options may differ between ranks: threads, verbosity, log, leading_dimension, memory, device,
 *   comm_timeout.
 * - All ranks return the same status. If one rank fails, the messages on the other ranks begin with the number of that
 *   rank. A rank with an incomplete `comm` cannot notify the others.
 * - After `RRB_ERR_COMMUNICATION`, a handle can only be destroyed.
 * - A rank with one box calls `rrb_factorize`, `rrb_solve`, `rrb_apply` and `rrb_multiply` with the arrays of its box.
 *   A rank without a box calls them with NULL. A rank with several boxes calls the functions that end with `_boxes`.
 * - The rank that owns node (i, j) passes `east[i, j]`, also if (i + 1, j) is in another box. Here i and j are indices
 *   in the whole domain.
 * - With `reproducible=1`, results are bitwise identical for all boxes, numbers of ranks and numbers of threads.
 * - `cycle=auto` chooses v or amli, never aggregation.
 * - With `backend=cuda`, rank 0 solves on the devices of the option `device` or `devices`. The data of the other ranks
 *   is transferred to rank 0, and the results back.
 * - `context` of `comm` must remain valid until the handle is destroyed.
 *
 * Required:
 * `out` must be NULL or point to a pointer; `lower` and `size` must be NULL or hold `count` pairs; `comm` must be NULL
 * or point to a table whose functions do what `rrbsolver_comm` says.
 */
rrb_status rrb_create_distributed(int64_t nx,
                                  int64_t ny,
                                  int64_t count,
                                  const int64_t (*lower)[2],
                                  const int64_t (*size)[2],
                                  const rrbsolver_comm *comm,
                                  rrb_handle **out);

/**
 * Copies the coefficients like `rrb_factorize`, with one array per box of this rank, and computes M.
 *
 * The call is collective. Each list has one entry per box of this rank, in the order of `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box the distance between rows, in values; NULL: arrays without padding.
 * - `center`, `east`, `north` (in): lists of arrays, as for `rrb_factorize`.
 * - `northeast`, `northwest` (in): lists of arrays for 9 points; NULL on all ranks for 5 points.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - all errors of `rrb_factorize`.
 * - `RRB_ERR_NULL`: also if a list is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: also if a leading dimension is below the number of nodes in a row, or options or calls differ
 *   between ranks.
 * - `RRB_ERR_STATE`: also if the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is its leading dimension. An output
 * array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of this family; lists must be NULL or have a value for each box, and arrays those of
 * their boxes.
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
 * The call is collective. Each list has one entry per box of this rank, in the order of `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box the distance between rows, in values; NULL: arrays without padding.
 * - `b` (in): list of arrays with the right-hand side.
 * - `x` (in/out): list of arrays; initial guess on entry, solution on return.
 *
 * Returns:
 * `RRB_OK`, `RRB_NOT_CONVERGED` or `RRB_STOPPED`, as `rrb_solve`, on all ranks.
 *
 * Errors:
 * - all errors of `rrb_solve`.
 * - `RRB_ERR_NULL`: also if a list is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: also if a leading dimension is below the number of nodes in a row, or options or calls differ
 *   between ranks.
 * - `RRB_ERR_STATE`: also if the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is its leading dimension. An output
 * array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of this family; lists must be NULL or have a value for each box, and arrays those of
 * their boxes.
 */
rrb_status rrb_solve_boxes(rrb_handle *h, const int64_t *leading_dimensions, const double *const *b, double *const *x);

/**
 * Computes z = M^-1 r like `rrb_apply`, with one array per box of this rank.
 *
 * The call is collective. Each list has one entry per box of this rank, in the order of `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box the distance between rows, in values; NULL: arrays without padding.
 * - `r` (in): list of arrays.
 * - `z` (out): list of arrays.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - all errors of `rrb_apply`.
 * - `RRB_ERR_NULL`: also if a list is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: also if a leading dimension is below the number of nodes in a row, or options or calls differ
 *   between ranks.
 * - `RRB_ERR_STATE`: also if the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is its leading dimension. An output
 * array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of this family; lists must be NULL or have a value for each box, and arrays those of
 * their boxes.
 */
rrb_status rrb_apply_boxes(rrb_handle *h, const int64_t *leading_dimensions, const double *const *r, double *const *z);

/**
 * Computes y = A x like `rrb_multiply`, with one array per box of this rank.
 *
 * The call is collective. Each list has one entry per box of this rank, in the order of `rrb_create_distributed`.
 *
 * Parameters:
 * - `h` (in/out): handle from `rrb_create_distributed`.
 * - `leading_dimensions` (in): for each box the distance between rows, in values; NULL: arrays without padding.
 * - `x` (in): list of arrays.
 * - `y` (out): list of arrays.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - all errors of `rrb_multiply`.
 * - `RRB_ERR_NULL`: also if a list is NULL on a rank with boxes.
 * - `RRB_ERR_ARGUMENT`: also if a leading dimension is below the number of nodes in a row, or options or calls differ
 *   between ranks.
 * - `RRB_ERR_STATE`: also if the handle comes from `rrb_create`, or the ranks make different calls.
 * - `RRB_ERR_COMMUNICATION`: another rank is missing or late.
 *
 * Notes:
 * The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is its leading dimension. An output
 * array must not overlap another array.
 *
 * Required:
 * `h` must be NULL or a handle of this family; lists must be NULL or have a value for each box, and arrays those of
 * their boxes.
 */
rrb_status rrb_multiply_boxes(rrb_handle *h,
                              const int64_t *leading_dimensions,
                              const double *const *x,
                              double *const *y);

/**
 * Creates a block smoother for a constant stencil and blocks of bx x by x bz cells.
 *
 * The operator is (A u)[c] = sum over k of stencil[k] u[c + offset[k]], with the same stencil in every cell. The
 * stencil is copied. `smoother_set_patches` computes the inverses of the blocks.
 *
 * Parameters:
 * - `stencil_points` (in): 7 or 27.
 * - `stencil` (in): `stencil_points` finite values. With 7 points: center, west, east, south, north, bottom, top. With
 *   27 points: the 3 x 3 x 3 cube, x fastest, with the center at index 13.
 * - `bx`, `by`, `bz` (in): number of cells of a block in x, y and z, each in [1, 8].
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `stencil` or `out` is NULL.
 * - `RRB_ERR_ARGUMENT`: `stencil_points` is not 7 or 27; a block side is above 8; or `stencil` is not 8-byte aligned.
 * - `RRB_ERR_DIMENSION`: a block side is below 1.
 * - `RRB_ERR_NOT_FINITE`: a value of the stencil is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * Notes:
 * - The stencil may be nonsymmetric, and its center may be positive or negative. If a block is singular,
 *   `smoother_set_patches` returns an error.
 * - A handle does not extend over MPI ranks. Each rank may have its own handle; the ghost function then copies ghost
 *   cells from other ranks.
 *
 * Required:
 * `stencil` must be NULL or hold `stencil_points` values; `out` must be NULL or point to a pointer.
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
 * Patch p covers the cells lower[p] .. lower[p] + size[p] - 1 of a global index space. Blocks end where the global
 * index is a multiple of the block size, and at the edges of patches.
 *
 * The call also determines which ghost cells are covered by which patch. Inverses of a previous call are reused, so a
 * call after regridding is cheap.
 *
 * Parameters:
 * - `h` (in/out): handle from `smoother_create`.
 * - `count` (in): number of patches; 0 is allowed.
 * - `lower` (in): for each patch the indices (i, j, k) of its first cell, in [-2^60, 2^60]; may be NULL if `count` is
 *   0.
 * - `size` (in): for each patch the number of cells in x, y and z, at least 1; may be NULL if `count` is 0.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `lower` or `size` is NULL.
 * - `RRB_ERR_ARGUMENT`: two patches overlap; or `lower` or `size` is not 8-byte aligned.
 * - `RRB_ERR_DIMENSION`: `count` is below 0; a size is below 1; or an index, a size or the number of cells is too
 *   large (on a device: does not fit 32 bits).
 * - `RRB_ERR_MATRIX`: a block is singular, or its inverse is too large for a double. The message names the cell.
 * - `RRB_ERR_UNSUPPORTED`: `block_solver=fast_diagonalization`, and sine transforms do not apply to the stencil or
 *   would lose more than 4 digits.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` without `backend=cuda`; `backend=cuda` in a build without kernels; or the
 *   handle was created before a fork.
 * - `RRB_ERR_NO_DEVICE`: with `backend=cuda`, there is no driver or device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 * - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
 *
 * After an error the handle has no patches.
 *
 * Notes:
 * - The arrays of `smoother_upload` are freed.
 * - With dense inverses, the cost is 2 n^3 flops for each block shape of n cells. With sine transforms, the cost is
 *   negligible.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `lower` and `size` must be NULL or hold `count` triples.
 */
rrb_status smoother_set_patches(smoother_handle *h,
                                int64_t count,
                                const int64_t (*lower)[3],
                                const int64_t (*size)[3]);

/**
 * Performs `sweeps` sweeps of block relaxation on all patches: u_b = u_b + omega A_b^-1 (f - A u)_b for each block b.
 *
 * The option `method` selects coloured Gauss-Seidel, block Jacobi or chaotic Gauss-Seidel. Before each sweep, ghost
 * cells that another patch covers are copied from that patch, and the ghost function fills the others. After the call,
 * ghost cells hold the values that the last sweep read.
 *
 * Parameters:
 * - `h` (in/out): handle with patches.
 * - `u` (in/out): table of one pointer per patch, to (nx + 2) * (ny + 2) * (nz + 2) values, x fastest; they include
 *   one layer of ghost cells around the patch.
 * - `f` (in): table of one pointer per patch, to nx * ny * nz values, x fastest.
 * - `sweeps` (in): number of sweeps, at least 0. With 0, the call only checks the input and calls the monitor once.
 *
 * Both tables may be NULL: the call then works on the arrays of `smoother_upload`.
 *
 * Returns:
 * `RRB_OK`, or `RRB_STOPPED` if the ghost function or the monitor stopped the call. After `RRB_STOPPED`, u is the
 * current iterate.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, one of the tables, or a pointer in a table is NULL.
 * - `RRB_ERR_ARGUMENT`: `sweeps` is below 0; an array of `u` overlaps another array; or an array or table is not
 *   8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: with `backend=cuda`, the arrays are neither all on the host nor all on the device of the
 *   handle.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there; or
 *   both tables are NULL before `smoother_upload`.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, a cell of u or f is NaN or infinite; ghost cells are not checked.
 * - `RRB_ERR_NOT_FINITE`: with a monitor, the norm of the residual is too large for a double; u is then the current
 *   iterate.
 * - `RRB_ERR_UNSUPPORTED`: `remainder=overlap` with a method that updates several blocks at the same time;
 *   `memory=device` without `backend=cuda`; or the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed (on a device only).
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * - The memory traffic per cell and sweep is 24 bytes, or 32 bytes for block Jacobi. `check_input` reads u and f once
 *   more per call.
 * - On the CPU, arrays must be in host memory. The call does not check for device pointers.
 * - The call allocates no memory and starts no thread, with one exception: with `backend=cuda`, the first call with
 *   host arrays allocates device copies.
 * - For periodic boundaries, the ghost function must fill the ghost cells.
 * - Source: Rodriguez, Philip, Wang and Berrill, Block-relaxation methods for 3D constant-coefficient stencils on GPUs
 *   and multicore CPUs, algorithms 1 to 3.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or hold a pointer per patch, each NULL or
 * to (nx+2)(ny+2)(nz+2) and nx*ny*nz values.
 */
rrb_status smoother_apply(smoother_handle *h, double *const *u, const double *const *f, int32_t sweeps);

/**
 * Copies ghost cells of u that are covered by another patch from that patch.
 *
 * Other values are not changed. `smoother_apply` and `smoother_residual` include this exchange.
 *
 * Parameters:
 * - `h` (in/out): handle with patches.
 * - `u` (in/out): table of one pointer per patch, as for `smoother_apply`. NULL: the arrays of `smoother_upload`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or a pointer in the table is NULL, or `u` is NULL before `smoother_upload`.
 * - `RRB_ERR_ARGUMENT`: two arrays overlap; an array or the table is not 8-byte aligned; or, with `backend=cuda`, the
 *   arrays are neither all on the host nor all on the device.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` without `backend=cuda`, or the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed (on a device only).
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Required:
 * As for `smoother_apply`.
 */
rrb_status smoother_exchange(smoother_handle *h, double *const *u);

/**
 * Sets or removes the ghost function, which fills ghost cells that no patch covers.
 *
 * The library calls the ghost function on the calling thread before each sweep, after the exchange between patches. It
 * can implement boundary conditions, or copy values from other levels or other ranks. Without a ghost function, the
 * library does not change the ghost cells that no patch covers.
 *
 * Parameters:
 * - `h` (in/out): handle from `smoother_create`.
 * - `callback` (in): the ghost function `int32_t f(void *user, int32_t sweep, double *const *u)`; NULL removes it.
 * - `user` (in): pointer that is passed to `callback`; may be NULL.
 *
 * `callback` receives the number of the sweep, counted from 0, or -1 before a residual is computed. `u` has one
 * pointer per patch, to the arrays of the call, or to the arrays of `smoother_upload` if the call passed NULL. If the
 * arrays are on a device, these are device pointers.
 *
 * The callback must write ghost cells only. A nonzero result stops the call with `RRB_STOPPED`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - `callback` must not use this handle, and must not throw an exception.
 * - Device work that the callback starts must be on the stream of `smoother_set_stream`, or be complete when the
 *   callback returns.
 * - With `backend=cuda` and host arrays, each call of the ghost function transfers u to the host and back.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `callback` must accept `user` until it is replaced.
 */
rrb_status smoother_set_ghost_fill(smoother_handle *h, smoother_ghost_fn callback, void *user);

/**
 * Computes r = f - A u and its 2-norm over all patches.
 *
 * The call first exchanges and fills the ghost cells of u; no other value of u changes. The norm is bitwise identical
 * for any number of threads.
 *
 * Parameters:
 * - `h` (in/out): handle with patches.
 * - `u` (in/out): table of one pointer per patch, as for `smoother_apply`; only ghost cells are written.
 * - `f` (in): table of one pointer per patch, as for `smoother_apply`.
 * - `r` (out): table of one pointer per patch, to nx * ny * nz values; NULL if r is not needed.
 * - `norm2` (out): the 2-norm of r; unchanged after an error. May be NULL.
 *
 * `u` and `f` may both be NULL: the call then works on the arrays of `smoother_upload`.
 *
 * Returns:
 * `RRB_OK`, or `RRB_STOPPED` if the ghost function stopped the call. After `RRB_STOPPED`, `r` and `norm2` are not
 * valid.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, one of `u` and `f`, or a pointer in a table is NULL.
 * - `RRB_ERR_ARGUMENT`: an output array overlaps another array, or an array or table is not 8-byte aligned.
 * - `RRB_ERR_ARGUMENT`: with `backend=cuda`, the arrays are neither all on the host nor all on the device. With
 *   uploaded arrays, r must be on the device.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there; or
 *   `u` and `f` are NULL before `smoother_upload`.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, a cell of u or f is NaN or infinite; or the norm is too large for a
 *   double.
 * - `RRB_ERR_UNSUPPORTED`: `memory=device` without `backend=cuda`, or the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed (on a device only).
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * The memory traffic is 16 bytes per cell, or 24 bytes with r. If squares overflow or underflow, a second pass
 * computes the norm with scaling.
 *
 * Required:
 * As for `smoother_apply`; `r` must be NULL or hold a pointer per patch to nx*ny*nz values, `norm2` be NULL or point
 * to a `double`.
 */
rrb_status smoother_residual(smoother_handle *h,
                             double *const *u,
                             const double *const *f,
                             double *const *r,
                             double *norm2);

/**
 * Copies u and f into arrays of the library, which exist until the next `smoother_set_patches`.
 *
 * The arrays are on the device with `backend=cuda`, else on the host. After this call, the other functions accept NULL
 * tables and use these arrays. A second upload replaces the values.
 *
 * Parameters:
 * - `h` (in/out): handle with patches.
 * - `u` (in): table of one pointer per patch, with ghost cells, as for `smoother_apply`. With NULL, u in the library
 *   is unchanged; its initial value is zero.
 * - `f` (in): table of one pointer per patch. With NULL, f in the library is unchanged; its initial value is zero.
 *
 * The arrays are only read, so several patches may use the same array.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or a pointer in a table is NULL.
 * - `RRB_ERR_ARGUMENT`: an array or table is not 8-byte aligned; or, with `backend=cuda`, the arrays are neither all
 *   on the host nor all on the device.
 * - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Required:
 * As for `smoother_apply`.
 */
rrb_status smoother_upload(smoother_handle *h, const double *const *u, const double *const *f);

/**
 * Copies u from the library into the arrays of the caller, ghost cells included.
 *
 * Parameters:
 * - `h` (in/out): handle with arrays from `smoother_upload`.
 * - `u` (out): table of one pointer per patch, as for `smoother_apply`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `u` or a pointer in the table is NULL.
 * - `RRB_ERR_ARGUMENT`: two arrays overlap; an array or the table is not 8-byte aligned; or, with `backend=cuda`, the
 *   arrays are neither all on the host nor all on the device.
 * - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`, or an option that acts
 *   at set_patches has changed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation of a list of copies failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Required:
 * As for `smoother_apply`.
 */
rrb_status smoother_download(smoother_handle *h, double *const *u);

/**
 * Returns the addresses of the arrays of `smoother_upload`, for kernels of the caller.
 *
 * The addresses are device pointers with `backend=cuda`, else host pointers. They are valid until the next
 * `smoother_set_patches` or `smoother_destroy`.
 *
 * Parameters:
 * - `h` (in): handle with arrays from `smoother_upload`.
 * - `u` (out): table for one pointer per patch, to arrays with ghost cells; may be NULL.
 * - `f` (out): table for one pointer per patch; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`, or an option that acts
 *   at set_patches has changed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * Kernels that write to the arrays must run on the stream of `smoother_set_stream`, or be complete before the next
 * call.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or have room for a pointer per patch.
 */
rrb_status smoother_device_pointers(smoother_handle *h, double **u, double **f);

/**
 * Creates a handle with a matrix in compressed sparse row (CSR) form.
 *
 * Row i has the entries k = row_ptr[i] .. row_ptr[i + 1] - 1, with the columns `col[k]` and the values `values[k]`.
 * The columns of a row may have any order. Values with the same row and column are added, in their order in the
 * arrays. Explicit zeros are entries of the pattern. All arrays are copied.
 *
 * Parameters:
 * - `rows`, `cols` (in): number of rows and columns, at least 0. `sparse_factorize` needs a square matrix.
 * - `nnz` (in): number of entries in the arrays, at least 0.
 * - `row_ptr` (in): rows + 1 nondecreasing integers; the first is `base`, the last nnz + `base`.
 * - `col` (in): nnz integers in [base, base + cols - 1].
 * - `values` (in): nnz finite values.
 * - `index_bytes` (in): size of an integer of `row_ptr` and `col`: 4 (`int32_t`) or 8 (`int64_t`).
 * - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays are in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
 * - `RRB_ERR_ARGUMENT`: `row_ptr` decreases, or does not start with `base` and end with nnz + `base`; or a column is
 *   out of range. The message names the entry.
 * - `RRB_ERR_ARGUMENT`: an array is not aligned to its type, or resides on a device.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
 * - `RRB_ERR_NOT_FINITE`: a value, or a sum of values at the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * - Pass both triangles of a symmetric matrix. If you pass only one triangle, the triangular matrix is solved; the log
 *   contains a warning.
 * - The matrix needs 12 bytes per entry and 8 bytes per row. From 2^31 rows or columns on, it needs 16 bytes per
 *   entry. Unsorted or repeated entries need another 8 bytes per entry.
 * - Large matrices are sorted in parallel, with the default number of threads.
 * - `sparse_` runs on the CPU in one process. It does not run over MPI ranks.
 *
 * Required:
 * `row_ptr` must be NULL or hold rows + 1 integers, `col` nnz integers, `values` nnz values; `out` must be NULL or
 * point to a pointer.
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
 * Order, repeated entries and zeros are treated as in `sparse_create_csr`.
 *
 * Parameters:
 * - `rows`, `cols` (in): number of rows and columns, at least 0.
 * - `nnz` (in): number of entries in the arrays, at least 0.
 * - `col_ptr` (in): cols + 1 nondecreasing integers; the first is `base`, the last nnz + `base`.
 * - `row` (in): nnz integers in [base, base + rows - 1].
 * - `values` (in): nnz finite values.
 * - `index_bytes` (in): size of an integer of `col_ptr` and `row`: 4 (`int32_t`) or 8 (`int64_t`).
 * - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays are in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
 * - `RRB_ERR_ARGUMENT`: `col_ptr` decreases, or does not start with `base` and end with nnz + `base`; or a row is out
 *   of range. The message names the entry.
 * - `RRB_ERR_ARGUMENT`: an array is not aligned to its type, or resides on a device.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
 * - `RRB_ERR_NOT_FINITE`: a value, or a sum of values at the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * The matrix is stored by rows and needs as much memory as in `sparse_create_csr`. The handle also stores the original
 * order of the entries for `sparse_set_values`, which needs 8 bytes per entry.
 *
 * Required:
 * As for `sparse_create_csr`, with cols + 1 pointers.
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
 * Entry k has the row `row[k]`, the column `col[k]` and the value `values[k]`. Repeated entries and zeros are treated
 * as in `sparse_create_csr`. The entries of element matrices can therefore be listed one after the other.
 *
 * Parameters:
 * - `rows`, `cols` (in): number of rows and columns, at least 0.
 * - `nnz` (in): number of entries in the arrays, at least 0.
 * - `row` (in): nnz integers in [base, base + rows - 1].
 * - `col` (in): nnz integers in [base, base + cols - 1].
 * - `values` (in): nnz finite values.
 * - `index_bytes` (in): size of an integer of `row` and `col`: 4 (`int32_t`) or 8 (`int64_t`).
 * - `base` (in): index of the first row and column: 0 (C) or 1 (Fortran).
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays are in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: `index_bytes` is not 4 or 8, or `base` is not 0 or 1.
 * - `RRB_ERR_ARGUMENT`: a row or column is out of range. The message names the entry.
 * - `RRB_ERR_ARGUMENT`: an array is not aligned to its type, or resides on a device.
 * - `RRB_ERR_DIMENSION`: `rows`, `cols` or `nnz` is negative, or is 2^60 or more.
 * - `RRB_ERR_NOT_FINITE`: a value, or a sum of values at the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Notes:
 * The matrix needs as much memory as in `sparse_create_csr`. `RRB_INFO_DUPLICATES` is the number of repeated entries.
 *
 * Required:
 * As for `sparse_create_csr`, with nnz rows and columns.
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
 * Creates a handle from arrays of a storage format, such as those that `sparse_arrays` writes.
 *
 * Arrays from `sparse_arrays` create a bitwise identical matrix, with one exception: in bsr, dia, ell, sell, skyline
 * and diagonal, zeros are padding and are dropped.
 *
 * Parameters:
 * - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
 * - `rows`, `cols` (in): number of rows and columns, at least 0.
 * - `sizes` (in): four integers: the lengths of `i0`, `i1`, `i2` and `values`.
 * - `i0`, `i1`, `i2` (in): index arrays of the format; indices count from 0.
 * - `values` (in): finite values.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Arrays are in host memory. An array of length 0 may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `out`, `sizes`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: `format` is not one of these constants; or a pointer, index or permutation is not valid.
 * - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_DIMENSION`: a size is negative, or is 2^60 or more; or the lengths do not match the format and the size
 *   of the matrix.
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
 * | dia | offsets column - row | | |
 * | ell | columns, slot by slot | | |
 * | sell | permutation of rows | starts of slices | columns |
 * | jds | permutation of rows | starts of jagged diagonals | columns |
 * | tjds | permutation of columns | starts of jagged diagonals | rows |
 * | skyline | row pointers, lower triangle | column pointers, strict upper triangle; empty: symmetric | |
 * | diagonal | | | |
 *
 * Required:
 * `sizes` must be NULL or hold four integers; the arrays must be NULL or hold that many; `out` must be NULL or point
 * to a pointer.
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
 * Creates a handle with the matrix of a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, plain or gzip.
 *
 * The format is detected from the content, not from the name. If the file stores one triangle of a symmetric or
 * skew-symmetric matrix, the whole matrix is created. `sparse_get_vector` returns the right-hand sides, guesses and
 * solutions of a Harwell-Boeing file.
 *
 * Parameters:
 * - `path` (in): name of the file, ending with NUL.
 * - `out` (out): the new handle; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `path` or `out` is NULL.
 * - `RRB_ERR_IO`: the file cannot be opened or read.
 * - `RRB_ERR_PARSE`: the file has another format, or its content is not valid. The message contains the path, the line
 *   and the reason.
 * - `RRB_ERR_NOT_FINITE`: a value, or a sum of values at the same row and column, is NaN, infinite, or too large for a
 *   double.
 * - `RRB_ERR_UNSUPPORTED`: the matrix is complex, Hermitian or elemental, or its values are in another file; or the
 *   file is a supplementary Rutherford-Boeing file without assembled right-hand sides.
 * - `RRB_ERR_DIMENSION`: the size of the matrix is out of range.
 * - `RRB_ERR_MEMORY`: an allocation failed, possibly the one for another error message. No memory is leaked.
 *
 * Notes:
 * - MatrixMarket files may be coordinate or array; real, integer or pattern (all values are 1); general, symmetric or
 *   skew-symmetric.
 * - Harwell-Boeing and Rutherford-Boeing files must be assembled, and may be real, integer or pattern.
 * - If the header of a Harwell-Boeing file states a wrong number of right-hand-side cards, the file is read, and the
 *   log contains a warning.
 * - Right-hand sides in a separate Rutherford-Boeing file are read as a matrix with one column per right-hand side.
 * - A gzip file may consist of several members.
 * - A file of more than 1 MB is read by the default number of threads; `RRBSOLVER_NUM_THREADS=1` starts no threads. If
 *   there is no memory to start a thread, or for a warning about an `RRBSOLVER_` variable, the process ends.
 * - The call needs at most 32 times the memory of the uncompressed text, plus 1 MB, plus 8 bytes per row.
 *
 * Required:
 * `path` must be NULL or end with NUL; `out` must be NULL or point to a pointer.
 */
rrb_status sparse_read(const char *path, sparse_handle **out);

/**
 * Writes the matrix to a file, compressed with gzip if the name ends with .gz.
 *
 * Each value is written with the fewest digits from which the same double is read. If the matrix is exactly symmetric,
 * only its lower triangle is written. An existing file is replaced when the new one is complete; after an error it is
 * unchanged.
 *
 * Parameters:
 * - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
 * - `path` (in): name of the file, ending with NUL.
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
 * - `RRB_ERR_MEMORY`: an allocation failed, possibly the one for another error message. The handle is unchanged, and
 *   no incomplete file remains.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - The data is written to a new file in the same folder, which is then renamed. A replaced file keeps its
 *   permissions. If the path is a symbolic link, its target is replaced. Pipes and devices are written directly.
 * - The call needs 0.1 MB for buffers, and 0.5 MB more for gzip. If the matrix is not symmetric, `RRB_FILE_HB` and
 *   `RRB_FILE_RB` also need a copy of the matrix by columns.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `path` must be NULL or end with NUL.
 */
rrb_status sparse_write(const sparse_handle *h, const char *path, int32_t file_format);

/**
 * Copies a right-hand side, initial guess or solution from the Harwell-Boeing file of the matrix.
 *
 * Parameters:
 * - `h` (in): handle from `sparse_read`.
 * - `which` (in): `RRB_VECTOR_RHS`, `RRB_VECTOR_GUESS` or `RRB_VECTOR_SOLUTION`.
 * - `k` (in): number of the vector, counted from 0.
 * - `v` (out): as many values as rows, in host memory.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `v` is NULL.
 * - `RRB_ERR_ARGUMENT`: `which` is not one of these constants; the file has no vector `k` of this kind; or `v` is not
 *   8-byte aligned, or resides on a device.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `v`.
 *
 * Notes:
 * `RRB_INFO_FILE_RHS` is the number of right-hand sides. If the file has guesses or solutions, it has as many as
 * right-hand sides.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `v` must be NULL or have room for as many values as rows.
 */
rrb_status sparse_get_vector(const sparse_handle *h, int32_t which, int64_t k, double *v);

/**
 * Replaces the values of all entries; the pattern remains.
 *
 * The next product or `sparse_factorize` updates the storage format. `sparse_solve` and `sparse_apply` return
 * `RRB_ERR_STATE` until `sparse_factorize` is called again.
 *
 * Parameters:
 * - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
 * - `values` (in): the new values, in host memory, in the same number and order as in `sparse_create_csr`, `_csc` or
 *   `_coo`. For a matrix from a file or from a format with padding, pass `RRB_INFO_NONZEROS` values in CSR order. May
 *   be NULL if the matrix has no entries.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `values` is NULL.
 * - `RRB_ERR_ARGUMENT`: `values` is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_NOT_FINITE`: a value, or a sum of values at the same row and column, is NaN or infinite.
 * - `RRB_ERR_MEMORY`: allocation failed. The call allocates memory only for unsorted or repeated entries.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `values`.
 *
 * After an error the values are unchanged.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `values` must be NULL or hold the values named.
 */
rrb_status sparse_set_values(sparse_handle *h, const double *values);

/**
 * Computes the lengths of the arrays of a storage format for this matrix.
 *
 * `sparse_arrays` writes these arrays. The options `block_size`, `slice`, `sigma` and `format_memory` apply.
 *
 * Parameters:
 * - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
 * - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
 * - `sizes` (out): four integers: the lengths of `i0`, `i1`, `i2` and `values`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `sizes` is NULL.
 * - `RRB_ERR_ARGUMENT`: `format` is not one of these constants, or `sizes` is not 8-byte aligned or resides on a
 *   device.
 * - `RRB_ERR_ARGUMENT`: for `RRB_FORMAT_DIAGONAL`, the matrix has an off-diagonal entry. The message names it.
 * - `RRB_ERR_DIMENSION`: for `RRB_FORMAT_SKYLINE`, the matrix is not square.
 * - `RRB_ERR_MEMORY`: the arrays need more than `format_memory` bytes, or allocation failed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate `sizes`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `sizes` must be NULL or have room for four integers.
 */
rrb_status sparse_sizes(const sparse_handle *h, int32_t format, int64_t *sizes);

/**
 * Writes the arrays of a storage format, with indices from 0.
 *
 * `sparse_create_from` lists the arrays of each format. Call `sparse_sizes` first, with the same options.
 *
 * Parameters:
 * - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
 * - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
 * - `i0`, `i1`, `i2` (out): index arrays with the lengths that `sparse_sizes` returns; an array of length 0 may be
 *   NULL.
 * - `values` (out): values, padding included.
 *
 * Arrays are in host memory and must not overlap.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: arrays overlap; or an array is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_ARGUMENT`: `format` is not one of these constants; or, for `RRB_FORMAT_DIAGONAL`, the matrix has an
 *   off-diagonal entry.
 * - `RRB_ERR_DIMENSION`: for `RRB_FORMAT_SKYLINE`, the matrix is not square.
 * - `RRB_ERR_MEMORY`: the arrays need more than `format_memory` bytes, or allocation failed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * Required:
 * `h` must be NULL or a handle of this family; the arrays must be NULL or have room for the lengths of `sparse_sizes`,
 * with the options as they were then.
 */
rrb_status sparse_arrays(const sparse_handle *h, int32_t format, int64_t *i0, int64_t *i1, int64_t *i2, double *values);

/**
 * Checks a square matrix and sets up the method, the storage format, the preconditioner and the workspace.
 *
 * `RRB_INFO_SOLVER`, `RRB_INFO_PRECONDITIONER` and `RRB_INFO_FORMAT` report what `auto` selected; with `verbosity=1` a
 * log line also does. A second call, for example after `sparse_set_values`, reuses memory. After an error the handle
 * has the matrix but no factorization.
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
 * - `RRB_ERR_MATRIX`: the matrix is not symmetric, but `solver` is cg or minres, or `preconditioner` is ic0. The
 *   message names an entry.
 * - `RRB_ERR_MATRIX`: a diagonal entry is zero or missing, but the method or preconditioner divides by it. This
 *   applies to the sweeps, jacobi, ssor, ic0, neumann, chebyshev and amg. With ilu0 the entry must exist but may be
 *   zero.
 * - `RRB_ERR_MATRIX`: a diagonal entry or pivot of ic0 is not positive; a pivot of ilu0 is zero; or, with
 *   `precision=f32`, an entry of M is outside the range of single precision.
 * - `RRB_ERR_UNSUPPORTED`: the solver does not accept the preconditioner. Sweeps accept none, minres accepts only
 *   jacobi, and amg requires cg.
 * - `RRB_ERR_UNSUPPORTED`: amg with 2^32 - 1 rows or more; or the handle was created before a fork.
 * - `RRB_ERR_ARGUMENT`: `sor_omega=2`; or `format=diagonal`, and the matrix has an off-diagonal entry.
 * - `RRB_ERR_MEMORY`: the format needs more than `format_memory` bytes, or the copy of A' does (bicg with
 *   `transpose=copy`); or allocation failed.
 *
 * Notes:
 * - If `auto` selects ic0 or ilu0 and a pivot is not usable, jacobi is used instead. If a diagonal entry is zero or
 *   missing, no preconditioner is used.
 * - The log contains a warning if the matrix has only one triangle, or if sweeps are used on a matrix that is not
 *   diagonally dominant.
 * - The cost is that of a few products plus the setup of the preconditioner.
 * - Sources: Saad, Iterative Methods for Sparse Linear Systems, 2003 (methods, ic0, ilu0); Napov and Notay, SIAM J.
 *   Sci. Comput. 34 (2012), A1079-A1109 (amg).
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status sparse_factorize(sparse_handle *h);

/**
 * Solves A x = b with the method of `sparse_factorize`.
 *
 * The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol) in the 2-norm. The residual is recomputed
 * from x before convergence is reported. For b = 0 the result is x = 0. An initial guess that satisfies the test is
 * returned after 0 iterations.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `sparse_factorize`.
 * - `b` (in): right-hand side, as many values as rows.
 * - `x` (in/out): initial guess on entry, solution on return; must not overlap `b`.
 *
 * Both arrays are in host memory.
 *
 * Returns:
 * - `RRB_OK`: the solve has converged.
 * - `RRB_NOT_CONVERGED`: the solve has not converged; `RRB_INFO_STOP_REASON` reports the reason. With max_iter, `x` is
 *   the last iterate or a better one. With stagnated, `x` is the best known iterate. With diverged, `x` is the best
 *   known iterate or the initial guess.
 * - `RRB_STOPPED`: the monitor stopped the solve; `x` is the current iterate.
 *
 * For the last two, the message of `rrbsolver_last_error` contains the iterations, the residual, the tolerance and the
 * stop reason.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `b` or `x` is NULL.
 * - `RRB_ERR_ARGUMENT`: `b` and `x` overlap; or an array is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_ARGUMENT`: max abs(x) of the guess is above 1e150 * max abs(b) / d, where d is half the largest sum of
 *   abs(a_ij) over a row.
 * - `RRB_ERR_STATE`: `sparse_factorize` has not succeeded since the last change of the values or of an option that
 *   acts at factorize.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `b` or `x` has a NaN or infinity; or the solution is too large for a
 *   double.
 * - `RRB_ERR_RANGE`: the solution is too small for a double.
 * - `RRB_ERR_BREAKDOWN`: with `solver=cg`, A or M is indefinite (use minres); or the iteration overflowed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * After an error `x` is unchanged.
 *
 * Notes:
 * - With `solver=auto`, if cg finds that the matrix is indefinite, the solve continues with minres. `RRB_INFO_SOLVER`
 *   then reports minres.
 * - The results are bitwise identical for any number of threads.
 * - The call allocates no memory and starts no thread.
 *
 * Required:
 * `h` must be NULL or a handle of this family; the arrays must be NULL or hold as many values as rows.
 */
rrb_status sparse_solve(sparse_handle *h, const double *b, double *x);

/**
 * Computes z = M^-1 r with the preconditioner of `sparse_factorize`, for a Krylov method of the caller.
 *
 * With `preconditioner=amg`, M depends on r; use a flexible method. All other preconditioners are fixed.
 *
 * Parameters:
 * - `h` (in/out): handle with a matrix from `sparse_factorize`.
 * - `r` (in): residual, as many values as rows, in host memory.
 * - `z` (out): result, as many values as rows, in host memory; must not overlap `r`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, `r` or `z` is NULL.
 * - `RRB_ERR_ARGUMENT`: `r` and `z` overlap; or an array is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_STATE`: `sparse_factorize` has not succeeded since the last change of the values or of an option that
 *   acts at factorize.
 * - `RRB_ERR_UNSUPPORTED`: `solver` is jacobi, gauss_seidel or sor, which have no preconditioner; or the handle was
 *   created before a fork.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `r` has a NaN or infinity; or `z` is too large for a double.
 * - `RRB_ERR_RANGE`: `z` is too small for a double.
 * - `RRB_ERR_BREAKDOWN`: with `check_input=0`, `r` is not finite.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * After an error `z` is unchanged.
 *
 * Required:
 * As for `sparse_solve`.
 */
rrb_status sparse_apply(sparse_handle *h, const double *r, double *z);

/**
 * Computes y = A x.
 *
 * No factorization is needed, and the matrix may be rectangular. The storage format is created by `sparse_factorize`,
 * or by the first product after a change of the values or of a format option.
 *
 * Parameters:
 * - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
 * - `x` (in): as many values as columns, in host memory.
 * - `y` (out): as many values as rows, in host memory; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: `x` and `y` overlap; or an array is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_ARGUMENT`: `format=diagonal`, and the matrix has an off-diagonal entry.
 * - `RRB_ERR_DIMENSION`: `format=skyline`, and the matrix is not square.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `x` has a NaN or infinity.
 * - `RRB_ERR_MEMORY`: the format needs more than `format_memory` bytes, or allocation failed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * After an error `y` is unchanged.
 *
 * Notes:
 * - The call moves `RRB_INFO_BYTES_PER_NONZERO` bytes per entry, and computes 2 flops per stored value.
 * - Products in coo, jds, tjds and skyline use one thread. Products in the other formats use the number of threads of
 *   the option `threads`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; the arrays must be NULL or hold the values named.
 */
rrb_status sparse_multiply(sparse_handle *h, const double *x, double *y);

/**
 * Computes y = A' x with the transpose of A.
 *
 * Apart from the transpose, the call is the same as `sparse_multiply`.
 *
 * Parameters:
 * - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
 * - `x` (in): as many values as rows, in host memory.
 * - `y` (out): as many values as columns, in host memory; must not overlap `x`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h`, or an array of nonzero length, is NULL.
 * - `RRB_ERR_ARGUMENT`: `x` and `y` overlap; or an array is not 8-byte aligned, or resides on a device.
 * - `RRB_ERR_ARGUMENT`: `format=diagonal`, and the matrix has an off-diagonal entry.
 * - `RRB_ERR_DIMENSION`: `format=skyline`, and the matrix is not square.
 * - `RRB_ERR_NOT_FINITE`: with `check_input`, `x` has a NaN or infinity.
 * - `RRB_ERR_MEMORY`: the format needs more than `format_memory` bytes, or allocation failed.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
 *
 * After an error `y` is unchanged.
 *
 * Notes:
 * The call does not copy A'. Partial sums need up to 64 bytes per column; this memory remains allocated.
 *
 * Required:
 * As for `sparse_multiply`.
 */
rrb_status sparse_multiply_transposed(sparse_handle *h, const double *x, double *y);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the handle; the handle is NULL on return.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - The call does not wait for other ranks.
 * - In a child process, a handle that was created before the fork is not freed; only the pointer is set to NULL.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status rrb_destroy(rrb_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists the keys and ranges, and says when each option acts.
 *
 * After a change of an option that acts at factorize, call `rrb_factorize` before the next solve.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice, one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or its option accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The function also sets real options to integer values.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status rrb_set_int(rrb_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value; 0 or a normal number.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or is not that of a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status rrb_set_real(rrb_handle *h, int32_t key, double value);

/**
 * Sets options from text, such as "name=value name=value".
 *
 * Entries are separated by blanks or commas. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `text` (in): UTF-8 text with NUL at its end; the options page lists names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry has no `=`, an unknown name, or an unknown choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file of the option `log` cannot be opened.
 *
 * Notes:
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - If a name occurs more than once, the last entry applies.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `text` must be NULL or end with NUL.
 */
rrb_status rrb_set_options(rrb_handle *h, const char *text);

/**
 * Reads an integer option, a choice, or an integer result.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is a real number or text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - `RRB_INFO_DEVICE` is -1 while no device is in use.
 * - The value of an option includes changes made by the environment variable `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status rrb_get_int(const rrb_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result, or an integer one converted to a real number.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to a `double`.
 */
rrb_status rrb_get_real(const rrb_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream of the handle.
 *
 * The stream has no effect on the CPU.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `cuda_stream` (in): a `cudaStream_t`; NULL selects the handle's own non-blocking stream, which is the default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - If the stream belongs to another device or context, the next call that computes returns `RRB_ERR_DEVICE`.
 * - If other streams, such as the default stream, write the arrays of a call, synchronize them before the call.
 * - Before you destroy the stream, set another stream or NULL.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status rrb_set_stream(rrb_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `rrb_solve` calls the monitor with iteration 0 before the first iteration, and then after each iteration. The
 * monitor receives the relative residual of the stopping test.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - The monitor is called on the calling thread, in order, with no lock held.
 * - The monitor must not use this handle. It must not throw a C++ exception or unwind in another way.
 * - On a distributed handle, the monitor may be set on some ranks only. If one monitor stops the solve, the solve
 *   stops on all ranks.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status rrb_set_monitor(rrb_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that performed iterations.
 *
 * The values are the relative residuals of the stopping test in the last solve, from iteration 0 on.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL if `capacity` is 0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle holds.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL with a positive `capacity`.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * The handle stores at most min(`max_iter` + 1, 1,000,000) values.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `residuals` must have room for `capacity` values; `count` must be NULL
 * or point to an `int64_t`.
 */
rrb_status rrb_get_history(const rrb_handle *h, double *residuals, int64_t capacity, int64_t *count);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the handle; the handle is NULL on return.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - In a child process, a handle that was created before the fork is not freed; only the pointer is set to NULL.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status smoother_destroy(smoother_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists the keys and ranges, and says when each option acts.
 *
 * After a change of an option that acts at set_patches, call `smoother_set_patches` before the next apply.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice, one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or its option accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 * - `RRB_ERR_MATRIX`: a block of the shifted partition of `stagger` is singular.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The function also sets real options to integer values.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - `stagger` needs more block inverses, and `block_jacobi` needs a second array. This call creates them.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status smoother_set_int(smoother_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value; 0 or a normal number.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or is not that of a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status smoother_set_real(smoother_handle *h, int32_t key, double value);

/**
 * Sets options from text, such as "name=value name=value".
 *
 * Entries are separated by blanks or commas. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `text` (in): UTF-8 text with NUL at its end; the options page lists names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry has no `=`, an unknown name, or an unknown choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file of the option `log` cannot be opened.
 * - `RRB_ERR_MATRIX`: a block of the shifted partition of `stagger` is singular.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * Notes:
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - If a name occurs more than once, the last entry applies.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `text` must be NULL or end with NUL.
 */
rrb_status smoother_set_options(smoother_handle *h, const char *text);

/**
 * Reads an integer option, a choice, or an integer result.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is a real number or text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - `RRB_INFO_DEVICE` is -1 while no device is in use.
 * - The value of an option includes changes made by the environment variable `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status smoother_get_int(const smoother_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result, or an integer one converted to a real number.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_STATE`: the residual results do not exist, because the last apply had no monitor and `verbosity` was
 *   below 2.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to a `double`.
 */
rrb_status smoother_get_real(const smoother_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream of the handle.
 *
 * The stream has no effect on the CPU.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `cuda_stream` (in): a `cudaStream_t`; NULL selects the handle's own non-blocking stream, which is the default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_DEVICE`: the stream belongs to another device or context. The handle still uses the previous stream.
 *
 * Notes:
 * - If other streams, such as the default stream, write the arrays of a call, synchronize them before the call.
 * - Before you destroy the stream, set another stream or NULL.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status smoother_set_stream(smoother_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `smoother_apply` calls the monitor with sweep 0 before the first sweep, and then after each sweep. The monitor
 * receives the 2-norm of f - A u, relative to its value before the first sweep.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation of the residual history failed.
 *
 * Notes:
 * - The monitor is called on the calling thread, in order, with no lock held.
 * - The monitor must not use this handle. It must not throw a C++ exception or unwind in another way.
 * - For a monitor, each sweep is followed by an update of the ghost cells and one pass over u and f. With a monitor,
 *   ghost cells therefore hold the values after the last sweep. Without a monitor, they hold the values that the last
 *   sweep read.
 * - An apply with 0 sweeps calls the monitor once.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status smoother_set_monitor(smoother_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that performed iterations.
 *
 * The values are those that the monitor received in the last apply, from sweep 0 on.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL if `capacity` is 0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle holds.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL with a positive `capacity`.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * The handle stores at most 100,000 values.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `residuals` must have room for `capacity` values; `count` must be NULL
 * or point to an `int64_t`.
 */
rrb_status smoother_get_history(const smoother_handle *h, double *residuals, int64_t capacity, int64_t *count);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the handle; the handle is NULL on return.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - In a child process, a handle that was created before the fork is not freed; only the pointer is set to NULL.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status dpcg_destroy(dpcg_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists the keys and ranges, and says when each option acts.
 *
 * After a change of an option that acts at factorize, call `dpcg_factorize` before the next solve.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice, one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or its option accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The function also sets real options to integer values.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status dpcg_set_int(dpcg_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value; 0 or a normal number.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or is not that of a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status dpcg_set_real(dpcg_handle *h, int32_t key, double value);

/**
 * Sets options from text, such as "name=value name=value".
 *
 * Entries are separated by blanks or commas. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `text` (in): UTF-8 text with NUL at its end; the options page lists names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry has no `=`, an unknown name, or an unknown choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file of the option `log` cannot be opened.
 *
 * Notes:
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - If a name occurs more than once, the last entry applies.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `text` must be NULL or end with NUL.
 */
rrb_status dpcg_set_options(dpcg_handle *h, const char *text);

/**
 * Reads an integer option, a choice, or an integer result.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is a real number or text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - `RRB_INFO_DEVICE` is -1 while no device is in use.
 * - The value of an option includes changes made by the environment variable `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status dpcg_get_int(const dpcg_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result, or an integer one converted to a real number.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to a `double`.
 */
rrb_status dpcg_get_real(const dpcg_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream of the handle.
 *
 * The stream has no effect on the CPU.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `cuda_stream` (in): a `cudaStream_t`; NULL selects the handle's own non-blocking stream, which is the default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - If the stream belongs to another device or context, the next call that computes returns `RRB_ERR_DEVICE`.
 * - If other streams, such as the default stream, write the arrays of a call, synchronize them before the call.
 * - Before you destroy the stream, set another stream or NULL.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status dpcg_set_stream(dpcg_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `dpcg_solve` calls the monitor with iteration 0 before the first iteration, and then after each iteration. The
 * monitor receives the relative residual of the stopping test.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - The monitor is called on the calling thread, in order, with no lock held.
 * - The monitor must not use this handle. It must not throw a C++ exception or unwind in another way.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status dpcg_set_monitor(dpcg_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that performed iterations.
 *
 * The values are the relative residuals of the stopping test in the last solve, from iteration 0 on.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL if `capacity` is 0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle holds.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL with a positive `capacity`.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * The handle stores at most min(`max_iter` + 1, 1,000,000) values.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `residuals` must have room for `capacity` values; `count` must be NULL
 * or point to an `int64_t`.
 */
rrb_status dpcg_get_history(const dpcg_handle *h, double *residuals, int64_t capacity, int64_t *count);

/**
 * Frees the handle and sets the pointer to NULL.
 *
 * NULL and a pointer to NULL are allowed and have no effect.
 *
 * Parameters:
 * - `h` (in/out): address of the handle; the handle is NULL on return.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * None.
 *
 * Notes:
 * - In a child process, a handle that was created before the fork is not freed; only the pointer is set to NULL.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status sparse_destroy(sparse_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists the keys and ranges, and says when each option acts.
 *
 * After a change of an option that acts at factorize, call `sparse_factorize` before the next solve.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice, one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or its option accepts only text.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - The function also sets real options to integer values.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - After a change of an option that acts at the next product, that product converts the matrix again.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status sparse_set_int(sparse_handle *h, int32_t key, int64_t value);

/**
 * Sets a real option.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
 * - `value` (in): the new value; 0 or a normal number.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family or to a result, or is not that of a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options are unchanged.
 *
 * Notes:
 * - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status sparse_set_real(sparse_handle *h, int32_t key, double value);

/**
 * Sets options from text, such as "name=value name=value".
 *
 * Entries are separated by blanks or commas. If one entry is wrong, no option changes.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `text` (in): UTF-8 text with NUL at its end; the options page lists names, ranges and choices.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `text` is NULL.
 * - `RRB_ERR_OPTION`: an entry has no `=`, an unknown name, or an unknown choice.
 * - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 * - `RRB_ERR_IO`: the file of the option `log` cannot be opened.
 *
 * Notes:
 * - The environment variable `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - If a name occurs more than once, the last entry applies.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `text` must be NULL or end with NUL.
 */
rrb_status sparse_set_options(sparse_handle *h, const char *text);

/**
 * Reads an integer option, a choice, or an integer result.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is a real number or text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - A result is 0 until a call has computed it.
 * - The value of an option includes changes made by the environment variable `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status sparse_get_int(const sparse_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result, or an integer one converted to a real number.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>` or `RRB_INFO_<NAME>`; see options and results.
 * - `value` (out): the value; unchanged after an error.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `value` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or its value is text.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * A result is 0 until a call has computed it.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to a `double`.
 */
rrb_status sparse_get_real(const sparse_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream of the handle.
 *
 * The call has no effect because this family computes on the CPU.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `cuda_stream` (in): a `cudaStream_t`; NULL selects the handle's own non-blocking stream, which is the default.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status sparse_set_stream(sparse_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `sparse_solve` calls the monitor with iteration 0 before the first iteration, and then after each iteration. The
 * monitor receives the relative residual of the stopping test.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): pointer that is passed to the monitor; may be NULL.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - The monitor is called on the calling thread, in order, with no lock held.
 * - The monitor must not use this handle. It must not throw a C++ exception or unwind in another way.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status sparse_set_monitor(sparse_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that performed iterations.
 *
 * The values are the relative residuals of the stopping test in the last solve, from iteration 0 on.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL if `capacity` is 0.
 * - `capacity` (in): length of `residuals`, at least 0.
 * - `count` (out): number of values that the handle holds.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL with a positive `capacity`.
 * - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * The handle stores at most min(`max_iter` + 1, 1,000,000) values.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `residuals` must have room for `capacity` values; `count` must be NULL
 * or point to an `int64_t`.
 */
rrb_status sparse_get_history(const sparse_handle *h, double *residuals, int64_t capacity, int64_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RRBSOLVER_H */
