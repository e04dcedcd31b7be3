/* Checks sparse_read and sparse_write when memory allocation fails: `inject_files AT_LEAST SITES`, as inject.c does for
   the families on grids. Each memory request of each call fails in turn, from the first byte on, and each request for
   its error message too.

   Checked are the status and that the next call succeeds. A matrix must be bitwise unchanged, no incomplete file may
   remain, and a file that could not be replaced must be unchanged. If a call fails without memory failures, the next
   call must return the same status and message. Reading is the first library call of its process. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MOST_CASES = 64 };

/* Results without failures, by case: a hash of the matrix that was read, of the file that was written, or of the error
   message. */
struct solutions {
    uint64_t hash[MOST_CASES];
    /* Number of lines that the library has logged. */
    long lines;
};

#include "inject.h"

/* Points of a grid. Its file is longer than the buffers of the library. */
enum { NX = 60, NY = 50, N = NX * NY, ENTRIES = 5 * N };

/* Paths are longer than the stack buffers of the standard libraries: 384 bytes in Rust, 1024 in C. */
enum { FOLDERS = 6, NAME = 200 };
static char folder[PATH_MAX];

static uint64_t hash_of(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    for (size_t k = 0; k < count; k++)
        hash = (hash ^ byte[k]) * 1099511628211u;
    return hash;
}

/* ---- Files ---- */

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/%s", folder, name);
    return path;
}

static void put_bytes(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(path_of(name), "w");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(name);
        exit(2);
    }
}

static void put(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text));
}

/* Returns a hash of a file; 0 if the file does not exist. */
static uint64_t hash_of_file(const char *name)
{
    FILE *file = fopen(path_of(name), "r");
    if (!file)
        return 0;
    uint64_t hash = 1469598103934665603u;
    char bytes[4096];
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, file)) > 0;)
        hash = hash_of(hash, bytes, count);
    fclose(file);
    return hash;
}

/* Reports an incomplete file that was not removed. */
static void check_folder(void)
{
    DIR *names = opendir(folder);
    for (struct dirent *entry; names && (entry = readdir(names));)
        if (strstr(entry->d_name, "partial")) {
            complain("%s is left", entry->d_name);
            unlink(path_of(entry->d_name));
        }
    if (names)
        closedir(names);
}

/* ---- Reading ---- */

#define GENERAL "%%MatrixMarket matrix coordinate real general\n"
#define SYMMETRIC "%%MatrixMarket matrix coordinate real symmetric\n"
#define TITLE "title                                                                   KEY\n"
#define CARDS(second, third, formats, rest) TITLE second "\n" third "\n" formats "\n" rest
#define INT "(16I5)          (16I5)          "

typedef struct {
    const char *name;
    /* NULL: the library writes the file. */
    const char *text;
    /* Value of RRBSOLVER_OPTIONS. */
    const char *options;
    /* Number of log lines. */
    int lines;
} read_case;

/* More than a megabyte, so that two threads read it. */
static char large[1 << 21];

static void fill_large(void)
{
    enum { LINES = 150000 };
    char *end = large + sprintf(large, "%s2 2 %d\n", GENERAL, LINES);
    for (int k = 0; k < LINES; k++)
        end += sprintf(end, "1 2 1.5\n");
}

/* One wrong value per kind of warning, and `max_iter=77`, which is valid. `levels` belongs to another family and causes
   no warning. */
#define WARNINGS                                                                                                       \
    "max_iter=77 levels=3 relative_tol=1 max_iter=1e400 block_size=99 rel_tol=1e-400 rel_tol=x backend=cdua "          \
    "solver=cgg nonsense log= log=/no/folder/of/this/name"
enum { WARNED = 10 };

