/* The streams of an epoch, from each rank to each other rank.
 *
 *   same host       a ring for each ordered pair, in the memory that all processes of the host map (ring.h). Each byte
 *                   is copied twice, into the ring and out of it. The receiver of a large message copies it once, from
 *                   the sender's own memory (lent.h)
 *   another host    a TCP connection, after a proof of the job's secret (network.h)
 *
 * Both have the same functions for messages.h: put and take move as many bytes as possible, and never block.
 *
 *   ring of (q, p), q's bytes to p:   rings[q n + p]       so q and p follow from the index of a ring
 *
 * What breaks: using bytes read from another rank's memory as a message before checking the epoch (fetch). */
#include "lib/comm/direct/streams.h"
#include "lib/comm/direct/lent.h"
#include "lib/comm/direct/network.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const struct own_self *self;
static struct ring *rings;                   /* of this epoch, [n][n] */
static int listening = -1;                   /* the socket for connections from other hosts; -1: none */
static bool far[OWN_MOST_RANKS];             /* [rank]: is this member on another host? */
static struct network_address address[OWN_MOST_RANKS];   /* where each slot listens */
static struct network *network;              /* the connections to far members */
static struct own_wire wire[OWN_MOST_RANKS]; /* of each member */

static struct own_line *line_of(int rank) { return &self->memory->line[self->now.slot[rank]]; }

/* ---- large messages (lent.h) ---- */
/* The body stays in place while its message is in flight. After the end of its epoch the sender may overwrite it, so
 * the receiver checks the epoch after this copy (direct.c). The sender reads the new epoch before it overwrites the
 * body, so a receiver that copied overwritten bytes also reads the new epoch. */
static bool fetch(void *in, void *to, uint64_t from, size_t n) {
    int sender = (int)((struct ring *)in - rings) / self->now.n;
    bool read = own_lent_read(line_of(sender), to, from, n);
    atomic_thread_fence(memory_order_seq_cst);
    return read;
}

/* Memory that a GPU's driver has mapped cannot be lent: other processes cannot read it, and this test read fails. */
static bool lend(void *out, const void *body, size_t n) {
    char byte;
    int receiver = (int)((struct ring *)out - rings) % self->now.n;
    return n >= LENT_BYTES && line_of(receiver)->reads == OWN_READS &&
           own_lent_read(line_of(self->rank), &byte, (uintptr_t)body, 1);
}

const char *own_streams_try_to_read(void) {
    const char *copies = getenv("TRIVIUM_OWN_COPIES");
    const bool wanted = !copies || strcmp(copies, "2") != 0;
    bool reads = wanted;
    for (int r = 0; r < self->now.n && reads; r++) reads = far[r] || own_lent_try(line_of(r));
    line_of(self->rank)->reads = reads ? OWN_READS : OWN_CANNOT_READ;
    if (reads) return NULL;
    return wanted ? "ranks may not read each other's memory (process_vm_readv; see /proc/sys/kernel/yama/ptrace_scope, "
                    "and what a container allows)" : "TRIVIUM_OWN_COPIES=2 asks for that";
}

/* ---- other hosts ---- */
enum status own_streams_listen(const struct own_self *of) {
    const struct own_job *job = &of->job;
    struct network_address here = {job->ip ? job->ip : INADDR_LOOPBACK, 0};
    if (job->n_nodes <= 1 && !job->ip) return OK;
    TRY(wire_listen(&here, "is that an address of this host?", &listening));
    atomic_store(&of->memory->address[job->slot], (uint64_t)here.ip << 16 | here.port);
    return OK;
}

/* @return have all members that this rank calls published their addresses? */
static bool find_addresses(void) {
    bool all = true;
    for (int r = 0; r < self->now.n; r++) {
        int slot = self->now.slot[r];
        uint64_t at = atomic_load(&self->memory->address[slot]);
        address[slot] = (struct network_address){(uint32_t)(at >> 16), (uint16_t)at};
        all &= !far[r] || at != 0;
    }
    return all;
}

bool own_streams_meet(void) {
    if (!network) return true;
    bool all = find_addresses();
    return own_network_step(network) && all;
}

int own_streams_missing(void) { return network ? own_network_missing(network) : -1; }
int own_streams_lost(void) { return network ? own_network_lost(network) : -1; }

void own_streams_cut(int rank) {
    if (network) own_network_cut(network, rank);
}

/* ---- the streams of all members ---- */
static int64_t put(void *out, const void *from, size_t n) { return (int64_t)ring_put(out, from, n); }
static int64_t take(void *in, void *to, size_t n) { return (int64_t)ring_take(in, to, n); }

static bool is_far(int r) {
    const struct membership *now = &self->now;
    const struct own_job *job = &self->job;
    return now->host[r] != now->host[self->rank] || own_node(job, now->slot[r]) != own_node(job, job->slot);
}

enum status own_streams_open(const struct own_self *of) {
    int n = of->now.n, me = of->rank;
    bool any = false;
    self = of;
    TRY(own_rings_map(&of->job, of->now.number, &rings));
    for (int r = 0; r < n; r++) any |= far[r] = is_far(r);
    if (any) TRY(own_network_open(&of->now, of->job.slot, far, address, of->memory->secret,
                                  of->memory->encrypts, listening, &network));
    for (int r = 0; r < n; r++)
        wire[r] = far[r] ? own_network_wire(network, r)
                         : (struct own_wire){&rings[me * n + r], &rings[r * n + me], put, take, lend, fetch};
    return OK;
}

const struct own_wire *own_streams_wires(void) { return wire; }

void own_streams_close(void) {
    own_network_close(&network);
    if (rings) own_rings_unmap(&self->job, rings);
    rings = NULL;
}
