/* Emulated links; see comm_links.h. link_clock.h computes when a message arrives, from the host's clock. The NICs of
 * nodes are words of memory that all ranks of the host share. */
#include "lib/comm/hops/comm_links.h"

#include "lib/base/clock.h"
#include "lib/comm/transport/host_transport.h"
#include "lib/comm/hops/comm_links_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on;
static struct hop_links links, own_links;   /* the settings for all ranks; with this rank's `slower` */
static struct link_clock mine;
static struct host_shared shared;            /* NICs of nodes */

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

enum status comm_emulate_links(const struct hop_links *wanted, double slower) {
    const struct comm_place *place = comm_world_place();
    on = false;
    comm_host_transport()->shared_free(&shared);
    link_clock_free(&mine);
    if (!wanted) return OK;
    for (int r = 0; r < place->size && place->host; r++)
        if (place->host[r] != 0)
            return FAIL(E_CONFIG,
                        "emulated links need one clock, and rank %d is on another host than rank 0; leave out "
                        "--link-inside and --link-between, or start all ranks on one host",
                        r);
    links = own_links = *wanted;
    for (int between = 0; between < 2; between++) own_links.s_per_byte[between] *= slower;
    TRY(comm_host_transport()->shared_make(place->size * LINK_WAYS, &shared));
    mine = (struct link_clock){.links = &own_links, .nic = shared.word};
    on = true;
    return OK;
}

/* ---- messages ---- */

void links_describe(struct hop_ticket *ticket, const struct group *group, int peer, int64_t bytes) {
    const int *node = group->node;
    link_describe(&mine, node ? node[group->rank] : 0, node ? node[peer] : 0, bytes, ticket);
}

void links_send(struct hop_ticket *ticket) { link_send(&mine, clock_s(), ticket); }
bool links_has_left(const struct hop_ticket *ticket) { return clock_s() >= ticket->stamp; }

enum status links_expect(struct hop_ticket *ticket) { return link_expect(&mine, ticket); }
struct hop_ticket **links_expected(int *n) {
    *n = mine.n_expected;
    return mine.expected;
}
void links_land(void) { link_land_all(&mine, clock_s()); }
bool links_is_there(const struct hop_ticket *ticket) { return ticket->landed && clock_s() >= ticket->there; }
