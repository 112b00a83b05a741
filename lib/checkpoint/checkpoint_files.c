#include "lib/checkpoint/checkpoint_files.h"

#include "lib/base/replace.h"
#include "lib/base/input.h"
#include "lib/base/log.h"
#include "lib/base/shared.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names ---- */

static enum status fits(int length, const char *folder) {
    return length < CHECKPOINT_PATH_MAX
               ? OK
               : FAIL(E_CONFIG, "the path of a checkpoint in %.64s... has %d bytes; the limit is %d: save elsewhere",
                      folder, length, CHECKPOINT_PATH_MAX - 1);
}

enum status checkpoint_path(const char *folder, const char *name, char out[CHECKPOINT_PATH_MAX]) {
    return fits(snprintf(out, CHECKPOINT_PATH_MAX, "%s/%s", folder, name), folder);
}

enum status checkpoint_step_path(const char *save, int64_t step, bool unfinished, char out[CHECKPOINT_PATH_MAX]) {
    return fits(snprintf(out, CHECKPOINT_PATH_MAX, "%s/%sstep-%08" PRId64, save, unfinished ? "." : "", step), save);
}

enum status checkpoint_shard_path(const char *folder, int rank, char out[CHECKPOINT_PATH_MAX]) {
    return fits(snprintf(out, CHECKPOINT_PATH_MAX, "%s/rank-%05d.safetensors", folder, rank), folder);
}

int64_t checkpoint_step_of_name(const char *name) {
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 13 || strlen(name) > 5 + 18) return -1;
    for (const char *c = name + 5; *c; c++)
        if (!isdigit((unsigned char)*c)) return -1;
    return strtoll(name + 5, NULL, 10);
}

/* ---- folders ---- */

static enum status make_one(const char *path) {
    if (mkdir(path, 0777) == 0) return durable_name(path);       /* so that a power cut cannot remove it */
    if (errno == EEXIST) return OK;
    return FAIL(E_IO, "cannot make the folder %s: %s; point --save at a writable directory", path, strerror(errno));
}

enum status checkpoint_make_folder(const char *path) {
    char part[CHECKPOINT_PATH_MAX];
    struct stat info;
    TRY(fits(snprintf(part, sizeof part, "%s", path), path));
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        TRY(make_one(part));
        *slash = '/';
    }
    TRY(make_one(part));
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return OK;
    return FAIL(E_IO, "%s is there, and is no folder; give --save another place", path);
}

enum status checkpoint_remove_folder(const char *path) {
    struct stat info;
    bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    if (is_link) return unlink(path) == 0 ? OK : FAIL(E_IO, "cannot remove %s: %s", path, strerror(errno));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) return errno == ENOENT ? OK : FAIL(E_IO, "cannot look into %s: %s", path, strerror(errno));
    enum status status = OK;
    for (struct dirent *entry = readdir(folder); entry && status == OK; entry = readdir(folder)) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (unlinkat(fd, entry->d_name, 0) != 0)
            status = FAIL(E_IO, "cannot remove %s/%s: %s", path, entry->d_name, strerror(errno));
    }
    closedir(folder);
    TRY(status);
    return rmdir(path) == 0 ? OK : FAIL(E_IO, "cannot remove %s: %s", path, strerror(errno));
}

static enum status write_text(const char *path, const char *text) {
    FILE *f = shared_create(path);
    if (!f) return FAIL(E_IO, "cannot create %s: %s", path, shared_why(errno));
    bool ok = fputs(text, f) >= 0 && fflush(f) == 0 && fsync(fileno(f)) == 0;
    int why = errno;
    ok = fclose(f) == 0 && ok;
    return ok ? OK : FAIL(E_IO, "writing %s: %s", path, strerror(why));
}

enum status checkpoint_replace_text(const char *folder, const char *name, const char *text) {
    char path[CHECKPOINT_PATH_MAX], beside[CHECKPOINT_PATH_MAX], hidden[64];
    snprintf(hidden, sizeof hidden, ".%s", name);
    TRY(checkpoint_path(folder, name, path));
    TRY(checkpoint_path(folder, hidden, beside));
    enum status status = write_text(beside, text);
    if (status == OK && rename(beside, path) != 0) status = FAIL(E_IO, "cannot rename %s: %s", beside, strerror(errno));
    if (status != OK) unlink(beside);                                /* frees its room if the disk is full */
    return status == OK ? durable_folder(folder) : status;
}

/* ---- old steps ---- */

static int newest_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

