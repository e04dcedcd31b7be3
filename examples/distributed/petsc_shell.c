/* Uses rrbsolver as a preconditioner in PETSc: a PCSHELL of KSPCG on a DMDA calls rrb_apply on the box of each rank.
 * Arrays of a DMDA have the layout that the library expects (i fastest), so nothing is copied.
 *
 * Solves -div(k grad u) = 1 on NX x NY square cells, u = 0 on the boundary, with k = 1000 in discs and k = 1 elsewhere,
 * to 1e-8 in the 2-norm of the residual, from u = 0. Prints iterations and residual of KSPCG, and those of rrb_solve
 * for the same system. */
#include <petscdmda.h>
#include <petscksp.h>
#include <rrbsolver_mpi.h>

#if defined(PETSC_USE_COMPLEX) || !defined(PETSC_USE_REAL_DOUBLE)
#error "this program needs a PETSc whose PetscScalar is double"
#endif

enum { NX = 300, NY = 200, PERIOD = 50, RADIUS = 18 };

static const double tolerance = 1e-8;

/* Raises a PETSc error with the library's error message if the library fails. */
static PetscErrorCode check(rrb_status status) {
    char message[256];
    PetscFunctionBeginUser;
    if (status != RRB_OK) {
        rrbsolver_last_error(message, sizeof message);
        SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB, "rrbsolver: %s", status < 0 ? message : "not converged");
    }
    PetscFunctionReturn(0);
}

/* ---- the problem, multiplied by h^2: the matrix holds conductances, the right-hand side is h^2, h = 1/NX ---- */

static double diffusivity(PetscInt i, PetscInt j) {
    const PetscInt x = i % PERIOD - PERIOD / 2, y = j % PERIOD - PERIOD / 2;
    return x * x + y * y < RADIUS * RADIUS ? 1000 : 1;
}

/* Conductance between cell (i, j) and its neighbour (harmonic mean), or between cell (i, j) and the boundary. */
static double conductance(PetscInt i, PetscInt j, PetscInt di, PetscInt dj) {
    const PetscInt in = i + di, jn = j + dj;
    const double k = diffusivity(i, j);
    if (in < 0 || in >= NX || jn < 0 || jn >= NY) {
        return 2 * k;
    }
    return 2 / (1 / k + 1 / diffusivity(in, jn));
}

static double diagonal(PetscInt i, PetscInt j) {
    return conductance(i, j, 1, 0) + conductance(i, j, -1, 0) + conductance(i, j, 0, 1) + conductance(i, j, 0, -1);
}

/* ---- PETSc's matrix ---- */

static PetscErrorCode set_row(Mat matrix, PetscInt i, PetscInt j) {
    static const PetscInt step[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    MatStencil row = {0, 0, 0, 0}, columns[5];
    PetscScalar values[5];
    PetscInt count = 0;
    PetscFunctionBeginUser;
    row.i = i;
    row.j = j;
    columns[count] = row;
    values[count++] = diagonal(i, j);
    for (int s = 0; s < 4; s++) {
        MatStencil column = row;
        column.i += step[s][0];
        column.j += step[s][1];
        if (column.i < 0 || column.i >= NX || column.j < 0 || column.j >= NY) {
            continue;
        }
        columns[count] = column;
        values[count++] = -conductance(i, j, step[s][0], step[s][1]);
    }
    PetscCall(MatSetValuesStencil(matrix, 1, &row, count, columns, values, INSERT_VALUES));
    PetscFunctionReturn(0);
}

static PetscErrorCode make_matrix(DM grid, Mat *matrix) {
    PetscInt i0, j0, nx, ny;
    PetscFunctionBeginUser;
    PetscCall(DMCreateMatrix(grid, matrix));
    PetscCall(DMDAGetCorners(grid, &i0, &j0, NULL, &nx, &ny, NULL));
    for (PetscInt j = j0; j < j0 + ny; j++) {
        for (PetscInt i = i0; i < i0 + nx; i++) {
            PetscCall(set_row(*matrix, i, j));
        }
    }
    PetscCall(MatAssemblyBegin(*matrix, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(*matrix, MAT_FINAL_ASSEMBLY));
    PetscFunctionReturn(0);
}

/* ---- the library's matrix for the same box; vectors of the DMDA hold its entries ---- */

static PetscErrorCode factorize(DM grid, rrb_handle *h) {
    enum { CENTER, EAST, NORTH, ENTRIES };
    Vec vectors[ENTRIES];
    double *a[ENTRIES];
    PetscInt i0, j0, nx, ny;
    PetscFunctionBeginUser;
    for (int e = 0; e < ENTRIES; e++) {
        PetscCall(DMGetGlobalVector(grid, &vectors[e]));
        PetscCall(VecGetArray(vectors[e], &a[e]));
    }
    PetscCall(DMDAGetCorners(grid, &i0, &j0, NULL, &nx, &ny, NULL));
    for (PetscInt j = 0; j < ny; j++) {
        for (PetscInt i = 0; i < nx; i++) {
            const PetscInt at = j * nx + i, ig = i0 + i, jg = j0 + j;
            a[CENTER][at] = diagonal(ig, jg);
            a[EAST][at] = ig + 1 < NX ? -conductance(ig, jg, 1, 0) : 0;
            a[NORTH][at] = jg + 1 < NY ? -conductance(ig, jg, 0, 1) : 0;
        }
    }
    PetscCall(check(rrb_factorize(h, a[CENTER], a[EAST], a[NORTH], NULL, NULL)));
    for (int e = 0; e < ENTRIES; e++) {
        PetscCall(VecRestoreArray(vectors[e], &a[e]));
        PetscCall(DMRestoreGlobalVector(grid, &vectors[e]));
    }
    PetscFunctionReturn(0);
}

/* cycle=v, because PETSc's CG needs a preconditioner that is the same in all iterations. */
static PetscErrorCode make_solver(DM grid, const rrbsolver_comm *comm, rrb_handle **h) {
    PetscInt i0, j0, nx, ny;
    int64_t lower[1][2], size[1][2];
    PetscFunctionBeginUser;
    PetscCall(DMDAGetCorners(grid, &i0, &j0, NULL, &nx, &ny, NULL));
    lower[0][0] = i0;
    lower[0][1] = j0;
    size[0][0] = nx;
    size[0][1] = ny;
    PetscCall(check(rrb_create_distributed(NX, NY, 1, (const int64_t(*)[2])lower, (const int64_t(*)[2])size, comm, h)));
    PetscCall(check(rrb_set_options(*h, "cycle=v threads=1")));
    PetscCall(check(rrb_set_real(*h, RRB_OPT_REL_TOL, tolerance)));
    PetscCall(factorize(grid, *h));
    PetscFunctionReturn(0);
}

/* ---- solves ---- */

static PetscErrorCode apply(PC pc, Vec residual, Vec correction) {
    rrb_handle *h = NULL;
    const double *r;
    double *z;
    PetscFunctionBeginUser;
    PetscCall(PCShellGetContext(pc, &h));
    PetscCall(VecGetArrayRead(residual, &r));
    PetscCall(VecGetArray(correction, &z));
    PetscCall(check(rrb_apply(h, r, z)));
    PetscCall(VecRestoreArray(correction, &z));
    PetscCall(VecRestoreArrayRead(residual, &r));
    PetscFunctionReturn(0);
}

static PetscErrorCode solve_by_petsc(Mat matrix, rrb_handle *h, Vec b, Vec x, PetscInt *iterations) {
    KSP ksp;
    PC pc;
    PetscFunctionBeginUser;
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, matrix, matrix));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
    PetscCall(KSPSetTolerances(ksp, tolerance, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPSetErrorIfNotConverged(ksp, PETSC_TRUE));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCSHELL));
    PetscCall(PCShellSetName(pc, "rrbsolver"));
    PetscCall(PCShellSetContext(pc, h));
    PetscCall(PCShellSetApply(pc, apply));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetIterationNumber(ksp, iterations));
    PetscCall(KSPDestroy(&ksp));
    PetscFunctionReturn(0);
}

