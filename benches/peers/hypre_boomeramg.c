/* hypre_boomeramg FILE TOLERANCE: CG preconditioned by a V-cycle of BoomerAMG, hypre's algebraic multigrid, with its
 * default settings (HMIS coarsening, extended+i interpolation, l1 Gauss-Seidel). Each process has a range of rows. */
#include "system.h"
#include <HYPRE.h>
#include <HYPRE_IJ_mv.h>
#include <HYPRE_krylov.h>
#include <HYPRE_parcsr_ls.h>

enum { MOST_ITERATIONS = 500, ENTRIES = 5 };

/* Strong threshold that hypre's manual recommends in two dimensions. */
static const double STRONG = 0.25;

/* Rows [first, first + count) of the matrix with global column indices, without off-diagonal zeros. */
typedef struct {
  int first, count;
  int *row, *entries, *column;
  double *value;
} rows;

static rows rows_of(const linear_system *s, int first, int count) {
  rows r = {first, count, NULL, NULL, NULL, NULL};
  r.row = malloc(count * sizeof *r.row);
  r.entries = malloc(count * sizeof *r.entries);
  r.column = malloc(ENTRIES * (size_t)count * sizeof *r.column);
  r.value = malloc(ENTRIES * (size_t)count * sizeof *r.value);
  if (!r.row || !r.entries || !r.column || !r.value) fail("no memory", "the rows");
  size_t k = 0;
  for (int p = first; p < first + count; p++) {
    int i = p % s->nx, j = p / s->nx;
    int columns[ENTRIES] = {p - s->nx, p - 1, p, p + 1, p + s->nx};
    double values[ENTRIES] = {j > 0 ? s->north[p - s->nx] : 0, i > 0 ? s->east[p - 1] : 0, s->center[p],
                              i + 1 < s->nx ? s->east[p] : 0, j + 1 < s->ny ? s->north[p] : 0};
    size_t start = k;
    for (int e = 0; e < ENTRIES; e++)
      if (values[e] != 0 || columns[e] == p) {
        r.column[k] = columns[e];
        r.value[k++] = values[e];
      }
    r.row[p - first] = p;
    r.entries[p - first] = (int)(k - start);
  }
  return r;
}

static HYPRE_IJVector vector(const rows *r, const double *values) {
  HYPRE_IJVector v;
  HYPRE_IJVectorCreate(MPI_COMM_WORLD, r->first, r->first + r->count - 1, &v);
  HYPRE_IJVectorSetObjectType(v, HYPRE_PARCSR);
  HYPRE_IJVectorInitialize(v);
  HYPRE_IJVectorSetValues(v, r->count, r->row, values);
  HYPRE_IJVectorAssemble(v);
  return v;
}

int main(int count, char **words) {
  int me, processes, iterations = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (count < 3) fail("FILE TOLERANCE", words[0]);
  linear_system s = read_system(words[1]);
  HYPRE_Init();
  long n = (long)s.nx * s.ny;
  int first = (int)(n * me / processes), end = (int)(n * (me + 1) / processes);
  if (end == first) fail("fewer rows than processes", words[1]);
  rows r = rows_of(&s, first, end - first);
  double setup[RUNS], solve[RUNS], *x = numbers((size_t)n), *zero = numbers(r.count);
  for (int run = -1; run < RUNS; run++) {
    HYPRE_IJMatrix matrix;
    HYPRE_ParCSRMatrix a;
    HYPRE_ParVector b, solution;
    HYPRE_Solver multigrid, cg;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    HYPRE_IJMatrixCreate(MPI_COMM_WORLD, first, end - 1, first, end - 1, &matrix);
    HYPRE_IJMatrixSetObjectType(matrix, HYPRE_PARCSR);
    HYPRE_IJMatrixSetRowSizes(matrix, r.entries);
    HYPRE_IJMatrixInitialize(matrix);
    HYPRE_IJMatrixSetValues(matrix, r.count, r.entries, r.row, r.column, r.value);
    HYPRE_IJMatrixAssemble(matrix);
    HYPRE_IJMatrixGetObject(matrix, (void **)&a);
    HYPRE_IJVector rhs = vector(&r, s.b + first), guess = vector(&r, zero);
    HYPRE_IJVectorGetObject(rhs, (void **)&b);
    HYPRE_IJVectorGetObject(guess, (void **)&solution);
    HYPRE_BoomerAMGCreate(&multigrid);
    HYPRE_BoomerAMGSetStrongThreshold(multigrid, STRONG);
    HYPRE_BoomerAMGSetMaxIter(multigrid, 1);
    HYPRE_BoomerAMGSetTol(multigrid, 0.0);
    HYPRE_ParCSRPCGCreate(MPI_COMM_WORLD, &cg);
    HYPRE_PCGSetMaxIter(cg, MOST_ITERATIONS);
    HYPRE_PCGSetTol(cg, atof(words[2]));
    HYPRE_PCGSetTwoNorm(cg, 1);
    HYPRE_ParCSRPCGSetPrecond(cg, HYPRE_BoomerAMGSolve, HYPRE_BoomerAMGSetup, multigrid);
    HYPRE_ParCSRPCGSetup(cg, a, b, solution);
    MPI_Barrier(MPI_COMM_WORLD);
    double ready = MPI_Wtime();
    HYPRE_ParCSRPCGSolve(cg, a, b, solution);
    MPI_Barrier(MPI_COMM_WORLD);
    if (run >= 0) {
      setup[run] = ready - start;
      solve[run] = MPI_Wtime() - ready;
    }
    HYPRE_PCGGetNumIterations(cg, &iterations);
    HYPRE_IJVectorGetValues(guess, r.count, r.row, x + first);
    HYPRE_ParCSRPCGDestroy(cg);
    HYPRE_BoomerAMGDestroy(multigrid);
    HYPRE_IJMatrixDestroy(matrix);
    HYPRE_IJVectorDestroy(rhs);
    HYPRE_IJVectorDestroy(guess);
  }
  gather(x, first, r.count);
  report(&s, "hypre BoomerAMG-PCG", setup, solve, iterations, x);
  HYPRE_Finalize();
  MPI_Finalize();
  return 0;
}
