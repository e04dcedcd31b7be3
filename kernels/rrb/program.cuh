// The preconditioner as a program, that is, a list of steps that the kernels execute.
#pragma once
#include <cstdint>

// Kinds and flags of steps (src/rrb/cuda/program.rs). A program is an array of `Op` in device memory. In the comments
// on flags, the words before a colon name the kinds of steps that use the flag: "forward" denotes DESCEND, "backward"
// ASCEND, and "product" MULTIPLY_INNER. On the grid of the step, A is the matrix, r the residual, z the preconditioned
// residual, u the solution, d the direction and q = A d.
enum StepKind {
    DESCEND_FIRST,
    DESCEND,
    COARSEST,
    ASCEND,
    MULTIPLY_INNER,
    DIRECTION_INNER,
    ADVANCE_INNER,
    ADVANCE_FIRST
};
enum StepFlag {
    STORE_RHS = 1,         // forward: r = right-hand side
    STORE_RHS_IN_Q = 2,    // forward: with STORE_RHS, also q = right-hand side
    RHO = 4,               // computes a partial sum of <r, M^-1 r>
    UPDATE_SCALARS = 8,    // the step computes the last partial sum of rho; the scalar update follows
    UPDATE_DIRECTION = 16, // backward, DIRECTION_INNER: d = z, or d = z + beta d with WITH_BETA
    WITH_BETA = 32,
    FIRST_STEP = 64,        // backward with UPDATE_SOLUTION, or ADVANCE_INNER: u = alpha d, not u = u + alpha d
    Z_IS_U = 128,           // backward: z = u
    STORE_PRODUCT = 256,    // product: q = A d
    UPDATE_RESIDUAL = 512,  // product, ADVANCE_INNER: r -= alpha q, z = r
    UPDATE_SOLUTION = 1024, // backward: u = u + alpha d, or u = alpha d with FIRST_STEP
    // In a kernel with several steps (cycle.cuh):
    CLUSTER_ONLY = 2048,    // only the thread blocks of the first cluster execute the step
    CLUSTER_BARRIER = 4096, // a barrier of the cluster follows
    NO_BARRIER = 8192,      // no barrier follows: the next step synchronizes, or this step is the last of the kernel
    STORE_RHO = 16384,      // the step computes the last partial sum of rho in this kernel
    IN_CLUSTER = 65536,     // the data of the step are in the shared memory of the cluster (cluster.cuh)
    LOAD_Z = 131072,        // the first step in shared memory; its input z is in device memory
    TRUNCATED = 262144,     // forward: z_b2 = kept / d (levels.cuh); couplings of b2 are ignored
};
struct Op {
    int32_t kind, grid, flags, partial; // partial: index of the first partial sum of the step
    double alpha, beta;
};
