// rrbsolver.hpp: rrbsolver for C++17, header only, over rrbsolver.h alone.
//
//     rrbsolver::rrb solver(nx, ny);
//     solver.set("rel_tol=1e-8 max_iter=200");
//     solver.factorize(center, east, north);              // vectors, arrays, or {pointer, size}
//     if (solver.solve(b, x) == RRB_NOT_CONVERGED) ...    // x: initial guess in, solution out
//
// Classes: rrb (2D grids; rrb::distributed for many ranks), dpcg (3D grids), smoother (block relaxation on 3D patches)
// and sparse (general sparse matrices).
//
// Statuses: a negative status is thrown as rrbsolver::error. A positive one (RRB_NOT_CONVERGED, RRB_STOPPED) is
// returned; the outputs are then usable. Threads and array order: see rrbsolver.h.
#ifndef RRBSOLVER_HPP
#define RRBSOLVER_HPP

#include "rrbsolver.h"

#include <algorithm>
#include <array>
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

/// Thrown by a call that failed. `code()` is the negative rrb_status, `what()` the error message.
class error : public std::runtime_error {
public:
    error(rrb_status code, const std::string &message) : std::runtime_error(message), code_(code) {}
    rrb_status code() const noexcept { return code_; }

private:
    rrb_status code_;
};

/// Pointer and size of an array that the caller owns.
template <class T>
class view {
public:
    view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    /// From anything with data() and size(): std::vector, std::array, std::span, ...
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

/// Called before the first iteration (iteration 0) and after each one, with the residual of the stopping test relative
/// to its reference. The result true stops the solve with RRB_STOPPED. An exception stops it too, and is rethrown by
/// solve.
using monitor = std::function<bool(std::int64_t iteration, double relative_residual)>;

namespace detail {

inline std::string last_message() {
    std::string text(static_cast<std::size_t>(rrbsolver_last_error(nullptr, 0)), '\0'); // with the NUL
    rrbsolver_last_error(&text[0], static_cast<std::int64_t>(text.size()));
    text.pop_back();
    return text;
}

inline rrb_status check(rrb_status status) {
    if (status < 0) {
        throw error(status, last_message());
    }
    return status;
}

/// Converts the value of an integer option; a value that does not fit is an error.
template <class Integer>
std::int64_t whole(std::int32_t key, Integer value) {
    if constexpr (std::is_unsigned_v<Integer> && sizeof(Integer) >= sizeof(std::int64_t)) {
        if (value > static_cast<Integer>(std::numeric_limits<std::int64_t>::max())) {
            throw error(RRB_ERR_ARGUMENT, "the value of option " + std::to_string(key) +
                                              " must be at most 9223372036854775807, got " + std::to_string(value));
        }
    }
    return static_cast<std::int64_t>(value);
}

struct named {
    const char *name;
    input array;
};

/// Layout of an array: rows of nx values are `row` values apart, planes of ny rows are `plane` values apart; plane = 0
/// means ny * row.
struct layout {
    std::int64_t nx, ny, nz, row, plane;

    static constexpr std::size_t whole(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }
    std::size_t step() const noexcept { return plane != 0 ? whole(plane) : whole(ny) * whole(row); }

    /// Whether `size` values suffice: (nz - 1) * plane + (ny - 1) * row + nx, computed without overflow. The last plane
    /// needs only its rows, and its last row no padding.
    bool fits(std::size_t size) const noexcept {
        if (size < whole(nx) || (size - whole(nx)) / whole(row) < whole(ny - 1)) {
            return false;
        }
        return (size - whole(nx) - whole(ny - 1) * whole(row)) / step() >= whole(nz - 1);
    }

    std::string text() const {
        return nz > 1 ? std::to_string(nz) + " planes of " + std::to_string(step()) + " values"
                      : std::to_string(ny) + " rows of " + std::to_string(row) + " values";
    }
};

inline void check_sizes(std::initializer_list<named> arrays, const layout &expected) {
    for (const named &a : arrays) {
        if (!expected.fits(a.array.size())) {
            throw error(RRB_ERR_DIMENSION, std::string(a.name) + " must hold " + expected.text() + ", got " +
                                               std::to_string(a.array.size()) + " values");
        }
    }
}

/// The object behind the user pointer of the C callbacks.
struct callbacks {
    monitor watch;
    std::exception_ptr thrown;
};

/// Common base of all classes. `Functions` has the C functions of one family, its handle and its callbacks.
template <class Functions>
class family {
public:
    /// The handle, for functions of rrbsolver.h; owned by this object.
    typename Functions::handle *handle() const noexcept { return handle_.get(); }

