// A run of steps of the preconditioner on small grids, or the whole iteration of a small problem, in one kernel whose blocks
// all run at once and meet between the steps: a meeting takes a microsecond, a launch several.
#include "common.cuh"

// Grids at most that one kernel goes over.
constexpr int MOST_GRIDS = 10;

template <class F> struct CycleArgs {
    const Op *ops;          // those to do
    int count;
    int base;               // grid of the first of `grids`
    Level<F> grids[MOST_GRIDS];
    Rest<typename F::Real> rest;
    double *rho_partial;    // parts of rho, at Op::partial
    double *norm_partial, *sigma_partial;
    TurnArgs turn;
    Meeting *meeting;
};

// The whole iteration: repeated until its test ends it.
template <class F> struct SolveArgs {
    CycleArgs<F> cycle;
    FirstArgs<F> first;
};

template <class F> __device__ inline const Level<F> &grid_of(const CycleArgs<F> &a, int grid) { return a.grids[grid - a.base]; }

// One step but those of the first grid; returns this thread's part of rho.
template <class F> __device__ inline double do_step(const CycleArgs<F> &a, const Op &op) {
    switch (op.kind) {
    case DESCEND: return descend(grid_of(a, op.grid), op);
    case REMAINDER: return multiply_remainder(a.rest);
    case ASCEND: return ascend(grid_of(a, op.grid), op);
    case MULTIPLY_INNER: multiply_inner(grid_of(a, op.grid), op); return 0.0;
    case DIRECT_INNER: direct_inner(grid_of(a, op.grid), op); return 0.0;
    default: advance_inner(grid_of(a, op.grid), op); return 0.0;
    }
}

// A part of rho, where it is asked for, and the turn after the last part.
template <class F> __device__ inline void end_step(const CycleArgs<F> &a, const Op &op, double rho, unsigned &phase) {
    const bool part = (op.flags & RHO) && a.turn.how != NOTHING;
    if (part) {
        rho = block_sum(rho);
        if (thread_of_block() == 0) a.rho_partial[op.partial + blockIdx.x] = rho;
    }
    if (part && (op.flags & TURN)) meet(a.meeting, phase, [&] { turn_of(a.turn); });
    else meet(a.meeting, phase);
}

// Steps that a block keeps at hand.
constexpr int AT_HAND = 64;

struct Hand {
    const Op *ops;
    const Op *kept;
    __device__ Op operator[](int k) const { return k < AT_HAND ? kept[k] : ops[k]; }
};

template <class F> __device__ inline Hand take_in_hand(const CycleArgs<F> &a) {
    __shared__ Op kept[AT_HAND];
    for (int k = thread_of_block(); k < min(a.count, AT_HAND); k += SWEEP_THREADS) kept[k] = a.ops[k];
    __syncthreads();
    return {a.ops, kept};
}

template <class F> __device__ inline void cycle(const CycleArgs<F> &a) {
    if (a.turn.how == LOOP && a.turn.scalars->done) return;
    const Hand ops = take_in_hand(a);
    unsigned phase = 0;
    for (int k = 0; k < a.count; ++k) {
        const Op op = ops[k];
        end_step(a, op, do_step(a, op), phase);
    }
    leave(a.meeting, phase);
}

template <class F> __device__ inline void solve(const SolveArgs<F> &a) {
    const CycleArgs<F> &c = a.cycle;
    const Hand ops = take_in_hand(c);
    Scalars &s = *c.turn.scalars;
    unsigned phase = 0;
    bool again;
    do {
        for (int k = 0; k < c.count; ++k) {
            const Op op = ops[k];
            if (op.kind == DESCEND_FIRST) {
                double rho = 0.0, norm2 = 0.0;
                descend_first(a.first, rho, norm2);
                norm2 = block_sum(norm2);
                if (thread_of_block() == 0) c.norm_partial[blockIdx.x] = norm2;
                end_step(c, op, rho, phase);
            } else if (op.kind == ADVANCE_FIRST) {
                advance_first(a.first);
                meet(c.meeting, phase);
            } else if (op.kind == MULTIPLY_FIRST) {
                if (c.turn.how == LOOP && s.code != RUNNING) break;
                const double part = block_sum(multiply_first(a.first.v));
                if (thread_of_block() == 0) c.sigma_partial[blockIdx.x] = part;
                meet(c.meeting, phase, [&] {
                    const double sigma = sum_of(c.sigma_partial, gridDim.x);
                    if (thread_of_block() == 0) end_of_iteration(s, sigma, c.turn.how);
                });
            } else {
                end_step(c, op, do_step(c, op), phase);
            }
        }
        again = c.turn.how == LOOP && *static_cast<volatile int32_t *>(&s.code) == RUNNING;
    } while (again);
    leave(c.meeting, phase);
}

// One block for each multiprocessor at least, two with what they need.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 2) rrb_cycle_f64(const __grid_constant__ CycleArgs<Double> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 2) rrb_cycle_f32(const __grid_constant__ CycleArgs<Single> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 2) rrb_cycle_bf16(const __grid_constant__ CycleArgs<Brain> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 2) rrb_solve_f64(const __grid_constant__ SolveArgs<Double> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 2) rrb_solve_f32(const __grid_constant__ SolveArgs<Single> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 2) rrb_solve_bf16(const __grid_constant__ SolveArgs<Brain> a) { solve(a); }
