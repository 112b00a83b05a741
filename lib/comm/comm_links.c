/* Emulated links. See comm_links.h.
 *
 * A link is a time until which it is occupied. A rank's own two (in and out) are its own variables; those of a node are
 * shared by its ranks, in memory of the host. A message that has come waits in a list until its stamp is past; then the
 * receiver's link takes those in the list in the order of their stamps. */
#include "lib/comm/comm_links.h"

#include "lib/base/clock.h"
#include "lib/comm/comm_backend.h"
#include "lib/comm/comm_links_private.h"
#include "lib/comm/comm_mpi_world.h"
#include "lib/comm/hop_simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT, IN, WAYS };
static bool on;
static struct hop_links links;
static double own[2][WAYS];                 /* [between]: until when this rank's links are occupied */
static struct mpi_shared shared;            /* [node][way]: NICs of nodes, as bits of a double */
static struct hop_ticket **waiting;         /* messages that have come, and have not landed */
static int n_waiting, room;

/* ---- options ---- */

static bool read_unit(const char *text, const char *const unit[], const double factor[], int n, double *x) {
    char *end;
    *x = strtod(text, &end);
    if (end == text || !(*x >= 0)) return false;
    for (int i = 0; i < n; i++)
        if (strcmp(end, unit[i]) == 0) {
            *x *= factor[i];
            return true;
        }
    return false;
}

enum status comm_link_parse(const char *option, const char *text, int between, struct hop_links *out) {
    static const char *const times[] = {"s", "ms", "us", "ns"}, *const speeds[] = {"B/s", "kB/s", "MB/s", "GB/s"};
    static const double seconds[] = {1, 1e-3, 1e-6, 1e-9}, bytes[] = {1, 1e3, 1e6, 1e9};
    char part[3][32] = {"", "", ""};
    double speed = 0;
    int n = sscanf(text, "%31[^,],%31[^,],%31[^,]", part[0], part[1], part[2]);
    bool of_a_node = strcmp(part[2], "node") == 0, whose = between && (of_a_node || strcmp(part[2], "rank") == 0);
    if (n < 2 || (n == 3 && !whose) || !read_unit(part[0], times, seconds, 4, &out->latency_s[between]) ||
        !read_unit(part[1], speeds, bytes, 4, &speed) || speed == 0)
        return FAIL(E_CONFIG,
                    "%s=%s is no latency and bandwidth; write 2ms,50MB/s (s, ms, us or ns; B/s, kB/s, MB/s "
                    "or GB/s)%s",
                    option, text, between ? ", and after that ,node where a node's ranks share one NIC" : "");
    out->s_per_byte[between] = 1 / speed;
    if (between) out->nic_per_node = of_a_node;
    return OK;
}

/* ---- links ---- */

const struct hop_links *comm_links_emulated(void) { return on ? &links : NULL; }

enum status comm_emulate_links(const struct hop_links *wanted) {
    const struct mpi_place *place = comm_world_place();
    on = false;
    mpi_shared_free(&shared);
    if (!wanted) return OK;
    for (int r = 0; r < place->size && place->host; r++)
        if (place->host[r] != 0)
            return FAIL(E_CONFIG,
                        "emulated links need one clock, and rank %d is on another host than rank 0; leave out "
                        "--link-inside and --link-between, or start all ranks on one host",
                        r);
    links = *wanted;
    memset(own, 0, sizeof own);
    TRY(mpi_shared_make(place->size * WAYS, &shared));
    on = true;
    return OK;
}

/* Occupy a link that the ranks of a node share: whoever exchanges the word has it. */
static double pass_shared(_Atomic(uint64_t) *word, double (*pass)(double *, double, double), double now, double busy) {
    for (uint64_t was = *word;;) {
        double free_at, result;
        memcpy(&free_at, &was, sizeof was);
        result = pass(&free_at, now, busy);
        uint64_t is;
        memcpy(&is, &free_at, sizeof is);
        if (atomic_compare_exchange_weak(word, &was, is)) return result;
    }
}

static double pass(const struct hop_ticket *ticket, int way, double (*how)(double *, double, double), double now) {
    if (!ticket->between || !links.nic_per_node) return how(&own[ticket->between][way], now, ticket->busy_s);
    return pass_shared(&shared.word[ticket->node * WAYS + way], how, now, ticket->busy_s);
}

/* ---- messages ---- */

void links_describe(struct hop_ticket *ticket, const struct group *group, int peer, int64_t bytes) {
    int node = group->node ? group->node[group->rank] : 0;
    ticket->node = node;
    ticket->between = group->node && node != group->node[peer];
    ticket->busy_s = (double)bytes * links.s_per_byte[ticket->between];
}

void links_send(struct hop_ticket *ticket) { ticket->stamp = pass(ticket, OUT, link_leave, clock_s()); }

bool links_has_left(const struct hop_ticket *ticket) { return clock_s() >= ticket->stamp; }

/* Those that have left land in the order in which they did. */
static void land(double now) {
    for (;;) {
        int first = -1;
        for (int i = 0; i < n_waiting; i++)
            if (waiting[i]->stamp <= now && (first < 0 || waiting[i]->stamp < waiting[first]->stamp)) first = i;
        if (first < 0) return;
        struct hop_ticket *ticket = waiting[first];
        ticket->there = pass(ticket, IN, link_land, ticket->stamp) + links.latency_s[ticket->between];
        ticket->landed = true;
        n_waiting--;
        memmove(waiting + first, waiting + first + 1, (size_t)(n_waiting - first) * sizeof *waiting);
    }
}

enum status links_receive(struct hop_ticket *ticket, bool *there) {
    if (!ticket->waits) {
        if (n_waiting == room) {
            struct hop_ticket **more = realloc(waiting, (size_t)(2 * room + 16) * sizeof *waiting);
            if (!more) return FAIL(E_MEMORY, "no memory for %d messages under way", n_waiting + 1);
            waiting = more;
            room = 2 * room + 16;
        }
        waiting[n_waiting++] = ticket;
        ticket->waits = true;
    }
    double now = clock_s();
    land(now);
    *there = ticket->landed && now >= ticket->there;
    return OK;
}

