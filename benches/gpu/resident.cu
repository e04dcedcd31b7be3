// Measures the wall time of factorizations and solves with arrays in device memory. The device is synchronized before
// and after each call.
//
//     nvcc -O2 -Iinclude benches/gpu/resident.cu -Lbuild/lib -lrrbsolver -o resident
//     resident REPEATS N "OPTIONS" [N "OPTIONS" ...]
//
// Solves -Laplace(u) = f on N x N points, where u = x (x - 1) y (y - 1) exp(x y), from zero. Three words may precede
// the options. "varied": all rows of the matrix differ, in the last digits of the diagonal entries. "pageable" or
// "locked", after "varied": the arrays are in pageable or page-locked host memory, as they must be for "backend=cpu".
// The column "copies ms" is the time of copies that the library reports.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#include <rrbsolver.h>

static void check(rrb_status s) {
    if (s >= 0) return;
    char text[512];
    rrbsolver_last_error(text, sizeof text);
    std::fprintf(stderr, "%s\n", text);
    std::exit(1);
}

static double seconds() {
    cudaDeviceSynchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

enum Place { DEVICE, PAGEABLE, LOCKED };

static double *placed(const std::vector<double> &v, Place place) {
    double *p = nullptr;
    const size_t bytes = 8 * v.size();
    if (place == DEVICE && cudaMalloc(&p, bytes) != cudaSuccess) std::exit(1);
    if (place == LOCKED && cudaMallocHost(&p, bytes) != cudaSuccess) std::exit(1);
    if (place == PAGEABLE) p = static_cast<double *>(std::malloc(bytes));
    if (place == DEVICE) cudaMemcpy(p, v.data(), bytes, cudaMemcpyHostToDevice);
    else std::memcpy(p, v.data(), bytes);
    return p;
}

static void release(double *p, Place place) {
    if (place == DEVICE) cudaFree(p);
    else if (place == LOCKED) cudaFreeHost(p);
    else std::free(p);
}

// Sum of the four neighbours of point (i, j) of n x n; 0 outside.
static double neighbour_sum(const std::vector<double> &v, int64_t n, int64_t i, int64_t j) {
    const int64_t k = j * n + i;
    const double west = i > 0 ? v[k - 1] : 0, east = i + 1 < n ? v[k + 1] : 0;
    const double south = j > 0 ? v[k - n] : 0, north = j + 1 < n ? v[k + n] : 0;
    return west + east + south + north;
}

int main(int argc, char **argv) {
    const int repeats = std::max(1, argc > 1 ? std::atoi(argv[1]) : 20);
    std::printf("%6s %5s %6s %4s %10s %10s %10s %10s %10s %10s %7s  %s\n", "n", "its", "levels", "p c", "handle ms",
                "setup ms", "solve ms", "lowest", "highest", "copies ms", "B/node", "options");
    for (int a = 2; a + 1 < argc; a += 2) {
        const int64_t n = std::atoll(argv[a]), m = n * n;
        std::vector<double> center(m, 4.0), east(m, -1.0), u(m), b(m);
        std::string options = argv[a + 1];
        const std::string varied = "varied";
        if (options.rfind(varied, 0) == 0) {
            options.erase(0, varied.size() + 1);
            for (int64_t k = 0; k < m; ++k) center[k] += 1e-12 * double(uint32_t(k) * 2654435761u % 1000u);
        }
        auto f = [&](int64_t i, int64_t j) {
            const double h = 1.0 / (n + 1), x = (i + 1) * h, y = (j + 1) * h;
            return x * (x - 1) * y * (y - 1) * std::exp(x * y);
        };
        for (int64_t j = 0; j < n; ++j)
            for (int64_t i = 0; i < n; ++i) u[j * n + i] = f(i, j);
        for (int64_t j = 0; j < n; ++j) {
            for (int64_t i = 0; i < n; ++i) {
                const int64_t k = j * n + i;
                b[k] = 4 * u[k] - neighbour_sum(u, n, i, j);
            }
        }
        Place place = DEVICE;
        for (Place p : {PAGEABLE, LOCKED}) {
            const std::string word = p == PAGEABLE ? "pageable" : "locked";
            if (options.rfind(word, 0) == 0) {
                place = p;
                options.erase(0, word.size());
            }
        }
        double *d_center = placed(center, place), *d_east = placed(east, place);
        double *d_b = placed(b, place), *d_x = placed(b, place);
        rrb_handle *h = nullptr;
        const double made = seconds();
        check(rrb_create(n, n, &h));
        check(rrb_set_options(h, "backend=cuda rel_tol=1e-6"));
        check(rrb_set_options(h, options.c_str()));
        double handle = 0.0;
        std::vector<double> setup, solve;
        for (int k = 0; k < (repeats + 1) / 2 + 2; ++k) {
            const double start = seconds();
            check(rrb_factorize(h, d_center, d_east, d_east, nullptr, nullptr));
            if (k == 0) handle = 1e3 * (seconds() - made);
            if (k >= 2) setup.push_back(1e3 * (seconds() - start));
        }
        for (int k = 0; k < repeats + 2; ++k) {
            if (place == DEVICE) cudaMemset(d_x, 0, 8 * m);
            else std::memset(d_x, 0, 8 * m);
            const double start = seconds();
            check(rrb_solve(h, d_b, d_x));
            if (k >= 2) solve.push_back(1e3 * (seconds() - start));
        }
        std::vector<double> x(m);
        cudaMemcpy(x.data(), d_x, 8 * m, cudaMemcpyDefault);
        double r2 = 0.0, b2 = 0.0;
        for (int64_t j = 0; j < n; ++j) {
            for (int64_t i = 0; i < n; ++i) {
                const int64_t k = j * n + i;
                const double r = b[k] - (4 * x[k] - neighbour_sum(x, n, i, j));
                r2 += r * r;
                b2 += b[k] * b[k];
            }
        }
        int64_t its = 0, levels = 0, precision = 0, cycle = 0, bytes = 0;
        check(rrb_get_int(h, RRB_INFO_ITERATIONS, &its));
        check(rrb_get_int(h, RRB_INFO_LEVELS, &levels));
        check(rrb_get_int(h, RRB_INFO_PRECISION, &precision));
        check(rrb_get_int(h, RRB_INFO_CYCLE, &cycle));
        check(rrb_get_int(h, RRB_INFO_BYTES_DEVICE, &bytes));
        double copies = 0.0;
        check(rrb_get_real(h, RRB_INFO_SECONDS_TRANSFER, &copies));
        std::sort(setup.begin(), setup.end());
        std::sort(solve.begin(), solve.end());
        std::printf("%6lld %5lld %6lld %2lld%2lld", (long long)n, (long long)its, (long long)levels,
                    (long long)precision, (long long)cycle);
        std::printf(" %10.3f %10.3f %10.3f %10.3f %10.3f", handle, setup[setup.size() / 2], solve[solve.size() / 2],
                    solve.front(), solve.back());
        std::printf(" %10.3f %7.1f  %s (residual %.1e)\n", 1e3 * copies, double(bytes) / m, argv[a + 1],
                    std::sqrt(r2 / b2));
        std::fflush(stdout);
        rrb_destroy(&h);
        release(d_center, place);
        release(d_east, place);
        release(d_b, place);
        release(d_x, place);
    }
    return 0;
}