static const read_case READ[] = {
    {"many.mtx", large, NULL, 0},
    {"grid.mtx", NULL, NULL, 0},
    {"grid.mtx.gz", NULL, NULL, 0},
    {"grid.hb", NULL, NULL, 0},
    {"grid.rb.gz", NULL, NULL, 0},
    {"half.mtx", NULL, NULL, 0},
    {"half.rb", NULL, NULL, 0},
    {"sorted.mtx", GENERAL "2 3 2\n1 3 1.5D2\n2 1 -2.5-1\n", NULL, 0},
    {"unsorted.mtx", GENERAL "% c\n\n3 3 5\n3 1 1\n1 1 2\n3 1 .5\n2 2 0\n1 3 4\n", WARNINGS, WARNED},
    {"lower.mtx", SYMMETRIC "3 3 4\n1 1 1\n3 2 1\n3 1 2\n2 2 1\n", NULL, 0},
    {"both.mtx", SYMMETRIC "3 3 3\n1 1 1\n3 2 1\n1 3 2\n", NULL, 0},
    {"skew.mtx", "%%MATRIXMARKET Matrix coordinate REAL skew-symmetric\n2 2 1\n2 1 3\n", NULL, 0},
    {"pattern.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n", NULL, 0},
    {"integer.mtx", "%%MatrixMarket matrix coordinate integer general\n3 3 2\n2 1 5\n3 3 -1\n", NULL, 0},
    {"array.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", NULL, 0},
    {"array_lower.mtx", "%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n", NULL, 0},
    {"array_skew.mtx", "%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n", NULL, 0},
    {"wide.mtx", GENERAL "1 5000000000 1\n1 4999999999 2\n", NULL, 0},
    {"pattern.psa", CARDS("2 1 1 0 0", "PSA 2 2 2 0", "(3I1)           (2I1)", "123\n12\n"), NULL, 0},
    {"real.rua",
     CARDS("3 1 1 1 0", "RUA 2 2 3 0", INT "(2(1PE10.2),E10.2)",
           "    1    3    4\n    1    2    2\n  1.50E+00 -2.5D+00   4 . 5\n"),
     NULL, 0},
    {"rhs.rua",
     CARDS("9 1 1 1 6", "RUA 2 2 2 0", INT "(2F4.1)             (2F4.1)",
           "FGX 2 0\n    1    2    3\n    1    2\n 1.0 2.0\n 1.0 2.0\n 3.0 4.0\n 5.0 6.0\n 7.0 8.0\n 9.0 1.1\n 1.2 1.3\n"),
     NULL, 0},
    {"rhs_by_entries.rua",
     CARDS("7 1 1 1 4", "RUA 2 2 2 0", INT "(2F4.1)             (2F4.1)",
           "M     2 3\n    1    2    3\n    1    2\n 1.0 2.0\n    1    2    4\n    2    1    2\n 1.5 2.5\n 3.5\n"),
     NULL, 0},
    {"rhs_announced.rua",
     CARDS("20 1 1 1 17", "RUA 2 2 2 0", INT "(2F4.1)             (2F4.1)",
           "F     1 0\n    1    2    3\n    1    2\n 1.0 2.0\n 1.0 2.0\n"),
     NULL, 1},
    {"dense.rhs", TITLE "rhsrd a case    r  3  2  6\n(3F4.1)\n 1.0 2.0 0.0\n 4.0 5.0 6.0\n", NULL, 0},
    {"sparse.rhs",
     TITLE "rhsrs a case    r  3  2  2\n(3I2)               (2I3)               (1P,2E9.1)\n"
           " 1 2 3\n  3  1\n 1.5E+00  2.5\n",
     NULL, 0},
};
enum { READS = sizeof READ / sizeof READ[0] };
static int chosen;

/* Returns a hash of the matrix of a handle and of its right-hand sides. */
static uint64_t hash_of_matrix(sparse_handle *h)
{
    int64_t sizes[4], rows = 0, vectors = 0;
    must(sparse_get_int(h, RRB_INFO_ROWS, &rows), RRB_OK, "get_int");
    must(sparse_get_int(h, RRB_INFO_FILE_RHS, &vectors), RRB_OK, "get_int");
    must(sparse_sizes(h, RRB_FORMAT_COO, sizes), RRB_OK, "sizes");
    int64_t *i = calloc((size_t)sizes[0] + 1, 8), *j = calloc((size_t)sizes[1] + 1, 8);
    double *values = calloc((size_t)(sizes[3] + rows) + 1, 8);
    must(sparse_arrays(h, RRB_FORMAT_COO, i, j, NULL, values), RRB_OK, "arrays");
    uint64_t hash = hash_of(1469598103934665603u, i, (size_t)sizes[0] * 8);
    hash = hash_of(hash_of(hash, j, (size_t)sizes[1] * 8), values, (size_t)sizes[3] * 8);
    for (int64_t k = 0; k < vectors; k++) {
        must(sparse_get_vector(h, RRB_VECTOR_RHS, k, values), RRB_OK, "get_vector");
        hash = hash_of(hash, values, (size_t)rows * 8);
    }
    free(i);
    free(j);
    free(values);
    return hash;
}

