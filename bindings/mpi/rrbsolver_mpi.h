/* rrbsolver_mpi.h: communication over MPI for rrb_create_distributed of rrbsolver.h. C99 and C++.
 *
 * librrbsolver does not depend on an MPI library, so that one build works with all of them. Compile rrbsolver_mpi.c in
 * your build, with your MPI.
 *
 *     rrbsolver_comm comm;
 *     if (rrbsolver_mpi_comm(MPI_COMM_WORLD, &comm) != MPI_SUCCESS) ...
 *     rrb_create_distributed(nx, ny, count, lower, size, &comm, &h);
 *     ...
 *     rrb_destroy(&h);
 *     rrbsolver_mpi_free(&comm);
 *
 * The library calls MPI on the thread that calls the library, one call at a time: MPI_THREAD_FUNNELED suffices if that
 * is the main thread. It polls and never blocks in MPI. One thread at a time uses the handles of a table; another
 * thread needs another table. */
#ifndef RRBSOLVER_MPI_H
#define RRBSOLVER_MPI_H

#include <mpi.h>
#include <rrbsolver.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills the table `out` for the ranks of `comm`. Collective over `comm`.
 *
 * The call duplicates `comm`, so that the messages of the library do not interfere with others. The duplicate has the
 * error handler MPI_ERRORS_RETURN: a failure of MPI in a later call becomes RRB_ERR_COMMUNICATION. One table serves any
 * number of handles, until one of them loses a rank.
 *
 * Returns MPI_SUCCESS or an error code of MPI; `out` is then unchanged:
 * - MPI_ERR_ARG: `out` is NULL.
 * - MPI_ERR_COMM: `comm` is MPI_COMM_NULL or an intercommunicator.
 * - MPI_ERR_OTHER: called before MPI_Init or after MPI_Finalize.
 * - MPI_ERR_NO_MEM: allocation failed.
 * - any error of MPI_Comm_dup. */
int32_t rrbsolver_mpi_comm(MPI_Comm comm, rrbsolver_comm *out);

/* The same for a Fortran communicator: the integer of `use mpi`, or the component MPI_VAL of `use mpi_f08`. */
int32_t rrbsolver_mpi_comm_f(int32_t comm, rrbsolver_comm *out);

/* Frees the duplicate and sets all of `comm` to zero. Collective; NULL and a table of zeros have no effect.
 *
 * Call it before MPI_Finalize, after all handles created with the table or a copy of it are destroyed. If handles
 * remain, the duplicate exists until the last of them is destroyed. After MPI_Finalize only memory is freed.
 *
 * A duplicate on which a rank was lost is not freed, since MPI_Comm_free needs all ranks. */
void rrbsolver_mpi_free(rrbsolver_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
