// The preconditioner as a program: a list of steps that kernels carry out.
#pragma once
#include <cstdint>

// A step of the preconditioner (src/backend/cuda/rrb/program.rs). A program is an array of them in device memory.
enum Kind { DESCEND_FIRST, DESCEND, REMAINDER, ASCEND, MULTIPLY_INNER, DIRECT_INNER, ADVANCE_INNER, ADVANCE_FIRST };
enum Flag {
    KEEP = 1,      // down: r = right-hand side
    KEEP_TOO = 2,  // down: and q
    RHO = 4,       // a part of <r, M^-1 r>
    UPDATE = 8,    // the last such part
    DIRECTED = 16, // up, or as a step: d = z, with WITH_BETA + beta d
    WITH_BETA = 32,
    FIRST_STEP = 64, // u = alpha d, else u + alpha d
    TAKE = 128,      // up: z = u
    STORE = 256,     // product: q = A d
    GO_ON = 512,     // product, step: r -= alpha q, z = r
    ADVANCED = 1024, // up: u as above
    // In a kernel of several steps (cycle.cuh):
    CLUSTER_ONLY = 2048,    // the blocks of the first cluster alone do it
    CLUSTER_BARRIER = 4096, // and a barrier of them alone follows
    NO_BARRIER = 8192,      // no barrier after it: the step that follows has one
    PART = 16384,           // the last part of rho of this kernel
    IN_CLUSTER = 65536,     // in the shared memory of the cluster (cluster.cuh)
    ENTERS = 131072,        // the first such step: z is in device memory
    ALONE = 262144,         // down: z of b2 by its pivot, its couplings are left out
};
struct Op {
    int32_t kind, grid, flags, partial; // partial: where its blocks put their sums
    double alpha, beta;
};
