// First grid if CG runs on S1, the Schur complement of A on the black nodes: the fused stages F0 (forward half) and B0
// (backward half), and the unfused steps on b1 and b2 (src/rrb/cpu/iteration/fused.rs).
//
// There are two arrays for r of b1, because the forward half reads the old r of neighbours that other threads update.
// `parity` in the scalars is the index of the current array. There are also two arrays for p, because the backward half
// reads the old p of neighbours and recomputes their new p. Per (I, J), F0 reads and writes 12 values. B0 reads and
// writes 23 values, or 19 if x is not updated; it also reads the values around each tile.
#include "storage.cuh"

// Maximum number of rows of a tile of B0. Tiles are higher than in sweeps, because the values around a tile are
// computed twice. The launch selects the number of rows (src/cuda/launch/rrb/geometry.rs).
constexpr int MAX_TILE_ROWS = 24;
// Number of (I, J) in a tile and in the layer around it.
template <int ROWS> constexpr int GROUPS_WITH_HALO = (TILE_X + 2) * (ROWS + 2);

struct SchurArrays {
    Geometry g;                      // of the first grid
    const double *d, *far_couplings; // couplings of S1
    const double *center;            // diagonal entries of S1: planes of b1 and b2
    double *r_b1[2], *r_b2;
    double *x_b1, *x_b2;
    double *q_b1, *q_b2;
    double *p_b1[2], *p_b2[2]; // unfused steps, and the start of a solve, use only the first array
    double *b_b1, *b_b2;
    Scalars *scalars;
};

template <class F> struct FirstGridArgs {
    SchurArrays v;
    Level<F> k;
    const double *in_b1, *in_b2;    // input of unfused steps; null: the current r
    double *partial, *norm_partial; // partial sums of rho and of <r, r>; null: none
    double *sigma_partial;
    int stage;                       // START: r does not change; LOOP: first computes r -= alpha q
    int reads_once;                  // 1: the L2 cache can hold the data of an iteration except the values that are
                                     // read only once
    int backward_rows, forward_rows; // numbers of rows of a tile of B0, and of F0
    int with_x;                      // 1: B0 also updates x
    uint64_t conditional;            // condition handle of the WHILE node of the graph; 0: none
};

// Determines which of the tiles first, first + step, ... are uniform. These tiles have `rows` rows. Each of them
// consists of tiles of TILE_Y rows, which have a flag each in Geometry::uniform. A tile of `rows` rows is uniform if
// all flags of its parts are set.
template <bool UNIFORM>
__device__ inline auto uniform_big_tiles(const Geometry &g, int first, int step, int count, int rows) {
    const int tiles_per_row = (g.cx + TILE_X - 1) / TILE_X;
    return uniform_tiles<UNIFORM>(first, step, count, [=](int tile) {
        const int row = quotient(tile, tiles_per_row), j = row * rows;
        const uint8_t *uniform_flags = g.uniform + (j / TILE_Y * tiles_per_row + tile - row * tiles_per_row);
        unsigned all_uniform = 1;
#pragma unroll
        for (int k = 0; k < MAX_TILE_ROWS / TILE_Y; ++k) {
            if (k * TILE_Y < rows && j + k * TILE_Y < g.cy) all_uniform &= uniform_flags[k * tiles_per_row];
        }
        return all_uniform;
    });
}

// Here and below, UNIFORM selects the variant for matrices with uniform tiles (uniform.cuh). In such a tile, the
// couplings are read at its first (I, J) only.

