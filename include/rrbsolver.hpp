// rrbsolver.hpp: rrbsolver for C++17, header only, over rrbsolver.h alone.
//
//     rrbsolver::rrb solver(nx, ny);
//     solver.set("levels=12 rel_tol=1e-8");
//     solver.factorize(center, east, north);              // vectors, arrays, or {pointer, size}
//     if (solver.solve(b, x) == RRB_NOT_CONVERGED) ...    // x: initial guess in, solution out
//
// Statuses: a negative one becomes an exception, rrbsolver::error; a positive one (RRB_NOT_CONVERGED, RRB_STOPPED) is
// returned, and the outputs are usable. Threads and array order: see rrbsolver.h.
#ifndef RRBSOLVER_HPP
#define RRBSOLVER_HPP

#include "rrbsolver.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rrbsolver {

/// A failed call: `code()` is the negative rrb_status, `what()` the sentence.
class error : public std::runtime_error {
public:
    error(rrb_status code, const std::string &sentence) : std::runtime_error(sentence), code_(code) {}
    rrb_status code() const noexcept { return code_; }

private:
    rrb_status code_;
};

/// Pointer and size of an array that somebody else owns.
template <class T>
class view {
public:
    view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    /// Anything with data() and size(): std::vector, std::array, std::span, ...
    template <class Container,
              class = std::enable_if_t<std::is_convertible_v<
                  std::remove_pointer_t<decltype(std::declval<Container &>().data())> (*)[], T (*)[]>>>
    view(Container &&container) noexcept(noexcept(container.data()))
        : data_(container.data()), size_(static_cast<std::size_t>(container.size())) {}

    template <std::size_t N>
    view(T (&array)[N]) noexcept : data_(array), size_(N) {}

    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    T *data_;
    std::size_t size_;
};

using input = view<const double>;
using output = view<double>;

/// Called by solve before the first iteration (iteration 0) and after each one, with the residual of the stopping test,
/// relative to its reference; true stops the solve with RRB_STOPPED. An exception stops it too and leaves solve.
using monitor = std::function<bool(std::int64_t iteration, double relative_residual)>;

namespace detail {

inline std::string last_error() {
    std::string text(static_cast<std::size_t>(rrbsolver_last_error(nullptr, 0)), '\0'); // with the NUL
    rrbsolver_last_error(&text[0], static_cast<std::int64_t>(text.size()));
    text.pop_back();
    return text;
}

inline rrb_status check(rrb_status status) {
    if (status < 0) {
        throw error(status, last_error());
    }
    return status;
}

template <class T>
void check_size(const char *name, view<T> array, std::int64_t nx, std::int64_t ny, std::int64_t ld) {
    const auto columns = static_cast<std::size_t>(nx), rows = static_cast<std::size_t>(ny), row = static_cast<std::size_t>(ld);
    // size >= (ny - 1) * ld + nx, without overflow: the last row needs no padding.
    if (array.size() < columns || (array.size() - columns) / row < rows - 1) {
        throw error(RRB_ERR_DIMENSION, std::string(name) + " must hold " + std::to_string(ny) + " rows of " +
                                           std::to_string(ld) + " values, got " + std::to_string(array.size()) + " values");
    }
}

} // namespace detail

/// The library's version, as in "0.1.0".
inline std::string version() { return rrbsolver_version(); }

/// What a status means, in a few words.
inline std::string status_string(rrb_status status) { return rrbsolver_status_string(status); }

/// Number of usable CUDA devices; 0 without a driver.
inline int cuda_device_count() {
    std::int32_t count = 0;
    detail::check(rrbsolver_cuda_device_count(&count));
    return count;
}

/// Solver for A x = b on a grid of nx * ny points, A symmetric with a 5-point or 9-point stencil. Arrays are a[j*ld + i],
/// i = 0..nx-1 fastest, ld = nx or the option leading_dimension. Move only; a moved-from solver may be assigned to and
/// destroyed, every other use throws RRB_ERR_NULL.
class rrb {
public:
    rrb(std::int64_t nx, std::int64_t ny) : nx_(nx), ny_(ny) {
        rrb_handle *raw = nullptr;
        detail::check(rrb_create(nx, ny, &raw));
        handle_.reset(raw);
    }

    std::int64_t nx() const noexcept { return nx_; }
    std::int64_t ny() const noexcept { return ny_; }
    /// For functions of rrbsolver.h; stays owned by this object.
    rrb_handle *handle() const noexcept { return handle_.get(); }

    /// An integer option, a switch or a choice: set(RRB_OPT_MAX_ITER, 200), set(RRB_OPT_NORM, RRB_NORM_PRECONDITIONED).
    template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
    void set(std::int32_t key, Integer value) {
        if constexpr (std::is_unsigned_v<Integer> && sizeof(Integer) >= sizeof(std::int64_t)) {
            if (value > static_cast<Integer>(std::numeric_limits<std::int64_t>::max())) {
                throw error(RRB_ERR_ARGUMENT, "the value of option " + std::to_string(key) +
                                                  " must be at most 9223372036854775807, got " + std::to_string(value));
            }
        }
        detail::check(rrb_set_int(handle(), key, static_cast<std::int64_t>(value)));
    }
    /// A real option: set(RRB_OPT_REL_TOL, 1e-8).
    void set(std::int32_t key, double value) { detail::check(rrb_set_real(handle(), key, value)); }
    /// Options by their text names: set("levels=12 rel_tol=1e-8").
    void set(const char *text) { detail::check(rrb_set_options(handle(), text)); }
    void set(const std::string &text) { set(text.c_str()); }

