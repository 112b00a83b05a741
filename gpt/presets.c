/* Sizes by name. GPT-2's own, and GPT-3's (Brown et al. 2020, table 2.1; head counts such that heads divide hidden). */
#include "gpt/gpt.h"

#include <string.h>

static const struct preset { const char *name, *layers, *hidden, *heads, *seq, *vocab; } PRESETS[] = {
    {"tiny", "4", "128", "4", "64", NULL},                           /* vocab: the data's */
    {"gpt2-124m", "12", "768", "12", "1024", "50257"},
    {"gpt2-350m", "24", "1024", "16", "1024", "50257"},
    {"gpt2-774m", "36", "1280", "20", "1024", "50257"},
    {"gpt2-1558m", "48", "1600", "25", "1024", "50257"},
    {"gpt3-125m", "12", "768", "12", "2048", "50257"},
    {"gpt3-350m", "24", "1024", "16", "2048", "50257"},
    {"gpt3-760m", "24", "1536", "16", "2048", "50257"},
    {"gpt3-1.3b", "24", "2048", "16", "2048", "50257"},
    {"gpt3-2.7b", "32", "2560", "32", "2048", "50257"},
    {"gpt3-6.7b", "32", "4096", "32", "2048", "50257"},
    {"gpt3-13b", "40", "5120", "40", "2048", "50257"},
    {"gpt3-175b", "96", "12288", "96", "2048", "50257"},
};
enum { N_PRESETS = sizeof PRESETS / sizeof *PRESETS };

static const struct preset *find(const char *name) {
    for (int i = 0; i < N_PRESETS; i++)
        if (!strcmp(PRESETS[i].name, name)) return &PRESETS[i];
    return NULL;
}

static const char *all_names(char *text, size_t size) {
    size_t n = 0;
    for (int i = 0; i < N_PRESETS; i++) n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", PRESETS[i].name);
    return text;
}

enum status gpt_preset(const struct plan *plan, struct options *o) {
    const struct preset *p = find(plan->model);
    char names[512];
    if (!p) return FAIL(E_CONFIG, "no preset is called model=%s; use one of %s", plan->model, all_names(names, sizeof names));
    TRY(options_set(o, "layers", p->layers, FROM_PRESET));
    TRY(options_set(o, "hidden", p->hidden, FROM_PRESET));
    TRY(options_set(o, "heads", p->heads, FROM_PRESET));
    TRY(options_set(o, "seq", p->seq, FROM_PRESET));
    return p->vocab ? options_set(o, "vocab", p->vocab, FROM_PRESET) : OK;
}
