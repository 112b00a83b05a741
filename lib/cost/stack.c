/* Read a stack: a section of configs/stacks.ini, as a table of options. */
#include "lib/cost/stack.h"

#include "lib/base/configs.h"
#include "lib/base/option.h"
#include "lib/cost/cluster.h"
#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0

enum { REPLAY_READ, REPLAY_LAYER };
enum { ALL_SCHEDULES, INTERLEAVED, PLAIN };
enum { BEHIND_WORK, BEHIND_NOTHING };
struct section {
    char options[OPTION_TEXT_MAX];
    int schedules, command, replay, sums, gathers, buckets, in_place, rings, replay_gathers;
    int64_t sums_from;
    char products[OPTION_TEXT_MAX], base[OPTION_TEXT_MAX];
    double tp_hidden, stream_part, moves, launch_us, reserve_gib, fragments;
};

#define AT(field) offsetof(struct section, field)
#define REAL(key, initial, min, max, unit, meaning, field)                                                             \
    {key, OPTION_REAL, initial, min, max, NULL, unit, meaning, "stack", AT(field)}
#define WORD(key, words, meaning, field) {key, OPTION_CHOICE, NULL, 0, 0, words, "", meaning, "stack", AT(field)}

static const struct option OPTIONS[] = {
    {"options", OPTION_TEXT, NULL, 0, 0, NULL, "", "option:value, ...: of the plan, unless they are given", "stack",
     AT(options)},
    WORD("schedules", "all|interleaved|1f1b", "what a search tries: all, 1f1b and interleaved, or 1f1b", schedules),
    WORD("command", "none|megatron-2021|megatron-core|deepspeed|torchtitan|nanotron", "whose arguments say a layout",
         command),
    WORD("replay", "read|layer", "what a recomputation of whole layers runs: what backward reads, or all", replay),
    WORD("sums", "hidden|exposed", "over replicas, behind backward", sums),
    {"sums-hidden-from-zero", OPTION_INT, "0", 0, 3, NULL, "", "exposed ones are hidden from this stage on; 0: none",
     "stack", AT(sums_from)},
    WORD("gathers", "hidden|exposed", "of ZeRO-1's weights, behind the next forward", gathers),
    {"gathers-in-buckets", OPTION_BOOL, "off", 0, 0, NULL, "", "of many params at once", "stack", AT(buckets)},
    {"replay-gathers", OPTION_BOOL, "off", 0, 0, NULL, "", "ZeRO-3 gathers for a replay, too", "stack",
     AT(replay_gathers)},
    {"in-place", OPTION_BOOL, "off", 0, 0, NULL, "", "sums and gathers have no buffers of their own", "stack",
     AT(in_place)},
    {"rings", OPTION_BOOL, "off", 0, 0, NULL, "", "one over all ranks; else a collective goes level by level", "stack",
     AT(rings)},
    REAL("tp-hidden", "0", 0, 1, "", "part of tp's exchanges that products hide", tp_hidden),
    {"products", OPTION_TEXT, NULL, 0, 0, NULL, "", "cluster:part, ...: product-part of a cluster, instead of its own",
     "stack", AT(products)},
    {"base", OPTION_TEXT, NULL, 0, 0, NULL, "", "a section of the same file, whose keys count where this has none",
     "stack", AT(base)},
    REAL("stream-part", "0", 0, 1, "", "that of the cluster instead; 0: the cluster's", stream_part),
    REAL("moves", "1", 1e-3, 100, "", "bytes that memory-bound rows move, as a multiple of this program's", moves),
    REAL("launch-us", "0", 0, 1e6, "us", "that of the cluster instead; 0: the cluster's", launch_us),
    REAL("reserve-gib", "-1", -1, 1e6, "GiB", "that of the cluster instead; -1: the cluster's", reserve_gib),
    REAL("fragments", "0", 0, 10, "", "memory added to all that is counted, as a part of it", fragments),
};
static const struct option_table TABLE = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};