// F0, the forward half on the first grid. Computes r -= alpha q, y_b1 = r_b1, kept = r_b2 - A_b2,b1 D^-1 r_b1, and
// partial sums of rho and <r, r>.
//
// SPARE: whether there are enough registers for all values of an (I, J) at the same time. If so, loads that do not
// depend on the scalars come first. A thread block processes its tiles from the last to the first, because the L2 cache
// still contains the tiles that B0 has written last.
template <bool SPARE, bool UNIFORM, class F> __device__ inline void descend_first(
    const FirstGridArgs<F> &a, const Tiles &tiles, const LoopScalars &s, double &rho, double &norm2) {
    using Real = typename F::Real;
    const Geometry &g = a.v.g;
    const int64_t p = g.plane, n = g.stride;
    const bool updates_r = a.stage == LOOP, loop_has_ended = updates_r && s.loop_ended;
    const double alpha = updates_r ? s.alpha : 0.0;
    const int parity = s.parity;
    // In a loop, the scalar update changes the parity after this kernel.
    const double *in1 = a.in_b1 ? a.in_b1 : a.v.r_b1[parity], *in2 = a.in_b2 ? a.in_b2 : a.v.r_b2;
    double *out1 = a.v.r_b1[parity ^ 1];
    const double *q1 = a.v.q_b1, *q2 = a.v.q_b2;
    const Real *h = a.k.h + B1 * p;
    const typename F::Stored *d = a.k.d;
    // Values that a thread loads for one (I, J): q and r at the four b1 neighbours of b2, in the order SW, SE, NW, NE,
    // and at b2 itself; 1 / d of the b1 neighbours, and their couplings to b2.
    struct NodeGroup {
        int64_t c;
        double q[5], r[5];
        Real h[4], d[4];
    };
    const auto load_couplings = [&](int64_t m, NodeGroup &v) {
        const int64_t neighbours[4] = {m, m + 1, m + n, m + n + 1};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v.h[k] = ldg(h[neighbours[k]]);
            v.d[k] = F::read(d[(3 - k) * p + neighbours[k]]);
        }
    };
    // `uniform_index`: index of the couplings of a uniform tile; -1: the tile is not uniform.
    const auto load_group = [&](int i, int j, int64_t uniform_index, NodeGroup &v) {
        const int64_t c = v.c = g.at(i, j), neighbours[4] = {c, c + 1, c + n, c + n + 1};
        if (SPARE) load_couplings(UNIFORM && uniform_index >= 0 ? uniform_index : c, v);
#pragma unroll
        for (int k = 0; k < 4; ++k) v.q[k] = updates_r ? q1[neighbours[k]] : 0.0;
        v.q[4] = updates_r ? q2[c] : 0.0;
#pragma unroll
        for (int k = 0; k < 4; ++k) v.r[k] = in1[neighbours[k]];
        v.r[4] = in2[c];
    };
    const auto update_group = [&](int i, int j, NodeGroup &v) {
        if (updates_r) {
#pragma unroll
            for (int k = 0; k < 5; ++k) v.r[k] -= alpha * v.q[k];
            out1[v.c] = v.r[0];
            a.v.r_b2[v.c] = v.r[4];
        }
        if (!SPARE) load_couplings(v.c, v);
        const Real scaled_r1 = v.h[0] * Real(v.r[0]);
        rho += v.r[0] * scaled_r1;
        norm2 += v.r[0] * v.r[0] + v.r[4] * v.r[4];
        const Real b1_terms = (v.d[0] * scaled_r1 + v.d[1] * (v.h[1] * Real(v.r[1]))) +
            (v.d[2] * (v.h[2] * Real(v.r[2])) + v.d[3] * (v.h[3] * Real(v.r[3])));
        a.k.kept_nodes.put(i, j, Real(v.r[4]) - b1_terms);
    };
    if constexpr (!SPARE) {
        for_each_group<BACKWARDS>(g, tiles, all_blocks(), [&](int i, int j) {
            NodeGroup v;
            load_group(i, j, -1, v);
            update_group(i, j, v);
        });
        return;
    }
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X, rows = a.forward_rows;
    const int last = last_tile(tiles, all_blocks()), step = gridDim.x;
    const auto is_uniform_tile = uniform_big_tiles<UNIFORM>(g, last, -step, (last - tiles.first + step) / step, rows);
    for (int tile = last, nth_tile = 0; tile >= tiles.first; tile -= step, ++nth_tile) {
        const int row = quotient(tile, tiles.tiles_per_row), i = (tile - row * tiles.tiles_per_row) * TILE_X + ti;
        const int64_t uniform_index = is_uniform_tile[nth_tile] ? g.at(i - ti, row * rows) : -1;
        for (int j = (row + 1) * rows - TILE_Y + tj; j >= row * rows; j -= TILE_Y) {
            const bool is_inside = i < g.cx && j < g.cy;
            NodeGroup v;
            if (is_inside) load_group(i, j, uniform_index, v);
            if (loop_has_ended) return;
            if (is_inside) update_group(i, j, v);
        }
    }
}

