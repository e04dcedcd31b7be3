/* hypre_pfmg FILE TOLERANCE [nongalerkin|redblack]: CG preconditioned by a V-cycle of PFMG, hypre's multigrid for
 * structured grids. Each process has a strip of grid rows. Default: weighted Jacobi and Galerkin coarse grids. */
#include "system.h"
#include <HYPRE.h>
#include <HYPRE_struct_ls.h>

enum { MOST_ITERATIONS = 500, GALERKIN = 0, NON_GALERKIN = 1, WEIGHTED_JACOBI = 1, SYMMETRIC_RED_BLACK = 2 };

typedef struct {
  HYPRE_StructGrid grid;
  HYPRE_StructStencil stencil;
  HYPRE_StructMatrix a;
  HYPRE_StructVector b, x;
} arrays;

/* Creates hypre's matrix and vectors for the grid points from `low` to `high`, both included. */
static arrays create(const linear_system *s, int *low, int *high) {
  arrays h;
  int offsets[3][2] = {{0, 0}, {1, 0}, {0, 1}};
  size_t first = (size_t)low[1] * s->nx;
  double *values[3] = {s->center + first, s->east + first, s->north + first};
  HYPRE_StructGridCreate(MPI_COMM_WORLD, 2, &h.grid);
  HYPRE_StructGridSetExtents(h.grid, low, high);
  HYPRE_StructGridAssemble(h.grid);
  HYPRE_StructStencilCreate(2, 3, &h.stencil);
  for (int k = 0; k < 3; k++) HYPRE_StructStencilSetElement(h.stencil, k, offsets[k]);
  HYPRE_StructMatrixCreate(MPI_COMM_WORLD, h.grid, h.stencil, &h.a);
  HYPRE_StructMatrixSetSymmetric(h.a, 1);
  HYPRE_StructMatrixInitialize(h.a);
  for (int k = 0; k < 3; k++) HYPRE_StructMatrixSetBoxValues(h.a, low, high, 1, &k, values[k]);
  HYPRE_StructMatrixAssemble(h.a);
  HYPRE_StructVectorCreate(MPI_COMM_WORLD, h.grid, &h.b);
  HYPRE_StructVectorInitialize(h.b);
  HYPRE_StructVectorSetBoxValues(h.b, low, high, s->b + first);
  HYPRE_StructVectorAssemble(h.b);
  HYPRE_StructVectorCreate(MPI_COMM_WORLD, h.grid, &h.x);
  HYPRE_StructVectorInitialize(h.x);
  HYPRE_StructVectorSetConstantValues(h.x, 0.0);
  HYPRE_StructVectorAssemble(h.x);
  return h;
}

static void destroy(arrays *h) {
  HYPRE_StructMatrixDestroy(h->a);
  HYPRE_StructVectorDestroy(h->b);
  HYPRE_StructVectorDestroy(h->x);
  HYPRE_StructStencilDestroy(h->stencil);
  HYPRE_StructGridDestroy(h->grid);
}

int main(int count, char **words) {
  int me, processes, iterations = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (count < 3) fail("FILE TOLERANCE [nongalerkin|redblack]", words[0]);
  const char *kind = count > 3 ? words[3] : "";
  linear_system s = read_system(words[1]);
  HYPRE_Init();
  int low[2] = {0, (int)((long)s.ny * me / processes)};
  int high[2] = {s.nx - 1, (int)((long)s.ny * (me + 1) / processes) - 1};
  if (high[1] < low[1]) fail("fewer rows than processes", words[1]);
  double setup[RUNS], solve[RUNS], *x = numbers((size_t)s.nx * s.ny);
  for (int run = -1; run < RUNS; run++) {
    HYPRE_StructSolver multigrid, cg;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    arrays h = create(&s, low, high);
    HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &multigrid);
    HYPRE_StructPFMGSetRelaxType(multigrid, strcmp(kind, "redblack") ? WEIGHTED_JACOBI : SYMMETRIC_RED_BLACK);
    HYPRE_StructPFMGSetRAPType(multigrid, strcmp(kind, "nongalerkin") ? GALERKIN : NON_GALERKIN);
    HYPRE_StructPFMGSetSkipRelax(multigrid, 1);
    HYPRE_StructPFMGSetMaxIter(multigrid, 1);
    HYPRE_StructPFMGSetTol(multigrid, 0.0);
    HYPRE_StructPFMGSetZeroGuess(multigrid);
    HYPRE_StructPCGCreate(MPI_COMM_WORLD, &cg);
    HYPRE_StructPCGSetMaxIter(cg, MOST_ITERATIONS);
    HYPRE_StructPCGSetTol(cg, atof(words[2]));
    HYPRE_StructPCGSetTwoNorm(cg, 1);
    HYPRE_StructPCGSetPrecond(cg, HYPRE_StructPFMGSolve, HYPRE_StructPFMGSetup, multigrid);
    HYPRE_StructPCGSetup(cg, h.a, h.b, h.x);
    MPI_Barrier(MPI_COMM_WORLD);
    double ready = MPI_Wtime();
    HYPRE_StructPCGSolve(cg, h.a, h.b, h.x);
    MPI_Barrier(MPI_COMM_WORLD);
    if (run >= 0) {
      setup[run] = ready - start;
      solve[run] = MPI_Wtime() - ready;
    }
    HYPRE_StructPCGGetNumIterations(cg, &iterations);
    HYPRE_StructVectorGetBoxValues(h.x, low, high, x + (size_t)low[1] * s.nx);
    HYPRE_StructPCGDestroy(cg);
    HYPRE_StructPFMGDestroy(multigrid);
    destroy(&h);
  }
  gather(x, low[1] * s.nx, (high[1] - low[1] + 1) * s.nx);
  report(&s, "hypre PFMG-PCG", setup, solve, iterations, x);
  HYPRE_Finalize();
  MPI_Finalize();
  return 0;
}
