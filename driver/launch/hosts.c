#include "driver/launch/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- names ---- */
/* It becomes a word of a start command: no option, and nothing that a shell might read. */
static bool is_name(const char *name) {
    size_t n = strlen(name);
    return n > 0 && n <= HOST_MOST_NAME && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

int host_list_find(const struct host_list *list, const char *name) {
    for (int h = 0; h < list->n; h++)
        if (strcmp(list->of[h].name, name) == 0) return h;
    return -1;
}

static enum status add(struct host_list *list, const char *name, const char *count) {
    char *end = NULL;
    long n = count ? strtol(count, &end, 10) : 1;
    if (!is_name(name)) return FAIL(E_USAGE, "--host: \"%.64s\" is no name of a host; use n01:8,n02:8", name);
    if (n < 1 || n > OWN_MOST_RANKS || (end && (*end || end == count)))
        return FAIL(E_USAGE, "--host %s:%.16s is no number of ranks; use 1 to %d", name, count ? count : "",
                    OWN_MOST_RANKS);
    if (host_list_find(list, name) >= 0)
        return FAIL(E_USAGE, "--host names %s twice; give it all its ranks at once", name);
    if (list->n == MOST_HOSTS) return FAIL(E_USAGE, "--host names more than %d hosts; use fewer", MOST_HOSTS);
    struct host_name *h = &list->of[list->n++];
    snprintf(h->name, sizeof h->name, "%s", name);
    h->n = (int)n;
    return OK;
}

enum status host_list_read(const char *text, struct host_list *out) {
    char *copy = strdup(text), *at = copy;
    enum status status = copy ? OK : FAIL(E_MEMORY, "no memory for --host");
    *out = (struct host_list){0};
    for (char *name; status == OK && (name = strsep(&at, ",")) != NULL;) {
        char *colon = strchr(name, ':');
        if (colon) *colon++ = 0;
        status = add(out, name, colon);
    }
    free(copy);
    return status;
}

enum status host_list_read_file(const char *path, struct host_list *out) {
    char line[512], name[512], rest[512];
    FILE *f = fopen(path, "r");
    enum status status = f ? OK : FAIL(E_IO, "cannot read --hostfile %s: %s", path, strerror(errno));
    *out = (struct host_list){0};
    while (status == OK && fgets(line, sizeof line, f)) {
        line[strcspn(line, "#\r\n")] = 0;
        int n = sscanf(line, " %511s slots = %511s", name, rest);
        if (n >= 1) status = add(out, name, n == 2 ? rest : NULL);
    }
    if (f) fclose(f);
    if (status == OK && out->n == 0) return FAIL(E_USAGE, "--hostfile %s names no host; use `host slots=8`", path);
    return status;
}

/* ---- what lies where ---- */
int host_list_room(const struct host_list *list) {
    int room = 0;
    for (int h = 0; h < list->n; h++) room += list->of[h].n;
    return room;
}

enum status host_list_deal(struct host_list *list, int n_slots, int16_t *host) {
    int at = 0, used = 0;
    if (n_slots > host_list_room(list))
        return FAIL(E_USAGE, "%d ranks and spares have no room on hosts with %d; use --host with more, or fewer ranks",
                    n_slots, host_list_room(list));
    for (; used < list->n && at < n_slots; used++) {
        struct host_name *h = &list->of[used];
        if (h->n > n_slots - at) h->n = n_slots - at;
        for (int k = 0; k < h->n; k++) host[at++] = (int16_t)used;
    }
    list->n = used;
    return OK;
}

/* ---- addresses ---- */
bool host_is_here(uint32_t ip) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(ip)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool here = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0) close(fd);
    return here;
}

/* Of a datagram's socket that is connected, though nothing is ever sent. */
enum status host_seen_from(uint32_t other, uint32_t *own) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(other)}}, from = {0};
    socklen_t n = sizeof from;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
              getsockname(fd, (struct sockaddr *)&from, &n) == 0;
    int error = errno;
    if (fd >= 0) close(fd);
    *own = ntohl(from.sin_addr.s_addr);
    if (ok) return OK;
    return FAIL(E_COMM, "no way to the other hosts: %s; give this host's address on their network to --meet",
                strerror(error));
}

/* ---- the secret ---- */
enum status host_secret_read(const char *text, unsigned char secret[GREETING_SECRET]) {
    bool right = strlen(text) == SECRET_TEXT - 1 && strspn(text, "0123456789abcdefABCDEF") == SECRET_TEXT - 1;
    for (int i = 0; right && i < GREETING_SECRET; i++)
        secret[i] = (unsigned char)strtol((char[]){text[2 * i], text[2 * i + 1], 0}, NULL, 16);
    if (right) return OK;
    return FAIL(E_USAGE, "the job's secret is no %d hexadecimal digits; use TRIVIUM_SECRET=$(openssl rand -hex %d)",
                SECRET_TEXT - 1, GREETING_SECRET);
}

void host_secret_text(const unsigned char secret[GREETING_SECRET], char text[SECRET_TEXT]) {
    for (int i = 0; i < GREETING_SECRET; i++) snprintf(text + 2 * i, 3, "%02x", secret[i]);
}
