/* parses: lib/base lib/device/dtype.c lib/comm/comm_world.c lib/comm/flight/flight_read.c lib/comm/flight/postmortem.c
 * lib/comm/flight/postmortem_text.c */
/* Sound flight records of two ranks, in which the input changes bytes. Six bytes of input are a change: record
 * and place (3), number of bytes (1), and their value, repeated (2). The first byte cuts the second file. Accepted
 * records have a verdict, and a sentence for each rank. */
#include "lib/comm/comm.h"
#include "lib/comm/flight/postmortem.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { N = 2, CALLS = 6, MOST_RANKS = 64 };

/* Both ranks make the same calls, and rank 0 one more, in which it waits. */
static void make_ring(struct flight *f, int rank) {
    *f = (struct flight){.magic = "TRVFLGHT", .version = FLIGHT_VERSION, .n_rows = FLIGHT_ROWS, .n_groups = 2,
                         .rank = rank, .size = N, .pid = 1 << 30, .host = "h", .job = "j", .start_ns = 1000,
                         .seen_ns = 5000, .written = CALLS - rank};
    f->group[0] = (struct flight_group){"dp", 7, N, rank, 0, 1, 1, CALLS - rank};
    f->group[1] = (struct flight_group){"pp", 9, N, rank, 0, 1, 1, 0};
    for (int64_t i = 1; i <= f->written; i++)
        f->row[i] = (struct flight_row){.number = i, .called_ns = 1000 + i, .done_ns = i < CALLS ? 1001 + i : 0,
                                        .sequence = i - 1, .count = 10, .group = 7, .step = 1, .peer = -1,
                                        .op = COMM_ALL_REDUCE, .dtype = FP32,
                                        .state = i < CALLS ? FLIGHT_DONE : FLIGHT_STARTED};
    if (rank == 0) f->wait_row = CALLS, f->wait_since_ns = 2000;
}

static void change(struct flight *ring[N], struct fuzz_bytes *in) {
    uint64_t where = fuzz_number(in, 3), n = fuzz_number(in, 1) % 16 + 1, value = fuzz_number(in, 2);
    uint64_t head = offsetof(struct flight, row) + 8 * sizeof(struct flight_row);   /* later rows are all alike */
    unsigned char *at = (unsigned char *)ring[where & 1];
    where = (where >> 1) % head;
    for (uint64_t i = 0; i < n && where + i < sizeof **ring; i++) at[where + i] = (unsigned char)(value >> 8 * (i % 2));
}

static void look(const struct flight_set *set) {
    struct postmortem p;
    char text[1536];
    MUST(set->size > 0 && set->n_found > 0 && set->n_found <= N);
    if (set->size > MOST_RANKS) return;                              /* slow, and no different */
    MUST(postmortem_find(set, &p) == OK);
    MUST(p.rank >= -1 && p.rank < set->size && p.other >= -1 && p.other < set->size);
    postmortem_text(set, &p, text, sizeof text);
    MUST(*text);
    for (int r = 0; r < set->size; r++) {
        MUST(p.of[r].waits_for >= -1 && p.of[r].waits_for < set->size);
        postmortem_rank_text(set, &p, r, text, sizeof text);
        MUST(*text);
    }
    postmortem_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    struct flight *ring[N];
    struct flight_set set;
    size_t cut = (size_t)fuzz_number(&in, 1);
    for (int r = 0; r < N; r++) {
        ring[r] = flight_blank();
        MUST(ring[r]);
        make_ring(ring[r], r);
    }
    while (in.left) change(ring, &in);
    const char *folder = fuzz_folder();
    fuzz_write("trivium.j.0", ring[0], sizeof *ring[0]);
    fuzz_write("trivium.j.1", ring[1], sizeof *ring[1] - cut * 4);
    enum status status = flight_set_read(folder, "", &set);
    MUST(status == OK || status == E_DATA);
    if (status == OK) look(&set);
    flight_set_fini(&set);
    for (int r = 0; r < N; r++) free(ring[r]);
    return 0;
}
