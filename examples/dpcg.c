/* Initial pressure around a gas bubble (density 1) in a closed box of liquid (density 1000):
 *
 *    -div(1/rho grad p) = -div(w),   w = (0, 0, -g) inside the box, zero normal component at the walls
 *
 * The resulting acceleration is w - (1/rho) grad p. Theory predicts 2 g for a massless sphere (added mass 1/2). */
#include <math.h>
#include <rrbsolver.h>
#include <stdio.h>

enum { NX = 24, NY = 24, NZ = 32 };
typedef double field[NZ][NY][NX]; /* x is the fastest index, as in Fortran's (NX, NY, NZ) */
static field rho, center, east, north, top, b, p, ap;
static const double h = 0.001, g = 9.81; /* cell width [m], gravity [m/s^2] */

static double face(double rho_1, double rho_2) { return -2 / (rho_1 + rho_2); } /* -1/rho: entries are negative */
int main(void) {
    for (int k = 0; k < NZ; k++)
        for (int j = 0; j < NY; j++)
            for (int i = 0; i < NX; i++) /* radius 5 cells [kg/m^3] */
                rho[k][j][i] = pow(i - 11.5, 2) + pow(j - 11.5, 2) + pow(k - 11.5, 2) < 25 ? 1 : 1000;
    for (int k = 0; k < NZ; k++)
        for (int j = 0; j < NY; j++)
            for (int i = 0; i < NX; i++) { /* no flux through the walls */
                if (i + 1 < NX) east[k][j][i] = face(rho[k][j][i], rho[k][j][i + 1]);
                if (j + 1 < NY) north[k][j][i] = face(rho[k][j][i], rho[k][j + 1][i]);
                if (k + 1 < NZ) top[k][j][i] = face(rho[k][j][i], rho[k + 1][j][i]);
                center[k][j][i] = -(east[k][j][i] + north[k][j][i] + top[k][j][i] + (i ? east[k][j][i - 1] : 0) +
                                    (j ? north[k][j - 1][i] : 0) + (k ? top[k - 1][j][i] : 0));
                b[k][j][i] = k == 0 ? g * h : k == NZ - 1 ? -g * h : 0; /* -div(w) h^2 */
            }

    dpcg_handle *solver = NULL;
    int64_t iterations = 0;
    rrb_status status = dpcg_create(NX, NY, NZ, &solver);
    if (status >= 0) status = dpcg_set_options(solver, "rel_tol=1e-8");
    if (status >= 0) status = dpcg_factorize(solver, **center, **east, **north, **top); /* in every time step */
    if (status >= 0) status = dpcg_solve(solver, **b, **p); /* p: initial guess in, pressure out */
    if (status < 0) {
        char message[512];
        rrbsolver_last_error(message, sizeof message);
        return printf("%s\n", message), 1;
    }
    dpcg_get_int(solver, RRB_INFO_ITERATIONS, &iterations);
    dpcg_multiply(solver, **p, **ap);
    dpcg_destroy(&solver);

    double sum = 0, faces = 0, largest = 0; /* acceleration at faces within the gas; divergence */
    for (int k = 0; k + 1 < NZ; k++)
        for (int j = 0; j < NY; j++)
            for (int i = 0; i < NX; i++) {
                largest = fmax(largest, fabs(b[k][j][i] - ap[k][j][i]));
                if (rho[k][j][i] + rho[k + 1][j][i] > 2) continue;
                sum += -g + top[k][j][i] * (p[k + 1][j][i] - p[k][j][i]) / h, faces++;
            }
    printf("converged: %c, iterations: %d\n", status == RRB_OK ? 'T' : 'F', (int)iterations);
    printf("acceleration of the bubble: %.2f g\n", sum / faces / g);
    printf("divergence below 1e-6 g / h: %c\n", largest < 1e-6 * g * h ? 'T' : 'F');
    return 0;
}
