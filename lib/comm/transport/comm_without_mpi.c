/* Replaces comm_mpi*.c in a build without MPI (make MPI=0): a process that `launch` has not started is a world of one
 * rank. `launch` starts the ranks of larger jobs (direct/direct.c).
 *
 * What breaks: if mpirun starts eight such processes, each would train alone, as rank 0 of 1. So a process that mpirun
 * or srun has started as one of several fails at once. */
#include "lib/comm/transport/host_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- communicators of one rank: a handle is an address of its own ---- */
static enum status duplicate(void *communicator, void **out) {
    (void)communicator;
    *out = malloc(1);
    return *out ? OK : FAIL(E_MEMORY, "no memory for a group");
}
static enum status split(int colour, int key, void **communicator, int *size, int *rank) {
    (void)colour, (void)key;
    *size = 1, *rank = 0;
    return duplicate(NULL, communicator);
}
static enum status members(void *communicator, int size, int *list) {
    (void)communicator;
    for (int r = 0; r < size; r++) list[r] = r;
    return OK;
}
static void close_communicator(void **communicator) {
    free(*communicator);
    *communicator = NULL;
}

static enum status shared_make(int n_words, struct host_shared *out) {
    out->word = calloc((size_t)n_words, sizeof *out->word);
    out->window = out->word;
    return out->word ? OK : FAIL(E_MEMORY, "no memory for %d words", n_words);
}
static void shared_free(struct host_shared *shared) {
    free(shared->window);
    *shared = (struct host_shared){0};
}

/* ---- messages of the rank to itself ---- */

/* What has no partner yet, in the order of the calls: a receive, or a message, whose bytes follow the struct. */
struct post { struct post *next; const void *communicator; void *at; size_t bytes; int tag; bool receives, done; };
static struct post *posts;
enum { NO_MEMORY = 1 };

static struct post *take_partner(const struct post *of) {
    for (struct post **p = &posts, *found; (found = *p) != NULL; p = &found->next)
        if (found->receives != of->receives && found->communicator == of->communicator && found->tag == of->tag)
            return *p = found->next, found;
    return NULL;
}
static struct post *append(const struct post *post, const void *message) {
    struct post **end = &posts, *new = malloc(sizeof *new + (message ? post->bytes : 0));
    if (!new) return NULL;
    *new = *post;
    if (message && post->bytes) new->at = memcpy(new + 1, message, post->bytes);
    while (*end) end = &(*end)->next;
    return *end = new;
}
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static int send_message(void *communicator, const void *at, int n, enum dtype dtype, int to, int tag, void **handle) {
    struct post mine = {.communicator = communicator, .bytes = (size_t)n * dtype_size(dtype), .tag = tag};
    struct post *receive = take_partner(&mine);
    (void)to;
    *handle = NULL;                          /* a message is on its way, or copied */
    if (!receive) return append(&mine, at) ? TRANSPORT_OK : NO_MEMORY;
    if (n) memcpy(receive->at, at, least(receive->bytes, mine.bytes));
    receive->done = true;
    return TRANSPORT_OK;
}
static int receive_message(void *communicator, void *at, int n, enum dtype dtype, int from, int tag, void **handle) {
    struct post mine = {.communicator = communicator, .at = at, .bytes = (size_t)n * dtype_size(dtype), .tag = tag,
                        .receives = true};
    struct post *message = take_partner(&mine);
    (void)from;
    *handle = NULL;
    if (!message) return (*handle = append(&mine, NULL)) ? TRANSPORT_OK : NO_MEMORY;
    if (n) memcpy(at, message->at, least(message->bytes, mine.bytes));
    free(message);
    return TRANSPORT_OK;
}
static int test_message(void **handle, bool *done) {
    struct post *receive = *handle;
    *done = !receive || receive->done;
    if (!*done) return TRANSPORT_OK;
    free(receive);
    return *handle = NULL, TRANSPORT_OK;
}
static const char *text(int code) { return code == NO_MEMORY ? "no memory for a message" : "no failure"; }

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
