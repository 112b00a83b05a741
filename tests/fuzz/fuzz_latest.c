/* parses: lib/base lib/checkpoint/checkpoint_files.c lib/checkpoint/checkpoint_latest.c */
/* SAVE/latest, which names a step of a checkpoint. */
#include "lib/checkpoint/checkpoint_files.h"
#include "tests/fuzz/fuzz.h"
#include <ctype.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char step[CHECKPOINT_PATH_MAX] = "";
    size_t folder = strlen(fuzz_folder());
    fuzz_write("latest", data, size);
    enum status status = checkpoint_resolve(fuzz_folder(), step);
    MUST(status == E_FORMAT || status == E_DATA); /* never OK: there is no step */
    if (status == E_FORMAT) return 0;
    MUST(strncmp(step, fuzz_folder(), folder) == 0 && strncmp(step + folder, "/step-", 6) == 0 &&
         strlen(step + folder) <= 24);
    for (const char *c = step + folder + 6; *c; c++) MUST(isdigit((unsigned char)*c));
    return 0;
}
