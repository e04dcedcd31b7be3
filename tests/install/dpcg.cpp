// 3D systems with the class dpcg, as a user of the installed package solves them. The exit status is 0 if the library
// behaves as documented.
#include <rrbsolver.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

constexpr std::int64_t nx = 10, ny = 7, nz = 8;
constexpr double rel_tol = 1e-8;
using vector = std::vector<double>;

/// -Laplace on a box, zero outside; rows have `row` values, of which the padding is never read.
struct box_of_cells {
    std::size_t row;
    vector center, coupling;

    explicit box_of_cells(std::size_t row_length)
        : row(row_length), center(row * ny * nz, 6.0), coupling(row * ny * nz, -1.0) {}

    template <class Visit>
    void each(Visit visit) const {
        for (std::int64_t k = 0; k < nz; ++k)
            for (std::int64_t j = 0; j < ny; ++j)
                for (std::int64_t i = 0; i < nx; ++i) visit(i, j, k, static_cast<std::size_t>(k * ny + j) * row + static_cast<std::size_t>(i));
    }

    vector times(const vector &x) const {
        vector y(x.size());
        each([&](std::int64_t i, std::int64_t j, std::int64_t k, std::size_t c) {
            y[c] = 6 * x[c] - (i > 0 ? x[c - 1] : 0) - (i + 1 < nx ? x[c + 1] : 0) - (j > 0 ? x[c - row] : 0) -
                   (j + 1 < ny ? x[c + row] : 0) - (k > 0 ? x[c - row * ny] : 0) - (k + 1 < nz ? x[c + row * ny] : 0);
        });
        return y;
    }

    double distance(const vector &a, const vector &b) const {
        double sum = 0;
        each([&](std::int64_t, std::int64_t, std::int64_t, std::size_t c) { sum += (a[c] - b[c]) * (a[c] - b[c]); });
        return std::sqrt(sum);
    }
};

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
    using rrbsolver::dpcg;
    static_assert(!std::is_copy_constructible_v<dpcg> && std::is_nothrow_move_constructible_v<dpcg>);
    const box_of_cells a(nx);
    const vector zero(a.center.size());
    vector solution(zero), x(zero), y(zero);
    a.each([&](std::int64_t i, std::int64_t j, std::int64_t k, std::size_t c) {
        solution[c] = std::sin(0.4 * static_cast<double>(i + 1)) + std::cos(0.3 * static_cast<double>(j * k));
    });
    const vector b = a.times(solution);
    const auto check_solution = [&] { CHECK(a.distance(a.times(x), b) <= 1.001 * rel_tol * a.distance(b, zero)); };

    dpcg first(nx, ny, nz);
    CHECK(first.nx() == nx && first.ny() == ny && first.nz() == nz);
    first.set("rel_tol=1e-8");
    first.set(RRB_OPT_PRECONDITIONER, RRB_PRECONDITIONER_NEUMANN);
    dpcg solver = std::move(first);
    CHECK(code_of([&] { first.set_regions(); }, "NULL") == RRB_ERR_NULL);
    solver.factorize(a.center, a.coupling, a.coupling, a.coupling);
    std::int64_t calls = 0;
    solver.set_monitor([&](std::int64_t, double) { return ++calls, false; });
    CHECK(solver.solve(b, x) == RRB_OK && calls == solver.get_int(RRB_INFO_ITERATIONS) + 1);
    solver.set_monitor(nullptr);
    check_solution();
    solver.multiply(solution, y);
    CHECK(a.distance(y, b) <= 1e-13 * a.distance(b, zero));
    solver.apply(b, y);
    CHECK(a.distance(y, zero) > 0);

    // Regions of the caller: two halves.
    std::vector<std::int32_t> labels(zero.size());
    a.each([&](std::int64_t i, std::int64_t, std::int64_t, std::size_t c) { labels[c] = i < nx / 2 ? 3 : 8; });
    solver.set("deflation=levelset dilation=0");
    solver.set_regions(labels);
    CHECK(code_of([&] { (void)solver.solve(b, x); }, "dpcg_factorize must come") == RRB_ERR_STATE);
    solver.factorize(a.center, a.coupling, a.coupling, a.coupling);
    CHECK(solver.get_int(RRB_INFO_DEFLATION_VECTORS) == 2 && solver.get_int(RRB_INFO_REGIONS) == 2);
    x = zero;
    CHECK(solver.solve(b, x) == RRB_OK);
    check_solution();
    solver.set_regions();

    // Padded rows and planes; the size of every array is checked.
    const auto fill = std::numeric_limits<double>::quiet_NaN();
    const box_of_cells wide(nx + 3);
    vector center(wide.center.size(), fill), coupling(center), b2(center), x2(center);
    wide.each([&](std::int64_t i, std::int64_t j, std::int64_t k, std::size_t c) {
        const auto narrow = static_cast<std::size_t>((k * ny + j) * nx + i);
        center[c] = 6, coupling[c] = -1, b2[c] = b[narrow], x2[c] = 0;
    });
    solver.set("deflation=auto preconditioner=auto");
    solver.set(RRB_OPT_LEADING_DIMENSION, nx + 3);
    CHECK(code_of([&] { solver.factorize(center, coupling, coupling, a.coupling); }, "top must hold 8 planes of 91 values, got 560") ==
          RRB_ERR_DIMENSION);
    CHECK(code_of([&] { solver.set_regions(labels); }, "labels must hold 8 planes") == RRB_ERR_DIMENSION);
    solver.factorize(center, coupling, coupling, coupling);
    CHECK(solver.solve(b2, x2) == RRB_OK);
    wide.each([&](std::int64_t i, std::int64_t j, std::int64_t k, std::size_t c) {
        x[static_cast<std::size_t>((k * ny + j) * nx + i)] = x2[c];
    });
    check_solution();

    CHECK(code_of([] { dpcg(3, 0, 3); }, "ny must be at least 1") == RRB_ERR_DIMENSION);
    CHECK(code_of([&] { solver.set("preconditioner=ssor"); }, "amg, got 'ssor'") == RRB_ERR_OPTION);
    x = zero;
    const rrbsolver::once done =
        rrbsolver::solve_once(nx, ny, nz, a.center, a.coupling, a.coupling, a.coupling, b, x, rel_tol, 300);
    CHECK(done.status == RRB_OK && done.iterations > 0);
    check_solution();
    const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    CHECK(code_of([&] { (void)rrbsolver::solve_once(huge, huge, huge, b, b, b, b, b, x, rel_tol, 3); }, "center must hold") ==
          RRB_ERR_DIMENSION);
    std::puts("C++, 3D: all as documented");
    return 0;
}