// Computes z_b1 = (r_b1 - A_b1,b2 z_b2) / d, where z_b2 is the solution on the next grid (`kept_nodes`). `c` is the
// index of the couplings.
template <class F> __device__ inline typename F::Real compute_z_b1(
    const FirstGridArgs<F> &a, int i, int j, int64_t c, double r, typename F::Real z_b2) {
    using Real = typename F::Real;
    const int64_t p = a.v.g.plane;
    const typename F::Stored *d = a.k.d;
    const Real b2_terms = (F::read(d[SW * p + c]) * a.k.kept_nodes.get(i - 1, j - 1) +
                              F::read(d[SE * p + c]) * a.k.kept_nodes.get(i, j - 1)) +
        (F::read(d[NW * p + c]) * a.k.kept_nodes.get(i - 1, j) + F::read(d[NE * p + c]) * z_b2);
    return ldg(a.k.h[B1 * p + c]) * (Real(r) - b2_terms);
}

// Computes z on b1 and b2 from the solution on the next grid (`kept_nodes`), for the unfused steps.
template <class F> __device__ inline void ascend_first(const FirstGridArgs<F> &a) {
    const Geometry &g = a.v.g;
    const double *in1 = a.in_b1 ? a.in_b1 : a.v.r_b1[a.v.scalars->parity];
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        const typename F::Real z_b2 = a.k.kept_nodes.get(i, j);
        a.k.z[B1 * g.plane + c] = compute_z_b1(a, i, j, c, in1[c], z_b2);
        a.k.z[B2 * g.plane + c] = z_b2;
    });
}

template <bool UNIFORM, class F> __device__ inline void descend_first_step(const FirstGridArgs<F> &a) {
    for_each_part(a.v.g, a.forward_rows, [&](int part, const Tiles &tiles) {
        double rho = 0.0, norm2 = 0.0;
        descend_first<true, UNIFORM>(a, tiles, *a.v.scalars, rho, norm2);
        if (!a.partial) return;
        store_part_sum(a.partial, part, rho);
        store_part_sum(a.norm_partial, part, norm2);
    });
}

RRB_IN_FORMATS(rrb_descend_first, FirstGridArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, descend_first_step<false>)
RRB_IN_FORMATS(
    rrb_descend_first_uniform, FirstGridArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, descend_first_step<true>)
RRB_IN_FORMATS(rrb_ascend_first, FirstGridArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, ascend_first)

// Computes the entries of S1 v at b1 and b2 of one (I, J). `c` is the index of the couplings. v1 and v2 point to the
// values of v at b1 and b2 of this (I, J), in arrays with rows of `m` values.
template <bool ONCE = false> __device__ inline void multiply_schur_rows(
    const SchurArrays &a, const double *v1, const double *v2, int m, int64_t c, double &q1, double &q2) {
    const auto ldg = [](const double &v) { return ldg_once<ONCE>(v); };
    const int64_t p = a.g.plane, n = a.g.stride;
    const double *d = a.d, *far = a.far_couplings;
    const auto far_coupling = [&](int plane, int64_t index) { return ldg(far[plane * p + index]); };
    const double far_terms1 = (far_coupling(B1_EAST, c - 1) * v1[-1] + far_coupling(B1_EAST, c) * v1[1]) +
        (far_coupling(B1_NORTH, c - n) * v1[-m] + far_coupling(B1_NORTH, c) * v1[m]);
    const double ne = ldg(d[NE * p + c]);
    const double diagonal_terms1 =
        (ldg(d[SW * p + c]) * v2[-m - 1] + ldg(d[SE * p + c]) * v2[-m]) + (ldg(d[NW * p + c]) * v2[-1] + ne * v2[0]);
    q1 = ldg(a.center[c]) * v1[0] + (far_terms1 + diagonal_terms1);
    const double far_terms2 = (far_coupling(B2_EAST, c - 1) * v2[-1] + far_coupling(B2_EAST, c) * v2[1]) +
        (far_coupling(B2_NORTH, c - n) * v2[-m] + far_coupling(B2_NORTH, c) * v2[m]);
    const double diagonal_terms2 = (ne * v1[0] + ldg(d[NW * p + c + 1]) * v1[1]) +
        (ldg(d[SE * p + c + n]) * v1[m] + ldg(d[SW * p + c + n + 1]) * v1[m + 1]);
    q2 = ldg(a.center[p + c]) * v2[0] + (far_terms2 + diagonal_terms2);
}

