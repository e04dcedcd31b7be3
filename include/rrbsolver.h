/* rrbsolver.h: stencil solvers for simulators, and sparse matrices. C99 and C++.
 *
 * Threads: different handles are independent; one handle is used by one thread at a time; handles may move between
 * threads. The library uses threads of its own (option threads), never a global pool. Callbacks come on the calling
 * thread, between iterations, with no lock held; they must not use the handle that calls them.
 *
 * Statuses: every function that can fail returns an rrb_status, named below. A failing call leaves a sentence for its
 * thread, read by rrbsolver_last_error.
 *
 * Arrays: a[j*ld + i] in 2D, a[k*lp + j*ld + i] in 3D, i = 0..nx-1 fastest; ld = nx and lp = ny*ld unless the options
 * leading_dimension and leading_plane say otherwise. Pointers are borrowed for the call only; an array that is written
 * must overlap no other of the call. Handles: X_create (sparse_create_csr, ..., sparse_read) makes one, X_destroy frees
 * it and sets the pointer to NULL.
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
#define RRB_OK                    0  /* done */
#define RRB_NOT_CONVERGED         1  /* the tolerance was not reached; x is the last iterate, or a better one */
#define RRB_STOPPED               2  /* a callback asked to stop; x (or u) is the iterate at the stop */
#define RRB_ERR_NULL           (-1)  /* a required pointer is NULL */
#define RRB_ERR_ARGUMENT       (-2)  /* a value is out of range, or arrays overlap */
#define RRB_ERR_DIMENSION      (-3)  /* an extent is too small, extents do not fit each other, or their product is
                                        too large */
#define RRB_ERR_OPTION         (-4)  /* unknown option key, option name or choice */
#define RRB_ERR_STATE          (-5)  /* calls in the wrong order: factorize (smoother_: set_patches) must come
                                        (again) first */
#define RRB_ERR_UNSUPPORTED    (-6)  /* not offered by this build or this method */
#define RRB_ERR_MATRIX        (-20)  /* zero or negative center or pivot, a singular block; not symmetric, an empty
                                        row (sparse_) */
#define RRB_ERR_NOT_FINITE    (-21)  /* NaN or infinity in an input array, or a result too large for a double */
#define RRB_ERR_BREAKDOWN     (-22)  /* the matrix or the preconditioner is indefinite; x is as given */
#define RRB_ERR_INCOMPATIBLE  (-23)  /* singular system whose right-hand side has a component in the null space */
#define RRB_ERR_RANGE         (-24)  /* the result is too small for a double: its values would underflow */
#define RRB_ERR_MEMORY        (-30)  /* out of memory, or above a memory limit */
#define RRB_ERR_NO_DEVICE     (-40)  /* no CUDA driver or device */
#define RRB_ERR_DEVICE        (-41)  /* the CUDA driver reported an error */
#define RRB_ERR_IO            (-50)  /* a file could not be read or written */
#define RRB_ERR_PARSE         (-51)  /* a file or text could not be understood */
#define RRB_ERR_COMMUNICATION (-60)  /* a rank is missing or late; x is as given, and all that is left is destroy */
#define RRB_ERR_INTERNAL      (-99)  /* a defect of this library */

/* Options: keys of set and get. */
#define RRB_OPT_BACKEND               100  /* where the solver runs; auto: cuda where a device is and the problem is
                                              large enough (smoother_: where memory = device), else cpu */
#define RRB_OPT_DEVICE                101  /* CUDA ordinal (not sparse_) */
#define RRB_OPT_THREADS               102  /* threads of the handle's own team; 0: RRBSOLVER_NUM_THREADS,
                                              SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, affinity mask, in that order */
#define RRB_OPT_MEMORY                103  /* where the caller's arrays are; auto asks the driver (not sparse_) */
#define RRB_OPT_REL_TOL               104  /* stop when norm(r) <= max(rel_tol * reference, abs_tol) (not smoother_) */
#define RRB_OPT_ABS_TOL               105  /* see rel_tol; unit of the tested norm (not smoother_) */
#define RRB_OPT_MAX_ITER              106  /* iterations at most; 0 only evaluates the residual (not smoother_) */
#define RRB_OPT_NORM                  107  /* true2: 2-norm of b - A x on the whole grid; preconditioned: sqrt(r'
                                              M^-1 r), as in the papers (not smoother_, sparse_) */
#define RRB_OPT_REFERENCE             108  /* rhs: the same norm of b (projected where singular, reduced to S1 for
                                              preconditioned); initial: of r0 (not smoother_) */
#define RRB_OPT_NULL_SPACE            109  /* auto: a connected component is singular iff |row sum| <= 1e-12 * center
                                              in all its rows; constant: iff <= 1e-6 * center (not smoother_,
                                              sparse_) */
#define RRB_OPT_CHECK_INPUT           110  /* 1: refuse NaN and infinity in input arrays, log couplings that point
                                              out of the grid once a handle, at factorize; 2: refuse those too
                                              (smoother_, sparse_: as 1; entries of a sparse matrix are finite
                                              always) */
#define RRB_OPT_CHECK_COMPATIBILITY   111  /* refuse b with |sum b| > 1e-10 ||b||_1 over a singular component instead
                                              of projecting it (not smoother_, sparse_) */
#define RRB_OPT_VERBOSITY             112  /* 0: silent; 1: a line a solve (smoother_: an apply; sparse_: and a
                                              factorize); 2: a line an iteration (a sweep) */
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
                                              steps (also dpcg_) */
#define RRB_OPT_COMPENSATION          207  /* positive off-diagonals moved to the diagonals in M; auto: iff there are
                                              any */
#define RRB_OPT_PRECISION             208  /* of the stored preconditioner; mixed: of CG too, on a device: taken as
                                              bf16 (also dpcg_, sparse_) */
#define RRB_OPT_CYCLE                 209  /* v: the papers' RRB; amli, k: recursive; aggregation: multigrid by
                                              aggregation in place of RRB */
#define RRB_OPT_CYCLE_SPACING         210  /* recursion every so many levels; 0: chosen */
#define RRB_OPT_CYCLE_STEPS           211  /* inner iterations of a recursion */
#define RRB_OPT_SWITCH_MEMORY         213  /* bytes that cycle=auto may take for aggregation, at factorize or in a
                                              slow solve; -1: what it needs, 0: never */
#define RRB_OPT_LEADING_DIMENSION     212  /* values from one row of the caller's arrays to the next, at least nx; 0:
                                              nx (also dpcg_) */
#define RRB_OPT_DEVICES               220  /* up to eight CUDA ordinals, as 0+1+2: these devices share the rows of
                                              large grids, in place of device; none: one device */
#define RRB_OPT_REPRODUCIBLE          218  /* 1: the same bits for any number of ranks; 0: for the same number alone,
                                              but a sum takes one value a rank */
#define RRB_OPT_COMM_TIMEOUT          219  /* seconds that a rank waits for the others; 0: for ever */
#define RRB_OPT_METHOD                300  /* which block waits for which */
#define RRB_OPT_OMEGA                 301  /* relaxation; 0: the method's own, 1, or 0.8 for block_jacobi */
#define RRB_OPT_STAGGER               302  /* 1: blocks shifted by floor(b/2) on odd sweeps of an apply (the first is
                                              even); 2: on even ones */
#define RRB_OPT_REVERSE               303  /* colours (chaotic: blocks) in reverse order, for post-smoothing */
#define RRB_OPT_BLOCK_SOLVER          304  /* auto: fast_diagonalization where sine transforms diagonalize the blocks
                                              without loss of digits, else dense; fast_diagonalization is refused
                                              where it loses more than four digits */
#define RRB_OPT_REMAINDER             305  /* blocks cut short by a patch's edge: solved as they are, or moved
                                              inwards, where they overlap others */
#define RRB_OPT_PARALLEL              306  /* what threads share: auto one list of all blocks of all patches;
                                              chaotic_gauss_seidel with patch is lexicographic in each patch */
#define RRB_OPT_PATCH_THREADS         307  /* groups of threads that share the patches of parallel = nested; 0:
                                              chosen */
#define RRB_OPT_TRANSFER              308  /* order of copies and kernels for patches that live on the host while a
                                              device relaxes them */
#define RRB_OPT_PRECONDITIONER        400  /* auto: multigrid, or amg where multigrid misses bubbles (sparse_: of cg
                                              ic0, or amg from 100,000 rows on where most off-diagonals are negative;
                                              of minres jacobi, else ilu0, jacobi where that has no pivot, none where
                                              a row has no diagonal); amg: multigrid by aggregation (sparse_: for
                                              cg); neumann: a truncated Neumann series of order; ic0, ric (relaxed):
                                              incomplete Cholesky without fill, on the CPU; ssor: of sor_omega; ilu0:
                                              incomplete LU without fill; chebyshev: a polynomial in D^-1 A of degree
                                              (also sparse_) */