    /// Sets an integer option, a switch or a choice: set(RRB_OPT_MAX_ITER, 200), set(RRB_OPT_NORM,
    /// RRB_NORM_PRECONDITIONED).
    template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
    void set(std::int32_t key, Integer value) {
        check(Functions::set_int(handle(), key, whole(key, value)));
    }
    /// Sets a real option: set(RRB_OPT_REL_TOL, 1e-8).
    void set(std::int32_t key, double value) { check(Functions::set_real(handle(), key, value)); }
    /// Sets options by name: set("levels=12 rel_tol=1e-8"); all of them or, after an error, none.
    void set(const char *text) { check(Functions::set_options(handle(), text)); }
    void set(const std::string &text) { set(text.c_str()); }

    std::int64_t get_int(std::int32_t key) const {
        std::int64_t value = 0;
        check(Functions::get_int(handle(), key, &value));
        return value;
    }
    double get_real(std::int32_t key) const {
        double value = 0;
        check(Functions::get_real(handle(), key, &value));
        return value;
    }

    /// Returns the relative residuals of iterations 0, 1, ... of the last solve. For a smoother they are those of the
    /// sweeps of the last apply, recorded if it has a monitor.
    std::vector<double> history() const {
        std::int64_t count = 0;
        check(Functions::get_history(handle(), nullptr, 0, &count));
        std::vector<double> residuals(static_cast<std::size_t>(count));
        check(Functions::get_history(handle(), residuals.data(), count, &count));
        return residuals;
    }

    /// Sets the monitor of each solve or apply; an empty one (nullptr) removes it.
    void set_monitor(monitor callback) {
        const bool any = static_cast<bool>(callback);
        state().watch = std::move(callback);
        check(Functions::set_monitor(handle(), any ? &family::call_monitor : nullptr, &state()));
    }

    /// Sets the CUDA stream for the work on a device; nullptr: a stream of the handle. It has no effect on the CPU.
    void set_stream(void *cuda_stream) { check(Functions::set_stream(handle(), cuda_stream)); }

protected:
    family() = default;

    template <class Create>
    void own(Create create) {
        typename Functions::handle *raw = nullptr;
        check(create(&raw));
        handle_.reset(raw);
    }

    typename Functions::callbacks &state() {
        if (!state_) {
            state_ = std::make_unique<typename Functions::callbacks>();
        }
        return *state_;
    }

    /// Calls a callback; an exception is stored until `finish`.
    template <class Call>
    static std::int32_t guarded(void *user, Call call) noexcept {
        auto *state = static_cast<typename Functions::callbacks *>(user);
        try {
            return call(*state) ? 1 : 0;
        } catch (...) {
            state->thrown = std::current_exception();
            return 1;
        }
    }

    /// Rethrows the exception of a callback, or checks the status.
    rrb_status finish(rrb_status status) {
        if (state_ && state_->thrown) {
            std::rethrow_exception(std::exchange(state_->thrown, nullptr));
        }
        return check(status);
    }

private:
    struct destroyer {
        void operator()(typename Functions::handle *h) const noexcept { Functions::destroy(&h); }
    };

    static std::int32_t call_monitor(void *user, std::int64_t iteration, double relative_residual) noexcept {
        return guarded(user, [&](callbacks &state) { return state.watch(iteration, relative_residual); });
    }

    // On the heap: the library has its address, and this object may move. Members are destroyed in reverse order: the
    // handle first.
    std::unique_ptr<typename Functions::callbacks> state_;
    std::unique_ptr<typename Functions::handle, destroyer> handle_;
};

// The functions of rrbsolver.h of a family, its handle and its callbacks.
#define RRBSOLVER_FAMILY(family, callbacks_type)                  \
    struct family##_functions {                                   \
        using handle = family##_handle;                           \
        using callbacks = callbacks_type;                         \
        static constexpr auto destroy = &family##_destroy;         \
        static constexpr auto set_int = &family##_set_int;         \
        static constexpr auto set_real = &family##_set_real;       \
        static constexpr auto set_options = &family##_set_options; \
        static constexpr auto get_int = &family##_get_int;         \
        static constexpr auto get_real = &family##_get_real;       \
        static constexpr auto get_history = &family##_get_history; \
        static constexpr auto set_monitor = &family##_set_monitor; \
        static constexpr auto set_stream = &family##_set_stream;   \
    }

/// Fills the ghost cells that no patch covers. It is called before each sweep with the number of the sweep, or -1 where
/// a residual is computed, and with u of all patches. The result true stops the call with RRB_STOPPED. An exception
/// stops it too, and is rethrown by the call.
using ghost_fill = std::function<bool(std::int32_t sweep, double *const *u)>;

struct smoother_callbacks : callbacks {
    ghost_fill fill;
};

RRBSOLVER_FAMILY(rrb, detail::callbacks);
RRBSOLVER_FAMILY(dpcg, detail::callbacks);
RRBSOLVER_FAMILY(smoother, smoother_callbacks);
RRBSOLVER_FAMILY(sparse, detail::callbacks);
#undef RRBSOLVER_FAMILY

// The functions of a family that solves A x = b on a grid, and the number of dimensions.
#define RRBSOLVER_SOLVER(family, count)                     \
    struct family##_solver : family##_functions {           \
        static constexpr int dimensions = count;            \
        static constexpr auto solve = &family##_solve;       \
        static constexpr auto apply = &family##_apply;       \
        static constexpr auto multiply = &family##_multiply; \
    }

