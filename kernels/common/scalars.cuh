// Scalars of a PCG solve on a device and the decisions of an iteration, for all families, as in src/krylov/.
#pragma once
#include "device.cuh"

// State of the PCG loop; the numbers are those of src/krylov/state.rs.
enum Code { RUNNING, CONVERGED, MAX_ITER, NEEDS_RESTART, SIGMA_VANISHED, RHO_NEGATIVE, RHO_BAD, SIGMA_BAD, PAUSED };

// Number of iterations that the ring buffer records. When it is full, the loop pauses so that the host can read it.
constexpr int RING_LENGTH = 1024;

// Record of one iteration: tested norm of its residual, and the alpha and beta from which the iterate was computed.
struct Step {
    double norm, alpha, beta;
};

// Scalars of a solve on the device. Before the loop, the host or the kernel rrb_start_loop writes the limits of
// the loop (`threshold` to `pause_at`) and resets the state of the loop.
struct LoopScalars {
    double per_unit; // 1 / unit, where unit is the scale factor of M: in f32 and bf16, M / unit is stored
    double threshold;
    double vanishing; // if the 2-norm of a residual is at most this number, its square may have underflowed
    int64_t iterations;
    int64_t max_iter;
    int64_t pause_at;
    int64_t loop_ended;     // 1: the loop has ended and x is final; further kernels of the graph return immediately
    int32_t preconditioned; // 1: the stopping test uses the preconditioned norm; 0: the 2-norm
    int32_t code;
    double rho, sigma, alpha, beta, norm2, norm;
    int64_t will_converge; // 1 if check_convergence_ahead has found that this iteration will satisfy the convergence
                           // test
    int32_t ring_used;
    int32_t parity;                  // index (0 or 1) of the array that contains the current r (rrb: r at b1)
    double sum;                      // result of the last dot product
    int64_t direction_index;         // index (0 or 1) of the current array p, for which alpha was computed
    double b_norm2, all_nodes_norm2; // <b, b>; ||b - A x||_2^2 or a part of this sum (rrb/solve.cuh)
    // Bit patterns: `largest` of max |b| at the start and of max |x| at the end of a solve, `largest_guess` of max |x|
    // of the initial guess.
    uint64_t largest, largest_guess;
    uint64_t not_finite;  // bitwise complement of the index of the first value that is not finite; 0: none
    unsigned ticket;      // counter of `is_last_block`
    unsigned sync_failed; // 1 if the devices that share a grid failed to synchronize (kernels/rrb/divided.cuh)
};
struct Scalars : LoopScalars {
    Step ring[RING_LENGTH];
};

// Copies all fields before `b_norm2`. They include all fields that a scalar update and the end of an iteration change.
// The first threads of a thread block copy 8 bytes each. If one thread copied all fields, each write would delay the
// next read.
__device__ inline void copy_loop_scalars(LoopScalars &to, const LoopScalars &from) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    if (t < int(offsetof(LoopScalars, b_norm2) / sizeof(uint64_t)))
        reinterpret_cast<uint64_t *>(&to)[t] = reinterpret_cast<const uint64_t *>(&from)[t];
}

// Stage of a solve. It selects what a kernel does with its sums. NOTHING: stores the sums and updates no scalar. START:
// before the first iteration, when there are no alpha and beta yet. LOOP: an iteration. CONFIRM: as START, but after a
// loop; updates no scalar if the loop is only paused.
enum Stage { NOTHING, START, LOOP, CONFIRM };

// The following functions are those of src/krylov/decisions.rs. One thread executes them. Functions that return a Code
// return RUNNING if the loop continues, and otherwise the reason for its end.

// Returns whether `product` is not positive and may have underflowed, because the residual norm is at most `vanishing`.
__device__ inline bool has_vanished(const LoopScalars &s, double product) {
    return product <= 0.0 && sqrt(s.norm2) <= s.vanishing;
}

// Computes the tested norm: the 2-norm from <r, r>, or the preconditioned norm from rho = <r, M^-1 r>. If the
// preconditioned norm is tested and rho is negative or not finite, returns RHO_NEGATIVE.
__device__ inline Code set_norm(LoopScalars &s, double rho) {
    if (has_vanished(s, rho)) rho = 0.0;
    s.norm = sqrt(s.preconditioned ? rho : s.norm2);
    return s.preconditioned && !(rho >= 0.0 && is_finite(rho)) ? RHO_NEGATIVE : RUNNING;
}

// Checks convergence and the iteration limit.
__device__ inline Code check_convergence(const LoopScalars &s) {
    if (s.norm <= s.threshold) return CONVERGED;
    return s.iterations >= s.max_iter ? MAX_ITER : RUNNING;
}