#define RRB_OPT_ORDER                 401  /* terms of the Neumann series beside the first; 0: as jacobi (also
                                              sparse_) */
#define RRB_OPT_RIC_OMEGA             402  /* of ric: the part of dropped fill that is subtracted from the diagonal;
                                              0: ic0, 1: modified */
#define RRB_OPT_DEFLATION             403  /* regions with a deflation vector each: boxes of cells, the caller's
                                              regions (else components of strong couplings), or the parts of these in
                                              boxes; auto: by the matrix */
#define RRB_OPT_SUBDOMAINS_X          404  /* boxes in x, at most nx; 0: chosen */
#define RRB_OPT_SUBDOMAINS_Y          405  /* boxes in y, at most ny; 0: chosen */
#define RRB_OPT_SUBDOMAINS_Z          406  /* boxes in z, at most nz; 0: chosen */
#define RRB_OPT_KEEP_ALL              407  /* 1: where singular, all vectors with a shifted coarse matrix; 0: without
                                              that of a region of weak couplings */
#define RRB_OPT_COARSE_SOLVER         408  /* of the coarse matrix; auto: inverse up to 1024 vectors, on a device up
                                              to 4096, else cholesky; cg: inner CG, on the CPU */
#define RRB_OPT_COARSE_TOL            409  /* relative, of coarse_solver = cg */
#define RRB_OPT_COARSENING            410  /* of multigrid; vertex: every second cell, operator-dependent transfer,
                                              Galerkin; cell: pairs of cells, constant transfer, down to 64 cells at
                                              most, as published; auto: cell where couplings of a direction are weak,
                                              down to 1000 cells at most, else vertex */
#define RRB_OPT_SWEEPS                411  /* of multigrid before and after a coarse grid; 0: chosen */
#define RRB_OPT_DILATION              412  /* layers of cells by which regions of levelset grow; -1: 1 for the
                                              caller's, 0 for those found */
#define RRB_OPT_LEADING_PLANE         413  /* values from one plane of the caller's arrays to the next, at least ny *
                                              leading_dimension; 0: that many */
#define RRB_OPT_SOLVER                500  /* the method; auto: jacobi of a diagonal, cg where symmetric with a
                                              positive diagonal (minres where that breaks down), minres where
                                              symmetric, else idr; the text shorthands jcbi, gs, gssor are jacobi,
                                              gauss_seidel, sor */
#define RRB_OPT_FORMAT                502  /* how the matrix is stored for products; auto: the one of diagonal, dia,
                                              bsr, sell and csr that moves the fewest bytes */
#define RRB_OPT_ORDERING              503  /* of the rows in a sweep of gauss_seidel and sor: as they are, by colours
                                              (of A + A', first fit), in blocks that take old values of the others,
                                              or forward and back */
#define RRB_OPT_SOR_OMEGA             504  /* relaxation of jacobi, sor and ssor, below 2; 0: the method's own, 1
                                              (sor: 1.25) */
#define RRB_OPT_BLOCKS                505  /* blocks of ordering = blocks; 0: 16 */
#define RRB_OPT_BLOCK_SIZE            506  /* rows and columns of a block of bsr; 0: those of 2 to 6 and 8 that take
                                              the fewest bytes */
#define RRB_OPT_SLICE                 507  /* rows of a slice of sell (C); 0: 8 */
#define RRB_OPT_SIGMA                 508  /* rows of sell that are sorted by length together; 0: 256 where that
                                              saves bytes, else 1, unsorted */
#define RRB_OPT_RESTART               509  /* vectors of gmres between restarts */
#define RRB_OPT_SHADOW                510  /* dimension s of the shadow space of idr */
#define RRB_OPT_SHIFT                 511  /* s of ic0, which factorizes A + s diag(A); below 0: 0, or where a pivot
                                              is not positive the first of 1e-3, 2e-3, 4e-3, .. without one */
#define RRB_OPT_DEGREE                513  /* of the polynomial of chebyshev */
#define RRB_OPT_TRANSPOSE             514  /* how bicg multiplies with A': by a copy, or without one; auto: by a copy
                                              unless that is above format_memory */
#define RRB_OPT_DIVERGENCE_LIMIT      515  /* a residual above this times its reference, or the first one where that
                                              is larger, ends a solve; 0: 1e10, or 1e100 of jacobi, gauss_seidel and
                                              sor */
#define RRB_OPT_FORMAT_MEMORY         516  /* bytes that the arrays of a format other than csr may take */

/* Results: keys of get. */
#define RRB_INFO_ITERATIONS             1000  /* iterations of the last solve (smoother_: sweeps of the last apply) */
#define RRB_INFO_STOP_REASON            1001  /* why the last solve ended; smoother_: monitor where a callback
                                                 stopped the last apply, else none */
#define RRB_INFO_INITIAL_RESIDUAL       1002  /* relative, in the tested norm, of the guess; smoother_: 1, known
                                                 where the last apply had a monitor, else refused */
#define RRB_INFO_FINAL_RESIDUAL         1003  /* relative, in the tested norm, of x; recomputed as b - A x when a
                                                 solve ends, other than by a guess that stays; smoother_: as the
                                                 monitor was told last, refused where the last apply had none */
#define RRB_INFO_SECONDS_SETUP          1004  /* wall time of the last factorize (smoother_: set_patches; sparse_: or
                                                 making of a format by a product) */
#define RRB_INFO_SECONDS_SOLVE          1005  /* wall time of the last solve (smoother_: apply) */
#define RRB_INFO_SECONDS_TRANSFER       1006  /* of that, copies between host and device (not sparse_) */
#define RRB_INFO_BYTES_HOST             1007  /* host memory of the handle */
#define RRB_INFO_BYTES_DEVICE           1008  /* device memory of the handle (not sparse_) */
#define RRB_INFO_LAMBDA_MIN             1009  /* smallest eigenvalue of M^-1 A seen by the last solve (Lanczos); 0
                                                 before two iterations, and but for cg (not smoother_) */
#define RRB_INFO_LAMBDA_MAX             1010  /* largest eigenvalue of M^-1 A seen by the last solve; 0 before two
                                                 iterations, and but for cg (not smoother_) */
#define RRB_INFO_BACKEND                1011  /* the one in use */
#define RRB_INFO_DEVICE                 1012  /* CUDA ordinal in use, -1: none (not sparse_) */
#define RRB_INFO_THREADS                1013  /* threads in use */
#define RRB_INFO_CUDA_KERNELS           1014  /* 1: this build of the library has CUDA kernels; 0: it was built with
                                                 RRBSOLVER_CUDA=off (not sparse_) */
#define RRB_INFO_LEVELS                 1100  /* red eliminations in use; with cycle=aggregation its coarse levels */
#define RRB_INFO_PRECISION              1101  /* the one in use (also dpcg_, sparse_) */
#define RRB_INFO_CYCLE                  1102  /* the one in use; with k, and aggregation on the CPU, M changes with r */
#define RRB_INFO_COMPONENTS             1103  /* connected components of two nodes or more (also dpcg_) */
#define RRB_INFO_SINGULAR_COMPONENTS    1104  /* of those, singular ones (also dpcg_) */
#define RRB_INFO_COMPENSATED_COUPLINGS  1105  /* positive couplings moved to the diagonals of M */
#define RRB_INFO_GRIDS                  1106  /* r1/r2/b1/b2 grids in use */
#define RRB_INFO_AGGREGATES_KEPT        1108  /* of cycle=aggregation or amg: aggregates of all levels that the last
                                                 factorize kept; 0: they are new (also dpcg_, sparse_) */
#define RRB_INFO_MESSAGES_SENT          1110  /* messages that this rank has sent in the last call, a collective one
                                                 counted once */
#define RRB_INFO_BYTES_SENT             1111  /* bytes of these messages */
#define RRB_INFO_BLOCK_SOLVER           1200  /* the one in use */
#define RRB_INFO_BLOCK_INVERSES         1201  /* different blocks whose inverses are held */
#define RRB_INFO_GHOST_COPIES           1202  /* boxes of ghost cells copied between patches before a sweep */
#define RRB_INFO_CELLS                  1203  /* cells of all patches */
#define RRB_INFO_PRECONDITIONER         1300  /* the one in use (also sparse_) */
#define RRB_INFO_AUTO_REASON            1301  /* why auto took what is in use, the first that holds; crowded: more
                                                 components of strong couplings than multigrid sees and deflation
                                                 takes, or some hidden by flat cells, amg; anisotropic: couplings of
                                                 a direction are weak, coarsening is cell; labels: of the caller,
                                                 deflated; contrast: couplings of one direction are too far apart;
                                                 thin: a component of strong couplings is a few cells across; plain:
                                                 nothing of these; asked: preconditioner, coarsening and deflation
                                                 were given */
