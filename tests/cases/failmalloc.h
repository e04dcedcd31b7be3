/* Memory and threads that are refused on purpose; see failmalloc.c. */

#ifndef FAILMALLOC_H
#define FAILMALLOC_H

#include <stddef.h>

/* What is refused: request number `at` of those for `at_least` bytes or more, counted from 0, or (`onwards`) that one
   and all that follow. at < 0: none, they are counted alone. */
void failmalloc_begin(size_t at_least, long at, int onwards);

/* From now on requests count only where code of the library that contains `function` makes them: not those of a
   device's driver, say. */
void failmalloc_only_of(const void *function);

/* Nothing any more. Returns how many requests there were. */
long failmalloc_end(void);

/* Threads that can still be started, from now on; below 0: any number. */
void failmalloc_threads(long allowed);

#endif
