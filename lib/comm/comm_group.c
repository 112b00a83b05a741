/* Groups, and the ledger that each keeps.
 *
 * A group is a communicator with a name for error messages, a backend chosen by its size, and the world ranks of its
 * members. Error messages name world ranks, because these are in the user's job listing.
 *
 * The API takes `const struct group *`, because a group's ranks never change. But its counters change. Only
 * group_counting removes the const for them (no group is ever defined const). */
#include "lib/comm/transport/host_transport.h"
#include "lib/comm/comm_device.h"
#include "lib/comm/flight/flight.h"

#include <stdio.h>
#include <stdlib.h>

static int self_member[1];
static struct group self = {.name = "self", .size = 1, .backend = &comm_self, .members = self_member, .flight = -1};
static struct group *world = &self; /* before comm_start, or without it, the world is this rank alone */

static struct group *first;          /* the oldest group that group_create has made */
enum { MOST_IN_EPOCH = 1 << 16 };
static int n_made;  /* the groups of this epoch; the same on every rank, as group_create is collective over the world */

struct group *group_self(void) { return &self; }
struct group *group_first(void) { return first; }
struct group *group_world(void) { return world; }

int group_size(const struct group *group) { return group->size; }
int group_rank(const struct group *group) { return group->rank; }
const char *group_name(const struct group *group) { return group->name; }
const struct ledger *group_ledger(const struct group *group) { return &group->ledger; }
struct group *group_counting(const struct group *group) { return (struct group *)group; }
void group_ledger_reset(struct group *group) { group->ledger = (struct ledger){0}; }

static void list_add(struct group *group) {
    struct group **at = &first;
    while (*at) at = &(*at)->next;
    *at = group;
}
static void list_remove(const struct group *group) {
    struct group **at = &first;
    while (*at && *at != group) at = &(*at)->next;
    if (*at) *at = group->next;
}

static void find_nodes(struct group *group) {
    for (int r = 0; r < group->size; r++) group->node[r] = comm_node(group->members[r]);
}

void comm_configure(const struct comm_settings *wanted) {
    comm_settings_are(wanted);
    for (struct group *group = first; group; group = group->next) find_nodes(group);
}

/* A rank that fails in this function has still taken part in the split, so that the others do not hang in it. */
enum status group_create(const char *name, int colour, int key, struct group **out) {
    struct group *group = calloc(1, sizeof *group);
    struct group split = {.flight = -1};
    n_made++;
    enum status status = comm_host_transport()->split(colour, key, &split.communicator, &split.size, &split.rank);
    *out = group;
    if (status == OK && !group) status = FAIL(E_MEMORY, "no memory for group %s", name);
    if (status != OK) goto failed;

    *group = split;
    snprintf(group->name, sizeof group->name, "%s", name);
    group->backend = group->size == 1 ? &comm_self : &comm_on_host;
    group->members = calloc((size_t)group->size, sizeof *group->members);
    group->node = calloc((size_t)group->size, sizeof *group->node);
    if (!group->members || !group->node) {
        status = FAIL(E_MEMORY, "no memory for the %d members of group %s", group->size, name);
        goto failed;
    }
    status = comm_host_transport()->members(group->communicator, group->size, group->members);
    if (status == OK) find_nodes(group);
    enum status opened = comm_device_group_open(group);
    if (status == OK) status = opened;
    if (status != OK) goto failed;
    group->flight = flight_group_open(group->name, group->size, group->rank, group->members, n_made);
    list_add(group);
    return OK;
failed:
    group_destroy(out);
    return status;
}

void group_destroy(struct group **group) {
    if (!*group) return;
    comm_device_group_close(*group);
    flight_group_close((*group)->flight);
    list_remove(*group);
    if ((*group)->communicator) comm_host_transport()->close(&(*group)->communicator);
    free((*group)->members);
    free((*group)->node);
    free(*group);
    *group = NULL;
}

/* The group self gets a communicator, too: a rank may send a message to itself, and the transport must hold it until it
 * is received. */
enum status group_open_world(void) {
    struct group *everyone;
    n_made = comm_world_place()->epoch * MOST_IN_EPOCH;
    TRY(comm_host_transport()->split(-1, 0, &self.communicator, &self.size, &self.rank));
    self_member[0] = comm_world_rank();
    TRY(group_create("world", 0, comm_world_rank(), &everyone));
    world = everyone;
    return OK;
}

void group_close_world(void) {
    if (world != &self) group_destroy(&world);
    world = &self;
    comm_host_transport()->close(&self.communicator);
}
