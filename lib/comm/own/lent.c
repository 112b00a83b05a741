#define _GNU_SOURCE /* process_vm_readv */
#include "lib/comm/own/lent.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

static const uint64_t sample = 0x6d656d6f72696573;

void own_lent_allow(struct own_line *mine) {
    prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0, 0, 0);        /* to its children, too; without Yama refused */
    mine->pid = (int)getpid();
    mine->sample = (uintptr_t)&sample;
}

bool own_lent_read(const struct own_line *of, void *to, uint64_t from, size_t n) {
    struct iovec here = {to, n}, there = {(void *)(uintptr_t)from, n};
    while (here.iov_len > 0) {
        ssize_t k = process_vm_readv(of->pid, &here, 1, &there, 1, 0);       /* at most 2 GiB at once */
        if (k <= 0) return false;
        here = (struct iovec){(char *)here.iov_base + k, here.iov_len - (size_t)k};
        there = (struct iovec){(char *)there.iov_base + k, there.iov_len - (size_t)k};
    }
    return true;
}

bool own_lent_try(const struct own_line *of) {
    uint64_t found = 0;
    return own_lent_read(of, &found, of->sample, sizeof found) && found == sample;
}
