#include "driver/chart/page.h"

#include "driver/chart/markup.h"
#include "driver/report/report.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static const char STYLE[] =
    "body{font:16px/1.5 system-ui,-apple-system,\"Segoe "
    "UI\",Helvetica,Arial,sans-serif;color:#1a1a1a;background:#fdfdfb;margin:0}\n"
    "main{max-width:76rem;margin:0 auto;padding:1.5rem}\n"
    "h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.2rem 0 .4rem;border-bottom:1px solid #dcdcd8}\n"
    "p{max-width:52rem}.small{color:#4a4a4a;font-size:.9rem}pre{font-size:.85rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;padding:.3rem 0;color:#4a4a4a;font-size:.9rem}\n"
    "th,td{padding:.25rem .55rem;border-bottom:1px solid "
    "#e4e4e0;text-align:right;vertical-align:top;white-space:nowrap}\n"
    "thead th{vertical-align:bottom;white-space:normal}"
    "th:first-child,td:first-child,td.text,thead th.text{text-align:left}\n"
    "tbody "
    "th{font-weight:600;white-space:normal;min-width:12rem;overflow-wrap:anywhere}td.text{white-space:normal;overflow-"
    "wrap:anywhere}\n"
    ".narrow tbody th{min-width:0}\n"
    "td.reason{text-align:left;white-space:normal;color:#8a2b00}svg{max-width:100%;height:auto}figure{margin:1rem 0}\n"
    "@media print{main{max-width:none}h2{break-after:avoid}figure{break-inside:avoid}}\n";

void page_open(FILE *f, const char *title) {
    fprintf(f, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta "
               "charset=\"utf-8\"/>\n"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Trivium: ");
    markup_text(f, title);
    fprintf(f, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", STYLE);
    markup_text(f, title);
    fprintf(f, "</h1>\n");
}

void page_close(FILE *f) { fprintf(f, "</main>\n</body>\n</html>\n"); }

/* ---- files ---- */
struct words { char *text; size_t bytes; };

static enum status make_words(enum status (*write)(const void *self, FILE *), const void *self, struct words *w) {
    *w = (struct words){0};
    FILE *f = open_memstream(&w->text, &w->bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for a page");
    enum status status = write(self, f);
    if (fclose(f) && status == OK) status = FAIL(E_MEMORY, "no memory for a page");
    return status;
}

static int put_words(FILE *f, const void *self) {
    const struct words *w = self;
    return fwrite(w->text, 1, w->bytes, f) != w->bytes;
}

enum status page_write(const char *dir, const char *name, enum status (*write)(const void *self, FILE *),
                       const void *self) {
    struct words w;
    enum status status = make_words(write, self, &w);
    if (status == OK) status = report_replace(dir, name, put_words, &w);
    free(w.text);
    return status;
}

static enum status put_picture(FILE *page, const char *dir, const struct page_picture *p, const struct words *w) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "%s.svg", p->name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!w->bytes) {
        unlink(path);
        return OK;
    }
    fprintf(page, "<h2 id=\"%s\">%s</h2>\n<p class=\"small\">%s</p>\n<figure>\n%s</figure>\n", p->name, p->heading,
            p->meaning, w->text);
    return report_replace(dir, name, put_words, w);
}

enum status page_add(FILE *page, const char *dir, const struct page_picture *p, const void *self) {
    struct words w;
    enum status status = make_words(p->draw, self, &w);
    if (status == OK) status = put_picture(page, dir, p, &w);
    free(w.text);
    return status;
}
