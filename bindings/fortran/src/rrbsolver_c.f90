! Constants and C functions of rrbsolver.h. The C functions of each family are in a separate module. There, for example,
! rrb_solve is named c_solve. Only the binding uses these modules. Programs use the module rrbsolver.
! Generated from the sources of the library; do not edit.

module rrbsolver_constants
   use, intrinsic :: iso_c_binding, only: c_int32_t
   implicit none
   private

   ! Statuses. 0 means success, positive values mean success with a caveat, and negative values mean failure.
   ! success
   integer(c_int32_t), parameter, public :: RRB_OK                = 0_c_int32_t
   ! the tolerance was not reached; x is the last iterate or an earlier iterate with a smaller residual;
   ! rrbsolver_last_error gives the reason
   integer(c_int32_t), parameter, public :: RRB_NOT_CONVERGED     = 1_c_int32_t
   ! a callback stopped the call; x (in smoother_, u) is the current iterate
   integer(c_int32_t), parameter, public :: RRB_STOPPED           = 2_c_int32_t
   ! a required pointer is NULL
   integer(c_int32_t), parameter, public :: RRB_ERR_NULL          = -1_c_int32_t
   ! an argument is out of range, or arrays overlap
   integer(c_int32_t), parameter, public :: RRB_ERR_ARGUMENT      = -2_c_int32_t
   ! a size is too small, sizes are inconsistent, or the product of sizes is too large
   integer(c_int32_t), parameter, public :: RRB_ERR_DIMENSION     = -3_c_int32_t
   ! the key or name of an option, the key of a result, or a choice is unknown
   integer(c_int32_t), parameter, public :: RRB_ERR_OPTION        = -4_c_int32_t
   ! the order of calls is wrong; call factorize (in smoother_, set_patches) first
   integer(c_int32_t), parameter, public :: RRB_ERR_STATE         = -5_c_int32_t
   ! the call is not supported by this build, backend or method
   integer(c_int32_t), parameter, public :: RRB_ERR_UNSUPPORTED   = -6_c_int32_t
   ! a center or pivot is not positive, or a block is singular; sparse_ also returns this status if the matrix is not
   ! symmetric or a row is empty
   integer(c_int32_t), parameter, public :: RRB_ERR_MATRIX        = -20_c_int32_t
   ! an input array contains NaN or infinity, or a result overflows
   integer(c_int32_t), parameter, public :: RRB_ERR_NOT_FINITE    = -21_c_int32_t
   ! the matrix or the preconditioner is indefinite; x is unchanged
   integer(c_int32_t), parameter, public :: RRB_ERR_BREAKDOWN     = -22_c_int32_t
   ! the system is singular, and its right-hand side has a component in the null space
   integer(c_int32_t), parameter, public :: RRB_ERR_INCOMPATIBLE  = -23_c_int32_t
   ! a result underflows
   integer(c_int32_t), parameter, public :: RRB_ERR_RANGE         = -24_c_int32_t
   ! there is not enough memory, or a memory limit is exceeded
   integer(c_int32_t), parameter, public :: RRB_ERR_MEMORY        = -30_c_int32_t
   ! there is no CUDA driver or no CUDA device
   integer(c_int32_t), parameter, public :: RRB_ERR_NO_DEVICE     = -40_c_int32_t
   ! the CUDA driver reported an error
   integer(c_int32_t), parameter, public :: RRB_ERR_DEVICE        = -41_c_int32_t
   ! a file cannot be read or written
   integer(c_int32_t), parameter, public :: RRB_ERR_IO            = -50_c_int32_t
   ! a file or text cannot be parsed
   integer(c_int32_t), parameter, public :: RRB_ERR_PARSE         = -51_c_int32_t
   ! another rank is missing or late; x is unchanged, and the only valid call with the handle is destroy
   integer(c_int32_t), parameter, public :: RRB_ERR_COMMUNICATION = -60_c_int32_t
   ! internal error, which is a bug in this library
   integer(c_int32_t), parameter, public :: RRB_ERR_INTERNAL      = -99_c_int32_t

   ! Keys of the options, for rrb_set_int, rrb_get_int and similar functions.
   ! Backend that runs the solver. `cpu` runs on the CPU, and `cuda` runs on a CUDA device. `reference` is a simple
   ! backend for tests, which runs on the CPU with one thread. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_BACKEND             = 100_c_int32_t
   ! ordinal of the CUDA device that the handle uses
   integer(c_int32_t), parameter, public :: RRB_OPT_DEVICE              = 101_c_int32_t
   ! Number of threads. With 0, the library reads the environment variables RRBSOLVER_NUM_THREADS, SLURM_CPUS_PER_TASK
   ! and OMP_NUM_THREADS in this order. The first variable that is set to a positive number determines the number of
   ! threads. If there is no such variable, the library uses one thread per core in the affinity mask of the process.
   integer(c_int32_t), parameter, public :: RRB_OPT_THREADS             = 102_c_int32_t
   ! Memory space of the caller's arrays. With `auto`, the library queries the CUDA driver for the memory space of each
   ! array.
   integer(c_int32_t), parameter, public :: RRB_OPT_MEMORY              = 103_c_int32_t
   ! Relative tolerance. A solve has converged when norm(b - A x) <= max(rel_tol * R, abs_tol), where R is the norm that
   ! the option `reference` selects. This option is not available in smoother_.
   integer(c_int32_t), parameter, public :: RRB_OPT_REL_TOL             = 104_c_int32_t
   ! absolute tolerance of the stopping test, in the unit of the residual norm (see `rel_tol`) (not in smoother_)
   integer(c_int32_t), parameter, public :: RRB_OPT_ABS_TOL             = 105_c_int32_t
   ! Largest number of iterations per solve. With 0, a solve only computes the residual of the initial guess. This
   ! option is not available in smoother_.
   integer(c_int32_t), parameter, public :: RRB_OPT_MAX_ITER            = 106_c_int32_t
   ! Norm of the stopping test. `true2` is the 2-norm of the residual r = b - A x. `preconditioned` is sqrt(r' M^-1 r).
   ! For each singular component, this norm subtracts the mean m of r from r and adds the sum of m^2 / center under the
   ! root. With deflation, `preconditioned` uses the deflated residual and subtracts no mean. This option is not
   ! available in smoother_ and sparse_.
   integer(c_int32_t), parameter, public :: RRB_OPT_NORM                = 107_c_int32_t
   ! Norm by which residual norms are divided to obtain relative residuals. `rhs` selects the norm of b. In rrb_ and
   ! dpcg_, the means of b over singular components are first subtracted from b. If CG runs on the first Schur
   ! complement S1, `norm=preconditioned` also reduces b to S1. `initial` selects the norm of the initial residual. This
   ! option is not available in smoother_.
   integer(c_int32_t), parameter, public :: RRB_OPT_REFERENCE           = 108_c_int32_t
   ! Connected components that are treated as singular. With `auto`, these are the components with |row sum| <= 1e-12 *
   ! center in every row. With `none`, no component is treated as singular. With `constant`, all components are treated
   ! as singular and must have |row sum| <= 1e-6 * center. This option is not available in smoother_ and sparse_.
   integer(c_int32_t), parameter, public :: RRB_OPT_NULL_SPACE          = 109_c_int32_t
   ! Checks of input arrays. With 0, input arrays are not checked. With 1, NaN and infinity are errors, and nonzero
   ! couplings to nodes outside the grid are logged once per handle. With 2, these couplings are also errors. In
   ! smoother_ and sparse_, 2 has the effect of 1. For any value, sparse_ checks the matrix entries.
   integer(c_int32_t), parameter, public :: RRB_OPT_CHECK_INPUT         = 110_c_int32_t
   ! Check of b on each singular component, before the mean of b is subtracted. With 0, b is not checked. With 1, |sum
   ! b| > 1e-10 ||b||_1 is an error. This option is not available in smoother_ and sparse_.
   integer(c_int32_t), parameter, public :: RRB_OPT_CHECK_COMPATIBILITY = 111_c_int32_t
   ! Log lines that the library writes. 0 selects only warnings. 1 adds one line per solve (in smoother_, per apply). In
   ! sparse_, 1 also adds one line per factorize. 2 adds one line per iteration (in smoother_, per sweep).
   integer(c_int32_t), parameter, public :: RRB_OPT_VERBOSITY           = 112_c_int32_t
   ! Destination of log lines: `callback` (see rrbsolver_set_log), `stderr`, or the path of a file. The library appends
   ! lines to this file. The path must not contain blanks or commas.
   integer(c_int32_t), parameter, public :: RRB_OPT_LOG                 = 113_c_int32_t
   ! Number of elimination levels. With 0, the number depends on the grid size. Values above the maximum are reduced to
   ! the maximum.
   integer(c_int32_t), parameter, public :: RRB_OPT_LEVELS              = 200_c_int32_t
   ! memory limit, in bytes, for the exact factor of the coarsest system
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSE_MEMORY       = 201_c_int32_t
   ! Number of grids that are stored by colour in the arrays r1, r2, b1 and b2. With 0, the number depends on the grid
   ! size. Values above the maximum are reduced to the maximum.
   integer(c_int32_t), parameter, public :: RRB_OPT_GRIDS               = 202_c_int32_t
   ! row padding and border width of the arrays r1, r2, b1 and b2, in values
   integer(c_int32_t), parameter, public :: RRB_OPT_COMPUTE_BLOCK       = 203_c_int32_t
   ! Nodes whose dropped couplings are lumped into the diagonal. `m1` selects the red nodes, and `m2` selects the red
   ! and black nodes. In the text of rrb_set_options, `m1u` and `m2u` also set `relaxation=0`, and `m1m` and `m2m` also
   ! set `relaxation=1`.
   integer(c_int32_t), parameter, public :: RRB_OPT_LUMPING             = 204_c_int32_t
   ! relaxation factor omega, the fraction of each dropped coupling that is added to the diagonal
   integer(c_int32_t), parameter, public :: RRB_OPT_RELAXATION          = 205_c_int32_t
   ! Fusion of the stages of an iteration. With `on`, the stages are fused if the backend supports fusion. With `off`,
   ! the solver uses the unfused reference formulation. This option is also available in dpcg_.
   integer(c_int32_t), parameter, public :: RRB_OPT_FUSION              = 206_c_int32_t
   ! Treatment of positive off-diagonal entries in M. With `always`, these entries are moved to the diagonal. With
   ! `never`, these entries are unchanged. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_COMPENSATION        = 207_c_int32_t
   ! Precision in which the preconditioner is stored. For regular 5-point systems on the CPU, `mixed` selects bf16 for
   ! the preconditioner and single precision for CG. For other systems, `mixed` has the effect of `bf16`. In sparse_,
   ! `single` stores the matrix and the vectors in f32, too; it requires a device and a `rel_tol` of at least 1e-5. For
   ! `auto`, see the rules of `auto`. This option is also available in dpcg_ and sparse_.
   integer(c_int32_t), parameter, public :: RRB_OPT_PRECISION           = 208_c_int32_t
   ! Cycle of the preconditioner. `v` is the V-cycle of RRB. `amli` and `k` are recursive cycles of RRB. `aggregation`
   ! selects multigrid by aggregation instead of RRB. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_CYCLE               = 209_c_int32_t
   ! Number of levels between the recursions of a recursive cycle. The number must be even; 0 means 4.
   integer(c_int32_t), parameter, public :: RRB_OPT_CYCLE_SPACING       = 210_c_int32_t
   ! number of inner iterations per recursion of a recursive cycle
   integer(c_int32_t), parameter, public :: RRB_OPT_CYCLE_STEPS         = 211_c_int32_t
   ! Memory limit, in bytes, for the aggregation cycle. The limit applies if `cycle=auto` selects aggregation at
   ! factorize or during a slow solve. -1 means no limit. With 0, `auto` never selects aggregation.
   integer(c_int32_t), parameter, public :: RRB_OPT_SWITCH_MEMORY       = 213_c_int32_t
   ! Distance, in values, between consecutive rows of the caller's arrays. The distance must be at least nx; 0 means nx.
   ! This option is also available in dpcg_.
   integer(c_int32_t), parameter, public :: RRB_OPT_LEADING_DIMENSION   = 212_c_int32_t
   ! Ordinals of up to eight CUDA devices that share the rows of large grids, such as 0+1+2. With `none`, the solver
   ! uses one device, which the option `device` selects.
   integer(c_int32_t), parameter, public :: RRB_OPT_DEVICES             = 220_c_int32_t
   ! Reproducibility of results on several ranks. With 1, results are bitwise identical for any number of ranks. With 0,
   ! results are bitwise identical only for equal numbers of ranks, but global sums need less communication.
   integer(c_int32_t), parameter, public :: RRB_OPT_REPRODUCIBLE        = 218_c_int32_t
   ! time in seconds for which a rank waits for other ranks; 0 means no limit
   integer(c_int32_t), parameter, public :: RRB_OPT_COMM_TIMEOUT        = 219_c_int32_t
   ! relaxation method: coloured block Gauss-Seidel, block Jacobi, or chaotic block Gauss-Seidel
   integer(c_int32_t), parameter, public :: RRB_OPT_METHOD              = 300_c_int32_t
   ! relaxation factor; 0 means 0.8 for `block_jacobi` and 1 for the other methods
   integer(c_int32_t), parameter, public :: RRB_OPT_OMEGA               = 301_c_int32_t
   ! Sweeps of smoother_apply in which the blocks are shifted by floor(b / 2) cells, where b is the block size. 0
   ! selects no sweeps, 1 selects the even sweeps, and 2 selects the odd sweeps. Sweeps are counted from 1.
   integer(c_int32_t), parameter, public :: RRB_OPT_STAGGER             = 302_c_int32_t
   ! Order of the colours in a sweep. With 1, a sweep processes the colours in reverse order, for post-smoothing. With 1
   ! and `method=chaotic_gauss_seidel`, a sweep processes the blocks in reverse order.
   integer(c_int32_t), parameter, public :: RRB_OPT_REVERSE             = 303_c_int32_t
   ! Solver of the diagonal blocks. `fast_diagonalization` uses sine transforms; set_patches returns an error if the
   ! transforms would lose more than four digits. `dense` uses dense inverses. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_BLOCK_SOLVER        = 304_c_int32_t
   ! Treatment of blocks that extend beyond the edge of a patch. With `exact`, these blocks are solved as smaller
   ! blocks. With `overlap`, these blocks are moved inwards and overlap other blocks.
   integer(c_int32_t), parameter, public :: RRB_OPT_REMAINDER           = 305_c_int32_t
   ! Distribution of the work among the threads. With `auto`, all blocks of all patches are distributed. With `patch`,
   ! whole patches are distributed, and `chaotic_gauss_seidel` is lexicographic in each patch. With `block`, the blocks
   ! of one patch at a time are distributed. With `nested`, patches are distributed among groups of threads, and the
   ! blocks of a patch among the threads of a group.
   integer(c_int32_t), parameter, public :: RRB_OPT_PARALLEL            = 306_c_int32_t
   ! number of groups of threads with `parallel=nested`; 0 selects the number automatically
   integer(c_int32_t), parameter, public :: RRB_OPT_PATCH_THREADS       = 307_c_int32_t
   ! Order of copies and kernels if a device processes patches that are in host memory. With `depth_first`, the first
   ! sweep of a group of patches overlaps the transfer of the next group. With `breadth_first`, all patches are
   ! transferred before the first sweep. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_TRANSFER            = 308_c_int32_t
   ! Preconditioner. `neumann` is a Neumann series with `order` + 1 terms. `ic0` is incomplete Cholesky without fill; in
   ! dpcg_, it runs on the CPU only. `ric` is relaxed incomplete Cholesky without fill, which runs on the CPU only.
   ! `multigrid` is geometric multigrid. `amg` is multigrid by aggregation; in sparse_, it requires `solver=cg` or
   ! `steepest_descent`. `ssor` is symmetric SOR with the relaxation factor `sor_omega`. `ilu0` is incomplete LU without
   ! fill. `chebyshev` is a polynomial in D^-1 A; the option `degree` sets its degree. For `auto`, see the rules of
   ! `auto`. This option is also available in sparse_.
   integer(c_int32_t), parameter, public :: RRB_OPT_PRECONDITIONER      = 400_c_int32_t
   ! number of terms of the Neumann series after the first term; 0 has the effect of `preconditioner=jacobi` (also in
   ! sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_ORDER               = 401_c_int32_t
   ! Fraction of the dropped fill that `ric` subtracts from the diagonal. 0 has the effect of `ic0`. 1 selects modified
   ! incomplete Cholesky.
   integer(c_int32_t), parameter, public :: RRB_OPT_RIC_OMEGA           = 402_c_int32_t
   ! Deflation regions; each region has one deflation vector. `subdomain` selects boxes of cells. `levelset` selects the
   ! caller's regions or, if there are none, the components of strong couplings. `levelset_subdomain` splits the regions
   ! of `levelset` by boxes. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_DEFLATION           = 403_c_int32_t
   ! number of deflation boxes in x, at most nx; 0 selects the number automatically
   integer(c_int32_t), parameter, public :: RRB_OPT_SUBDOMAINS_X        = 404_c_int32_t
   ! number of deflation boxes in y, at most ny; 0 selects the number automatically
   integer(c_int32_t), parameter, public :: RRB_OPT_SUBDOMAINS_Y        = 405_c_int32_t
   ! number of deflation boxes in z, at most nz; 0 selects the number automatically
   integer(c_int32_t), parameter, public :: RRB_OPT_SUBDOMAINS_Z        = 406_c_int32_t
   ! Use of the deflation vectors if the system is singular. With 0, the vector of one region of weak couplings is
   ! omitted. With 1, all vectors are used, and the coarse matrix is shifted.
   integer(c_int32_t), parameter, public :: RRB_OPT_KEEP_ALL            = 407_c_int32_t
   ! Solver of systems with the coarse deflation matrix. `inverse` uses the explicit inverse. `cholesky` uses a Cholesky
   ! factorization. `cg` uses inner CG iterations and runs on the CPU only. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSE_SOLVER       = 408_c_int32_t
   ! relative tolerance of `coarse_solver=cg`
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSE_TOL          = 409_c_int32_t
   ! Coarsening of multigrid. `vertex` keeps every second cell; it uses operator-dependent interpolation and Galerkin
   ! coarse grids. `cell` joins pairs of cells; it uses constant interpolation and a coarsest grid of at most 64 cells.
   ! For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSENING          = 410_c_int32_t
   ! number of multigrid sweeps before and after each coarse-grid correction; 0 selects the number automatically
   integer(c_int32_t), parameter, public :: RRB_OPT_SWEEPS              = 411_c_int32_t
   ! Number of layers of cells by which each region of `levelset` is enlarged. -1 means 1 for the caller's regions and 0
   ! for components of strong couplings.
   integer(c_int32_t), parameter, public :: RRB_OPT_DILATION            = 412_c_int32_t
   ! Distance, in values, between consecutive planes of the caller's arrays. The distance must be at least ny *
   ! leading_dimension; 0 means ny * leading_dimension.
   integer(c_int32_t), parameter, public :: RRB_OPT_LEADING_PLANE       = 413_c_int32_t
   ! Iterative method. In the text of sparse_set_options, `jcbi`, `gs` and `gssor` are other names for `jacobi`,
   ! `gauss_seidel` and `sor`. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_SOLVER              = 500_c_int32_t
   ! storage format for products; for `auto`, see the rules of `auto`
   integer(c_int32_t), parameter, public :: RRB_OPT_FORMAT              = 502_c_int32_t
   ! Order of the rows in sweeps of `gauss_seidel` and `sor`, and in the preconditioners `ssor`, `ic0` and `ilu0`. With
   ! `natural`, the order is ascending. With `multicolour`, the rows are ordered by first-fit colours of A + A'; a
   ! preconditioner is then that of the permuted matrix, which has fewer levels of triangular solves, but usually needs
   ! more iterations. With `blocks`, the rows are divided into blocks, and each block uses the old values of the other
   ! blocks. With `symmetric`, a descending sweep follows each ascending sweep. The last two values affect sweeps only.
   integer(c_int32_t), parameter, public :: RRB_OPT_ORDERING            = 503_c_int32_t
   ! Relaxation factor of `jacobi`, `sor` and `ssor`, which must be below 2. 0 means 1.25 for `sor` and 1 for `jacobi`
   ! and `ssor`.
   integer(c_int32_t), parameter, public :: RRB_OPT_SOR_OMEGA           = 504_c_int32_t
   ! number of blocks with `ordering=blocks`; 0 means 16
   integer(c_int32_t), parameter, public :: RRB_OPT_BLOCKS              = 505_c_int32_t
   ! Number of rows and columns per block of `format=bsr`. With 0, the library tries the numbers 2 to 6 and 8, and uses
   ! the number with which the format needs the fewest bytes.
   integer(c_int32_t), parameter, public :: RRB_OPT_BLOCK_SIZE          = 506_c_int32_t
   ! number of rows per slice of `format=sell`, often called C in the literature; 0 means 8, and 32 for products on a
   ! device
   integer(c_int32_t), parameter, public :: RRB_OPT_SLICE               = 507_c_int32_t
   ! Number of rows per sorting window of `format=sell`. 0 means 256 if this number saves bytes, otherwise 1 (unsorted).
   ! For products on a device, 4096 replaces 256.
   integer(c_int32_t), parameter, public :: RRB_OPT_SIGMA               = 508_c_int32_t
   ! number of iterations of `gmres` between restarts
   integer(c_int32_t), parameter, public :: RRB_OPT_RESTART             = 509_c_int32_t
   ! dimension s of the shadow space of `idr`
   integer(c_int32_t), parameter, public :: RRB_OPT_SHADOW              = 510_c_int32_t
   ! Shift s of `ic0`, which factorizes A + s diag(A). With a negative value, `ic0` starts with s = 0 and continues with
   ! s = 1e-3, 2e-3, 4e-3, ... until all pivots are positive.
   integer(c_int32_t), parameter, public :: RRB_OPT_SHIFT               = 511_c_int32_t
   ! degree of the polynomial of `preconditioner=chebyshev`
   integer(c_int32_t), parameter, public :: RRB_OPT_DEGREE              = 513_c_int32_t
   ! Matrix for products of `bicg` with A'. `copy` uses a stored copy of A'. `none` uses A itself; on a device, an
   ! unsymmetric A must then have the format `dia` or `diagonal`. For `auto`, see the rules of `auto`.
   integer(c_int32_t), parameter, public :: RRB_OPT_TRANSPOSE           = 514_c_int32_t
   ! Factor of the divergence test. A solve has diverged when its residual norm exceeds this factor times max(R, initial
   ! residual norm), where R is the norm that the option `reference` selects. 0 means 1e100 for `jacobi`, `gauss_seidel`
   ! and `sor`, and 1e10 for the other methods.
   integer(c_int32_t), parameter, public :: RRB_OPT_DIVERGENCE_LIMIT    = 515_c_int32_t
   ! memory limit, in bytes, for the arrays of a format other than `csr`
   integer(c_int32_t), parameter, public :: RRB_OPT_FORMAT_MEMORY       = 516_c_int32_t

   ! Keys of the results, for rrb_get_int, rrb_get_real and similar functions.
   ! number of iterations of the last solve; in smoother_, number of sweeps of the last smoother_apply
   integer(c_int32_t), parameter, public :: RRB_INFO_ITERATIONS            = 1000_c_int32_t
   ! Reason why the last solve stopped. In smoother_, the value is RRB_STOP_REASON_MONITOR if a callback stopped the
   ! last smoother_apply, otherwise RRB_STOP_REASON_NONE.
   integer(c_int32_t), parameter, public :: RRB_INFO_STOP_REASON           = 1001_c_int32_t
   ! Relative residual of the initial guess, in the norm of the stopping test. In smoother_, the value is 1, but it is
   ! available only after a smoother_apply with a monitor or with `verbosity=2`.
   integer(c_int32_t), parameter, public :: RRB_INFO_INITIAL_RESIDUAL      = 1002_c_int32_t
   ! Relative residual of x in the norm of the stopping test, computed from b - A x at the end of the solve. In
   ! smoother_, the value is the relative residual after the last sweep. It is available only after a smoother_apply
   ! with a monitor or with `verbosity=2`.
   integer(c_int32_t), parameter, public :: RRB_INFO_FINAL_RESIDUAL        = 1003_c_int32_t
   ! Wall time, in seconds, of the last factorize (in smoother_, of the last smoother_set_patches). In sparse_, a
   ! product that converts the matrix to another format also sets this value, to the time of the conversion.
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_SETUP         = 1004_c_int32_t
   ! wall time, in seconds, of the last solve; in smoother_, wall time of the last smoother_apply
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_SOLVE         = 1005_c_int32_t
   ! Wall time, in seconds, of copies between host and device in the last solve, product or `sparse_set_values`. In a
   ! solve, this time is part of `seconds_solve`.
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_TRANSFER      = 1006_c_int32_t
   ! number of bytes of host memory that the handle uses
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_HOST            = 1007_c_int32_t
   ! number of bytes of device memory that the handle uses
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_DEVICE          = 1008_c_int32_t
   ! Smallest eigenvalue of M^-1 A, estimated in the last solve by the Lanczos method. 0 means that there is no
   ! estimate. In this case, the method is not `cg`, or fewer than two CG iterations had positive coefficients. This
   ! result is not available in smoother_.
   integer(c_int32_t), parameter, public :: RRB_INFO_LAMBDA_MIN            = 1009_c_int32_t
   ! largest eigenvalue of M^-1 A, estimated by the same method as `lambda_min` (not in smoother_)
   integer(c_int32_t), parameter, public :: RRB_INFO_LAMBDA_MAX            = 1010_c_int32_t
   ! backend in use
   integer(c_int32_t), parameter, public :: RRB_INFO_BACKEND               = 1011_c_int32_t
   ! ordinal of the CUDA device in use; -1 means that no device is in use
   integer(c_int32_t), parameter, public :: RRB_INFO_DEVICE                = 1012_c_int32_t
   ! number of threads in use
   integer(c_int32_t), parameter, public :: RRB_INFO_THREADS               = 1013_c_int32_t
   ! 1 if the library was built with CUDA kernels; 0 if the library was built with RRBSOLVER_CUDA=off
   integer(c_int32_t), parameter, public :: RRB_INFO_CUDA_KERNELS          = 1014_c_int32_t
   ! number of elimination levels in use; with `cycle=aggregation`, number of coarse levels
   integer(c_int32_t), parameter, public :: RRB_INFO_LEVELS                = 1100_c_int32_t
   ! precision in use (also in dpcg_ and sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_PRECISION             = 1101_c_int32_t
   ! Cycle in use. With `k`, M depends on the residual r. With `aggregation` on the CPU, M depends on r in rrb_solve,
   ! but not in rrb_apply.
   integer(c_int32_t), parameter, public :: RRB_INFO_CYCLE                 = 1102_c_int32_t
   ! number of connected components of the matrix that have at least two nodes (also in dpcg_)
   integer(c_int32_t), parameter, public :: RRB_INFO_COMPONENTS            = 1103_c_int32_t
   ! number of singular components of the matrix that have at least two nodes (also in dpcg_)
   integer(c_int32_t), parameter, public :: RRB_INFO_SINGULAR_COMPONENTS   = 1104_c_int32_t
   ! number of positive couplings that are moved to the diagonal of M
   integer(c_int32_t), parameter, public :: RRB_INFO_COMPENSATED_COUPLINGS = 1105_c_int32_t
   ! number of grids that are stored by colour in the arrays r1, r2, b1 and b2
   integer(c_int32_t), parameter, public :: RRB_INFO_GRIDS                 = 1106_c_int32_t
   ! Number of aggregates, on all levels, that the last factorize with `cycle=aggregation` or `preconditioner=amg`
   ! reused. 0 means that all aggregates are new. This result is also available in dpcg_ and sparse_.
   integer(c_int32_t), parameter, public :: RRB_INFO_AGGREGATES_KEPT       = 1108_c_int32_t
   ! Number of messages that this rank sent in the last call. A collective operation counts as one message.
   integer(c_int32_t), parameter, public :: RRB_INFO_MESSAGES_SENT         = 1110_c_int32_t
   ! number of bytes in the messages that `messages_sent` counts
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_SENT            = 1111_c_int32_t
   ! block solver in use
   integer(c_int32_t), parameter, public :: RRB_INFO_BLOCK_SOLVER          = 1200_c_int32_t
   ! number of distinct blocks whose inverses are stored
   integer(c_int32_t), parameter, public :: RRB_INFO_BLOCK_INVERSES        = 1201_c_int32_t
   ! number of boxes of ghost cells that are copied between patches before each sweep
   integer(c_int32_t), parameter, public :: RRB_INFO_GHOST_COPIES          = 1202_c_int32_t
   ! total number of cells of all patches
   integer(c_int32_t), parameter, public :: RRB_INFO_CELLS                 = 1203_c_int32_t
   ! preconditioner in use (also in sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_PRECONDITIONER        = 1300_c_int32_t
   ! Condition that determined the choices of `auto`. `crowded` means that there are too many components of strong
   ! couplings for multigrid and deflation, or that flat cells hide these components. `anisotropic` means that the
   ! couplings in one direction are weak. `labels` means that the caller set regions. `contrast` means that the
   ! couplings of one direction differ strongly. `thin` means that a component of strong couplings is only a few cells
   ! across. `plain` means that none of these conditions holds. `asked` means that the caller set the options
   ! preconditioner, coarsening and deflation.
   integer(c_int32_t), parameter, public :: RRB_INFO_AUTO_REASON           = 1301_c_int32_t
   ! deflation in use
   integer(c_int32_t), parameter, public :: RRB_INFO_DEFLATION             = 1302_c_int32_t
   ! coarsening in use; `auto` means that there is no multigrid
   integer(c_int32_t), parameter, public :: RRB_INFO_COARSENING            = 1303_c_int32_t
   ! coarse solver in use; `auto` means that there is no deflation
   integer(c_int32_t), parameter, public :: RRB_INFO_COARSE_SOLVER         = 1304_c_int32_t
   ! number of deflation vectors in use
   integer(c_int32_t), parameter, public :: RRB_INFO_DEFLATION_VECTORS     = 1305_c_int32_t
   ! number of deflation regions, including regions without a vector
   integer(c_int32_t), parameter, public :: RRB_INFO_REGIONS               = 1306_c_int32_t
   ! number of components that consist of at least two cells joined by strong couplings
   integer(c_int32_t), parameter, public :: RRB_INFO_STRONG_COMPONENTS     = 1307_c_int32_t
   ! Largest row sum of |L D^-1| with `preconditioner=neumann`. If this sum is below 1, the Neumann series converges for
   ! any order.
   integer(c_int32_t), parameter, public :: RRB_INFO_NEUMANN_ROW_SUM       = 1308_c_int32_t
   ! Wall time, in seconds, for the deflation regions, the coarse matrix and the factorization of the coarse matrix.
   ! This time is part of `seconds_setup`.
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_DEFLATION     = 1309_c_int32_t
   ! Wall time, in seconds, for the solution of systems with the coarse matrix. This time is part of `seconds_solve`.
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_COARSE        = 1310_c_int32_t
   ! Wall time, in seconds, of the CG iterations. This time is part of `seconds_solve`.
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_ITERATIONS    = 1311_c_int32_t
   ! number of rows of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_ROWS                  = 1400_c_int32_t
   ! number of columns of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_COLS                  = 1401_c_int32_t
   ! number of entries of the matrix, including explicit zeros
   integer(c_int32_t), parameter, public :: RRB_INFO_NONZEROS              = 1402_c_int32_t
   ! number of values, including padding, that the format in use stores; the number is 0 before the first product
   integer(c_int32_t), parameter, public :: RRB_INFO_STORED                = 1403_c_int32_t
   ! format in use; the value is auto before the first product
   integer(c_int32_t), parameter, public :: RRB_INFO_FORMAT                = 1404_c_int32_t
   ! method in use; after a solve, the method with which the solve ended; before the first factorize, the value is auto
   integer(c_int32_t), parameter, public :: RRB_INFO_SOLVER                = 1405_c_int32_t
   ! 1 if the matrix is symmetric, that is, if |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|) for all entries (for a_ii a_jj =
   ! 0, the limit is 1e-12 times the smaller of the largest magnitudes in rows i and j); 0 if the matrix is not
   ! symmetric
   integer(c_int32_t), parameter, public :: RRB_INFO_SYMMETRIC             = 1407_c_int32_t
   ! kind of diagonal dominance of the rows of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_DOMINANCE             = 1408_c_int32_t
   ! number of rows whose diagonal entry is zero or missing
   integer(c_int32_t), parameter, public :: RRB_INFO_ZERO_DIAGONALS        = 1409_c_int32_t
   ! number of rows without entries
   integer(c_int32_t), parameter, public :: RRB_INFO_EMPTY_ROWS            = 1410_c_int32_t
   ! number of entries that were added to an earlier entry with the same row and column
   integer(c_int32_t), parameter, public :: RRB_INFO_DUPLICATES            = 1411_c_int32_t
   ! number of colours in a sweep or a triangular solve with `ordering=multicolour`
   integer(c_int32_t), parameter, public :: RRB_INFO_COLOURS               = 1412_c_int32_t
   ! Number of levels in a sweep or a triangular solve. Each level consists of groups of rows that are independent of
   ! each other. With one thread, the number is 1. In triangular solves with `ordering=multicolour`, the levels are the
   ! colours; for sweeps with `ordering=multicolour` or `ordering=blocks`, the number is 0.
   integer(c_int32_t), parameter, public :: RRB_INFO_SWEEP_LEVELS          = 1413_c_int32_t
   ! shift that ic0 uses
   integer(c_int32_t), parameter, public :: RRB_INFO_SHIFT                 = 1414_c_int32_t
   ! number of bytes that a product moves per entry of the matrix, including x and y; the number is 0 before the first
   ! product
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_PER_NONZERO     = 1415_c_int32_t
   ! number of entries in the longest row of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_LONGEST_ROW           = 1416_c_int32_t
   ! number of right-hand sides in the file of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_FILE_RHS              = 1417_c_int32_t
   ! triangles of the matrix that have off-diagonal entries; lower or upper may mean that only half of a symmetric
   ! matrix was passed, although both halves are needed
   integer(c_int32_t), parameter, public :: RRB_INFO_TRIANGLE              = 1418_c_int32_t

   ! Choices, which are values of options and results.
   integer(c_int32_t), parameter, public :: RRB_BACKEND_AUTO                      = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_BACKEND_CPU                       = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_BACKEND_CUDA                      = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_BACKEND_REFERENCE                 = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_MEMORY_AUTO                       = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_MEMORY_HOST                       = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_MEMORY_DEVICE                     = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_NORM_TRUE2                        = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_NORM_PRECONDITIONED               = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_REFERENCE_RHS                     = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_REFERENCE_INITIAL                 = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_NULL_SPACE_AUTO                   = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_NULL_SPACE_NONE                   = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_NULL_SPACE_CONSTANT               = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_LUMPING_M1                        = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_LUMPING_M2                        = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FUSION_ON                         = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FUSION_OFF                        = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COMPENSATION_AUTO                 = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COMPENSATION_NEVER                = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COMPENSATION_ALWAYS               = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECISION_AUTO                    = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECISION_F64                     = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECISION_F32                     = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECISION_BF16                    = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECISION_MIXED                   = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECISION_SINGLE                  = 5_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_CYCLE_AUTO                        = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_CYCLE_V                           = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_CYCLE_AMLI                        = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_CYCLE_K                           = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_CYCLE_AGGREGATION                 = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_METHOD_COLOURED_GAUSS_SEIDEL      = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_METHOD_BLOCK_JACOBI               = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_METHOD_CHAOTIC_GAUSS_SEIDEL       = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_BLOCK_SOLVER_AUTO                 = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_BLOCK_SOLVER_FAST_DIAGONALIZATION = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_BLOCK_SOLVER_DENSE                = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_REMAINDER_EXACT                   = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_REMAINDER_OVERLAP                 = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PARALLEL_AUTO                     = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PARALLEL_PATCH                    = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PARALLEL_BLOCK                    = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PARALLEL_NESTED                   = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRANSFER_AUTO                     = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRANSFER_DEPTH_FIRST              = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRANSFER_BREADTH_FIRST            = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_AUTO               = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_NONE               = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_JACOBI             = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_NEUMANN            = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_IC0                = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_RIC                = 5_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_MULTIGRID          = 6_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_AMG                = 7_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_SSOR               = 8_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_ILU0               = 9_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_PRECONDITIONER_CHEBYSHEV          = 10_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DEFLATION_AUTO                    = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DEFLATION_NONE                    = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DEFLATION_SUBDOMAIN               = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DEFLATION_LEVELSET                = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DEFLATION_LEVELSET_SUBDOMAIN      = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSE_SOLVER_AUTO                = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSE_SOLVER_INVERSE             = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSE_SOLVER_CHOLESKY            = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSE_SOLVER_CG                  = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSENING_AUTO                   = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSENING_VERTEX                 = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_COARSENING_CELL                   = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_AUTO                       = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_JACOBI                     = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_GAUSS_SEIDEL               = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_SOR                        = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_CG                         = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_BICG                       = 5_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_MINRES                     = 6_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_BICGSTAB                   = 7_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_GMRES                      = 8_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_IDR                        = 9_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_SOLVER_STEEPEST_DESCENT           = 10_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_AUTO                       = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_COO                        = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_CSR                        = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_CSC                        = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_BSR                        = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_DIA                        = 5_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_ELL                        = 6_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_SELL                       = 7_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_JDS                        = 8_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_TJDS                       = 9_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_SKYLINE                    = 10_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_FORMAT_DIAGONAL                   = 11_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_ORDERING_NATURAL                  = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_ORDERING_MULTICOLOUR              = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_ORDERING_BLOCKS                   = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_ORDERING_SYMMETRIC                = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRANSPOSE_AUTO                    = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRANSPOSE_COPY                    = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRANSPOSE_NONE                    = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_NONE                  = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_CONVERGED             = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_INITIAL_GUESS         = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_ZERO_RHS              = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_MAX_ITER              = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_MONITOR               = 5_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_STAGNATED             = 6_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_BREAKDOWN             = 7_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_STOP_REASON_DIVERGED              = 8_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_ASKED                 = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_PLAIN                 = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_CONTRAST              = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_THIN                  = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_ANISOTROPIC           = 4_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_LABELS                = 5_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_AUTO_REASON_CROWDED               = 6_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DOMINANCE_NONE                    = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DOMINANCE_WEAK                    = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DOMINANCE_IRREDUCIBLE             = 2_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_DOMINANCE_STRICT                  = 3_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRIANGLE_BOTH                     = 0_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRIANGLE_LOWER                    = 1_c_int32_t
   integer(c_int32_t), parameter, public :: RRB_TRIANGLE_UPPER                    = 2_c_int32_t

   ! Choices of arguments.
   ! argument which of sparse_get_vector
   integer(c_int32_t), parameter, public :: RRB_VECTOR_RHS      = 0_c_int32_t
   ! argument which of sparse_get_vector
   integer(c_int32_t), parameter, public :: RRB_VECTOR_GUESS    = 1_c_int32_t
   ! argument which of sparse_get_vector
   integer(c_int32_t), parameter, public :: RRB_VECTOR_SOLUTION = 2_c_int32_t
   ! argument file_format of sparse_write
   integer(c_int32_t), parameter, public :: RRB_FILE_MTX        = 0_c_int32_t
   ! argument file_format of sparse_write
   integer(c_int32_t), parameter, public :: RRB_FILE_HB         = 1_c_int32_t
   ! argument file_format of sparse_write
   integer(c_int32_t), parameter, public :: RRB_FILE_RB         = 2_c_int32_t
end module rrbsolver_constants

module rrbsolver_dpcg_c
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr
   implicit none
   private :: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr

   interface
      function c_create(nx, ny, nz, out) bind(c, name="dpcg_create")
         import
         integer(c_int64_t), value :: nx
         integer(c_int64_t), value :: ny
         integer(c_int64_t), value :: nz
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create
      end function c_create
      function c_set_regions(h, labels) bind(c, name="dpcg_set_regions")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), intent(in), optional :: labels(*)
         integer(c_int32_t) :: c_set_regions
      end function c_set_regions
      function c_factorize(h, center, east, north, top) bind(c, name="dpcg_factorize")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: center(*)
         real(c_double), intent(in), optional :: east(*)
         real(c_double), intent(in), optional :: north(*)
         real(c_double), intent(in), optional :: top(*)
         integer(c_int32_t) :: c_factorize
      end function c_factorize
      function c_solve(h, b, x) bind(c, name="dpcg_solve")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: b(*)
         real(c_double), intent(inout), optional :: x(*)
         integer(c_int32_t) :: c_solve
      end function c_solve
      function c_apply(h, r, z) bind(c, name="dpcg_apply")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: r(*)
         real(c_double), intent(inout), optional :: z(*)
         integer(c_int32_t) :: c_apply
      end function c_apply
      function c_multiply(h, x, y) bind(c, name="dpcg_multiply")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: x(*)
         real(c_double), intent(inout), optional :: y(*)
         integer(c_int32_t) :: c_multiply
      end function c_multiply
      function c_solve_once(nx, ny, nz, center, east, north, top, b, x, rel_tol, max_iter, iterations) bind(c, &
         name="dpcg_solve_once")
         import
         integer(c_int64_t), value :: nx
         integer(c_int64_t), value :: ny
         integer(c_int64_t), value :: nz
         real(c_double), intent(in), optional :: center(*)
         real(c_double), intent(in), optional :: east(*)
         real(c_double), intent(in), optional :: north(*)
         real(c_double), intent(in), optional :: top(*)
         real(c_double), intent(in), optional :: b(*)
         real(c_double), intent(inout), optional :: x(*)
         real(c_double), value :: rel_tol
         integer(c_int64_t), value :: max_iter
         integer(c_int64_t), intent(inout), optional :: iterations
         integer(c_int32_t) :: c_solve_once
      end function c_solve_once
      function c_destroy(h) bind(c, name="dpcg_destroy")
         import
         type(c_ptr), intent(inout) :: h
         integer(c_int32_t) :: c_destroy
      end function c_destroy
      function c_set_int(h, key, value) bind(c, name="dpcg_set_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), value :: value
         integer(c_int32_t) :: c_set_int
      end function c_set_int
      function c_set_real(h, key, value) bind(c, name="dpcg_set_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), value :: value
         integer(c_int32_t) :: c_set_real
      end function c_set_real
      function c_set_options(h, text) bind(c, name="dpcg_set_options")
         import
         type(c_ptr), value :: h
         character(kind=c_char), intent(in), optional :: text(*)
         integer(c_int32_t) :: c_set_options
      end function c_set_options
      function c_get_int(h, key, value) bind(c, name="dpcg_get_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_int
      end function c_get_int
      function c_get_real(h, key, value) bind(c, name="dpcg_get_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_real
      end function c_get_real
      function c_set_stream(h, cuda_stream) bind(c, name="dpcg_set_stream")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: cuda_stream
         integer(c_int32_t) :: c_set_stream
      end function c_set_stream
      function c_set_monitor(h, callback, user) bind(c, name="dpcg_set_monitor")
         import
         type(c_ptr), value :: h
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: c_set_monitor
      end function c_set_monitor
      function c_get_history(h, residuals, capacity, count) bind(c, name="dpcg_get_history")
         import
         type(c_ptr), value :: h
         real(c_double), intent(inout), optional :: residuals(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t), intent(inout), optional :: count
         integer(c_int32_t) :: c_get_history
      end function c_get_history
   end interface
end module rrbsolver_dpcg_c

module rrbsolver_rrb_c
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr
   implicit none
   private :: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr

   interface
      function c_create(nx, ny, out) bind(c, name="rrb_create")
         import
         integer(c_int64_t), value :: nx
         integer(c_int64_t), value :: ny
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create
      end function c_create
      function c_factorize(h, center, east, north, northeast, northwest) bind(c, name="rrb_factorize")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: center(*)
         real(c_double), intent(in), optional :: east(*)
         real(c_double), intent(in), optional :: north(*)
         real(c_double), intent(in), optional :: northeast(*)
         real(c_double), intent(in), optional :: northwest(*)
         integer(c_int32_t) :: c_factorize
      end function c_factorize
      function c_solve(h, b, x) bind(c, name="rrb_solve")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: b(*)
         real(c_double), intent(inout), optional :: x(*)
         integer(c_int32_t) :: c_solve
      end function c_solve
      function c_apply(h, r, z) bind(c, name="rrb_apply")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: r(*)
         real(c_double), intent(inout), optional :: z(*)
         integer(c_int32_t) :: c_apply
      end function c_apply
      function c_multiply(h, x, y) bind(c, name="rrb_multiply")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: x(*)
         real(c_double), intent(inout), optional :: y(*)
         integer(c_int32_t) :: c_multiply
      end function c_multiply
      function c_solve_once(nx, ny, center, east, north, northeast, northwest, b, x, rel_tol, max_iter, &
         iterations) bind(c, name="rrb_solve_once")
         import
         integer(c_int64_t), value :: nx
         integer(c_int64_t), value :: ny
         real(c_double), intent(in), optional :: center(*)
         real(c_double), intent(in), optional :: east(*)
         real(c_double), intent(in), optional :: north(*)
         real(c_double), intent(in), optional :: northeast(*)
         real(c_double), intent(in), optional :: northwest(*)
         real(c_double), intent(in), optional :: b(*)
         real(c_double), intent(inout), optional :: x(*)
         real(c_double), value :: rel_tol
         integer(c_int64_t), value :: max_iter
         integer(c_int64_t), intent(inout), optional :: iterations
         integer(c_int32_t) :: c_solve_once
      end function c_solve_once
      function c_create_distributed(nx, ny, count, lower, size, comm, out) bind(c, name="rrb_create_distributed")
         import
         integer(c_int64_t), value :: nx
         integer(c_int64_t), value :: ny
         integer(c_int64_t), value :: count
         integer(c_int64_t), intent(in), optional :: lower(2, *)
         integer(c_int64_t), intent(in), optional :: size(2, *)
         type(c_ptr), value :: comm
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create_distributed
      end function c_create_distributed
      function c_factorize_boxes(h, leading_dimensions, center, east, north, northeast, northwest) bind(c, &
         name="rrb_factorize_boxes")
         import
         type(c_ptr), value :: h
         integer(c_int64_t), intent(in), optional :: leading_dimensions(*)
         type(c_ptr), value :: center
         type(c_ptr), value :: east
         type(c_ptr), value :: north
         type(c_ptr), value :: northeast
         type(c_ptr), value :: northwest
         integer(c_int32_t) :: c_factorize_boxes
      end function c_factorize_boxes
      function c_solve_boxes(h, leading_dimensions, b, x) bind(c, name="rrb_solve_boxes")
         import
         type(c_ptr), value :: h
         integer(c_int64_t), intent(in), optional :: leading_dimensions(*)
         type(c_ptr), value :: b
         type(c_ptr), value :: x
         integer(c_int32_t) :: c_solve_boxes
      end function c_solve_boxes
      function c_apply_boxes(h, leading_dimensions, r, z) bind(c, name="rrb_apply_boxes")
         import
         type(c_ptr), value :: h
         integer(c_int64_t), intent(in), optional :: leading_dimensions(*)
         type(c_ptr), value :: r
         type(c_ptr), value :: z
         integer(c_int32_t) :: c_apply_boxes
      end function c_apply_boxes
      function c_multiply_boxes(h, leading_dimensions, x, y) bind(c, name="rrb_multiply_boxes")
         import
         type(c_ptr), value :: h
         integer(c_int64_t), intent(in), optional :: leading_dimensions(*)
         type(c_ptr), value :: x
         type(c_ptr), value :: y
         integer(c_int32_t) :: c_multiply_boxes
      end function c_multiply_boxes
      function c_destroy(h) bind(c, name="rrb_destroy")
         import
         type(c_ptr), intent(inout) :: h
         integer(c_int32_t) :: c_destroy
      end function c_destroy
      function c_set_int(h, key, value) bind(c, name="rrb_set_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), value :: value
         integer(c_int32_t) :: c_set_int
      end function c_set_int
      function c_set_real(h, key, value) bind(c, name="rrb_set_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), value :: value
         integer(c_int32_t) :: c_set_real
      end function c_set_real
      function c_set_options(h, text) bind(c, name="rrb_set_options")
         import
         type(c_ptr), value :: h
         character(kind=c_char), intent(in), optional :: text(*)
         integer(c_int32_t) :: c_set_options
      end function c_set_options
      function c_get_int(h, key, value) bind(c, name="rrb_get_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_int
      end function c_get_int
      function c_get_real(h, key, value) bind(c, name="rrb_get_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_real
      end function c_get_real
      function c_set_stream(h, cuda_stream) bind(c, name="rrb_set_stream")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: cuda_stream
         integer(c_int32_t) :: c_set_stream
      end function c_set_stream
      function c_set_monitor(h, callback, user) bind(c, name="rrb_set_monitor")
         import
         type(c_ptr), value :: h
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: c_set_monitor
      end function c_set_monitor
      function c_get_history(h, residuals, capacity, count) bind(c, name="rrb_get_history")
         import
         type(c_ptr), value :: h
         real(c_double), intent(inout), optional :: residuals(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t), intent(inout), optional :: count
         integer(c_int32_t) :: c_get_history
      end function c_get_history
   end interface
end module rrbsolver_rrb_c

module rrbsolver_c
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr
   implicit none
   private :: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr

   interface
      function c_version() bind(c, name="rrbsolver_version")
         import
         type(c_ptr) :: c_version
      end function c_version
      function c_status_string(status) bind(c, name="rrbsolver_status_string")
         import
         integer(c_int32_t), value :: status
         type(c_ptr) :: c_status_string
      end function c_status_string
      function c_last_error(buffer, capacity) bind(c, name="rrbsolver_last_error")
         import
         character(kind=c_char), intent(inout), optional :: buffer(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t) :: c_last_error
      end function c_last_error
      function c_last_error_based(index_base, buffer, capacity) bind(c, name="rrbsolver_last_error_based")
         import
         integer(c_int32_t), value :: index_base
         character(kind=c_char), intent(inout), optional :: buffer(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t) :: c_last_error_based
      end function c_last_error_based
      function c_cuda_device_count(count) bind(c, name="rrbsolver_cuda_device_count")
         import
         integer(c_int32_t), intent(inout), optional :: count
         integer(c_int32_t) :: c_cuda_device_count
      end function c_cuda_device_count
      function c_set_log(callback, user) bind(c, name="rrbsolver_set_log")
         import
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: c_set_log
      end function c_set_log
   end interface
end module rrbsolver_c

module rrbsolver_smoother_c
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr
   implicit none
   private :: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr

   interface
      function c_create(stencil_points, stencil, bx, by, bz, out) bind(c, name="smoother_create")
         import
         integer(c_int32_t), value :: stencil_points
         real(c_double), intent(in), optional :: stencil(*)
         integer(c_int64_t), value :: bx
         integer(c_int64_t), value :: by
         integer(c_int64_t), value :: bz
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create
      end function c_create
      function c_set_patches(h, count, lower, size) bind(c, name="smoother_set_patches")
         import
         type(c_ptr), value :: h
         integer(c_int64_t), value :: count
         integer(c_int64_t), intent(in), optional :: lower(3, *)
         integer(c_int64_t), intent(in), optional :: size(3, *)
         integer(c_int32_t) :: c_set_patches
      end function c_set_patches
      function c_apply(h, u, f, sweeps) bind(c, name="smoother_apply")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: u
         type(c_ptr), value :: f
         integer(c_int32_t), value :: sweeps
         integer(c_int32_t) :: c_apply
      end function c_apply
      function c_exchange(h, u) bind(c, name="smoother_exchange")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: u
         integer(c_int32_t) :: c_exchange
      end function c_exchange
      function c_set_ghost_fill(h, callback, user) bind(c, name="smoother_set_ghost_fill")
         import
         type(c_ptr), value :: h
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: c_set_ghost_fill
      end function c_set_ghost_fill
      function c_residual(h, u, f, r, norm2) bind(c, name="smoother_residual")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: u
         type(c_ptr), value :: f
         type(c_ptr), value :: r
         real(c_double), intent(inout), optional :: norm2
         integer(c_int32_t) :: c_residual
      end function c_residual
      function c_upload(h, u, f) bind(c, name="smoother_upload")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: u
         type(c_ptr), value :: f
         integer(c_int32_t) :: c_upload
      end function c_upload
      function c_download(h, u) bind(c, name="smoother_download")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: u
         integer(c_int32_t) :: c_download
      end function c_download
      function c_device_pointers(h, u, f) bind(c, name="smoother_device_pointers")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: u
         type(c_ptr), value :: f
         integer(c_int32_t) :: c_device_pointers
      end function c_device_pointers
      function c_destroy(h) bind(c, name="smoother_destroy")
         import
         type(c_ptr), intent(inout) :: h
         integer(c_int32_t) :: c_destroy
      end function c_destroy
      function c_set_int(h, key, value) bind(c, name="smoother_set_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), value :: value
         integer(c_int32_t) :: c_set_int
      end function c_set_int
      function c_set_real(h, key, value) bind(c, name="smoother_set_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), value :: value
         integer(c_int32_t) :: c_set_real
      end function c_set_real
      function c_set_options(h, text) bind(c, name="smoother_set_options")
         import
         type(c_ptr), value :: h
         character(kind=c_char), intent(in), optional :: text(*)
         integer(c_int32_t) :: c_set_options
      end function c_set_options
      function c_get_int(h, key, value) bind(c, name="smoother_get_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_int
      end function c_get_int
      function c_get_real(h, key, value) bind(c, name="smoother_get_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_real
      end function c_get_real
      function c_set_stream(h, cuda_stream) bind(c, name="smoother_set_stream")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: cuda_stream
         integer(c_int32_t) :: c_set_stream
      end function c_set_stream
      function c_set_monitor(h, callback, user) bind(c, name="smoother_set_monitor")
         import
         type(c_ptr), value :: h
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: c_set_monitor
      end function c_set_monitor
      function c_get_history(h, residuals, capacity, count) bind(c, name="smoother_get_history")
         import
         type(c_ptr), value :: h
         real(c_double), intent(inout), optional :: residuals(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t), intent(inout), optional :: count
         integer(c_int32_t) :: c_get_history
      end function c_get_history
   end interface
end module rrbsolver_smoother_c

module rrbsolver_sparse_c
   use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr
   implicit none
   private :: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr

   interface
      function c_create_csr(rows, cols, nnz, row_ptr, col, values, index_bytes, base, out) bind(c, &
         name="sparse_create_csr")
         import
         integer(c_int64_t), value :: rows
         integer(c_int64_t), value :: cols
         integer(c_int64_t), value :: nnz
         type(c_ptr), value :: row_ptr
         type(c_ptr), value :: col
         real(c_double), intent(in), optional :: values(*)
         integer(c_int32_t), value :: index_bytes
         integer(c_int32_t), value :: base
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create_csr
      end function c_create_csr
      function c_create_csc(rows, cols, nnz, col_ptr, row, values, index_bytes, base, out) bind(c, &
         name="sparse_create_csc")
         import
         integer(c_int64_t), value :: rows
         integer(c_int64_t), value :: cols
         integer(c_int64_t), value :: nnz
         type(c_ptr), value :: col_ptr
         type(c_ptr), value :: row
         real(c_double), intent(in), optional :: values(*)
         integer(c_int32_t), value :: index_bytes
         integer(c_int32_t), value :: base
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create_csc
      end function c_create_csc
      function c_create_coo(rows, cols, nnz, row, col, values, index_bytes, base, out) bind(c, &
         name="sparse_create_coo")
         import
         integer(c_int64_t), value :: rows
         integer(c_int64_t), value :: cols
         integer(c_int64_t), value :: nnz
         type(c_ptr), value :: row
         type(c_ptr), value :: col
         real(c_double), intent(in), optional :: values(*)
         integer(c_int32_t), value :: index_bytes
         integer(c_int32_t), value :: base
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create_coo
      end function c_create_coo
      function c_create_from(format, rows, cols, sizes, i0, i1, i2, values, out) bind(c, &
         name="sparse_create_from")
         import
         integer(c_int32_t), value :: format
         integer(c_int64_t), value :: rows
         integer(c_int64_t), value :: cols
         integer(c_int64_t), intent(in), optional :: sizes(*)
         integer(c_int64_t), intent(in), optional :: i0(*)
         integer(c_int64_t), intent(in), optional :: i1(*)
         integer(c_int64_t), intent(in), optional :: i2(*)
         real(c_double), intent(in), optional :: values(*)
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_create_from
      end function c_create_from
      function c_read(path, out) bind(c, name="sparse_read")
         import
         character(kind=c_char), intent(in), optional :: path(*)
         type(c_ptr), intent(inout) :: out
         integer(c_int32_t) :: c_read
      end function c_read
      function c_write(h, path, file_format) bind(c, name="sparse_write")
         import
         type(c_ptr), value :: h
         character(kind=c_char), intent(in), optional :: path(*)
         integer(c_int32_t), value :: file_format
         integer(c_int32_t) :: c_write
      end function c_write
      function c_get_vector(h, which, k, v) bind(c, name="sparse_get_vector")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: which
         integer(c_int64_t), value :: k
         real(c_double), intent(inout), optional :: v(*)
         integer(c_int32_t) :: c_get_vector
      end function c_get_vector
      function c_set_values(h, values) bind(c, name="sparse_set_values")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: values(*)
         integer(c_int32_t) :: c_set_values
      end function c_set_values
      function c_sizes(h, format, sizes) bind(c, name="sparse_sizes")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: format
         integer(c_int64_t), intent(inout), optional :: sizes(*)
         integer(c_int32_t) :: c_sizes
      end function c_sizes
      function c_arrays(h, format, i0, i1, i2, values) bind(c, name="sparse_arrays")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: format
         integer(c_int64_t), intent(inout), optional :: i0(*)
         integer(c_int64_t), intent(inout), optional :: i1(*)
         integer(c_int64_t), intent(inout), optional :: i2(*)
         real(c_double), intent(inout), optional :: values(*)
         integer(c_int32_t) :: c_arrays
      end function c_arrays
      function c_factorize(h) bind(c, name="sparse_factorize")
         import
         type(c_ptr), value :: h
         integer(c_int32_t) :: c_factorize
      end function c_factorize
      function c_solve(h, b, x) bind(c, name="sparse_solve")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: b(*)
         real(c_double), intent(inout), optional :: x(*)
         integer(c_int32_t) :: c_solve
      end function c_solve
      function c_apply(h, r, z) bind(c, name="sparse_apply")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: r(*)
         real(c_double), intent(inout), optional :: z(*)
         integer(c_int32_t) :: c_apply
      end function c_apply
      function c_multiply(h, x, y) bind(c, name="sparse_multiply")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: x(*)
         real(c_double), intent(inout), optional :: y(*)
         integer(c_int32_t) :: c_multiply
      end function c_multiply
      function c_multiply_transposed(h, x, y) bind(c, name="sparse_multiply_transposed")
         import
         type(c_ptr), value :: h
         real(c_double), intent(in), optional :: x(*)
         real(c_double), intent(inout), optional :: y(*)
         integer(c_int32_t) :: c_multiply_transposed
      end function c_multiply_transposed
      function c_destroy(h) bind(c, name="sparse_destroy")
         import
         type(c_ptr), intent(inout) :: h
         integer(c_int32_t) :: c_destroy
      end function c_destroy
      function c_set_int(h, key, value) bind(c, name="sparse_set_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), value :: value
         integer(c_int32_t) :: c_set_int
      end function c_set_int
      function c_set_real(h, key, value) bind(c, name="sparse_set_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), value :: value
         integer(c_int32_t) :: c_set_real
      end function c_set_real
      function c_set_options(h, text) bind(c, name="sparse_set_options")
         import
         type(c_ptr), value :: h
         character(kind=c_char), intent(in), optional :: text(*)
         integer(c_int32_t) :: c_set_options
      end function c_set_options
      function c_get_int(h, key, value) bind(c, name="sparse_get_int")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         integer(c_int64_t), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_int
      end function c_get_int
      function c_get_real(h, key, value) bind(c, name="sparse_get_real")
         import
         type(c_ptr), value :: h
         integer(c_int32_t), value :: key
         real(c_double), intent(inout), optional :: value
         integer(c_int32_t) :: c_get_real
      end function c_get_real
      function c_set_stream(h, cuda_stream) bind(c, name="sparse_set_stream")
         import
         type(c_ptr), value :: h
         type(c_ptr), value :: cuda_stream
         integer(c_int32_t) :: c_set_stream
      end function c_set_stream
      function c_set_monitor(h, callback, user) bind(c, name="sparse_set_monitor")
         import
         type(c_ptr), value :: h
         type(c_funptr), value :: callback
         type(c_ptr), value :: user
         integer(c_int32_t) :: c_set_monitor
      end function c_set_monitor
      function c_get_history(h, residuals, capacity, count) bind(c, name="sparse_get_history")
         import
         type(c_ptr), value :: h
         real(c_double), intent(inout), optional :: residuals(*)
         integer(c_int64_t), value :: capacity
         integer(c_int64_t), intent(inout), optional :: count
         integer(c_int32_t) :: c_get_history
      end function c_get_history
   end interface
end module rrbsolver_sparse_c
