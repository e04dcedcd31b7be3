// Aggregates by passes of pairwise matching (Napov and Notay 2012) with handshakes. Each unpaired node points at its
// unpaired neighbour with the smallest key, and two nodes that point at each other form a pair. mu is the quality of a
// pair (`pair_quality`), and kappa its upper bound. The upper bits of a key are mu, rounded down to a mantissa of two
// bits. The lower bits are a hash of the two nodes, which orders pairs with equal rounded values. If keys contained all
// digits of mu, there would be chains of nodes in which each node points at the next one, and a round would find only
// one pair per chain.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// `passes_quality_test` eliminates a scaled matrix. A pivot below NEGATIVE_LIMIT counts as negative, and a pivot from
// NEGATIVE_LIMIT to -NEGATIVE_LIMIT as zero. If the row sums e_i of all tested nodes are zero, the matrix is singular,
// because the unscaled matrix maps the constant vector to zero. The last pivot is then zero in exact arithmetic, but
// rounding errors may make it slightly negative or positive.
constexpr double NEGATIVE_LIMIT = -1e-9;

struct PairArgs {
    Couplings c; // matrix of this pass
    double kappa;
    uint32_t *partner; // partner of each row; NONE: it has none (yet); the row itself: it is excluded from pairing
    uint32_t *pointed_coupling; // for each node, index in c.col of the coupling to the node at which it points; or NONE
    uint8_t *rejected; // per coupling: 1 if the quality test has rejected the union of its two rows
    uint32_t *aggregate_of_row; // first pass: NONE for rows outside all aggregates, otherwise 0; null in later passes
    Couplings fine; // matrix of the level. The first pass uses neither `fine` nor `nodes`
    const uint32_t *nodes; // rows of `fine` in each row of c: `width` entries, ascending, padded with NONE
    int width, unused;
};

// Computes mu(i, j) = 2 d_i d_j / ((d_i + d_j) (a_ij + e_i e_j / (e_i + e_j))), which is small for strongly coupled
// pairs (Napov and Notay 2012). If e_i or e_j is not positive, the last fraction is replaced by 0.
__device__ inline double pair_quality(const Couplings &c, uint32_t i, uint32_t j, double a) {
    const double di = c.diagonal[i], dj = c.diagonal[j], ei = c.row_sum[i], ej = c.row_sum[j];
    const double half_harmonic_mean = ei > 0.0 && ej > 0.0 ? ei * ej / (ei + ej) : 0.0;
    return 2.0 * di * dj / ((di + dj) * (a + half_harmonic_mean));
}

// Returns a hash of v (finalizer of SplitMix64).
__device__ inline uint64_t hash_of(uint64_t v) {
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
    return v ^ (v >> 31);
}

// Returns the key of the pair (i, j) with the quality mu.
__device__ inline uint64_t pair_key(uint32_t i, uint32_t j, double mu) {
    const uint32_t low = min(i, j), high = max(i, j);
    const uint64_t hash = hash_of((uint64_t(low) << 32 | high) + 0x9e3779b97f4a7c15ull) >> 28;
    return uint64_t(__float_as_uint(float(mu)) >> 21) << 36 | hash;
}

// Initializes a pass. In the first pass, rows with d_i (kappa - 2) >= kappa sum_j |a_ij| are excluded from pairing. In
// later passes, `p.aggregate_of_row` is null.
__device__ inline void begin_pass(const PairArgs &p) {
    const Couplings &c = p.c;
    for_each_row<LANES>(c.rows, [&](uint32_t i, uint32_t lane, bool has_row) {
        double coupling_sum = 0.0;
        for (uint32_t k = c.row_start[i] + lane; k < c.row_start[i] + c.length[i]; k += LANES) {
            coupling_sum += fabs(c.a[k]);
            if (has_row) p.rejected[k] = 0;
        }
        coupling_sum = sum_lanes<LANES>(coupling_sum);
        if (!has_row || lane != 0) return;
        const bool is_excluded = p.aggregate_of_row && c.diagonal[i] * (p.kappa - 2.0) >= p.kappa * coupling_sum;
        p.partner[i] = is_excluded ? i : NONE;
        if (p.aggregate_of_row) p.aggregate_of_row[i] = is_excluded ? NONE : 0;
    });
}

