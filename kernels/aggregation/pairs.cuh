// Aggregates by passes of pairs (Napov and Notay 2012), which find each other by handshakes: each free node points at
// its free neighbour of least key, and two that point at each other match. Keys order by classes of mu, quarters of an
// octave, and by a hash within them: by mu itself chains of nodes, each of which has a better one behind it, would find
// one pair a round.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// A pivot below this is negative: what is above may be rounding of the zero that one always is.
constexpr double NEGATIVE = -1e-9;

struct PairArgs {
    Couplings c; // of this pass
    double kappa;
    uint32_t *partner;  // NONE: free; the row itself: alone
    uint32_t *pointed;  // at which place of its row a node points; NONE: nowhere
    uint8_t *struck;    // of each coupling: its union was refused
    uint32_t *of;       // first pass: NONE where the smoother alone does the row, else 0
    Couplings fine;     // later passes: the matrix that aggregates are of,
    const uint32_t *nodes; // and `width` nodes of each row here, ascending, then NONE
    int width, unused;
};

// mu(i, j) = 2 d_i d_j / ((d_i + d_j) (a_ij + e_i e_j / (e_i + e_j))).
__device__ inline double quality(const Couplings &c, uint32_t i, uint32_t j, double a) {
    const double di = c.diagonal[i], dj = c.diagonal[j], ei = c.excess[i], ej = c.excess[j];
    const double series = ei > 0.0 && ej > 0.0 ? ei * ej / (ei + ej) : 0.0;
    return 2.0 * di * dj / ((di + dj) * (a + series));
}

__device__ inline uint64_t mixed(uint64_t v) {
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
    return v ^ (v >> 31);
}

// Of the coupling of i and j with this mu.
__device__ inline uint64_t key(uint32_t i, uint32_t j, double mu) {
    const uint32_t low = min(i, j), high = max(i, j);
    const uint64_t hash = mixed((uint64_t(low) << 32 | high) + 0x9e3779b97f4a7c15ull) >> 28;
    return uint64_t(__float_as_uint(float(mu)) >> 21) << 36 | hash;
}

// Before the first round. `of` is there in the first pass alone, which leaves out rows that dominate:
// d_i (kappa - 2) >= kappa sum over j of |a_ij|.
__device__ inline void set_free(const PairArgs &p) {
    const Couplings &c = p.c;
    over_rows<LANES>(c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        double sum = 0.0;
        for (uint32_t k = c.first[i] + lane; k < c.first[i] + c.length[i]; k += LANES) {
            sum += fabs(c.a[k]);
            if (is) p.struck[k] = 0;
        }
        sum = lane_sum<LANES>(sum);
        if (!is || lane != 0) return;
        const bool out = p.of && c.diagonal[i] * (p.kappa - 2.0) >= p.kappa * sum;
        p.partner[i] = out ? i : NONE;
        if (p.of) p.of[i] = out ? NONE : 0;
    });
}

// Free nodes point.
__device__ inline void point(const PairArgs &p) {
    const Couplings &c = p.c;
    over_rows<LANES>(c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        unsigned long long least = ~0ull;
        uint32_t at = NONE;
        const bool free = p.partner[i] == NONE;
        for (uint32_t k = c.first[i] + lane; free && k < c.first[i] + c.length[i]; k += LANES) {
            const uint32_t j = c.col[k];
            if (p.partner[j] != NONE || !(c.a[k] > 0.0) || p.struck[k]) continue;
            const double mu = quality(c, i, j, c.a[k]);
            if (!(mu <= p.kappa)) continue;
            const uint64_t of = key(i, j, mu);
            if (of < least) {
                least = of;
                at = k;
            }
        }
        for (int by = LANES / 2; by > 0; by /= 2) {
            const unsigned long long other = __shfl_xor_sync(0xffffffffu, least, by);
            const uint32_t other_at = __shfl_xor_sync(0xffffffffu, at, by);
            if (other < least) {
                least = other;
                at = other_at;
            }
        }
        if (is && lane == 0 && free) p.pointed[i] = at;
    });
}

