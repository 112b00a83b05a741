/* What a failed attempt's ranks did last: their flight records are read, put into a folder, and taken out of shared
 * memory. An attempt that ended as somebody wanted leaves none. */
#include "driver/launch/launch.h"

#include "lib/base/log.h"
#include "lib/comm/postmortem.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum status write_ring(const struct flight *f, const char *folder) {
    char path[FLIGHT_PATH_MAX];
    snprintf(path, sizeof path, "%.3900s/trivium.%s.%d", folder, f->job, f->rank);
    FILE *file = fopen(path, "w");
    size_t n = file ? fwrite(f, sizeof *f, 1, file) : 0;
    if (file && fclose(file) != 0) n = 0;
    return n == 1 ? OK : FAIL(E_IO, "cannot write %s: %s", path, strerror(errno));
}

/* A folder a job: of several attempts the last one's records are there. */
static enum status put_away(const struct flight_set *set, char folder[PATH_MAX]) {
    const char *parent = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    snprintf(folder, PATH_MAX, "%s/trivium-flight.%s", parent, set->job);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return FAIL(E_IO, "cannot make %s: %s; set TMPDIR to a folder that can be written to", folder, strerror(errno));
    for (int r = 0; r < set->size; r++) {
        if (!set->ring[r]) continue;
        if (set->ring[r]->end_ns == 0) set->ring[r]->end_ns = set->now_ns; /* its number may be another's by now */
        TRY(write_ring(set->ring[r], folder));
    }
    return OK;
}

static enum status say_verdict(const struct flight_set *set) {
    char folder[PATH_MAX], text[1536];
    struct postmortem p;
    TRY(postmortem_find(set, &p));
    postmortem_text(set, &p, text, sizeof text);
    postmortem_fini(&p);
    TRY(put_away(set, folder));
    log_info("postmortem: %s. More: trivium postmortem %s", text, folder);
    return OK;
}

void launch_flight(bool failed) {
    struct flight_set set;
    const char *job = getenv("TRIVIUM_JOB");
    if (!job) return;
    if (failed && flight_set_read(flight_folder(), job, &set) == OK) {
        if (say_verdict(&set) != OK) log_warn("%s", status_message());
        flight_set_fini(&set);
    }
    status_clear(); /* there are none where ranks left together, or never started */
    flight_remove(job);
}
