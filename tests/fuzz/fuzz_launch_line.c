/* parses: lib/base launch/launch.c launch/launch_request.c launch/hosts.c
 * launch/launch_job.c launch/launch_filter.c */
/* The words after `trivium launch`, one per line, and the words for mpirun that follow from them. */
#include "launch/launch.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 32 };

bool comm_has_mpi(void) { return true; } /* lib/comm's, which is not linked here */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size), *words[MAX_WORDS], **all;
    struct launch_request q;
    int argc = 0;
    for (char *at = text; at && argc < MAX_WORDS;) words[argc++] = strsep(&at, "\n");
    enum status status = launch_parse(argc, words, &q);
    MUST(status == OK || status == E_USAGE);
    if (status == OK && !q.help) {
        MUST(q.n_ranks >= 1 && q.n_words >= 1 && q.n_words <= argc && !(q.host && q.hostfile));
        MUST(launch_words(&q, "self", "program", "7", &all) == OK);
        int n = 0;
        while (all[n]) n++;
        MUST(n > q.n_words && !strcmp(all[n - q.n_words - 1], "program"));
        for (int i = 0; i < q.n_words; i++) MUST(all[n - q.n_words + i] == q.command[i] && *all[n - q.n_words] != '-');
        free(all);
    }
    free(text);
    return 0;
}
