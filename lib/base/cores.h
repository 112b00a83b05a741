/* The number of cores that this process may use. taskset, batch systems and containers grant fewer than all cores. */
#pragma once

enum { CORES_MASK_BYTES = 1024 };

/** The affinity mask: one bit for each core that this process may run on. A bitwise "or" joins processes' masks.
 *  @return how many bits are set  @collective{none} */
int cores_mask(unsigned char mask[CORES_MASK_BYTES]);
int cores_count(const unsigned char mask[CORES_MASK_BYTES]);

/** The CPU quota of this process's cgroup and its ancestors, in cores (1.5, for example); INFINITY if they set no
 *  quota. Reads cgroups of version 1 and 2. @param root "", or a folder in place of / (tests)  @collective{none} */
double cores_quota(const char *root);

/** The smaller of the mask's number of cores and the quota. @collective{none} */
double cores_allowed(void);
