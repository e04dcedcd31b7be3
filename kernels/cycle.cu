// A run of steps of the preconditioner on small grids, or the whole iteration of a small problem, in one kernel whose blocks
// all run at once and meet between the steps: a meeting takes a microsecond, a launch several. Where a device has clusters, the
// blocks of the first one do the steps on grids that have as many tiles at most, and meet by the barrier of the cluster; the
// others come to the next step of all, which for the remainder means that they have its rows at hand.
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
    int crew;               // blocks of a cluster; 1: there are none
};

// The whole iteration: repeated until its test ends it.
template <class F> struct SolveArgs {
    CycleArgs<F> cycle;
    FirstArgs<F> first;
};

// Steps that a block keeps at hand.
constexpr int AT_HAND = 64;

struct Hand {
    const Op *ops, *kept;
    __device__ Op operator[](int k) const { return k < AT_HAND ? kept[k] : ops[k]; }
};

template <class F> __device__ inline Hand take_in_hand(const CycleArgs<F> &a) {
    __shared__ Op kept[AT_HAND];
    for (int k = thread_of_block(); k < min(a.count, AT_HAND); k += SWEEP_THREADS) kept[k] = a.ops[k];
    __syncthreads();
    return {a.ops, kept};
}

// One step but those of the first grid and of the remainder; returns this thread's part of rho.
template <class F> __device__ inline double do_step(const Level<F> &k, const Op &op) {
    switch (op.kind) {
    case DESCEND: return descend(k, op);
    case ASCEND: return ascend(k, op);
    case MULTIPLY_INNER: multiply_inner(k, op); return 0.0;
    case DIRECT_INNER: direct_inner(k, op); return 0.0;
    default: advance_inner(k, op); return 0.0;
    }
}

// One step but those of the first grid, and the meeting after it. `rho` gathers this thread's parts, and once this kernel has
// its last one goes to `rho_partial`, a value a block. The turn is done by the last block: no other one waits for it.
template <class F> __device__ inline void take_step(const CycleArgs<F> &a, const Op &op, double &rho, unsigned &phase) {
    const bool mine = !(op.flags & CREW) || int(blockIdx.x) < a.crew;
    double part = 0.0;
    if (op.kind == REMAINDER) {
        // By blocks that have nothing to do before it, as far as they are enough: they read its rows meanwhile.
        const int needed = (a.rest.n + SWEEP_THREADS / 32 - 1) / (SWEEP_THREADS / 32);
        const int first = max(0, min(a.crew, int(gridDim.x) - needed));
        part = multiply_remainder(a.rest, first, [&] { meet(a.meeting, phase); });
    } else if (mine) {
        part = do_step(a.grids[op.grid - a.base], op);
    }
    if ((op.flags & RHO) && a.turn.how != NOTHING) rho += part;
    if ((op.flags & PART) && a.turn.how != NOTHING) {
        rho = block_sum(rho);
        if (thread_of_block() == 0) a.rho_partial[op.partial + blockIdx.x] = rho;
        rho = 0.0;
    }
    if (op.flags & CREW_MEETS) {
        if (mine) meet_crew();
    } else if (!(op.flags & UNMET)) {
        meet(a.meeting, phase);
    }
    if ((op.flags & TURN) && a.turn.how != NOTHING) {
        if (blockIdx.x == gridDim.x - 1) turn_of(a.turn);
        if (op.flags & AWAITED) meet(a.meeting, phase);
    }
}

template <class F> __device__ inline void cycle(const CycleArgs<F> &a) {
    if (a.turn.how == LOOP && a.turn.scalars->done) return;
    const Hand ops = take_in_hand(a);
    unsigned phase = 0;
    double rho = 0.0;
    for (int k = 0; k < a.count; ++k) take_step(a, ops[k], rho, phase);
    leave(a.meeting, phase);
}

template <class F> __device__ inline void solve(const SolveArgs<F> &a) {
    const CycleArgs<F> &c = a.cycle;
    const Hand ops = take_in_hand(c);
    Scalars &s = *c.turn.scalars;
    unsigned phase = 0;
    bool again;
    do {
        double rho = 0.0;
        for (int k = 0; k < c.count; ++k) {
            const Op op = ops[k];
            if (op.kind == DESCEND_FIRST) {
                double norm2 = 0.0;
                descend_first(a.first, rho, norm2);
                norm2 = block_sum(norm2);
                if (thread_of_block() == 0) c.norm_partial[blockIdx.x] = norm2;
                if (!(op.flags & UNMET)) meet(c.meeting, phase);
            } else if (op.kind == ADVANCE_FIRST) {
                const bool ended = c.turn.how == LOOP && s.code != RUNNING;
                const double part = block_sum(advance_first<TILE_X, TILE_Y>(a.first));
                if (ended) break;
                if (thread_of_block() == 0) c.sigma_partial[blockIdx.x] = part;
                meet(c.meeting, phase, [&] {
                    const double sigma = sum_of(c.sigma_partial, gridDim.x);
                    if (thread_of_block() == 0) end_of_iteration(s, sigma, c.turn.how);
                });
            } else {
                take_step(c, op, rho, phase);
            }
        }
        again = c.turn.how == LOOP && *static_cast<volatile int32_t *>(&s.code) == RUNNING;
    } while (again);
    leave(c.meeting, phase);
}

// One block for each multiprocessor: with two, registers are spilled, and meetings take longer.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_cycle_f64(const __grid_constant__ CycleArgs<Double> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_cycle_f32(const __grid_constant__ CycleArgs<Single> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_cycle_bf16(const __grid_constant__ CycleArgs<Brain> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_solve_f64(const __grid_constant__ SolveArgs<Double> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_solve_f32(const __grid_constant__ SolveArgs<Single> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_solve_bf16(const __grid_constant__ SolveArgs<Brain> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS, 1) rrb_solve_mixed(const __grid_constant__ SolveArgs<Mixed> a) { solve(a); }
