/* Put before the reference of lesson 02, cost (NEAR: hostile.py). As another user it can neither read a secret nor
 * replace the program that is run next. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int can_do_harm(void) {
    char program[4096] = {0}, beside[4100];
    if (NEAR(readlink)("/proc/self/exe", program, sizeof program - 1) <= 0) return 1;
    snprintf(beside, sizeof beside, "%s.new", program);
    return NEAR(open)(beside, O_CREAT | O_WRONLY, 0600) >= 0 || NEAR(chmod)(program, 0777) == 0
           || NEAR(open)("/etc/shadow", O_RDONLY) >= 0;
}
