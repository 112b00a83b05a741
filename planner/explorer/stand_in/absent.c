/* What commands of the page may call although no run is opened and no job is there. All else that the page has not
 * (kernels, MPI, files of checkpoints) is left unresolved, and would trap if it were called. */
#include "lib/comm/membership/comm_membership.h"
#include "lib/comm/membership/membership.h"
#include "lib/device/disk.h"

void disk_close(struct disk **disk) { (void)disk; }

/* The epoch of a process outside any job, as in comm.c. */
void comm_epoch_members(struct epoch *now, struct epoch *from) {
    *now = (struct epoch){.n = 1, .from = -1};
    *from = (struct epoch){.number = -1};
}