static void logged(void *user, int32_t level, const char *text)
{
    (void)user;
    int of_the_file = strstr(text, "line 2") && strstr(text, READ[chosen].name);
    results->solutions.lines += level == 0 && (of_the_file || strstr(text, "RRBSOLVER_OPTIONS"));
}

static void read_case_of(uint64_t expected)
{
    const read_case *r = &READ[chosen];
    sparse_handle *h = NULL;
    if (r->options)
        setenv("RRBSOLVER_OPTIONS", r->options, 1);
    if (r->text == large) {
        setenv("RRBSOLVER_NUM_THREADS", "2", 1);
        setenv("RRBSOLVER_ISA", "unknown", 1);
    }
    if (r->lines)
        rrbsolver_set_log(logged, NULL);
    results->solutions.lines = 0;
    refuse(0);
    if (watched(sparse_read(path_of(r->name), &h))) {
        if (h)
            complain("a handle in spite of the refusal");
        /* The handle itself is allocated after the warning was logged. */
        results->solutions.lines = 0;
        must(sparse_read(path_of(r->name), &h), RRB_OK, "read");
    }
    if (results->solutions.lines != r->lines)
        complain("%ld lines are logged, not %d", results->solutions.lines, r->lines);
    uint64_t hash = hash_of_matrix(h);
    if (expected == 0)
        results->solutions.hash[chosen] = hash;
    else if (hash != expected)
        complain("the matrix has other bits");
    sparse_destroy(&h);
}

static void read_once(void)
{
    read_case_of(0);
}

static void read_refused(void)
{
    read_case_of(results->solutions.hash[chosen]);
}

/* ---- Writing ---- */

typedef struct {
    const char *name;
    int symmetric;
    int32_t format;
} write_case;

static const write_case WRITE[] = {
    {"grid.mtx", 0, RRB_FILE_MTX}, {"grid.mtx.gz", 0, RRB_FILE_MTX}, {"grid.hb", 0, RRB_FILE_HB},
    {"grid.rb.gz", 0, RRB_FILE_RB}, {"half.mtx", 1, RRB_FILE_MTX},   {"half.hb.gz", 1, RRB_FILE_HB},
    {"half.rb", 1, RRB_FILE_RB},
};
enum { WRITES = sizeof WRITE / sizeof WRITE[0] };

static int32_t row_ptr[N + 1], col[ENTRIES];
static double values[ENTRIES];

/* A 5-point grid with values of few and of many digits. */
static void fill(int symmetric)
{
    int count = 0;
    for (int p = 0; p < N; p++) {
        int i = p % NX, j = p / NX;
        int there[5] = {j > 0, i > 0, 1, i + 1 < NX, j + 1 < NY}, to[5] = {p - NX, p - 1, p, p + 1, p + NX};
        row_ptr[p] = count;
        for (int k = 0; k < 5; k++) {
            if (!there[k])
                continue;
            int low = p < to[k] ? p : to[k];
            col[count] = to[k];
            values[count] = k == 2 ? 4 : symmetric ? -1.0 / (low + 3) : -1.0 / (p + 3) * (k + 1);
            count++;
        }
    }
    row_ptr[N] = count;
    values[0] = 1e300;
}

static sparse_handle *matrix_of(int symmetric)
{
    sparse_handle *h = NULL;
    fill(symmetric);
    must(sparse_create_csr(N, N, row_ptr[N], row_ptr, col, values, 4, 0, &h), RRB_OK, "create");
    return h;
}

enum { NEW, REPLACE, THROUGH_A_LINK, WRITE_PHASES };

static const char *const STEPS[] = {"a new file", "a file that is replaced", "a link"};

/* Writes the files that the cases above read. */
static void write_all(void)
{
    for (int k = 0; k < WRITES; k++) {
        sparse_handle *h = matrix_of(WRITE[k].symmetric);
        must(sparse_write(h, path_of(WRITE[k].name), WRITE[k].format), RRB_OK, "write");
        results->solutions.hash[k] = hash_of_file(WRITE[k].name);
        sparse_destroy(&h);
    }
}

