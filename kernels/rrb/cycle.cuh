// Kernels that execute several steps of the preconditioner on small grids, or whole iterations of a small problem.
//
// All thread blocks run at the same time and synchronize with a grid-wide barrier between steps. A barrier takes about
// a microsecond, and a kernel launch takes several microseconds. Additional thread blocks, which do not take part in
// the barriers, may compute x += alpha p of the previous iteration at the same time.
//
// On devices with thread-block clusters, the first cluster executes the steps on grids that have no more tiles than the
// cluster has blocks. These steps use the cluster barrier. Meanwhile, the other blocks proceed to the next step in
// which they take part, and load rows of the inverse of the coarsest matrix into registers. Grids with at most one (I,
// J) per thread of the cluster are stored in its shared memory (cluster.cuh).
#include "storage.cuh"
#include "cluster.cuh"

template <class F> struct CycleArgs {
    const Op *ops; // steps of this kernel
    int count;
    int base; // number of the grid grids[0]
    Level<F> grids[MOST_GRIDS];
    CoarsestSystem<typename F::Real> coarsest;
    double *rho_partial; // partial sums of rho; those of a step begin at index Op::partial
    double *norm_partial, *sigma_partial;
    ScalarArgs scalar;
    BarrierCounts *barrier;
    int cluster;            // number of thread blocks per cluster; 1: no clusters
    int cluster_base, last; // first and last grid in the shared memory of the cluster
    int row_blocks;         // number of thread blocks of the cluster that own rows; 0: no grid is in the cluster
    Slot *slots;            // slots for r of the coarsest system, then for z
    int x_blocks;           // number of thread blocks, the last of the launch, that compute x += alpha p
    SchurArrays v;

    // On an emulated device, the only thread block also computes x += alpha p.
#ifdef RRB_EMULATED
    int team_size() const { return 1; }
    Team x_team() const { return {0, x_blocks > 0}; }
#else
    __device__ int team_size() const { return int(gridDim.x) - x_blocks; }
    __device__ Team x_team() const { return {team_size(), int(gridDim.x)}; }
#endif
};

// Arguments of the kernel that repeats whole iterations until the stopping test ends the loop.
template <class F> struct SolveArgs {
    CycleArgs<F> cycle;
    FirstArgs<F> first;
};

// Maximum number of steps that a thread block copies to shared memory.
constexpr int CACHED_STEPS = 64;

struct CachedSteps {
    const Op *ops, *cached;
    __device__ Op operator[](int k) const { return k < CACHED_STEPS ? cached[k] : ops[k]; }
};

template <class F> __device__ inline CachedSteps cache_steps(const CycleArgs<F> &a) {
    __shared__ Op cached[CACHED_STEPS];
    for (int k = thread_of_block(); k < min(a.count, CACHED_STEPS); k += blockDim.x) cached[k] = a.ops[k];
    __syncthreads();
    return {a.ops, cached};
}

// State of a thread block between steps. `contains_loop`: whether this kernel contains the loop. Each thread block then
// has its own copy of the scalars.
struct State {
    // Numbers of grid-wide barriers and of scalar updates in this launch; number of the last product (BarrierCounts).
    unsigned phase, updates, epoch;
    double rho;         // partial sum of this thread
    bool update_is_due; // whether this thread block must still update the scalars
    bool contains_loop;
};

template <class F> __device__ inline State begin_steps(const CycleArgs<F> &a, bool contains_loop) {
    return {0, 0, *static_cast<volatile unsigned *>(&a.barrier->epoch), 0.0, false, contains_loop};
}

// Executes one sweep, or one step of the inner iteration, on a grid in device memory. DESCEND_FIRST and ADVANCE_FIRST
// are not supported. Returns the partial sum of rho of this thread.
template <class F> __device__ inline double execute_on_grid(const Level<F> &k, const Op &op, Team team) {
    const Tiles tiles = all_tiles(k.g, TILE_Y);
    switch (op.kind) {
    case DESCEND: return descend(k, tiles, op, team);
    case ASCEND: return ascend(k, tiles, op, team);
    case MULTIPLY_INNER: iterate<true>(k, tiles, op, team); return 0.0;
    default: iterate<false>(k, tiles, op, team); return 0.0;
    }
}