enum status checkpoint_list_steps(const char *save, bool hidden, int64_t **steps, int *n) {
    DIR *folder = opendir(save);
    *steps = NULL;
    *n = 0;
    if (!folder) return FAIL(E_IO, "cannot look into %s: %s", save, strerror(errno));
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if ((entry->d_name[0] == '.') != hidden) continue;
        int64_t step = checkpoint_step_of_name(entry->d_name + hidden), *grown;
        if (step < 0 || !(grown = realloc(*steps, (size_t)(*n + 1) * sizeof **steps))) continue;
        *steps = grown;
        (*steps)[(*n)++] = step;
    }
    closedir(folder);
    if (*n > 1) qsort(*steps, (size_t)*n, sizeof **steps, newest_first);
    return OK;
}

static enum status remove_step(const char *save, bool hidden, int64_t step) {
    char path[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_step_path(save, step, hidden, path));
    return checkpoint_remove_folder(path);
}

/* Remove steps. If one cannot be removed, the others are still removed. */
static enum status remove_steps(const char *save, bool hidden, int64_t keep, int64_t spare) {
    int64_t *steps;
    int n;
    TRY(checkpoint_list_steps(save, hidden, &steps, &n));
    enum status status = OK;
    for (int i = 0, kept = 0; i < n; i++) {
        if (steps[i] == spare || kept++ < keep - 1) continue;
        enum status removed = remove_step(save, hidden, steps[i]);
        if (removed != OK) status = removed;
    }
    free(steps);
    return status;
}

/* Remove temporary files: those of checkpoint_replace_text and of the test in checkpoint_ready. */
static void remove_small_ones(const char *save) {
    char path[CHECKPOINT_PATH_MAX];
    DIR *folder = opendir(save);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".latest") != 0 && strncmp(entry->d_name, ".probe-", 7) != 0) continue;
        if (checkpoint_path(save, entry->d_name, path) == OK) unlink(path);
    }
    if (folder) closedir(folder);
}

enum status checkpoint_remove_unfinished(const char *save) {
    remove_small_ones(save);
    return remove_steps(save, true, 0, -1);
}

enum status checkpoint_prune(const char *save, int64_t keep, int64_t spare) {
    TRY(remove_steps(save, true, 0, -1));
    return keep > 0 ? remove_steps(save, false, keep, spare) : OK;
}

/* ---- what a published model says of tokens ---- */

const char *const checkpoint_token_files[N_TOKEN_FILES] = {
    "tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model", "vocab.txt", "merges.txt",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "generation_config.json", TOKEN_IDS};

static enum status copy_bytes(FILE *from, FILE *to, const char *path) {
    char bytes[1 << 14];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, from)) > 0;)
        if (fwrite(bytes, 1, n, to) != n) return FAIL(E_IO, "writing %s: %s", path, strerror(errno));
    if (ferror(from)) return FAIL(E_IO, "reading what becomes %s: %s", path, strerror(errno));
    return fflush(to) == 0 && fsync(fileno(to)) == 0 ? OK : FAIL(E_IO, "writing %s: %s", path, strerror(errno));
}

enum status checkpoint_copy_file(const char *from, const char *path) {
    FILE *f, *to;
    TRY(input_file("", from, INPUT_FILE, &f));
    to = fopen(path, "wbx");
    enum status status = to ? copy_bytes(f, to, path)
                            : FAIL(E_IO, "cannot copy %s to %s: %s", from, path, strerror(errno));
    fclose(f);
    if (to && fclose(to) != 0 && status == OK) status = FAIL(E_IO, "closing %s: %s", path, strerror(errno));
    return status;
}

static char carried[CHECKPOINT_PATH_MAX];

void checkpoint_carry_from(const char *step) { snprintf(carried, sizeof carried, "%s", step); }

/* A link costs nothing, and no one changes these files in place. */
static enum status carry_file(const char *name, const char *folder) {
    char from[CHECKPOINT_PATH_MAX], to[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_path(carried, name, from));
    TRY(checkpoint_path(folder, name, to));
    if (access(from, R_OK) != 0 || link(from, to) == 0) return OK;
    return checkpoint_copy_file(from, to);
}

void checkpoint_carry(const char *unfinished, const char *final) {
    for (int i = 0; i < N_TOKEN_FILES && carried[0]; i++) {
        if (carry_file(checkpoint_token_files[i], unfinished) == OK) continue;
        log_warn("%s is saved without %s: %s", final, checkpoint_token_files[i], status_message());
        status_clear();
    }
    if (carried[0]) checkpoint_carry_from(final);
}
