/* What programs share that refuse memory to calls: counting of requests, and one process for each refusal. Who includes
   this has defined `struct solutions` before, which children share. */

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

/* What children hand over, in memory that all processes share. */
static struct {
    /* Requests for memory in the phase that is watched. */
    long requests;
    struct solutions solutions;
} *results;

/* Of the child: what is refused, and what was wrong. */
static long refuse_at = -1;
static int refuse_onwards;
static int wrong;
static char place[256];

/* No call of the library comes before those of a case. */
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

/* The phase of a case in which memory is refused: its calls stand between `refuse` and `watched`. */
static int phase_now;
static int phase_wanted;

/* Before a call of the next phase. */
static void refuse(int phase)
{
    phase_now = phase;
    if (phase == phase_wanted)
        failmalloc_begin(at_least, refuse_at, refuse_onwards);
}

static int last_status;

/* Of the call that is watched, where memory suffices. */
static rrb_status expected_status = RRB_OK;

/* After the call: its status, seen to be one of those that are allowed. True where the call was refused. */
static int watched(rrb_status status)
{
    if (phase_now == phase_wanted) {
        /* The sentence is asked for while memory is still refused. */
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

/* After refusals, calls must work. */
static void must(rrb_status status, rrb_status expected, const char *what)
{
    if (status != expected) {
        char sentence[400] = "";
        rrbsolver_last_error(sentence, sizeof sentence);
        complain("%s afterwards answers %d: %s", what, status, sentence);
    }
}

/* Runs `body` in a process of its own with the request `at` of phase `phase` refused: how it ended. This process
   never calls the library, since one that has started threads should not be copied. */
static int in_a_child(void (*body)(void), int phase, long at, int onwards)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        /* Starts the driver where there is one, which takes memory of its own. */
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

/* Nothing is refused. */
static void run(void (*body)(void), int phase)
{
    if (in_a_child(body, phase, -1, 0) != ALIVE) {
        printf("%s: phase %d fails although nothing is refused\n", place, phase);
        failures += 1;
    }
}

enum { NONE = -1 };

/* All phases of a case, or about `most_sites` requests of each. `none`: a phase that must not ask for memory. */
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

/* Arguments, and memory that children share: the exit status where they are wrong, else 0. */
static int begin(int count_of_arguments, char **arguments)
{
    if (count_of_arguments < 3)
        return 2;
    at_least = (size_t)atol(arguments[1]);
    most_sites = atol(arguments[2]);
    results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        return 2;
    /* The standard library asks for memory to count cores, which nobody can refuse. */
    setenv("RRBSOLVER_NUM_THREADS", "2", 1);
    /* A child says what is wrong once. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    return 0;
}

/* The last line, and the exit status. */
static int end(void)
{
    printf("%ld refusals: %ld answered, %ld survived without the memory, %ld wrong\n", refusals,
           refusals - survived - failures, survived, failures);
    return failures > 0 || refusals == 0;
}