// Multiplies r of the coarsest system by the inverse. The thread blocks outside the cluster execute this function, or
// the cluster if there are no others. Both groups of thread blocks synchronize only through the slots.
template <class F> __device__ inline double multiply_coarsest_by_slots(const CycleArgs<F> &a, State &state) {
    using Real = typename F::Real;
    const Team team{a.team_size() > a.cluster ? a.cluster : 0, a.team_size()};
    const unsigned epoch = ++state.epoch;
    if (!team.is_mine()) return 0.0;
    return multiply_coarsest<128 / sizeof(Real)>(
        a.coarsest, team, [] { __syncthreads(); },
        [&](Real *r) {
            // Each thread copies up to two values. Both loads are in flight at the same time.
            static_assert(MOST_INVERTED <= 2 * CLUSTER_THREADS, "every value of r has a thread");
            const int k = thread_of_block(), other = min(k + CLUSTER_THREADS, a.coarsest.n - 1);
            if (k >= a.coarsest.n) return;
            Real v, w;
            bool here, there;
            do {
                here = a.slots[k].get(epoch, v);
                there = a.slots[other].get(epoch, w);
            } while (!here || !there);
            r[k] = v;
            r[other] = w;
        },
        [&](int row, Real sum) { a.slots[a.coarsest.n + row].put(sum, epoch); });
}

// Updates the scalars in every thread block, with identical results.
template <class F> __device__ inline void update_everywhere(const CycleArgs<F> &a, LoopScalars &now) {
    update_scalars(a.scalar, now, blockIdx.x == 0 ? a.scalar.scalars->ring : nullptr);
    __syncthreads();
}

// Barrier of all thread blocks. `state.update_is_due` states whether this block must also update the scalars. If no
// other block waits for the result, this block computes it between its arrival at the barrier and its wait, so that no
// other block waits for the update. If all blocks need the result (`state.contains_loop`), all of them compute it after
// the barrier. Each block then reads the partial sums once, which is faster than waiting for the result of one block.
template <class F> __device__ inline void barrier_with_update(const CycleArgs<F> &a, State &state, LoopScalars &now) {
    const bool due = state.update_is_due;
    state.update_is_due = false;
    if (!due || state.contains_loop) {
        grid_barrier(a.barrier, state.phase, a.team_size());
        if (due) update_everywhere(a, now);
        return;
    }
    ++state.phase;
    __syncthreads();
    if (thread_of_block() == 0) arrive(&a.barrier->arrived);
    update_scalars(a.scalar);
    if (thread_of_block() == 0) {
        while (load_acquire(&a.barrier->arrived) < a.team_size() * state.phase) {}
    }
    __syncthreads();
}

// Executes one step, which must not be on the first grid if CG runs on S1, and the barrier that follows the step.
// `state.rho` accumulates this thread's partial sum. After the last step of this kernel that contributes to rho, each
// thread block stores its sum in `rho_partial`. Then the last block, or all blocks, update the scalars.
template <class F> __device__ inline void execute_step(
    const CycleArgs<F> &a, const Cluster<F> &cluster, const Op &op, State &state, LoopScalars &now) {
    const bool in_cluster = op.flags & IN_CLUSTER, sums = a.scalar.how != NOTHING;
    const bool mine = in_cluster ? cluster.has_rows() : !(op.flags & CLUSTER_ONLY) || int(blockIdx.x) < a.cluster;
    double part = 0.0;
    if (in_cluster && op.kind == COARSEST) {
        part = multiply_coarsest_by_slots(a, state);
    } else if (op.kind == COARSEST) {
        // The thread blocks after those of the first cluster execute this step or, if they are too few, as many blocks
        // of the first cluster as are needed in addition. Blocks that are idle in the previous step load their rows
        // meanwhile.
        const int rows = blockDim.x / 32, needed = (a.coarsest.n + rows - 1) / rows;
        const Team team{max(0, min(a.cluster, a.team_size() - needed)), a.team_size()};
        part = multiply_coarsest(a.coarsest, team, [&] { grid_barrier(a.barrier, state.phase, a.team_size()); });
    } else if (in_cluster && mine) {
        if (op.flags & LOAD_Z) load_z(cluster);
        if (op.kind == DESCEND) part = descend_in_cluster(cluster, op, state.epoch + 1);
        else if (op.kind == ASCEND) part = ascend_in_cluster(cluster, op, state.epoch);
        else iterate_in_cluster(cluster, op);
    } else if (mine) {
        // If there are enough thread blocks outside the cluster for one tile each, they execute this step.
        const Level<F> &k = a.grids[op.grid - a.base];
        const int tiles = (k.g.cx + TILE_X - 1) / TILE_X * ((k.g.cy + TILE_Y - 1) / TILE_Y);
        const bool beside = a.row_blocks > 0 && !(op.flags & CLUSTER_ONLY) && a.cluster + tiles <= a.team_size();
        part = execute_on_grid(k, op, {beside ? a.cluster : 0, a.team_size()});
    }
    if ((op.flags & RHO) && sums) state.rho += part;
    if ((op.flags & STORE_RHO) && sums) {
        state.rho = block_sum(state.rho);
        if (thread_of_block() == 0) a.rho_partial[op.partial + blockIdx.x] = state.rho;
        state.rho = 0.0;
    }
    const bool updates = (op.flags & UPDATE_SCALARS) && sums, updates_here = int(blockIdx.x) == a.team_size() - 1;
    if (updates && state.contains_loop) {
        state.update_is_due = true;
    } else if (updates && in_cluster) {
        wait_for_partial_sums(a.barrier, ++state.updates, a.team_size());
        state.update_is_due = updates_here;
    }
    if (op.flags & CLUSTER_BARRIER) {
        if (int(blockIdx.x) < a.cluster) cluster_barrier();
    } else if (!(op.flags & NO_BARRIER)) {
        barrier_with_update(a, state, now);
    }
    if (updates && !in_cluster && !state.contains_loop && updates_here) update_scalars(a.scalar);
}

