! The constants and the C functions of rrbsolver.h, one module for each family, in which rrb_solve is c_solve.
! Private to the binding: programs use module rrbsolver. Generated from the library's sources; do not edit.

module rrbsolver_constants
   use, intrinsic :: iso_c_binding, only: c_int32_t
   implicit none
   private

   ! Statuses. 0: done. Positive: finished with a caveat, outputs are written and usable. Negative: failed.
   ! done
   integer(c_int32_t), parameter, public :: RRB_OK                = 0_c_int32_t
   ! the tolerance was not reached; x is the last iterate, or a better one
   integer(c_int32_t), parameter, public :: RRB_NOT_CONVERGED     = 1_c_int32_t
   ! a callback asked to stop; x (or u) is the iterate at the stop
   integer(c_int32_t), parameter, public :: RRB_STOPPED           = 2_c_int32_t
   ! a required pointer is NULL
   integer(c_int32_t), parameter, public :: RRB_ERR_NULL          = -1_c_int32_t
   ! a value is out of range, or arrays overlap
   integer(c_int32_t), parameter, public :: RRB_ERR_ARGUMENT      = -2_c_int32_t
   ! an extent is too small, extents do not fit each other, or their product is too large
   integer(c_int32_t), parameter, public :: RRB_ERR_DIMENSION     = -3_c_int32_t
   ! unknown option key, option name or choice
   integer(c_int32_t), parameter, public :: RRB_ERR_OPTION        = -4_c_int32_t
   ! calls in the wrong order: factorize (smoother_: set_patches) must come (again) first
   integer(c_int32_t), parameter, public :: RRB_ERR_STATE         = -5_c_int32_t
   ! not offered by this build or this method
   integer(c_int32_t), parameter, public :: RRB_ERR_UNSUPPORTED   = -6_c_int32_t
   ! zero or negative center or pivot, a singular block; not symmetric, an empty row (sparse_)
   integer(c_int32_t), parameter, public :: RRB_ERR_MATRIX        = -20_c_int32_t
   ! NaN or infinity in an input array, or a result too large for a double
   integer(c_int32_t), parameter, public :: RRB_ERR_NOT_FINITE    = -21_c_int32_t
   ! the matrix or the preconditioner is indefinite; x is as given
   integer(c_int32_t), parameter, public :: RRB_ERR_BREAKDOWN     = -22_c_int32_t
   ! singular system whose right-hand side has a component in the null space
   integer(c_int32_t), parameter, public :: RRB_ERR_INCOMPATIBLE  = -23_c_int32_t
   ! the result is too small for a double: its values would underflow
   integer(c_int32_t), parameter, public :: RRB_ERR_RANGE         = -24_c_int32_t
   ! out of memory, or above a memory limit
   integer(c_int32_t), parameter, public :: RRB_ERR_MEMORY        = -30_c_int32_t
   ! no CUDA driver or device
   integer(c_int32_t), parameter, public :: RRB_ERR_NO_DEVICE     = -40_c_int32_t
   ! the CUDA driver reported an error
   integer(c_int32_t), parameter, public :: RRB_ERR_DEVICE        = -41_c_int32_t
   ! a file could not be read or written
   integer(c_int32_t), parameter, public :: RRB_ERR_IO            = -50_c_int32_t
   ! a file or text could not be understood
   integer(c_int32_t), parameter, public :: RRB_ERR_PARSE         = -51_c_int32_t
   ! a rank is missing or late; x is as given, and all that is left is destroy
   integer(c_int32_t), parameter, public :: RRB_ERR_COMMUNICATION = -60_c_int32_t
   ! a defect of this library
   integer(c_int32_t), parameter, public :: RRB_ERR_INTERNAL      = -99_c_int32_t

   ! Options: keys of set and get.
   ! where the solver runs; auto: cuda where a device is and the problem is large enough (smoother_: where memory =
   ! device), else cpu
   integer(c_int32_t), parameter, public :: RRB_OPT_BACKEND             = 100_c_int32_t
   ! CUDA ordinal (not sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_DEVICE              = 101_c_int32_t
   ! threads of the handle's own team; 0: RRBSOLVER_NUM_THREADS, SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, affinity mask, in
   ! that order
   integer(c_int32_t), parameter, public :: RRB_OPT_THREADS             = 102_c_int32_t
   ! where the caller's arrays are; auto asks the driver (not sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_MEMORY              = 103_c_int32_t
   ! stop when norm(r) <= max(rel_tol * reference, abs_tol) (not smoother_)
   integer(c_int32_t), parameter, public :: RRB_OPT_REL_TOL             = 104_c_int32_t
   ! see rel_tol; unit of the tested norm (not smoother_)
   integer(c_int32_t), parameter, public :: RRB_OPT_ABS_TOL             = 105_c_int32_t
   ! iterations at most; 0 only evaluates the residual (not smoother_)
   integer(c_int32_t), parameter, public :: RRB_OPT_MAX_ITER            = 106_c_int32_t
   ! true2: 2-norm of b - A x on the whole grid; preconditioned: sqrt(r' M^-1 r), as in the papers (not smoother_,
   ! sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_NORM                = 107_c_int32_t
   ! rhs: the same norm of b (projected where singular, reduced to S1 for preconditioned); initial: of r0 (not
   ! smoother_)
   integer(c_int32_t), parameter, public :: RRB_OPT_REFERENCE           = 108_c_int32_t
   ! auto: a connected component is singular iff |row sum| <= 1e-12 * center in all its rows; constant: iff <= 1e-6 *
   ! center (not smoother_, sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_NULL_SPACE          = 109_c_int32_t
   ! 1: refuse NaN and infinity in input arrays, log couplings that point out of the grid once a handle, at factorize;
   ! 2: refuse those too (smoother_, sparse_: as 1; entries of a sparse matrix are finite always)
   integer(c_int32_t), parameter, public :: RRB_OPT_CHECK_INPUT         = 110_c_int32_t
   ! refuse b with |sum b| > 1e-10 ||b||_1 over a singular component instead of projecting it (not smoother_, sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_CHECK_COMPATIBILITY = 111_c_int32_t
   ! 0: silent; 1: a line a solve (smoother_: an apply; sparse_: and a factorize); 2: a line an iteration (a sweep)
   integer(c_int32_t), parameter, public :: RRB_OPT_VERBOSITY           = 112_c_int32_t
   ! where lines go: callback, stderr, or the path (without blanks and commas) of a file to append to
   integer(c_int32_t), parameter, public :: RRB_OPT_LOG                 = 113_c_int32_t
   ! number of red eliminations; 0: by size; more than the grid has: all it has
   integer(c_int32_t), parameter, public :: RRB_OPT_LEVELS              = 200_c_int32_t
   ! bytes the exact factor of the remainder may take
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSE_MEMORY       = 201_c_int32_t
   ! number g of r1/r2/b1/b2 grids; 0: by size; more than g_max: g_max
   integer(c_int32_t), parameter, public :: RRB_OPT_GRIDS               = 202_c_int32_t
   ! row padding and border of the r1/r2/b1/b2 arrays
   integer(c_int32_t), parameter, public :: RRB_OPT_COMPUTE_BLOCK       = 203_c_int32_t
   ! nodes lumped: m1 red, m2 red and black; the text shorthands m1u, m1m, m2u, m2m set relaxation too (0 or 1)
   integer(c_int32_t), parameter, public :: RRB_OPT_LUMPING             = 204_c_int32_t
   ! omega: the part of a dropped coupling that is added to the diagonal
   integer(c_int32_t), parameter, public :: RRB_OPT_RELAXATION          = 205_c_int32_t
   ! on: fused stages where the backend has them; off: the unfused textbook steps (also dpcg_)
   integer(c_int32_t), parameter, public :: RRB_OPT_FUSION              = 206_c_int32_t
   ! positive off-diagonals moved to the diagonals in M; auto: iff there are any
   integer(c_int32_t), parameter, public :: RRB_OPT_COMPENSATION        = 207_c_int32_t
   ! of the stored preconditioner; mixed: of CG too, on a device: taken as bf16 (also dpcg_, sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_PRECISION           = 208_c_int32_t
   ! v: the papers' RRB; amli, k: recursive; aggregation: multigrid by aggregation in place of RRB
   integer(c_int32_t), parameter, public :: RRB_OPT_CYCLE               = 209_c_int32_t
   ! recursion every so many levels; 0: chosen
   integer(c_int32_t), parameter, public :: RRB_OPT_CYCLE_SPACING       = 210_c_int32_t
   ! inner iterations of a recursion
   integer(c_int32_t), parameter, public :: RRB_OPT_CYCLE_STEPS         = 211_c_int32_t
   ! bytes that cycle=auto may take for aggregation, at factorize or in a slow solve; -1: what it needs, 0: never
   integer(c_int32_t), parameter, public :: RRB_OPT_SWITCH_MEMORY       = 213_c_int32_t
   ! values from one row of the caller's arrays to the next, at least nx; 0: nx (also dpcg_)
   integer(c_int32_t), parameter, public :: RRB_OPT_LEADING_DIMENSION   = 212_c_int32_t
   ! up to eight CUDA ordinals, as 0+1+2: these devices share the rows of large grids, in place of device; none: one
   ! device
   integer(c_int32_t), parameter, public :: RRB_OPT_DEVICES             = 220_c_int32_t
   ! 1: the same bits for any number of ranks; 0: for the same number alone, but a sum takes one value a rank
   integer(c_int32_t), parameter, public :: RRB_OPT_REPRODUCIBLE        = 218_c_int32_t
   ! seconds that a rank waits for the others; 0: for ever
   integer(c_int32_t), parameter, public :: RRB_OPT_COMM_TIMEOUT        = 219_c_int32_t
   ! which block waits for which
   integer(c_int32_t), parameter, public :: RRB_OPT_METHOD              = 300_c_int32_t
   ! relaxation; 0: the method's own, 1, or 0.8 for block_jacobi
   integer(c_int32_t), parameter, public :: RRB_OPT_OMEGA               = 301_c_int32_t
   ! 1: blocks shifted by floor(b/2) on odd sweeps of an apply (the first is even); 2: on even ones
   integer(c_int32_t), parameter, public :: RRB_OPT_STAGGER             = 302_c_int32_t
   ! colours (chaotic: blocks) in reverse order, for post-smoothing
   integer(c_int32_t), parameter, public :: RRB_OPT_REVERSE             = 303_c_int32_t
   ! auto: fast_diagonalization where sine transforms diagonalize the blocks without loss of digits, else dense;
   ! fast_diagonalization is refused where it loses more than four digits
   integer(c_int32_t), parameter, public :: RRB_OPT_BLOCK_SOLVER        = 304_c_int32_t
   ! blocks cut short by a patch's edge: solved as they are, or moved inwards, where they overlap others
   integer(c_int32_t), parameter, public :: RRB_OPT_REMAINDER           = 305_c_int32_t
   ! what threads share: auto one list of all blocks of all patches; chaotic_gauss_seidel with patch is lexicographic in
   ! each patch
   integer(c_int32_t), parameter, public :: RRB_OPT_PARALLEL            = 306_c_int32_t
   ! groups of threads that share the patches of parallel = nested; 0: chosen
   integer(c_int32_t), parameter, public :: RRB_OPT_PATCH_THREADS       = 307_c_int32_t
   ! order of copies and kernels for patches that live on the host while a device relaxes them
   integer(c_int32_t), parameter, public :: RRB_OPT_TRANSFER            = 308_c_int32_t
   ! auto: multigrid, or amg where multigrid misses bubbles (sparse_: of cg ic0, or amg from 100,000 rows on where most
   ! off-diagonals are negative; of minres jacobi, else ilu0, jacobi where that has no pivot, none where a row has no
   ! diagonal); amg: multigrid by aggregation (sparse_: for cg); neumann: a truncated Neumann series of order; ic0, ric
   ! (relaxed): incomplete Cholesky without fill, on the CPU; ssor: of sor_omega; ilu0: incomplete LU without fill;
   ! chebyshev: a polynomial in D^-1 A of degree (also sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_PRECONDITIONER      = 400_c_int32_t
   ! terms of the Neumann series beside the first; 0: as jacobi (also sparse_)
   integer(c_int32_t), parameter, public :: RRB_OPT_ORDER               = 401_c_int32_t
   ! of ric: the part of dropped fill that is subtracted from the diagonal; 0: ic0, 1: modified
   integer(c_int32_t), parameter, public :: RRB_OPT_RIC_OMEGA           = 402_c_int32_t
   ! regions with a deflation vector each: boxes of cells, the caller's regions (else components of strong couplings),
   ! or the parts of these in boxes; auto: by the matrix
   integer(c_int32_t), parameter, public :: RRB_OPT_DEFLATION           = 403_c_int32_t
   ! boxes in x, at most nx; 0: chosen
   integer(c_int32_t), parameter, public :: RRB_OPT_SUBDOMAINS_X        = 404_c_int32_t
   ! boxes in y, at most ny; 0: chosen
   integer(c_int32_t), parameter, public :: RRB_OPT_SUBDOMAINS_Y        = 405_c_int32_t
   ! boxes in z, at most nz; 0: chosen
   integer(c_int32_t), parameter, public :: RRB_OPT_SUBDOMAINS_Z        = 406_c_int32_t
   ! 1: where singular, all vectors with a shifted coarse matrix; 0: without that of a region of weak couplings
   integer(c_int32_t), parameter, public :: RRB_OPT_KEEP_ALL            = 407_c_int32_t
   ! of the coarse matrix; auto: inverse up to 1024 vectors, on a device up to 4096, else cholesky; cg: inner CG, on the
   ! CPU
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSE_SOLVER       = 408_c_int32_t
   ! relative, of coarse_solver = cg
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSE_TOL          = 409_c_int32_t
   ! of multigrid; vertex: every second cell, operator-dependent transfer, Galerkin; cell: pairs of cells, constant
   ! transfer, down to 64 cells at most, as published; auto: cell where couplings of a direction are weak, down to 1000
   ! cells at most, else vertex
   integer(c_int32_t), parameter, public :: RRB_OPT_COARSENING          = 410_c_int32_t
   ! of multigrid before and after a coarse grid; 0: chosen
   integer(c_int32_t), parameter, public :: RRB_OPT_SWEEPS              = 411_c_int32_t
   ! layers of cells by which regions of levelset grow; -1: 1 for the caller's, 0 for those found
   integer(c_int32_t), parameter, public :: RRB_OPT_DILATION            = 412_c_int32_t
   ! values from one plane of the caller's arrays to the next, at least ny * leading_dimension; 0: that many
   integer(c_int32_t), parameter, public :: RRB_OPT_LEADING_PLANE       = 413_c_int32_t
   ! the method; auto: jacobi of a diagonal, cg where symmetric with a positive diagonal (minres where that breaks
   ! down), minres where symmetric, else idr; the text shorthands jcbi, gs, gssor are jacobi, gauss_seidel, sor
   integer(c_int32_t), parameter, public :: RRB_OPT_SOLVER              = 500_c_int32_t
   ! how the matrix is stored for products; auto: the one of diagonal, dia, bsr, sell and csr that moves the fewest
   ! bytes
   integer(c_int32_t), parameter, public :: RRB_OPT_FORMAT              = 502_c_int32_t
   ! of the rows in a sweep of gauss_seidel and sor: as they are, by colours (of A + A', first fit), in blocks that take
   ! old values of the others, or forward and back
   integer(c_int32_t), parameter, public :: RRB_OPT_ORDERING            = 503_c_int32_t
   ! relaxation of jacobi, sor and ssor, below 2; 0: the method's own, 1 (sor: 1.25)
   integer(c_int32_t), parameter, public :: RRB_OPT_SOR_OMEGA           = 504_c_int32_t
   ! blocks of ordering = blocks; 0: 16
   integer(c_int32_t), parameter, public :: RRB_OPT_BLOCKS              = 505_c_int32_t
   ! rows and columns of a block of bsr; 0: those of 2 to 6 and 8 that take the fewest bytes
   integer(c_int32_t), parameter, public :: RRB_OPT_BLOCK_SIZE          = 506_c_int32_t
   ! rows of a slice of sell (C); 0: 8
   integer(c_int32_t), parameter, public :: RRB_OPT_SLICE               = 507_c_int32_t
   ! rows of sell that are sorted by length together; 0: 256 where that saves bytes, else 1, unsorted
   integer(c_int32_t), parameter, public :: RRB_OPT_SIGMA               = 508_c_int32_t
   ! vectors of gmres between restarts
   integer(c_int32_t), parameter, public :: RRB_OPT_RESTART             = 509_c_int32_t
   ! dimension s of the shadow space of idr
   integer(c_int32_t), parameter, public :: RRB_OPT_SHADOW              = 510_c_int32_t
   ! s of ic0, which factorizes A + s diag(A); below 0: 0, or where a pivot is not positive the first of 1e-3, 2e-3,
   ! 4e-3, .. without one
   integer(c_int32_t), parameter, public :: RRB_OPT_SHIFT               = 511_c_int32_t
   ! of the polynomial of chebyshev
   integer(c_int32_t), parameter, public :: RRB_OPT_DEGREE              = 513_c_int32_t
   ! how bicg multiplies with A': by a copy, or without one; auto: by a copy unless that is above format_memory
   integer(c_int32_t), parameter, public :: RRB_OPT_TRANSPOSE           = 514_c_int32_t
   ! a residual above this times its reference, or the first one where that is larger, ends a solve; 0: 1e10, or 1e100
   ! of jacobi, gauss_seidel and sor
   integer(c_int32_t), parameter, public :: RRB_OPT_DIVERGENCE_LIMIT    = 515_c_int32_t
   ! bytes that the arrays of a format other than csr may take
   integer(c_int32_t), parameter, public :: RRB_OPT_FORMAT_MEMORY       = 516_c_int32_t

   ! Results: keys of get.
   ! iterations of the last solve (smoother_: sweeps of the last apply)
   integer(c_int32_t), parameter, public :: RRB_INFO_ITERATIONS            = 1000_c_int32_t
   ! why the last solve ended; smoother_: monitor where a callback stopped the last apply, else none
   integer(c_int32_t), parameter, public :: RRB_INFO_STOP_REASON           = 1001_c_int32_t
   ! relative, in the tested norm, of the guess; smoother_: 1, known where the last apply had a monitor, else refused
   integer(c_int32_t), parameter, public :: RRB_INFO_INITIAL_RESIDUAL      = 1002_c_int32_t
   ! relative, in the tested norm, of x; recomputed as b - A x when a solve ends, other than by a guess that stays;
   ! smoother_: as the monitor was told last, refused where the last apply had none
   integer(c_int32_t), parameter, public :: RRB_INFO_FINAL_RESIDUAL        = 1003_c_int32_t
   ! wall time of the last factorize (smoother_: set_patches; sparse_: or making of a format by a product)
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_SETUP         = 1004_c_int32_t
   ! wall time of the last solve (smoother_: apply)
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_SOLVE         = 1005_c_int32_t
   ! of that, copies between host and device (not sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_TRANSFER      = 1006_c_int32_t
   ! host memory of the handle
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_HOST            = 1007_c_int32_t
   ! device memory of the handle (not sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_DEVICE          = 1008_c_int32_t
   ! smallest eigenvalue of M^-1 A seen by the last solve (Lanczos); 0 before two iterations, and but for cg (not
   ! smoother_)
   integer(c_int32_t), parameter, public :: RRB_INFO_LAMBDA_MIN            = 1009_c_int32_t
   ! largest eigenvalue of M^-1 A seen by the last solve; 0 before two iterations, and but for cg (not smoother_)
   integer(c_int32_t), parameter, public :: RRB_INFO_LAMBDA_MAX            = 1010_c_int32_t
   ! the one in use
   integer(c_int32_t), parameter, public :: RRB_INFO_BACKEND               = 1011_c_int32_t
   ! CUDA ordinal in use, -1: none (not sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_DEVICE                = 1012_c_int32_t
   ! threads in use
   integer(c_int32_t), parameter, public :: RRB_INFO_THREADS               = 1013_c_int32_t
   ! 1: this build of the library has CUDA kernels; 0: it was built with RRBSOLVER_CUDA=off (not sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_CUDA_KERNELS          = 1014_c_int32_t
   ! red eliminations in use; with cycle=aggregation its coarse levels
   integer(c_int32_t), parameter, public :: RRB_INFO_LEVELS                = 1100_c_int32_t
   ! the one in use (also dpcg_, sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_PRECISION             = 1101_c_int32_t
   ! the one in use; with k, and aggregation on the CPU, M changes with r
   integer(c_int32_t), parameter, public :: RRB_INFO_CYCLE                 = 1102_c_int32_t
   ! connected components of two nodes or more (also dpcg_)
   integer(c_int32_t), parameter, public :: RRB_INFO_COMPONENTS            = 1103_c_int32_t
   ! of those, singular ones (also dpcg_)
   integer(c_int32_t), parameter, public :: RRB_INFO_SINGULAR_COMPONENTS   = 1104_c_int32_t
   ! positive couplings moved to the diagonals of M
   integer(c_int32_t), parameter, public :: RRB_INFO_COMPENSATED_COUPLINGS = 1105_c_int32_t
   ! r1/r2/b1/b2 grids in use
   integer(c_int32_t), parameter, public :: RRB_INFO_GRIDS                 = 1106_c_int32_t
   ! of cycle=aggregation or amg: aggregates of all levels that the last factorize kept; 0: they are new (also dpcg_,
   ! sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_AGGREGATES_KEPT       = 1108_c_int32_t
   ! messages that this rank has sent in the last call, a collective one counted once
   integer(c_int32_t), parameter, public :: RRB_INFO_MESSAGES_SENT         = 1110_c_int32_t
   ! bytes of these messages
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_SENT            = 1111_c_int32_t
   ! the one in use
   integer(c_int32_t), parameter, public :: RRB_INFO_BLOCK_SOLVER          = 1200_c_int32_t
   ! different blocks whose inverses are held
   integer(c_int32_t), parameter, public :: RRB_INFO_BLOCK_INVERSES        = 1201_c_int32_t
   ! boxes of ghost cells copied between patches before a sweep
   integer(c_int32_t), parameter, public :: RRB_INFO_GHOST_COPIES          = 1202_c_int32_t
   ! cells of all patches
   integer(c_int32_t), parameter, public :: RRB_INFO_CELLS                 = 1203_c_int32_t
   ! the one in use (also sparse_)
   integer(c_int32_t), parameter, public :: RRB_INFO_PRECONDITIONER        = 1300_c_int32_t
   ! why auto took what is in use, the first that holds; crowded: more components of strong couplings than multigrid
   ! sees and deflation takes, or some hidden by flat cells, amg; anisotropic: couplings of a direction are weak,
   ! coarsening is cell; labels: of the caller, deflated; contrast: couplings of one direction are too far apart; thin:
   ! a component of strong couplings is a few cells across; plain: nothing of these; asked: preconditioner, coarsening
   ! and deflation were given
   integer(c_int32_t), parameter, public :: RRB_INFO_AUTO_REASON           = 1301_c_int32_t
   ! the one in use
   integer(c_int32_t), parameter, public :: RRB_INFO_DEFLATION             = 1302_c_int32_t
   ! the one in use; auto: no multigrid is
   integer(c_int32_t), parameter, public :: RRB_INFO_COARSENING            = 1303_c_int32_t
   ! the one in use; auto: nothing is deflated
   integer(c_int32_t), parameter, public :: RRB_INFO_COARSE_SOLVER         = 1304_c_int32_t
   ! deflation vectors in use
   integer(c_int32_t), parameter, public :: RRB_INFO_DEFLATION_VECTORS     = 1305_c_int32_t
   ! regions found, before those without a vector are left out
   integer(c_int32_t), parameter, public :: RRB_INFO_REGIONS               = 1306_c_int32_t
   ! components of two cells or more that are joined by strong couplings
   integer(c_int32_t), parameter, public :: RRB_INFO_STRONG_COMPONENTS     = 1307_c_int32_t
   ! of neumann: largest row sum of |L D^-1|; below 1 the series converges whatever its order
   integer(c_int32_t), parameter, public :: RRB_INFO_NEUMANN_ROW_SUM       = 1308_c_int32_t
   ! of the last factorize: regions, coarse matrix and its factor
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_DEFLATION     = 1309_c_int32_t
   ! of the last solve: systems with the coarse matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_COARSE        = 1310_c_int32_t
   ! of the last solve: iterations of CG
   integer(c_int32_t), parameter, public :: RRB_INFO_SECONDS_ITERATIONS    = 1311_c_int32_t
   ! rows of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_ROWS                  = 1400_c_int32_t
   ! columns of the matrix
   integer(c_int32_t), parameter, public :: RRB_INFO_COLS                  = 1401_c_int32_t
   ! entries of the matrix, given zeros too
   integer(c_int32_t), parameter, public :: RRB_INFO_NONZEROS              = 1402_c_int32_t
   ! values of the format in use, padding too; 0 before the first product
   integer(c_int32_t), parameter, public :: RRB_INFO_STORED                = 1403_c_int32_t
   ! the one in use; auto: no product yet
   integer(c_int32_t), parameter, public :: RRB_INFO_FORMAT                = 1404_c_int32_t
   ! the method in use, after a solve that of its end; auto: no factorize yet
   integer(c_int32_t), parameter, public :: RRB_INFO_SOLVER                = 1405_c_int32_t
   ! 1: |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|), or 1e-12 of the largest of row i where that is 0; 0: not so
   integer(c_int32_t), parameter, public :: RRB_INFO_SYMMETRIC             = 1407_c_int32_t
   ! of the diagonal over the other entries of a row
   integer(c_int32_t), parameter, public :: RRB_INFO_DOMINANCE             = 1408_c_int32_t
   ! rows with a zero or no entry on the diagonal
   integer(c_int32_t), parameter, public :: RRB_INFO_ZERO_DIAGONALS        = 1409_c_int32_t
   ! rows without entries
   integer(c_int32_t), parameter, public :: RRB_INFO_EMPTY_ROWS            = 1410_c_int32_t
   ! entries given at a place that had one, which were added
   integer(c_int32_t), parameter, public :: RRB_INFO_DUPLICATES            = 1411_c_int32_t
   ! colours of ordering = multicolour
   integer(c_int32_t), parameter, public :: RRB_INFO_COLOURS               = 1412_c_int32_t
   ! levels of pieces of rows that do not wait for each other, in a sweep or a triangular solve; 1 by one thread
   integer(c_int32_t), parameter, public :: RRB_INFO_SWEEP_LEVELS          = 1413_c_int32_t
   ! of ic0 in use
   integer(c_int32_t), parameter, public :: RRB_INFO_SHIFT                 = 1414_c_int32_t
   ! of the format in use, with x and y, which a product moves; 0 before the first product
   integer(c_int32_t), parameter, public :: RRB_INFO_BYTES_PER_NONZERO     = 1415_c_int32_t
   ! entries of the longest row
   integer(c_int32_t), parameter, public :: RRB_INFO_LONGEST_ROW           = 1416_c_int32_t
   ! right-hand sides of the file that was read
   integer(c_int32_t), parameter, public :: RRB_INFO_FILE_RHS              = 1417_c_int32_t
   ! where the matrix has entries beside the diagonal: lower or upper alone may be half of a symmetric one, of which
   ! both halves are to be given
   integer(c_int32_t), parameter, public :: RRB_INFO_TRIANGLE              = 1418_c_int32_t

   ! Choices: values of options and results.
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
   ! which of sparse_get_vector
   integer(c_int32_t), parameter, public :: RRB_VECTOR_RHS      = 0_c_int32_t
   ! which of sparse_get_vector
   integer(c_int32_t), parameter, public :: RRB_VECTOR_GUESS    = 1_c_int32_t
   ! which of sparse_get_vector
   integer(c_int32_t), parameter, public :: RRB_VECTOR_SOLUTION = 2_c_int32_t
   ! file_format of sparse_write
   integer(c_int32_t), parameter, public :: RRB_FILE_MTX        = 0_c_int32_t
   ! file_format of sparse_write
   integer(c_int32_t), parameter, public :: RRB_FILE_HB         = 1_c_int32_t
   ! file_format of sparse_write
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