/* Take the cluster's part of "dgx-a100:0.8, dgx-h100:0.6", if it is there. */
static enum status read_products(const char *stack, const char *text, struct cluster *c) {
    while (*text) {
        char name[64];
        double part;
        int used = 0;
        if (sscanf(text, " %63[a-z0-9-]:%lf%n", name, &part, &used) != 2 || !(part >= 1e-6 && part <= 1))
            return FAIL(E_FORMAT, "stack %s: products: \"%.40s\" is not cluster:part, of 1e-6 to 1", stack, text);
        if (!strcmp(name, c->name)) c->product_part = part;
        text += used + (int)strspn(text + used, " ,");
    }
    return OK;
}

/* A reserve of 0 is that of a memory limit (cluster_limit_memory), and stays. */
static enum status convert(const char *name, const struct section *f, struct cluster *c) {
    c->stack = (struct stack){.command = (enum stack_command)f->command,
                              .no_zero_bubble = f->schedules != ALL_SCHEDULES,
                              .no_chunks = f->schedules == PLAIN,
                              .whole_layers = f->replay == REPLAY_LAYER,
                              .buckets = f->buckets,
                              .in_place = f->in_place,
                              .replay_gathers = f->replay_gathers,
                              .rings = f->rings,
                              .sums_wait = f->sums == BEHIND_NOTHING,
                              .sums_hide_from_zero = f->sums_from,
                              .gathers_wait = f->gathers == BEHIND_NOTHING,
                              .tp_hidden_part = f->tp_hidden,
                              .fragments = f->fragments};
    strcpy(c->stack.options, f->options);
    snprintf(c->stack.name, sizeof c->stack.name, "%s", name);
    if (f->stream_part > 0) c->stream_part = f->stream_part;
    c->stream_part /= f->moves;
    if (f->launch_us > 0) c->launch_s = f->launch_us * 1e-6;
    if (f->reserve_gib >= 0 && c->reserve_bytes > 0) c->reserve_bytes = (int64_t)(f->reserve_gib * GIB);
    return read_products(name, f->products, c);
}

/* Read a section, and where it names a base, that one first. */
static enum status read_section(const char *path, const char *name, struct section *f, struct options *o) {
    char base[OPTION_TEXT_MAX];
    TRY(options_read_section(o, path, name));
    if (!*f->base) return OK;
    strcpy(base, f->base);
    TRY(options_read_section(o, path, base));
    if (strcmp(base, f->base))
        return FAIL(E_CONFIG, "stack %s: its base %s has a base, too; name %s", name, base, f->base);
    return options_read_section(o, path, name);
}

enum status stack_read(const char *name, struct cluster *c) {
    char path[OPTION_TEXT_MAX], file[OPTION_TEXT_MAX] = "";
    const char *section = strrchr(name, ':');
    struct section f = {0};
    struct options *o;
    if (!strcmp(name, "trivium")) return OK;
    if (section) snprintf(file, sizeof file, "%.*s", (int)(section - name), name);
    section = section ? section + 1 : name;
    if (strlen(section) >= sizeof c->stack.name)
        return FAIL(E_DATA, "stack=%s has a name of %zu bytes; use one of at most %zu", name, strlen(section),
                    sizeof c->stack.name - 1);
    if (c->cores)
        return FAIL(E_CONFIG, "stack=%s is of GPUs, and the ranks of cluster=%s share cores; use another cluster, as "
                    "--cluster dgx-a100, or leave stack out", name, c->name);
    if (!*file && !configs_find("stacks.ini", path, sizeof path))
        return FAIL(E_DATA, "stack=%s is a name, and neither the project of this program nor the current directory has "
                    "%s; give a file as in ./stacks.ini:%s", name, path, name);
    TRY(options_create(&TABLE, 1, &f, &o));
    enum status status = read_section(*file ? file : path, section, &f, o);
    options_destroy(&o);
    return status == OK ? convert(section, &f, c) : status;
}

enum status stack_set_options(const struct stack *s, struct options *o) {
    char name[64], value[64];
    for (const char *text = s->options; *text;) {
        int used = 0;
        if (sscanf(text, " %63[a-z0-9-]:%63[a-z0-9.-]%n", name, value, &used) != 2)
            return FAIL(E_FORMAT, "stack %s: options: \"%.40s\" is not option:value", s->name, text);
        TRY(options_set(o, name, value, FROM_PRESET));
        text += used + (int)strspn(text + used, " ,");
    }
    return OK;
}
