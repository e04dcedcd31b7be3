// Kernels that execute several steps of the preconditioner on small grids, or whole iterations of a small problem. The
// steps are those of levels.cuh (docs/theory/rrb.md).
//
// All thread blocks run at the same time and synchronize with a grid-wide barrier between steps. A barrier takes about
// a microsecond, and a kernel launch takes several microseconds. Additional thread blocks, which do not take part in
// the barriers, may compute x += alpha p of the previous iteration at the same time.
//
// On devices with thread-block clusters, the first cluster executes the steps on grids that have no more tiles than the
// cluster has blocks. These steps use the cluster barrier. Meanwhile, the other blocks proceed to the next step in
// which they take part, and load rows of the inverse of the coarsest matrix into registers. Grids with at most one
// (I, J) per thread of the cluster are stored in the shared memory of the cluster (cluster.cuh).
#include "storage.cuh"
#include "cluster.cuh"

template <class F> struct CycleArgs {
    const Op *ops; // steps of this kernel
    int op_count;
    int base_grid; // number of the grid grids[0]
    Level<F> grids[MAX_GRIDS];
    CoarsestSystem<typename F::Real> coarsest;
    double *rho_partial; // partial sums of rho; those of a step begin at index Op::partial
    double *norm_partial, *sigma_partial;
    ScalarArgs scalar;
    BarrierCounts *barrier;
    int blocks_per_cluster;            // number of thread blocks per cluster; 1: no clusters
    int cluster_first_grid, last_grid; // first and last grid in the shared memory of the cluster
    int row_blocks;       // number of thread blocks of the cluster that own rows; 0: no grid is in the cluster
    EpochValue *exchange; // r of the coarsest system, then z
    int x_blocks;         // number of thread blocks, the last of the launch, that compute x += alpha p
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
    FirstGridArgs<F> first_grid;
};

// Maximum number of steps that a thread block copies to shared memory.
constexpr int CACHED_STEPS = 64;

struct CachedSteps {
    const Op *ops, *cached_ops;
    __device__ Op operator[](int k) const { return k < CACHED_STEPS ? cached_ops[k] : ops[k]; }
};

template <class F> __device__ inline CachedSteps cache_steps(const CycleArgs<F> &a) {
    __shared__ Op cached_ops[CACHED_STEPS];
    for (int k = thread_of_block(); k < min(a.op_count, CACHED_STEPS); k += blockDim.x) cached_ops[k] = a.ops[k];
    __syncthreads();
    return {a.ops, cached_ops};
}

// State of a thread block between steps. `contains_loop`: whether this kernel executes the whole loop of PCG
// (`solve_small_problem`). Each thread block of such a kernel has its own copy of the scalars.
struct StepState {
    // `phase`: number of grid-wide barriers in this launch. `updates`: number of scalar updates in this launch.
    // `epoch`: number of the last product with the inverse of the coarsest matrix (BarrierCounts).
    unsigned phase, updates, epoch;
    double rho;         // partial sum of this thread
    bool update_is_due; // whether this thread block must still update the scalars
    bool contains_loop;
};

template <class F> __device__ inline StepState begin_steps(const CycleArgs<F> &a, bool contains_loop) {
    return {0, 0, *static_cast<volatile unsigned *>(&a.barrier->epoch), 0.0, false, contains_loop};
}

// Executes one sweep, or one step of the inner iteration, on a grid in device memory. DESCEND_FIRST and ADVANCE_FIRST
// are not supported. Returns the partial sum of rho of this thread.
template <class F> __device__ inline double execute_on_grid(const Level<F> &k, const Op &op, Team team) {
    const Tiles tiles = all_tiles(k.g, TILE_Y);
    switch (op.kind) {
    case DESCEND: return descend(k, tiles, op, team);
    case ASCEND: return ascend(k, tiles, op, team);
    case MULTIPLY_INNER: iterate_inner<true>(k, tiles, op, team); return 0.0;
    default: iterate_inner<false>(k, tiles, op, team); return 0.0;
    }
}

// Multiplies r of the coarsest system by the inverse. The thread blocks outside the cluster compute the product. If
// there are none, the thread blocks of the cluster compute it. These blocks synchronize with the blocks that execute
// the sweeps only through `exchange`.
template <class F> __device__ inline double multiply_coarsest_by_exchange(const CycleArgs<F> &a, StepState &state) {
    using Real = typename F::Real;
    const Team team{a.team_size() > a.blocks_per_cluster ? a.blocks_per_cluster : 0, a.team_size()};
    const unsigned epoch = ++state.epoch;
    if (!team.contains_this_block()) return 0.0;
    return multiply_coarsest<128 / sizeof(Real)>(
        a.coarsest, team, [] { __syncthreads(); },
        [&](Real *r) {
            // Each thread copies up to two values. Both loads are in flight at the same time.
            static_assert(MAX_COARSEST_NODES <= 2 * CLUSTER_THREADS, "every value of r has a thread");
            const int k = thread_of_block(), second = min(k + CLUSTER_THREADS, a.coarsest.n - 1);
            if (k >= a.coarsest.n) return;
            Real v, w;
            bool has_v, has_w;
            do {
                has_v = a.exchange[k].get(epoch, v);
                has_w = a.exchange[second].get(epoch, w);
            } while (!has_v || !has_w);
            r[k] = v;
            r[second] = w;
        },
        [&](int row, Real sum) { a.exchange[a.coarsest.n + row].put(sum, epoch); });
}

