#include "lib/base/json_file.h"

#include "lib/base/input.h"
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t json_count_values(const char *text, size_t n) {
    int64_t values = 0;
    bool in_text = false;
    for (size_t i = 0; i < n; i++) {
        if (in_text && text[i] == '\\') i++;
        else if (text[i] == '"') in_text = !in_text;
        else if (!in_text) values += text[i] == '{' || text[i] == '[' || text[i] == ',';
    }
    return values;
}

static enum status parse(const char *path, const char *text, size_t n, int64_t max_values, size_t flags, json_t **out) {
    json_error_t why;
    int64_t values = json_count_values(text, n);
    if (values > max_values)
        return FAIL(E_FORMAT, "%s has %" PRId64 " values; the limit is %" PRId64 ": is it the right file?", path,
                    values, max_values);
    *out = json_loadb(text, n, flags, &why);
    return *out ? OK : FAIL(E_FORMAT, "%s is not JSON: %s at line %d", path, why.text, why.line);
}

enum status json_file_read(const char *path, int64_t max_bytes, size_t flags, json_t **out) {
    FILE *f;
    *out = NULL;
    TRY(input_file("", path, INPUT_FILE, &f));
    struct stat info;
    int64_t bytes = fstat(fileno(f), &info) == 0 ? (int64_t)info.st_size : 0;
    char *text = bytes <= max_bytes ? malloc((size_t)bytes + 1) : NULL;
    enum status status = OK;
    if (bytes > max_bytes)
        status = FAIL(E_FORMAT, "%s has %" PRId64 " bytes; the limit is %" PRId64 ": is it the right file?", path,
                      bytes, max_bytes);
    else if (!text) status = FAIL(E_MEMORY, "no memory to read %s, %" PRId64 " bytes", path, bytes);
    size_t n = status == OK ? fread(text, 1, (size_t)bytes, f) : 0;
    if (status == OK && ferror(f)) status = FAIL(E_IO, "cannot read %s: %s", path, strerror(errno));
    if (status == OK) status = parse(path, text, n, max_bytes / 16, flags, out);
    free(text);
    fclose(f);
    return status;
}

enum status json_file_write(const char *path, const json_t *value, size_t flags) {
    FILE *f = fopen(path, "w");
    if (!f) return FAIL(E_IO, "cannot create %s: %s", path, strerror(errno));
    bool ok = json_dumpf(value, f, flags) == 0 && fflush(f) == 0 && fsync(fileno(f)) == 0;
    int why = errno;
    if (fclose(f) != 0 && ok) ok = false, why = errno;
    return ok ? OK : FAIL(E_IO, "writing %s: %s", path, strerror(why));
}