static PetscErrorCode solve_by_library(rrb_handle *h, Vec right, Vec solution, PetscInt *iterations) {
    const double *b;
    double *x;
    int64_t count = 0;
    PetscFunctionBeginUser;
    PetscCall(VecSet(solution, 0));
    PetscCall(VecGetArrayRead(right, &b));
    PetscCall(VecGetArray(solution, &x));
    PetscCall(check(rrb_solve(h, b, x)));
    PetscCall(VecRestoreArray(solution, &x));
    PetscCall(VecRestoreArrayRead(right, &b));
    PetscCall(check(rrb_get_int(h, RRB_INFO_ITERATIONS, &count)));
    *iterations = (PetscInt)count;
    PetscFunctionReturn(0);
}

static PetscErrorCode print_line(const char *name, PetscInt iterations, Mat matrix, Vec b, Vec x) {
    Vec r;
    PetscReal of_r, of_b;
    PetscFunctionBeginUser;
    PetscCall(VecDuplicate(b, &r));
    PetscCall(MatMult(matrix, x, r));
    PetscCall(VecAYPX(r, -1, b));
    PetscCall(VecNorm(r, NORM_2, &of_r));
    PetscCall(VecNorm(b, NORM_2, &of_b));
    PetscCall(VecDestroy(&r));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-21s %3d iterations, ||b - A x|| / ||b|| = %.2e\n", name, (int)iterations,
                          (double)(of_r / of_b)));
    PetscFunctionReturn(0);
}

static PetscErrorCode run(void) {
    DM grid;
    Mat matrix;
    Vec b, x;
    rrbsolver_comm comm;
    rrb_handle *h = NULL;
    PetscInt iterations = 0;
    PetscFunctionBeginUser;
    PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, NX, NY,
                           PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, &grid));
    PetscCall(DMSetUp(grid));
    PetscCall(make_matrix(grid, &matrix));
    PetscCall(DMCreateGlobalVector(grid, &b));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(VecSet(b, 1.0 / ((double)NX * NX)));

    PetscCallMPI(rrbsolver_mpi_comm(PETSC_COMM_WORLD, &comm));
    PetscCall(make_solver(grid, &comm, &h));
    PetscCall(solve_by_petsc(matrix, h, b, x, &iterations));
    PetscCall(print_line("KSPCG with rrb_apply:", iterations, matrix, b, x));
    PetscCall(solve_by_library(h, b, x, &iterations));
    PetscCall(print_line("rrb_solve:", iterations, matrix, b, x));

    PetscCall(check(rrb_destroy(&h)));
    rrbsolver_mpi_free(&comm);
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&matrix));
    PetscCall(DMDestroy(&grid));
    PetscFunctionReturn(0);
}

int main(int argc, char **argv) {
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(run());
    PetscCall(PetscFinalize());
    return 0;
}
