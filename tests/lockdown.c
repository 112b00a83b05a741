/* Classic BPF over struct seccomp_data: the machine, the call's number, then half of an argument for some calls. */
#define _GNU_SOURCE /* SYS_*, MAP_* */
#include "tests/lockdown.h"

#if defined __linux__ && (defined __x86_64__ || defined __aarch64__)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define MACHINE AUDIT_ARCH_X86_64
#else
#define MACHINE AUDIT_ARCH_AARCH64
#endif

enum { OTHER_ABI = 1 << 30 };    /* x32's numbers begin here */

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define NUMBER offsetof(struct seccomp_data, nr)
#define LOWER(i) (offsetof(struct seccomp_data, args) + 8 * (i))     /* both machines are little-endian */
#define UPPER(i) (LOWER(i) + 4)
#define JUMP(how, value, yes, no) BPF_JUMP(BPF_JMP | (how) | BPF_K, value, yes, no)
#define HAS BPF_JSET /* any of these bits */
#define IS BPF_JEQ
#define ANSWER(verdict) BPF_STMT(BPF_RET | BPF_K, verdict)
#define REFUSE ANSWER(SECCOMP_RET_ERRNO | EPERM)
#define REFUSE_CALL(number) JUMP(IS, number, 0, 1), REFUSE
/* Later rules need the call's number again. */
#define REFUSE_IF(number, half, how, value)                                                                            \
    JUMP(IS, number, 0, 4), LOAD(half), JUMP(how, value, 0, 1), REFUSE, LOAD(NUMBER)

bool lockdown(void) {
    uint32_t here = (uint32_t)((uintptr_t)lockdown >> 32); /* the program lies in these 4 GiB, and the next */
    struct sock_filter rules[] = {
        LOAD(offsetof(struct seccomp_data, arch)), JUMP(IS, MACHINE, 1, 0), REFUSE,
        LOAD(NUMBER), JUMP(BPF_JGE, OTHER_ABI, 0, 1), REFUSE,
        REFUSE_IF(SYS_mmap, LOWER(2), HAS, PROT_EXEC),
        REFUSE_IF(SYS_mmap, LOWER(3), HAS, MAP_FIXED),
        REFUSE_IF(SYS_mprotect, LOWER(2), HAS, PROT_EXEC),
        REFUSE_IF(SYS_mprotect, UPPER(0), IS, here),
        REFUSE_IF(SYS_mprotect, UPPER(0), IS, here + 1),
        REFUSE_IF(SYS_munmap, UPPER(0), IS, here),
        REFUSE_IF(SYS_munmap, UPPER(0), IS, here + 1),
        REFUSE_IF(SYS_prctl, LOWER(0), IS, PR_SET_DUMPABLE),
        REFUSE_CALL(SYS_pkey_mprotect),
        REFUSE_CALL(SYS_mremap),                 /* realloc then copies */
        REFUSE_CALL(SYS_shmat),
        REFUSE_CALL(SYS_personality),            /* it can make all readable memory executable */
        REFUSE_CALL(SYS_ptrace),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0) return true;
    fprintf(stderr, "TEST_LOCKDOWN: no filter of system calls: %s\n", strerror(errno));
    return false;
}
#else
bool lockdown(void) { return true; }
#endif