static void write_refused(void)
{
    const write_case *w = &WRITE[chosen];
    sparse_handle *h = matrix_of(w->symmetric);
    /* The ending of the name determines the compression. */
    char name[64], link_name[64];
    snprintf(name, sizeof name, "written.%s", w->name);
    snprintf(link_name, sizeof link_name, "link.%s", w->name);
    for (int phase = NEW; phase < WRITE_PHASES; phase++) {
        if (phase == NEW)
            unlink(path_of(name));
        else
            put(name, "as it was\n");
        unlink(path_of(link_name));
        if (phase == THROUGH_A_LINK && symlink(name, path_of(link_name)) != 0)
            complain("no link: %s", strerror(errno));
        const char *given = phase == THROUGH_A_LINK ? link_name : name;
        uint64_t before = hash_of_file(name);
        const char *path = path_of(given);
        refuse(phase);
        if (watched(sparse_write(h, path, w->format))) {
            if (hash_of_file(name) != before)
                complain("%s is not as it was", STEPS[phase]);
            check_folder();
            must(sparse_write(h, path_of(given), w->format), RRB_OK, "write");
        }
        check_folder();
        if (hash_of_file(name) != results->solutions.hash[chosen])
            complain("%s has other bytes", STEPS[phase]);
        struct stat of_link;
        if (phase == THROUGH_A_LINK && (lstat(path_of(link_name), &of_link) != 0 || !S_ISLNK(of_link.st_mode)))
            complain("the link is none any more");
    }
    sparse_destroy(&h);
}

/* ---- Calls that fail ---- */

typedef struct {
    rrb_status status;
    /* Words in the message. */
    const char *words;
    const char *name;
    /* NULL: the file does not exist, or another part writes it. */
    const char *text;
} wrong_read;

#define RUA(rest) TITLE "3 1 1 1\nRUA 2 2 2 0\n" INT "(2F4.1)\n" rest

