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
    over(c.rows, [&](uint32_t i) {
        double sum = 0.0;
        for (uint32_t k = c.first[i]; k < c.first[i] + c.length[i]; ++k) {
            sum += fabs(c.a[k]);
            p.struck[k] = 0;
        }
        const bool out = p.of && c.diagonal[i] * (p.kappa - 2.0) >= p.kappa * sum;
        p.partner[i] = out ? i : NONE;
        if (p.of) p.of[i] = out ? NONE : 0;
    });
}

// Free nodes point.
__device__ inline void point(const PairArgs &p) {
    const Couplings &c = p.c;
    over(c.rows, [&](uint32_t i) {
        if (p.partner[i] != NONE) return;
        uint64_t least = ~0ull;
        uint32_t at = NONE;
        for (uint32_t k = c.first[i]; k < c.first[i] + c.length[i]; ++k) {
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
        p.pointed[i] = at;
    });
}

// The coupling of rows i and j; 0: none.
__device__ inline double between(const Couplings &c, uint32_t i, uint32_t j) {
    for (uint32_t k = c.first[i]; k < c.first[i] + c.length[i]; ++k)
        if (c.col[k] == j) return c.a[k];
    return 0.0;
}

// Whether kappa A_G - D_G (I - 1 1' D_G / 1' D_G 1) has no negative eigenvalue, for n nodes G: A_G has the couplings
// inside G and the excess. Scaled by D_G^-1/2 and eliminated, the largest pivot first.
__device__ inline bool accepts(const Couplings &c, const uint32_t *nodes, int n, double kappa) {
    double m[MOST_NODES][MOST_NODES], d[MOST_NODES], total = 0.0;
    for (int k = 0; k < n; ++k) {
        d[k] = c.diagonal[nodes[k]];
        total += d[k];
    }
    for (int k = 0; k < n; ++k) {
        double inside = c.excess[nodes[k]];
        for (int l = 0; l < n; ++l) {
            if (l == k) continue;
            const double a = between(c, nodes[k], nodes[l]);
            inside += a;
            m[k][l] = (d[k] * d[l] / total - kappa * a) / sqrt(d[k] * d[l]);
        }
        m[k][k] = kappa * inside / d[k] - 1.0 + d[k] / total;
    }
    unsigned left = (1u << n) - 1;
    for (int step = 0; step < n; ++step) {
        int p = -1;
        for (int k = 0; k < n; ++k)
            if (left >> k & 1 && (p < 0 || m[k][k] >= m[p][p])) p = k;
        const double pivot = m[p][p];
        if (!(pivot > -NEGATIVE)) {
            // The largest one: what is left is zero, or has a negative eigenvalue.
            for (int k = 0; k < n; ++k) {
                if (!(left >> k & 1)) continue;
                if (!(m[k][k] >= NEGATIVE)) return false;
                for (int l = 0; l < n; ++l)
                    if (left >> l & 1 && !(fabs(m[k][l]) <= sqrt(-NEGATIVE))) return false;
            }
            return true;
        }
        left &= ~(1u << p);
        for (int k = 0; k < n; ++k)
            for (int l = 0; l < n; ++l)
                if (left >> k & 1 && left >> l & 1) m[k][l] -= m[k][p] * m[p][l] / pivot;
    }
    return true;
}

// Nodes of rows i and j: of the former, then of the latter.
__device__ inline int joined(const PairArgs &p, uint32_t i, uint32_t j, uint32_t *nodes) {
    int n = 0;
    for (const uint32_t row : {i, j})
        for (int k = 0; k < p.width; ++k)
            if (p.nodes[row * p.width + k] != NONE) nodes[n++] = p.nodes[row * p.width + k];
    return n;
}

// Nodes that point at each other match, in later passes if their union is good; else their coupling is struck. The
// thread of the lower node writes for both: what it writes nobody else reads here.
__device__ inline void match(const PairArgs &p) {
    const Couplings &c = p.c;
    over(c.rows, [&](uint32_t i) {
        // Who is free has pointed in this round, others may have in an earlier one.
        if (p.partner[i] != NONE || p.pointed[i] == NONE) return;
        const uint32_t at = p.pointed[i], j = c.col[at];
        if (j < i) return;
        const uint32_t back = p.pointed[j];
        if (back == NONE || c.col[back] != i) return;
        if (p.nodes) {
            uint32_t nodes[MOST_NODES];
            const int n = joined(p, i, j, nodes);
            if (!accepts(p.fine, nodes, n, p.kappa)) {
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

} // namespace aggregation
