/* Places in the text of kernels, and the barriers among them.
 *
 * A site is an object of one compilation: block_sum in a header gives one for each .cu file and element type. Tests
 * name a barrier by file, line and the kernel that runs. A site stores the last launch that found it on, so that
 * passing it costs one comparison. */
#include "tests/simt/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using namespace simt;

enum { MAX_BARRIERS = 1024 };

struct simt_barrier_state { struct simt_barrier barrier; bool off; };
static struct simt_barrier_state barriers[MAX_BARRIERS];
static int n_barriers;

namespace simt {
bool site_same_place(const struct simt_site *a, const struct simt_site *b) {
    return a == b || (a->line == b->line && strcmp(a->file, b->file) == 0 && strcmp(a->what, b->what) == 0);
}
}

/* The file without "./": the compiler calls a header found through -I. "./lib/ops/cuda.h". */
namespace simt {
const char *site_file(const struct simt_site *site) {
    return strncmp(site->file, "./", 2) == 0 ? site->file + 2 : site->file;
}
}

/* SIMT_NO_BARRIER=file:line is off in all kernels, SIMT_NO_BARRIER=file:line,kernel in that one. */
static bool is_off_at_start(const struct simt_barrier *b) {
    const char *text = getenv("SIMT_NO_BARRIER");
    char place[TURN_BYTES];
    int n = snprintf(place, sizeof place, "%s:%d,%s", b->file, b->line, b->kernel);
    size_t named = n - strlen(b->kernel) - 1;
    return text && (strcmp(text, place) == 0 || (strlen(text) == named && strncmp(text, place, named) == 0));
}

static bool is_barrier(const struct simt_barrier *b, const struct simt_site *site, const char *kernel) {
    return b->line == site->line && strcmp(b->file, site_file(site)) == 0 && strcmp(b->kernel, kernel) == 0 &&
           strcmp(b->what, site->what) == 0;
}

static struct simt_barrier_state *find_barrier(const struct simt_site *site, const char *kernel) {
    for (int i = 0; i < n_barriers; i++)
        if (is_barrier(&barriers[i].barrier, site, kernel)) return &barriers[i];
    if (n_barriers == MAX_BARRIERS) {
        fprintf(stderr, "simt: more than %d barriers; raise MAX_BARRIERS in tests/simt/site.cpp\n", MAX_BARRIERS);
        abort();
    }
    struct simt_barrier_state *state = &barriers[n_barriers++];
    state->barrier = {kernel, site->what, site_file(site), site->line};
    state->off = is_off_at_start(&state->barrier);
    return state;
}

namespace simt {
bool site_look_up(struct simt_site *site) {
    bool on = !find_barrier(site, now.launch->kernel->name)->off;
    if (on) site->on_in_launch = now.launch_number;
    return on;
}
}

/* Warn if SIMT_NO_BARRIER names no barrier that ran: a test that passes then proves nothing. */
__attribute__((destructor)) static void say_if_nothing_was_off(void) {
    const char *text = getenv("SIMT_NO_BARRIER");
    bool met = false;
    for (int i = 0; text && i < n_barriers; i++) met |= is_off_at_start(&barriers[i].barrier);
    if (!text || met || now.launch_number == 0) return;
    fprintf(stderr, "simt: SIMT_NO_BARRIER=%s: no such barrier was met%s\n", text,
            n_barriers ? "; these were:" : ", nor any other");
    for (int i = 0; i < n_barriers && i < 20; i++)
        fprintf(stderr, "simt:   %s:%d,%s\n", barriers[i].barrier.file, barriers[i].barrier.line,
                barriers[i].barrier.kernel);
}

int simt_barriers(void) { return n_barriers; }
const struct simt_barrier *simt_barrier(int number) {
    return number >= 0 && number < n_barriers ? &barriers[number].barrier : NULL;
}
void simt_barrier_off(int number) {
    for (int i = 0; i < n_barriers; i++) barriers[i].off = i == number;
}
