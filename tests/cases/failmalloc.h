/* Memory requests and thread starts that fail on purpose; see failmalloc.c. */

#ifndef FAILMALLOC_H
#define FAILMALLOC_H

#include <stddef.h>

/* Begins to count requests for `at_least` bytes or more, from 0. Request number `at` fails; with `onwards`, all later
   requests fail too. With at < 0, requests are only counted. */
void failmalloc_begin(size_t at_least, long at, int onwards);

/* From now on, only requests by code of the library that contains `function` count, not those of a device driver. */
void failmalloc_only_of(const void *function);

/* Ends the failures. Returns the number of requests. */
long failmalloc_end(void);

/* Sets the number of threads that can still be started; below 0 means any number. */
void failmalloc_threads(long allowed);

#endif
