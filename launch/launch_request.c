/* The request: reads launch's options, and refuses invalid combinations. */
#include "launch/launch.h"

#include "launch/hosts.h"
#include "lib/base/option.h"
#include "lib/comm/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char launch_help[] =
    "trivium launch -n N [--host LIST | --hostfile FILE] COMMAND args...\n"
    "\n"
    "Runs `trivium COMMAND args...` as N ranks under MPI's mpirun and waits for them.\n"
    "\n"
    "  -n N             number of ranks; they may outnumber the cores (default: all slots that --host gives, less "
    "--spares)\n"
    "  --host LIST      hosts to run on, host:ranks separated by commas (default: this one)\n"
    "  --hostfile FILE  the same from a file, one `host slots=ranks` per line\n"
    "  --comm-transport mpi|direct\n"
    "                   what starts ranks and carries their messages: MPI and its mpirun (default; not in a build with "
    "MPI=0),\n"
    "                   or launch itself: no MPI takes part. TRIVIUM_COMM_TRANSPORT=direct in the environment says the "
    "same\n"
    "  --nodes N        direct: as if the ranks were on N hosts: TCP between them, on this one (default: 1)\n"
    "  --agent-command WORDS\n"
    "                   direct, with --host: what starts `trivium agent` on host %h (default: ssh -o BatchMode=yes %h, "
    "and nothing\n                   on this host); none: agents come by themselves, with --meet and the job's secret\n"
    "  --meet HOST:PORT direct, with --host: where agents find launch (default: this host as the others see it, any "
    "port)\n"
    "  --between-hosts authenticated|encrypted\n"
    "                   direct: what ranks of different hosts say to each other cannot be changed on its way "
    "(default), nor read\n"
    "  --heartbeat-timeout S\n"
    "                   direct, with --host: a host that gives no sign for S seconds is lost (default: 3)\n"
    "  --elastic MIN    direct: when a rank is killed, the others go on in a new epoch, if they are at least MIN "
    "(default: the job ends)\n"
    "  --spares N       --elastic: N idle processes more, which take the places of dead ranks (default: 0)\n"
    "  --respawn N      --elastic: a dead rank's process is started again as a spare, at most N times in all, on its "
    "host when that\n                   is there again; when spares make up a replica more, it joins at the edge of a "
    "step (default: 0)\n"
    "  --hang-timeout S direct: a rank that does not move for S seconds, stopped or stuck, is killed (default: 60 with "
    "--elastic,\n                   else none is)\n"
    "  --chaos SEED     --elastic, to see whether it holds: ranks are killed, stopped and slowed at random moments, as "
    "long as\n                   enough are left, and connections cut between hosts; at the end launch says "
    "what that cost\n"
    "  --chaos-every S  the mean time between two such acts (default: 2)\n"
    "\n"
    "For `train --save DIR`: what to do when the job dies (a rank killed, failing or stuck, or mpirun itself).\n"
    "  --max-restarts N start it again from the last checkpoint, at most N times (default: 0). Not after a bad "
    "request, a checkpoint\n"
    "                   that was asked for (code 75) or a signal to launch; after a loss that is not finite once; and "
    "no longer\n                   after two restarts in a row without a new checkpoint\n"
    "  --backoff S      wait S seconds before the first restart, twice as long before each next one, at most 60 "
    "(default: 1)\n"
    "                   A host on which two attempts failed is left out of --host, if the others have room\n"
    "  --min-ranks M    after an attempt without a new checkpoint use fewer ranks, but at least M: the next smaller dp "
    "that divides\n                   the batch. Never more again (default: always N)\n\n"
    "SIGTERM asks train for a checkpoint (code 75); a second one and Ctrl-C end the ranks, after 10 s\n"
    "or at the next one by force.\n"
    "trivium launch -n N preflight looks at hosts, network and disk before a long job.\n"
    "Settings of Open MPI (OMPI_MCA_...) and OMP_NUM_THREADS are respected where they are set.\n"
    "Exit code: 0 done, 1 failed, 2 bad request, 75 checkpointed, to be resumed, 130 interrupted, 141 no reader (| "
    "head).\n";

enum { MOST_RANKS = 65536 };

/* ---- the request ---- */

