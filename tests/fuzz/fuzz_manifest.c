/* parses: lib/base lib/device/dtype.c lib/checkpoint/safetensors_read.c lib/checkpoint/checkpoint_manifest.c
 * lib/checkpoint/checkpoint_files.c lib/ops/optimizer.c lib/ops/adamw.c lib/ops/sgd.c
 * lib/ops/muon.c */
/* manifest.json of a checkpoint. */
#include "lib/checkpoint/checkpoint_manifest.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

static void name_must_stay_in_the_folder(const char *name) {
    MUST(name[0] && name[0] != '.' && strlen(name) < sizeof((struct shard_file *)0)->name);
    for (const char *c = name; *c; c++)
        MUST((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || strchr("._-", *c));
}

static void count_must_be_what_is_written(const struct manifest *m, const char *key, int64_t count) {
    char text[32];
    const char *written = json_string_value(json_object_get(m->json, key));
    MUST(written && count >= 0 && count <= MANIFEST_MAX_COUNT);
    snprintf(text, sizeof text, "%lld", (long long)count);
    written += strspn(written, "0");
    MUST(!strcmp(written, count ? text : ""));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct manifest m;
    fuzz_write("manifest.json", data, size);
    enum status status = manifest_read(&m, fuzz_folder());
    MUST(status == OK || status == E_FORMAT);
    if (status == OK) {
        MUST(m.n >= 1);
        count_must_be_what_is_written(&m, "step", m.step);
        count_must_be_what_is_written(&m, "update", m.update);
        count_must_be_what_is_written(&m, "samples", m.samples);
        count_must_be_what_is_written(&m, "seed", m.seed);
        for (int i = 0; i < m.n; i++) {
            name_must_stay_in_the_folder(m.shards[i].name);
            MUST(m.shards[i].bytes >= 0);
            for (int k = 0; k < i && m.n < 100; k++) MUST(strcmp(m.shards[i].name, m.shards[k].name) != 0);
        }
    }
    manifest_fini(&m);
    return 0;
}
