/* ranks: 1  device: cpu
 *
 * --from FILE: what becomes of the keys of other programs' files. Sizes and values are those that these programs' own
 * documents give. */
#include "lib/stacks/from.h"

#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static struct plan plan;
static struct options *options;

/* Read a text as a file with this name; typed: "--tp 2 ...", from the command line. What the table says: table. */
static char *table;
static enum status read_text(const char *name, const char *text, const char *ignored, const char *typed) {
    const char *path = test_path(name);
    char *words[16], line[256];
    size_t size;
    int n = 0;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    options_destroy(&options);
    free(table);
    assert_ok(recipe_options_create(NULL, &plan, &options));
    snprintf(line, sizeof line, "%s", typed);
    for (char *w = strtok(line, " "); w; w = strtok(NULL, " ")) words[n++] = w;
    assert_ok(options_parse(options, n, words));
    FILE *out = open_memstream(&table, &size);
    enum status status = from_read(path, ignored, &train_recipe, options, out);
    fclose(out);
    return status;
}

static char seen[OPTION_TEXT_MAX + 64];
static void see(void *self, const struct option *o, const char *text, enum option_source source) {
    const char *by = source == FROM_FILE ? "" : " (not the file's)";
    if (!strcmp(o->name, self)) snprintf(seen, sizeof seen, "%s%s", text, by);
}
/* The option's value, which the file must have said. */
static const char *value(const char *name) {
    strcpy(seen, "no such option");
    options_each(options, see, (char *)name);
    return seen;
}
/* "tp=2 pp=4": each option has this value, by the file. */
static void assert_options(const char *wanted) {
    char name[40], text[64];
    for (int n = 0; sscanf(wanted, " %39[^=]=%63s%n", name, text, &n) == 2; wanted += n) {
        if (strcmp(value(name), text)) fail_msg("%s is %s, not %s", name, value(name), text);
    }
}
/* The row of a key ends with this. */
static void assert_row(const char *key, const char *became) {
    char begin[80];
    snprintf(begin, sizeof begin, "\n  %s ", key);
    const char *row = strstr(table, begin), *end = row ? strchr(row + 1, '\n') : NULL;
    if (!end) fail_msg("the table has no %s:\n%s", key, table);
    if ((size_t)(end - row) < strlen(became) || strncmp(end - strlen(became), became, strlen(became)))
        fail_msg("not \"%s\":%.*s", became, (int)(end - row), row);
}

/* ---- config.json ---- */

#define LLAMA \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 30, \"hidden_size\": 576, \"num_attention_heads\": 9, " \
    "\"num_key_value_heads\": 3, \"intermediate_size\": 1536, \"max_position_embeddings\": 8192, " \
    "\"vocab_size\": 49152, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", "
#define GPT2 \
    "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, \"n_positions\": 1024, " \
    "\"vocab_size\": 50257"

TEST(test_a_config_json_is_options) {
    assert_ok(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-05, \"rope_theta\": 100000}", "", ""));
    assert_options("arch=llama layers=30 hidden=576 heads=9 kv-heads=3 ffn=1536 seq=8192 vocab=49152 tie=on "
                   "rope-theta=100000");
    assert_row("hidden_size", "read");
    assert_row("rms_norm_eps", "as the model computes it");
    assert_row("torch_dtype", "does not matter here");
    assert_ok(read_text("config.json", GPT2 "}", "", ""));
    assert_options("arch=gpt layers=12 hidden=768 heads=12 seq=1024 vocab=50257 tie=on dropout=0.1");
    assert_ok(read_text("config.json", GPT2 ", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0.0}", "", ""));
    assert_options("dropout=0");
}

/* Keys that change the numbers and have no option are refused by name, all of them in the table, unless ignored. */
TEST(test_a_config_json_that_cannot_be_said) {
    static const char other[] = LLAMA "\"rms_norm_eps\": 1e-06, \"mlp_bias\": true}";
    assert_fails(read_text("config.json", other, "", ""), E_FORMAT, "rms_norm_eps is 1e-6",
                 "2 keys cannot be said: rms_norm_eps, mlp_bias; --ignore KEY");
    assert_row("mlp_bias", "cannot be said: mlp_bias is true; Trivium's llama has false");
    assert_fails(read_text("config.json", other, "mlp_bias", ""), E_FORMAT, "--ignore rms_norm_eps leaves the key out");
    assert_ok(read_text("config.json", other, "mlp_bias,rms_norm_eps", ""));
    assert_row("mlp_bias", "ignored");
    assert_fails(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-05}", "mlp_biass", ""), E_USAGE,
                 "ignore=mlp_biass", "no such key");
    assert_fails(read_text("config.json", GPT2 ", \"attn_pdrop\": 0.2}", "", ""), E_FORMAT, "another dropout",
                 "--ignore attn_pdrop");
    assert_fails(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-05, \"attention_dropout\": 0.1}", "", ""),
                 E_FORMAT, "dropout of attention alone");
    assert_fails(read_text("config.json", "{\"model_type\": \"mamba\"}", "", ""), E_FORMAT, "model_type is mamba",
                 "reads gpt2, llama, mixtral, bert, t5");
}

/* The command line wins; two files that differ, or a preset and a file of sizes, are refused. */
TEST(test_what_is_typed_wins_over_the_file) {
    assert_ok(read_text("config.json", GPT2 "}", "", "--seq 512"));
    assert_string_equal(value("seq"), "512 (not the file's)");
    assert_non_null(strstr(table, "the command line has its own, not: --seq 512"));
    assert_fails(read_text("config.json", GPT2 "}", "", "--model gpt2-350m"), E_USAGE, "--model and",
                 "leave one out");
    assert_ok(read_text("config.json", GPT2 "}", "", ""));
    assert_ok(from_read(test_path("config.json"), "", &train_recipe, options, NULL));      /* the same again */
    assert_ok(recipe_options_create(NULL, &plan, &options));
    assert_ok(options_set(options, "layers", "24", FROM_FILE));
    assert_fails(from_read(test_path("config.json"), "", &train_recipe, options, NULL), E_USAGE,
                 "layers is 24 in --config and 12 in", "type --layers");
}

TESTS(unit_test(test_a_config_json_is_options), unit_test(test_a_config_json_that_cannot_be_said),
      unit_test(test_what_is_typed_wins_over_the_file))
