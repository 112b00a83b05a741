/* The interpreter of hops.h: each call runs a table a little further.
 *
 * It does not use MPI: a transport moves bytes between two ranks, in the order of the calls. */
#pragma once

#include "lib/comm/hops/hops.h"

/* A transport's data of a message in flight, at a fixed address until the message is done. All fields except `handle`
 * are for emulated links (link_clock.h): when it has left and arrives, its seconds on a link, and the link. */
struct hop_ticket {
    void *handle[2];
    double stamp, there, busy_s;
    int node;
    bool sending, between, stamped, landed;
};

struct hop_transport {
    /* Announce a message that will be received. Called for all messages before any begins; messages of one peer are
     * announced in the order in which it sends them. NULL: the transport needs no announcement. */
    enum status (*expect)(void *self, int peer, int64_t bytes, struct hop_ticket *);
    /* Begin to send or to receive; the caller must keep the bytes until it is done. Messages of two ranks in one
     * direction are matched in the order of these calls. */
    enum status (*send)(void *self, int peer, const void *at, int64_t bytes, struct hop_ticket *);
    enum status (*receive)(void *self, int peer, void *at, int64_t bytes, struct hop_ticket *);
    /* Check once whether the message is done. Never blocks. */
    enum status (*done)(void *self, struct hop_ticket *, bool *done);
    /* into[i] = the reduction of into[i] and terms[i]. */
    enum status (*combine)(void *self, void *terms, void *into, int64_t n);
};

struct hop_buffers { const void *from; void *to; };

struct hop_walk;
/** Bytes that a walk uses in addition to the caller's buffers: scratch, and buffers for terms that arrive. */
int64_t hop_walk_bytes(const struct hop_table *, int64_t element_bytes);
/** Begin. The walk takes the rows from *table, which is then empty, even after an error. `memory` has hop_walk_bytes,
 *  aligned to 64 bytes; it and the other arguments are borrowed. n: ranks of the group. @errors E_MEMORY */
enum status hop_walk_open(struct hop_table *, int n, int64_t element_bytes, const struct hop_buffers *, void *memory,
                          const struct hop_transport *, void *self, struct hop_walk **out);
/** Run the table as far as possible without blocking. @errors of the transport */
enum status hop_walk_push(struct hop_walk *, bool *done);
/** The number of rows that have ended; *of: the number of all rows. */
int hop_walk_done(const struct hop_walk *, int *of);
void hop_walk_close(struct hop_walk **);