// Each unpaired node points at the unpaired neighbour with the smallest key. Only positive couplings with mu <= kappa
// that were not rejected are considered. A node without such a neighbour points at none.
__device__ inline void point_at_neighbour(const PairArgs &p) {
    const Couplings &c = p.c;
    for_each_row<LANES>(c.rows, [&](uint32_t i, uint32_t lane, bool has_row) {
        unsigned long long smallest_key = ~0ull;
        uint32_t best_coupling = NONE;
        const bool is_unpaired = p.partner[i] == NONE;
        for (uint32_t k = c.row_start[i] + lane; is_unpaired && k < c.row_start[i] + c.length[i]; k += LANES) {
            const uint32_t j = c.col[k];
            if (p.partner[j] != NONE || !(c.a[k] > 0.0) || p.rejected[k]) continue;
            const double mu = pair_quality(c, i, j, c.a[k]);
            if (!(mu <= p.kappa)) continue;
            const uint64_t candidate_key = pair_key(i, j, mu);
            if (candidate_key < smallest_key) {
                smallest_key = candidate_key;
                best_coupling = k;
            }
        }
        for (int offset = LANES / 2; offset > 0; offset /= 2) {
            const unsigned long long other_key = __shfl_xor_sync(0xffffffffu, smallest_key, offset);
            const uint32_t other_coupling = __shfl_xor_sync(0xffffffffu, best_coupling, offset);
            if (other_key < smallest_key) {
                smallest_key = other_key;
                best_coupling = other_coupling;
            }
        }
        if (has_row && lane == 0 && is_unpaired) p.pointed_coupling[i] = best_coupling;
    });
}

// Returns whether kappa A_G - D_G (I - 1 1^T D_G / 1^T D_G 1) has no negative eigenvalue, where G is the set of the
// nodes nodes[0] .. nodes[n - 1]. A_G is the matrix with the couplings inside G and with the row sums e_i of A. D_G
// contains the diagonal entries d_i of A, which also include couplings that leave G. The matrix is scaled by D_G^-1/2
// on both sides and eliminated with diagonal pivoting. All indices are constants, so that the arrays stay in registers.
template <int N>
__device__ inline bool passes_quality_test(const Couplings &c, const uint32_t (&nodes)[N], int n, double kappa) {
    double m[N][N], d[N], inverse_root[N], diagonal_sum = 0.0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        d[k] = k < n ? c.diagonal[nodes[k]] : 1.0;
        inverse_root[k] = 1.0 / sqrt(d[k]);
        diagonal_sum += k < n ? d[k] : 0.0;
#pragma unroll
        for (int l = 0; l < N; ++l) m[k][l] = 0.0;
    }
    const double inverse_diagonal_sum = 1.0 / diagonal_sum;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if (k >= n) continue;
        const uint32_t row_start = c.row_start[nodes[k]], end = row_start + c.length[nodes[k]];
#pragma unroll 4
        for (uint32_t e = row_start; e < end; ++e) {
            const uint32_t j = c.col[e];
#pragma unroll
            for (int l = 0; l < N; ++l)
                if (l < n && nodes[l] == j) m[k][l] = c.a[e];
        }
        double inner_row_sum = c.row_sum[nodes[k]];
