// A run of steps of the preconditioner on small grids, or the whole iteration of a small problem, in one kernel whose blocks
// all run at once and meet between the steps: a meeting takes a microsecond, a launch several. Further blocks, which meet
// nobody, may do x += alpha p of the iteration before meanwhile. Where a device has clusters, the blocks of the first one do
// the steps on grids that have as many tiles at most, and meet by the barrier of the cluster; the others come to the next step
// of all, which for the remainder means that they have its rows at hand. Grids that have a place for each of its threads are
// in its shared memory then (cluster.cuh).
#include "../common/barrier.cuh"
#include "program.cuh"
#include "scalars.cuh"
#include "storage.cuh"
#include "cluster.cuh"

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
    int crew_base, last;    // grids that the crew has in its shared memory
    int members;            // blocks of it that have rows; 0: it has no grids
    void *slots;            // of r of the remainder, then of z
    int for_x;              // the last blocks, which do x += alpha p meanwhile
    SchurArrays v;

    // An emulated device runs one block, which does that too.
#ifdef RRB_EMULATED
    int team() const { return 1; }
    Team others() const { return {0, for_x > 0}; }
#else
    __device__ int team() const { return int(gridDim.x) - for_x; }
    __device__ Team others() const { return {team(), int(gridDim.x)}; }
#endif
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
    for (int k = thread_of_block(); k < min(a.count, AT_HAND); k += blockDim.x) kept[k] = a.ops[k];
    __syncthreads();
    return {a.ops, kept};
}

// What a block remembers from step to step. `whole`: the loop is this kernel, and each block keeps the scalars for itself.
struct State {
    unsigned phase, turns, visit;
    double rho;  // this thread's parts
    bool due;    // the turn, by this block
    bool whole;
};

template <class F> __device__ inline State begin_steps(const CycleArgs<F> &a, bool whole) {
    return {0, 0, *static_cast<volatile unsigned *>(&a.meeting->visit), 0.0, false, whole};
}

// One step but those of the first grid and of the remainder, where there are tiles; returns this thread's part of rho.
template <class F> __device__ inline double do_step(const Level<F> &k, const Op &op, Team team) {
    switch (op.kind) {
    case DESCEND: return descend(k, op, team);
    case ASCEND: return ascend(k, op, team);
    case MULTIPLY_INNER: multiply_inner(k, op, team); return 0.0;
    case DIRECT_INNER: direct_inner(k, op, team); return 0.0;
    default: advance_inner(k, op, team); return 0.0;
    }
}

// The remainder's product by the blocks beside the crew, or by the crew where there are none: it neither waits for them nor
// they for it but by slots.
template <class F> __device__ inline double serve(const CycleArgs<F> &a, State &state) {
    using Real = typename F::Real;
    const Team team{a.team() > a.crew ? a.crew : 0, a.team()};
    const unsigned visit = ++state.visit;
    if (!team.is_mine()) return 0.0;
    Slot<Real> *slots = static_cast<Slot<Real> *>(a.slots);
    return multiply_remainder<128 / sizeof(Real)>(
        a.rest, team, [] { __syncthreads(); },
        [&](Real *r) {
            // Two values a thread, asked for at once.
            static_assert(MOST_REMAINDER <= 2 * CREW_THREADS, "every value of r has a thread");
            const int k = thread_of_block(), other = min(k + CREW_THREADS, a.rest.n - 1);
            if (k >= a.rest.n) return;
            Real v, w;
            bool here, there;
            do {
                here = slots[k].get(visit, v);
                there = slots[other].get(visit, w);
            } while (!here || !there);
            r[k] = v;
            r[other] = w;
        },
        [&](int row, Real sum) { slots[a.rest.n + row].put(sum, visit); });
}

// The turn, by every block alike.
template <class F> __device__ inline void take_turn(const CycleArgs<F> &a, Standing &now) {
    turn_of(a.turn, now, blockIdx.x == 0 ? a.turn.scalars->ring : nullptr);
    __syncthreads();
}

// The meeting of all. A turn that nobody waits for comes after this block's arrival: it takes as long as several steps. Where all
// wait for it, all take it once they have met, which costs one look at the parts and not three at what one block has made of them.
template <class F> __device__ inline void meet_all(const CycleArgs<F> &a, State &state, Standing &now) {
    const bool due = state.due;
    state.due = false;
    if (!due || state.whole) {
        meet(a.meeting, state.phase, a.team());
        if (due) take_turn(a, now);
        return;
    }
    ++state.phase;
    __syncthreads();
    if (thread_of_block() == 0) arrive(&a.meeting->arrived);
    turn_of(a.turn);
    if (thread_of_block() == 0) {
        while (look(&a.meeting->arrived) < a.team() * state.phase) {}
    }
    __syncthreads();
}

