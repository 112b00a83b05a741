/* Entering and leaving MPI, and splitting the world.
 *
 * By default MPI ends the process on any error, with a page of its own text. This file makes MPI return errors, so that
 * they become one line with rank, operation and group. */
#include "lib/comm/transport/comm_mpi.h"

#include "lib/base/cores.h"
#include "lib/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool comm_has_mpi(void) { return true; }

static void version(char *text, size_t bytes) {
    char whole[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    int length = 0;
    if (MPI_Get_library_version(whole, &length) != MPI_SUCCESS) snprintf(whole, sizeof whole, "an unknown MPI");
    whole[strcspn(whole, ",\n")] = 0;   /* keep the name and version, without the build's details */
    for (char *tab; (tab = strchr(whole, '\t')) != NULL;) *tab = ' ';
    snprintf(text, bytes, "%.256s", whole);
}

/* Ranks may be bound to separate cores, or share the cores of a taskset or a batch system: together they have the union
 * of their masks. */
static enum status count_cores(MPI_Comm host, struct comm_place *place) {
    unsigned char mine[CORES_MASK_BYTES], all[CORES_MASK_BYTES];
    cores_mask(mine);
    MPI_TRY(MPI_Allreduce, mine, all, CORES_MASK_BYTES, MPI_BYTE, MPI_BOR, host);
    place->local_cores = cores_count(all);
    return OK;
}

/* Hosts are numbered in the order of their first ranks. */
static enum status number_hosts(MPI_Comm host, struct comm_place *place) {
    int first = place->rank, n_hosts = 0;
    int *of = place->host = calloc((size_t)place->size, sizeof *of);
    if (!of) return FAIL(E_MEMORY, "no memory for the hosts of %d ranks", place->size);
    MPI_TRY(MPI_Bcast, &first, 1, MPI_INT, 0, host);
    MPI_TRY(MPI_Allgather, &first, 1, MPI_INT, of, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < place->size; r++) of[r] = of[r] == r ? n_hosts++ : of[of[r]];
    return OK;
}

static enum status find_place(struct comm_place *place) {
    MPI_Comm host;
    MPI_TRY(MPI_Comm_rank, MPI_COMM_WORLD, &place->rank);
    MPI_TRY(MPI_Comm_size, MPI_COMM_WORLD, &place->size);
    MPI_TRY(MPI_Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place->rank, MPI_INFO_NULL, &host);
    MPI_TRY(MPI_Comm_rank, host, &place->local_rank);
    MPI_TRY(MPI_Comm_size, host, &place->local_size);
    TRY(count_cores(host, place));
    TRY(number_hosts(host, place));
    MPI_TRY(MPI_Comm_free, &host);
    return OK;
}

static enum status world_start(int *argc, char ***argv, struct comm_place *place) {
    int provided;
    /* FUNNELED: OpenMP threads exist, and only the main thread calls MPI */
    MPI_TRY(MPI_Init_thread, argc, argv, MPI_THREAD_FUNNELED, &provided);
    if (provided < MPI_THREAD_FUNNELED)
        log_warn("this MPI promises no thread support (level %d); use an MPI built with threads if runs crash",
                 provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* communicators made from these inherit the handler */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    TRY(find_place(place));
    TRY(mpi_reductions_open());
    return OK;
}

static enum status world_share(void *bytes, int n) {
    MPI_TRY(MPI_Bcast, bytes, n, MPI_BYTE, 0, MPI_COMM_WORLD);
    return OK;
}

static void world_finish(void) {
    mpi_reductions_close();
    MPI_Finalize();
}

static void world_kill(int code) {
    MPI_Abort(MPI_COMM_WORLD, code);
    _Exit(code); /* not reached, if MPI_Abort ends the process as the standard advises */
}

static enum status split(int colour, int key, void **communicator, int *size, int *rank) {
    MPI_Comm comm = MPI_COMM_NULL;
    if (colour != GROUP_ALL_ALONE)
        MPI_TRY(MPI_Comm_split, MPI_COMM_WORLD, colour < 0 ? MPI_UNDEFINED : colour, key, &comm);
    if (comm == MPI_COMM_NULL) MPI_TRY(MPI_Comm_dup, MPI_COMM_SELF, &comm);
    *communicator = mpi_comm_handle(comm);
    MPI_TRY(MPI_Comm_size, comm, size);
    MPI_TRY(MPI_Comm_rank, comm, rank);
    return OK;
}

static enum status translate(MPI_Group group, MPI_Group world, int size, int *members) {
    int *ranks = calloc((size_t)size, sizeof *ranks);
    if (!ranks) return FAIL(E_MEMORY, "no memory for %d ranks", size);
    for (int r = 0; r < size; r++) ranks[r] = r;
    int code = MPI_Group_translate_ranks(group, size, ranks, world, members);
    free(ranks);
    return code == MPI_SUCCESS ? OK : FAIL(E_COMM, "MPI_Group_translate_ranks: %s", mpi_error_text(code));
}

static enum status members_of(void *communicator, int size, int *members) {
    MPI_Group group, world;
    MPI_TRY(MPI_Comm_group, mpi_comm_of(communicator), &group);
    MPI_TRY(MPI_Comm_group, MPI_COMM_WORLD, &world);
    enum status status = translate(group, world, size, members);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return status;
}

static enum status duplicate(void *communicator, void **out) {
    MPI_Comm comm;
    MPI_TRY(MPI_Comm_dup, mpi_comm_of(communicator), &comm);
    *out = mpi_comm_handle(comm);
    return OK;
}

/* Rank 0 of the host allocates all words. */
static enum status shared_make(int n_words, struct host_shared *out) {
    MPI_Comm host;
    MPI_Win window;
    MPI_Aint bytes;
    int rank, unit;
    void *base;
    MPI_TRY(MPI_Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_TRY(MPI_Comm_rank, host, &rank);
    MPI_TRY(MPI_Win_allocate_shared, rank ? 0 : n_words * (MPI_Aint)sizeof(uint64_t), 1, MPI_INFO_NULL, host, &base,
            &window);
    MPI_TRY(MPI_Win_shared_query, window, 0, &bytes, &unit, &base);
    if (rank == 0) memset(base, 0, (size_t)bytes);
    MPI_TRY(MPI_Barrier, host);
    MPI_TRY(MPI_Comm_free, &host);
    out->word = base;
    out->window = malloc(sizeof window);
    if (!out->window) return FAIL(E_MEMORY, "no memory for a window");
    memcpy(out->window, &window, sizeof window);
    return OK;
}

static void shared_free(struct host_shared *shared) {
    if (!shared->window) return;
    MPI_Win_free(shared->window);
    free(shared->window);
    *shared = (struct host_shared){0};
}

static void close_communicator(void **communicator) {
    if (!*communicator) return;
    MPI_Comm comm = mpi_comm_of(*communicator);
    MPI_Comm_free(&comm);
    *communicator = NULL;
}

const struct host_transport transport_mpi = {
    .name = "MPI", .version = version, .start = world_start, .share = world_share, .finish = world_finish,
    .kill = world_kill, .split = split, .members = members_of, .duplicate = duplicate, .close = close_communicator,
    .shared_make = shared_make, .shared_free = shared_free, .send = mpi_send, .receive = mpi_receive,
    .test = mpi_test, .text = mpi_error_text, .collective = mpi_collective, .mail_open = mpi_mail_open,
    .mail_close = mpi_mail_close, .mail_send = mpi_mail_send, .mail_receive = mpi_mail_receive};