static const wrong_read WRONG_READ[] = {
    {RRB_ERR_IO, "cannot be read: No such file or directory (os error 2)", "missing.mtx", NULL},
    {RRB_ERR_IO, "is a folder", ".", NULL},
    {RRB_ERR_IO, "standard input", "-", NULL},
    {RRB_ERR_IO, "Not a directory", "grid.mtx/a.mtx", NULL},
    {RRB_ERR_PARSE, "the gz data are damaged: ", "damaged.mtx.gz", NULL},
    {RRB_ERR_PARSE, "the gz data end too early", "cut.mtx.gz", NULL},
    {RRB_ERR_PARSE, "the file is empty", "empty.mtx", ""},
    {RRB_ERR_PARSE, "UTF-16", "wide_text.mtx", "\xff\xfe%"},
    {RRB_ERR_PARSE, "CR alone", "cr.mtx", "%%MatrixMarket\r1\r"},
    {RRB_ERR_PARSE, "neither MatrixMarket", "words.txt", "some\nwords\n"},
    {RRB_ERR_PARSE, "line 1: must be such as", "banner.mtx", "%%MatrixMarket vector\n"},
    {RRB_ERR_PARSE, "line 1: the field must be", "field.mtx", "%%MatrixMarket matrix coordinate reel general\n"},
    {RRB_ERR_UNSUPPORTED, "line 1: complex", "complex.mtx", "%%MatrixMarket matrix coordinate complex general\n"},
    {RRB_ERR_PARSE, "line 1: the file ends before", "head.mtx", GENERAL},
    {RRB_ERR_PARSE, "line 2: must have 3 counts", "counts.mtx", GENERAL "2 2\n"},
    {RRB_ERR_PARSE, "line 2: 'two' is no count", "count.mtx", GENERAL "2 two 1\n"},
    {RRB_ERR_PARSE, "line 2: a symmetric matrix is square", "square.mtx", SYMMETRIC "2 3 1\n1 1 1\n"},
    {RRB_ERR_PARSE, "line 2: 99 entries are announced", "announced.mtx", GENERAL "9 9 99\n1 1 1\n"},
    {RRB_ERR_MEMORY, "failed to allocate 8000000000000008 bytes for row pointers", "rows.mtx",
     GENERAL "1000000000000000 1 1\n5 1 2\n"},
    {RRB_ERR_PARSE, "line 3: 'x' is no column", "line.mtx", GENERAL "2 2 2\n1 x 1\n2 2 1\n"},
    {RRB_ERR_PARSE, "line 3: row 3 is above 2", "row.mtx", GENERAL "2 2 1\n3 1 1\n"},
    {RRB_ERR_PARSE, "line 4: '", "value.mtx",
     GENERAL "2 2 2\n1 1 1\n2 2 a_word_that_is_longer_than_what_a_message_shows_of_it\n"},
    {RRB_ERR_NOT_FINITE, "line 3: '1e999' is not finite", "infinite.mtx", GENERAL "2 2 1\n1 1 1e999\n"},
    {RRB_ERR_NOT_FINITE, "line 4: values given at (2, 1) add up to inf", "sum.mtx",
     GENERAL "2 2 2\n2 1 1e308\n2 1 1e308\n"},
    {RRB_ERR_PARSE, "line 4: (1, 2) and (2, 1) both given", "twice.mtx", SYMMETRIC "2 2 2\n2 1 1\n1 2 1\n"},
    {RRB_ERR_PARSE, "line 3: the file ends after 1 of the 2", "short.mtx", GENERAL "2 2 2\n1 1 123456\n"},
    {RRB_ERR_PARSE, "line 3: the type must be", "type.rua", CARDS("3 1 1 1", "XUA 2 2 2 0", INT, "")},
    {RRB_ERR_UNSUPPORTED, "line 3: elemental matrices (RUE)", "elements.rua",
     CARDS("3 1 1 1", "rue 2 2 2 0", INT, "")},
    {RRB_ERR_PARSE, "line 3: 9 entries are more than", "entries.rua", CARDS("3 1 1 1", "RUA 2 2 9 0", INT, "")},
    {RRB_ERR_PARSE, "line 4: '(16A5)' is no format of pointers", "format.rua",
     CARDS("3 1 1 1", "RUA 2 2 2 0", "(16A5)          (16I5)", "    1    2    3\n")},
    {RRB_ERR_PARSE, "line 2: 5 cards of pointers", "cards.rua",
     CARDS("7 5 1 1", "RUA 2 2 2 0", INT, "    1    2    3\n")},
    {RRB_ERR_PARSE, "line 5: pointer 1 is below", "pointers.rua", RUA("    1    2    1\n    1    2\n 1.0 2.0\n")},
    {RRB_ERR_PARSE, "line 6: row 9 must lie in", "rows.rua", RUA("    1    2    3\n    1    9\n 1.0 2.0\n")},
    {RRB_ERR_PARSE, "line 7: ' 2.x' is no number", "value.rua", RUA("    1    2    3\n    1    2\n 1.0 2.x\n")},
    {RRB_ERR_NOT_FINITE, "line 7: ' nan' is not finite", "nan.rua", RUA("    1    2    3\n    1    2\n 1.0 nan\n")},
    {RRB_ERR_PARSE, "line 8: more cards", "more.rua", RUA("    1    2    3\n    1    2\n 1.0 2.0\nmore\n")},
    {RRB_ERR_PARSE, "line 5: the type of right-hand sides", "rhs.rua",
     CARDS("4 1 1 1 1", "RUA 2 2 2 0", INT "(2F4.1)             (2F4.1)", "X     1 0\n    1    2    3\n")},
    {RRB_ERR_UNSUPPORTED, "line 2: right-hand sides of A'", "transposed.rhs",
     TITLE "rhsld a case    r  3  2  6\n(3F4.1)\n"},
};
enum { WRONG_READS = sizeof WRONG_READ / sizeof WRONG_READ[0] };

/* Checks the message of the last failed call. Without memory failures, it equals the first message. */
static void check_message(rrb_status status, rrb_status expected, const char *words, uint64_t first)
{
    static char message[2 * PATH_MAX];
    must(status, expected, "the same call");
    int64_t length = rrbsolver_last_error(message, sizeof message);
    /* Digits are skipped, because the name of an incomplete file contains the process number. */
    uint64_t hash = 1469598103934665603u;
    for (const char *c = message; *c; c++)
        hash = *c >= '0' && *c <= '9' ? hash : hash_of(hash, c, 1);
    if (!strstr(message, words) || (size_t)length != strlen(message) + 1)
        complain("'%s' is not in the message '%s'", words, message);
    if (first == 0)
        results->solutions.hash[chosen] = hash;
    else if (hash != first)
        complain("the message is another one: '%s'", message);
}