static enum status parse_count(const char *name, const char *text, int least, int *count) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*end || end == text) return FAIL(E_USAGE, "%s %s is not a number; use %s 8, for instance", name, text, name);
    if (errno || n < least || n > MOST_RANKS)
        return FAIL(E_USAGE, "%s %s is out of range; use %d to %d", name, text, least, MOST_RANKS);
    *count = (int)n;
    return OK;
}

static enum status parse_seconds(const char *name, const char *text, int most, double *seconds) {
    char *end;
    double s = strtod(text, &end);
    if (*end || end == text || !(s >= 0 && s <= most))
        return FAIL(E_USAGE, "%s %s is no number of seconds from 0 to %d", name, text, most);
    *seconds = s;
    return OK;
}

/* ---- the options ---- */
static enum status take_hostfile(struct launch_request *r, const char *name, const char *value) {
    if (access(value, R_OK) != 0)
        return FAIL(E_USAGE, "cannot read %s %s: %s; give a file of lines `host slots=ranks`", name, value,
                    strerror(errno));
    r->hostfile = value;
    return OK;
}
static enum status take_transport(struct launch_request *r, const char *name, const char *value) {
    r->own = strcmp(value, "direct") == 0 || strcmp(value, "own") == 0;        /* own: its name before 0.1 */
    if (!r->own && strcmp(value, "mpi") == 0 && !comm_has_mpi())
        return FAIL(E_CONFIG, "%s mpi, and this program was built without MPI; use direct, or build with MPI "
                    "(tools/install-deps, then make)", name);
    if (r->own || strcmp(value, "mpi") == 0) return OK;
    return FAIL(E_USAGE, "%s %s is neither mpi nor direct", name, value);
}
static enum status take_between_hosts(struct launch_request *r, const char *name, const char *value) {
    r->encrypts = strcmp(value, "encrypted") == 0;
    if (r->encrypts || strcmp(value, "authenticated") == 0) return OK;
    return FAIL(E_USAGE, "%s %s is neither authenticated nor encrypted", name, value);
}

/* COUNT: an int from `limit` on. SECONDS: a double up to `limit`. TEXT: a string. They go to `at`. */
#define AT(field) offsetof(struct launch_request, field)
static const struct launch_option {
    const char *name;
    enum { COUNT = 1, SECONDS, TEXT } what;
    int limit;
    size_t at;
    enum status (*take)(struct launch_request *, const char *name, const char *value);
} LAUNCH_OPTIONS[] = {
    {"-n", COUNT, 1, AT(n_ranks), NULL},
    {"--host", TEXT, 0, AT(host), NULL},
    {"--hostfile", .take = take_hostfile},
    {"--comm-transport", .take = take_transport},
    {"--nodes", COUNT, 1, AT(nodes), NULL},
    {"--agent-command", TEXT, 0, AT(agent_command), NULL},
    {"--meet", TEXT, 0, AT(meet), NULL},
    {"--between-hosts", .take = take_between_hosts},
    {"--heartbeat-timeout", SECONDS, LAUNCH_MOST_HANG_S, AT(heartbeat_s), NULL},
    {"--spares", COUNT, 0, AT(spares), NULL},
    {"--respawn", COUNT, 0, AT(respawn), NULL},
    {"--elastic", COUNT, 1, AT(elastic), NULL},
    {"--hang-timeout", SECONDS, LAUNCH_MOST_HANG_S, AT(hang_s), NULL},
    {"--chaos", COUNT, 1, AT(chaos), NULL},
    {"--chaos-every", SECONDS, LAUNCH_MOST_HANG_S, AT(chaos_s), NULL},
    {"--max-restarts", COUNT, 0, AT(max_restarts), NULL},
    {"--min-ranks", COUNT, 1, AT(min_ranks), NULL},
    {"--backoff", SECONDS, LAUNCH_MOST_BACKOFF_S, AT(backoff_s), NULL},
};
enum { N_LAUNCH_OPTIONS = sizeof LAUNCH_OPTIONS / sizeof *LAUNCH_OPTIONS };