#define RRB_INFO_DEFLATION              1302  /* the one in use */
#define RRB_INFO_COARSENING             1303  /* the one in use; auto: no multigrid is */
#define RRB_INFO_COARSE_SOLVER          1304  /* the one in use; auto: nothing is deflated */
#define RRB_INFO_DEFLATION_VECTORS      1305  /* deflation vectors in use */
#define RRB_INFO_REGIONS                1306  /* regions found, before those without a vector are left out */
#define RRB_INFO_STRONG_COMPONENTS      1307  /* components of two cells or more that are joined by strong couplings */
#define RRB_INFO_NEUMANN_ROW_SUM        1308  /* of neumann: largest row sum of |L D^-1|; below 1 the series
                                                 converges whatever its order */
#define RRB_INFO_SECONDS_DEFLATION      1309  /* of the last factorize: regions, coarse matrix and its factor */
#define RRB_INFO_SECONDS_COARSE         1310  /* of the last solve: systems with the coarse matrix */
#define RRB_INFO_SECONDS_ITERATIONS     1311  /* of the last solve: iterations of CG */
#define RRB_INFO_ROWS                   1400  /* rows of the matrix */
#define RRB_INFO_COLS                   1401  /* columns of the matrix */
#define RRB_INFO_NONZEROS               1402  /* entries of the matrix, given zeros too */
#define RRB_INFO_STORED                 1403  /* values of the format in use, padding too; 0 before the first product */
#define RRB_INFO_FORMAT                 1404  /* the one in use; auto: no product yet */
#define RRB_INFO_SOLVER                 1405  /* the method in use, after a solve that of its end; auto: no factorize
                                                 yet */
#define RRB_INFO_SYMMETRIC              1407  /* 1: |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|), or 1e-12 of the largest
                                                 of row i where that is 0; 0: not so */
#define RRB_INFO_DOMINANCE              1408  /* of the diagonal over the other entries of a row */
#define RRB_INFO_ZERO_DIAGONALS         1409  /* rows with a zero or no entry on the diagonal */
#define RRB_INFO_EMPTY_ROWS             1410  /* rows without entries */
#define RRB_INFO_DUPLICATES             1411  /* entries given at a place that had one, which were added */
#define RRB_INFO_COLOURS                1412  /* colours of ordering = multicolour */
#define RRB_INFO_SWEEP_LEVELS           1413  /* levels of pieces of rows that do not wait for each other, in a sweep
                                                 or a triangular solve; 1 by one thread */
#define RRB_INFO_SHIFT                  1414  /* of ic0 in use */
#define RRB_INFO_BYTES_PER_NONZERO      1415  /* of the format in use, with x and y, which a product moves; 0 before
                                                 the first product */
#define RRB_INFO_LONGEST_ROW            1416  /* entries of the longest row */
#define RRB_INFO_FILE_RHS               1417  /* right-hand sides of the file that was read */
#define RRB_INFO_TRIANGLE               1418  /* where the matrix has entries beside the diagonal: lower or upper
                                                 alone may be half of a symmetric one, of which both halves are to be
                                                 given */

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
 * One matrix with its preconditioner and deflation vectors. One thread at a time; different handles are independent.
 */
typedef struct dpcg_handle dpcg_handle;

/**
 * One matrix with its factorization. One thread at a time; different handles are independent.
 */
typedef struct rrb_handle rrb_handle;

/**
 * One stencil and block size, with patches. One thread at a time; different handles are independent.
 */
typedef struct smoother_handle smoother_handle;

/**
 * A matrix. One thread at a time; different handles are independent.
 */
typedef struct sparse_handle sparse_handle;

/**
 * Status of a call: 0 done, positive finished with a caveat, negative failed.
 */
typedef int32_t rrb_status;

/**
 * Receives log lines; `level` is 0 for complaints, 1 for a line a solve, 2 for a line an iteration.
 */
typedef void (*rrb_log_fn)(void *user, int32_t level, const char *message);

/**
 * A message that is sent to a rank and one that comes from it; either may be empty.
 */
typedef struct {
    /**
     * The other rank.
     */
    int32_t peer;
    /**
     * Both sides have the same; one message a peer and tag goes each way in an exchange.
     */
    int32_t tag;
    /**
     * 0: nothing is sent.
     */
    int64_t send_bytes;
    /**
     * 0: nothing comes.
     */
    int64_t receive_bytes;
    /**
     * What is sent.
     */
    const void *send;
    /**
     * Where it comes to.
     */
    void *receive;
} rrbsolver_message;

/**
 * Messages between the ranks of a domain. `exchange`, `allreduce` and `allgather` make plans of what `start` does
 * again and again on the same memory, `test` answers whether it is done, without waiting, and `release` frees a plan,
 * also one that is not done, without waiting. All ranks start the plans of the latter two in the same order; they may
 * be made at different times, so that making one waits for nobody. Functions answer 0, or another number where they
 * fail. One thread at a time calls them, that which called the library. The library keeps a copy; `context` stays
 * alive until all handles made with it are destroyed.
 */
typedef struct {
    /**
     * `sizeof(rrbsolver_comm)`.
     */
    int64_t struct_size;
    /**
     * The first argument of all functions.
     */
    void *context;
    /**
     * This rank, from 0.
     */
    int32_t rank;
    /**
     * Ranks.
     */
    int32_t size;
    /**
     * 0. Later: 1: takes device pointers, 2: `start` enqueues on the stream.
     */
    int32_t flags;
    /**
     * 0.
     */
    int32_t reserved;
    /**
     * `count` messages; the list is read by this call, the memory by each start.
     */
    int32_t (*exchange)(void *context, int64_t count, const rrbsolver_message *messages, void **plan);
    /**
     * `count` doubles of every rank in place; `operation`: 0 sum, 1 largest, 2 smallest; any order.
     */
    int32_t (*allreduce)(void *context, int64_t count, double *values, int32_t operation, void **plan);
    /**
     * `bytes[rank]` of every rank, one behind the other in `receive`; `bytes` is read by this call.
     */
    int32_t (*allgather)(void *context, const void *send, void *receive, const int64_t *bytes, void **plan);
    /**
     * `cuda_stream`: NULL for memory of the host.
     */
    int32_t (*start)(void *context, void *plan, void *cuda_stream);
    /**
     * `done`: 0 or 1.
     */
    int32_t (*test)(void *context, void *plan, int32_t *done);
    /**
     * Frees a plan.
     */
    int32_t (*release)(void *context, void *plan);
} rrbsolver_comm;

/**
 * Called before each sweep with its number and the arrays of all patches: fills the ghost cells that no patch covers;
 * nonzero stops.
 */
typedef int32_t (*smoother_ghost_fn)(void *user, int32_t sweep, double *const *u);

/**
 * Called after every iteration with the tested relative residual, from iteration 0; nonzero stops.
 */
typedef int32_t (*rrb_monitor_fn)(void *user, int64_t iteration, double relative_residual);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a handle for matrices on nx x ny x nz cells, with the default options and those of `RRBSOLVER_OPTIONS`; nx *
 * ny * nz is at most 2^32 - 1. Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`. Cost: none worth naming;
 * memory for the matrix is taken at `dpcg_factorize`.
 *
 * Required:
 * `out` must be NULL or point to a pointer.
 */
rrb_status dpcg_create(int64_t nx, int64_t ny, int64_t nz, dpcg_handle **out);

/**
 * The caller's deflation regions, for `deflation=levelset` and `levelset_subdomain`: cells with the same label, 0 and
 * up, are one region, such as one bubble; -1: in none. Gaps and labels without cells are legal; a label across
 * connected components of the matrix is split. `labels` is in the memory of the host, whatever `memory` is, in the
 * layout of the other arrays: (nz - 1) * lp + (ny - 1) * ld + nx values, read; padding is not. The labels are copied,
 * and act at the next `dpcg_factorize`: until then `dpcg_solve` answers `RRB_ERR_STATE`. NULL: none again, and regions
 * are found from the strong couplings of the matrix. Errors: `RRB_ERR_NULL` (the handle), `RRB_ERR_ARGUMENT` (a label
 * below -1, by its place; labels at no multiple of 4 bytes or on a device), `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`, all
 * with the regions as they were. How many there are is asked where they are used: a `dpcg_factorize` that deflates by
 * labels (`deflation` auto, levelset or levelset_subdomain) refuses more than 65,535 regions with `RRB_ERR_ARGUMENT`;
 * one with `deflation=none` or `subdomain` leaves labels aside.
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`; `labels` must be NULL or have the size named.
 */