RRBSOLVER_SOLVER(rrb, 2);
RRBSOLVER_SOLVER(dpcg, 3);
#undef RRBSOLVER_SOLVER

/// Common base of the classes that solve A x = b on a grid.
template <class Functions>
class solver : public family<Functions> {
public:
    /// Extent of the grid. With many ranks: extent of the one box of this rank, or 0 if it has none or several.
    std::int64_t nx() const noexcept { return nx_; }
    std::int64_t ny() const noexcept { return ny_; }

    /// Solves A x = b; x is the initial guess on entry and the solution on return. It stops when ||b - A x||_2 <=
    /// max(rel_tol * ||b||_2, abs_tol), with the default norm and reference. Returns RRB_OK, RRB_NOT_CONVERGED or
    /// RRB_STOPPED.
    [[nodiscard]] rrb_status solve(input b, output x) {
        check_sizes({{"b", b}, {"x", x}}, [&] { Functions::solve(this->handle(), nullptr, nullptr); });
        return this->finish(Functions::solve(this->handle(), b.data(), x.data()));
    }

    /// Computes z = M^-1 r with the preconditioner M, for a Krylov method of the caller.
    void apply(input r, output z) {
        check_sizes({{"r", r}, {"z", z}}, [&] { Functions::apply(this->handle(), nullptr, nullptr); });
        check(Functions::apply(this->handle(), r.data(), z.data()));
    }

    /// Computes y = A x.
    void multiply(input x, output y) {
        check_sizes({{"x", x}, {"y", y}}, [&] { Functions::multiply(this->handle(), nullptr, nullptr); });
        check(Functions::multiply(this->handle(), x.data(), y.data()));
    }

protected:
    solver(std::int64_t nx, std::int64_t ny, std::int64_t nz) : nx_(nx), ny_(ny), nz_(nz) {}

    /// Layout of the arrays according to the options.
    layout arrays() const {
        const std::int64_t row = std::max(nx_, this->get_int(RRB_OPT_LEADING_DIMENSION));
        std::int64_t plane = 0;
        if constexpr (Functions::dimensions == 3) {
            plane = this->get_int(RRB_OPT_LEADING_PLANE);
        }
        return {nx_, ny_, nz_, row, plane};
    }

    void check_sizes(std::initializer_list<named> given) const { detail::check_sizes(given, arrays()); }

    /// The same with other ranks that may wait for the call: `refused` makes it without arrays, so that it fails on all
    /// ranks.
    template <class Refused>
    void check_sizes(std::initializer_list<named> given, Refused refused) const {
        // The library reports arrays of no or of several boxes.
        if (distributed_ && boxes_ != 1) {
            return;
        }
        try {
            check_sizes(given);
        } catch (const error &) {
            if (distributed_) {
                refused();
            }
            throw;
        }
    }

    std::int64_t nx_; // extents of arrays: of the grid, or of the one box of this rank
    std::int64_t ny_;
    std::int64_t nz_;
    bool distributed_ = false;
    std::size_t boxes_ = 1; // of this rank
};

} // namespace detail

/// Returns the version of the library, such as "0.1.0".
inline std::string version() { return rrbsolver_version(); }

/// Returns the name and the meaning of a status.
inline std::string status_string(rrb_status status) { return rrbsolver_status_string(status); }

/// Returns the message of this thread's last call that did not return RRB_OK. After RRB_NOT_CONVERGED or RRB_STOPPED it
/// holds the iterations, the residual, its target and the stop reason; else it is what() of the exception.
inline std::string last_error() { return detail::last_message(); }

