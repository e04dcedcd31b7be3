/* Ends the C programs of this folder with an error if a condition does not hold. */
#ifndef CHECK_H
#define CHECK_H

#include <rrbsolver.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            char message_[256];                                                                                        \
            rrbsolver_last_error(message_, (int64_t)sizeof message_);                                                  \
            fprintf(stderr, "%s:%d: failed: %s (last error: %s)\n", __FILE__, __LINE__, #condition, message_);         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
