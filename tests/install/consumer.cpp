// A C++17 program as a user builds it against the installed package. The exit status is 0 if the library behaves as
// documented.
#include <rrbsolver.hpp>

#include <array>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

constexpr std::int64_t nx = 33, ny = 18;
constexpr std::size_t size = nx * ny;
constexpr double rel_tol = 1e-8;

using vector = std::vector<double>;

vector laplacian(const vector &x) {
    vector y(size);
    for (std::int64_t j = 0; j < ny; j++) {
        for (std::int64_t i = 0; i < nx; i++) {
            const auto k = static_cast<std::size_t>(j * nx + i);
            y[k] = 4 * x[k] - (i > 0 ? x[k - 1] : 0) - (i + 1 < nx ? x[k + 1] : 0) - (j > 0 ? x[k - nx] : 0) -
                   (j + 1 < ny ? x[k + nx] : 0);
        }
    }
    return y;
}

double distance(const vector &a, const vector &b) {
    double sum = 0;
    for (std::size_t k = 0; k < size; k++) {
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    }
    return std::sqrt(sum);
}

template <class Call>
rrb_status code_of(Call call, const std::string &part) {
    try {
        call();
    } catch (const rrbsolver::error &e) {
        CHECK(std::string(e.what()).find(part) != std::string::npos);
        return e.code();
    }
    return RRB_OK;
}

} // namespace

