#include "driver/train/straggler.h"

#include "lib/base/sort.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double slow_ratio = 1.2;

/* NaN for a stage with one rank. `sorted` is scratch for n numbers. */
static double median_of_stage(const struct straggler_rank *of, int n, const double *own_s, int stage, double *sorted) {
    int peers = 0;
    for (int r = 0; r < n; r++)
        if (of[r].stage == stage) sorted[peers++] = own_s[r];
    sort_doubles(sorted, peers);
    return peers > 1 ? sorted[(peers - 1) / 2] : NAN;
}

/* Report after 3, 6, 12, ... slow windows. */
static bool is_told(int n_slow) {
    int windows = STRAGGLER_WINDOWS;
    while (windows < n_slow && windows < 1 << 29) windows *= 2;
    return windows == n_slow;
}

enum status straggler_window(struct straggler_rank *of, int n, const double *own_s) {
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) return FAIL(E_MEMORY, "no memory to compare %d ranks", n);
    for (int r = 0; r < n; r++) {
        of[r].ratio = own_s[r] / median_of_stage(of, n, own_s, of[r].stage, sorted);
        of[r].n_slow = of[r].ratio > slow_ratio ? of[r].n_slow + 1 : 0;
        of[r].told = is_told(of[r].n_slow);
    }
    free(sorted);
    return OK;
}

enum status straggler_inject_parse(const char *text, int n, struct straggler_inject *out) {
    static const char *const word[] = {[INJECT_SLOW_RANK] = "slow=", [INJECT_SLOW_LINK] = "link="};
    char *rank_end, *end;
    *out = (struct straggler_inject){.rank = -1, .factor = 1};
    if (!*text) return OK;
    for (enum straggler_what what = INJECT_SLOW_RANK; what <= INJECT_SLOW_LINK; what++) {
        const char *at = text + strlen(word[what]);
        if (strncmp(text, word[what], strlen(word[what])) != 0) continue;
        long rank = strtol(at, &rank_end, 10);
        double factor = *rank_end == ',' ? strtod(rank_end + 1, &end) : NAN;
        if (rank_end > at && rank >= 0 && rank < n && factor >= 1 && factor <= 100 && *end == 0) {
            *out = (struct straggler_inject){what, (int)rank, factor};
            return OK;
        }
    }
    return FAIL(E_CONFIG, "inject=%s; use slow=RANK,FACTOR or link=RANK,FACTOR with a rank from 0 to %d and a factor "
                "from 1 to 100, as in slow=0,1.5", text, n - 1);
}