// B0, the backward half on the first grid. Computes z, x += alpha p (if `with_x` is set), p = z / unit + beta p, and
// q = S1 p. `per_unit` is 1 / unit. Returns the partial sum of <p, q> of this thread.
//
// After the end of the loop, computes nothing except the update of x, if `with_x` is set. A thread block stores in
// shared memory the values of p in a tile of at most ROWS rows, and in the layer of (I, J) around this tile. If
// THREAD_LIMIT threads are enough for one thread per (I, J), separate threads compute the values around the tile. ONCE:
// argument of `read_once` (kernels/common/device.cuh).
template <int ROWS, int THREAD_LIMIT, bool ONCE, bool UNIFORM, class F> __device__ inline double advance_first(
    const FirstGridArgs<F> &a, const Tiles &tiles, const LoopScalars &s, double *p1, double *p2) {
    constexpr int ROW_LENGTH = TILE_X + 2;
    const int rows = min(a.backward_rows, ROWS), tile_groups = rows * TILE_X, halo_groups = 2 * ROW_LENGTH + 2 * rows;
    const int first_halo_thread = tile_groups + halo_groups <= THREAD_LIMIT ? tile_groups : 0;
    const Geometry &g = a.v.g;
    const bool in_loop = a.stage == LOOP, has_ended = in_loop && s.code != RUNNING, with_x = in_loop && a.with_x;
    if (in_loop && (s.loop_ended || (has_ended && !with_x))) return 0.0;
    const double alpha = s.alpha, beta = s.beta, per_unit = s.per_unit;
    const int parity = s.parity;
    const double *r1 = a.v.r_b1[parity], *p_old1 = a.v.p_b1[parity ^ 1], *p_old2 = a.v.p_b2[parity ^ 1];
    double *p_new1 = a.v.p_b1[parity], *p_new2 = a.v.p_b2[parity];
    const int t = thread_of_block(), threads = blockDim.x * blockDim.y;
    double sigma = 0.0;
    const int first = first_tile(tiles, all_blocks()), step = gridDim.x;
    const auto is_uniform_tile =
        uniform_big_tiles<UNIFORM>(g, first, step, (tiles.end - first + step - 1) / step, rows);
    for (int tile = first, nth_tile = 0; tile < tiles.end; tile += step, ++nth_tile) {
        const int row = quotient(tile, tiles.tiles_per_row), i0 = (tile - row * tiles.tiles_per_row) * TILE_X,
                  j0 = row * rows;
        const bool is_uniform = is_uniform_tile[nth_tile];
        const int64_t uniform_index = g.at(i0, j0);
        const auto compute_p = [&](int di, int dj, bool is_own) {
            const int i = i0 + di, j = j0 + dj;
            double v1 = 0.0, v2 = 0.0;
            if (unsigned(i) < unsigned(g.cx) && unsigned(j) < unsigned(g.cy)) {
                const int64_t c = g.at(i, j);
                const double o1 = in_loop ? read_once<ONCE>(p_old1[c]) : 0.0,
                             o2 = in_loop ? read_once<ONCE>(p_old2[c]) : 0.0;
                const double x1 = is_own && with_x ? read_once<ONCE>(a.v.x_b1[c]) : 0.0,
                             x2 = is_own && with_x ? read_once<ONCE>(a.v.x_b2[c]) : 0.0;
                if (!has_ended) {
                    const typename F::Real z2 = a.k.kept_nodes.get(i, j),
                                           z1 = compute_z_b1(
                                               a, i, j, UNIFORM && is_uniform ? uniform_index : c, r1[c], z2);
                    v1 = in_loop ? per_unit * z1 + beta * o1 : per_unit * z1;
                    v2 = in_loop ? per_unit * z2 + beta * o2 : per_unit * z2;
                }
                if (is_own && with_x) {
                    write_once<ONCE>(a.v.x_b1[c], x1 + alpha * o1);
                    write_once<ONCE>(a.v.x_b2[c], x2 + alpha * o2);
                }
                if (is_own && !has_ended) {
                    p_new1[c] = v1;
                    p_new2[c] = v2;
                }
            }
            const int index = (dj + 1) * ROW_LENGTH + di + 1;
            p1[index] = v1;
            p2[index] = v2;
        };
        for (int e = t; e < tile_groups; e += threads) compute_p(e % TILE_X, e / TILE_X, true);
        if (has_ended) continue;
        for (int e = t < first_halo_thread ? halo_groups : t - first_halo_thread; e < halo_groups; e += threads) {
            if (e < 2 * ROW_LENGTH) compute_p(e % ROW_LENGTH - 1, e < ROW_LENGTH ? -1 : rows, false);
            else compute_p((e & 1) ? TILE_X : -1, (e - 2 * ROW_LENGTH) / 2, false);
        }
        __syncthreads();
        for (int e = t; e < tile_groups; e += threads) {
            const int di = e % TILE_X, dj = e / TILE_X, i = i0 + di, j = j0 + dj,
                      index = (dj + 1) * ROW_LENGTH + di + 1;
            if (i >= g.cx || j >= g.cy) continue;
            const int64_t c = g.at(i, j);
            double q1, q2;
            multiply_schur_rows<ONCE>(
                a.v, p1 + index, p2 + index, ROW_LENGTH, UNIFORM && is_uniform ? uniform_index : c, q1, q2);
            a.v.q_b1[c] = q1;
            a.v.q_b2[c] = q2;
            sigma += p1[index] * q1 + p2[index] * q2;
        }
        __syncthreads();
    }
    return sigma;
}