// Updates rho = <r, M^-1 r> and computes beta = rho / rho_old.
__device__ inline Code set_rho(LoopScalars &s, double rho) {
    if (has_vanished(s, rho)) return NEEDS_RESTART;
    if (!(rho > 0.0 && is_finite(rho))) return RHO_BAD;
    s.beta = rho / s.rho;
    s.rho = rho;
    return RUNNING;
}

// Ends an iteration: stores sigma = <p, A p> and computes alpha = rho / sigma of the next iteration.
__device__ inline Code set_sigma(LoopScalars &s, double sigma) {
    s.sigma = sigma;
    s.alpha = s.rho / sigma;
    if (has_vanished(s, sigma)) return SIGMA_VANISHED;
    return sigma > 0.0 && is_finite(sigma) ? RUNNING : SIGMA_BAD;
}

// Updates the scalars between the forward and the backward half of the cycle, when <r, M^-1 r> and <r, r> are known.
// Outside a loop, only stores these two values; in the stage CONFIRM, only if the loop has ended. `ring` is the ring
// buffer in the thread that writes it, and null in all other threads.
__device__ inline void update_with_sums(LoopScalars &s, Step *ring, double rho, double norm2, int stage) {
    if (stage == CONFIRM && (s.code == PAUSED || s.code == RUNNING)) return;
    s.norm2 = norm2;
    if (stage != LOOP) {
        s.rho = rho;
        return;
    }
    s.iterations += 1;
    Code code = set_norm(s, rho);
    if (ring) ring[s.ring_used] = {s.norm, s.alpha, s.beta};
    s.ring_used += 1;
    s.sum = rho;
    if (code == RUNNING) code = s.will_converge ? CONVERGED : check_convergence(s);
    if (code == RUNNING) code = set_rho(s, rho);
    if (code != RUNNING) s.code = code;
}

// Ends an iteration after the backward half of the cycle, which computes sigma = <p, A p>.
__device__ inline void end_iteration(LoopScalars &s, double sigma, int stage) {
    const Code code = set_sigma(s, sigma);
    s.direction_index = s.parity;
    if (stage == LOOP) {
        if (code != RUNNING) s.code = code;
        else if (s.iterations >= s.pause_at) s.code = PAUSED;
        if (s.code != RUNNING) s.loop_ended = 1;
    } else {
        s.beta = 0.0;
    }
}

// Sets the condition of a WHILE node, whose handle is `conditional`: the loop continues if the code is RUNNING. Called
// by one thread.
__device__ inline void set_loop_condition(uint64_t conditional, const LoopScalars &s) {
#ifdef RRB_EMULATED
    emulated_set_conditional(conditional, s.code == RUNNING);
#else
    cudaGraphSetConditional(cudaGraphConditionalHandle(conditional), s.code == RUNNING);
#endif
}

// Arguments of a scalar update: partial sums of <r, M^-1 r> and of <r, r>.
struct ScalarArgs {
    Scalars *scalars;
    const double *rho_partial, *norm_partial;
    int rho_count, norm_count;
    int stage;
};

// Updates the scalars when all partial sums are available. Called by one thread block, or by all thread blocks, each
// with its own copy of the scalars.
__device__ inline void update_scalars(const ScalarArgs &a, LoopScalars &s, Step *ring) {
    if (a.stage == LOOP && s.loop_ended) return;
    double rho = thread_sum(a.rho_partial, a.rho_count), norm2 = thread_sum(a.norm_partial, a.norm_count);
    rho = block_sum(rho);
    norm2 = block_sum(norm2);
    if (thread_of_block() == 0) {
        // There are two arrays for r at b1. In the loop, the forward half of the cycle has written the array that was
        // not current, which becomes current here.
        if (a.stage == LOOP) s.parity ^= 1;
        update_with_sums(s, ring, rho * s.per_unit, norm2, a.stage);
    }
}

__device__ inline void update_scalars(const ScalarArgs &a) {
    __shared__ LoopScalars scalars;
    copy_loop_scalars(scalars, *a.scalars);
    __syncthreads();
    update_scalars(a, scalars, a.scalars->ring);
    __syncthreads();
    copy_loop_scalars(*a.scalars, scalars);
}

// Determines in advance whether the convergence test will end the loop. Called by one thread block when the partial
// sums of <r, r> are available. If the test will end the loop, later kernels skip the coarse levels.
__device__ inline void check_convergence_ahead(const ScalarArgs &a) {
    LoopScalars &s = *a.scalars;
    if (a.stage == LOOP && s.loop_ended) return;
    const double norm2 = sum_of(a.norm_partial, a.norm_count);
    if (thread_of_block() == 0) s.will_converge = a.stage == LOOP && !s.preconditioned && sqrt(norm2) <= s.threshold;
}
