/* What commands of the page may call although no run is opened and no job is there. All else that the page has not
 * (kernels, MPI, files of checkpoints) is left unresolved, and would trap if it were called. */
#include "lib/comm/membership/comm_membership.h"
#include "lib/comm/membership/membership.h"
#include "lib/device/disk.h"

void disk_close(struct disk **disk) { (void)disk; }

/* Of a process that is no job's, as comm.c says it. */
void comm_epoch_members(struct epoch *now, struct epoch *from) {
    *now = (struct epoch){.n = 1, .from = -1};
    *from = (struct epoch){.number = -1};
}