rrb_status dpcg_set_regions(dpcg_handle *h, const int32_t *labels);

/**
 * Copies the coefficients, and makes the preconditioner M, the deflation vectors Z and E = Z^T A Z. The matrix has 7
 * points; couplings are usually negative, conductances between cells. Entries that point outside the grid are ignored:
 * where some are neither zero nor NaN, a log line says so, once a handle, and `check_input=2` refuses them. Padding is
 * not read. Cells that are no part of the problem (solid) are rows with zero couplings and a positive center. Host
 * arrays of (nz - 1) * lp + (ny - 1) * ld + nx values, read; ld and lp are nx and ny * ld unless `leading_dimension`
 * and `leading_plane` say otherwise. Afterwards, or after a failure, the handle holds the new matrix or none. auto
 * takes by the matrix what is the same for any number of threads and any backend (but for the solver of E, and
 * multigrid for amg with `backend=reference`, which has none); results such as `RRB_INFO_PRECONDITIONER`,
 * `RRB_INFO_DEFLATION`, `RRB_INFO_COARSENING` and `RRB_INFO_AUTO_REASON` tell what is in use, and why. Errors:
 * `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (an array at no multiple of 8 bytes, more boxes than cells, more than 65,535
 * deflation regions, couplings out of the grid), `RRB_ERR_UNSUPPORTED` (`preconditioner=ic0` or `ric`, or
 * `coarse_solver=cg`, on a device, amg on as many cells as 32 bits do not count couplings of, and what this build
 * lacks), `RRB_ERR_MATRIX` (a center that is not positive, a lost pivot, such as that of `ric_omega=1` on a singular
 * matrix), `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY`. A second call reuses memory. Source: Tang, Nabben, Vuik and
 * Erlangga, J. Sci. Comput. 39 (2009), 340-370, for deflated CG; van der Vorst, SIAM J. Sci. Stat. Comput. 3 (1982),
 * 350-356, for truncated Neumann series; Dendy, J. Comput. Phys. 48 (1982), 366-386, for multigrid; Napov and Notay,
 * SIAM J. Sci. Comput. 34 (2012), A1079-A1109, for amg.
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
 * Solves A x = b by deflated preconditioned CG. `x` is the initial guess on entry and the solution on return; `b` is
 * not written. Stops when norm(b - A x) <= max(rel_tol * reference, abs_tol), of the caller's matrix, not of the
 * deflated one. b = 0 gives x = 0 at once; a guess that meets the test is returned in 0 iterations. On singular
 * components b is projected and x keeps the guess's mean. Returns `RRB_OK`, `RRB_NOT_CONVERGED`, `RRB_STOPPED`;
 * errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of 8 bytes), `RRB_ERR_STATE`,
 * `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too small), `RRB_ERR_BREAKDOWN`,
 * `RRB_ERR_INCOMPATIBLE`, all with x as given. x and the test are in double precision whatever `precision` is. Takes
 * no memory, starts no thread; on a device, pageable arrays of the host get buffers and threads with the first solve
 * that has them (docs/gpu.md). Source: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370.
 *
 * Required:
 * `h` must be NULL or come from `dpcg_create`; the arrays must be NULL or hold (nz - 1) * lp + (ny - 1) * ld + nx
 * values.
 */
rrb_status dpcg_solve(dpcg_handle *h, const double *b, double *x);

/**
 * z = M^-1 r, for a foreign Krylov loop; with deflation z = (P^T M^-1 P + Z E^-1 Z^T) r, P = I - A Z E^-1 Z^T. A fixed
 * symmetric positive definite matrix (on the complement of the null space where singular: r and z are projected), to
 * the rounding of `precision` and, with `coarse_solver=cg`, to `coarse_tol`; with amg it changes with r: take a
 * flexible method. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (as for `dpcg_solve`), `RRB_ERR_STATE`,
 * `RRB_ERR_NOT_FINITE`, `RRB_ERR_RANGE` (z too small for a double).
 *
 * Required:
 * As for `dpcg_solve`.
 */
rrb_status dpcg_apply(dpcg_handle *h, const double *r, double *z);

/**
 * y = A x with the matrix of the last `dpcg_factorize`, not deflated. Errors as for `dpcg_apply`.
 *
 * Required:
 * As for `dpcg_solve`.
 */
rrb_status dpcg_multiply(dpcg_handle *h, const double *x, double *y);

/**
 * The one-line replacement of an ICCG call: creates, factorizes, solves to `rel_tol` in at most `max_iter` iterations,
 * frees. Arrays are dense, a[(k*ny + j)*nx + i]; x must overlap none of the others. `iterations` may be NULL. Statuses
 * and errors of `dpcg_create`, `dpcg_factorize` and `dpcg_solve`.
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
 * Version of the library, such as "0.1.0". The text lives as long as the program.
 */
const char *rrbsolver_version(void);

/**
 * Name and meaning of a status. The text lives as long as the program; an unknown number has one too.
 */
const char *rrbsolver_status_string(rrb_status status);

/**
 * The sentence of this thread's last failing call, node indices counted from 0. Writes at most `capacity` bytes,
 * always ended by NUL if `capacity` > 0, and returns the bytes needed, NUL included; 1 means that no call failed.
 * `buffer` may be NULL with `capacity` 0.
 *
 * Required:
 * `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error(char *buffer, int64_t capacity);

/**
 * As `rrbsolver_last_error`, with node indices counted from `index_base`: 1 for Fortran.
 *
 * Required:
 * `buffer` must have room for `capacity` bytes.
 */
int64_t rrbsolver_last_error_based(int32_t index_base, char *buffer, int64_t capacity);

/**
 * Number of CUDA devices; 0 without a driver, and in a build without kernels. Errors: `RRB_ERR_NULL`.
 *
 * Required:
 * `count` must be NULL or point to an `int32_t`.
 */
rrb_status rrbsolver_cuda_device_count(int32_t *count);

/**
 * Sets (or with NULL removes) the function that receives log lines of all handles whose option `log` is `callback`. It
 * may be called from any thread that uses the library, from several at the same time, but on one thread never inside
 * another call of itself: lines of library calls that it makes are dropped. It must not use the handle that is
 * solving. When this call returns, the former function does not run and will not be called again: calls that other
 * threads are in are waited for, so the caller must hold no lock that the former function wants. Only from inside a
 * log function nothing is waited for.
 */
rrb_status rrbsolver_set_log(rrb_log_fn callback, void *user);

/**
 * Makes a handle for matrices on nx x ny nodes, with the default options and those of `RRBSOLVER_OPTIONS`. Errors:
 * `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`. Cost: none worth naming; memory for the matrix is taken at
 * `rrb_factorize`.
 *
 * Required:
 * `out` must be NULL or point to a pointer.
 */
rrb_status rrb_create(int64_t nx, int64_t ny, rrb_handle **out);

