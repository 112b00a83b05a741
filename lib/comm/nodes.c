#include "lib/comm/nodes.h"

#include "lib/comm/comm_backend.h"
#include "lib/comm/transport/host_transport.h"

int node_emulated(const struct nodes *nodes, int rank, int n) {
    int k = nodes->ranks_per_node, n_nodes = (n + k - 1) / k;
    return nodes->cyclic ? rank % n_nodes : rank / k;
}

int comm_host(int world_rank) {
    const struct comm_place *place = comm_world_place();
    return place->host ? place->host[world_rank] : 0;
}

int comm_node(int world_rank) {
    const struct nodes *nodes = &comm_settings_in_force()->nodes;
    if (nodes->ranks_per_node > 0) return node_emulated(nodes, world_rank, comm_world_place()->size);
    return comm_host(world_rank);
}
