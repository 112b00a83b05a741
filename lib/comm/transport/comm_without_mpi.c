/* Replaces comm_mpi*.c in a build without MPI (make MPI=0): a process that `launch` has not started is a world of one
 * rank. `launch` starts the ranks of larger jobs (direct/direct.c).
 *
 * What breaks: if mpirun starts eight such processes, each would train alone, as rank 0 of 1. So a process that mpirun
 * or srun has started as one of several fails at once. */
#include "lib/comm/transport/host_transport.h"

#include <stdio.h>
#include <stdlib.h>

bool comm_has_mpi(void) { return false; }

static void version(char *text, size_t bytes) { snprintf(text, bytes, "none"); }

/* The variables in which Open MPI's mpirun, MPICH's mpirun and srun put the number of processes. */
static enum status world_start(int *argc, char ***argv, struct comm_place *place) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && atoi(size) > 1)
            return FAIL(E_CONFIG, "%s=%s: this is one of several ranks, and this build has no MPI; use trivium launch "
                        "-n %s, or build with MPI (tools/install-deps, then make)", sizes[i], size, size);
    }
    *place = (struct comm_place){.size = 1, .local_size = 1};
    return OK;
}

static enum status world_share(void *bytes, int n) { return (void)bytes, (void)n, OK; }
static void world_finish(void) {}
static void world_kill(int code) { _Exit(code); }

/* ---- communicators of one rank: a handle is any address ---- */
static char one;
static enum status split(int colour, int key, void **communicator, int *size, int *rank) {
    (void)colour, (void)key;
    *communicator = &one, *size = 1, *rank = 0;
    return OK;
}
static enum status members(void *communicator, int size, int *list) {
    (void)communicator;
    for (int r = 0; r < size; r++) list[r] = r;
    return OK;
}
static enum status duplicate(void *communicator, void **out) { return *out = communicator, OK; }
static void close_communicator(void **communicator) { *communicator = NULL; }

static enum status shared_make(int n_words, struct host_shared *out) {
    out->word = calloc((size_t)n_words, sizeof *out->word);
    out->window = out->word;
    return out->word ? OK : FAIL(E_MEMORY, "no memory for %d words", n_words);
}
static void shared_free(struct host_shared *shared) {
    free(shared->window);
    *shared = (struct host_shared){0};
}

/* ---- messages: comm_self.c handles messages of a rank to itself ---- */
enum { NO_PEER = 1 };
static int send_message(void *communicator, const void *at, int n, enum dtype dtype, int to, int tag, void **handle) {
    (void)communicator, (void)at, (void)n, (void)dtype, (void)to, (void)tag;
    return *handle = NULL, NO_PEER;
}
static int receive_message(void *communicator, void *at, int n, enum dtype dtype, int from, int tag, void **handle) {
    (void)communicator, (void)at, (void)n, (void)dtype, (void)from, (void)tag;
    return *handle = NULL, NO_PEER;
}
static int test_message(void **handle, bool *done) { return *handle = NULL, *done = true, TRANSPORT_OK; }
static const char *text(int code) {
    return code == NO_PEER ? "there is no other rank, and this build has no MPI" : "no failure";
}

static enum status mail_open(void) { return OK; }
static void mail_close(void) {}
static void mail_send(int to, const struct mail *mail) { (void)to, (void)mail; }
static bool mail_receive(int *from, struct mail *mail) { return (void)from, (void)mail, false; }

const struct host_transport transport_mpi = {
    .name = "one rank without MPI", .version = version, .start = world_start, .share = world_share,
    .finish = world_finish, .kill = world_kill, .split = split, .members = members, .duplicate = duplicate,
    .close = close_communicator, .shared_make = shared_make, .shared_free = shared_free, .send = send_message,
    .receive = receive_message, .test = test_message, .text = text, .mail_open = mail_open, .mail_close = mail_close,
    .mail_send = mail_send, .mail_receive = mail_receive};
