// Declarations for the examples of the library functions on the reference pages.
#include <rrbsolver.h>
#include <stdio.h>
#include <stdlib.h>

static void print_line(void *user, int32_t level, const char *line) { printf("[%d] %s\n", (int)level, line); }

int main(void) {
    int status = RRB_OK;
    {
@BODY@
    }
    return status < 0;
}
