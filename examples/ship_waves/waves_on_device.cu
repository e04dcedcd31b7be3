// The time step of ship_waves on a CUDA device: the three loops, current and sponge, pressure of the hulls and forces
// on them, sums over all cells, and the heights of a frame. device_waves.f90 declares the functions at the end.
//
// The work of a thread is a function of its number, and all arithmetic is in functions of one cell. nvcc compiles this
// file for devices, and waves_on_host.cpp compiles it for the host. Tests compare the arrays of both with those of the
// Fortran loops: without fused multiply-add, they are bitwise identical.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define HD __host__ __device__

namespace {

constexpr double gravity = 9.81, pi = 3.141592653589793;
constexpr int block_size = 256;
constexpr int64_t piece_size = 32;
constexpr int most_ships = 16;
constexpr int parts_of_force = 32;     // partial sums per ship
constexpr int parts_of_grid = 512;     // partial sums over all cells

void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

#ifdef __CUDACC__

template <class Body> __global__ void __launch_bounds__(block_size) each_thread(int64_t count, Body body) {
    const int64_t thread = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (thread < count) body(thread);
}

// Calls body(0) to body(count - 1), in any order.
template <class Body> void for_each(cudaStream_t stream, int64_t count, const Body &body) {
    if (count == 0) return;
    each_thread<<<unsigned((count + block_size - 1) / block_size), block_size, 0, stream>>>(count, body);
    check(cudaGetLastError(), "kernel launch");
}

template <class Body> __global__ void __launch_bounds__(block_size) each_block(Body body, typename Body::Value *parts) {
    __shared__ typename Body::Value value[block_size];
    value[threadIdx.x] = body(blockIdx.x, threadIdx.x);
    for (int half = block_size / 2; half > 0; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half) value[threadIdx.x].join(value[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = value[0];
}

// Stores in parts[k] the values body(k, 0) to body(k, block_size - 1), joined in pairs. The shape of the tree is fixed,
// so results are bitwise identical from run to run.
template <class Body> void reduce(cudaStream_t stream, int blocks, const Body &body, typename Body::Value *parts) {
    if (blocks == 0) return;
    each_block<<<unsigned(blocks), block_size, 0, stream>>>(body, parts);
    check(cudaGetLastError(), "kernel launch");
}

#endif

struct Sum {
    double value;
    HD void join(const Sum &other) { value += other.value; }
};
struct Largest {
    double value;
    HD void join(const Largest &other) { value = other.value > value ? other.value : value; }
};
struct Force {
    double ahead, to_port, moment;
    HD void join(const Force &other) {
        ahead += other.ahead;
        to_port += other.to_port;
        moment += other.moment;
    }
};

// ---- Cells ----------------------------------------------------------------------------------------------------------
// As in wet_runs.f90: cells from 1, offsets of the neighbours, 0 beyond the edge of the grid.
struct Run {
    int64_t first, last, west, east, south, north;
};

// At most 32 neighbouring wet cells of a row, one per thread of a warp. Cells are counted from 0.
struct Piece {
    int64_t first;
    int32_t count, has_neighbours;     // bits: 1 west, 2 east, 4 south, 8 north
};

// Numbers of a cell and of its neighbours. A neighbour beyond the edge of the grid is the cell itself.
struct Cell {
    int64_t own, west, east, south, north;
};

struct Cells {
    const Piece *pieces;
    int64_t count, nx;

    HD int64_t threads() const { return piece_size * count; }

    // The cell of a thread; false if it has none.
    HD bool find(int64_t thread, Cell &cell) const {
        const Piece piece = pieces[thread / piece_size];
        const int64_t lane = thread % piece_size;
        const int64_t own = piece.first + lane;
        const int has = piece.has_neighbours;
        cell = {own, own - (has & 1), own + (has >> 1 & 1), has & 4 ? own - nx : own, has & 8 ? own + nx : own};
        return lane < piece.count;
    }
};

template <class Body> struct EachCell {
    Cells cells;
    Body body;
    HD void operator()(int64_t thread) const {
        Cell c;
        if (cells.find(thread, c)) body(c);
    }
};

std::vector<Piece> pieces_of(const Run *runs, int64_t count) {
    std::vector<Piece> pieces;
    for (int64_t k = 0; k < count; ++k) {
        const Run &r = runs[k];
        const int32_t has = (r.west != 0) | (r.east != 0) << 1 | (r.south != 0) << 2 | (r.north != 0) << 3;
        for (int64_t first = r.first; first <= r.last; first += piece_size) {
            const int64_t left = r.last - first + 1;
            pieces.push_back({first - 1, int32_t(left < piece_size ? left : piece_size), has});
        }
    }
    return pieces;
}

// Values of an array at a cell and its neighbours.
struct Star {
    double own, west, east, south, north;
};

HD Star star(const double *array, const Cell &cell) {
    return {array[cell.own], array[cell.west], array[cell.east], array[cell.south], array[cell.north]};
}

// ---- Functions of one cell: the formulas of wave_loops.f90 and current_loops.f90, in the same order -----------------
HD double momentum_of_cell(double span, double zeta, double pressure, double phi) {
    return phi - span * (gravity * zeta + pressure);
}

HD double face(double weight, double c, double c_neighbour) {
    return (c_neighbour > 0 ? weight : 0.0) * (c + c_neighbour) / 2;
}

HD double right_hand_side_of_cell(double w_x, double w_y, const Star &c, const Star &u) {
    return face(w_x, c.own, c.east) * (u.own - u.east) + face(w_x, c.own, c.west) * (u.own - u.west) +
           face(w_y, c.own, c.north) * (u.own - u.north) + face(w_y, c.own, c.south) * (u.own - u.south);
}

HD double flux(double weight, double h, double h_neighbour, double hd, double hd_neighbour, double phi_difference,
               double psi_difference) {
    const double both = (h + h_neighbour) * phi_difference - (hd + hd_neighbour) * psi_difference;
    return (h_neighbour > 0 ? weight : 0.0) * both / 2;
}

HD double rate_of_cell(double w_x, double w_y, const Star &h, const Star &hd, const Star &phi, const Star &psi) {
    return flux(w_x, h.own, h.east, hd.own, hd.east, phi.own - phi.east, psi.own - psi.east) +
           flux(w_x, h.own, h.west, hd.own, hd.west, phi.own - phi.west, psi.own - psi.west) +
           flux(w_y, h.own, h.north, hd.own, hd.north, phi.own - phi.north, psi.own - psi.north) +
           flux(w_y, h.own, h.south, hd.own, hd.south, phi.own - phi.south, psi.own - psi.south);
}

HD double transport_of_cell(double own, double c_east, double c_west, double c_north, double c_south, const Star &x) {
    return c_east * (x.east + own * x.own) - c_west * (x.west + own * x.own) + c_north * (x.north + own * x.own) -
           c_south * (x.south + own * x.own);
}

// ---- Loops over wet cells -------------------------------------------------------------------------------------------
struct Momentum {
    double span;
    const double *zeta, *pressure;
    double *phi;
    HD void operator()(const Cell &c) const {
        phi[c.own] = momentum_of_cell(span, zeta[c.own], pressure[c.own], phi[c.own]);
    }
};

struct RightHandSideAndGuess {
    double w_x, w_y, f_1, f_2, f_3, f_4;
    const double *hd, *phi, *psi_1, *psi_2, *psi_3;
    double *psi_4, *b;
    HD void operator()(const Cell &c) const {
        const double guess = f_1 * psi_1[c.own] + f_2 * psi_2[c.own] + f_3 * psi_3[c.own] + f_4 * psi_4[c.own];
        b[c.own] = right_hand_side_of_cell(w_x, w_y, star(hd, c), star(phi, c));
        psi_4[c.own] = guess;
    }
};

struct Elevation {
    double w_x, w_y, share, limit;     // share = dt/A
    const double *h, *hd, *phi, *psi;
    double *zeta, *wild;               // wild: an elevation is not a number, or not below the limit
    HD void operator()(const Cell &c) const {
        const double rate = rate_of_cell(w_x, w_y, star(h, c), star(hd, c), star(phi, c), star(psi, c));
        const double level = zeta[c.own] + share * rate;
        zeta[c.own] = level;
        if (!(fabs(level) < limit)) *wild = 1;
    }
};

struct Damp {
    const double *factor;
    double *zeta, *phi;
    HD void operator()(const Cell &c) const {
        zeta[c.own] = factor[c.own] * zeta[c.own];
        phi[c.own] = factor[c.own] * phi[c.own];
    }
};

// c_f = dt U_f/(4 dx) on east faces and dt V_f/(4 dy) on north faces; null pointers without a current.
struct Current {
    const double *east, *north;
    HD double transport(double own, const Cell &c, const Star &x) const {
        const double west = c.west == c.own ? 0 : 1, south = c.south == c.own ? 0 : 1;
        return transport_of_cell(own, east[c.own], west * east[c.west], north[c.own], south * north[c.south], x);
    }
};

constexpr double of_potential = -1, of_elevation = 1;

// y = right - share t(x)
struct Sweep {
    Current current;
    double own, share;
    const double *right, *x;
    double *y;
    HD void operator()(const Cell &c) const {
        y[c.own] = right[c.own] - share * current.transport(own, c, star(x, c));
    }
};

// ---- Sums and maxima over wet cells ---------------------------------------------------------------------------------
// The threads of parts_of_grid blocks visit all cells; `join` adds what `of_cell` returns.
template <class Of> struct OverCells {
    using Value = typename Of::Value;
    Cells cells;
    Of of;
    HD Value operator()(int block, int lane) const {
        Value value = {0};
        Cell c;
        for (int64_t thread = int64_t(block) * block_size + lane; thread < cells.threads();
             thread += int64_t(parts_of_grid) * block_size) {
            if (cells.find(thread, c)) value.join(of(c));
        }
        return value;
    }
};

struct HeightOfCell {
    using Value = Largest;
    const double *zeta;
    HD Largest operator()(const Cell &c) const { return {fabs(zeta[c.own])}; }
};

// The contribution of a cell to H of time_stepping.f90.
struct EnergyOfCell {
    using Value = Sum;
    double w_x, w_y, area, dt;
    Current current;
    const double *h, *hd, *phi, *psi, *zeta, *phi_before;     // zeta: at the start of the step
    HD Sum operator()(const Cell &c) const {
        const double rate = rate_of_cell(w_x, w_y, star(h, c), star(hd, c), star(phi, c), star(psi, c));
        const double level = zeta[c.own];
        double sum = area * gravity * level * level / 2 + phi_before[c.own] * rate / 2;
        if (current.east)
            sum += area / dt * level * (current.transport(of_potential, c, star(phi_before, c)) +
                                        current.transport(of_potential, c, star(phi, c)));
        return {sum};
    }
};

// ---- Hulls ----------------------------------------------------------------------------------------------------------
struct Box {
    int32_t i1, i2, j1, j2;     // first and last column, first and last row, from 1; empty if i2 < i1 or j2 < j1
    HD int64_t columns() const { return i2 < i1 ? 0 : i2 - i1 + 1; }
    HD int64_t cells() const { return j2 < j1 ? 0 : columns() * (j2 - j1 + 1); }
    HD bool contains(int i, int j) const { return i >= i1 && i <= i2 && j >= j1 && j <= j2; }
};

// device_waves.f90 declares the same type.
struct Hull {
    double length, beam, draft, strength, middle_x, middle_y, bow_x, bow_y;
    int32_t gaussian;
    Box box;
};

struct Grid {
    int64_t nx, ny;
    double x0, y0, cell;
};

HD double hull_shape(bool gaussian, double x, double extent) {
    if (gaussian) return exp(-(3 * x / extent) * (3 * x / extent));
    const double s = 2 * fabs(x) / extent;
    if (s <= 0.6) return 1;
    if (s >= 1) return 0;
    const double c = cos(pi / 2 * (s - 0.6) / 0.4);
    return c * c;
}

// A cell as seen from the middle of a hull.
struct FromMiddle {
    double x, y;
    HD FromMiddle(const Grid &grid, const Hull &hull, int i, int j)
        : x(grid.x0 + (i - 0.5) * grid.cell - hull.middle_x), y(grid.y0 + (j - 0.5) * grid.cell - hull.middle_y) {}
    // P_s/rho
    HD double pressure(const Hull &hull) const {
        const double ahead = x * hull.bow_x + y * hull.bow_y, to_port = hull.bow_x * y - hull.bow_y * x;
        return hull.strength * (gravity * hull.draft * hull_shape(hull.gaussian, ahead, hull.length) *
                                hull_shape(hull.gaussian, to_port, hull.beam));
    }
};

// Stores the sum of the pressures of all hulls in the cells of their boxes of this call and of the last call. If a cell
// is in several boxes, several threads store the same value.
struct Place {
    Grid grid;
    const double *h;
    double *pressure;
    int hulls, boxes;
    Hull hull[most_ships];
    Box box[2 * most_ships];

    int64_t threads() const {
        int64_t sum = 0;
        for (int k = 0; k < boxes; ++k) sum += box[k].cells();
        return sum;
    }

    HD void operator()(int64_t thread) const {
        int k = 0;
        while (thread >= box[k].cells()) thread -= box[k++].cells();
        const int i = int(box[k].i1 + thread % box[k].columns()), j = int(box[k].j1 + thread / box[k].columns());
        const int64_t own = i - 1 + grid.nx * (j - 1);
        if (!(h[own] > 0)) return;
        double sum = 0;
        for (int m = 0; m < hulls; ++m) {
            if (hull[m].box.contains(i, j)) sum += FromMiddle(grid, hull[m], i, j).pressure(hull[m]);
        }
        pressure[own] = sum;
    }
};

// The force of the waves on a hull: parts_of_force blocks per hull, whose threads visit the cells of its box.
struct ForceOfHull {
    using Value = Force;
    Grid grid;
    const double *h, *zeta;
    Hull hull[most_ships];

    HD Force operator()(int block, int lane) const {
        const Hull &s = hull[block / parts_of_force];
        Force sum = {0, 0, 0};
        for (int64_t k = int64_t(block % parts_of_force) * block_size + lane; k < s.box.cells();
             k += int64_t(parts_of_force) * block_size) {
            const int i = int(s.box.i1 + k % s.box.columns()), j = int(s.box.j1 + k / s.box.columns());
            if (h[i - 1 + grid.nx * (j - 1)] > 0) sum.join(of_cell(s, i, j));
        }
        return sum;
    }

    HD Force of_cell(const Hull &s, int i, int j) const {
        constexpr double density = 1000;     // kg/m^3
        const int64_t own = i - 1 + grid.nx * (j - 1);
        const FromMiddle from(grid, s, i, j);
        const double factor = -density * grid.cell * grid.cell * from.pressure(s);
        const double x = factor * slope(own, i > 1 ? 1 : 0, i < grid.nx ? 1 : 0);
        const double y = factor * slope(own, j > 1 ? grid.nx : 0, j < grid.ny ? grid.nx : 0);
        return {x * s.bow_x + y * s.bow_y, s.bow_x * y - s.bow_y * x, from.x * y - from.y * x};
    }

    // Difference of zeta between the wet neighbours, per metre; 0 without one.
    HD double slope(int64_t own, int64_t back, int64_t ahead) const {
        if (!(h[own - back] > 0)) back = 0;
        if (!(h[own + ahead] > 0)) ahead = 0;
        const int cells = (back > 0) + (ahead > 0);
        return (zeta[own + ahead] - zeta[own - back]) / ((cells > 1 ? cells : 1) * grid.cell);
    }
};

// ---- Frame of the live view -----------------------------------------------------------------------------------------
struct Frame {
    const double *h, *zeta;
    int64_t nx, first_column, first_row, columns, every;
    double unit;
    int16_t *heights;
    HD void operator()(int64_t thread) const {
        constexpr double limit = 32766;
        constexpr int16_t land = -32767;
        const int64_t own = first_column + every * (thread % columns) + nx * (first_row + every * (thread / columns));
        heights[thread] = h[own] > 0 ? int16_t(round(fmax(-limit, fmin(limit, zeta[own] / unit)))) : land;
    }
};

// ---- Arrays on the device and the calls of device_waves.f90 ---------------------------------------------------------
template <class T> class Array {
    T *data = nullptr;
    int64_t length = 0;

public:
    Array() = default;
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { cudaFree(data); }
    operator T *() const { return data; }
    int64_t size() const { return length; }
    void swap(Array &other) {
        std::swap(data, other.data), std::swap(length, other.length);
    }
    // Allocates `count` zeros.
    void allocate(cudaStream_t stream, int64_t count) {
        cudaFree(data);
        data = nullptr;
        length = count;
        if (count == 0) return;
        check(cudaMalloc(reinterpret_cast<void **>(&data), size_t(count) * sizeof(T)), "memory on the device");
        check(cudaMemsetAsync(data, 0, size_t(count) * sizeof(T), stream), "memory on the device");
    }
    void copy_from(cudaStream_t stream, const T *source, int64_t count) {
        allocate(stream, count);
        if (count == 0) return;
        check(cudaMemcpyAsync(data, source, size_t(count) * sizeof(T), cudaMemcpyDefault, stream), "copy");
    }
};

// device_waves.f90 declares the same type.
struct Parameters {
    Grid grid;
    double w_x, w_y, area, dt, limit;
};

struct Results {
    Force force[most_ships * parts_of_force];
    double wild;
};

struct Waves {
    Parameters p;
    cudaStream_t stream = nullptr;
    Array<Piece> wet, damped;
    Array<double> h, hd, zeta, phi, psi[4], rhs, pressure, damping, c_east, c_north, right, zeta_before, phi_before;
    Array<Sum> sums;
    Array<Largest> maxima;
    Array<int16_t> heights;
    Results *results = nullptr;     // page-locked memory of the host, in which the device stores directly
    cudaEvent_t forces_stored = nullptr;
    std::vector<Box> old_boxes;
    int newest = 3, sweeps = 0;

    Waves(const Parameters &parameters, int64_t run_count, const Run *runs, const double *depths, const double *hds)
        : p(parameters) {
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
        copy_pieces(wet, run_count, runs);
        h.copy_from(stream, depths, cells());
        hd.copy_from(stream, hds, cells());
        for (Array<double> *array : {&zeta, &phi, &psi[0], &psi[1], &psi[2], &psi[3], &rhs, &pressure})
            array->allocate(stream, cells());
        sums.allocate(stream, parts_of_grid);
        maxima.allocate(stream, parts_of_grid);
        check(cudaMallocHost(reinterpret_cast<void **>(&results), sizeof(Results)), "page-locked memory");
        results->wild = 0;
        check(cudaEventCreateWithFlags(&forces_stored, cudaEventDisableTiming), "event");
        wait();
    }
    ~Waves() {
        cudaEventDestroy(forces_stored);
        cudaFreeHost(results);
        cudaStreamDestroy(stream);
    }

    int64_t cells() const { return p.grid.nx * p.grid.ny; }
    Cells wet_cells() const { return {wet, wet.size(), p.grid.nx}; }
    template <class Body> void on_cells(const Array<Piece> &pieces, const Body &body) {
        const Cells some = {pieces, pieces.size(), p.grid.nx};
        for_each(stream, some.threads(), EachCell<Body>{some, body});
    }
    Current current() const { return {c_east, c_north}; }
    void wait() { check(cudaStreamSynchronize(stream), "work on the device"); }

    void copy_pieces(Array<Piece> &array, int64_t run_count, const Run *runs) {
        const std::vector<Piece> pieces = pieces_of(runs, run_count);
        array.copy_from(stream, pieces.data(), int64_t(pieces.size()));
        wait();     // the copy must end before the lifetime of `pieces`
    }

    void use_sponge(int64_t run_count, const Run *runs, const double *factor) {
        copy_pieces(damped, run_count, runs);
        damping.copy_from(stream, factor, cells());
        wait();
    }

    void use_current(const double *east, const double *north, int sweeps_of_half) {
        c_east.copy_from(stream, east, cells());
        c_north.copy_from(stream, north, cells());
        right.allocate(stream, cells());
        sweeps = sweeps_of_half;
        wait();
    }

    void sweep(double own, double share, const double *right_side, const double *x, double *y) {
        on_cells(wet, Sweep{current(), own, share, right_side, x, y});
    }

    // As in currents.f90; overwrites rhs.
    void implicit_half(double own, double share, Array<double> &x) {
        for (int k = 0; k <= sweeps; ++k) {
            sweep(own, share, right, x, rhs);
            x.swap(rhs);
        }
    }

    void momentum(double span) {
        double *target = phi;
        if (c_east) {
            sweep(of_potential, span / p.dt, phi, phi, right);
            target = right;
        }
        on_cells(wet, Momentum{span, zeta, pressure, target});
        if (c_east) implicit_half(of_potential, span / p.dt, phi);
    }

    void right_hand_side_and_guess(const double *f) {
        const int old = newest;
        newest = (newest + 1) % 4;
        on_cells(wet, RightHandSideAndGuess{p.w_x, p.w_y, f[0], f[1], f[2], f[3], hd, phi, psi[old], psi[(old + 3) % 4],
                                            psi[(old + 2) % 4], psi[newest], rhs});
    }

    void elevation() {
        double *target = zeta;
        if (c_east) {
            sweep(of_elevation, 1, zeta, zeta, right);
            target = right;
        }
        on_cells(wet,
                 Elevation{p.w_x, p.w_y, p.dt / p.area, p.limit, h, hd, phi, psi[newest], target, &results->wild});
        if (c_east) implicit_half(of_elevation, 1, zeta);
        on_cells(damped, Damp{damping, zeta, phi});
    }

    // Returns whether an elevation was wild in any step before.
    bool place(int count, const Hull *hulls, Force *force) {
        Place place{p.grid, h, pressure, count, count + int(old_boxes.size()), {}, {}};
        ForceOfHull of_hull{p.grid, h, zeta, {}};
        for (int k = 0; k < count; ++k) {
            place.hull[k] = of_hull.hull[k] = hulls[k];
            place.box[k] = hulls[k].box;
        }
        for (size_t k = 0; k < old_boxes.size(); ++k) place.box[count + int(k)] = old_boxes[k];
        old_boxes.assign(place.box, place.box + count);
        reduce(stream, count * parts_of_force, of_hull, results->force);
        check(cudaEventRecord(forces_stored, stream), "event");
        for_each(stream, place.threads(), place);
        check(cudaEventSynchronize(forces_stored), "work on the device");
        for (int k = 0; k < count; ++k) {
            force[k] = {0, 0, 0};
            for (int part = 0; part < parts_of_force; ++part) force[k].join(results->force[k * parts_of_force + part]);
        }
        return results->wild != 0;
    }

    template <class Of> double over_cells(const Of &of, Array<typename Of::Value> &parts) {
        typename Of::Value value[parts_of_grid], joined = {0};
        reduce(stream, parts_of_grid, OverCells<Of>{wet_cells(), of}, parts);
        check(cudaMemcpyAsync(value, parts, sizeof value, cudaMemcpyDefault, stream), "copy");
        wait();
        for (const auto &part : value) joined.join(part);
        return joined.value;
    }

    double highest() { return over_cells(HeightOfCell{zeta}, maxima); }

    // Copies zeta and phi for `energy`, which is called after the next step.
    void remember() {
        zeta_before.copy_from(stream, zeta, cells());
        phi_before.copy_from(stream, phi, cells());
    }

    double energy() {
        return over_cells(EnergyOfCell{p.w_x, p.w_y, p.area, p.dt, current(), h, hd, phi, psi[newest], zeta_before,
                                       phi_before}, sums);
    }

    void frame(const int64_t *first, const int64_t *shown, int64_t every, double unit, int16_t *target) {
        const int64_t count = shown[0] * shown[1];
        if (heights.size() < count) heights.allocate(stream, count);
        for_each(stream, count, Frame{h, zeta, p.grid.nx, first[0], first[1], shown[0], every, unit, heights});
        check(cudaMemcpyAsync(target, heights, sizeof(int16_t) * size_t(count), cudaMemcpyDefault, stream), "copy");
        wait();
    }

    // `number` is a constant of device_waves.f90.
    double *field(int number) const {
        double *fields[] = {zeta, phi, psi[newest], rhs, pressure};
        return fields[number];
    }

    void copy(double *target, const double *source) {
        check(cudaMemcpyAsync(target, source, sizeof(double) * size_t(cells()), cudaMemcpyDefault, stream), "copy");
        wait();
    }
};

void select_device(int device) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver)
        throw std::runtime_error("there is no NVIDIA driver, or it is older than r580");
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
        throw std::runtime_error("there is no CUDA device on this machine");
    check(error, "number of devices");
    if (device >= count)
        throw std::runtime_error("this machine has " + std::to_string(count) + " CUDA devices, numbered from 0");
    check(cudaSetDevice(device), "use of the device");
}

std::string last_message;

// 1, or 0 after an error.
template <class Call> int32_t guarded(const Call &call) {
    try {
        call();
        return 1;
    } catch (const std::exception &error) {
        last_message = error.what();
        return 0;
    }
}

}     // namespace

