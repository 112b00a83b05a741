/* Stacks and the switch between them. See fiber.h.
 *
 * A switch is a function call that returns on another stack: the callee-saved registers of the platform's calling
 * convention are pushed, the stack pointer is exchanged, and the same registers are popped from the other stack. A new
 * stack is laid out as if its fiber had once been switched away from just before fiber_main. */
#include "fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace simt {

enum : size_t { MAX_FIBERS = 1024, STACK_BYTES = 65 * 4096, GUARD_BYTES = 4096, LINE = 64 };

static struct fiber fibers[MAX_FIBERS], *unused[MAX_FIBERS];
static size_t n_fibers, n_unused;
static char *stacks;                                        /* MAX_FIBERS of STACK_BYTES; pages appear when touched */

/* ---- the switch ---- */
#if defined __x86_64__
enum { SAVED_WORDS = 6, RETURN_WORD = 6, FRAME_WORDS = 8 };  /* rbp rbx r12-r15, the return address, one for
                                                              * alignment */
asm(R"(
    .text
    .globl simt_fiber_switch
    .type simt_fiber_switch, @function
simt_fiber_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size simt_fiber_switch, . - simt_fiber_switch
)");
#elif defined __aarch64__
enum { SAVED_WORDS = 20, RETURN_WORD = 11, FRAME_WORDS = 20 };   /* x19-x28, x29 (frame), x30 (return address),
                                                                  * d8-d15 */
asm(R"(
    .text
    .globl simt_fiber_switch
    .type simt_fiber_switch, %function
simt_fiber_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size simt_fiber_switch, . - simt_fiber_switch
)");
#else
#error "tests/simt supports x86-64 and aarch64; write the switch for this processor here"
#endif
extern "C" void simt_fiber_switch(void **save, void *load);

void fiber_switch(struct fiber *from, struct fiber *to) { simt_fiber_switch(&from->stack_pointer, to->stack_pointer); }

/* ---- stacks ---- */

/* Stacks lie whole pages apart, so their hot ends would share few sets of the cache. Each starts some lines lower than
 * the one before it. Without this a barrier costs 20 to 50 % more. */
static char *stack_top(size_t i) {
    return stacks + (i + 1) * STACK_BYTES - i % 61 * 3 * LINE;
}

static void fiber_start(struct fiber *f) {
    void **frame = (void **)stack_top((size_t)(f - fibers)) - FRAME_WORDS;
    for (int i = 0; i < FRAME_WORDS; i++) frame[i] = NULL;
    frame[RETURN_WORD] = (void *)fiber_main;
    f->stack_pointer = frame;
}

static void map_stacks(void) {
    void *at = mmap(NULL, MAX_FIBERS * STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        perror("simt: no address space for the threads' stacks");
        abort();
    }
    stacks = (char *)at;
}

/* The lowest page of a stack is inaccessible, so a kernel with locals of more than 250 KiB crashes there. */
static struct fiber *fiber_new(void) {
    if (!stacks) map_stacks();
    struct fiber *f = &fibers[n_fibers];
    f->stack = stacks + n_fibers++ * STACK_BYTES;
    mprotect(f->stack, GUARD_BYTES, PROT_NONE);
    fiber_start(f);
    return f;
}

struct fiber *fiber_take(void) { return n_unused > 0 ? unused[--n_unused] : fiber_new(); }
void fiber_give_back(struct fiber *f) { unused[n_unused++] = f; }

void fiber_reset_all(void) {
    n_unused = 0;
    for (size_t i = n_fibers; i-- > 0;) {
        fiber_start(&fibers[i]);
        fiber_give_back(&fibers[i]);
    }
}

bool fiber_owns(const void *address) { return (size_t)((const char *)address - stacks) < MAX_FIBERS * STACK_BYTES; }

}