static enum status parse_option(struct launch_request *request, const char *name, const char *value) {
    int i = 0;
    while (i < N_LAUNCH_OPTIONS && strcmp(name, LAUNCH_OPTIONS[i].name) != 0) i++;
    if (i == N_LAUNCH_OPTIONS)
        return FAIL(E_USAGE, "launch has no option %s; it takes -n, --host, --hostfile, --comm-transport, --nodes, "
                    "--agent-command, --meet, --between-hosts, --heartbeat-timeout, --spares, --respawn, --elastic, "
                    "--hang-timeout, --chaos, --chaos-every, --max-restarts, --min-ranks and --backoff, and the "
                    "command's own options come after the command", name);
    if (!value || !*value) return FAIL(E_USAGE, "%s needs a value; see trivium launch --help", name);
    const struct launch_option *o = &LAUNCH_OPTIONS[i];
    void *at = (char *)request + o->at;
    if (o->what == COUNT) return parse_count(name, value, o->limit, at);
    if (o->what == SECONDS) return parse_seconds(name, value, o->limit, at);
    if (o->what == TEXT) return *(const char **)at = value, OK;
    return o->take(request, name, value);
}

bool launch_is_one_host(const struct launch_request *request) {
    const char *slurm_nodes = getenv("SLURM_JOB_NUM_NODES"); /* mpirun uses the whole allocation */
    return !request->host && !request->hostfile && (!slurm_nodes || atoi(slurm_nodes) <= 1);
}

/* If -n is missing, take the number of ranks from the hosts. Check that the hosts have room for ranks and spares. */
static enum status count_ranks(struct launch_request *r) {
    struct host_list list;
    int16_t host[OWN_MOST_RANKS];
    if (!r->own || !(r->host || r->hostfile)) return OK;
    TRY(r->host ? host_list_read(r->host, &list) : host_list_read_file(r->hostfile, &list));
    if (r->n_ranks == 0) r->n_ranks = host_list_room(&list) - r->spares;
    if (r->n_ranks < 1)
        return FAIL(E_USAGE, "%d spares leave no rank on hosts for %d; use fewer", r->spares, host_list_room(&list));
    int most = r->n_ranks + r->spares + r->respawn;
    if (most > OWN_MOST_RANKS)
        return FAIL(E_USAGE, "%d ranks, spares and processes of --respawn are more than --comm-transport direct takes "
                    "(%d); use fewer%s", most, OWN_MOST_RANKS, r->elastic ? "" : ", or --comm-transport mpi");
    return host_list_deal(&list, r->n_ranks + r->spares, host);
}

/* Check the options for several hosts with agents. */
static enum status check_hosts(struct launch_request *r) {
    bool several = r->own && (r->host || r->hostfile);
    const char *given = *r->agent_command ? "--agent-command" : r->meet ? "--meet" : "--heartbeat-timeout";
    if (!several && (*r->agent_command || r->meet || r->heartbeat_s >= 0))
        return FAIL(E_USAGE, "%s is for --comm-transport direct on hosts that are named; give these and --host, too",
                    given);
    if (several && r->nodes > 1)
        return FAIL(E_USAGE, "--nodes %d emulates hosts, and --host names them; use one of them", r->nodes);
    if (strcmp(r->agent_command, "none") == 0 && !r->meet)
        return FAIL(E_USAGE, "--agent-command none: agents have to know where; give --meet HOST:PORT, too");
    if (strcmp(r->agent_command, "none") == 0 && !getenv("TRIVIUM_SECRET"))
        return FAIL(E_USAGE, "--agent-command none: agents have to know the job's secret; give all of them and launch "
                    "the same TRIVIUM_SECRET=$(openssl rand -hex 32)");
    if (several && r->heartbeat_s >= 0 && r->heartbeat_s < 1)
        return FAIL(E_USAGE, "--heartbeat-timeout %g is too short: a sign comes every half second; use 1 or more",
                    r->heartbeat_s);
    if (r->heartbeat_s < 0) r->heartbeat_s = 3;
    return OK;
}