// One step but those of the first grid, and the meeting after it. `rho` gathers this thread's parts, and once this kernel has
// its last one goes to `rho_partial`, a value a block. The turn is done by the last block, or by all.
template <class F>
__device__ inline void take_step(const CycleArgs<F> &a, const Crew<F> &crew, const Op &op, State &state, Standing &now) {
    const bool aboard = op.flags & IN_CREW, sums = a.turn.how != NOTHING;
    const bool mine = aboard ? crew.mine() : !(op.flags & CREW) || int(blockIdx.x) < a.crew;
    double part = 0.0;
    if (aboard && op.kind == REMAINDER) {
        part = serve(a, state);
    } else if (op.kind == REMAINDER) {
        // By blocks that have nothing to do before it, as far as they are enough: they read its rows meanwhile.
        const int rows = blockDim.x / 32, needed = (a.rest.n + rows - 1) / rows;
        const Team team{max(0, min(a.crew, a.team() - needed)), a.team()};
        part = multiply_remainder(a.rest, team, [&] { meet(a.meeting, state.phase, a.team()); });
    } else if (aboard && mine) {
        if (op.flags & ENTERS) enter(crew);
        if (op.kind == DESCEND) part = descend_in_crew(crew, op, state.visit + 1);
        else if (op.kind == ASCEND) part = ascend_in_crew(crew, op, state.visit);
        else iterate_in_crew(crew, op);
    } else if (mine) {
        // Beside the crew, as far as the others are enough.
        const Level<F> &k = a.grids[op.grid - a.base];
        const int tiles = (k.g.cx + TILE_X - 1) / TILE_X * ((k.g.cy + TILE_Y - 1) / TILE_Y);
        const bool beside = a.members > 0 && !(op.flags & CREW) && a.crew + tiles <= a.team();
        part = do_step(k, op, {beside ? a.crew : 0, a.team()});
    }
    if ((op.flags & RHO) && sums) state.rho += part;
    if ((op.flags & PART) && sums) {
        state.rho = block_sum(state.rho);
        if (thread_of_block() == 0) a.rho_partial[op.partial + blockIdx.x] = state.rho;
        state.rho = 0.0;
    }
    const bool turns = (op.flags & TURN) && sums, turner = int(blockIdx.x) == a.team() - 1;
    if (turns && state.whole) {
        state.due = true;
    } else if (turns && aboard) {
        bring_parts(a.meeting, ++state.turns, a.team());
        state.due = turner;
    }
    if (op.flags & CREW_MEETS) {
        if (int(blockIdx.x) < a.crew) meet_crew();
    } else if (!(op.flags & UNMET)) {
        meet_all(a, state, now);
    }
    if (turns && !aboard && !state.whole && turner) turn_of(a.turn);
}

template <class F> __device__ inline void cycle(const CycleArgs<F> &a) {
    if (a.others().is_mine()) advance_x(a.v, a.others());
    if (int(blockIdx.x) >= a.team()) return;
    if (a.turn.how == LOOP && (a.turn.scalars->done || a.turn.scalars->met)) return;
    const Hand ops = take_in_hand(a);
    const Crew<F> crew = come_aboard(a);
    State state = begin_steps(a, false);
    for (int k = 0; k < a.count; ++k) take_step(a, crew, ops[k], state, *a.turn.scalars);
    if (state.due) turn_of(a.turn);
    leave(a.meeting, state.phase, state.visit, a.team());
}

template <class F> __device__ inline void solve(const SolveArgs<F> &a) {
    const CycleArgs<F> &c = a.cycle;
    const int how = c.turn.how;
    // The scalars: all blocks come to the same, from the same sums, and one writes them back.
    __shared__ Standing now;
    copy_standing(now, *c.turn.scalars);
    __shared__ double p1[PLACES<TILE_Y>], p2[PLACES<TILE_Y>];
    const Hand ops = take_in_hand(c);
    if (how == LOOP && now.done) return;
    const Crew<F> crew = come_aboard(c);
    State state = begin_steps(c, true);
    do {
        state.rho = 0.0;
        for (int k = 0; k < c.count; ++k) {
            const Op op = ops[k];
            if (op.kind == DESCEND_FIRST) {
                double norm2 = 0.0;
                descend_first<false, false>(a.first, now, state.rho, norm2);
                norm2 = block_sum(norm2);
                if (thread_of_block() == 0) c.norm_partial[blockIdx.x] = norm2;
                if (!(op.flags & UNMET)) meet(c.meeting, state.phase, c.team());
            } else if (op.kind == ADVANCE_FIRST) {
                const double part = block_sum(advance_first<TILE_Y, CREW_THREADS, false, false>(a.first, now, p1, p2));
                if (how == LOOP && now.code != RUNNING) break;
                if (thread_of_block() == 0) c.sigma_partial[blockIdx.x] = part;
                meet(c.meeting, state.phase, c.team());
                const double sigma = sum_of(c.sigma_partial, c.team());
                if (thread_of_block() == 0) end_of_iteration(now, sigma, how);
                __syncthreads();
            } else {
                take_step(c, crew, op, state, now);
            }
        }
    } while (how == LOOP && now.code == RUNNING);
    if (state.due) {
        meet(c.meeting, state.phase, c.team());
        take_turn(c, now);
    }
    // Nobody begins to read them any more: all have met since.
    if (blockIdx.x == 0) copy_standing(*c.turn.scalars, now);
    leave(c.meeting, state.phase, state.visit, c.team());
}

// One block for each multiprocessor: with two, registers are spilled, and meetings take longer.
extern "C" __global__ void __launch_bounds__(CREW_THREADS, 1) rrb_cycle_f64(const __grid_constant__ CycleArgs<Double> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(CREW_THREADS, 1) rrb_cycle_f32(const __grid_constant__ CycleArgs<Single> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(CREW_THREADS, 1) rrb_cycle_bf16(const __grid_constant__ CycleArgs<Brain> a) { cycle(a); }
extern "C" __global__ void __launch_bounds__(CREW_THREADS, 1) rrb_solve_f64(const __grid_constant__ SolveArgs<Double> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(CREW_THREADS, 1) rrb_solve_f32(const __grid_constant__ SolveArgs<Single> a) { solve(a); }
extern "C" __global__ void __launch_bounds__(CREW_THREADS, 1) rrb_solve_bf16(const __grid_constant__ SolveArgs<Brain> a) { solve(a); }
