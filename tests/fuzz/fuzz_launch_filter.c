/* parses: lib/base launch/launch_filter.c */
/* The lines that mpirun and the ranks write to standard error. */
#include "launch/launch.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

static void facts_must_hold(const struct launch_facts *f) {
    MUST(memchr(f->host, 0, sizeof f->host) && memchr(f->signal_name, 0, sizeof f->signal_name));
}

/* No line is lost, except error lines after the first and the lines of mpirun's own blocks. */
static void judge(struct launch_filter *f, const char *line) {
    struct launch_filter before = *f;
    enum launch_verdict verdict = launch_filter_line(f, line);
    MUST(verdict >= LINE_DROP && verdict <= LINE_PASS_HELD && memchr(f->held, 0, sizeof f->held));
    if (verdict == LINE_PASS_HELD) MUST(before.state == FILTER_AFTER_DASHES && f->state == FILTER_OUTSIDE);
    if (verdict == LINE_HOLD)
        MUST(f->state == FILTER_AFTER_DASHES && line[0] == '-' && strncmp(line, f->held, strlen(f->held)) == 0);
    if (strncmp(line, "E_DATA ", 7) == 0)
        MUST(verdict == (before.facts.error_seen ? LINE_DROP : LINE_PASS) && f->facts.error_seen);
    if (strncmp(line, "step ", 5) == 0 && before.state == FILTER_OUTSIDE && !strstr(line, "run: Forw") &&
        !strstr(line, "help") && !strstr(line, "orte"))
        MUST(verdict == LINE_PASS);
    facts_must_hold(&f->facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size), *at = text;
    struct launch_filter f;
    launch_filter_init(&f);
    while (at) {
        char *line = strdup(strsep(&at, "\n")); /* of exactly its size */
        MUST(line);
        judge(&f, line);
        free(line);
    }
    bool holds = f.state == FILTER_AFTER_DASHES;
    const char *held = launch_filter_end(&f);
    MUST(holds == (*held != 0));
    free(text);
    return 0;
}