template <class F> __device__ inline void cycle(const CycleArgs<F> &a) {
    if (a.x_team().is_mine()) advance_x(a.v, a.x_team());
    if (int(blockIdx.x) >= a.team_size()) return;
    if (a.scalar.how == LOOP && (a.scalar.scalars->done || a.scalar.scalars->met)) return;
    const CachedSteps ops = cache_steps(a);
    const Cluster<F> cluster = join_cluster(a);
    State state = begin_steps(a, false);
    for (int k = 0; k < a.count; ++k) execute_step(a, cluster, ops[k], state, *a.scalar.scalars);
    if (state.update_is_due) update_scalars(a.scalar);
    leave(a.barrier, state.phase, state.epoch, a.team_size());
}

template <class F> __device__ inline void solve(const SolveArgs<F> &a) {
    const CycleArgs<F> &c = a.cycle;
    const int how = c.scalar.how;
    // All thread blocks compute identical scalars from the same sums. Thread block 0 writes them to device memory at
    // the end.
    __shared__ LoopScalars now;
    copy_loop_scalars(now, *c.scalar.scalars);
    __shared__ double p1[PLACES<TILE_Y>], p2[PLACES<TILE_Y>];
    const CachedSteps ops = cache_steps(c);
    if (how == LOOP && now.done) return;
    const Cluster<F> cluster = join_cluster(c);
    State state = begin_steps(c, true);
    do {
        state.rho = 0.0;
        for (int k = 0; k < c.count; ++k) {
            const Op op = ops[k];
            if (op.kind == DESCEND_FIRST) {
                double norm2 = 0.0;
                descend_first<false, false>(a.first, all_tiles(a.first.v.g, TILE_Y), now, state.rho, norm2);
                norm2 = block_sum(norm2);
                if (thread_of_block() == 0) c.norm_partial[blockIdx.x] = norm2;
                if (!(op.flags & NO_BARRIER)) grid_barrier(c.barrier, state.phase, c.team_size());
            } else if (op.kind == ADVANCE_FIRST) {
                const Tiles tiles = all_tiles(a.first.v.g, min(a.first.rows, TILE_Y));
                const double part =
                    block_sum(advance_first<TILE_Y, CLUSTER_THREADS, false, false>(a.first, tiles, now, p1, p2));
                if (how == LOOP && now.code != RUNNING) break;
                if (thread_of_block() == 0) c.sigma_partial[blockIdx.x] = part;
                grid_barrier(c.barrier, state.phase, c.team_size());
                const double sigma = sum_of(c.sigma_partial, c.team_size());
                if (thread_of_block() == 0) end_of_iteration(now, sigma, how);
                __syncthreads();
            } else {
                execute_step(c, cluster, op, state, now);
            }
        }
    } while (how == LOOP && now.code == RUNNING);
    if (state.update_is_due) {
        grid_barrier(c.barrier, state.phase, c.team_size());
        update_everywhere(c, now);
    }
    // No thread block reads the scalars in device memory any longer: all have passed a barrier since their last read.
    if (blockIdx.x == 0) copy_loop_scalars(*c.scalar.scalars, now);
    leave(c.barrier, state.phase, state.epoch, c.team_size());
}

// There is one thread block per multiprocessor. With two, registers would be spilled, and barriers would take longer.
RRB_IN_FORMATS(rrb_cycle, const __grid_constant__ CycleArgs, CLUSTER_THREADS, 1, 1, cycle)
RRB_IN_FORMATS(rrb_solve, const __grid_constant__ SolveArgs, CLUSTER_THREADS, 1, 1, solve)
