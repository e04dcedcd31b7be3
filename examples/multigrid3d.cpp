// A geometric multigrid solver. Solves -Laplace(u) = f on the unit cube, u = 0 on the boundary, with 64^3 cells, to a
// relative residual of 1e-10. Uses cell-centred V(1,1)-cycles on 64^3, 32^3, .., 2^3 cells. The smoother is red-black
// block relaxation of rrbsolver with exactly solved blocks of 4 x 4 x 4 cells and omega = 0.85. The post-sweep shifts
// the blocks by half a block and reverses the colours. Prints the residual and the convergence factor of every cycle.
#include <rrbsolver.hpp>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

// One level: n^3 cells in one patch, u with a layer of ghost cells, matrix entries 6 and -1, right-hand side h^2 f.
struct level {
    explicit level(std::int64_t cells) : n(cells), u(cube(n + 2)), f(cube(n)), r(cube(n)), smoother(stencil(), 4, 4, 4) {
        const std::vector<rrbsolver::box> all = {{{0, 0, 0}, {n, n, n}}};
        smoother.set("omega=0.85 check_input=0");
        smoother.set_patches(all);
        // u = 0 on the boundary faces: a ghost cell holds minus the value of the adjacent boundary cell.
        smoother.set_ghost_fill([this](std::int32_t, double *const *patches) {
            mirror(patches[0]);
            return false;
        });
    }
    static std::vector<double> stencil() { return {6, -1, -1, -1, -1, -1, -1}; }
    static std::size_t cube(std::int64_t side) { return static_cast<std::size_t>(side * side * side); }
    std::size_t at(std::int64_t i, std::int64_t j, std::int64_t k) const { // in u, from -1
        return static_cast<std::size_t>(((k + 1) * (n + 2) + j + 1) * (n + 2) + i + 1);
    }
    std::size_t in(std::int64_t i, std::int64_t j, std::int64_t k) const { // in f and r
        return static_cast<std::size_t>((k * n + j) * n + i);
    }
    void mirror(double *v) const {
        for (std::int64_t b = 0; b < n; ++b) {
            for (std::int64_t a = 0; a < n; ++a) {
                v[at(-1, a, b)] = -v[at(0, a, b)], v[at(n, a, b)] = -v[at(n - 1, a, b)];
                v[at(a, -1, b)] = -v[at(a, 0, b)], v[at(a, n, b)] = -v[at(a, n - 1, b)];
                v[at(a, b, -1)] = -v[at(a, b, 0)], v[at(a, b, n)] = -v[at(a, b, n - 1)];
            }
        }
    }
    void relax(std::int32_t sweeps) {
        const std::vector<double *> us = {u.data()}, fs = {f.data()};
        (void)smoother.apply(us, fs, sweeps);
    }
    double residual() {
        const std::vector<double *> us = {u.data()}, fs = {f.data()}, rs = {r.data()};
        return smoother.residual(us, fs, rs);
    }

    std::int64_t n;
    std::vector<double> u, f, r;
    rrbsolver::smoother smoother;
};

// Right-hand side of the coarse level: the average of eight residuals times 4, since h^2 is four times as large.
void restrict_residual(const level &fine, level &coarse) {
    for (std::int64_t k = 0; k < coarse.n; ++k)
        for (std::int64_t j = 0; j < coarse.n; ++j)
            for (std::int64_t i = 0; i < coarse.n; ++i) {
                double sum = 0;
                for (int q = 0; q < 8; ++q) sum += fine.r[fine.in(2 * i + (q & 1), 2 * j + (q >> 1 & 1), 2 * k + (q >> 2))];
                coarse.f[coarse.in(i, j, k)] = 0.5 * sum;
            }
}

