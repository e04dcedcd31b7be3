/* One domain on MPI ranks, as a user of the installed package solves it: groups of 1, 2, ... ranks share a grid that is
   divided in several ways. Exit status 0: all as documented. With --killed, a rank is killed instead. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include <rrbsolver_mpi.h>

#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NX = 61, NY = 47, NODES = NX * NY, BOXES = 4, PADDING = 2 };

/* With these options, the library makes no automatic selection. */
static const char *const options = "fusion=off precision=f64 cycle=v rel_tol=1e-9 comm_timeout=20";

/* The boxes of a rank, with their parts of arrays. Rows are padded with NaN. */
typedef struct {
    int64_t count, lower[BOXES][2], size[BOXES][2], leading_dimensions[BOXES];
} boxes;

typedef double parts[BOXES][(NX + PADDING) * NY];

static double center[NODES], east[NODES], north[NODES], b[NODES], expected[NODES];

static void make_system(void) {
    for (int k = 0; k < NODES; k++) {
        const int i = k % NX, j = k / NX;
        east[k] = i + 1 < NX ? -1.0 - (7 * i + 3 * j) % 5 : 0;
        north[k] = j + 1 < NY ? -1.0 - (5 * i + 2 * j) % 7 : 0;
        b[k] = (11 * i + 13 * j) % 17 - 8;
        center[k] = 0.05 - east[k] - north[k] - (i > 0 ? east[k - 1] : 0) - (j > 0 ? north[k - NX] : 0);
    }
}

static void solve_alone(void) {
    rrb_handle *h = NULL;
    CHECK(rrb_create(NX, NY, &h) == RRB_OK && rrb_set_options(h, options) == RRB_OK);
    CHECK(rrb_factorize(h, center, east, north, NULL, NULL) == RRB_OK);
    CHECK(rrb_solve(h, b, expected) == RRB_OK);
    CHECK(rrb_destroy(&h) == RRB_OK);
}

/* Divides the grid into px x py bricks, distributed cyclically to the ranks. */
static boxes bricks(int px, int py, int rank, int ranks) {
    boxes own = {0, {{0}}, {{0}}, {0}};
    for (int k = rank; k < px * py; k += ranks, own.count++) {
        const int place[2] = {k % px, k / px}, of[2] = {px, py}, extent[2] = {NX, NY};
        for (int d = 0; d < 2; d++) {
            own.lower[own.count][d] = extent[d] * place[d] / of[d];
            own.size[own.count][d] = extent[d] * (place[d] + 1) / of[d] - own.lower[own.count][d];
        }
        own.leading_dimensions[own.count] = own.size[own.count][0] + PADDING;
    }
    return own;
}

static void cut(const boxes *own, const double *whole, parts to, double **list) {
    for (int64_t k = 0; k < own->count; k++) {
        const int64_t ld = own->leading_dimensions[k];
        for (int64_t p = 0; p < ld * own->size[k][1]; p++) {
            const int64_t i = own->lower[k][0] + p % ld, j = own->lower[k][1] + p / ld;
            to[k][p] = p % ld < own->size[k][0] ? whole[j * NX + i] : NAN;
        }
        list[k] = to[k];
    }
}

static void paste(const boxes *own, parts from, double *whole) {
    for (int64_t k = 0; k < own->count; k++) {
        for (int64_t j = 0; j < own->size[k][1]; j++) {
            memcpy(&whole[(own->lower[k][1] + j) * NX + own->lower[k][0]], &from[k][j * own->leading_dimensions[k]],
                   (size_t)own->size[k][0] * sizeof(double));
        }
    }
}

static rrb_handle *factorized(const boxes *own, const rrbsolver_comm *comm) {
    static parts c, e, n;
    double *cs[BOXES], *es[BOXES], *ns[BOXES];
    rrb_handle *h = NULL;
    CHECK(rrb_create_distributed(NX, NY, own->count, own->lower, own->size, comm, &h) == RRB_OK);
    CHECK(rrb_set_options(h, options) == RRB_OK);
    cut(own, center, c, cs);
    cut(own, east, e, es);
    cut(own, north, n, ns);
    CHECK(rrb_factorize_boxes(h, own->leading_dimensions, (const double *const *)cs, (const double *const *)es,
                              (const double *const *)ns, NULL, NULL) == RRB_OK);
    return h;
}

static rrb_status solve(rrb_handle *h, const boxes *own, const double *right, double *x) {
    static parts of_b, of_x;
    double *bs[BOXES], *xs[BOXES];
    cut(own, right, of_b, bs);
    cut(own, x, of_x, xs);
    const rrb_status status = rrb_solve_boxes(h, own->leading_dimensions, (const double *const *)bs, xs);
    paste(own, of_x, x);
    return status;
}