int main() {
    using rrbsolver::rrb;
    static_assert(!std::is_copy_constructible_v<rrb> && !std::is_copy_assignable_v<rrb>);
    static_assert(std::is_nothrow_move_constructible_v<rrb> && std::is_nothrow_move_assignable_v<rrb>);
    static_assert(!std::is_convertible_v<const vector &, rrbsolver::output>, "outputs are writable");

    const vector center(size, 4.0), east(size, -1.0), north(size, -1.0), zero(size, 0.0);
    vector solution(size), x(size);
    for (std::size_t k = 0; k < size; k++) {
        solution[k] = std::sin(0.37 * static_cast<double>(k)) + 1.0;
    }
    vector b = laplacian(solution);
    const double pi = std::acos(-1.0);
    const double lambda_min = 4 - 2 * std::cos(pi / (nx + 1)) - 2 * std::cos(pi / (ny + 1));
    const auto check_solution = [&] {
        const double residual = distance(b, laplacian(x));
        // Rounding of five products per row, whose |entries| sum to 8.
        const double rounding = 16 * DBL_EPSILON * 8 * distance(x, zero);
        CHECK(residual <= rel_tol * distance(b, zero) + rounding);
        CHECK(distance(x, solution) <= (residual + rounding) / lambda_min);
    };

    rrb first(nx, ny);
    first.set("rel_tol=1e-8 norm=true2");
    first.set(RRB_OPT_MAX_ITER, 200);
    first.set(RRB_OPT_ABS_TOL, 0.0);
    CHECK(first.get_int(RRB_OPT_MAX_ITER) == 200 && first.get_real(RRB_OPT_REL_TOL) == rel_tol);
    first.factorize(center, east, north);
    std::int64_t calls = 0;
    first.set_monitor([&](std::int64_t iteration, double) {
        CHECK(iteration == calls);
        calls++;
        return false;
    });

    // A moved object has the handle and the monitor of the original.
    rrb solver(std::move(first));
    CHECK(first.handle() == nullptr);
    CHECK(code_of([&] { first.factorize(center, east, north); }, "") == RRB_ERR_NULL);
    CHECK(solver.solve(b, x) == RRB_OK);
    check_solution();
    const vector history = solver.history();
    CHECK(static_cast<std::int64_t>(history.size()) == calls && calls == solver.get_int(RRB_INFO_ITERATIONS) + 1);
    rrb other(3, 3);
    other = std::move(solver);
    vector y(size);
    other.multiply(solution, y);
    CHECK(distance(y, b) <= 16 * DBL_EPSILON * 8 * distance(solution, zero));
    other.apply(b, {y.data(), y.size()});
    CHECK(distance(y, zero) > 0);

    // An exception of the monitor stops the solve and propagates to the caller; the solver remains usable.
    x = zero;
    other.set_monitor([](std::int64_t iteration, double) -> bool {
        if (iteration == 2) throw std::out_of_range("from the monitor");
        return false;
    });
    bool caught = false;
    try {
        (void)other.solve(b, x);
    } catch (const std::out_of_range &) {
        caught = true;
    }
    CHECK(caught && other.get_int(RRB_INFO_ITERATIONS) == 2);
    other.set_monitor([](std::int64_t iteration, double) { return iteration == 1; });
    CHECK(other.solve(b, x) == RRB_STOPPED);
    CHECK(rrbsolver::last_error().rfind("stopped by the monitor: 1 iteration, relative residual ", 0) == 0);
    other.set_monitor(nullptr);
    CHECK(other.solve(b, x) == RRB_OK);
    check_solution();

    // Padded rows, and arrays that are not in a container.
    constexpr std::int64_t ld = nx + 1;
    std::array<double, ld * ny> padded{};
    padded.fill(4.0);
    other.set(RRB_OPT_LEADING_DIMENSION, ld);
    CHECK(code_of([&] { other.factorize(center, padded, padded); }, "center must hold 18 rows of 34 values, got 594") ==
          RRB_ERR_DIMENSION);
    static double couplings[ld * ny];
    other.factorize(padded, couplings, {couplings, sizeof couplings / sizeof *couplings});
    other.set(RRB_OPT_LEADING_DIMENSION, 0);
    other.factorize(center, east, north);

    // Exceptions contain the status and the error message, and no output is written.
    CHECK(code_of([&] { rrb bad(0, 5); }, "") == RRB_ERR_DIMENSION);
    CHECK(code_of([&] { other.set(RRB_OPT_REL_TOL, 2.0); }, "rel_tol must lie in (0, 1), got 2") == RRB_ERR_ARGUMENT);
    CHECK(code_of([&] { other.set("bakcend=cpu"); }, "did you mean 'backend'") == RRB_ERR_OPTION);
    CHECK(code_of([&] { (void)other.solve(vector(size - 1), x); }, "b must hold 18 rows") == RRB_ERR_DIMENSION);
    CHECK(code_of([&] { (void)other.solve(x, x); }, "overlap") == RRB_ERR_ARGUMENT);
    b[nx + 4] = std::numeric_limits<double>::quiet_NaN();
    x = zero;
    CHECK(code_of([&] { (void)other.solve(b, x); }, "(4, 1)") == RRB_ERR_NOT_FINITE);
    CHECK(x == zero);

    // solve_once.
    b = laplacian(solution);
    const rrbsolver::once done = rrbsolver::solve_once(nx, ny, center, east, north, b, x, rel_tol, 100);
    CHECK(done.status == RRB_OK && done.iterations > 0);
    check_solution();

    // Two patches of one block each, with a ghost function: u = 1 all around and f = 0 give u = 1.
    {
        rrbsolver::smoother first(std::vector<double>{6, -1, -1, -1, -1, -1, -1}, 4, 4, 4);
        rrbsolver::smoother smoother = std::move(first);
        CHECK(code_of([&] { first.set("omega=1"); }, "NULL") == RRB_ERR_NULL);
        smoother.set_patches(std::vector<rrbsolver::box>{{{0, 0, 0}, {4, 4, 4}}, {{4, 0, 0}, {4, 4, 4}}});
        vector u1(216, 1.0), u2(216, 1.0), f1(64), f2(64);
        const auto inside = [](vector &v) {
            for (int k = 1; k < 5; ++k)
                for (int j = 1; j < 5; ++j)
                    for (int i = 1; i < 5; ++i) v[static_cast<std::size_t>((k * 6 + j) * 6 + i)] = 0.0;
        };
        inside(u1), inside(u2);
        const std::vector<double *> u = {u1.data(), u2.data()}, f = {f1.data(), f2.data()};
        int fills = 0;
        smoother.set_ghost_fill([&](std::int32_t sweep, double *const *patches) {
            CHECK(sweep == fills && patches[1] == u2.data());
            ++fills;
            return false;
        });
        CHECK(smoother.apply(u, f, 40) == RRB_OK && fills == 40);
        smoother.set_ghost_fill(nullptr);
        CHECK(smoother.residual(u, f) < 1e-9);
        CHECK(std::fabs(u1[86] - 1.0) < 1e-9 && std::fabs(u2[129] - 1.0) < 1e-9);
        CHECK(code_of([&] { (void)smoother.apply({u.data(), 1}, f, 1); }, "2 patches, got 1") == RRB_ERR_DIMENSION);
        CHECK(code_of([&] { smoother.set("metod=x"); }, "did you mean 'method'") == RRB_ERR_OPTION);
        smoother.set_ghost_fill([](std::int32_t, double *const *) -> bool { throw 7; });
        int thrown = 0;
        try {
            (void)smoother.apply(u, f, 1);
        } catch (int value) {
            thrown = value;
        }
        CHECK(thrown == 7);

        // The same patches as resident patches.
        smoother.set_ghost_fill(nullptr);
        CHECK(code_of([&] { (void)smoother.apply(1); }, "smoother_upload") == RRB_ERR_STATE);
        CHECK(code_of([&] { (void)smoother.device_pointers(); }, "smoother_upload") == RRB_ERR_STATE);
        inside(u1), inside(u2);
        vector r1(64), r2(64);
        const std::vector<double *> r = {r1.data(), r2.data()};
        smoother.upload(u, f);
        const double start = smoother.residual(u, f);
        CHECK(smoother.residual() == start && smoother.residual(r) == start && r1[0] == 3.0);
        const vector before = u1;
        smoother.exchange();
        CHECK(smoother.apply(40) == RRB_OK && smoother.residual() < 1e-9 && u1 == before);
        const rrbsolver::resident_patches kept = smoother.device_pointers();
        CHECK(kept.u.size() == 2 && kept.f.size() == 2);
        if (smoother.get_int(RRB_INFO_BACKEND) != RRB_BACKEND_CUDA) {
            CHECK(std::fabs(kept.u[0][86] - 1.0) < 1e-9 && kept.f[1][63] == 0.0);
        }
        CHECK(smoother.residual(kept.u, kept.f) < 1e-9); // ours are the caller's to read
        f1[0] = 1;
        smoother.upload_f(f);
        CHECK(smoother.residual() > 0.9);
        smoother.upload_u(u);
        CHECK(smoother.apply(0) == RRB_OK && smoother.residual() > start - 1);
        f1[0] = 0;
        smoother.upload_f(f);
        (void)smoother.apply(40);
        smoother.download(u);
        CHECK(std::fabs(u1[86] - 1.0) < 1e-9 && std::fabs(u2[129] - 1.0) < 1e-9);
        CHECK(code_of([&] { (void)smoother.residual(rrbsolver::patches{r.data(), 1}); }, "r must hold") == RRB_ERR_DIMENSION);
        CHECK(code_of([&] { smoother.upload_u({u.data(), 1}); }, "2 patches, got 1") == RRB_ERR_DIMENSION);
        CHECK(code_of([&] { smoother.set(RRB_OPT_METHOD, ~std::uint64_t{0}); }, "at most 9223372036854775807") == RRB_ERR_ARGUMENT);

        // After a wrong list there are no patches, and later calls return an error.
        using boxes = std::vector<rrbsolver::box>;
        const auto list = [&](const boxes &b) { return code_of([&] { smoother.set_patches(b); }, ""); };
        CHECK(list({{{0, 0, 0}, {4, 4, 4}}, {{3, 0, 0}, {4, 4, 4}}}) == RRB_ERR_ARGUMENT);
        CHECK(code_of([&] { (void)smoother.apply(u, f, 1); }, "smoother_set_patches failed") == RRB_ERR_STATE);
        CHECK(code_of([&] { (void)smoother.device_pointers(); }, "smoother_set_patches failed") == RRB_ERR_STATE);
        CHECK(list({{{0, 0, 0}, {4, 0, 4}}}) == RRB_ERR_DIMENSION && list({{{0, 0, 0}, {4, 4, -1}}}) == RRB_ERR_DIMENSION);
        smoother.set_patches(boxes{});
        CHECK(smoother.apply(1) == RRB_OK && smoother.residual() == 0.0);
        smoother.set_patches(boxes{{{7, 7, 7}, {1, 1, 1}}});
        vector u3(27, 1.0), f3(1);
        CHECK(smoother.apply(std::array<double *, 1>{u3.data()}, std::array<double *, 1>{f3.data()}, 1) == RRB_OK);
        CHECK(std::fabs(u3[13] - 1.0) < 1e-15);
        CHECK(code_of([&] { (void)smoother.apply(std::array<double *, 1>{nullptr}, std::array<double *, 1>{f3.data()}, 1); },
                      "u of patch 0 must not be NULL") == RRB_ERR_NULL);
        const auto made = [](vector stencil, std::int64_t side) {
            return code_of([&] { rrbsolver::smoother(stencil, side, 4, 4).set_patches(boxes{{{0, 0, 0}, {4, 4, 4}}}); }, "");
        };
        CHECK(made({6, -1, -1}, 4) == RRB_ERR_ARGUMENT && made(vector(7), 4) == RRB_ERR_MATRIX && made(vector(7), 0) == RRB_ERR_DIMENSION);
        CHECK(made({6, -1, std::numeric_limits<double>::quiet_NaN(), -1, -1, -1, -1}, 4) == RRB_ERR_NOT_FINITE);
    }

    // Two threads with one smoother each compute the numbers of a single thread.
    {
        const auto relaxed = [] {
            rrbsolver::smoother smoother(std::vector<double>{6, -1, -1, -1, -1, -1, -1}, 8, 8, 8);
            smoother.set("threads=2");
            smoother.set_patches(std::vector<rrbsolver::box>{{{0, 0, 0}, {30, 17, 25}}});
            vector u(32 * 19 * 27), f(30 * 17 * 25);
            for (std::size_t c = 0; c < u.size(); ++c) u[c] = static_cast<double>(c * 2654435761u % 1000) / 1000;
            for (int call = 0; call < 20; ++call) {
                (void)smoother.apply(std::array<double *, 1>{u.data()}, std::array<double *, 1>{f.data()}, 2);
            }
            return u;
        };
        const vector alone = relaxed();
        auto other = std::async(std::launch::async, relaxed);
        const vector mine = relaxed();
        CHECK(mine == alone && other.get() == alone);
    }

    CHECK(rrbsolver::version() == rrbsolver_version() && rrbsolver::cuda_device_count() >= 0);
    CHECK(!rrbsolver::status_string(RRB_NOT_CONVERGED).empty());
    std::puts("C++: all as documented");
    return 0;
}