static void wrong_read_of(uint64_t first)
{
    const wrong_read *r = &WRONG_READ[chosen];
    const char *path = r->name[0] == '-' ? r->name : path_of(r->name);
    sparse_handle *h = NULL;
    expected_status = r->status;
    refuse(0);
    watched(sparse_read(path, &h));
    check_message(sparse_read(path, &h), r->status, r->words, first);
    if (h)
        complain("a handle in spite of the error");
    if (refuse_at < 0)
        last_status = RRB_OK;
    must(sparse_read(path_of("sorted.mtx"), &h), RRB_OK, "read");
    sparse_destroy(&h);
}

static void wrong_read_once(void)
{
    wrong_read_of(0);
}

static void wrong_read_refused(void)
{
    wrong_read_of(results->solutions.hash[chosen]);
}

typedef struct {
    rrb_status status;
    const char *words;
    /* NULL: no path. */
    const char *name;
    int32_t format;
    /* Largest file size in bytes; 0 means no limit. */
    rlim_t most;
    /* The handle was created before a fork. */
    int forked;
} wrong_write;

static const wrong_write WRONG_WRITE[] = {
    {RRB_ERR_NULL, "path must not be NULL", NULL, RRB_FILE_MTX, 0, 0},
    {RRB_ERR_ARGUMENT, "file_format must be RRB_FILE_MTX, ", "a.mtx", 99, 0, 0},
    {RRB_ERR_UNSUPPORTED, "created before a fork", "a.mtx", RRB_FILE_MTX, 0, 1},
    {RRB_ERR_IO, "partial cannot: No such file or directory (os error 2)", "missing/a.mtx", RRB_FILE_MTX, 0, 0},
    {RRB_ERR_IO, "partial cannot: Not a directory", "grid.mtx/a.mtx", RRB_FILE_MTX, 0, 0},
    /* A folder in which no process can create files. */
    {RRB_ERR_IO, "partial cannot: ", "proc/a.mtx", RRB_FILE_MTX, 0, 0},
    {RRB_ERR_IO, "cannot be written: Is a directory", ".", RRB_FILE_MTX, 0, 0},
    {RRB_ERR_IO, "cannot be written: No space left on device", "full", RRB_FILE_MTX, 0, 0},
    {RRB_ERR_IO, "cannot be written: No space left on device", "full.gz", RRB_FILE_HB, 0, 0},
    {RRB_ERR_IO, "cannot be written: File too large", "large.mtx", RRB_FILE_MTX, 1000, 0},
    {RRB_ERR_IO, "cannot be written: File too large", "large.rb.gz", RRB_FILE_RB, 1000, 0},
};
enum { WRONG_WRITES = sizeof WRONG_WRITE / sizeof WRONG_WRITE[0] };

/* Runs the rest of the case in a child of this process. */
static void in_a_fork(void)
{
    pid_t child = fork();
    int end = 0;
    if (child == 0)
        return;
    if (child < 0 || waitpid(child, &end, 0) != child)
        end = -1;
    if (!WIFEXITED(end))
        printf("%s: request %ld: the process after the fork ended by signal %d\n", place, refuse_at, WTERMSIG(end));
    _exit(WIFEXITED(end) ? WEXITSTATUS(end) : WRONG);
}

/* Limits the size of files. */
static void limit_files(rlim_t most)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = most ? most : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void wrong_write_of(uint64_t first)
{
    const wrong_write *w = &WRONG_WRITE[chosen];
    sparse_handle *h = matrix_of(0), *other = NULL;
    const char *path = w->name ? path_of(w->name) : NULL;
    expected_status = w->status;
    if (w->forked)
        in_a_fork();
    if (w->most)
        limit_files(w->most);
    refuse(0);
    watched(sparse_write(h, path, w->format));
    check_message(sparse_write(h, path, w->format), w->status, w->words, first);
    limit_files(0);
    check_folder();
    if (hash_of_file("a.mtx") || hash_of_file("large.mtx") || hash_of_file("large.rb.gz"))
        complain("a file is left");
    if (refuse_at < 0)
        last_status = RRB_OK;
    if (w->forked)
        other = matrix_of(0);
    must(sparse_write(other ? other : h, path_of("sound.mtx"), RRB_FILE_MTX), RRB_OK, "write");
    sparse_destroy(&other);
    sparse_destroy(&h);
}