/* A group solves on these boxes, and rank 0 compares the solution with that of one rank. */
static void check_bits(MPI_Comm group, int px, int py) {
    static double x[NODES], whole[NODES];
    int rank, ranks;
    rrbsolver_comm comm;
    MPI_Comm_rank(group, &rank);
    MPI_Comm_size(group, &ranks);
    CHECK(rrbsolver_mpi_comm(group, &comm) == MPI_SUCCESS && comm.rank == rank && comm.size == ranks);
    const boxes own = bricks(px, py, rank, ranks);
    rrb_handle *h = factorized(&own, &comm);
    memset(x, 0, sizeof x);
    CHECK(solve(h, &own, b, x) == RRB_OK);
    /* x is 0 outside the boxes of a rank, so the sums are exact. */
    MPI_Reduce(x, whole, NODES, MPI_DOUBLE, MPI_SUM, 0, group);
    CHECK(rank != 0 || memcmp(whole, expected, sizeof whole) == 0);

    /* A NaN on one rank: all ranks return the same status and can continue. */
    static double wrong[NODES];
    memcpy(wrong, b, sizeof b);
    wrong[NODES - 1] = NAN;
    CHECK(solve(h, &own, wrong, x) == RRB_ERR_NOT_FINITE);
    CHECK(solve(h, &own, b, x) == RRB_OK);
    CHECK(rrb_destroy(&h) == RRB_OK);
    rrbsolver_mpi_free(&comm);
    CHECK(comm.context == NULL && comm.exchange == NULL);
}

/* Factorizes the grid in strips of rows on a group, with this timeout for missing ranks. */
static rrb_handle *in_rows(MPI_Comm group, double timeout, rrbsolver_comm *comm, boxes *own) {
    CHECK(rrbsolver_mpi_comm(group, comm) == MPI_SUCCESS);
    *own = bricks(1, comm->size, comm->rank, comm->size);
    rrb_handle *h = factorized(own, comm);
    CHECK(rrb_set_real(h, RRB_OPT_COMM_TIMEOUT, timeout) == RRB_OK);
    return h;
}

/* The last rank does not take part: the other ranks time out. */
static void check_missing(MPI_Comm group) {
    static double x[NODES];
    rrbsolver_comm comm;
    boxes own;
    rrb_handle *h = in_rows(group, 0.3, &comm, &own);
    if (comm.rank + 1 < comm.size) {
        const double since = MPI_Wtime();
        CHECK(solve(h, &own, b, x) == RRB_ERR_COMMUNICATION);
        CHECK(MPI_Wtime() - since < 10);
        CHECK(solve(h, &own, b, x) == RRB_ERR_COMMUNICATION);
    }
    CHECK(rrb_destroy(&h) == RRB_OK);
    rrbsolver_mpi_free(&comm);
}

/* The last rank is killed between two solves, while the others wait for it in the second solve. The others time out.
   MPI, which has lost a rank, then ends the program. */
static void check_killed(MPI_Comm group) {
    static double x[NODES];
    rrbsolver_comm comm;
    boxes own;
    rrb_handle *h = in_rows(group, 1, &comm, &own);
    CHECK(solve(h, &own, b, x) == RRB_OK);
    if (comm.rank + 1 == comm.size) {
        raise(SIGKILL);
    }
    const double since = MPI_Wtime();
    CHECK(solve(h, &own, b, x) == RRB_ERR_COMMUNICATION);
    CHECK(MPI_Wtime() - since < 10);
    CHECK(rrb_destroy(&h) == RRB_OK);
    printf("rank %d has missed the one that was killed\n", (int)comm.rank);
    fflush(stdout);
    _exit(0);
}

static void run(const rrbsolver_comm *comm, void *plan) {
    int32_t done = 0;
    CHECK(comm->start(comm->context, plan, NULL) == 0);
    while (!done) {
        CHECK(comm->test(comm->context, plan, &done) == 0);
    }
}