// Ends an iteration. All thread blocks call this function. The last one adds the partial sums of <p, q>, and updates
// the scalars.
template <class Args> __device__ inline void end_iteration_by_last_block(const Args &a, const double *partial) {
    Scalars &s = *a.v.scalars;
    if (!is_last_block_of_all_devices(a.v.g, &s.ticket)) return;
    __shared__ LoopScalars scalars;
    copy_loop_scalars(scalars, s);
    const double sigma = sum_of_parts(a.v.g, partial);
    if (thread_of_block() == 0) {
        end_iteration(scalars, sigma, a.stage);
        if (a.stage == LOOP && a.conditional) set_loop_condition(a.conditional, scalars);
    }
    __syncthreads();
    copy_loop_scalars(s, scalars);
}

template <bool UNIFORM, class F> __device__ inline void advance_first_step(const FirstGridArgs<F> &a) {
    Scalars &s = *a.v.scalars;
    const bool has_ended = a.stage == LOOP && s.code != RUNNING;
    // The variant with `read_once` saves no time in double precision, and a kernel that contains both variants is 1 %
    // slower. This variant therefore exists only for the short formats.
    constexpr bool IS_SHORT = sizeof(typename F::Real) < sizeof(double);
    __shared__ double p1[GROUPS_WITH_HALO<MAX_TILE_ROWS>], p2[GROUPS_WITH_HALO<MAX_TILE_ROWS>];
    for_each_part(a.v.g, a.backward_rows, [&](int part, const Tiles &tiles) {
        double sigma = IS_SHORT && a.reads_once
            ? advance_first<MAX_TILE_ROWS, THREADS, IS_SHORT, UNIFORM>(a, tiles, s, p1, p2)
            : advance_first<MAX_TILE_ROWS, THREADS, false, UNIFORM>(a, tiles, s, p1, p2);
        if (!has_ended) store_part_sum(a.sigma_partial, part, sigma);
    });
    if (!has_ended) {
        end_iteration_by_last_block(a, a.sigma_partial);
    } else if (is_last_block_of_all_devices(a.v.g, &s.ticket) && thread_of_block() == 0) {
        s.loop_ended = 1;
        if (a.conditional) set_loop_condition(a.conditional, s);
    }
}

RRB_IN_FORMATS(rrb_advance_first, FirstGridArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, advance_first_step<false>)
RRB_IN_FORMATS(
    rrb_advance_first_uniform, FirstGridArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, advance_first_step<true>)