/// Returns the number of usable CUDA devices, 0 without a driver.
inline int cuda_device_count() {
    std::int32_t count = 0;
    detail::check(rrbsolver_cuda_device_count(&count));
    return count;
}

/// Solves A x = b on a 2D grid of nx * ny points, A symmetric with a 5-point or 9-point stencil.
///
/// Entry (i, j) of an array is a[j*ld + i]; ld = nx, or the option leading_dimension. Objects can be moved but not
/// copied. A moved-from object can be assigned to and destroyed; any other use throws RRB_ERR_NULL. Options, results,
/// history, monitor and stream are those of detail::family.
class rrb : public detail::solver<detail::rrb_solver> {
public:
    rrb(std::int64_t nx, std::int64_t ny) : solver(nx, ny, 1) {
        own([&](rrb_handle **out) { return rrb_create(nx, ny, out); });
    }

    /// The points lower .. lower + size - 1 of the grid, from 0.
    struct box {
        std::array<std::int64_t, 2> lower;
        std::array<std::int64_t, 2> size;
    };

    /// Creates a solver for nx * ny points that the ranks of `comm` share. This rank has `boxes`. The boxes of all
    /// ranks are disjoint; points in no box are land.
    ///
    /// With one box, factorize, solve, apply and multiply use arrays of its shape. With no box, they neither read nor
    /// write arrays; empty ones suffice. For more boxes there are rrb_factorize_boxes etc. of rrbsolver.h.
    ///
    /// All these calls are collective, as described at rrb_create_distributed: if one rank throws, all do.
    /// rrbsolver_mpi.h creates a `comm` from MPI. Destroy the solver before `comm` is freed.
    static rrb distributed(std::int64_t nx, std::int64_t ny, view<const box> boxes, const rrbsolver_comm &comm) {
        return rrb(nx, ny, boxes, comm);
    }

    /// Copies the coefficients of a 5-point stencil and factorizes. A second call reuses the memory.
    void factorize(input center, input east, input north) {
        check_sizes({{"center", center}, {"east", east}, {"north", north}}, [&] { refuse_factorize(); });
        detail::check(rrb_factorize(handle(), center.data(), east.data(), north.data(), nullptr, nullptr));
    }
    /// Copies the coefficients of a 9-point stencil and factorizes.
    void factorize(input center, input east, input north, input northeast, input northwest) {
        check_sizes({{"center", center},
                     {"east", east},
                     {"north", north},
                     {"northeast", northeast},
                     {"northwest", northwest}},
                    [&] { refuse_factorize(); });
        detail::check(
            rrb_factorize(handle(), center.data(), east.data(), north.data(), northeast.data(), northwest.data()));
    }

private:
    rrb(std::int64_t nx, std::int64_t ny, view<const box> boxes, const rrbsolver_comm &comm) : solver(0, 0, 1) {
        std::vector<std::int64_t> lower, size;
        for (std::size_t k = 0; k < boxes.size(); ++k) {
            const box &b = boxes.data()[k];
            lower.insert(lower.end(), b.lower.begin(), b.lower.end());
            size.insert(size.end(), b.size.begin(), b.size.end());
        }
        using pairs = const std::int64_t (*)[2];
        own([&](rrb_handle **out) {
            return rrb_create_distributed(nx, ny, static_cast<std::int64_t>(boxes.size()),
                                          reinterpret_cast<pairs>(lower.data()), reinterpret_cast<pairs>(size.data()),
                                          &comm, out);
        });
        distributed_ = true;
        boxes_ = boxes.size();
        if (boxes_ == 1) {
            nx_ = size[0];
            ny_ = size[1];
        }
    }

    void refuse_factorize() const noexcept {
        rrb_factorize(handle(), nullptr, nullptr, nullptr, nullptr, nullptr);
    }
};

/// Solves A x = b on a 3D grid of nx * ny * nz cells with deflated PCG, A symmetric with a 7-point stencil.
///
/// The signs are those of -div(k grad x) = b: center is positive, couplings are normally negative. Entry (i, j, k) of
/// an array is a[k*lp + j*ld + i]. ld = nx or the option leading_dimension; lp = ny*ld or leading_plane. Objects can be
/// moved but not copied. A moved-from object can be assigned to and destroyed; any other use throws RRB_ERR_NULL.
/// Options, results, history, monitor and stream are those of detail::family.
class dpcg : public detail::solver<detail::dpcg_solver> {
public:
    dpcg(std::int64_t nx, std::int64_t ny, std::int64_t nz) : solver(nx, ny, nz) {
        own([&](dpcg_handle **out) { return dpcg_create(nx, ny, nz, out); });
    }