/**
 * Copies the coefficients and factorizes M = L D L^T = A - R. With `northeast` and `northwest` NULL the stencil has 5
 * points. Entries that point outside the grid are ignored: where some are neither zero nor NaN, a log line says so,
 * once a handle, and `check_input=2` refuses them. Padding is not read. Host arrays of (ny - 1) * ld + nx values,
 * read. Afterwards, or after a failure, the handle holds the new matrix or none. M is stored in the format
 * `precision`, A in double precision. auto: bf16 from 16384 points on, where the centers differ by at most 1e6 and
 * `lumping` and `relaxation` are the defaults, else f64; and f64 where a pivot is lost in bf16. mixed: M in bf16 and,
 * where CG runs on 5 points of a regular system on the CPU, its vectors in single precision with residual replacement
 * in double; else, and on a device, taken as bf16. `cycle`: v applies the levels once, amli and k solve the coarse
 * systems by `cycle_steps` iterations every `cycle_spacing` levels. auto: amli where estimated eigenvalues say that
 * this pays, else v; v on fewer than 16384 points, on singular systems and with other `lumping` or `relaxation`. What
 * auto came to by trying, v or f64, holds for the matrices after it until an option of the choice changes: a new
 * handle tries again. aggregation: multigrid by aggregation in place of the levels, in f32 (auto) or f64; the options
 * of the levels have no effect beside it, which a log line says once; aggregates of the matrix before are kept where
 * each still does (`RRB_INFO_AGGREGATES_KEPT`; on the CPU), which takes two thirds of the time. A solve that turns out
 * slow with auto goes over to it (`rrb_solve`), and so do the matrices after it. `RRB_INFO_PRECISION` and
 * `RRB_INFO_CYCLE` tell what is in use. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (an array at no multiple of 8
 * bytes, odd `cycle_spacing`, recursions that take the work of more than 100 V-cycles, couplings out of the grid),
 * `RRB_ERR_UNSUPPORTED` (`cycle=k` on a device, aggregation with bf16, mixed or `backend=reference`, and what this
 * build lacks), `RRB_ERR_MATRIX` (also a pivot below the range of a `precision` asked for), `RRB_ERR_NOT_FINITE`,
 * `RRB_ERR_MEMORY`. Cost: about 40 flops a point; for amli besides 6 to 16 applications of M on coarse grids of a
 * sixteenth of the points and less. A second call reuses all memory, but where it needs another format or cycle (auto:
 * a singular matrix after a regular one, a contrast beyond 1e6) or knows more pieces of land and closed basins. Arrays
 * of two kinds stay; matrices of more kinds in turn take memory at each change. Where auto took amli and a matrix
 * comes for which it takes v, the levels and the exact factor of v are made anew, once. Source: report 16-06, section
 * 2.2.
 *
 * Required:
 * `h` must be NULL or come from `rrb_create`; the arrays must be NULL or have the size named.
 */
rrb_status rrb_factorize(rrb_handle *h,
                         const double *center,
                         const double *east,
                         const double *north,
                         const double *northeast,
                         const double *northwest);

/**
 * Solves A x = b by RRB-PCG. `x` is the initial guess on entry and the solution on return; `b` is not written. Stops
 * when norm(b - A x) <= max(rel_tol * reference, abs_tol). b = 0 gives x = 0 at once; a guess that meets the test is
 * returned in 0 iterations. On singular components b is projected and x keeps the guess's mean. With M in single
 * precision or shorter a guess of max |x| > 1e15 max |b| / max center counts as zero. Returns `RRB_OK`,
 * `RRB_NOT_CONVERGED`, `RRB_STOPPED`; errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of
 * 8 bytes), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too
 * small), `RRB_ERR_BREAKDOWN`, `RRB_ERR_INCOMPATIBLE`, all with x as given. x and the test are in double precision
 * whatever `precision` is. Where a cycle that `cycle=auto` chose turns out to be indefinite, the solve goes on with v,
 * and so do later ones until the next `rrb_factorize`. Takes no memory and starts no thread, but where `cycle=auto`
 * turns out slow (`norm=true2`, `precision` auto, f64 or f32): from the 16th iteration on, on a device the 32nd, a
 * solve may go over to aggregation, where that promises less work, once as long as the options of the choice hold,
 * with about 150 bytes a point (400 with 9 points; 400 and 800 on a device) while it is made, if that is at most
 * `switch_memory`; and over many ranks, where `precision=auto` took mixed and conjugate gradients in single precision
 * stagnate: the solve then factorizes anew for those in double and goes on, as matrices to come are factorized until
 * an option of the choice changes. That takes the memory of a factorization and, on one rank alone, 24 bytes a point
 * meanwhile; where it is refused the solve ends as stagnated. On a device, pageable arrays of the host get buffers and
 * threads with the first solve that has them (docs/gpu.md). Cost of an iteration: 48 to 122 bytes of memory traffic
 * per unknown with 5 points and fused stages (docs/performance.md has the counts), two waits for all threads and two
 * per shared grid, more with recursion. Source: report 16-06, algorithms 1 and 3.
 *
 * Required:
 * `h` must be NULL or come from `rrb_create`; the arrays must be NULL or hold (ny - 1) * ld + nx values.
 */
rrb_status rrb_solve(rrb_handle *h, const double *b, double *x);

/**
 * z = M^-1 r, for a foreign Krylov loop; symmetric and positive definite (on the complement of the null space where
 * singular: r and z are projected). With `cycle=v` and amli a fixed matrix, to the rounding of the sweeps: double
 * precision, and single with `precision` f32, bf16 or mixed; with aggregation too, whose coarse systems are solved
 * here with fixed coefficients. With `cycle=k` not linear in r: for flexible methods only. Errors: `RRB_ERR_NULL`,
 * `RRB_ERR_ARGUMENT` (as for `rrb_solve`), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE`, `RRB_ERR_RANGE` (z too small for a
 * double). Source: report 16-06, section 2.6.
 *
 * Required:
 * As for `rrb_solve`.
 */
rrb_status rrb_apply(rrb_handle *h, const double *r, double *z);

/**
 * y = A x with the matrix of the last `rrb_factorize`. Errors as for `rrb_apply`.
 *
 * Required:
 * As for `rrb_solve`.
 */
rrb_status rrb_multiply(rrb_handle *h, const double *x, double *y);

/**
 * The one-line replacement of an ICCG call: creates, factorizes, solves to `rel_tol` in at most `max_iter` iterations,
 * frees. Arrays have ld = nx; x must overlap none of the others. `iterations` may be NULL. Statuses and errors of
 * `rrb_create`, `rrb_factorize` and `rrb_solve`.
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
 * Makes a handle for matrices on nx x ny nodes of which this rank has `count` boxes: in x the nodes from `lower[k][0]`
 * on, counted from 0, `size[k][0]` of them, and so in y. Boxes of all ranks are disjoint; points in no box are land,
 * and no coupling leads there. With one box `rrb_factorize`, `rrb_solve`, `rrb_apply` and `rrb_multiply` take its
 * arrays, (size y - 1) * ld + size x values; with none their arrays are not read, and may be NULL; for more there are
 * `rrb_factorize_boxes` and so on. `east[i, j]` belongs to the owner of (i, j) and may lead into another box. This
 * call and those are collective: all ranks make them in the same order with the same options (but threads, verbosity,
 * log, leading_dimension, memory, device, comm_timeout), and all get the same status and sentence; where one refuses a
 * call, so do all, and on the others the sentence begins with the first rank that does; a rank whose table is not
 * whole alone cannot tell them. Arrays of boxes lie apart from one another. Indices are those of the whole grid. A
 * monitor may be set on some ranks; one that stops, stops all. x and the history have the same bits for any boxes on
 * any number of ranks with any number of threads: those of `rrb_create` where `cycle` is v, amli or k, `precision` is
 * given and nothing is singular. The first grids are shared in strips of whole rows, with some 13 rows of the
 * neighbours; those of less than 4096 nodes, and with `cycle=aggregation` or `levels=2` all, every rank has whole.
 * `cycle=auto` chooses between v and amli; where `precision=auto` takes mixed and that stagnates, the solve goes on
 * with bf16. `backend=cuda`: the first rank solves, on its `device` or its `devices`, with the bits of `rrb_create`
 * there. The others bring it their boxes and take them back: where the arrays of all are of cudaMalloc, on devices of
 * its host, it copies from and to them, once the stream of `rrb_set_stream` has made their values; else they go
 * through the host, in memory that all ranks have where they are processes of one host, else by messages. It has
 * memory for the rows of all where they go, on the first device, on the host, and `comm_timeout` must be longer than
 * what it does takes. `comm` is copied; what its `context` means must live as long as the handle. Errors:
 * `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_ARGUMENT` (a box outside of the grid, overlap, other extents than on
 * rank 0, no box at all, a table that is not whole), `RRB_ERR_MEMORY`, and as for all collective calls
 * `RRB_ERR_COMMUNICATION`: a rank has waited for the others for more than `comm_timeout`, or `comm` reports a failure;
 * the handle may then only be destroyed, which does not wait. Cost of an iteration beside that of `rrb_create`: an
 * exchange a shared grid, three gathers (docs/distributed.md).
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
 * `rrb_factorize` for the boxes of this rank: of each array a list with one for each box, in the order of
 * `rrb_create_distributed`, whose rows lie leading_dimensions[k] values apart; NULL: as many as a row has. `northeast`
 * and `northwest` are NULL with 5 points. Errors: those of `rrb_factorize` and of collective calls; `RRB_ERR_STATE`
 * for a handle of `rrb_create`.
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
 * `rrb_solve` for the boxes of this rank, as `rrb_factorize_boxes` is `rrb_factorize`.
 *
 * Required:
 * As for `rrb_factorize_boxes`.
 */
