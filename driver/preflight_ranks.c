/* Findings in the ranks' reports. Pure. */
#include "driver/preflight.h"

#include <string.h>

static bool same_host(const struct preflight_rank *a, const struct preflight_rank *b) {
    return strcmp(a->host, b->host) == 0;
}

static bool is_first_of_host(const struct preflight_rank *rank, int r) {
    for (int before = 0; before < r; before++)
        if (same_host(&rank[before], &rank[r])) return false;
    return true;
}

static int ranks_of_host(const struct preflight_rank *rank, int n_ranks, int r) {
    int n = 0;
    for (int other = 0; other < n_ranks; other++) n += same_host(&rank[other], &rank[r]);
    return n;
}

static int threads_of_host(const struct preflight_rank *rank, int n_ranks, int r) {
    int n = 0;
    for (int other = 0; other < n_ranks; other++) n += same_host(&rank[other], &rank[r]) ? rank[other].threads : 0;
    return n;
}

void preflight_hosts(const struct preflight_rank *rank, int n_ranks, int most, char *out, size_t size, int *n_hosts) {
    char list[512] = "";
    size_t used = 0;
    *n_hosts = 0;
    for (int r = 0; r < n_ranks; r++) {
        if (!is_first_of_host(rank, r)) continue;
        if ((*n_hosts)++ < most && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s x %d", used ? ", " : "", rank[r].host,
                                     ranks_of_host(rank, n_ranks, r));
    }
    snprintf(out, size, "%d host%s: %s%s", *n_hosts, *n_hosts == 1 ? "" : "s", list, *n_hosts > most ? ", ..." : "");
}

/* "(NVIDIA H200)" of "cuda 3 (NVIDIA H200)": devices of one model are equal. */
static const char *model_of(const char *device) {
    const char *bracket = strchr(device, '(');
    return bracket ? bracket : device;
}

/* One line for each kind of difference, with the first rank that has it. */
static int find_differences(const struct preflight_rank *rank, int n_ranks, FILE *to, bool *differ) {
    int program = 0, library = 0, device = 0;
    for (int r = n_ranks - 1; r > 0; r--) {
        if (rank[r].program != rank[0].program) program = r;
        if (strcmp(rank[r].library, rank[0].library) != 0) library = r;
        if (strcmp(model_of(rank[r].device), model_of(rank[0].device)) != 0) device = r;
    }
    if (program)
        fprintf(to,
                "wrong: rank %d on %s runs another build of trivium than rank 0 on %s: copy it there, or use a shared "
                "folder\n", program, rank[program].host, rank[0].host);
    if (library)
        fprintf(to, "wrong: rank %d on %s has %s, rank 0 on %s has %s: load the same modules on all hosts\n", library,
                rank[library].host, rank[library].library, rank[0].host, rank[0].library);
    if (device)
        fprintf(to, "wrong: rank %d on %s computes on %s, rank 0 on %s on %s: the slowest sets the pace\n", device,
                rank[device].host, rank[device].device, rank[0].host, rank[0].device);
    *differ = program || library;
    return (program > 0) + (library > 0) + (device > 0);
}

static int find_placement(const struct preflight_rank *rank, int n_ranks, FILE *to) {
    int uneven = 0, bound = -1, crowded = -1, shared = -1;
    for (int r = n_ranks - 1; r >= 0; r--) {
        if (ranks_of_host(rank, n_ranks, r) != ranks_of_host(rank, n_ranks, 0)) uneven = r;
        if (rank[r].allowed_cores < rank[r].threads) bound = r;
        if (threads_of_host(rank, n_ranks, r) > rank[r].cores) crowded = r;
        if (rank[r].gpu_shared) shared = r;
    }
    if (uneven)
        fprintf(to, "wrong: %s has %d ranks and %s %d: give each host as many\n", rank[uneven].host,
                ranks_of_host(rank, n_ranks, uneven), rank[0].host, ranks_of_host(rank, n_ranks, 0));
    if (bound >= 0)
        fprintf(to,
                "wrong: rank %d on %s has %d threads and is bound to %d cores: start with --bind-to none, or set "
                "threads\n", bound, rank[bound].host, rank[bound].threads, rank[bound].allowed_cores);
    if (crowded >= 0)
        fprintf(to, "wrong: %s has %d threads on %d cores, all ranks together: fewer ranks, or fewer threads\n",
                rank[crowded].host, threads_of_host(rank, n_ranks, crowded), rank[crowded].cores);
    if (shared >= 0) fprintf(to, "wrong: rank %d on %s shares its GPU: one rank per GPU\n", shared, rank[shared].host);
    return (uneven > 0) + (bound >= 0) + (crowded >= 0) + (shared >= 0);
}

int preflight_findings(const struct preflight_rank *rank, int n_ranks, FILE *to, bool *differ) {
    int n = find_differences(rank, n_ranks, to, differ);
    return n + find_placement(rank, n_ranks, to);
}