    std::int64_t nz() const noexcept { return nz_; }

    /// Sets the deflation regions: cells with the same label, from 0, form one region; -1 marks a cell in no region.
    /// The labels are copied and act at the next factorize, which must precede solve.
    void set_regions(view<const std::int32_t> labels) {
        const detail::layout expected = arrays();
        if (!expected.fits(labels.size())) {
            throw error(RRB_ERR_DIMENSION, "labels must hold " + expected.text() + ", got " +
                                               std::to_string(labels.size()) + " values");
        }
        detail::check(dpcg_set_regions(handle(), labels.data()));
    }
    /// Removes the regions: the matrix determines them.
    void set_regions() { detail::check(dpcg_set_regions(handle(), nullptr)); }

    /// Copies the coefficients and sets up preconditioner and deflation. A second call reuses the memory.
    void factorize(input center, input east, input north, input top) {
        check_sizes({{"center", center}, {"east", east}, {"north", north}, {"top", top}});
        detail::check(dpcg_factorize(handle(), center.data(), east.data(), north.data(), top.data()));
    }
};

/// Function that fills the ghost cells that no patch covers.
using ghost_fill = detail::ghost_fill;

/// The cells lower .. lower + size - 1 of the index space of one level. u has (nx+2)(ny+2)(nz+2) values, x fastest: one
/// layer of ghost cells surrounds the patch. f has nx*ny*nz values.
struct box {
    std::array<std::int64_t, 3> lower;
    std::array<std::int64_t, 3> size;
};

/// Tables of one pointer per patch. All arrays of a call are on the host, or all on the device of a smoother with
/// backend=cuda.
using patches = view<double *const>;
using const_patches = view<const double *const>;

/// Addresses of the arrays of smoother::upload, one per patch.
struct resident_patches {
    std::vector<double *> u;
    std::vector<double *> f;
};

/// Performs block relaxation on 3D patches with a constant stencil of 7 points (center, west, east, south, north,
/// bottom, top) or 27 (the 3x3x3 cube, x fastest).
///
/// rrbsolver.h describes the calls. Objects can be moved but not copied. A moved-from object can be assigned to and
/// destroyed; any other use throws RRB_ERR_NULL. Options, results, history, monitor and stream are those of
/// detail::family.
class smoother : public detail::family<detail::smoother_functions> {
public:
    smoother(input stencil, std::int64_t bx, std::int64_t by, std::int64_t bz) {
        own([&](smoother_handle **out) {
            // The library refuses other lengths.
            return smoother_create(static_cast<std::int32_t>(stencil.size()), stencil.data(), bx, by, bz, out);
        });
    }

    /// Sets the patches; block inverses remain.
    void set_patches(view<const box> boxes) {
        std::vector<std::int64_t> lower, size;
        for (std::size_t p = 0; p < boxes.size(); ++p) {
            const box &b = boxes.data()[p];
            lower.insert(lower.end(), b.lower.begin(), b.lower.end());
            size.insert(size.end(), b.size.begin(), b.size.end());
        }
        known_ = false;
        using triples = const std::int64_t (*)[3];
        detail::check(smoother_set_patches(handle(), static_cast<std::int64_t>(boxes.size()),
                                           reinterpret_cast<triples>(lower.data()),
                                           reinterpret_cast<triples>(size.data())));
        count_ = boxes.size();
        known_ = true;
    }

    /// Performs `sweeps` sweeps on u. Returns RRB_OK or RRB_STOPPED.
    rrb_status apply(patches u, const_patches f, std::int32_t sweeps) {
        check_counts({{"u", u.size()}, {"f", f.size()}});
        return finish(smoother_apply(handle(), u.data(), f.data(), sweeps));
    }
    /// The same on the arrays of upload.
    rrb_status apply(std::int32_t sweeps) { return finish(smoother_apply(handle(), nullptr, nullptr, sweeps)); }

    /// Copies ghost cells of u that another patch covers from that patch.
    void exchange(patches u) {
        check_counts({{"u", u.size()}});
        detail::check(smoother_exchange(handle(), u.data()));
    }
    /// The same on the arrays of upload.
    void exchange() { detail::check(smoother_exchange(handle(), nullptr)); }

