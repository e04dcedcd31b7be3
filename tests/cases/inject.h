/* Common parts of programs that let memory requests fail: counting of requests, and one process per failure. The
   including file defines `struct solutions` first, which child processes share. */

#include "failmalloc.h"
#include <rrbsolver.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t at_least;
static long most_sites;

/* Results of child processes, in memory that all processes share. */
static struct {
    /* Number of memory requests in the watched phase. */
    long requests;
    struct solutions solutions;
} *results;

/* In a child: which requests fail, and whether a check failed. */
static long refuse_at = -1;
static int refuse_onwards;
static int wrong;
static char place[256];

/* Whether no call of the library precedes the calls of a case. */
static int first_call_is_watched;

enum { ALIVE = 0, WRONG = 1, REFUSED = 2 };

static void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s: request %ld%s: ", place, refuse_at, refuse_onwards ? " and all that follow" : "");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
    wrong = 1;
}

/* Phase of a case in which memory requests fail. The calls of the phase are between `refuse` and `watched`. */
static int phase_now;
static int phase_wanted;

/* Begins the next phase; call it before the call under test. */
static void refuse(int phase)
{
    phase_now = phase;
    if (phase == phase_wanted)
        failmalloc_begin(at_least, refuse_at, refuse_onwards);
}

static int last_status;

/* Expected status of the watched call if memory suffices. */
static rrb_status expected_status = RRB_OK;

/* Checks the status of the call under test. Returns true if the call failed. */
static int watched(rrb_status status)
{
    if (phase_now == phase_wanted) {
        /* The error message is requested while memory requests still fail. */
        char sentence[400] = "";
        if (status < 0)
            rrbsolver_last_error(sentence, sizeof sentence);
        results->requests = failmalloc_end();
        last_status = status;
        if (status != expected_status && status != RRB_ERR_MEMORY)
            complain("status %d: %s", status, sentence);
        if (status == RRB_ERR_MEMORY && !strstr(sentence, "memory") && !strstr(sentence, "failed to allocate"))
            complain("no sentence about memory, but '%s'", sentence);
    } else if (status != expected_status) {
        char sentence[400] = "";
        rrbsolver_last_error(sentence, sizeof sentence);
        complain("status %d of a call before or after: %s", status, sentence);
    }
    return status < 0;
}

/* Checks that a call works after failures. */
static void must(rrb_status status, rrb_status expected, const char *what)
{
    if (status != expected) {
        char sentence[400] = "";
        rrbsolver_last_error(sentence, sizeof sentence);
        complain("%s afterwards answers %d: %s", what, status, sentence);
    }
}

/* Runs `body` in a child process in which request `at` of phase `phase` fails. Returns how the child ended. The parent
   never calls the library, because a process that has started threads must not be forked. */
static int in_a_child(void (*body)(void), int phase, long at, int onwards)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        /* Initializes the driver, if there is one, which allocates memory of its own. */
        int32_t devices;
        if (!first_call_is_watched)
            rrbsolver_cuda_device_count(&devices);
        phase_wanted = phase;
        refuse_at = at;
        refuse_onwards = onwards;
        body();
        _exit(wrong ? WRONG : last_status == RRB_ERR_MEMORY ? REFUSED : ALIVE);
    }
    int result = 0;
    if (child < 0 || waitpid(child, &result, 0) != child) {
        perror("a child process");
        exit(2);
    }
    if (WIFEXITED(result))
        return WEXITSTATUS(result);
    printf("%s: phase %d, request %ld%s: ended by signal %d\n", place, phase, at, onwards ? " and all that follow" : "",
           WTERMSIG(result));
    return WRONG;
}

static long refusals, survived, failures;

static void refuse_one(void (*body)(void), int phase, long at, int onwards)
{
    int end = in_a_child(body, phase, at, onwards);
    refusals += 1;
    survived += end == ALIVE;
    failures += end != ALIVE && end != REFUSED;
}

/* Runs a case without failures. */
static void run(void (*body)(void), int phase)
{
    if (in_a_child(body, phase, -1, 0) != ALIVE) {
        printf("%s: phase %d fails although nothing is refused\n", place, phase);
        failures += 1;
    }
}

enum { NONE = -1 };

/* Runs all phases of a case with failures of all, or of about `most_sites`, requests. `none` is a phase that must not
   allocate memory. */
static void refuse_all(void (*body)(void), int phases, int none)
{
    for (int phase = 0; phase < phases; phase++) {
        run(body, phase);
        long requests = results->requests;
        if (phase == none && requests != 0) {
            printf("%s: phase %d asks for memory %ld times\n", place, phase, requests);
            failures += 1;
        }
        long step = most_sites > 0 && requests > most_sites ? (requests + most_sites - 1) / most_sites : 1;
        for (long at = 0; at < requests; at += step)
            for (int onwards = 0; onwards < 2; onwards++)
                refuse_one(body, phase, at, onwards);
    }
}

/* Parses the arguments and creates the shared memory. Returns the exit status if that fails, otherwise 0. */
static int begin(int count_of_arguments, char **arguments)
{
    if (count_of_arguments < 3)
        return 2;
    at_least = (size_t)atol(arguments[1]);
    most_sites = atol(arguments[2]);
    results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        return 2;
    /* A fixed number of threads, so that all machines make the same requests. */
    setenv("RRBSOLVER_NUM_THREADS", "2", 1);
    /* A child reports each error once. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    return 0;
}

/* Prints the last line and returns the exit status. */
static int end(void)
{
    printf("%ld refusals: %ld answered, %ld survived without the memory, %ld wrong\n", refusals,
           refusals - survived - failures, survived, failures);
    return failures > 0 || refusals == 0;
}
