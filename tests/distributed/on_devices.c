/* One domain on MPI ranks whose systems rank 0 solves on devices. Each rank has a strip of rows, in the memory of its
   own device or of the host. Prints times, and whether x is bitwise identical to one handle for the whole grid. Exit
   status 0: all as documented.

       mpirun -n RANKS on_devices NX NY device|host OPTIONS [REPEATS [alone]]

   With `alone`, rank 0 also solves the whole system with rrb_create and the same options, and x is compared. */
#include <rrbsolver_mpi.h>

#include "../install/check.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions of the CUDA driver. */
typedef int (*init_fn)(unsigned);
typedef int (*count_fn)(int *);
typedef int (*get_fn)(int *, int);
typedef int (*retain_fn)(void **, int);
typedef int (*current_fn)(void *);
typedef int (*alloc_fn)(uint64_t *, size_t);
typedef int (*free_fn)(uint64_t);
typedef int (*to_fn)(uint64_t, const void *, size_t, void *);
typedef int (*from_fn)(void *, uint64_t, size_t, void *);
typedef int (*wait_fn)(void *);

static void *driver;

static void (*find(const char *name))(void) {
    void (*function)(void);
    void *found = dlsym(driver, name);
    CHECK(found != NULL);
    memcpy(&function, &found, sizeof function);
    return function;
}
#define CALL(type, name) ((type)find(name))

static int open_device(int rank) {
    int count = 0, device = 0;
    void *context = NULL;
    driver = dlopen("libcuda.so", RTLD_NOW);
    if (driver == NULL) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    }
    CHECK(driver != NULL);
    CHECK(CALL(init_fn, "cuInit")(0) == 0 && CALL(count_fn, "cuDeviceGetCount")(&count) == 0 && count > 0);
    CHECK(CALL(get_fn, "cuDeviceGet")(&device, rank % count) == 0);
    CHECK(CALL(retain_fn, "cuDevicePrimaryCtxRetain")(&context, device) == 0);
    CHECK(CALL(current_fn, "cuCtxSetCurrent")(context) == 0);
    return count;
}

/* An array of this rank, on its device or on the host. */
typedef struct {
    int on_device;
    size_t bytes;
    double *address;
} array;

static array put(const double *values, size_t count, int on_device) {
    array made = {on_device, count * sizeof *values, NULL};
    if (on_device) {
        uint64_t address = 0;
        CHECK(CALL(alloc_fn, "cuMemAlloc_v2")(&address, made.bytes) == 0);
        CHECK(CALL(to_fn, "cuMemcpyHtoDAsync_v2")(address, values, made.bytes, NULL) == 0);
        CHECK(CALL(wait_fn, "cuStreamSynchronize")(NULL) == 0);
        made.address = (double *)(uintptr_t)address;
    } else {
        made.address = malloc(made.bytes);
        CHECK(made.address != NULL);
        memcpy(made.address, values, made.bytes);
    }
    return made;
}

static void get(double *values, const array *from) {
    if (from->on_device) {
        CHECK(CALL(from_fn, "cuMemcpyDtoHAsync_v2")(values, (uint64_t)(uintptr_t)from->address, from->bytes, NULL) == 0);
        CHECK(CALL(wait_fn, "cuStreamSynchronize")(NULL) == 0);
    } else {
        memcpy(values, from->address, from->bytes);
    }
}

static void drop(array *a) {
    if (a->on_device) {
        CHECK(CALL(free_fn, "cuMemFree_v2")((uint64_t)(uintptr_t)a->address) == 0);
    } else {
        free(a->address);
    }
}

/* Variable coefficients of node (i, j) of the whole grid. */
static double mixed(int64_t i, int64_t j, int64_t which) {
    uint64_t word = (uint64_t)i * 0x9e3779b97f4a7c15u ^ (uint64_t)j * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)which << 60;
    word = (word ^ word >> 31) * 0x94d049bb133111ebu;
    return (double)(word >> 11) / 9007199254740992.0;
}

static double east_of(int64_t nx, int64_t i, int64_t j) { return i < 0 || i + 1 >= nx ? 0 : -0.5 - mixed(i, j, 1); }
static double north_of(int64_t ny, int64_t i, int64_t j) { return j < 0 || j + 1 >= ny ? 0 : -0.5 - mixed(i, j, 2); }

enum { CENTER, EAST, NORTH, B, X, ARRAYS };

/* Creates rows [from, to) of all arrays. */
static void make(array *arrays, int64_t nx, int64_t ny, int64_t from, int64_t to, int on_device) {
    const size_t count = (size_t)(nx * (to - from));
    double *values = malloc((count > 0 ? count : 1) * sizeof *values);
    CHECK(values != NULL);
    for (int which = 0; which < ARRAYS; which++) {
        double *next = values;
        for (int64_t j = from; j < to; j++) {
            for (int64_t i = 0; i < nx; i++) {
                const double e = east_of(nx, i, j), n = north_of(ny, i, j);
                const double sum = e + n + east_of(nx, i - 1, j) + north_of(ny, i, j - 1);
                const double of[ARRAYS] = {1e-4 - sum, e, n, mixed(i, j, 3) - 0.5, 0};
                *next++ = of[which];
            }
        }
        arrays[which] = put(values, count, on_device);
    }
    free(values);
}