rrb_status rrb_solve_boxes(rrb_handle *h, const int64_t *leading_dimensions, const double *const *b, double *const *x);

/**
 * `rrb_apply` for the boxes of this rank, as `rrb_factorize_boxes` is `rrb_factorize`.
 *
 * Required:
 * As for `rrb_factorize_boxes`.
 */
rrb_status rrb_apply_boxes(rrb_handle *h, const int64_t *leading_dimensions, const double *const *r, double *const *z);

/**
 * `rrb_multiply` for the boxes of this rank, as `rrb_factorize_boxes` is `rrb_factorize`.
 *
 * Required:
 * As for `rrb_factorize_boxes`.
 */
rrb_status rrb_multiply_boxes(rrb_handle *h,
                              const int64_t *leading_dimensions,
                              const double *const *x,
                              double *const *y);

/**
 * Makes a smoother for a stencil of 7 points (center, west, east, south, north, bottom, top) or 27 (the 3x3x3 cube, x
 * fastest), (A u)[c] = sum over k of stencil[k] u[c + offset k], and blocks of bx x by x bz cells, 1 to 8 a side. The
 * values are copied. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (other point counts, blocks above 8),
 * `RRB_ERR_DIMENSION` (a block side below 1), `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY`. Cost: none worth naming; blocks
 * are inverted at `smoother_set_patches`.
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
 * Takes a list of `count` patches, cells lower .. lower + size - 1 each, all of one level. Blocks are cut at multiples
 * of the block size of the global index and end at the patches' edges; inverses of new shapes are computed, those
 * there are stay, so that a call after regridding is cheap. Finds which patch has whose ghost cells. 0 patches are
 * allowed. Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION` (a size below 1, too large), `RRB_ERR_ARGUMENT` (patches
 * overlap), `RRB_ERR_MATRIX` (a singular block, by its place), `RRB_ERR_UNSUPPORTED`
 * (`block_solver=fast_diagonalization` for a stencil or blocks for which it is not, or what this build lacks),
 * `RRB_ERR_NO_DEVICE`, `RRB_ERR_MEMORY`. After an error the handle has no patches. Cost: for dense blocks 2 n^3 flops
 * per shape of n cells.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `lower` and `size` must be NULL or hold `count` triples.
 */
rrb_status smoother_set_patches(smoother_handle *h, int64_t count, const int64_t (*lower)[3], const int64_t (*size)[3]);

/**
 * `sweeps` sweeps of the chosen method on all patches: u is the iterate, in and out; f is not written. Before each
 * sweep ghost cells that other patches cover are read from them, and the ghost function fills the others: cells get
 * what they get by an exchange after each sweep. When the call ends ghost cells are those that its last sweep read:
 * `smoother_exchange` fills them anew, and the next call does so itself. With u and f NULL the patches of
 * `smoother_upload` are relaxed. Returns `RRB_OK`, or `RRB_STOPPED` where the ghost function or the monitor asked.
 * Errors: `RRB_ERR_NULL` (of a table, of a patch), `RRB_ERR_ARGUMENT` (sweeps < 0; arrays overlap, or lie at no
 * multiple of 8 bytes), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (with `check_input`, one more pass over u and f; cells,
 * not ghosts; and a residual for the monitor that is too large for a double: u is then as the sweeps before have left
 * it), `RRB_ERR_UNSUPPORTED` (`remainder=overlap` where blocks would race), `RRB_ERR_DEVICE`. With `backend=cuda` the
 * arrays are on the handle's device or on the host, all of a call in one space (else `RRB_ERR_ARGUMENT`); those on the
 * host travel in groups beside the work (`transfer`). Takes no memory, but for the device's copies of host arrays at
 * the first such call; starts no thread. Cost of a sweep: 24 bytes of memory traffic a cell in place, 32 for Jacobi; 8
 * x 8 x 8 blocks about 35 flops a cell. 0 sweeps check the input and call the monitor once. Source: Rodriguez et al.,
 * algorithms 1 to 3.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or hold a pointer per patch, each NULL or
 * to (nx+2)(ny+2)(nz+2) and nx*ny*nz values.
 */
rrb_status smoother_apply(smoother_handle *h, double *const *u, const double *const *f, int32_t sweeps);

/**
 * Ghost cells of u that another patch of the list covers are read from it; nothing else is written. With u NULL the
 * patches of `smoother_upload`. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap), `RRB_ERR_STATE`.
 *
 * Required:
 * As for `smoother_apply`.
 */
rrb_status smoother_exchange(smoother_handle *h, double *const *u);

/**
 * Sets (or with NULL removes) the function that fills ghost cells which no patch covers: called on the calling thread
 * before each sweep, after the exchange between patches, with the number of the sweep from 0 and the arrays as they
 * are at that time (those of the call, or the library's own where Jacobi alternates; device pointers where the call's
 * are); what it starts on a device must be on the stream of `smoother_set_stream`, or done when it returns. Arrays of
 * the host travel back and forth for it. Nonzero ends the call with `RRB_STOPPED`. Where a residual is computed
 * instead of a sweep, the number is -1. It must write ghost cells only and must not use this handle. Errors:
 * `RRB_ERR_NULL`.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `callback` must accept `user` until it is replaced.
 */
rrb_status smoother_set_ghost_fill(smoother_handle *h, smoother_ghost_fn callback, void *user);

/**
 * r = f - A u with fresh ghost cells (exchange and ghost function), which are written into u, and `norm2`, its 2-norm
 * over all patches, the same bits for any number of threads, at any scale: squares that pass the range of a double are
 * scaled, in a second pass. No other value of u is written. r may be NULL, and norm2 too. With u and f NULL the
 * patches of `smoother_upload`. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; r on the host beside patches of
 * `smoother_upload` on a device), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (a norm too large for a double; with
 * `check_input` also NaN and infinity in u and f, by their place). Returns `RRB_STOPPED` where the ghost function
 * asked. Cost: 16 bytes a cell, 24 with r.
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
 * Copies u and f into memory of the library, on the device or, with a CPU backend, on the host, where they stay
 * between calls: `smoother_apply` and the others then take NULL. Called again, it takes new values; u or f may be NULL
 * to leave what is there. u and f are only read: patches may share an array. The copies end with
 * `smoother_set_patches`. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`, `RRB_ERR_MEMORY`.
 *
 * Required:
 * As for `smoother_apply`.
 */
rrb_status smoother_upload(smoother_handle *h, const double *const *u, const double *const *f);

/**
 * Copies the library's u, ghost cells included, into the caller's. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`.
 *
 * Required:
 * As for `smoother_apply`.
 */
rrb_status smoother_download(smoother_handle *h, double *const *u);

/**
 * The library's arrays of `smoother_upload`, one pointer a patch, for kernels of the caller: device pointers, or host
 * pointers with a CPU backend. They live until the next `smoother_set_patches` or `smoother_destroy`. u or f may be
 * NULL. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`.
 *
 * Required:
 * `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or have room for a pointer per patch.
 */
rrb_status smoother_device_pointers(smoother_handle *h, double **u, double **f);

/**
 * Makes a handle with a matrix that is given by rows: entries k = row_ptr[i] .. row_ptr[i + 1] - 1 of row i are in
 * column `col[k]` with the value `values[k]`. Pointers and columns are integers of 4 or 8 bytes (`index_bytes`) that
 * count from `base`, 0 or 1. Any order within a row is taken; values given at one place are added, in the order given;
 * zeros stay, as entries of the pattern. 0 rows or columns are legal. All is copied: 12 bytes an entry and 8 a row (16
 * an entry where rows or columns are 2^31 and more), and 8 an entry where the order is another: a megabyte and more of
 * that is sorted by as many threads as `threads = 0` means. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (pointers that
 * do not begin with base, ascend, and end with nnz + base, a column that is not in the matrix, by its place;
 * `index_bytes`, `base`), `RRB_ERR_DIMENSION`, `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY`.
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
 * The same by columns: entries k = col_ptr[j] .. col_ptr[j + 1] - 1 of column j are in row `row[k]`.
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
 * The same by entries, in any order: entry k is in row `row[k]` and column `col[k]`.
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
 * The same from the arrays of a storage format, `RRB_FORMAT_COO` and so on, as docs/sparse.md lists them and
 * `sparse_arrays` writes them: `sizes` has the lengths of i0, i1, i2 and values; places count from 0. What
 * `sparse_arrays` wrote makes the same matrix again, bit for bit; only zeros of bsr, dia, ell, sell, skyline and
 * diagonal are padding, and are no entries. Errors: as for `sparse_create_csr`; `RRB_ERR_DIMENSION` where lengths do
 * not fit each other.
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
 * Makes a handle with the matrix of a file: MatrixMarket (coordinate or array; real, integer or pattern; general,
 * symmetric or skew-symmetric), Harwell-Boeing or Rutherford-Boeing (assembled, real, integer or pattern), as it is or
 * in gz; what it is, its first bytes say. Of a triangle the whole matrix is made. Right-hand sides, guesses and
 * solutions of a Harwell-Boeing file are kept for `sparse_get_vector`; right-hand sides in a Rutherford-Boeing file of
 * their own are a matrix with a column for each. A text of a megabyte and more is read, and its entries sorted, by as
 * many threads as `threads = 0` means. Errors: `RRB_ERR_NULL`, `RRB_ERR_IO`, `RRB_ERR_PARSE`, `RRB_ERR_NOT_FINITE`,
 * `RRB_ERR_UNSUPPORTED` (complex, elemental), `RRB_ERR_MEMORY`; the sentence has the path, the line and the reason.
 * Memory: at most 32 times the text, and 1 MB, and 8 bytes a row.
 *
 * Required:
 * `path` must be NULL or end with NUL; `out` must be NULL or point to a pointer.
 */