// Updates the scalars in every thread block, with identical results.
template <class F> __device__ inline void update_scalars_in_all_blocks(const CycleArgs<F> &a, LoopScalars &scalars) {
    update_scalars(a.scalar, scalars, blockIdx.x == 0 ? a.scalar.scalars->ring : nullptr);
    __syncthreads();
}

// Barrier of all thread blocks. If `state.update_is_due` is set, this block also updates the scalars. In a kernel that
// contains the loop, all blocks need the new scalars. Therefore, every block computes them after the barrier, which is
// faster than waiting for one block. In other kernels, one block updates the scalars between its arrival at the barrier
// and its wait, so that the other blocks do not wait for the update.
template <class F>
__device__ inline void barrier_with_update(const CycleArgs<F> &a, StepState &state, LoopScalars &scalars) {
    const bool must_update = state.update_is_due;
    state.update_is_due = false;
    if (!must_update || state.contains_loop) {
        grid_barrier(a.barrier, state.phase, a.team_size());
        if (must_update) update_scalars_in_all_blocks(a, scalars);
        return;
    }
    ++state.phase;
    __syncthreads();
    if (thread_of_block() == 0) arrive(&a.barrier->arrived_blocks);
    update_scalars(a.scalar);
    if (thread_of_block() == 0) {
        while (load_acquire(&a.barrier->arrived_blocks) < a.team_size() * state.phase) {}
    }
    __syncthreads();
}

// Executes one step and the barrier that follows the step. DESCEND_FIRST and ADVANCE_FIRST are not supported.
// `state.rho` accumulates this thread's partial sum of rho. After the last step of this kernel that contributes to rho,
// each thread block stores its partial sum in `rho_partial`. With the flag UPDATE_SCALARS, the thread block with the
// index team_size() - 1 then updates the scalars. In a kernel that contains the loop, every thread block updates its
// own copy of the scalars.
template <class F> __device__ inline void execute_step(
    const CycleArgs<F> &a, const Cluster<F> &cluster, const Op &op, StepState &state, LoopScalars &scalars) {
    const bool is_in_cluster = op.flags & IN_CLUSTER, stores_sums = a.scalar.stage != NOTHING;
    const bool takes_part =
        is_in_cluster ? cluster.has_rows() : !(op.flags & CLUSTER_ONLY) || int(blockIdx.x) < a.blocks_per_cluster;
    double rho_part = 0.0;
    if (is_in_cluster && op.kind == COARSEST) {
        rho_part = multiply_coarsest_by_exchange(a, state);
    } else if (op.kind == COARSEST) {
        // The thread blocks outside the first cluster execute this step. If they are too few, blocks of the first
        // cluster also take part. Blocks that are idle in the previous step load their rows of the inverse meanwhile.
        const int rows_per_block = blockDim.x / 32,
                  needed_blocks = (a.coarsest.n + rows_per_block - 1) / rows_per_block;
        const Team team{max(0, min(a.blocks_per_cluster, a.team_size() - needed_blocks)), a.team_size()};
        rho_part = multiply_coarsest(a.coarsest, team, [&] { grid_barrier(a.barrier, state.phase, a.team_size()); });
    } else if (is_in_cluster && takes_part) {
        if (op.flags & LOAD_Z) load_z(cluster);
        if (op.kind == DESCEND) rho_part = descend_in_cluster(cluster, op, state.epoch + 1);
        else if (op.kind == ASCEND) rho_part = ascend_in_cluster(cluster, op, state.epoch);
        else iterate_inner_in_cluster(cluster, op);
    } else if (takes_part) {
        // If there are at least as many thread blocks outside the cluster as tiles, only these blocks execute the step.
        const Level<F> &k = a.grids[op.grid - a.base_grid];
        const int tile_count = (k.g.cx + TILE_X - 1) / TILE_X * ((k.g.cy + TILE_Y - 1) / TILE_Y);
        const bool runs_outside_cluster =
            a.row_blocks > 0 && !(op.flags & CLUSTER_ONLY) && a.blocks_per_cluster + tile_count <= a.team_size();
        rho_part = execute_on_grid(k, op, {runs_outside_cluster ? a.blocks_per_cluster : 0, a.team_size()});
    }
    if ((op.flags & RHO) && stores_sums) state.rho += rho_part;
    if ((op.flags & STORE_RHO) && stores_sums) {
        state.rho = block_sum(state.rho);
        if (thread_of_block() == 0) a.rho_partial[op.partial + blockIdx.x] = state.rho;
        state.rho = 0.0;
    }
    const bool needs_update = (op.flags & UPDATE_SCALARS) && stores_sums,
               is_updating_block = int(blockIdx.x) == a.team_size() - 1;
    if (needs_update && state.contains_loop) {
        state.update_is_due = true;
    } else if (needs_update && is_in_cluster) {
        wait_for_partial_sums(a.barrier, ++state.updates, a.team_size());
        state.update_is_due = is_updating_block;
    }
    if (op.flags & CLUSTER_BARRIER) {
        if (int(blockIdx.x) < a.blocks_per_cluster) cluster_barrier();
    } else if (!(op.flags & NO_BARRIER)) {
        barrier_with_update(a, state, scalars);
    }
    if (needs_update && !is_in_cluster && !state.contains_loop && is_updating_block) update_scalars(a.scalar);
}

