/* Options of AddressSanitizer in the test runner (make SAN=1); nothing in other builds. */
#include "tests/sanitizer.h"

#ifdef __SANITIZE_ADDRESS__
#include "lib/comm/comm.h"

#include <sanitizer/lsan_interface.h>

/* Names fixed by the sanitizer, which asks at start and at exit. */
const char *__asan_default_options(void);
int __lsan_is_turned_off(void);

/* An allocation that is too large must fail as it does without the sanitizer: tests look at the message. */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

/* Among several ranks MPI keeps what it allocates on the way; one rank never calls it once it has started. */
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