rrb_status sparse_read(const char *path, sparse_handle **out);

/**
 * Writes the matrix to a file: `RRB_FILE_MTX` (MatrixMarket), `RRB_FILE_HB` (Harwell-Boeing) or `RRB_FILE_RB`
 * (Rutherford-Boeing), in gz where the name ends with .gz. Values have the fewest digits that read back to the same
 * bits; a matrix that is symmetric to the last bit is written as its lower triangle. A file of that name is replaced
 * when the new one is whole, and stays as it is where something fails. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT`,
 * `RRB_ERR_IO`, `RRB_ERR_MEMORY`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `path` must be NULL or end with NUL.
 */
rrb_status sparse_write(const sparse_handle *h, const char *path, int32_t file_format);

/**
 * A vector that came with the matrix in a file: which is `RRB_VECTOR_RHS`, `RRB_VECTOR_GUESS` or
 * `RRB_VECTOR_SOLUTION`, k its number from 0. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (there is none of that
 * number).
 *
 * Required:
 * `h` must be NULL or a handle of this family; `v` must be NULL or have room for as many values as rows.
 */
rrb_status sparse_get_vector(const sparse_handle *h, int32_t which, int64_t k, double *v);

/**
 * New values of all entries, as many and in the order in which they were given to `sparse_create_csr`,
 * `sparse_create_csc` or `sparse_create_coo`; in the order of csr, `RRB_INFO_NONZEROS` many, where the matrix came
 * from a file or from arrays with padding. The next product makes its format anew. Errors: `RRB_ERR_NULL`,
 * `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY` (values given at one place are added in an array of their own), all with the
 * values as they were.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `values` must be NULL or hold the values named.
 */
rrb_status sparse_set_values(sparse_handle *h, const double *values);

/**
 * The lengths of the arrays of a format for this matrix, `RRB_FORMAT_COO` and so on: of i0, i1, i2 and values. The
 * options `block_size`, `slice` and `sigma` count. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (no such format, or an
 * entry that diagonal does not have, by its place), `RRB_ERR_DIMENSION` (skyline of a rectangle), `RRB_ERR_MEMORY`
 * (above `format_memory`, with the bytes).
 *
 * Required:
 * `h` must be NULL or a handle of this family; `sizes` must be NULL or have room for four integers.
 */
rrb_status sparse_sizes(const sparse_handle *h, int32_t format, int64_t *sizes);

/**
 * The arrays of a format, as docs/sparse.md lists them, with places that count from 0. Errors as for `sparse_sizes`,
 * and `RRB_ERR_ARGUMENT` where arrays overlap.
 *
 * Required:
 * `h` must be NULL or a handle of this family; the arrays must be NULL or have room for the lengths of `sparse_sizes`,
 * with the options as they were then.
 */
rrb_status sparse_arrays(const sparse_handle *h, int32_t format, int64_t *i0, int64_t *i1, int64_t *i2, double *values);

/**
 * Checks a square matrix and makes what a solve needs: the format of products, the preconditioner, vectors. What
 * `auto` takes, `RRB_INFO_SOLVER`, `RRB_INFO_PRECONDITIONER` and `RRB_INFO_FORMAT` tell; with `verbosity=1` a line
 * does. A second call, as after `sparse_set_values`, reuses memory. Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION` (a
 * rectangle, no rows), `RRB_ERR_MATRIX` (an empty row or column; a matrix that is not symmetric where `solver` or
 * `preconditioner` needs it, with an entry; a row without diagonal where they divide by it; a pivot of ic0 with a
 * given `shift`, or of ilu0), `RRB_ERR_UNSUPPORTED` (methods that take no such preconditioner: amg goes with cg),
 * `RRB_ERR_ARGUMENT` (an entry that diagonal does not have; `sor_omega=2`), `RRB_ERR_MEMORY`. Cost: a few products,
 * and the factorization of ic0 or ilu0. Source: docs/sparse.md.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status sparse_factorize(sparse_handle *h);

/**
 * Solves A x = b by the method of `sparse_factorize`. `x` is the initial guess on entry and the solution on return;
 * `b` is not written; both have as many values as rows. Stops when norm(b - A x) <= max(rel_tol * reference, abs_tol)
 * in the 2-norm, of a residual that is computed from x, not recurred. b = 0 gives x = 0 at once. Returns `RRB_OK`,
 * `RRB_NOT_CONVERGED` (`RRB_INFO_STOP_REASON`: max_iter, stagnated, or diverged with x as given), `RRB_STOPPED`;
 * errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of 8 bytes), `RRB_ERR_STATE`,
 * `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too small), `RRB_ERR_BREAKDOWN` (cg
 * of an indefinite matrix), all with x as given. Takes no memory, starts no thread. Source: docs/sparse.md.
 *
 * Required:
 * `h` must be NULL or a handle of this family; the arrays must be NULL or hold as many values as rows.
 */
rrb_status sparse_solve(sparse_handle *h, const double *b, double *x);

/**
 * z = M^-1 r with the preconditioner of `sparse_factorize`, for a foreign Krylov loop; that of amg changes with r:
 * take a flexible method. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (as for `sparse_solve`), `RRB_ERR_STATE`,
 * `RRB_ERR_UNSUPPORTED` (a `solver` that sweeps), `RRB_ERR_NOT_FINITE`, `RRB_ERR_RANGE` (z too small for a double).
 *
 * Required:
 * As for `sparse_solve`.
 */
rrb_status sparse_apply(sparse_handle *h, const double *r, double *z);

/**
 * y = A x, with x of as many values as columns and y of as many as rows, by the threads of `threads` (coo, jds, tjds
 * and skyline: by one). The first product, and the first after new values or another `format`, makes the format;
 * `sparse_factorize` does, too. x must not overlap y. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an entry
 * that diagonal does not have), `RRB_ERR_DIMENSION` (skyline of a rectangle), `RRB_ERR_NOT_FINITE` (x, with
 * `check_input`), `RRB_ERR_MEMORY`, all with y as it was. Cost: what `RRB_INFO_BYTES_PER_NONZERO` tells of memory
 * traffic, 2 flops a stored value.
 *
 * Required:
 * `h` must be NULL or a handle of this family; the arrays must be NULL or hold the values named.
 */
rrb_status sparse_multiply(sparse_handle *h, const double *x, double *y);

