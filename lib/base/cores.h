/* How many cores this process may use: fewer than the machine has, under taskset, a batch system, or in a container. */
#pragma once

enum { CORES_MASK_BYTES = 1024 };

/** The affinity mask: a bit for each core that this process may run on. Several processes' masks can be joined by "or".
 *  @return how many bits are set  @collective{none} */
int cores_mask(unsigned char mask[CORES_MASK_BYTES]);
int cores_count(const unsigned char mask[CORES_MASK_BYTES]);

/** The CPU time that the cgroup of this process, and those above it, may use, in cores: 1.5, for instance; INFINITY
 *  where nothing says so. Versions 1 and 2. @param root "", or a folder in place of / (tests)  @collective{none} */
double cores_quota(const char *root);

/** Both: cores of the mask, no more than the quota. @collective{none} */
double cores_allowed(void);
