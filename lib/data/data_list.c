/* The files that --data names. The first rule that fits wins:
 *
 *   a.txt            the file of that name, if it exists
 *   a.bin,b.bin      several, separated by commas; each is a name or a pattern
 *   part-*.bin       a shell pattern: * ? [...]
 *
 * The files are sorted by the bytes of their names, so that every rank and every machine sees the same stream. */
#include "lib/data/data_private.h"

#include "lib/base/grow.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status add(struct data_list *list, const char *path) {
    char *copy = strdup(path);
    if (!copy) return FAIL(E_MEMORY, "no memory for the name of %s; close other programs", path);
    list->path = table_grow(list->path, list->n, sizeof *list->path);
    list->path[list->n++] = copy;
    return OK;
}

static enum status add_pattern(struct data_list *list, const char *pattern) {
    glob_t found;
    enum status status = OK;
    int code = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (code == GLOB_NOMATCH)
        return FAIL(E_DATA,
                    "no file fits the pattern %s; quote it, so that the shell leaves it alone, and look with ls",
                    pattern);
    if (code != 0)
        return FAIL(code == GLOB_NOSPACE ? E_MEMORY : E_DATA, "the pattern %s cannot be looked up; name the files",
                    pattern);
    for (size_t i = 0; i < found.gl_pathc && status == OK; i++) status = add(list, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

/* An existing file whose name contains * ? or [ is no pattern. */
static enum status add_word(struct data_list *list, const char *word) {
    if (access(word, F_OK) != 0 && strpbrk(word, "*?[")) return add_pattern(list, word);
    return add(list, word);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static enum status sort(struct data_list *list) {
    qsort(list->path, (size_t)list->n, sizeof *list->path, by_name);
    for (int i = 1; i < list->n; i++)
        if (!strcmp(list->path[i - 1], list->path[i]))
            return FAIL(E_DATA, "%s is named twice; name it once", list->path[i]);
    return OK;
}

enum status data_list_init(struct data_list *out, const char *names) {
    *out = (struct data_list){0, NULL};
    if (access(names, F_OK) == 0 || !strchr(names, ',')) TRY(add_word(out, names));
    else {
        char *words = strdup(names), *rest = words, *word;
        enum status status = words ? OK : FAIL(E_MEMORY, "no memory for the list %s; close other programs", names);
        while (status == OK && (word = strsep(&rest, ",")))
            status = *word ? add_word(out, word)
                           : FAIL(E_DATA, "the list %s has an empty name in it; remove the comma", names);
        free(words);
        TRY(status);
    }
    return sort(out);
}

void data_list_fini(struct data_list *list) {
    for (int i = 0; i < list->n; i++) free(list->path[i]);
    free(list->path);
    *list = (struct data_list){0, NULL};
}