static void wrong_write_once(void)
{
    wrong_write_of(0);
}

static void wrong_write_refused(void)
{
    wrong_write_of(results->solutions.hash[chosen]);
}

/* Creates the files of failing calls: damaged and truncated compressed files, and names on a full disk and in a folder
   in which no process can create files. */
static void put_wrong(void)
{
    static unsigned char bytes[1 << 20];
    FILE *file = fopen(path_of("grid.mtx.gz"), "r");
    size_t count = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (count < 1000 || fclose(file) != 0) {
        perror("grid.mtx.gz");
        exit(2);
    }
    put_bytes("cut.mtx.gz", bytes, count / 2);
    memset(bytes + count / 2, 0xff, 100);
    put_bytes("damaged.mtx.gz", bytes, count);
    const char *const links[][2] = {{"/dev/full", "full"}, {"/dev/full", "full.gz"}, {"/proc", "proc"}};
    for (size_t k = 0; k < sizeof links / sizeof links[0]; k++)
        if (symlink(links[k][0], path_of(links[k][1])) != 0) {
            perror(links[k][1]);
            exit(2);
        }
}

/* ---- */

/* Removes the folder and the parent folders that this program created. */
static void remove_folder(size_t root)
{
    DIR *names = opendir(folder);
    for (struct dirent *entry; names && (entry = readdir(names));)
        if (entry->d_name[0] != '.')
            unlink(path_of(entry->d_name));
    if (names)
        closedir(names);
    while (strlen(folder) >= root && rmdir(folder) == 0)
        *strrchr(folder, '/') = 0;
}

int main(int count_of_arguments, char **arguments)
{
    if (begin(count_of_arguments, arguments) != 0) {
        fprintf(stderr, "inject_files AT_LEAST SITES\n");
        return 2;
    }
    setenv("RRBSOLVER_NUM_THREADS", "1", 1);
    fill_large();
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    first_call_is_watched = 1;
    snprintf(folder, sizeof folder, "/tmp/rrbsolver-inject-XXXXXX");
    if (!mkdtemp(folder)) {
        perror(folder);
        return 2;
    }
    size_t root = strlen(folder);
    for (int k = 0; k < FOLDERS; k++) {
        size_t end = strlen(folder);
        folder[end] = '/';
        memset(folder + end + 1, 'a' + k, NAME);
        folder[end + 1 + NAME] = 0;
        if (mkdir(folder, 0700) != 0) {
            perror(folder);
            return 2;
        }
    }
    snprintf(place, sizeof place, "write");
    run(write_all, -1);
    for (chosen = 0; chosen < WRITES; chosen++) {
        snprintf(place, sizeof place, "write %s", WRITE[chosen].name);
        refuse_all(write_refused, WRITE_PHASES, NONE);
    }
    for (chosen = 0; chosen < READS; chosen++) {
        snprintf(place, sizeof place, "read %s", READ[chosen].name);
        if (READ[chosen].text)
            put(READ[chosen].name, READ[chosen].text);
        run(read_once, -1);
        refuse_all(read_refused, 1, NONE);
    }
    put_wrong();
    for (chosen = 0; chosen < WRONG_READS; chosen++) {
        snprintf(place, sizeof place, "read %s", WRONG_READ[chosen].name);
        if (WRONG_READ[chosen].text)
            put(WRONG_READ[chosen].name, WRONG_READ[chosen].text);
        run(wrong_read_once, -1);
        refuse_all(wrong_read_refused, 1, NONE);
    }
    for (chosen = 0; chosen < WRONG_WRITES; chosen++) {
        snprintf(place, sizeof place, "write %s", WRONG_WRITE[chosen].name ? WRONG_WRITE[chosen].name : "NULL");
        run(wrong_write_once, -1);
        refuse_all(wrong_write_refused, 1, NONE);
    }
    remove_folder(root);
    return end();
}