// Whether kappa A_G - D_G (I - 1 1' D_G / 1' D_G 1) has no negative eigenvalue, for n of at most N nodes G: A_G has
// the couplings inside G and the excess. Scaled by D_G^-1/2 and eliminated, the largest pivot first. No index but
// constants, so that all of it stays in registers.
template <int N> __device__ inline bool accepts(const Couplings &c, const uint32_t (&nodes)[N], int n, double kappa) {
    double m[N][N], d[N], root[N], total = 0.0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        d[k] = k < n ? c.diagonal[nodes[k]] : 1.0;
        root[k] = 1.0 / sqrt(d[k]);
        total += k < n ? d[k] : 0.0;
#pragma unroll
        for (int l = 0; l < N; ++l) m[k][l] = 0.0;
    }
    const double per_total = 1.0 / total;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if (k >= n) continue;
        const uint32_t first = c.first[nodes[k]], end = first + c.length[nodes[k]];
#pragma unroll 4
        for (uint32_t e = first; e < end; ++e) {
            const uint32_t j = c.col[e];
#pragma unroll
            for (int l = 0; l < N; ++l)
                if (l < n && nodes[l] == j) m[k][l] = c.a[e];
        }
        double inside = c.excess[nodes[k]];
#pragma unroll
        for (int l = 0; l < N; ++l) {
            if (l == k || l >= n) continue;
            inside += m[k][l];
            m[k][l] = (d[k] * d[l] * per_total - kappa * m[k][l]) * (root[k] * root[l]);
        }
        m[k][k] = kappa * inside / d[k] - 1.0 + d[k] * per_total;
    }
    unsigned left = (1u << n) - 1;
    for (int step = 0; step < n; ++step) {
        int p = -1;
        double pivot = 0.0, row[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if (!(left >> k & 1) || (p >= 0 && !(m[k][k] >= pivot))) continue;
            p = k;
            pivot = m[k][k];
#pragma unroll
            for (int l = 0; l < N; ++l) row[l] = m[k][l];
        }
        if (!(pivot > -NEGATIVE)) {
            // The largest one: what is left is zero, or has a negative eigenvalue.
            bool is_zero = true;
#pragma unroll
            for (int k = 0; k < N; ++k) {
                if (!(left >> k & 1)) continue;
                is_zero &= m[k][k] >= NEGATIVE;
#pragma unroll
                for (int l = 0; l < N; ++l) is_zero &= !(left >> l & 1) || fabs(m[k][l]) <= sqrt(-NEGATIVE);
            }
            return is_zero;
        }
        left &= ~(1u << p);
        const double per_pivot = 1.0 / pivot;
        // The matrix is symmetric.
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const double factor = row[k] * per_pivot;
#pragma unroll
            for (int l = 0; l < N; ++l) m[k][l] -= factor * row[l];
        }
    }
    return true;
}

// Whether the nodes of rows i and j, of the former, then of the latter, are a good union; of at most N.
template <int N> __device__ inline bool is_good_union(const PairArgs &p, uint32_t i, uint32_t j) {
    uint32_t nodes[N];
#pragma unroll
    for (int k = 0; k < N; ++k) nodes[k] = NONE;
    int n = 0;
#pragma unroll
    for (int of = 0; of < N; ++of) {
        const uint32_t row = of < N / 2 ? i : j;
        const uint32_t node = of % (N / 2) < p.width ? p.nodes[uint64_t(row) * p.width + of % (N / 2)] : NONE;
        if (node == NONE) continue;
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (k == n) nodes[k] = node;
        ++n;
    }
    return accepts<N>(p.fine, nodes, n, p.kappa);
}

