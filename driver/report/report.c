#include "driver/report/report.h"

#include "driver/chart/chart.h"
#include "lib/base/shared.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char PLACE[] = "@@data@@", NO_VEGA[] = "data-vega=\"no\"";

/* ---- files ---- */
static enum status cannot(const char *what, const char *path) {
    return FAIL(E_IO, "cannot %s %s: %s; give --out another directory", what, path, strerror(errno));
}

enum status report_replace(const char *dir, const char *name, report_writer *write, const void *self) {
    char path[PATH_MAX], fresh[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = shared_create(fresh);
    if (!f) return cannot("write", fresh);
    int failed = write(f, self);
    failed |= fclose(f);
    if (failed) return cannot("write", fresh);
    return rename(fresh, path) == 0 ? OK : cannot("write", path);
}

static enum status make_directories(const char *dir) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", dir);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);                                           /* if this fails, so does the last mkdir below */
        *slash = '/';
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST ? OK : cannot("make the directory", path);
}

enum status report_prepare(const char *dir) {
    char path[PATH_MAX];
    TRY(make_directories(dir));
    snprintf(path, sizeof path, "%s/report.new", dir);
    FILE *f = shared_create(path);
    if (!f) return cannot("write", path);
    fclose(f);
    unlink(path);
    return OK;
}

/* ---- JSON ---- */
json_t *report_text(const char *text) {
    char *plain = markup_plain(text);                                /* a file's name may have any encoding */
    json_t *o = plain ? json_string(plain) : NULL;
    free(plain);
    return o;
}

json_t *report_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *report_words(void (*print)(FILE *, const void *self), const void *self) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    print(f, self);
    json_t *o = fclose(f) ? NULL : report_text(text);
    free(text);
    return o;
}

/* ---- the page ---- */
struct words { const char *text; };

static int put_json(FILE *f, const void *self) {
    const struct words *w = self;
    return fputs(w->text, f) < 0 || fputc('\n', f) < 0;
}

/* Write every < of the JSON as \u003c, because a "</script>" in a text would end the page's script. */
static int put_page(FILE *f, const void *self) {
    const struct words *w = self;
    const char *place = strstr(report_template, PLACE);
    if (!place) return 1;
    fwrite(report_template, 1, (size_t)(place - report_template), f);
    for (const char *at = w->text; *at; at++)
        if (*at == '<') fputs("\\u003c", f);
        else fputc(*at, f);
    fputs(place + strlen(PLACE), f);
    return ferror(f);
}

static enum status write_both(const char *dir, const char *name, const char *text) {
    char file[NAME_MAX];
    const struct words w = {text};
    snprintf(file, sizeof file, "%.200s.json", name);
    TRY(report_replace(dir, file, put_json, &w));
    snprintf(file, sizeof file, "%.200s.html", name);
    return report_replace(dir, file, put_page, &w);
}

enum status report_write(const char *dir, const char *name, json_t *json, size_t flags) {
    char *text = json ? json_dumps(json, flags) : NULL;
    enum status status = text ? write_both(dir, name, text) : FAIL(E_MEMORY, "no memory for %s.json", name);
    free(text);
    json_decref(json);
    return status;
}

enum status report_page(const char *dir, const char *name, json_t *json, bool quiet) {
    enum status status = report_prepare(dir);
    if (status == OK) status = report_write(dir, name, json, JSON_COMPACT);
    else json_decref(json);
    if (status == OK && !quiet) report_pictures(dir, name);
    return status;
}

bool report_has_pictures(void) { return !strstr(report_template, NO_VEGA); }

void report_pictures(const char *dir, const char *name) {
    if (report_has_pictures()) printf("pictures: %s/%s.html\n", dir, name);
    else
        printf("%s/%s.html has no pictures: this build is without Vega; tools/install-deps pictures, then make\n", dir,
               name);
}

/* The template of all pages, which the build makes (driver/report/join). */

__asm__(".pushsection .rodata\n.globl report_template\nreport_template:\n.incbin \"" REPORT_PAGE "\"\n.byte 0\n"
        ".popsection\n");