extern "C" {

// Copies the message of the last error, with blanks after it.
void ship_waves_message(int64_t size, char *text) {
    for (int64_t k = 0; k < size; ++k) text[k] = k < int64_t(last_message.size()) ? last_message[size_t(k)] : ' ';
}

int32_t ship_waves_open(int32_t device, const Parameters *parameters, int64_t run_count, const Run *runs,
                        const double *h, const double *hd, Waves **waves, cudaStream_t *stream) {
    return guarded([&] {
        select_device(device);
        *waves = new Waves(*parameters, run_count, runs, h, hd);
        *stream = (*waves)->stream;
    });
}

int32_t ship_waves_use_sponge(Waves *waves, int64_t run_count, const Run *runs, const double *factor) {
    return guarded([&] { waves->use_sponge(run_count, runs, factor); });
}
int32_t ship_waves_use_current(Waves *waves, const double *east, const double *north, int32_t sweeps) {
    return guarded([&] { waves->use_current(east, north, sweeps); });
}
int32_t ship_waves_place(Waves *waves, int32_t count, const Hull *hulls, Force *force, int32_t *wild) {
    return guarded([&] { *wild = waves->place(count, hulls, force); });
}

// Starts all of a step before the solve; b and psi: addresses of the right-hand side and of the guess on the device.
int32_t ship_waves_before_solve(Waves *waves, double span, const double *factor, double **b, double **psi) {
    return guarded([&] {
        waves->momentum(span);
        waves->right_hand_side_and_guess(factor);
        *b = waves->rhs;
        *psi = waves->psi[waves->newest];
    });
}
int32_t ship_waves_wait(Waves *waves) { return guarded([&] { waves->wait(); }); }
int32_t ship_waves_after_solve(Waves *waves) { return guarded([&] { waves->elevation(); }); }

int32_t ship_waves_highest(Waves *waves, double *value) { return guarded([&] { *value = waves->highest(); }); }
int32_t ship_waves_remember(Waves *waves) { return guarded([&] { waves->remember(); }); }
int32_t ship_waves_energy(Waves *waves, double *value) { return guarded([&] { *value = waves->energy(); }); }

// first: column and row of the first cell, from 0; shown: columns and rows of `heights`.
int32_t ship_waves_frame(Waves *waves, const int64_t *first, const int64_t *shown, int64_t every, double unit,
                         int16_t *heights) {
    return guarded([&] { waves->frame(first, shown, every, unit, heights); });
}
int32_t ship_waves_fetch(Waves *waves, int32_t field, double *values) {
    return guarded([&] { waves->copy(values, waves->field(field)); });
}
int32_t ship_waves_store(Waves *waves, int32_t field, const double *values) {
    return guarded([&] { waves->copy(waves->field(field), values); });
}
void ship_waves_close(Waves *waves) { delete waves; }
}
