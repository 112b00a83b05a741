/* Reads what `trivium agent` gets from its command line, its environment and its standard input. */
#include "launch/host_request.h"

#include "launch/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char host_help[] =
    "trivium agent [--meet HOST:PORT] [--host NAME]\n"
    "\n"
    "Starts this host's ranks for a trivium launch --host ... --meet that runs elsewhere, and ends with them.\n"
    "\n"
    "  --meet HOST:PORT  where launch listens (default: TRIVIUM_MEET)\n"
    "  --host NAME       which of launch's hosts this is (default: TRIVIUM_HOST, SLURMD_NODENAME, or the host's name)\n"
    "\n"
    "The job's secret, 64 hexadecimal digits, is in TRIVIUM_SECRET or the first line of standard input.\n";

bool host_is_meant(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-n") == 0) return false;
    return argc == 0 || argv[0][0] == '-';
}

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void default_name(struct host_request *r) {
    const char *name = setting("TRIVIUM_HOST");
    if (!name) name = setting("SLURMD_NODENAME");
    if (name) snprintf(r->name, sizeof r->name, "%s", name);
    else if (gethostname(r->name, sizeof r->name - 1) != 0) strcpy(r->name, "?");
}

/* The secret is removed from the environment, so that ranks do not inherit it. */
static enum status read_secret(unsigned char *secret) {
    char line[256];
    const char *text = setting("TRIVIUM_SECRET");
    if (!text && !fgets(line, sizeof line, stdin))
        return FAIL(E_USAGE, "agent needs the job's secret, in TRIVIUM_SECRET or the first line of standard input");
    if (!text) {
        line[strcspn(line, "\r\n")] = 0;
        text = line;
    }
    TRY(host_secret_read(text, secret));
    unsetenv("TRIVIUM_SECRET");
    return OK;
}

enum status host_request_read(int argc, char **argv, struct host_request *r) {
    const char *meet = setting("TRIVIUM_MEET");
    default_name(r);
    for (int i = 0; i < argc; i += 2) {
        bool is_meet = strcmp(argv[i], "--meet") == 0;
        if (!is_meet && strcmp(argv[i], "--host") != 0)
            return FAIL(E_USAGE, "agent has no option %s; it takes --meet and --host", argv[i]);
        if (i + 1 >= argc) return FAIL(E_USAGE, "%s needs a value; see trivium agent --help", argv[i]);
        if (is_meet) meet = argv[i + 1];
        else snprintf(r->name, sizeof r->name, "%s", argv[i + 1]);
    }
    if (!meet) return FAIL(E_USAGE, "agent needs --meet HOST:PORT, where trivium launch listens, or TRIVIUM_MEET");
    TRY(host_address_read(meet, 1, &r->meet));
    return read_secret(r->secret);
}
