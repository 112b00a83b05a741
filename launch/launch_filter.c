/* Chooses the lines of mpirun's standard error that are shown.
 *
 * mpirun prints its messages as blocks between two lines of dashes. A block that reports only a rank's failure is
 * dropped, and its facts are kept. All other blocks pass (no such host, not enough slots). The ranks' own text passes
 * too, except E_ lines after the first: one failure stops all ranks, and their errors would hide its cause. */
#include "launch/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void launch_filter_init(struct launch_filter *filter) {
    *filter = (struct launch_filter){.facts.rank = -1, .state = FILTER_OUTSIDE};
}

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "E_CONFIG ..." or "[rank 5/8 ...] E_CONFIG ..." */
static bool is_error(const char *line) {
    if (starts_with(line, "[rank ")) {
        const char *close = strstr(line, "] ");
        if (!close) return false;
        line = close + 2;
    }
    if (!starts_with(line, "E_")) return false;
    size_t letters = strspn(line + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return letters > 0 && line[2 + letters] == ' ';
}

static bool is_dashes(const char *line) {
    size_t n = strspn(line, "-");
    return n >= 60 && line[n + strspn(line + n, "\r\n")] == 0;
}

/* Usually a rank prints this if it starts after another one has died and the job's files are removed. */
#define NO_SHARED_MEMORY "A system call failed during shared memory initialization"

/* Does this line open a block that reports only a rank's failure? In Open MPI 5 `mpirun` calls itself prterun. */
static bool opens_boilerplate(const char *line) {
    return starts_with(line, "Primary job ") || starts_with(line, "MPI_ABORT was invoked on rank ") ||
           starts_with(line, NO_SHARED_MEMORY) || strstr(line, "run noticed that process rank ") ||
           strstr(line, "run has exited due to process rank ") ||
           strstr(line, "run detected that one or more processes exited with non-zero status");
}

/* "[n07:99] Read -1, expected 8192, errno = 3": a rank tried to copy from the memory of a dead rank. */
static bool is_read_of_the_dead(const char *line) {
    const char *text = *line == '[' ? strstr(line, "] Read ") : NULL;
    int got, wanted, reason;
    return text && sscanf(text, "] Read %d, expected %d, errno = %d", &got, &wanted, &reason) == 3 && reason == ESRCH;
}

/* Read the agent's line about the rank that ended the job (agent.c). */
static bool is_agents(struct launch_facts *facts, const char *line) {
    if (!starts_with(line, "trivium agent: rank ")) return false;
    sscanf(line, "trivium agent: rank %d on host %63s was killed by signal %d (%47[^)])", &facts->rank, facts->host,
           &facts->signal, facts->signal_name);
    sscanf(line, "trivium agent: rank %d on host %63s ended with code %d", &facts->rank, facts->host,
           &facts->exit_code);
    return true;
}

/* What MPICH says of a rank that calls MPI_Abort. Its other fatal errors begin alike, and pass. */
static bool is_abort(struct launch_facts *facts, const char *line) {
    if (!starts_with(line, "Abort(") || !strstr(line, "): application called MPI_Abort(")) return false;
    if (facts->rank < 0) sscanf(line, "Abort(%d) on node %*d (rank %d in comm 0)", &facts->exit_code, &facts->rank);
    return true;
}

/* The word of a rank that ends under Hydra (trivium.c). */
static bool is_last_word(struct launch_facts *facts, const char *line) {
    int code;
    if (sscanf(line, "trivium: a rank ends with code %d", &code) != 1) return false;
    facts->n_saved += code == EXIT_CHECKPOINTED;
    facts->n_done += code == 0;
    return true;
}

int launch_code_of_hydra(const struct launch_facts *facts, int code, int n_ranks) {
    if (code != 0 && code != EXIT_CHECKPOINTED) return code;
    return facts->n_saved == n_ranks ? EXIT_CHECKPOINTED : facts->n_done == n_ranks ? 0 : 1;
}

/* Is this a remark outside blocks? It is about a read from a dead rank, a pipe that mpirun's event loop closes early on
 * TERM, an MPI_ABORT block that Open MPI 4.1 cannot unpack, launch's signal, or equal blocks of several ranks. */
static bool is_remark(const char *line) {
    if (is_read_of_the_dead(line) || starts_with(line, "[warn] Epoll ")) return true;
    if (strstr(line, "ORTE_ERROR_LOG: ") && strstr(line, "show_help.c")) return true;
    return strstr(line, "run: Forwarding signal ") || strstr(line, " sent help message help-") ||
           strstr(line, "Set MCA parameter \"orte_base_help_aggregate\" to 0");
}

static void read_facts(struct launch_facts *facts, const char *line) {
    if (starts_with(line, NO_SHARED_MEMORY)) facts->no_shared_memory = true;
    const char *noticed = strstr(line, "noticed that process rank "), *by = strstr(line, "signal ");
    if (noticed && facts->signal == 0) /* a signal explains a rank's end better than any exit code */
        sscanf(noticed, "noticed that process rank %d with PID %*d on node %63s", &facts->rank, facts->host);
    if (by && facts->signal == 0) /* Open MPI 5 has it on the next line */
        sscanf(by, "signal %d (%47[^)])", &facts->signal, facts->signal_name);
    if (facts->rank < 0) sscanf(line, "MPI_ABORT was invoked on rank %d", &facts->rank);
    if (facts->rank < 0) sscanf(line, " Process name: [[%*d,%*d],%d]", &facts->rank);
    if (facts->exit_code == 0) sscanf(line, " Exit code: %d", &facts->exit_code);
    if (facts->exit_code == 0) sscanf(line, "with errorcode %d", &facts->exit_code);
}

/* A line of dashes may open a block or end one. The next line decides, so the dashes are held until it comes. */
static enum launch_verdict judge_dashes(struct launch_filter *filter, const char *line) {
    if (filter->state == FILTER_IN_BOILERPLATE) {
        filter->state = FILTER_OUTSIDE;
        return LINE_DROP;
    }
    if (filter->state == FILTER_AFTER_DASHES) return LINE_PASS; /* equal to the held line, which stays held */
    snprintf(filter->held, sizeof filter->held, "%s", line);
    filter->state = FILTER_AFTER_DASHES;
    return LINE_HOLD;
}

static enum launch_verdict judge_text(struct launch_filter *filter, const char *line) {
    bool after_dashes = filter->state == FILTER_AFTER_DASHES;
    if (after_dashes) filter->state = opens_boilerplate(line) ? FILTER_IN_BOILERPLATE : FILTER_OUTSIDE;
    if (filter->state == FILTER_OUTSIDE) return after_dashes ? LINE_PASS_HELD : LINE_PASS;
    read_facts(&filter->facts, line);
    return LINE_DROP;
}

enum launch_verdict launch_filter_line(struct launch_filter *filter, const char *line) {
    /* Check this first, in any state, because a rank's line may come between two lines of mpirun. */
    if (is_error(line)) {
        bool first = !filter->facts.error_seen;
        filter->facts.error_seen = true;
        if (first) snprintf(filter->facts.error, sizeof filter->facts.error, "%s", line);
        return first ? LINE_PASS : LINE_DROP;
    }
    if (is_remark(line) || is_last_word(&filter->facts, line)) return LINE_DROP;
    if (is_agents(&filter->facts, line) || is_abort(&filter->facts, line)) return LINE_DROP;
    return is_dashes(line) ? judge_dashes(filter, line) : judge_text(filter, line);
}

const char *launch_filter_end(struct launch_filter *filter) {
    if (filter->state != FILTER_AFTER_DASHES) return "";
    filter->state = FILTER_OUTSIDE;
    return filter->held;
}
