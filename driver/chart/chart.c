#include "driver/chart/chart.h"

#include "lib/base/output.h"
#include "lib/base/replace.h"
#include <errno.h>
#include <string.h>

enum status chart_file_open(const char *path, FILE **out) {
    *out = replace_begin(path);
    return *out ? OK : FAIL(E_IO, "cannot write svg=%s: %s", path, output_why(errno));
}

enum status chart_file_close(const char *path, FILE *f) {
    return replace_end(path, f, true) ? OK : FAIL(E_IO, "cannot write all of svg=%s: %s", path, strerror(errno));
}
