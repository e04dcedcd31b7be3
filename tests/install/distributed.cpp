// One domain on MPI ranks, in C++17. The exit status is 0 if the library behaves as documented.
#include <rrbsolver.hpp>

// The program uses only the C interface of MPI. The C++ classes of older versions cause warnings and need an additional
// library.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <rrbsolver_mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace {

constexpr std::int64_t nx = 43, ny = 36;
// With these options, the library makes no automatic selection.
constexpr const char *options = "fusion=off precision=f64 cycle=v rel_tol=1e-9 comm_timeout=20";

using box = rrbsolver::rrb::box;
using vector = std::vector<double>;

struct linear_system {
    vector center = vector(nx * ny), east = center, north = center, b = center;

    linear_system() {
        for (std::int64_t j = 0; j < ny; j++) {
            for (std::int64_t i = 0; i < nx; i++) {
                const auto k = static_cast<std::size_t>(j * nx + i);
                east[k] = i + 1 < nx ? -1.0 - static_cast<double>((7 * i + 3 * j) % 5) : 0.0;
                north[k] = j + 1 < ny ? -1.0 - static_cast<double>((5 * i + 2 * j) % 7) : 0.0;
                b[k] = static_cast<double>((11 * i + 13 * j) % 17 - 8);
                center[k] = 0.05 - east[k] - north[k] - (i > 0 ? east[k - 1] : 0) - (j > 0 ? north[k - nx] : 0);
            }
        }
    }
};

/// Returns the part of an array inside the boxes; empty without a box.
vector part(const vector &array, const std::vector<box> &boxes) {
    vector cut;
    for (const box &own : boxes) {
        for (std::int64_t j = 0; j < own.size[1]; j++) {
            const auto row = array.begin() + (own.lower[1] + j) * nx + own.lower[0];
            cut.insert(cut.end(), row, row + own.size[0]);
        }
    }
    return cut;
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

vector solve_alone(const linear_system &a) {
    rrbsolver::rrb solver(nx, ny);
    solver.set(options);
    solver.factorize(a.center, a.east, a.north);
    vector x(nx * ny);
    CHECK(solver.solve(a.b, x) == RRB_OK);
    return x;
}

/// Returns columns of the grid, one box per rank; with three or more ranks, the last rank has none.
std::vector<box> columns(int rank, int ranks) {
    const int with = ranks > 2 ? ranks - 1 : ranks;
    if (rank >= with) {
        return {};
    }
    const std::int64_t left = nx * rank / with;
    return {{{left, 0}, {nx * (rank + 1) / with - left, ny}}};
}

void check_bits(MPI_Comm group, const linear_system &a, const vector &expected) {
    rrbsolver_comm comm;
    CHECK(rrbsolver_mpi_comm(group, &comm) == MPI_SUCCESS);
    const std::vector<box> own = columns(comm.rank, comm.size);
    {
        auto solver = rrbsolver::rrb::distributed(nx, ny, own, comm);
        CHECK(solver.nx() == (own.empty() ? 0 : own[0].size[0]) && solver.ny() == (own.empty() ? 0 : ny));
        solver.set(options);
        solver.factorize(part(a.center, own), part(a.east, own), part(a.north, own));
        vector b = part(a.b, own), x(b.size());
        CHECK(solver.solve(b, x) == RRB_OK);
        CHECK(x.empty() || std::memcmp(x.data(), part(expected, own).data(), x.size() * sizeof(double)) == 0);
        vector y(b.size());
        solver.multiply(x, y);
        solver.apply(b, y);

        // Errors on rank 0 only: an array that is too short, and a NaN.
        const bool first = comm.rank == 0;
        const auto solve = [&](vector &to) { return code_of([&] { (void)solver.solve(b, to); }, first ? "x" : ""); };
        vector short_one(first ? x.size() - 1 : x.size());
        CHECK(solve(short_one) == (first ? RRB_ERR_DIMENSION : RRB_ERR_NULL));
        if (first) {
            b[0] = std::numeric_limits<double>::quiet_NaN();
        }
        CHECK(code_of([&] { (void)solver.solve(b, x); }, "b holds NaN") == RRB_ERR_NOT_FINITE);
        b = part(a.b, own);
        CHECK(solver.solve(b, x) == RRB_OK);
    }
    rrbsolver_mpi_free(&comm);
}

/// The last rank does not take part: the other ranks time out.
void check_missing(const linear_system &a) {
    rrbsolver_comm comm;
    CHECK(rrbsolver_mpi_comm(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    const std::vector<box> own = columns(comm.rank, comm.size);
    {
        auto solver = rrbsolver::rrb::distributed(nx, ny, own, comm);
        solver.factorize(part(a.center, own), part(a.east, own), part(a.north, own));
        solver.set("comm_timeout=0.3");
        if (comm.rank + 1 < comm.size) {
            const vector b = part(a.b, own);
            vector x(b.size());
            CHECK(code_of([&] { (void)solver.solve(b, x); }, "comm_timeout") == RRB_ERR_COMMUNICATION);
        }
    }
    rrbsolver_mpi_free(&comm);
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const linear_system a;
    const vector expected = solve_alone(a);
    for (int n = 1; n <= ranks; n++) {
        MPI_Comm group;
        MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &group);
        if (group != MPI_COMM_NULL) {
            check_bits(group, a, expected);
            MPI_Comm_free(&group);
        }
    }
    check_missing(a);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("one domain over up to %d ranks in C++: all as documented\n", ranks);
    }
    MPI_Finalize();
    return 0;
}
