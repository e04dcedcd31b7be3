/* For drivers of other libraries: reads a system of the hard suite (benches/hard_suite.py), and prints the results. */
#ifndef SYSTEM_H
#define SYSTEM_H
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Arrays of nx * ny values, x fastest: A(p, p), A(p, p + 1), A(p, p + nx) and b(p) of point p. */
typedef struct {
  char name[17];
  int nx, ny;
  double *center, *east, *north, *b;
} linear_system;

static void fail(const char *why, const char *what) {
  fprintf(stderr, "%s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static double *numbers(size_t n) {
  double *v = calloc(n, sizeof *v);
  if (!v) fail("no memory", "the system");
  return v;
}

static linear_system read_system(const char *path) {
  linear_system s = {{0}, 0, 0, NULL, NULL, NULL, NULL};
  char magic[8];
  int32_t head[6];
  FILE *file = fopen(path, "rb");
  if (!file) fail("cannot be read", path);
  if (fread(magic, 1, 8, file) != 8 || memcmp(magic, "STENCIL1", 8) || fread(head, 4, 6, file) != 6 || head[0] != 2 ||
      head[1] < 1 || head[2] < 1 || fread(s.name, 1, 16, file) != 16)
    fail("no system in two dimensions", path);
  s.nx = head[1];
  s.ny = head[2];
  size_t n = (size_t)s.nx * s.ny;
  double **arrays[4] = {&s.center, &s.east, &s.north, &s.b};
  for (int k = 0; k < 4; k++) {
    *arrays[k] = numbers(n);
    if (fread(*arrays[k], sizeof(double), n, file) != n) fail("ends early", path);
  }
  fclose(file);
  return s;
}

/* Returns |b - A x| / |b|. */
static double relative_residual(const linear_system *s, const double *x) {
  double rr = 0, bb = 0;
  for (int j = 0; j < s->ny; j++)
    for (int i = 0; i < s->nx; i++) {
      size_t p = (size_t)j * s->nx + i;
      double r = s->b[p] - s->center[p] * x[p];
      if (i > 0) r -= s->east[p - 1] * x[p - 1];
      if (i + 1 < s->nx) r -= s->east[p] * x[p + 1];
      if (j > 0) r -= s->north[p - s->nx] * x[p - s->nx];
      if (j + 1 < s->ny) r -= s->north[p] * x[p + s->nx];
      rr += r * r;
      bb += s->b[p] * s->b[p];
    }
  return sqrt(rr / bb);
}

/* Number of measured runs, of which the median is reported; a warm-up run precedes them. */
enum { RUNS = 3 };

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *seconds) {
  qsort(seconds, RUNS, sizeof *seconds, ascending);
  return seconds[RUNS / 2];
}

/* Gathers the rows [first, first + count) of x of every process on process 0. */
static void gather(double *x, int first, int count) {
  int me, processes;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  int *counts = calloc(processes, sizeof *counts), *firsts = calloc(processes, sizeof *firsts);
  if (!counts || !firsts) fail("no memory", "the processes");
  MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Gather(&first, 1, MPI_INT, firsts, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Gatherv(me ? x + first : MPI_IN_PLACE, count, MPI_DOUBLE, x, counts, firsts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  free(counts);
  free(firsts);
}

/* Prints the line of nine fields that `rrbsolver-bench --peer` reads. The times are those of the slowest process. */
static void report(const linear_system *s, const char *solver, double *setup, double *solve, int iterations,
                   const double *x) {
  int me, processes;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  MPI_Allreduce(MPI_IN_PLACE, setup, RUNS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, solve, RUNS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (me == 0)
    printf("%s,%s,%d,%d,%.6f,%.6f,%d,%.3e,0\n", solver, s->name, s->nx, processes, median(setup), median(solve),
           iterations, relative_residual(s, x));
}
#endif
