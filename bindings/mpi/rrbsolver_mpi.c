/* rrbsolver_mpi.c: implements rrbsolver_comm with MPI; see rrbsolver_mpi.h. C99, and MPI 3.0 or newer.
 *
 * Exchanges use persistent requests. Collective operations are nonblocking and not persistent: persistent ones need
 * MPI 4. */
#include "rrbsolver_mpi.h"

#include <limits.h>
#include <stdlib.h>

/* Shared by a table and its plans. */
typedef struct {
    MPI_Comm comm;
    int64_t users; /* reference count: the table and all plans */
    int lost;      /* a plan was released before it was complete */
} shared_comm;

enum kind { EXCHANGE, ALLREDUCE, ALLGATHER };

/* An operation that `start` can start repeatedly. */
typedef struct {
    shared_comm *of;
    enum kind kind;
    int started; /* started, and not known to be complete */
    /* Exchange: persistent requests, receives first. Collective operation: its one request. */
    int requests, receives;
    MPI_Request *request;
    MPI_Op operation;
    int *counts, *offsets; /* allgather: one per rank; allreduce: one count */
    MPI_Datatype type;
    const void *send;
    void *receive;
} plan;

static int outside_of_mpi(void) {
    int begun = 0, over = 0;
    return MPI_Initialized(&begun) != MPI_SUCCESS || !begun || MPI_Finalized(&over) != MPI_SUCCESS || over;
}

/* MPI counts are int: at most 2 GiB in bytes, 16 GiB in doubles. */
static MPI_Datatype unit(int64_t bytes) { return bytes % (int64_t)sizeof(double) == 0 ? MPI_DOUBLE : MPI_BYTE; }

static int count_of(int64_t bytes, MPI_Datatype type, int *count) {
    const int64_t units = type == MPI_DOUBLE ? bytes / (int64_t)sizeof(double) : bytes;
    if (units < 0 || units > INT_MAX) {
        return MPI_ERR_COUNT;
    }
    *count = (int)units;
    return MPI_SUCCESS;
}

static void leave(shared_comm *of) {
    if (--of->users > 0) {
        return;
    }
    /* MPI_Comm_free is collective: with a lost rank it might never return. */
    if (!of->lost && !outside_of_mpi()) {
        MPI_Comm_free(&of->comm);
    }
    free(of);
}

/* Allocates a plan for `requests` requests and `counts` counts. */
static plan *new_plan(shared_comm *of, enum kind kind, size_t requests, size_t counts) {
    plan *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    /* One more: malloc(0) may return NULL. */
    p->request = malloc((requests + 1) * sizeof *p->request);
    p->counts = calloc(2 * counts + 1, sizeof *p->counts);
    if (p->request == NULL || p->counts == NULL) {
        free(p->request);
        free(p->counts);
        free(p);
        return NULL;
    }
    for (size_t k = 0; k < requests; k++) {
        p->request[k] = MPI_REQUEST_NULL;
    }
    p->offsets = p->counts + counts;
    p->of = of;
    p->kind = kind;
    of->users++;
    return p;
}

