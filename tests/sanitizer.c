/* Options of AddressSanitizer in the test runner (make SAN=1); nothing in other builds. */
#include "tests/sanitizer.h"

#ifdef __SANITIZE_ADDRESS__
#include "lib/comm/comm.h"

#include <sanitizer/lsan_interface.h>

/* The sanitizer fixes these names, and calls the functions at start and at exit. */
const char *__asan_default_options(void);
int __lsan_is_turned_off(void);

/* An allocation that is too large must fail as without the sanitizer, because tests check the message. */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

/* With several ranks MPI keeps allocations that it makes later; a single rank never calls MPI after the start. */
static bool several_ranks;
int __lsan_is_turned_off(void) {
    return several_ranks;
}

void sanitizer_ignore_leaks(void) {
    __lsan_disable();
}

void sanitizer_watch_leaks(void) {
    __lsan_enable();
    several_ranks = comm_world_size() > 1;
}
#else
void sanitizer_ignore_leaks(void) {}
void sanitizer_watch_leaks(void) {}
#endif
