#include "launch/host_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Do other hosts' ranks get this setting? */
static bool is_setting(const char *text) {
    static const char *const begins[] = {"TRIVIUM_", "OMP_", "CUDA_", "NCCL_"};
    bool is = false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) is |= strncmp(text, begins[i], strlen(begins[i])) == 0;
    return is && strncmp(text, "TRIVIUM_SECRET=", strlen("TRIVIUM_SECRET=")) != 0;
}

/* ---- writing ---- */
static void put(FILE *f, const char *text, int32_t *n) {
    fwrite(text, 1, strlen(text) + 1, f);
    ++*n;
}

enum status host_job_write(const struct host_job *job, char *const *words, char **body, size_t *bytes) {
    struct host_job head = *job;
    char folder[4096];
    FILE *f = open_memstream(body, bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for the message that starts a host's ranks");
    head.n_texts = head.n_settings = 0;
    fwrite(&head, sizeof head, 1, f);
    put(f, getcwd(folder, sizeof folder) ? folder : "/", &head.n_texts);
    for (char **e = environ; *e; e++)
        if (is_setting(*e)) put(f, *e, &head.n_settings);
    head.n_texts += head.n_settings;
    for (; *words; words++) put(f, *words, &head.n_texts);
    if (fclose(f) != 0) return FAIL(E_MEMORY, "no memory for the message that starts a host's ranks");
    memcpy(*body, &head, sizeof head);
    if (*bytes <= HOST_MOST_TEXT) return OK;
    free(*body);
    *body = NULL;
    return FAIL(E_CONFIG, "the command line and the settings of the environment have %zu bytes; other hosts take %d",
                *bytes, HOST_MOST_TEXT);
}

/* ---- reading ---- */
static bool is_right(const struct host_job *j) {
    bool right = j->n_slots >= 1 && j->n_slots <= OWN_MOST_RANKS && j->n >= 1 && j->n <= j->n_slots && j->me >= 0 &&
                 j->mine_from >= 0 && j->n_settings >= 0 && j->n_texts >= 2 && j->n_texts <= HOST_MOST_TEXT &&
                 j->n_settings <= j->n_texts - 2;
    right = right && (j->encrypts == 0 || j->encrypts == 1);
    return right && j->hang_s >= 0 && j->lost_s > 0;
}

/* @return whether text holds exactly n_texts strings */
static bool point_at_each(struct host_texts *t, char *text, size_t bytes) {
    char *at = text, *end = text + bytes;
    for (int i = 0; i < t->job.n_texts; i++) {
        char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero) return false;
        t->texts[i] = at;
        at = zero + 1;
    }
    t->settings = t->texts + 1;
    t->words = t->texts + 1 + t->job.n_settings;
    return at == end;
}

/* A lighthouse sends no other settings. They are refused, because LD_PRELOAD, for example, would run foreign code. */
static enum status check_settings(const struct host_texts *t) {
    for (int i = 0; i < t->job.n_settings; i++)
        if (!is_setting(t->settings[i]))
            return FAIL(E_FORMAT, "the lighthouse has sent the setting %.64s, which ranks do not get; is it of this "
                        "build?", t->settings[i]);
    return OK;
}

enum status host_job_read(const struct host_message *m, struct host_texts *out) {
    size_t bytes = m->bytes - sizeof out->job;
    *out = (struct host_texts){0};
    memcpy(&out->job, m->body, sizeof out->job);
    if (!is_right(&out->job))
        return FAIL(E_FORMAT, "the lighthouse has sent what starts no ranks; is it of this build?");
    out->texts = calloc((size_t)out->job.n_texts + 1, sizeof *out->texts);
    out->text = malloc(bytes + 1);
    if (!out->texts || !out->text) {
        host_texts_free(out);
        return FAIL(E_MEMORY, "no memory for %zu bytes of command", bytes);
    }
    memcpy(out->text, m->body + sizeof out->job, bytes);
    enum status status = point_at_each(out, out->text, bytes)
                             ? check_settings(out)
                             : FAIL(E_FORMAT, "the lighthouse has sent a command that is cut short; is it of this "
                                    "build?");
    if (status != OK) host_texts_free(out);
    return status;
}

void host_texts_free(struct host_texts *t) {
    free(t->text);
    free(t->texts);
    *t = (struct host_texts){0};
}
