// Solves the test problem of the RRB papers: -Laplace(u) = f on the unit square, u = 0 on the boundary. The exact
// solution is u = x(x-1) y(y-1) exp(xy). The matrix entries are 4 and -1, the right-hand side is h^2 f. Prints the
// number of iterations and the largest error for 1/h = 64, 128, ...
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <rrbsolver.hpp>
#include <vector>

static double u(double x, double y) { return x * (x - 1) * y * (y - 1) * std::exp(x * y); }

static double f(double x, double y) {
    const double a = x * (x - 1), b = y * (y - 1);
    const double u_xx = b * (2 + 2 * (2 * x - 1) * y + a * y * y), u_yy = a * (2 + 2 * (2 * y - 1) * x + b * x * x);
    return -(u_xx + u_yy) * std::exp(x * y);
}

int main() try {
    std::printf(" 1/h  iterations  largest error\n");
    for (int n = 64; n <= 1024; n *= 2) {
        const int m = n - 1; // m x m unknowns; b[j * m + i] is at ((i+1) h, (j+1) h)
        const double h = 1.0 / n;
        const auto count = static_cast<std::size_t>(m) * static_cast<std::size_t>(m);
        const std::vector<double> center(count, 4.0), off(count, -1.0); // entries that leave the grid are ignored
        std::vector<double> b(count), exact(count), x(count, 0.0);
        for (std::size_t k = 0; k < count; k++) {
            const double px = h * static_cast<double>(k % static_cast<std::size_t>(m) + 1);
            const double py = h * static_cast<double>(k / static_cast<std::size_t>(m) + 1);
            b[k] = h * h * f(px, py);
            exact[k] = u(px, py);
        }

        rrbsolver::rrb solver(m, m);
        solver.set("norm=preconditioned rel_tol=1e-6"); // the papers' test
        solver.factorize(center, off, off);
        if (solver.solve(b, x) != RRB_OK) return 1; // x: initial guess in, solution out

        double error = 0;
        for (std::size_t k = 0; k < count; k++) error = std::max(error, std::abs(x[k] - exact[k]));
        std::printf("%4d  %10d  %13.2e\n", n, static_cast<int>(solver.get_int(RRB_INFO_ITERATIONS)), error);
    }
    return 0;
} catch (const rrbsolver::error &problem) { // what() is the error message of the library
    std::fprintf(stderr, "poisson: %s\n", problem.what());
    return 1;
}