    /// Computes ||f - A u||_2 over all patches, after an exchange of ghost cells.
    double residual(patches u, const_patches f) {
        check_counts({{"u", u.size()}, {"f", f.size()}});
        return norm_of(u.data(), f.data(), nullptr);
    }
    /// The same, and r = f - A u.
    double residual(patches u, const_patches f, patches r) {
        check_counts({{"u", u.size()}, {"f", f.size()}, {"r", r.size()}});
        return norm_of(u.data(), f.data(), r.data());
    }
    /// The same on the arrays of upload.
    double residual() { return norm_of(nullptr, nullptr, nullptr); }
    /// The same, and r = f - A u, in the memory of the arrays of upload.
    double residual(patches r) {
        check_counts({{"r", r.size()}});
        return norm_of(nullptr, nullptr, r.data());
    }

    /// Copies u and f into arrays of the library, on the device with backend=cuda. A second upload replaces the values.
    void upload(const_patches u, const_patches f) {
        check_counts({{"u", u.size()}, {"f", f.size()}});
        detail::check(smoother_upload(handle(), u.data(), f.data()));
    }
    /// Replaces u alone, or f alone.
    void upload_u(const_patches u) {
        check_counts({{"u", u.size()}});
        detail::check(smoother_upload(handle(), u.data(), nullptr));
    }
    void upload_f(const_patches f) {
        check_counts({{"f", f.size()}});
        detail::check(smoother_upload(handle(), nullptr, f.data()));
    }
    /// Copies u of the library to the caller.
    void download(patches u) {
        check_counts({{"u", u.size()}});
        detail::check(smoother_download(handle(), u.data()));
    }
    /// Returns the addresses of the arrays of upload, for kernels of the caller: on the device with backend=cuda, else
    /// on the host. They are valid until the next set_patches.
    resident_patches device_pointers() {
        // At least one element: a NULL table is not written.
        resident_patches where{std::vector<double *>(count_ + 1), std::vector<double *>(count_ + 1)};
        detail::check(smoother_device_pointers(handle(), where.u.data(), where.f.data()));
        where.u.pop_back();
        where.f.pop_back();
        return where;
    }

    /// Sets the function that fills ghost cells in each call; an empty one (nullptr) removes it.
    void set_ghost_fill(ghost_fill callback) {
        const bool any = static_cast<bool>(callback);
        state().fill = std::move(callback);
        detail::check(smoother_set_ghost_fill(handle(), any ? &smoother::call_fill : nullptr, &state()));
    }

private:
    static std::int32_t call_fill(void *user, std::int32_t sweep, double *const *u) noexcept {
        return guarded(user, [&](detail::smoother_callbacks &state) { return state.fill(sweep, u); });
    }

    double norm_of(double *const *u, const double *const *f, double *const *r) {
        double norm2 = 0;
        finish(smoother_residual(handle(), u, f, r, &norm2));
        return norm2;
    }

    struct table {
        const char *name;
        std::size_t size;
    };

    /// The C function reports missing patches before it reads a table.
    void check_counts(std::initializer_list<table> tables) const {
        for (const table &t : tables) {
            if (handle() != nullptr && known_ && t.size != count_) {
                throw error(RRB_ERR_DIMENSION, std::string(t.name) + " must hold a pointer for each of " +
                                                   std::to_string(count_) + " patches, got " + std::to_string(t.size));
            }
        }
    }

    std::size_t count_ = 0;
    bool known_ = false; // The last set_patches succeeded.
};

/// The arrays of a storage format, as listed at sparse_create_from. Indices count from 0.
struct format_arrays {
    std::vector<std::int64_t> i0, i1, i2;
    std::vector<double> values;
};

