/* Decides whether a job is started again, when, and with how many ranks. Pure. */
#include "launch/launch_restart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool launch_is_newer(const struct launch_latest *now, const struct launch_latest *before) {
    return now->step[0] && (strcmp(now->step, before->step) != 0 || now->written_ns != before->written_ns);
}

bool launch_is_further(const struct launch_latest *now, const struct launch_latest *at_start, int64_t *best) {
    int64_t step = strncmp(now->step, "step-", 5) == 0 ? strtoll(now->step + 5, NULL, 10) : -1;
    if (!launch_is_newer(now, at_start) || step <= *best) return false;
    *best = step;
    return true;
}

void launch_reason(const char *line, char *out, size_t size) {
    const char *code = strncmp(line, "[rank ", 6) == 0 && strstr(line, "] E_") ? strstr(line, "] E_") + 2 : line;
    const char *sentence = strstr(code, ": ");
    if (!sentence) {
        snprintf(out, size, "it gave no reason");
        return;
    }
    snprintf(out, size, "%.*s, %.*s", (int)strcspn(code, " "), code, (int)strcspn(sentence + 2, ";\r\n"), sentence + 2);
}

static bool is_of(const struct launch_outcome *o, enum status code) {
    char reason[64];
    launch_reason(o->line, reason, sizeof reason);
    size_t n = strlen(status_name(code));
    return strncmp(reason, status_name(code), n) == 0 && reason[n] == ',';
}

int64_t launch_numeric_step(const struct launch_outcome *o) {
    const char *at = o->code == 1 && !o->end.asked && is_of(o, E_NUMERIC) ? strstr(o->line, " step ") : NULL;
    return at ? strtoll(at + strlen(" step "), NULL, 10) : 0;
}

enum launch_verdict_of_attempt launch_judge_numeric(int64_t step, int64_t before, bool saved, int n_restarts,
                                                    int max_restarts) {
    if (before > 0 && step <= before) return ATTEMPT_DIVERGED;
    if (!saved) return ATTEMPT_DONE;
    return n_restarts < max_restarts ? ATTEMPT_AGAIN : ATTEMPT_NO_MORE;
}

enum launch_verdict_of_attempt launch_judge(const struct launch_outcome *o, int n_restarts, int max_restarts,
                                            int n_stuck) {
    if (o->code != 1 || o->end.asked || is_of(o, E_NUMERIC)) return ATTEMPT_DONE;
    if (n_stuck >= LAUNCH_MOST_STUCK) return ATTEMPT_STUCK;
    return n_restarts < max_restarts ? ATTEMPT_AGAIN : ATTEMPT_NO_MORE;
}

double launch_backoff_s(double base, int k) {
    for (; k > 0 && base < LAUNCH_MOST_BACKOFF_S; k--) base *= 2;
    return base < LAUNCH_MOST_BACKOFF_S ? base : LAUNCH_MOST_BACKOFF_S;
}

void launch_failed_host(const struct launch_outcome *o, char host[64]) {
    snprintf(host, 64, "%s", o->facts.error_seen ? "" : o->facts.host);
    if (o->facts.error_seen && strstr(o->line, "] E_DEVICE ")) sscanf(o->line, "[rank %*[^]@]@%63[^] ]", host);
}

int launch_fewer_ranks(const struct plan *p, int n_ranks, int least) {
    int64_t each = plan_replica_ranks(p);
    int64_t serving = plan_serving(p);
    for (int64_t dp = n_ranks / each - 1; dp > serving && dp * each >= least; dp--) {
        int64_t workers = dp - serving;
        if (p->global_batch % workers != 0) continue;
        if (p->micro_batch == 0 || p->global_batch / workers % p->micro_batch == 0) return (int)(dp * each);
    }
    return 0;
}
