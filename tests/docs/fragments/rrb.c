// Declarations for the examples of rrb_ on the reference pages: a factorized handle, its arrays, and a communicator
// table of one rank.
#include <rrbsolver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { nx = 40, ny = 30 };
static double center[nx * ny], east[nx * ny], north[nx * ny], northeast[nx * ny], northwest[nx * ny];
static double b[nx * ny], x[nx * ny], r[nx * ny], z[nx * ny], y[nx * ny];

static int32_t print_residual(void *user, int64_t iteration, double relative_residual) {
    printf("%d %.2e\n", (int)iteration, relative_residual);
    return 0;
}

// Communication of a single rank: a gather copies only its own values.
struct plan {
    const void *from;
    void *to;
    int64_t bytes;
};
static int32_t new_plan(const void *from, void *to, int64_t bytes, void **out) {
    struct plan *plan = malloc(sizeof *plan);
    if (plan) *plan = (struct plan){from, to, bytes};
    return (*out = plan) ? 0 : 1;
}
static int32_t exchange(void *c, int64_t count, const rrbsolver_message *messages, void **plan) {
    return new_plan(NULL, NULL, 0, plan);
}
static int32_t allreduce(void *c, int64_t count, double *values, int32_t operation, void **plan) {
    return new_plan(NULL, NULL, 0, plan);
}
static int32_t allgather(void *c, const void *send, void *receive, const int64_t *bytes, void **plan) {
    return new_plan(send, receive, bytes[0], plan);
}
static int32_t start(void *c, void *plan, void *stream) {
    struct plan *p = plan;
    if (p->bytes > 0 && p->to != p->from) memmove(p->to, p->from, (size_t)p->bytes);
    return 0;
}
static int32_t test(void *c, void *plan, int32_t *done) { return *done = 1, 0; }
static int32_t release(void *c, void *plan) { return free(plan), 0; }

int main(void) {
    const rrbsolver_comm one_rank = {sizeof one_rank, NULL, 0, 1, 0, 0, exchange, allreduce, allgather, start, test, release};
    rrb_handle *solver = NULL;
    for (int k = 0; k < nx * ny; k++) {
        center[k] = 8, east[k] = north[k] = -1, northeast[k] = northwest[k] = -0.5;
        b[k] = r[k] = 1;
    }
    int status = rrb_create(nx, ny, &solver);
    if (status == RRB_OK) status = rrb_factorize(solver, center, east, north, NULL, NULL);
    if (status < 0) return 2;
    {
@BODY@
    }
    rrb_destroy(&solver);
    return status < 0;
}
