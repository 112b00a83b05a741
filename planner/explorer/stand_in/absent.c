/* Functions that the page's commands may call without a run or a job. Other missing functions (kernels, MPI, checkpoint
 * files) stay unresolved; a call of one traps. */
#include "lib/base/flat.h"
#include "lib/base/replace.h"
#include "lib/comm/membership/membership.h"
#include "lib/device/device.h"
#include "lib/device/disk.h"

int device_cuda_count(void) { return 0; }
void disk_close(struct disk **disk) { (void)disk; }

/* The epoch of a process outside any job, as in comm.c. */
void comm_epoch_members(struct membership *now, struct membership *from) {
    *now = (struct membership){.n = 1, .from = -1};
    *from = (struct membership){.number = -1};
}

/* libyaml is compiled for this machine only. */
enum status flat_yaml(const char *path, const char *text, struct flat *out) {
    (void)text, (void)out;
    return FAIL(E_FORMAT, "%s is no JSON, TOML or script, and the page reads no YAML; use build/trivium plan "
                "--from FILE", path);
}

/* Files are in memory, and the page shows none of a command that fails. */
FILE *replace_begin(const char *path) { return fopen(path, "w"); }
bool replace_end(const char *path, FILE *file, bool keep) {
    bool whole = fflush(file) == 0 && !ferror(file);
    (void)path, (void)keep;
    return fclose(file) == 0 && whole;
}