/* Exchanges short and long messages in a ring: each rank sends to the right and receives from the left. */
static void check_ring(const rrbsolver_comm *comm, size_t count) {
    double *values = malloc(2 * count * sizeof *values);
    void *plan = NULL;
    CHECK(values != NULL);
    const int64_t bytes = (int64_t)(count * sizeof *values);
    const int32_t left = (comm->rank + comm->size - 1) % comm->size;
    const rrbsolver_message messages[2] = {{(comm->rank + 1) % comm->size, 3, bytes, 0, values, NULL},
                                           {left, 3, 0, bytes, NULL, values + count}};
    CHECK(comm->exchange(comm->context, 2, messages, &plan) == 0);
    for (int turn = 0; turn < 3; turn++) {
        for (size_t k = 0; k < count; k++) {
            values[k] = comm->rank + turn + (double)k;
        }
        run(comm, plan);
        for (size_t k = 0; k < count; k++) {
            CHECK(values[count + k] == left + turn + (double)k);
        }
    }
    CHECK(comm->release(comm->context, plan) == 0);
    free(values);
}

/* Computes a maximum and a sum. Gathers from ranks of which some send nothing, and bytes that are no doubles. */
static void check_collective(const rrbsolver_comm *comm) {
    double values[2];
    char sent[9] = "123456789", received[9 * BOXES + 1] = "";
    int64_t bytes[BOXES] = {0};
    void *plan = NULL;
    CHECK(comm->size <= BOXES);
    for (int32_t operation = 0; operation < 2; operation++) {
        CHECK(comm->allreduce(comm->context, 2, values, operation, &plan) == 0);
        values[0] = comm->rank;
        values[1] = -comm->rank;
        run(comm, plan);
        CHECK(values[0] == (operation == 0 ? comm->size * (comm->size - 1) / 2 : comm->size - 1));
        CHECK(operation == 0 || values[1] == 0);
        CHECK(comm->release(comm->context, plan) == 0);
    }
    CHECK(comm->allreduce(comm->context, 1, values, 3, &plan) != 0);
    for (int32_t k = 0; k < comm->size; k++) {
        bytes[k] = k == 1 ? 0 : 9;
    }
    CHECK(comm->allgather(comm->context, sent, received, bytes, &plan) == 0);
    run(comm, plan);
    CHECK(strlen(received) == (size_t)(comm->size == 1 ? 9 : 9 * (comm->size - 1)));
    CHECK(comm->release(comm->context, plan) == 0);
}

/* The communicator table alone, also with an exchange with oneself, empty sides, and plans that never complete. */
static void check_table(MPI_Comm group) {
    rrbsolver_comm comm;
    double values[3] = {1, 2, 3};
    int32_t done = 0;
    void *plan = NULL, *never = NULL;
    CHECK(rrbsolver_mpi_comm(group, NULL) == MPI_ERR_ARG && rrbsolver_mpi_comm(MPI_COMM_NULL, &comm) == MPI_ERR_COMM);
    CHECK(rrbsolver_mpi_comm_f((int32_t)MPI_Comm_c2f(group), &comm) == MPI_SUCCESS);
    check_ring(&comm, 5);
    check_ring(&comm, 200000);
    check_collective(&comm);
    const rrbsolver_message messages[3] = {
        {comm.rank, 5, 8, 0, &values[0], NULL},
        {comm.rank, 5, 0, 8, NULL, &values[2]},
        {comm.rank, 6, 0, 0, NULL, NULL}};
    CHECK(comm.exchange(comm.context, 3, messages, &plan) == 0);
    run(&comm, plan);
    CHECK(values[2] == 1);
    CHECK(comm.release(comm.context, plan) == 0);
    /* No rank sends this message. */
    CHECK(comm.exchange(comm.context, 1, &messages[1], &never) == 0 && comm.start(comm.context, never, NULL) == 0);
    CHECK(comm.test(comm.context, never, &done) == 0 && !done);
    CHECK(comm.release(comm.context, never) == 0);
    rrbsolver_mpi_free(&comm);
    rrbsolver_mpi_free(&comm);
    rrbsolver_mpi_free(NULL);
}

int main(int argc, char **argv) {
    int rank, ranks;
    rrbsolver_comm comm;
    CHECK(rrbsolver_mpi_comm(MPI_COMM_WORLD, &comm) == MPI_ERR_OTHER);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    make_system();
    solve_alone();
    if (argc > 1 && strcmp(argv[1], "--killed") == 0) {
        check_killed(MPI_COMM_WORLD);
    }
    for (int n = 1; n <= ranks; n++) {
        MPI_Comm group;
        MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &group);
        if (group != MPI_COMM_NULL) {
            check_table(group);
            check_bits(group, 1, n);
            check_bits(group, n, 1);
            check_bits(group, 2, 2);
            /* One rank has no box. */
            check_bits(group, 1, n > 1 ? n - 1 : 1);
            MPI_Comm_free(&group);
        }
    }
    check_missing(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("one domain over up to %d ranks in C: all as documented\n", ranks);
    }
    MPI_Finalize();
    return 0;
}
