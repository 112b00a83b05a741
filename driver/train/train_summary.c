/* The lines at a run's end: steps and tokens, memory planned and used, goodput, and a profile. */
#include "driver/train/train_state.h"
#include "launch/goodput.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

/* Print the goodput of this process since its start, or since the last change of ranks. launch --max-restarts prints
 * the goodput of all attempts. */
static void print_goodput(const struct training *t, int64_t steps) {
    const struct train_clock *c = &t->clock;
    const struct train_saver *v = &t->saver;
    char advice[256];
    double total_s = clock_s() - c->epoch_s, setup_s = c->started_s - c->epoch_s;
    printf("goodput %.1f%%%s: %.2f s in steps (%.2f s waiting for data), of %.2f s; %.2f s set-up and loading, %.2f s "
           "stopped for %" PRId64 " saves, %.2f s evaluation and others\n",
           100 * c->spent_s / total_s, c->epoch_s > c->born_s ? " since the ranks have changed" : "", c->spent_s,
           t->run.data_s, total_s, setup_s, v->stalls_s, v->n_saves, total_s - setup_s - c->spent_s - v->stalls_s);
    goodput_advice(v->n_saves ? v->stalls_s / (double)v->n_saves : 0, train_options(&t->setup.plan)->mtbf,
                   c->spent_s / (double)steps, advice, sizeof advice);
    if (*advice) printf("%s\n", advice);
}

void train_summarise(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    int64_t steps = t->run.n_done - t->first_step;
    if (!comm_is_rank_0() || log_get_level() < LOG_INFO || steps <= 0) return;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    int64_t bytes = roles_total(t->run.memory.bytes[TIER_DEVICE]) + roles_total(t->run.memory.bytes[TIER_HOST]);
    double resident = (double)usage.ru_maxrss / 1024, planned = (double)bytes / (1 << 20);
    printf("done: %" PRId64 " steps in %.1f s, %.0f tok/s; rank 0 planned %.1f MiB, resident %.1f MiB, unaccounted "
                            "%.1f MiB (code, libraries, MPI)\n",
           steps, t->clock.spent_s, (double)steps * (double)p->global_batch * (double)p->seq / t->clock.spent_s,
           planned, resident, resident - planned);
    print_goodput(t, steps);
    if (t->run.schedule.validates)
        printf("optim-sync: %" PRId64 " of %" PRId64 " updates were guessed wrong and redone\n", t->run.n_redone,
               steps);
    if (train_options(p)->profile)
        profile_print(&t->run, t->profile.n_steps, t->profile.spent_s,
                      t->profile.forecast.row_s ? &t->profile.forecast : NULL, stdout);
    fflush(stdout);
}