template <class F> __device__ inline void execute_cycle(const CycleArgs<F> &a) {
    if (a.x_team().contains_this_block()) advance_x(a.v, a.x_team());
    if (int(blockIdx.x) >= a.team_size()) return;
    if (a.scalar.stage == LOOP && (a.scalar.scalars->loop_ended || a.scalar.scalars->will_converge)) return;
    const CachedSteps ops = cache_steps(a);
    const Cluster<F> cluster = join_cluster(a);
    StepState state = begin_steps(a, false);
    for (int k = 0; k < a.op_count; ++k) execute_step(a, cluster, ops[k], state, *a.scalar.scalars);
    if (state.update_is_due) update_scalars(a.scalar);
    leave_barrier(a.barrier, state.phase, state.epoch, a.team_size());
}

template <class F> __device__ inline void solve_small_problem(const SolveArgs<F> &a) {
    const CycleArgs<F> &c = a.cycle;
    const int stage = c.scalar.stage;
    // All thread blocks compute identical scalars from the same sums. Thread block 0 writes them to device memory at
    // the end.
    __shared__ LoopScalars scalars;
    copy_loop_scalars(scalars, *c.scalar.scalars);
    __shared__ double p1[GROUPS_WITH_HALO<TILE_Y>], p2[GROUPS_WITH_HALO<TILE_Y>];
    const CachedSteps ops = cache_steps(c);
    if (stage == LOOP && scalars.loop_ended) return;
    const Cluster<F> cluster = join_cluster(c);
    StepState state = begin_steps(c, true);
    do {
        state.rho = 0.0;
        for (int k = 0; k < c.op_count; ++k) {
            const Op op = ops[k];
            if (op.kind == DESCEND_FIRST) {
                double norm2 = 0.0;
                descend_first<false, false>(
                    a.first_grid, all_tiles(a.first_grid.v.g, TILE_Y), scalars, state.rho, norm2);
                norm2 = block_sum(norm2);
                if (thread_of_block() == 0) c.norm_partial[blockIdx.x] = norm2;
                if (!(op.flags & NO_BARRIER)) grid_barrier(c.barrier, state.phase, c.team_size());
            } else if (op.kind == ADVANCE_FIRST) {
                const Tiles tiles = all_tiles(a.first_grid.v.g, min(a.first_grid.backward_rows, TILE_Y));
                const double sigma_part = block_sum(
                    advance_first<TILE_Y, CLUSTER_THREADS, false, false>(a.first_grid, tiles, scalars, p1, p2));
                if (stage == LOOP && scalars.code != RUNNING) break;
                if (thread_of_block() == 0) c.sigma_partial[blockIdx.x] = sigma_part;
                grid_barrier(c.barrier, state.phase, c.team_size());
                const double sigma = sum_of(c.sigma_partial, c.team_size());
                if (thread_of_block() == 0) end_iteration(scalars, sigma, stage);
                __syncthreads();
            } else {
                execute_step(c, cluster, op, state, scalars);
            }
        }
    } while (stage == LOOP && scalars.code == RUNNING);
    if (state.update_is_due) {
        grid_barrier(c.barrier, state.phase, c.team_size());
        update_scalars_in_all_blocks(c, scalars);
    }
    // No thread block reads the scalars in device memory any longer: all have passed a barrier since their last read.
    if (blockIdx.x == 0) copy_loop_scalars(*c.scalar.scalars, scalars);
    leave_barrier(c.barrier, state.phase, state.epoch, c.team_size());
}

// There is one thread block per multiprocessor. With two, registers would be spilled, and barriers would take longer.
RRB_IN_FORMATS(rrb_cycle, const __grid_constant__ CycleArgs, CLUSTER_THREADS, 1, 1, execute_cycle)
RRB_IN_FORMATS(rrb_solve, const __grid_constant__ SolveArgs, CLUSTER_THREADS, 1, 1, solve_small_problem)
