/* Functions that the page's commands may call without a run or a job. Other missing functions (kernels, MPI, checkpoint
 * files) stay unresolved; a call of one traps. */
#include "lib/comm/membership/membership.h"
#include "lib/device/disk.h"

void disk_close(struct disk **disk) { (void)disk; }

/* The epoch of a process outside any job, as in comm.c. */
void comm_epoch_members(struct membership *now, struct membership *from) {
    *now = (struct membership){.n = 1, .from = -1};
    *from = (struct membership){.number = -1};
}