/**
 * y = A' x, with x of as many values as rows and y of as many as columns; else as `sparse_multiply`. Beside it up to
 * 64 bytes a column, kept (docs/sparse.md).
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
 * - A child process must not use handles that were created before a fork. The call then frees no memory.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status rrb_destroy(rrb_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists keys, ranges and the time when each option takes effect.
 *
 * After a change that acts at factorize, `rrb_factorize` must come before the next solve.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is set as text only.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed, for example of the residual history for a larger `max_iter`.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A real option accepts a whole value, too.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is not a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A subnormal value is usually a 4-byte real that was passed where 8 bytes are expected.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
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
 * - `text` (in): UTF-8 text with NUL at its end; names, ranges and choices as on the options page.
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
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - The last of two entries with the same name wins.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a real or text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - Results of calls that were not made are 0. `RRB_INFO_DEVICE` is then -1.
 * - The value of an option includes the changes by `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status rrb_get_int(const rrb_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result; integers are converted.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * Results of calls that were not made are 0.
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
 * - A stream of another device or context is reported by the next call that computes, as `RRB_ERR_DEVICE`.
 * - The caller must synchronize other streams that write the arrays of a call, the default stream included.
 * - Replace a stream by this call before destroying it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status rrb_set_stream(rrb_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `rrb_solve` calls it after each iteration, and once before the first one with iteration 0. It receives the residual
 * of the stopping test, relative to its reference.
 *
 * ||f - A u||_2 relative to its value before the first sweep.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): passed to the monitor unchanged; may be NULL.
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
 * - It must not use this handle. It must not let a C++ exception escape or unwind in another way.
 * - Over ranks the monitor may be set on some ranks. One that stops, stops the solve on all ranks.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status rrb_set_monitor(rrb_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that iterated.
 *
 * The values are the residuals of the stopping test in the last solve, from iteration 0.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL with `capacity` 0.
 * - `capacity` (in): room in `residuals`, at least 0.
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
 * The handle holds at most `max_iter` + 1 values, and at most 1,000,000.
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
 * - A child process must not use handles that were created before a fork. The call then frees no memory.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status smoother_destroy(smoother_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists keys, ranges and the time when each option takes effect.
 *
 * After a change that acts at set_patches, `smoother_set_patches` must come before the next apply.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is set as text only.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed, for example of the residual history for a larger `max_iter`.
 * - `RRB_ERR_MATRIX`: a block of the shifted partition of `stagger` is singular.
 * - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A real option accepts a whole value, too.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - `stagger` and `block_jacobi` need more block inverses or a second array. They are computed in this call.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is not a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A subnormal value is usually a 4-byte real that was passed where 8 bytes are expected.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
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
 * - `text` (in): UTF-8 text with NUL at its end; names, ranges and choices as on the options page.
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
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - The last of two entries with the same name wins.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a real or text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - Results of calls that were not made are 0. `RRB_INFO_DEVICE` is then -1.
 * - The value of an option includes the changes by `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status smoother_get_int(const smoother_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result; integers are converted.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_STATE`: `RRB_INFO_INITIAL_RESIDUAL` or `RRB_INFO_FINAL_RESIDUAL`, and the last apply had no monitor and
 *   `verbosity` was below 2. No other call computes them.
 *
 * Notes:
 * Results of calls that were not made are 0.
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
 * - `RRB_ERR_DEVICE`: the stream belongs to another device or context. The previous stream remains.
 *
 * Notes:
 * - The caller must synchronize other streams that write the arrays of a call, the default stream included.
 * - Replace a stream by this call before destroying it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status smoother_set_stream(smoother_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `smoother_apply` calls it after each sweep, and once before the first one with sweep 0. It receives
 *
 * ||f - A u||_2 relative to its value before the first sweep.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): passed to the monitor unchanged; may be NULL.
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
 * - It must not use this handle. It must not let a C++ exception escape or unwind in another way.
 * - A monitor costs one pass over u and f per sweep, with exchanged and filled ghost cells. The ghost cells therefore
 *   hold the values after the last sweep. Without a monitor they hold those that the last sweep read.
 * - An apply of 0 sweeps calls the monitor once.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status smoother_set_monitor(smoother_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that iterated.
 *
 * The values are those that the monitor received in the last apply, from sweep 0.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL with `capacity` 0.
 * - `capacity` (in): room in `residuals`, at least 0.
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
 * The handle holds at most 100,000 values.
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
 * - A child process must not use handles that were created before a fork. The call then frees no memory.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status dpcg_destroy(dpcg_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists keys, ranges and the time when each option takes effect.
 *
 * After a change that acts at factorize, `dpcg_factorize` must come before the next solve.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is set as text only.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed, for example of the residual history for a larger `max_iter`.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A real option accepts a whole value, too.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is not a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A subnormal value is usually a 4-byte real that was passed where 8 bytes are expected.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
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
 * - `text` (in): UTF-8 text with NUL at its end; names, ranges and choices as on the options page.
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
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - The last of two entries with the same name wins.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a real or text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - Results of calls that were not made are 0. `RRB_INFO_DEVICE` is then -1.
 * - The value of an option includes the changes by `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status dpcg_get_int(const dpcg_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result; integers are converted.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * Results of calls that were not made are 0.
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
 * - A stream of another device or context is reported by the next call that computes, as `RRB_ERR_DEVICE`.
 * - The caller must synchronize other streams that write the arrays of a call, the default stream included.
 * - Replace a stream by this call before destroying it.
 *
 * Required:
 * `h` must be NULL or a handle of this family.
 */
rrb_status dpcg_set_stream(dpcg_handle *h, void *cuda_stream);

/**
 * Sets or removes the monitor, a callback that observes the residual and may stop the call.
 *
 * `dpcg_solve` calls it after each iteration, and once before the first one with iteration 0. It receives the residual
 * of the stopping test, relative to its reference.
 *
 * ||f - A u||_2 relative to its value before the first sweep.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): passed to the monitor unchanged; may be NULL.
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
 * - It must not use this handle. It must not let a C++ exception escape or unwind in another way.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status dpcg_set_monitor(dpcg_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that iterated.
 *
 * The values are the residuals of the stopping test in the last solve, from iteration 0.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL with `capacity` 0.
 * - `capacity` (in): room in `residuals`, at least 0.
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
 * The handle holds at most `max_iter` + 1 values, and at most 1,000,000.
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
 * - A child process must not use handles that were created before a fork. The call then frees no memory.
 *
 * Required:
 * `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
 */
rrb_status sparse_destroy(sparse_handle **h);

/**
 * Sets an integer option or a choice.
 *
 * The options page lists keys, ranges and the time when each option takes effect.
 *
 * After a change that acts at factorize, `sparse_factorize` must come before the next solve.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `key` (in): one of the constants `RRB_OPT_<NAME>`.
 * - `value` (in): the new value; for a choice one of the constants `RRB_<OPTION>_<CHOICE>`.
 *
 * Returns:
 * `RRB_OK`.
 *
 * Errors:
 * - `RRB_ERR_NULL`: `h` is NULL.
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is set as text only.
 * - `RRB_ERR_ARGUMENT`: the value is out of range.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed, for example of the residual history for a larger `max_iter`.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A real option accepts a whole value, too.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - Options that act at the next product make that product convert the matrix again.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, is read-only, or is not a real option.
 * - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 * - `RRB_ERR_MEMORY`: allocation failed.
 *
 * After an error all options keep their values.
 *
 * Notes:
 * - A subnormal value is usually a 4-byte real that was passed where 8 bytes are expected.
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
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
 * - `text` (in): UTF-8 text with NUL at its end; names, ranges and choices as on the options page.
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
 * - `RRBSOLVER_OPTIONS` is applied again after the change and overrides it.
 * - The last of two entries with the same name wins.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a real or text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * - Results of calls that were not made are 0. `RRB_INFO_DEVICE` is then -1.
 * - The value of an option includes the changes by `RRBSOLVER_OPTIONS`.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
 */
rrb_status sparse_get_int(const sparse_handle *h, int32_t key, int64_t *value);

/**
 * Reads a real option or result; integers are converted.
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
 * - `RRB_ERR_OPTION`: the key is unknown, belongs to another family, or is that of a text value.
 * - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
 *
 * Notes:
 * Results of calls that were not made are 0.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `value` must be NULL or point to a `double`.
 */
rrb_status sparse_get_real(const sparse_handle *h, int32_t key, double *value);

/**
 * Sets the CUDA stream of the handle.
 *
 * The call has no effect: this family computes on the CPU.
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
 * `sparse_solve` calls it after each iteration, and once before the first one with iteration 0. It receives the
 * residual of the stopping test, relative to its reference.
 *
 * ||f - A u||_2 relative to its value before the first sweep.
 *
 * Parameters:
 * - `h` (in/out): the handle.
 * - `callback` (in): the monitor; a nonzero return value stops the call with `RRB_STOPPED`. NULL removes the monitor.
 * - `user` (in): passed to the monitor unchanged; may be NULL.
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
 * - It must not use this handle. It must not let a C++ exception escape or unwind in another way.
 *
 * Required:
 * `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
 */
rrb_status sparse_set_monitor(sparse_handle *h, rrb_monitor_fn callback, void *user);

/**
 * Copies the relative residuals of the last call that iterated.
 *
 * The values are the residuals of the stopping test in the last solve, from iteration 0.
 *
 * Parameters:
 * - `h` (in): the handle.
 * - `residuals` (out): receives the first min(`capacity`, `count`) values; may be NULL with `capacity` 0.
 * - `capacity` (in): room in `residuals`, at least 0.
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
 * The handle holds at most `max_iter` + 1 values, and at most 1,000,000.
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
