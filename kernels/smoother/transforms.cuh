// Sine transforms of lines of eight cells in registers: one transform of length 8, or as many shorter ones as fit. The
// transform of length B is (S v)_p = sum_q sin(p q pi / (B + 1)) v_q, p, q = 1 .. B (docs/theory/smoother.md, "Sine
// transforms").
namespace blocks {

// Sines of 20, 40 and 60 degrees. The sine of 80 degrees is SIN_20 + SIN_40, so it is not stored.
constexpr double SIN_20 = 0.34202014332566873304, SIN_40 = 0.64278760968653932632, SIN_60 = 0.86602540378443864676;

// Sine transform of length 8 in 34 operations: sums and differences of mirror images, then two transforms of length 4.
// A fused multiply-add counts as one operation.
__device__ __forceinline__ void transform8(double (&v)[8]) {
    const double p1 = v[0] + v[7], p2 = v[1] + v[6], p3 = v[2] + v[5], p4 = v[3] + v[4];
    const double m1 = v[0] - v[7], m2 = v[1] - v[6], m3 = v[2] - v[5], m4 = v[3] - v[4];
    double t = SIN_60 * p3;
    double a = p1 + p4, b = p2 + p4, c = p1 - p2;
    v[0] = SIN_20 * a + (SIN_40 * b + t);
    v[2] = SIN_60 * (p1 + p2 - p4);
    v[4] = SIN_20 * c + (SIN_40 * a - t);
    v[6] = SIN_40 * c + (t - SIN_20 * b);
    t = SIN_60 * m3;
    a = m1 + m2, b = m2 + m4, c = m1 - m4;
    v[1] = SIN_40 * a + (SIN_20 * b + t);
    v[3] = SIN_20 * a + (SIN_40 * c - t);
    v[5] = SIN_60 * (m1 - m2 + m4);
    v[7] = SIN_20 * c + (t - SIN_40 * b);
}

// Returns sin(k pi / n) for n <= 8. If k and n are literals, the compiler replaces the call by a literal.
__device__ __forceinline__ double sine(int n, int k) {
    k %= 2 * n;
    const double sign = k > n ? -1.0 : 1.0;
    k = k > n ? k - n : k;
    k = 2 * k > n ? n - k : k;
    switch (n * 8 + k) {
    case 2 * 8 + 1:
    case 4 * 8 + 2:
    case 6 * 8 + 3:
    case 8 * 8 + 4: return sign;
    case 3 * 8 + 1:
    case 6 * 8 + 2: return sign * SIN_60;
    case 4 * 8 + 1:
    case 8 * 8 + 2: return sign * 0.70710678118654752440;
    case 5 * 8 + 1: return sign * 0.58778525229247312917;
    case 5 * 8 + 2: return sign * 0.95105651629515357212;
    case 6 * 8 + 1: return sign * 0.5;
    case 7 * 8 + 1: return sign * 0.43388373911755812048;
    case 7 * 8 + 2: return sign * 0.78183148246802980871;
    case 7 * 8 + 3: return sign * 0.97492791218182360702;
    case 8 * 8 + 1: return sign * 0.38268343236508977173;
    case 8 * 8 + 3: return sign * 0.92387953251128675613;
    default: return 0.0;
    }
}

// Applies as many transforms of length B as fit in a line. Each transform computes sums and differences of mirror
// images, and then one result per row of the sine matrix.
template <int B> __device__ __forceinline__ void transform_blocks(double (&v)[8]) {
#pragma unroll
    for (int first_cell = 0; first_cell + B <= 8; first_cell += B) {
        double sums[(B + 1) / 2], differences[(B + 1) / 2];
#pragma unroll
        for (int q = 0; q < (B + 1) / 2; ++q) {
            const double x = v[first_cell + q], y = v[first_cell + B - 1 - q];
            const bool is_middle = 2 * q + 1 == B;
            sums[q] = is_middle ? x : x + y;
            differences[q] = is_middle ? 0.0 : x - y;
        }
#pragma unroll
        for (int r = 0; r < B; ++r) {
            double sum = 0.0;
#pragma unroll
            for (int q = 0; q < (B + 1) / 2; ++q) {
                if (r % 2 == 1 && 2 * q + 1 == B) continue;
                const double term = r % 2 == 0 ? sums[q] : differences[q], factor = sine(B + 1, (r + 1) * (q + 1));
                sum = q == 0 ? factor * term : sum + factor * term;
            }
            v[first_cell + r] = sum;
        }
    }
}

// Transforms a line in blocks of `length` cells. The matrix for length 1 is sin(90 degrees) = 1.
__device__ __forceinline__ void transform_line(double (&v)[8], int length) {
    switch (length) {
    case 1: break;
    case 2: transform_blocks<2>(v); break;
    case 3: transform_blocks<3>(v); break;
    case 4: transform_blocks<4>(v); break;
    case 5: transform_blocks<5>(v); break;
    case 6: transform_blocks<6>(v); break;
    case 7: transform_blocks<7>(v); break;
    default: transform8(v);
    }
}

} // namespace blocks