#pragma unroll
        for (int l = 0; l < N; ++l) {
            if (l == k || l >= n) continue;
            inner_row_sum += m[k][l];
            m[k][l] = (d[k] * d[l] * inverse_diagonal_sum - kappa * m[k][l]) * (inverse_root[k] * inverse_root[l]);
        }
        m[k][k] = kappa * inner_row_sum / d[k] - 1.0 + d[k] * inverse_diagonal_sum;
    }
    unsigned remaining_mask = (1u << n) - 1;
    for (int step = 0; step < n; ++step) {
        int p = -1;
        double pivot = 0.0, row[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if (!(remaining_mask >> k & 1) || (p >= 0 && !(m[k][k] >= pivot))) continue;
            p = k;
            pivot = m[k][k];
#pragma unroll
            for (int l = 0; l < N; ++l) row[l] = m[k][l];
        }
        if (!(pivot > -NEGATIVE_LIMIT)) {
            // The largest remaining pivot is not positive. The remaining matrix therefore has a negative eigenvalue,
            // unless it is zero.
            bool is_zero = true;
#pragma unroll
            for (int k = 0; k < N; ++k) {
                if (!(remaining_mask >> k & 1)) continue;
                is_zero &= m[k][k] >= NEGATIVE_LIMIT;
#pragma unroll
                for (int l = 0; l < N; ++l)
                    is_zero &= !(remaining_mask >> l & 1) || fabs(m[k][l]) <= sqrt(-NEGATIVE_LIMIT);
            }
            return is_zero;
        }
        remaining_mask &= ~(1u << p);
        const double inverse_pivot = 1.0 / pivot;
        // `row` is row p. The matrix is symmetric, so row[k] is also the entry of row k in column p.
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const double factor = row[k] * inverse_pivot;
#pragma unroll
            for (int l = 0; l < N; ++l) m[k][l] -= factor * row[l];
        }
    }
    return true;
}

// Returns whether the union of the nodes of row i and of row j, at most N nodes, passes the quality test.
template <int N> __device__ inline bool union_passes_test(const PairArgs &p, uint32_t i, uint32_t j) {
    uint32_t nodes[N];
#pragma unroll
    for (int k = 0; k < N; ++k) nodes[k] = NONE;
    int n = 0;
#pragma unroll
    for (int slot = 0; slot < N; ++slot) {
        const uint32_t row = slot < N / 2 ? i : j;
        const uint32_t node = slot % (N / 2) < p.width ? p.nodes[uint64_t(row) * p.width + slot % (N / 2)] : NONE;
        if (node == NONE) continue;
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (k == n) nodes[k] = node;
        ++n;
    }
    return passes_quality_test<N>(p.fine, nodes, n, p.kappa);
}

// Pairs nodes that point at each other. In later passes, the union of their nodes, at most N, must pass the quality
// test. Otherwise, the coupling is marked as rejected. Only the thread of the lower node writes, for both nodes. The
// thread of the higher node returns in any case: either it reads its new partner, or it finds that the other node is
// lower.
template <int N> __device__ inline void match_nodes(const PairArgs &p) {
    const Couplings &c = p.c;
    for_each_index(c.rows, [&](uint32_t i) {
        // `pointed_coupling` is valid for unpaired nodes only. For a paired node, it may be from an earlier round.
        if (p.partner[i] != NONE || p.pointed_coupling[i] == NONE) return;
        const uint32_t coupling = p.pointed_coupling[i], j = c.col[coupling];
        if (j < i) return;
        const uint32_t reverse_coupling = p.pointed_coupling[j];
        if (reverse_coupling == NONE || c.col[reverse_coupling] != i) return;
        if constexpr (N > 2) {
            if (!union_passes_test<N>(p, i, j)) {
                p.rejected[coupling] = p.rejected[reverse_coupling] = 1;
                return;
            }
        }
        p.partner[i] = j;
        p.partner[j] = i;
    });
}