// Adds the coarse correction by trilinear interpolation, with weights 3/4 and 1/4 in each direction. The interpolation
// also reads ghost cells beyond edges and corners; they are filled here by mirroring in each direction.
void prolongate(level &coarse, level &fine) {
    double *c = coarse.u.data();
    const std::int64_t n = coarse.n;
    for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t j = -1; j <= n; ++j) // x faces, edges included once y and z are done below
            c[coarse.at(-1, j, k)] = -c[coarse.at(0, j, k)], c[coarse.at(n, j, k)] = -c[coarse.at(n - 1, j, k)];
    for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t i = -1; i <= n; ++i)
            c[coarse.at(i, -1, k)] = -c[coarse.at(i, 0, k)], c[coarse.at(i, n, k)] = -c[coarse.at(i, n - 1, k)];
    for (std::int64_t j = -1; j <= n; ++j)
        for (std::int64_t i = -1; i <= n; ++i)
            c[coarse.at(i, j, -1)] = -c[coarse.at(i, j, 0)], c[coarse.at(i, j, n)] = -c[coarse.at(i, j, n - 1)];
    for (std::int64_t k = 0; k < fine.n; ++k)
        for (std::int64_t j = 0; j < fine.n; ++j)
            for (std::int64_t i = 0; i < fine.n; ++i) {
                double sum = 0;
                for (int q = 0; q < 8; ++q) {
                    const std::int64_t x = i / 2 + (q & 1 ? (i % 2 ? 1 : -1) : 0), y = j / 2 + (q >> 1 & 1 ? (j % 2 ? 1 : -1) : 0),
                                       z = k / 2 + (q >> 2 ? (k % 2 ? 1 : -1) : 0);
                    const double weight = (q & 1 ? 0.25 : 0.75) * (q >> 1 & 1 ? 0.25 : 0.75) * (q >> 2 ? 0.25 : 0.75);
                    sum += weight * c[coarse.at(x, y, z)];
                }
                fine.u[fine.at(i, j, k)] += sum;
            }
}

void v_cycle(std::vector<std::unique_ptr<level>> &levels, std::size_t l) {
    level &fine = *levels[l];
    if (l + 1 == levels.size()) { // 2^3 cells form one block: a few sweeps converge
        fine.relax(30);
        return;
    }
    level &coarse = *levels[l + 1];
    fine.smoother.set("stagger=0 reverse=0");
    fine.relax(1);
    fine.residual();
    restrict_residual(fine, coarse);
    coarse.u.assign(coarse.u.size(), 0.0);
    v_cycle(levels, l + 1);
    prolongate(coarse, fine);
    fine.smoother.set("stagger=2 reverse=1"); // its one sweep is shifted by half a block
    fine.relax(1);
}

int main() {
    std::vector<std::unique_ptr<level>> levels;
    for (std::int64_t n = 64; n >= 2; n /= 2) levels.push_back(std::make_unique<level>(n));
    level &finest = *levels.front();
    const double h = 1.0 / static_cast<double>(finest.n), pi = std::acos(-1.0);
    const auto exact = [&](std::int64_t i) { return std::sin(pi * (static_cast<double>(i) + 0.5) * h); };
    for (std::int64_t k = 0; k < finest.n; ++k)
        for (std::int64_t j = 0; j < finest.n; ++j)
            for (std::int64_t i = 0; i < finest.n; ++i)
                finest.f[finest.in(i, j, k)] = 3 * pi * pi * h * h * exact(i) * exact(j) * exact(k);

    const double start = finest.residual();
    double before = start;
    std::printf("cycle  residual   factor\n");
    for (int cycle = 1; before > 1e-10 * start && cycle <= 40; ++cycle) {
        v_cycle(levels, 0);
        const double now = finest.residual();
        std::printf("%5d  %.2e  %.3f\n", cycle, now / start, now / before);
        before = now;
    }
    double error = 0;
    for (std::int64_t k = 0; k < finest.n; ++k)
        for (std::int64_t j = 0; j < finest.n; ++j)
            for (std::int64_t i = 0; i < finest.n; ++i)
                error = std::fmax(error, std::fabs(finest.u[finest.at(i, j, k)] - exact(i) * exact(j) * exact(k)));
    std::printf("largest error %.3e, second order: pi^2 h^2 / 12 = %.3e\n", error, pi * pi * h * h / 12);
    return before <= 1e-10 * start ? 0 : 1;
}