    std::int64_t get_int(std::int32_t key) const {
        std::int64_t value = 0;
        detail::check(rrb_get_int(handle(), key, &value));
        return value;
    }
    double get_real(std::int32_t key) const {
        double value = 0;
        detail::check(rrb_get_real(handle(), key, &value));
        return value;
    }

    /// Takes new coefficients of a 5-point stencil; the values are copied. Called again, it reuses all memory.
    void factorize(input center, input east, input north) {
        check_sizes({{"center", center}, {"east", east}, {"north", north}});
        detail::check(rrb_factorize(handle(), center.data(), east.data(), north.data(), nullptr, nullptr));
    }
    /// The same for a 9-point stencil.
    void factorize(input center, input east, input north, input northeast, input northwest) {
        check_sizes({{"center", center}, {"east", east}, {"north", north}, {"northeast", northeast}, {"northwest", northwest}});
        detail::check(
            rrb_factorize(handle(), center.data(), east.data(), north.data(), northeast.data(), northwest.data()));
    }

    /// A x = b; x: initial guess in, solution out. With the default norm iterates until
    /// ||b - A x||_2 <= max(rel_tol * ||b||_2, abs_tol). Returns RRB_OK, RRB_NOT_CONVERGED or RRB_STOPPED.
    [[nodiscard]] rrb_status solve(input b, output x) {
        check_sizes({{"b", b}, {"x", x}});
        const rrb_status status = rrb_solve(handle(), b.data(), x.data());
        if (watch_ && watch_->thrown) {
            std::rethrow_exception(std::exchange(watch_->thrown, nullptr));
        }
        return detail::check(status);
    }

    /// z = M^-1 r with the RRB preconditioner M, for a Krylov loop of your own.
    void apply(input r, output z) {
        check_sizes({{"r", r}, {"z", z}});
        detail::check(rrb_apply(handle(), r.data(), z.data()));
    }

    /// y = A x with the factorized matrix.
    void multiply(input x, output y) {
        check_sizes({{"x", x}, {"y", y}});
        detail::check(rrb_multiply(handle(), x.data(), y.data()));
    }

    /// The relative residual of iteration 0, 1, ... of the last solve.
    std::vector<double> history() const {
        std::int64_t count = 0;
        detail::check(rrb_get_history(handle(), nullptr, 0, &count));
        std::vector<double> residuals(static_cast<std::size_t>(count));
        detail::check(rrb_get_history(handle(), residuals.data(), count, &count));
        return residuals;
    }

    /// The monitor of every solve from now on; an empty one (nullptr) ends that.
    void set_monitor(monitor callback) {
        if (!callback) {
            detail::check(rrb_set_monitor(handle(), nullptr, nullptr));
            watch_.reset();
            return;
        }
        auto watch = std::make_unique<watch_state>();
        watch->callback = std::move(callback);
        detail::check(rrb_set_monitor(handle(), &rrb::call_monitor, watch.get()));
        watch_ = std::move(watch);
    }

    /// Work goes to the caller's CUDA stream; nullptr: to the solver's own.
    void set_stream(void *cuda_stream) { detail::check(rrb_set_stream(handle(), cuda_stream)); }

private:
    struct destroyer {
        void operator()(rrb_handle *h) const noexcept { rrb_destroy(&h); }
    };
    /// On the heap: its address is with the library, and this object may move.
    struct watch_state {
        monitor callback;
        std::exception_ptr thrown;
    };
    struct named {
        const char *name;
        input array;
    };

    static std::int32_t call_monitor(void *user, std::int64_t iteration, double relative_residual) noexcept {
        auto *watch = static_cast<watch_state *>(user);
        try {
            return watch->callback(iteration, relative_residual) ? 1 : 0;
        } catch (...) {
            watch->thrown = std::current_exception();
            return 1;
        }
    }

    void check_sizes(std::initializer_list<named> arrays) const {
        const std::int64_t option = get_int(RRB_OPT_LEADING_DIMENSION);
        for (const named &a : arrays) {
            detail::check_size(a.name, a.array, nx_, ny_, option > nx_ ? option : nx_);
        }
    }

    // Destroyed in reverse order: the handle first.
    std::unique_ptr<watch_state> watch_;
    std::unique_ptr<rrb_handle, destroyer> handle_;
    std::int64_t nx_;
    std::int64_t ny_;
};

/// What solve_once did.
struct once {
    rrb_status status;
    std::int64_t iterations;
};

/// The whole of it in one call, in place of an ICCG function: factorizes, solves, forgets. Without the corner arrays the
/// stencil has 5 points. Stops when ||b - A x||_2 <= rel_tol * ||b||_2. Prefer class rrb when the coefficients stay.
[[nodiscard]] inline once solve_once(std::int64_t nx, std::int64_t ny, input center, input east, input north, input b,
                                     output x, double rel_tol, std::int64_t max_iter, input northeast = {nullptr, 0},
                                     input northwest = {nullptr, 0}) {
    if (nx >= 1 && ny >= 1) {
        detail::check_size("center", center, nx, ny, nx);
        detail::check_size("east", east, nx, ny, nx);
        detail::check_size("north", north, nx, ny, nx);
        detail::check_size("b", b, nx, ny, nx);
        detail::check_size("x", x, nx, ny, nx);
        for (const input &corner : {northeast, northwest}) {
            if (corner.data() != nullptr) {
                detail::check_size("a corner array", corner, nx, ny, nx);
            }
        }
    }
    once result{RRB_OK, 0};
    result.status = detail::check(rrb_solve_once(nx, ny, center.data(), east.data(), north.data(), northeast.data(),
                                                 northwest.data(), b.data(), x.data(), rel_tol, max_iter,
                                                 &result.iterations));
    return result;
}

} // namespace rrbsolver

#endif // RRBSOLVER_HPP
