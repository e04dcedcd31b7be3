/* An allocator that fails on purpose. It is linked into the program before the C library, so the program and all shared
   libraries that it loads call it. Mappings are counted too, because large arrays are mapped. Mappings inside the C
   library itself, for stacks of threads, are not intercepted. For glibc only, whose own allocator remains accessible
   under other names. */

#define _GNU_SOURCE
#include "failmalloc.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_int counting;
static size_t smallest;
static long refused;
static int all_from_there;
static atomic_long requests;
static atomic_long threads_allowed = -1;
static const void *library;

void failmalloc_begin(size_t at_least, long at, int onwards)
{
    smallest = at_least;
    refused = at;
    all_from_there = onwards;
    atomic_store(&requests, 0);
    atomic_store(&counting, 1);
}

long failmalloc_end(void)
{
    atomic_store(&counting, 0);
    return atomic_load(&requests);
}

void failmalloc_only_of(const void *function)
{
    Dl_info of_function;
    library = dladdr(function, &of_function) ? of_function.dli_fbase : NULL;
}

void failmalloc_threads(long allowed)
{
    atomic_store(&threads_allowed, allowed);
}

/* Returns whether this request fails. */
static int is_refused(size_t bytes, const void *caller)
{
    if (!atomic_load(&counting) || bytes < smallest)
        return 0;
    Dl_info of_caller;
    if (library && !(dladdr(caller, &of_caller) && of_caller.dli_fbase == library))
        return 0;
    long number = atomic_fetch_add(&requests, 1);
    return refused >= 0 && (number == refused || (all_from_there && number > refused));
}

void *malloc(size_t bytes)
{
    if (is_refused(bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    if (is_refused(count * bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (is_refused(bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(block, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    if (is_refused(bytes, __builtin_return_address(0)))
        return ENOMEM;
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (is_refused(bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    if (is_refused(bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(alignment, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (is_refused(bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (is_refused(bytes, __builtin_return_address(0))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

typedef int pthread_start(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static pthread_start *real;
    if (!real)
        real = (pthread_start *)dlsym(RTLD_NEXT, "pthread_create");
    long allowed = atomic_load(&threads_allowed);
    if (allowed == 0)
        return EAGAIN;
    if (allowed > 0)
        atomic_store(&threads_allowed, allowed - 1);
    return real(thread, attributes, start, argument);
}
