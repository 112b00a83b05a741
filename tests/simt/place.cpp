/* Maps an address of code to "file:line", by the program's debug information and addr2line. This is slow (one process
 * per address), so only reports use it, once for each address. For inlined functions: the innermost place, and the
 * outermost, which is the kernel's. */
#include "tests/simt/state.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <string.h>
#include <unistd.h>

using namespace simt;

/* "/home/me/trivium/lib/ops/x.cu:41 (discriminator 3)" -> "lib/ops/x.cu:41", when this is the present directory */
static void shorten(char *place) {
    char here[TURN_BYTES];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (n > 0 && strncmp(place, here, n) == 0 && place[n] == '/')
        memmove(place, place + n + 1, strlen(place + n + 1) + 1);
    if (strncmp(place, "./", 2) == 0) memmove(place, place + 2, strlen(place + 2) + 1);
    place[strcspn(place, " \n")] = 0;
}

/* The innermost place comes first. @return the number of places */
static int read_places(const char *program, size_t offset, char innermost[TURN_BYTES], char outermost[TURN_BYTES]) {
    char command[TURN_BYTES * 2];
    snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%zx 2>/dev/null", program, offset);
    FILE *lines = popen(command, "r");
    int n = 0;
    if (!lines) return 0;
    while (fgets(outermost, TURN_BYTES, lines)) {
        shorten(outermost);
        if (n++ == 0) strcpy(innermost, outermost);
    }
    pclose(lines);
    return n;
}

/* The file that holds the code. For this program /proc/self/exe, because its first argument need not be a path. */
static void program_path(const Dl_info *info, char path[TURN_BYTES]) {
    static const char here = 0;
    Dl_info own;
    ssize_t n = -1;
    if (dladdr(&here, &own) && own.dli_fbase == info->dli_fbase) n = readlink("/proc/self/exe", path, TURN_BYTES - 1);
    if (n > 0) path[n] = 0;
    else snprintf(path, TURN_BYTES, "%s", info->dli_fname);
}

/* The address for addr2line: relative to the file, or absolute in a program that is not position-independent. */
static size_t address_in_file(const char *code, const Dl_info *info) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)info->dli_fbase;
    return header->e_type == ET_EXEC ? (size_t)code : (size_t)(code - (const char *)info->dli_fbase);
}

/* `code` is the address after a call, so one byte less lies in the call. */
static std::string look_up(const void *code) {
    char text[TURN_BYTES], program[TURN_BYTES], innermost[TURN_BYTES], outermost[TURN_BYTES];
    Dl_info info;
    int n = 0;
    if (code && dladdr(code, &info) && info.dli_fname) {
        program_path(&info, program);
        n = read_places(program, address_in_file((const char *)code, &info) - 1, innermost, outermost);
    }
    if (n == 0 || innermost[0] == '?') snprintf(text, sizeof text, "%p", code);
    else if (n == 1 || strcmp(innermost, outermost) == 0) return innermost;
    else snprintf(text, sizeof text, "%.240s, from %.240s", innermost, outermost);
    return text;
}

namespace simt {
const char *place_of(const void *code) {
    static std::map<const void *, std::string> places;
    auto found = places.find(code);
    if (found == places.end()) found = places.emplace(code, look_up(code)).first;
    return found->second.c_str();
}
}