/* Check the options that need the direct transport. */
static enum status check_own(struct launch_request *r) {
    if ((r->spares || r->elastic) && !r->own)
        return FAIL(E_USAGE, "--spares %d and --elastic %d are for jobs whose ranks may die, and MPI ends such a job; "
                    "give --comm-transport direct, too", r->spares, r->elastic);
    if (r->nodes > 1 && !r->own)
        return FAIL(E_USAGE, "--nodes %d emulates hosts for --comm-transport direct; give that, too, or use train's "
                    "--ranks-per-node", r->nodes);
    if (r->encrypts && r->nodes <= 1 && !(r->own && (r->host || r->hostfile)))
        return FAIL(E_USAGE, "--between-hosts encrypted is for --comm-transport direct on several hosts; give these "
                    "and --host or --nodes 2, too");
    if (r->nodes > r->n_ranks)
        return FAIL(E_USAGE, "--nodes %d are more than -n %d; use at most %d", r->nodes, r->n_ranks, r->n_ranks);
    if (r->hang_s > 0 && !r->own)
        return FAIL(E_USAGE, "--hang-timeout %g looks at the ranks of --comm-transport direct; give that, too, or use "
                    "train's --comm-timeout", r->hang_s);
    if ((r->spares || r->respawn || r->chaos) && !r->elastic)
        return FAIL(E_USAGE, "%s %d is for jobs that go on when a rank dies; give --elastic %d, too",
                    r->spares ? "--spares" : r->respawn ? "--respawn" : "--chaos",
                    r->spares ? r->spares : r->respawn ? r->respawn : r->chaos, r->n_ranks);
    if (r->elastic > r->n_ranks)
        return FAIL(E_USAGE, "--elastic %d is more than the %d ranks; use at most %d", r->elastic, r->n_ranks,
                    r->n_ranks);
    if (r->own && !launch_is_one_host(r) && !r->host && !r->hostfile)
        return FAIL(E_USAGE, "--comm-transport direct needs the names of this Slurm job's nodes; give --host, as "
                    "configs/trivium-elastic.sbatch does");
    TRY(check_hosts(r));
    if (r->hang_s < 0) r->hang_s = r->elastic ? 60 : 0;
    return OK;
}

/* Refuse times that have no effect without another option. */
static enum status check_times(struct launch_request *r) {
    if (r->chaos_s >= 0 && !r->chaos)
        return FAIL(E_USAGE, "--chaos-every %g: there is no chaos, and launch does not read it; give --chaos 1, too, "
                    "or leave it out", r->chaos_s);
    if (r->backoff_s >= 0 && !r->max_restarts)
        return FAIL(E_USAGE, "--backoff %g: there are no restarts, and launch does not read it; give --max-restarts 3, "
                    "too, or leave it out", r->backoff_s);
    if (r->chaos_s < 0) r->chaos_s = 2;
    if (r->backoff_s < 0) r->backoff_s = 1;
    return OK;
}

enum status launch_parse(int argc, char **argv, struct launch_request *out) {
    const char *transport = getenv("TRIVIUM_COMM_TRANSPORT");
    *out = (struct launch_request){.own = !comm_has_mpi(), .backoff_s = -1, .hang_s = -1, .chaos_s = -1,
                                   .heartbeat_s = -1, .agent_command = ""};
    if (transport && *transport) TRY(take_transport(out, "TRIVIUM_COMM_TRANSPORT", transport));
    int i = 0;
    for (; i < argc && argv[i][0] == '-'; i += 2) {
        if (options_ask_for_help(1, argv + i)) {
            out->help = true;
            return OK;
        }
        TRY(parse_option(out, argv[i], i + 1 < argc ? argv[i + 1] : NULL));
    }
    if (out->host && out->hostfile) return FAIL(E_USAGE, "--host and --hostfile both name the hosts; use one of them");
    TRY(count_ranks(out));
    if (out->n_ranks == 0) return FAIL(E_USAGE, "launch needs the number of ranks; use trivium launch -n 8 train ...");
    TRY(check_own(out));
    if (out->min_ranks > out->n_ranks)
        return FAIL(E_USAGE, "--min-ranks %d is more than -n %d; use at most %d", out->min_ranks, out->n_ranks,
                    out->n_ranks);
    TRY(check_times(out));
    if (out->min_ranks && !out->max_restarts)
        return FAIL(E_USAGE, "--min-ranks %d is for restarts, and there are none; give --max-restarts too",
                    out->min_ranks);
    if (out->min_ranks && out->elastic > out->min_ranks)
        return FAIL(E_USAGE, "--min-ranks %d is less than --elastic %d, and a restart needs as many, too; use at "
                    "least %d", out->min_ranks, out->elastic, out->elastic);
    if (i >= argc) return FAIL(E_USAGE, "launch needs a command; use trivium launch -n %d train ...", out->n_ranks);
    out->options = argv;
    out->n_options = i;
    out->command = argv + i;
    out->n_words = argc - i;
    return OK;
}