/* Computes a checksum of the bits that does not depend on the partition: the checksums of parts add up. */
static uint64_t sum_of_bits(const array *x, int64_t nx, int64_t from) {
    const size_t count = x->bytes / sizeof(double);
    double *values = malloc(x->bytes);
    uint64_t sum = 0;
    CHECK(values != NULL);
    get(values, x);
    for (size_t k = 0; k < count; k++) {
        uint64_t word;
        memcpy(&word, &values[k], sizeof word);
        word ^= ((uint64_t)(from * nx) + k) * 0x9e3779b97f4a7c15u;
        sum += (word ^ word >> 29) * 0xbf58476d1ce4e5b9u;
    }
    free(values);
    return sum;
}

static void clear(array *x) {
    double *zeros = calloc(x->bytes / sizeof *zeros, sizeof *zeros);
    CHECK(zeros != NULL);
    if (x->on_device) {
        CHECK(CALL(to_fn, "cuMemcpyHtoDAsync_v2")((uint64_t)(uintptr_t)x->address, zeros, x->bytes, NULL) == 0);
        CHECK(CALL(wait_fn, "cuStreamSynchronize")(NULL) == 0);
    } else {
        memcpy(x->address, zeros, x->bytes);
    }
    free(zeros);
}

/* Factorizes and solves `repeats` times; rank 0 prints the best times. Returns the checksum of this rank's x. */
static uint64_t run(MPI_Comm group, rrb_handle *h, array *a, int64_t nx, int64_t from, int repeats, const char *name) {
    double best[2] = {INFINITY, INFINITY};
    int64_t iterations = 0;
    int rank;
    MPI_Comm_rank(group, &rank);
    for (int turn = 0; turn < repeats; turn++) {
        clear(&a[X]);
        MPI_Barrier(group);
        const double since = MPI_Wtime();
        CHECK(rrb_factorize(h, a[CENTER].address, a[EAST].address, a[NORTH].address, NULL, NULL) == RRB_OK);
        MPI_Barrier(group);
        const double between = MPI_Wtime();
        const rrb_status status = rrb_solve(h, a[B].address, a[X].address);
        CHECK(status == RRB_OK);
        MPI_Barrier(group);
        best[0] = fmin(best[0], between - since);
        best[1] = fmin(best[1], MPI_Wtime() - between);
    }
    CHECK(rrb_get_int(h, RRB_INFO_ITERATIONS, &iterations) == RRB_OK);
    if (rank == 0) {
        double own = 0;
        CHECK(rrb_get_real(h, RRB_INFO_SECONDS_SOLVE, &own) == RRB_OK);
        printf("%-12s %5d iterations, factorize %9.3f ms, solve %9.3f ms, of that the first rank's %9.3f ms\n", name,
               (int)iterations, 1e3 * best[0], 1e3 * best[1], 1e3 * own);
        fflush(stdout);
    }
    return sum_of_bits(&a[X], nx, from);
}

int main(int argc, char **argv) {
    int rank, ranks;
    rrbsolver_comm comm;
    rrb_handle *h = NULL;
    array arrays[ARRAYS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(argc >= 5);
    const int64_t nx = atoll(argv[1]), ny = atoll(argv[2]);
    const int on_device = strcmp(argv[3], "device") == 0, repeats = argc > 5 ? atoi(argv[5]) : 1;
    if (on_device) {
        open_device(rank);
    }
    const int64_t lower[1][2] = {{0, ny * rank / ranks}}, size[1][2] = {{nx, ny * (rank + 1) / ranks - lower[0][1]}};
    make(arrays, nx, ny, lower[0][1], lower[0][1] + size[0][1], on_device);
    CHECK(rrbsolver_mpi_comm(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    CHECK(rrb_create_distributed(nx, ny, size[0][1] > 0, lower, size, &comm, &h) == RRB_OK);
    CHECK(rrb_set_options(h, argv[4]) == RRB_OK);
    uint64_t own = run(MPI_COMM_WORLD, h, arrays, nx, lower[0][1], repeats, "ranks"), whole = 0;
    CHECK(rrb_destroy(&h) == RRB_OK);
    for (int which = 0; which < ARRAYS; which++) {
        drop(&arrays[which]);
    }
    MPI_Reduce(&own, &whole, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && argc > 6) {
        make(arrays, nx, ny, 0, ny, on_device);
        CHECK(rrb_create(nx, ny, &h) == RRB_OK && rrb_set_options(h, argv[4]) == RRB_OK);
        CHECK(run(MPI_COMM_SELF, h, arrays, nx, 0, repeats, "one") == whole);
        CHECK(rrb_destroy(&h) == RRB_OK);
        for (int which = 0; which < ARRAYS; which++) {
            drop(&arrays[which]);
        }
    }
    rrbsolver_mpi_free(&comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%lld x %lld on %d ranks, arrays on the %s: x %016llx%s\n", (long long)nx, (long long)ny, ranks, argv[3],
               (unsigned long long)whole, argc > 6 ? ", that of one" : "");
    }
    MPI_Finalize();
    return 0;
}
