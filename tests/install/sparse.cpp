// Sparse matrices with the class sparse, as a user of the installed package uses them. The exit status is 0 if the
// library behaves as documented.
#include <rrbsolver.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

template <class Call>
rrb_status code_of(Call call, const std::string &part) {
    try {
        call();
    } catch (const rrbsolver::error &e) {
        if (std::string(e.what()).find(part) == std::string::npos) {
            std::fprintf(stderr, "no '%s' in: %s\n", part.c_str(), e.what());
            std::exit(1);
        }
        return e.code();
    }
    return RRB_OK;
}

} // namespace

int main() {
    using rrbsolver::sparse;
    static_assert(std::is_nothrow_move_constructible_v<sparse> && !std::is_copy_constructible_v<sparse>);
    const std::vector<std::int32_t> row{0, 2, 0, 1}, col{0, 1, 2, 1};
    const std::vector<std::int64_t> ptr{0, 2, 3, 4}, wide{0, 2, 1, 1};
    const std::vector<double> x{1, 10, 100};
    std::vector<double> y(3), short_one(2);

    sparse a = sparse::coo(3, 3, row, col, std::vector<double>{1, 2, 3, 4});
    a.multiply(x, y);
    CHECK((y == std::vector<double>{301, 40, 20}));
    a.set_values(std::vector<double>{1, 1, 1, 1});
    a.multiply_transposed(x, y);
    CHECK((y == std::vector<double>{1, 110, 1}));
    sparse b = sparse::csr(3, 3, ptr, wide, std::vector<double>{1, 3, 4, 2});
    b.multiply(x, y);
    CHECK((y == std::vector<double>{301, 40, 20}));
    b.set("solver=gmres rel_tol=1e-12");
    b.factorize();
    CHECK(b.get_int(RRB_INFO_TRIANGLE) == RRB_TRIANGLE_BOTH);
    std::vector<double> solution(3);
    CHECK(b.solve(y, solution) == RRB_OK);
    std::vector<double> again(3);
    b.multiply(solution, again);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(std::abs(again[i] - y[i]) <= 1e-12 * 305);
    }
    b.apply(y, solution);
    CHECK(code_of([&] { static_cast<void>(b.solve(short_one, solution)); }, "b must hold 3 values, got 2") ==
          RRB_ERR_DIMENSION);
    b.set("solver=cg");
    CHECK(code_of([&] { b.factorize(); }, "needs a symmetric matrix") == RRB_ERR_MATRIX);
    const auto skyline = b.arrays(RRB_FORMAT_SKYLINE);
    sparse c = sparse::from(RRB_FORMAT_SKYLINE, b.rows(), b.cols(), skyline);
    CHECK(c.arrays(RRB_FORMAT_CSR).values == b.arrays(RRB_FORMAT_CSR).values);
    c.write("sparse_cxx.mtx", RRB_FILE_MTX);
    const sparse d = sparse::read("sparse_cxx.mtx");
    CHECK(std::remove("sparse_cxx.mtx") == 0);
    CHECK(d.get_int(RRB_INFO_NONZEROS) == 4 && d.rows() == 3);
    sparse e = std::move(c);
    e.set("format=ell");
    e.multiply(x, y);
    CHECK(e.get_int(RRB_INFO_FORMAT) == RRB_FORMAT_ELL && y[0] == 301);

    CHECK(code_of([&] { e.multiply(short_one, y); }, "x must hold 3 values, got 2") == RRB_ERR_DIMENSION);
    CHECK(code_of([&] { e.set_values(short_one); }, "values must hold 4 values, got 2") == RRB_ERR_DIMENSION);
    CHECK(code_of([&] { sparse::coo(3, 3, row, col, short_one); }, "row must hold 2 values, got 4") ==
          RRB_ERR_DIMENSION);
    CHECK(code_of([&] { sparse::coo(2, 3, row, col, std::vector<double>(4)); }, "entry 1 of row") == RRB_ERR_ARGUMENT);
    CHECK(code_of([&] { sparse::read("none.mtx"); }, "none.mtx") == RRB_ERR_IO);
    CHECK(code_of([&] { d.vector(RRB_VECTOR_RHS); }, "the matrix has no rhs") == RRB_ERR_ARGUMENT);
    std::puts("sparse matrices in C++: all as documented");
    return 0;
}