static int free_request(MPI_Request *request, int cancels) {
    int done = 1;
    /* An inactive request must not be cancelled, and some may be complete. */
    if (cancels && MPI_Request_get_status(*request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        MPI_Cancel(request);
    }
    return MPI_Request_free(request);
}

static int32_t release(void *context, void *opaque) {
    plan *p = opaque;
    int code = MPI_SUCCESS;
    (void)context; /* the plan has it, and may outlive the table */
    if (p->started) {
        p->of->lost = 1;
    }
    /* A started collective operation cannot be cancelled: its request is not freed. Sends complete without their
     * requests; MPI 4 deprecates cancelling them. */
    if (p->kind == EXCHANGE && !outside_of_mpi()) {
        for (int k = 0; k < p->requests; k++) {
            const int answer = free_request(&p->request[k], p->started && k < p->receives);
            code = code != MPI_SUCCESS ? code : answer;
        }
    }
    leave(p->of);
    free(p->request);
    if (!(p->started && p->kind == ALLGATHER)) {
        free(p->counts); /* else MPI may still read them */
    }
    free(p);
    return code;
}

/* Stores the plan in `out`, or frees it after an error. */
static int32_t made(plan *p, int code, void **out) {
    if (code != MPI_SUCCESS) {
        release(NULL, p);
        return code;
    }
    *out = p;
    return MPI_SUCCESS;
}

/* Adds the send or the receive of a message; an empty one needs no request. */
static int add(plan *p, const rrbsolver_message *m, int sends) {
    const int64_t bytes = sends ? m->send_bytes : m->receive_bytes;
    const MPI_Datatype type = unit(bytes);
    const MPI_Comm comm = p->of->comm;
    MPI_Request *request = &p->request[p->requests];
    int count = 0;
    int code = count_of(bytes, type, &count);
    if (code != MPI_SUCCESS || count == 0) {
        return code;
    }
    code = sends ? MPI_Send_init(m->send, count, type, m->peer, m->tag, comm, request)
                 : MPI_Recv_init(m->receive, count, type, m->peer, m->tag, comm, request);
    p->requests += code == MPI_SUCCESS;
    return code;
}

static int32_t exchange(void *context, int64_t count, const rrbsolver_message *messages, void **out) {
    if (count < 0 || count > INT_MAX / 2) {
        return MPI_ERR_COUNT;
    }
    plan *p = new_plan(context, EXCHANGE, 2 * (size_t)count, 0);
    if (p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int code = MPI_SUCCESS;
    for (int64_t k = 0; k < count && code == MPI_SUCCESS; k++) {
        code = add(p, &messages[k], 0);
    }
    p->receives = p->requests;
    for (int64_t k = 0; k < count && code == MPI_SUCCESS; k++) {
        code = add(p, &messages[k], 1);
    }
    return made(p, code, out);
}

static int32_t allreduce(void *context, int64_t count, double *values, int32_t operation, void **out) {
    const MPI_Op operations[3] = {MPI_SUM, MPI_MAX, MPI_MIN};
    if (operation < 0 || operation > 2) {
        return MPI_ERR_OP;
    }
    if (count < 0 || count > INT_MAX) {
        return MPI_ERR_COUNT;
    }
    plan *p = new_plan(context, ALLREDUCE, 1, 1);
    if (p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    p->requests = 1;
    p->operation = operations[operation];
    p->counts[0] = (int)count;
    p->receive = values;
    return made(p, MPI_SUCCESS, out);
}

static int32_t allgather(void *context, const void *send, void *receive, const int64_t *bytes, void **out) {
    shared_comm *of = context;
    int size = 0;
    int code = MPI_Comm_size(of->comm, &size);
    if (code != MPI_SUCCESS) {
        return code;
    }
    plan *p = new_plan(of, ALLGATHER, 1, (size_t)size);
    if (p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    /* All ranks have the same list, thus the same unit. */
    p->type = MPI_DOUBLE;
    for (int k = 0; k < size; k++) {
        p->type = unit(bytes[k]) == MPI_BYTE ? MPI_BYTE : p->type;
    }
    int64_t before = 0;
    for (int k = 0; k < size && code == MPI_SUCCESS; k++) {
        code = count_of(before, p->type, &p->offsets[k]);
        code = code != MPI_SUCCESS ? code : count_of(bytes[k], p->type, &p->counts[k]);
        before += bytes[k];
    }
    p->requests = 1;
    p->send = send;
    p->receive = receive;
    return made(p, code, out);
}

static int32_t start(void *context, void *opaque, void *cuda_stream) {
    plan *p = opaque;
    const MPI_Comm comm = p->of->comm;
    int rank = 0;
    int code = MPI_SUCCESS;
    (void)context;
    (void)cuda_stream; /* flags = 0 */
    /* Also after an error: some of the requests may be active. */
    p->started = 1;
    switch (p->kind) {
    case EXCHANGE:
        return p->requests > 0 ? MPI_Startall(p->requests, p->request) : MPI_SUCCESS;
    case ALLREDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, p->receive, p->counts[0], MPI_DOUBLE, p->operation, comm, p->request);
    default:
        code = MPI_Comm_rank(comm, &rank);
        return code != MPI_SUCCESS ? code
                                   : MPI_Iallgatherv(p->send, p->counts[rank], p->type, p->receive, p->counts,
                                                     p->offsets, p->type, comm, p->request);
    }
}

static int32_t test(void *context, void *opaque, int32_t *done) {
    plan *p = opaque;
    int flag = 1;
    (void)context;
    /* Not MPI_Testall: gcc warns about MPI_STATUSES_IGNORE of MPICH. */
    for (int k = 0; k < p->requests && p->started && flag; k++) {
        const int code = MPI_Test(&p->request[k], &flag, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            return code;
        }
    }
    p->started = p->started && !flag;
    *done = flag;
    return MPI_SUCCESS;
}

int32_t rrbsolver_mpi_comm(MPI_Comm comm, rrbsolver_comm *out) {
    int rank = 0, size = 0, between = 0;
    if (out == NULL) {
        return MPI_ERR_ARG;
    }
    if (outside_of_mpi()) {
        return MPI_ERR_OTHER;
    }
    /* With the default error handler, MPI_Comm_dup would abort the program for these. */
    if (comm == MPI_COMM_NULL || MPI_Comm_test_inter(comm, &between) != MPI_SUCCESS || between) {
        return MPI_ERR_COMM;
    }
    shared_comm *of = calloc(1, sizeof *of);
    if (of == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int code = MPI_Comm_dup(comm, &of->comm);
    if (code != MPI_SUCCESS) {
        free(of);
        return code;
    }
    of->users = 1;
    code = MPI_Comm_set_errhandler(of->comm, MPI_ERRORS_RETURN);
    code = code != MPI_SUCCESS ? code : MPI_Comm_rank(of->comm, &rank);
    code = code != MPI_SUCCESS ? code : MPI_Comm_size(of->comm, &size);
    if (code != MPI_SUCCESS) {
        leave(of);
        return code;
    }
    const rrbsolver_comm table = {sizeof table, of,        rank,      size,  0,    0,
                                  exchange,     allreduce, allgather, start, test, release};
    *out = table;
    return MPI_SUCCESS;
}

int32_t rrbsolver_mpi_comm_f(int32_t comm, rrbsolver_comm *out) {
#if MPI_VERSION >= 5
    /* The MPI 5 ABI has no MPI_Fint. */
    return rrbsolver_mpi_comm(MPI_Comm_fromint(comm), out);
#else
    return rrbsolver_mpi_comm(MPI_Comm_f2c((MPI_Fint)comm), out);
#endif
}

void rrbsolver_mpi_free(rrbsolver_comm *comm) {
    if (comm == NULL) {
        return;
    }
    if (comm->context != NULL) {
        leave(comm->context);
    }
    const rrbsolver_comm none = {0, NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL};
    *comm = none;
}