/// A general sparse matrix: solvers, products, storage formats and files, on the CPU.
///
/// Indices are std::int32_t or std::int64_t and count from `base`, 0 or 1. The entries of a row may have any order.
/// Values for the same place are added; zeros remain entries of the pattern. Give both triangles of a symmetric matrix.
/// Objects can be moved but not copied.
class sparse : public detail::family<detail::sparse_functions> {
public:
    /// Creates a matrix in CSR form: the entries row_ptr[i] .. row_ptr[i + 1] - 1 of row i have the columns col[k] and
    /// the values values[k].
    template <class Pointers, class Columns>
    static sparse csr(std::int64_t rows, std::int64_t cols, const Pointers &row_ptr, const Columns &col, input values,
                      std::int32_t base = 0) {
        return entries(sparse_create_csr, rows, cols, {"row_ptr", rows < 0 ? 0 : rows + 1}, {"col"}, row_ptr, col,
                       values, base);
    }
    /// Creates a matrix in CSC form, by columns.
    template <class Pointers, class Rows>
    static sparse csc(std::int64_t rows, std::int64_t cols, const Pointers &col_ptr, const Rows &row, input values,
                      std::int32_t base = 0) {
        return entries(sparse_create_csc, rows, cols, {"col_ptr", cols < 0 ? 0 : cols + 1}, {"row"}, col_ptr, row,
                       values, base);
    }
    /// Creates a matrix in coordinate form, in any order.
    template <class Rows, class Columns>
    static sparse coo(std::int64_t rows, std::int64_t cols, const Rows &row, const Columns &col, input values,
                      std::int32_t base = 0) {
        return entries(sparse_create_coo, rows, cols, {"row"}, {"col"}, row, col, values, base);
    }
    /// Creates a matrix from the arrays of a storage format, such as RRB_FORMAT_ELL, as arrays() returns them.
    static sparse from(std::int32_t format, std::int64_t rows, std::int64_t cols, const format_arrays &a) {
        const std::array<std::size_t, 4> lengths{a.i0.size(), a.i1.size(), a.i2.size(), a.values.size()};
        std::array<std::int64_t, 4> sizes{};
        std::transform(lengths.begin(), lengths.end(), sizes.begin(),
                       [](std::size_t length) { return static_cast<std::int64_t>(length); });
        const bool as_given = format == RRB_FORMAT_COO || format == RRB_FORMAT_CSR || format == RRB_FORMAT_CSC;
        return sparse(
            [&](sparse_handle **out) {
                return sparse_create_from(format, rows, cols, sizes.data(), a.i0.data(), a.i1.data(), a.i2.data(),
                                          a.values.data(), out);
            },
            as_given ? sizes[3] : -1);
    }
    /// Reads the matrix of a MatrixMarket, Harwell-Boeing or Rutherford-Boeing file, plain or gzip.
    static sparse read(const std::string &path) {
        return sparse([&](sparse_handle **out) { return sparse_read(path.c_str(), out); }, -1);
    }

    /// Writes the matrix as RRB_FILE_MTX, RRB_FILE_HB or RRB_FILE_RB, with gzip if the name ends with .gz.
    void write(const std::string &path, std::int32_t file_format) const {
        detail::check(sparse_write(handle(), path.c_str(), file_format));
    }

    std::int64_t rows() const noexcept { return rows_; }
    std::int64_t cols() const noexcept { return cols_; }

    /// Replaces the values of all entries, in the order in which they were given. For a matrix from a file the order is
    /// row by row.
    void set_values(input values) {
        check_size("values", values.size(), given_);
        detail::check(sparse_set_values(handle(), values.data()));
    }

    /// Returns vector k = 0, 1, ... that came with the matrix in a file: RRB_VECTOR_RHS, RRB_VECTOR_GUESS or
    /// RRB_VECTOR_SOLUTION.
    std::vector<double> vector(std::int32_t which, std::int64_t k = 0) const {
        std::vector<double> v(static_cast<std::size_t>(rows_));
        detail::check(sparse_get_vector(handle(), which, k, v.data()));
        return v;
    }

    /// Returns the arrays of a storage format, such as RRB_FORMAT_ELL.
    format_arrays arrays(std::int32_t format) const {
        std::array<std::int64_t, 4> sizes{};
        detail::check(sparse_sizes(handle(), format, sizes.data()));
        const auto length = [&](int k) { return static_cast<std::size_t>(sizes[static_cast<std::size_t>(k)]); };
        format_arrays a{std::vector<std::int64_t>(length(0)), std::vector<std::int64_t>(length(1)),
                        std::vector<std::int64_t>(length(2)), std::vector<double>(length(3))};
        detail::check(sparse_arrays(handle(), format, a.i0.data(), a.i1.data(), a.i2.data(), a.values.data()));
        return a;
    }

    /// Checks the matrix and sets up method, format and preconditioner.
    void factorize() { detail::check(sparse_factorize(handle())); }

    /// Solves A x = b; x is the initial guess on entry and the solution on return. It stops when ||b - A x||_2 <=
    /// max(rel_tol * ||b||_2, abs_tol), with the default reference. Returns RRB_OK, RRB_NOT_CONVERGED or RRB_STOPPED.
    [[nodiscard]] rrb_status solve(input b, output x) {
        check_size("b", b.size(), rows_);
        check_size("x", x.size(), rows_);
        return finish(sparse_solve(handle(), b.data(), x.data()));
    }

    /// Computes z = M^-1 r with the preconditioner M, for a Krylov method of the caller.
    void apply(input r, output z) {
        check_size("r", r.size(), rows_);
        check_size("z", z.size(), rows_);
        detail::check(sparse_apply(handle(), r.data(), z.data()));
    }