// Nodes that point at each other match; in later passes, of N nodes at most, if their union is good, or their coupling
// is struck. The thread of the lower node writes for both; that of the higher one returns, whether it sees its partner
// or not.
template <int N> __device__ inline void match(const PairArgs &p) {
    const Couplings &c = p.c;
    over(c.rows, [&](uint32_t i) {
        // Who is free has pointed in this round, others may have in an earlier one.
        if (p.partner[i] != NONE || p.pointed[i] == NONE) return;
        const uint32_t at = p.pointed[i], j = c.col[at];
        if (j < i) return;
        const uint32_t back = p.pointed[j];
        if (back == NONE || c.col[back] != i) return;
        if constexpr (N > 2) {
            if (!is_good_union<N>(p, i, j)) {
                p.struck[at] = p.struck[back] = 1;
                return;
            }
        }
        p.partner[i] = j;
        p.partner[j] = i;
    });
}

// After the last round: 1 for the first of each pair, and for those alone.
struct NumberArgs {
    const uint32_t *partner;
    uint32_t *number;        // 1, then sums of those before
    uint32_t *of;            // of rows of the finest matrix of these passes: its aggregate
    const uint32_t *nodes;   // of a row, `width` of them; null: the row itself
    uint32_t *joined;        // of an aggregate, twice as many
    uint32_t rows;
    int width;
};
__device__ inline void mark_first(const NumberArgs &a) {
    over(a.rows, [&](uint32_t i) {
        const bool left_out = !a.nodes && a.of[i] == NONE;
        a.number[i] = !left_out && a.partner[i] >= i;
    });
}

// Aggregates by their numbers, in the order of their first nodes.
__device__ inline void number(const NumberArgs &a) {
    over(a.rows, [&](uint32_t i) {
        const uint32_t other = a.partner[i];
        if (other < i || (!a.nodes && a.of[i] == NONE)) return;
        const uint32_t k = a.number[i];
        uint32_t *to = a.joined + uint64_t(k) * 2 * a.width;
        int n = 0;
        const auto add = [&](uint32_t node) {
            if (node == NONE) return;
            int at = n++;
            for (; at > 0 && to[at - 1] > node; --at) to[at] = to[at - 1];
            to[at] = node;
            a.of[node] = k;
        };
        for (int w = 0; w < a.width; ++w) {
            add(a.nodes ? a.nodes[i * a.width + w] : i);
            if (other != i && other != NONE) add(a.nodes ? a.nodes[other * a.width + w] : other);
        }
        for (; n < 2 * a.width; ++n) to[n] = NONE;
    });
}

// Whether aggregates of an earlier matrix do for this one: each union by its quality, each node that is left out by its
// rule; `failed` counts those that do not.
struct SuitArgs {
    Couplings c;
    double kappa;
    const uint32_t *of, *nodes; // as of NumberArgs, `width` nodes of each of `count` aggregates
    uint32_t *failed;
    uint32_t count;
    int width;
};
template <int N> __device__ inline bool suits(const SuitArgs &s, uint32_t k) {
    uint32_t nodes[N];
    int n = 0;
#pragma unroll
    for (int w = 0; w < N; ++w) {
        nodes[w] = w < s.width ? s.nodes[uint64_t(k) * s.width + w] : NONE;
        n += nodes[w] != NONE;
    }
    return n < 2 || accepts<N>(s.c, nodes, n, s.kappa);
}
template <int N> __device__ inline void suit(const SuitArgs &s) {
    const Couplings &c = s.c;
    uint32_t failed = 0;
    over(s.count, [&](uint32_t k) { failed += !suits<N>(s, k); });
    over(c.rows, [&](uint32_t i) {
        if (s.of[i] != NONE) return;
        double sum = 0.0;
        for (uint32_t e = c.first[i]; e < c.first[i] + c.length[i]; ++e) sum += fabs(c.a[e]);
        failed += !(c.diagonal[i] * (s.kappa - 2.0) >= s.kappa * sum);
    });
    if (failed) atomicAdd(s.failed, failed);
}

} // namespace aggregation
