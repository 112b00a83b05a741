/* Where bytes are kept: the device's memory, the host's, or a file on a disk. */
#pragma once

/* From near to far. On a CPU the first two are both the host's memory, in arenas of their own. */
enum tier { TIER_DEVICE, TIER_HOST, TIER_DISK, N_TIERS };
