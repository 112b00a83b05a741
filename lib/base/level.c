#include "lib/base/level.h"

#include "lib/base/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef TRIVIUM_LEVELS

/* tools/levels writes these, the lowest level first; the last row has no name. A function's number is its slot's. */
struct level { const char *name; void *const *functions; size_t function_bytes; const void *const *tables; };
extern const struct level levels[];
extern const struct level_table { void *to; size_t bytes; } level_tables[];
extern void *level_slots[];

static const struct level *chosen;
const char *level_chosen(void) { return chosen->name; }

static bool processor_has(const char *level) {
    if (strcmp(level, "x86-64-v2") == 0) return __builtin_cpu_supports("x86-64-v2");
    if (strcmp(level, "x86-64-v3") == 0) return __builtin_cpu_supports("x86-64-v3");
    if (strcmp(level, "x86-64-v4") == 0) return __builtin_cpu_supports("x86-64-v4");
    if (strcmp(level, "x86-64-v4-bf16") == 0) return __builtin_cpu_supports("avx512bf16");
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
}

static void list(const struct level *end, char *out, size_t size) {
    size_t used = 0;
    for (const struct level *l = levels; l < end && used < size; l++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", l > levels ? ", " : "", l->name);
}

/* Each level includes those before it. */
static enum status choose(const char *wanted) {
    const struct level *end = levels, *all = levels;
    char names[200];
    __builtin_cpu_init();
    while (all->name) all++;
    while (end->name && processor_has(end->name)) end++;
    if (end == levels)
        return FAIL(E_CONFIG, "this processor has less than %s; build for it with make ARCH=native", levels->name);
    chosen = end - 1;
    if (!wanted) return OK;
    for (chosen = levels; chosen->name && strcmp(chosen->name, wanted) != 0;) chosen++;
    list(chosen->name ? end : all, names, sizeof names);
    if (!chosen->name) return FAIL(E_USAGE, "TRIVIUM_CPU=%s is no level; use one of %s", wanted, names);
    return chosen < end ? OK : FAIL(E_CONFIG, "TRIVIUM_CPU=%s: this processor has %s; use one of them", wanted, names);
}

static void use(const struct level *l) {
    memcpy(level_slots, l->functions, l->function_bytes);
    for (int i = 0; level_tables[i].to; i++) memcpy(level_tables[i].to, l->tables[i], level_tables[i].bytes);
}

#else

#ifndef TRIVIUM_ARCH
#define TRIVIUM_ARCH "native"
#endif

const char *level_chosen(void) { return NULL; }

static enum status choose(const char *wanted) {
    if (!wanted || strcmp(wanted, TRIVIUM_ARCH) == 0) return OK;
    return FAIL(E_CONFIG,
                "TRIVIUM_CPU=%s: this program is built with ARCH=%s alone; unset TRIVIUM_CPU, or build with make "
                "ARCH=any",
                wanted, TRIVIUM_ARCH);
}

#endif

__attribute__((constructor)) static void level_start(void) {
    enum status status = choose(getenv("TRIVIUM_CPU"));
    if (status != OK) {
        status_report();
        _exit(status_exit_code(status));
    }
#ifdef TRIVIUM_LEVELS
    use(chosen);
#endif
}