// Computes x += alpha p at the same time as other thread blocks execute steps on small grids, which do not use the
// whole memory bandwidth. Each lane of a warp has LOADS loads per array in flight, in one row. All accesses use the
// cache policy of `read_once`. The data of the forward half therefore remain in the L2 cache for the backward half on
// the larger grids.
__device__ inline void advance_x(const SchurArrays &a, Team team) {
    constexpr int LOADS = 4, PIECE_LENGTH = 32 * LOADS;
    // Other thread blocks may update the scalars at the same time. The update does not change the scalars that this
    // function reads.
    const Scalars &s = *a.scalars;
    if (s.loop_ended) return;
    const double alpha = s.alpha, *p[2] = {a.p_b1[s.direction_index], a.p_b2[s.direction_index]};
    double *x[2] = {a.x_b1, a.x_b2};
    const int warps = blockDim.x * blockDim.y / 32, t = thread_of_block(),
              pieces_per_row = (a.g.cx + PIECE_LENGTH - 1) / PIECE_LENGTH, piece_count = pieces_per_row * a.g.cy;
    // The order is reversed, so that the beginning of p is read last, shortly before the backward half reads it again.
    for (int k = piece_count - 1 - (team.index() * warps + t / 32); k >= 0; k -= team.size() * warps) {
        const int j = quotient(k, pieces_per_row), first = (k - j * pieces_per_row) * PIECE_LENGTH + t % 32;
        const int64_t c = a.g.at(first, j);
        double x_old[2][LOADS], p_values[2][LOADS];
#pragma unroll
        for (int u = 0; u < 2 * LOADS; ++u) {
            if (first + u / 2 * 32 >= a.g.cx) continue;
            x_old[u % 2][u / 2] = read_once<true>(x[u % 2][c + u / 2 * 32]);
            p_values[u % 2][u / 2] = read_once<true>(p[u % 2][c + u / 2 * 32]);
        }
#pragma unroll
        for (int u = 0; u < 2 * LOADS; ++u) {
            if (first + u / 2 * 32 >= a.g.cx) continue;
            write_once<true>(x[u % 2][c + u / 2 * 32], x_old[u % 2][u / 2] + alpha * p_values[u % 2][u / 2]);
        }
    }
}

struct SchurArgs {
    SchurArrays v;
    double *partial;
    int stage;
    uint64_t conditional; // condition handle of the WHILE node of the graph; 0: none
};

// Computes q = S1 p and sigma = <p, q> for the unfused steps, and ends the iteration.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_multiply_first_f64(SchurArgs a) {
    Scalars &s = *a.v.scalars;
    if (a.stage == LOOP && s.code != RUNNING) {
        if (blockIdx.x == 0 && thread_of_block() == 0) {
            s.loop_ended = 1;
            if (a.conditional) set_loop_condition(a.conditional, s);
        }
        return;
    }
    const double *p1 = a.v.p_b1[0], *p2 = a.v.p_b2[0];
    double sigma = 0.0;
    for_each_group_of_area(
        a.v.g,
        [&](int i, int j) {
            const int64_t c = a.v.g.at(i, j);
            double q1, q2;
            multiply_schur_rows(a.v, p1 + c, p2 + c, a.v.g.stride, c, q1, q2);
            a.v.q_b1[c] = q1;
            a.v.q_b2[c] = q2;
            sigma += p1[c] * q1 + p2[c] * q2;
        },
        [&](int part) { store_part_sum(a.partial, part, sigma); });
    end_iteration_by_last_block(a, a.partial);
}

// Computes the residual r of S1 and <r, r>. The black planes of b contain the right-hand side of S1. r of b1 is stored
// in the first of its two arrays, which becomes the current one.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_residual_first_f64(SchurArgs a) {
    Scalars &s = *a.v.scalars;
    // If the loop continues, the kernel must not change r.
    if (a.stage == LOOP && (s.code == PAUSED || s.code == RUNNING)) return;
    double *r1 = a.v.r_b1[0];
    double norm2 = 0.0;
    for_each_group_of_area(
        a.v.g,
        [&](int i, int j) {
            const int64_t c = a.v.g.at(i, j);
            double q1, q2;
            multiply_schur_rows(a.v, a.v.x_b1 + c, a.v.x_b2 + c, a.v.g.stride, c, q1, q2);
            q1 = a.v.b_b1[c] - q1;
            q2 = a.v.b_b2[c] - q2;
            r1[c] = q1;
            a.v.r_b2[c] = q2;
            norm2 += q1 * q1 + q2 * q2;
        },
        [&](int part) { store_part_sum(a.partial, part, norm2); });
    sum_parts(a.v.g, a.partial, &s.ticket, [&](double total) {
        s.norm2 = total;
        s.parity = 0;
    });
}
