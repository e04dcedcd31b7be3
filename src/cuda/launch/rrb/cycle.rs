//! Kinds and flags of the steps of the preconditioner and of the fused iteration (kernels/rrb/program.cuh). The forward
//! half of the preconditioner on a grid eliminates the nodes of both levels of the grid from the right-hand side. The
//! backward half computes the solution at these nodes (kernels/rrb/levels.cuh).

/// Values of `Op::kind`: kinds of steps.
pub mod kind {
    /// Forward half on the first grid of S1, with r -= alpha q in the loop.
    pub const DESCEND_FIRST: i32 = 0;
    /// Forward half on a grid.
    pub const DESCEND: i32 = 1;
    /// Product with the inverse of the coarsest system.
    pub const COARSEST: i32 = 2;
    /// Backward half on a grid.
    pub const ASCEND: i32 = 3;
    /// q = A d on a recursion grid, where A is the matrix of this grid.
    pub const MULTIPLY_INNER: i32 = 4;
    /// d = z + beta d on a recursion grid.
    pub const DIRECTION_INNER: i32 = 5;
    /// u = u + alpha d on a recursion grid.
    pub const ADVANCE_INNER: i32 = 6;
    /// Backward half on the first grid of S1, with the next p and q and, in some iterations, x.
    pub const ADVANCE_FIRST: i32 = 7;
    /// Backward half on the first grid of S1, which only computes z, without the steps of CG. Never part of a kernel
    /// with several steps.
    pub const ASCEND_FIRST: i32 = 9;
}

/// Bits of `Op::flags`. In the comments, the words before a colon name the kinds of steps that use the flag: "forward"
/// is `DESCEND`, "backward" is `ASCEND`, and "product" is `MULTIPLY_INNER`. On the grid of the step, A is the matrix, r
/// the residual, z the preconditioned residual, u the solution, d the direction and q = A d.
pub mod flag {
    /// Forward: r = right-hand side.
    pub const STORE_RHS: i32 = 1;
    /// Forward, with `STORE_RHS`: also q = right-hand side.
    pub const STORE_RHS_IN_Q: i32 = 2;
    /// The step computes a partial sum of <r, M^-1 r>.
    pub const RHO: i32 = 4;
    /// The step computes the last partial sum of <r, M^-1 r> in the iteration, and the update of the scalars follows.
    /// With `SCALAR_BLOCK`, an earlier step has computed the last partial sum, and one block updates the scalars during
    /// this step.
    pub const UPDATE_SCALARS: i32 = 8;
    /// Backward, `DIRECTION_INNER`: d = z, or with `WITH_BETA` d = z + beta d.
    pub const UPDATE_DIRECTION: i32 = 16;
    /// With `UPDATE_DIRECTION`: d = z + beta d instead of d = z.
    pub const WITH_BETA: i32 = 32;
    /// Backward with `UPDATE_SOLUTION`, or `ADVANCE_INNER`: u = alpha d instead of u = u + alpha d.
    pub const FIRST_STEP: i32 = 64;
    /// Backward with `UPDATE_SOLUTION`: z = u.
    pub const Z_IS_U: i32 = 128;
    /// Product: stores q = A d.
    pub const STORE_PRODUCT: i32 = 256;
    /// Product, `ADVANCE_INNER`: r -= alpha q, z = r.
    pub const UPDATE_RESIDUAL: i32 = 512;
    /// Backward with `UPDATE_DIRECTION`: u = u + alpha d.
    pub const UPDATE_SOLUTION: i32 = 1024;
    /// Only the blocks of the first cluster execute the step.
    pub const CLUSTER_ONLY: i32 = 2048;
    /// A barrier of the cluster follows.
    pub const CLUSTER_BARRIER: i32 = 4096;
    /// No barrier follows: the next step synchronizes by itself, or this step is the last one of the kernel.
    pub const NO_BARRIER: i32 = 8192;
    /// The step computes the last partial sum of <r, M^-1 r> in this kernel. Later kernels may compute more partial
    /// sums.
    pub const STORE_RHO: i32 = 16384;
    /// The data are in the shared memory of the cluster.
    pub const IN_CLUSTER: i32 = 65536;
    /// The first step in shared memory; its input z is in device memory.
    pub const LOAD_Z: i32 = 131_072;
    /// Forward: z_b2 = kept / d, where `kept` is the right-hand side of the next grid and d the center of b2. The
    /// couplings of b2 are ignored.
    pub const TRUNCATED: i32 = 262_144;
    /// One block works on the scalars while the others execute the step. The host translates this bit to
    /// `StepArgs::scalar_block`; kernels do not read it.
    pub const SCALAR_BLOCK: i32 = 524_288;
}