// Arguments of mark_first and number_aggregates, which number the aggregates after the last round of a pass.
struct NumberArgs {
    const uint32_t *partner;
    // After mark_first, 1 if the row begins an aggregate, and 0 otherwise. In number_aggregates, the exclusive prefix
    // sums of these values: the number of the aggregate that the row begins.
    uint32_t *aggregate_number;
    uint32_t *aggregate_of_row; // aggregate of each row of the level
    const uint32_t *nodes;      // `width` nodes of each row; null: the row itself
    uint32_t *joined_nodes;     // nodes of each aggregate, 2 * `width` entries
    uint32_t rows;
    int width;
};
// Sets aggregate_number[i] to 1 for the first node i of each aggregate, and to 0 for all other nodes.
__device__ inline void mark_first(const NumberArgs &a) {
    for_each_index(a.rows, [&](uint32_t i) {
        const bool is_excluded = !a.nodes && a.aggregate_of_row[i] == NONE;
        a.aggregate_number[i] = !is_excluded && a.partner[i] >= i;
    });
}

// Stores the nodes of each aggregate. Aggregates are numbered in the order of their first nodes.
__device__ inline void number_aggregates(const NumberArgs &a) {
    for_each_index(a.rows, [&](uint32_t i) {
        const uint32_t other_row = a.partner[i];
        if (other_row < i || (!a.nodes && a.aggregate_of_row[i] == NONE)) return;
        const uint32_t k = a.aggregate_number[i];
        uint32_t *nodes = a.joined_nodes + uint64_t(k) * 2 * a.width;
        int n = 0;
        const auto insert_node = [&](uint32_t node) {
            if (node == NONE) return;
            int index = n++;
            for (; index > 0 && nodes[index - 1] > node; --index) nodes[index] = nodes[index - 1];
            nodes[index] = node;
            a.aggregate_of_row[node] = k;
        };
        for (int w = 0; w < a.width; ++w) {
            insert_node(a.nodes ? a.nodes[i * a.width + w] : i);
            if (other_row != i && other_row != NONE)
                insert_node(a.nodes ? a.nodes[other_row * a.width + w] : other_row);
        }
        for (; n < 2 * a.width; ++n) nodes[n] = NONE;
    });
}

// Tests whether the aggregates of an earlier matrix are suitable for this matrix. Each aggregate must pass the quality
// test. Each node outside all aggregates must satisfy the condition for exclusion from pairing. `failure_count` is
// the number of failures.
struct SuitabilityArgs {
    Couplings c;
    double kappa;
    // Aggregate of each row of the level (NONE: in no aggregate), and the nodes of each of `count` aggregates: `width`
    // entries, filled up with NONE.
    const uint32_t *aggregate_of_row, *nodes;
    uint32_t *failure_count;
    uint32_t count;
    int width;
};
template <int N> __device__ inline bool is_suitable(const SuitabilityArgs &s, uint32_t k) {
    uint32_t nodes[N];
    int n = 0;
#pragma unroll
    for (int w = 0; w < N; ++w) {
        nodes[w] = w < s.width ? s.nodes[uint64_t(k) * s.width + w] : NONE;
        n += nodes[w] != NONE;
    }
    return n < 2 || passes_quality_test<N>(s.c, nodes, n, s.kappa);
}

// Adds the number of failures to `failure_count`. A node i outside all aggregates fails unless
// (kappa - 2) a_ii >= kappa sum_{j != i} |a_ij| (docs/theory/aggregation.md).
template <int N> __device__ inline void count_unsuitable(const SuitabilityArgs &s) {
    const Couplings &c = s.c;
    uint32_t failure_count = 0;
    for_each_index(s.count, [&](uint32_t k) { failure_count += !is_suitable<N>(s, k); });
    for_each_index(c.rows, [&](uint32_t i) {
        if (s.aggregate_of_row[i] != NONE) return;
        double coupling_sum = 0.0;
        for (uint32_t e = c.row_start[i]; e < c.row_start[i] + c.length[i]; ++e) coupling_sum += fabs(c.a[e]);
        failure_count += !(c.diagonal[i] * (s.kappa - 2.0) >= s.kappa * coupling_sum);
    });
    if (failure_count) atomicAdd(s.failure_count, failure_count);
}

} // namespace aggregation
