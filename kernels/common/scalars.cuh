// The scalars of a solve and the decisions of an iteration, as in src/solver/krylov/, for all families that iterate.
#pragma once
#include "device.cuh"

// How the loop of PCG stands; numbers as in src/backend/cuda/launch/rrb/solve.rs.
enum Code { RUNNING, MET, MAX_ITER, SPENT, SIGMA_VANISHED, RHO_NEGATIVE, RHO_BAD, SIGMA_BAD, PAUSED };

// Entries of the ring of iterations; the loop pauses when it is full.
constexpr int RING = 1024;

struct Step {
    double norm, alpha, beta;
};

// The scalars of a solve, on the device. The host, or rrb_set_out, writes the first part before the loop.
struct Standing {
    double per_unit; // short formats keep M / unit
    double threshold;
    double vanishing; // residuals of at most this 2-norm may have squares that vanish
    int64_t iterations;
    int64_t max_iter;
    int64_t pause_at;
    int64_t done;           // the loop is over and x is there: what the graph has of it does nothing any more
    int32_t preconditioned; // the tested norm
    int32_t code;
    double rho, sigma, alpha, beta, norm2, norm;
    int64_t met; // the test of this iteration is met: the way down has found it, and the scalar update will say so
    int32_t ring_used;
    int32_t parity;              // which of the two r of b1 is current; from here on they only read
    double sum;                  // of the last dot product
    int64_t direction;           // which of the two p is current, and alpha that of
    double b_norm2, whole_norm2; // <b, b> and |b - A x|^2
    uint64_t largest, largest_guess;
    uint64_t not_finite; // complement of the first place; 0: none
    unsigned ticket;
    unsigned lost; // devices that share a grid have not met (kernels/rrb/divided.cuh)
};
struct Scalars : Standing {
    Step ring[RING];
};

// What a scalar update and the end of an iteration change, at once: field by field, each write would make the next read
// wait. By the first threads of a block.
__device__ inline void copy_standing(Standing &to, const Standing &from) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    if (t < int(offsetof(Standing, b_norm2) / sizeof(uint64_t)))
        reinterpret_cast<uint64_t *>(&to)[t] = reinterpret_cast<const uint64_t *>(&from)[t];
}

// What a kernel does with its sums, by the stage of the solve.
// CONFIRM: as START, after a loop that does not go on.
enum Stage { NOTHING, START, LOOP, CONFIRM };

// The decisions of an iteration, as in src/solver/krylov/decisions.rs; by one thread.

// A square that is not positive, of a residual whose squares may vanish.
__device__ inline bool vanished(const Standing &s, double square) {
    return square <= 0.0 && sqrt(s.norm2) <= s.vanishing;
}

// The tested norm, of <r, r> and, in the papers' norm, of rho = <r, M^-1 r>.
__device__ inline Code take_norm(Standing &s, double rho) {
    if (vanished(s, rho)) rho = 0.0;
    s.norm = sqrt(s.preconditioned ? rho : s.norm2);
    return s.preconditioned && !(rho >= 0.0 && is_finite(rho)) ? RHO_NEGATIVE : RUNNING;
}

// The convergence check.
__device__ inline Code check_convergence(const Standing &s) {
    if (s.norm <= s.threshold) return MET;
    return s.iterations >= s.max_iter ? MAX_ITER : RUNNING;
}

// The scalar update: rho = <r, M^-1 r>, and beta.
__device__ inline Code take_rho(Standing &s, double rho) {
    if (vanished(s, rho)) return SPENT;
    if (!(rho > 0.0 && is_finite(rho))) return RHO_BAD;
    s.beta = rho / s.rho;
    s.rho = rho;
    return RUNNING;
}

// The end of an iteration: sigma = <p, A p>, and alpha of the next one.
__device__ inline Code take_sigma(Standing &s, double sigma) {
    s.sigma = sigma;
    s.alpha = s.rho / sigma;
    if (vanished(s, sigma)) return SIGMA_VANISHED;
    return sigma > 0.0 && is_finite(sigma) ? RUNNING : SIGMA_BAD;
}

// From the way down to the way up: <r, M^-1 r> and <r, r> are known. The fused way down has written the other r of b1.
// `ring`: of the scalars, by who writes it; else null.
__device__ inline void update(Standing &s, Step *ring, double rho, double norm2, int how) {
    if (how == CONFIRM && (s.code == PAUSED || s.code == RUNNING)) return;
    s.norm2 = norm2;
    if (how != LOOP) {
        s.rho = rho;
        return;
    }
    s.iterations += 1;
    Code code = take_norm(s, rho);
    if (ring) ring[s.ring_used] = {s.norm, s.alpha, s.beta};
    s.ring_used += 1;
    s.sum = rho;
    if (code == RUNNING) code = s.met ? MET : check_convergence(s);
    if (code == RUNNING) code = take_rho(s, rho);
    if (code != RUNNING) s.code = code;
}

// The end of the way up: <p, A p> is known.
__device__ inline void end_of_iteration(Standing &s, double sigma, int how) {
    const Code code = take_sigma(s, sigma);
    s.direction = s.parity;
    if (how == LOOP) {
        if (code != RUNNING) s.code = code;
        else if (s.iterations >= s.pause_at) s.code = PAUSED;
        if (s.code != RUNNING) s.done = 1;
    } else {
        s.beta = 0.0;
    }
}

// Whether a recorded loop goes on; by one thread.
__device__ inline void set_loop(uint64_t conditional, const Standing &s) {
#ifdef RRB_EMULATED
    emulated_set_conditional(conditional, s.code == RUNNING);
#else
    cudaGraphSetConditional(cudaGraphConditionalHandle(conditional), s.code == RUNNING);
#endif
}

// The end of the way down: what makes <r, M^-1 r> and <r, r>.
struct ScalarArgs {
    Scalars *scalars;
    const double *rho_partial, *norm_partial;
    int rho_count, norm_count;
    int how;
};

// By one block, when the parts are there; or by all, each for itself.
__device__ inline void update_scalars(const ScalarArgs &a, Standing &s, Step *ring) {
    if (a.how == LOOP && s.done) return;
    double rho = part_of(a.rho_partial, a.rho_count), norm2 = part_of(a.norm_partial, a.norm_count);
    rho = block_sum(rho);
    norm2 = block_sum(norm2);
    if (thread_of_block() == 0) {
        // The way down of the loop has written the other r of b1.
        if (a.how == LOOP) s.parity ^= 1;
        update(s, ring, rho * s.per_unit, norm2, a.how);
    }
}

__device__ inline void update_scalars(const ScalarArgs &a) {
    __shared__ Standing now;
    copy_standing(now, *a.scalars);
    __syncthreads();
    update_scalars(a, now, a.scalars->ring);
    __syncthreads();
    copy_standing(*a.scalars, now);
}

// By one block, once the parts of <r, r> are there: whether the convergence check will end the loop. The small grids
// are left out then.
__device__ inline void check_ahead(const ScalarArgs &a) {
    Standing &s = *a.scalars;
    if (a.how == LOOP && s.done) return;
    const double norm2 = sum_of(a.norm_partial, a.norm_count);
    if (thread_of_block() == 0) s.met = a.how == LOOP && !s.preconditioned && sqrt(norm2) <= s.threshold;
}