    /// Computes y = A x.
    void multiply(input x, output y) {
        check_size("x", x.size(), cols_);
        check_size("y", y.size(), rows_);
        detail::check(sparse_multiply(handle(), x.data(), y.data()));
    }
    /// Computes y = A' x.
    void multiply_transposed(input x, output y) {
        check_size("x", x.size(), rows_);
        check_size("y", y.size(), cols_);
        detail::check(sparse_multiply_transposed(handle(), x.data(), y.data()));
    }

private:
    /// given: number of values that set_values expects; -1: the number of entries.
    template <class Create>
    sparse(Create create, std::int64_t given) {
        own(create);
        rows_ = get_int(RRB_INFO_ROWS);
        cols_ = get_int(RRB_INFO_COLS);
        given_ = given < 0 ? get_int(RRB_INFO_NONZEROS) : given;
    }

    /// An array of indices; count = -1: as many as values.
    struct indices {
        const char *name;
        std::int64_t count = -1;
    };

    template <class Create, class First, class Second>
    static sparse entries(Create create, std::int64_t rows, std::int64_t cols, indices of_first, indices of_second,
                          const First &first, const Second &second, input values, std::int32_t base) {
        using index = std::decay_t<decltype(*first.data())>;
        static_assert(std::is_same_v<index, std::decay_t<decltype(*second.data())>>, "indices of one type");
        static_assert(std::is_integral_v<index> && std::is_signed_v<index> &&
                          (sizeof(index) == 4 || sizeof(index) == 8),
                      "indices are signed integers of 4 or 8 bytes");
        const auto count = static_cast<std::int64_t>(values.size());
        check_size(of_first.name, first.size(), of_first.count < 0 ? count : of_first.count);
        check_size(of_second.name, second.size(), count);
        return sparse(
            [&](sparse_handle **out) {
                return create(rows, cols, count, first.data(), second.data(), values.data(),
                              static_cast<std::int32_t>(sizeof(index)), base, out);
            },
            count);
    }

    static void check_size(const char *name, std::size_t size, std::int64_t expected) {
        if (size != static_cast<std::size_t>(expected)) {
            throw error(RRB_ERR_DIMENSION, std::string(name) + " must hold " + std::to_string(expected) +
                                               " values, got " + std::to_string(size));
        }
    }

    std::int64_t rows_ = 0;
    std::int64_t cols_ = 0;
    std::int64_t given_ = 0;
};

/// Result of solve_once.
struct once {
    rrb_status status;
    std::int64_t iterations;
};

/// Creates a solver, factorizes, solves and destroys it, in place of an ICCG routine.
///
/// Without northeast and northwest the stencil has 5 points. It stops when ||b - A x||_2 <= rel_tol * ||b||_2. Use
/// class rrb to solve again on the same grid.
[[nodiscard]] inline once solve_once(std::int64_t nx, std::int64_t ny, input center, input east, input north, input b,
                                     output x, double rel_tol, std::int64_t max_iter, input northeast = {nullptr, 0},
                                     input northwest = {nullptr, 0}) {
    if (nx >= 1 && ny >= 1) {
        const auto expected = detail::layout{nx, ny, 1, nx, 0};
        detail::check_sizes({{"center", center}, {"east", east}, {"north", north}, {"b", b}, {"x", x}}, expected);
        for (const input &corner : {northeast, northwest}) {
            if (corner.data() != nullptr) {
                detail::check_sizes({{"a corner array", corner}}, expected);
            }
        }
    }
    once result{RRB_OK, 0};
    result.status = detail::check(rrb_solve_once(nx, ny, center.data(), east.data(), north.data(), northeast.data(),
                                                 northwest.data(), b.data(), x.data(), rel_tol, max_iter,
                                                 &result.iterations));
    return result;
}

/// The same on a 3D grid of cells. Use class dpcg to solve again on the same grid.
[[nodiscard]] inline once solve_once(std::int64_t nx, std::int64_t ny, std::int64_t nz, input center, input east,
                                     input north, input top, input b, output x, double rel_tol, std::int64_t max_iter) {
    if (nx >= 1 && ny >= 1 && nz >= 1) {
        detail::check_sizes(
            {{"center", center}, {"east", east}, {"north", north}, {"top", top}, {"b", b}, {"x", x}},
            detail::layout{nx, ny, nz, nx, 0});
    }
    once result{RRB_OK, 0};
    result.status = detail::check(dpcg_solve_once(nx, ny, nz, center.data(), east.data(), north.data(), top.data(),
                                                  b.data(), x.data(), rel_tol, max_iter, &result.iterations));
    return result;
}

} // namespace rrbsolver

#endif // RRBSOLVER_HPP
