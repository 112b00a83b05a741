/* Reports: one line each, once for each place. All are counted, and the first ones written, straight to file descriptor
 * 2, so that neither a crash after them nor a test that collects its output loses them. */
#include "tests/simt/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

using namespace simt;

enum { MAX_KEPT = 64, MAX_WRITTEN = 10, LINE_BYTES = 1500 };

struct key { const char *kind; const void *at, *other; };
static struct key known[4096];
static int n_known, n_reports;
static char kept[MAX_KEPT][LINE_BYTES], newest[LINE_BYTES];
static int shown = 1, n_written;
static void (*on_report)(void);

int simt_reports(void) { return n_reports; }
const char *simt_report_text(void) { return newest; }
const char *simt_report(int i) { return i >= 0 && i < n_reports && i < MAX_KEPT ? kept[i] : ""; }
void simt_reports_show(int on) { shown = on; }
void simt_on_report(void (*tell)(void)) { on_report = tell; }
void simt_reports_clear(void) {
    n_reports = n_known = n_written = 0;
    newest[0] = 0;
}

/* ---- pieces of text ---- */
namespace simt {
char *turn_text(void) {
    static char texts[8][TURN_BYTES];
    static int turn;
    return texts[turn++ % 8];
}

const char *thread_text(int thread) {
    char *text = turn_text();
    struct uint3 i = thread_index(thread);
    bool flat = blockDim.y * blockDim.z == 1;
    if (flat) snprintf(text, TURN_BYTES, "thread %d", thread);
    else snprintf(text, TURN_BYTES, "thread %d (%u,%u,%u)", thread, i.x, i.y, i.z);
    return text;
}

const char *site_text(const struct simt_site *site) {
    char *text = turn_text();
    snprintf(text, TURN_BYTES, " (%s:%d)", site_file(site), site->line);
    return text;
}
}

/* ---- reporting ---- */
static void write_line(const char *text) {
    char line[LINE_BYTES + 1];
    int n = snprintf(line, sizeof line, "%s\n", text);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

static void keep(void) {
    if (n_reports < MAX_KEPT) memcpy(kept[n_reports], newest, sizeof newest);
    n_reports++;
    if (shown && n_written < MAX_WRITTEN) write_line(newest);
    if (shown && n_written++ == MAX_WRITTEN) write_line("simt: more reports are only counted");
    if (on_report) on_report();
}

static bool remember(const char *kind, const void *at, const void *other) {
    if (report_known(kind, at, other)) return false;
    if (n_known < (int)(sizeof known / sizeof *known)) known[n_known++] = {kind, at, other};
    return true;
}

static void report_line(const char *kind, const char *place, const char *format, va_list arguments) {
    struct uint3 b = blockIdx;
    int n = snprintf(newest, sizeof newest, "simt: %s in %s (%s): block (%u,%u,%u): ", kind, now.launch->kernel->name,
                     place, b.x, b.y, b.z);
    vsnprintf(newest + n, sizeof newest - (size_t)n, format, arguments);
    keep();
}

namespace simt {
bool report_known(const char *kind, const void *at, const void *other) {
    for (int i = 0; i < n_known; i++)
        if (known[i].at == at && known[i].other == other && strcmp(known[i].kind, kind) == 0) return true;
    return false;
}

void report(const char *kind, const void *code, const void *other_code, const char *format, ...) {
    if (!remember(kind, code, other_code)) return;
    va_list arguments;
    va_start(arguments, format);
    report_line(kind, place_of(code), format, arguments);
    va_end(arguments);
}

void report_at(const char *kind, const struct simt_site *site, const struct simt_site *other, const char *format, ...) {
    if (!remember(kind, site, other)) return;
    char place[TURN_BYTES];
    snprintf(place, sizeof place, "%s:%d", site_file(site), site->line);
    va_list arguments;
    va_start(arguments, format);
    report_line(kind, place, format, arguments);
    va_end(arguments);
}
}

/* A process with reports that no one cleared must not exit with 0. */
__attribute__((destructor)) static void end_with_code_66(void) {
    if (n_reports == 0) return;
    char line[100];
    snprintf(line, sizeof line, "simt: %d report%s; the process ends with code 66", n_reports,
             n_reports == 1 ? "" : "s");
    write_line(line);
    fflush(NULL);
    _exit(66);
}
