/* rrbsolver_mpi.h: messages between ranks by MPI, for rrb_create_distributed of rrbsolver.h. C99 and C++.
 *
 * librrbsolver knows no MPI, so that one library serves all of them: rrbsolver_mpi.c is compiled in your build, with
 * your MPI.
 *
 *     rrbsolver_comm comm;
 *     if (rrbsolver_mpi_comm(MPI_COMM_WORLD, &comm) != MPI_SUCCESS) ...
 *     rrb_create_distributed(nx, ny, count, lower, size, &comm, &h);
 *     ...
 *     rrb_destroy(&h);
 *     rrbsolver_mpi_free(&comm);
 *
 * The functions of a handle come from the thread that calls the library, one at a time: MPI_THREAD_FUNNELED suffices
 * where that is the main thread. MPI is polled, and never waited for. Handles of one table are used by one thread at a
 * time; others take a table of their own. */
#ifndef RRBSOLVER_MPI_H
#define RRBSOLVER_MPI_H

#include <mpi.h>
#include <rrbsolver.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `out` for the ranks of `comm`, which is duplicated: messages of the library meet no others. The duplicate
 * returns errors, whatever error handler `comm` has; a failure then is RRB_ERR_COMMUNICATION. All ranks of `comm` make
 * this call. Returns MPI_SUCCESS or an error code of MPI: MPI_ERR_ARG for `out` = NULL, MPI_ERR_COMM for
 * MPI_COMM_NULL and for an intercommunicator, MPI_ERR_OTHER outside of MPI_Init and MPI_Finalize, MPI_ERR_NO_MEM, and
 * what MPI_Comm_dup answers. `out` is then as it was. One table serves any number of handles, until one of them loses a
 * rank. */
int32_t rrbsolver_mpi_comm(MPI_Comm comm, rrbsolver_comm *out);

/* The same for a communicator of Fortran: the integer of `use mpi`, or the component MPI_VAL of that of
 * `use mpi_f08`. */
int32_t rrbsolver_mpi_comm_f(int32_t comm, rrbsolver_comm *out);

/* Frees the duplicate, and makes all of `comm` zero; NULL and a table that is zero are no errors. All ranks make this
 * call, before MPI_Finalize and after they have destroyed all handles made with the table or with copies of it. Where
 * handles are left, the duplicate stays until the last of them is destroyed. After MPI_Finalize memory alone is freed.
 * A duplicate on which a rank was lost is left to MPI: it cannot be freed without the others. */
void rrbsolver_mpi_free(rrbsolver_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
