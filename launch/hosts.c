#include "launch/hosts.h"

#include "lib/base/input.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- names ---- */
/* The name becomes a word of a start command. So it must not be an option or hold a shell's special characters. */
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

static enum status read_ranks(const char *text, int *out) {
    char *end;
    long n = strtol(text, &end, 10);
    *out = (int)n;
    if (strspn(text, "0123456789") == strlen(text) && *text && n >= 1 && n <= OWN_MOST_RANKS) return OK;
    return FAIL(E_USAGE, "\"%.16s\" is no number of ranks; use 1 to %d", text, OWN_MOST_RANKS);
}

/* login: host or user@host; its text is changed. */
static enum status add(struct host_list *list, char *login, int n) {
    char *at = strchr(login, '@'), *name = at ? at + 1 : login;
    if (at) *at = 0;
    if (!is_name(name) || (at && !is_name(login)))
        return FAIL(E_USAGE, "\"%.64s%s%.64s\" is no name of a host; use n01 or me@n01", login, at ? "@" : "",
                    at ? name : "");
    if (host_list_find(list, name) >= 0) return FAIL(E_USAGE, "%s twice; give it all its ranks at once", name);
    if (list->n == MOST_HOSTS) return FAIL(E_USAGE, "more than %d hosts; use fewer", MOST_HOSTS);
    struct host_name *h = &list->of[list->n++];
    snprintf(h->name, sizeof h->name, "%s", name);
    snprintf(h->user, sizeof h->user, "%s", at ? login : "");
    h->n = n;
    return OK;
}

/* word: host or host:ranks; its text is cut at the colon. */
static enum status take_colon(char *word, int *n) {
    char *colon = strchr(word, ':');
    *n = 1;
    if (!colon) return OK;
    *colon++ = 0;
    return read_ranks(colon, n);
}

enum status host_list_read(const char *text, struct host_list *out) {
    char *copy = strdup(text), *at = copy;
    enum status status = copy ? OK : FAIL(E_MEMORY, "no memory for --host");
    *out = (struct host_list){0};
    for (char *word; status == OK && (word = strsep(&at, ",")) != NULL;) {
        int n;
        status = take_colon(word, &n);
        if (status != OK) status = FAIL(status, "--host %.64s: %s", word, status_message());
        else if ((status = add(out, word, n)) != OK) status = FAIL(status, "--host: %s", status_message());
    }
    free(copy);
    return status;
}

void host_login(const struct host_name *h, char text[HOST_LOGIN]) {
    snprintf(text, HOST_LOGIN, "%s%s%s", h->user, h->user[0] ? "@" : "", h->name);
}

void host_list_remove(struct host_list *list, int h, char text[HOST_LIST_TEXT]) {
    char login[HOST_LOGIN];
    size_t used = 0;
    memmove(&list->of[h], &list->of[h + 1], (size_t)(--list->n - h) * sizeof list->of[h]);
    for (int i = 0; i < list->n; i++) {
        host_login(&list->of[i], login);
        used += (size_t)snprintf(text + used, HOST_LIST_TEXT - used, "%s%s:%d", i ? "," : "", login, list->of[i].n);
    }
}

/* ---- a file: Open MPI's grammar ---- */
static bool is_one_of(const char *word, size_t n, const char *words) {
    for (size_t length; *words; words += length + (words[length] != 0)) {
        length = strcspn(words, " ");
        if (length == n && strncmp(word, words, n) == 0) return true;
    }
    return false;
}

/* Read one `key = value`, and move *at to its end. */
static enum status read_key(char **at, int *slots, int *most) {
    char *key = *at, *value;
    size_t n = strcspn(key, " \t=");
    bool is_slots = is_one_of(key, n, "slots slot cpu cpus count");
    bool is_most = is_one_of(key, n, "max_slots max-slots slots_max slots-max max_cpu max-cpu max_count max-count");
    value = key + n + strspn(key + n, " \t");
    if (*value != '=' || !(is_slots || is_most))
        return FAIL(E_USAGE, "\"%.*s\" is not understood; use `host slots=8`, or `host slots=8 max_slots=8`", (int)n,
                    key);
    value += 1 + strspn(value + 1, " \t");
    *at = value + strcspn(value, " \t");
    if (**at) *(*at)++ = 0;
    int *to = is_slots ? slots : most;
    if (*to) return FAIL(E_USAGE, "%.*s is there twice; leave one out", (int)n, key);
    return read_ranks(value, to);
}

static enum status read_line(struct host_list *list, char *line) {
    int slots = 0, most = 0, n;
    char *login = line + strspn(line, " \t"), *at = login + strcspn(login, " \t");
    if (!*login) return OK;
    if (*at) *at++ = 0;
    bool colon = strchr(login, ':') != NULL;
    TRY(take_colon(login, &n));
    if (colon) slots = n;
    while (*(at += strspn(at, " \t"))) TRY(read_key(&at, &slots, &most));
    if (most && (!slots || most < slots))
        return FAIL(E_USAGE, "max_slots=%d, and slots %s; use slots=%d", most, slots ? "are more" : "are not said",
                    most);
    return add(list, login, slots ? slots : 1);
}

enum status host_list_read_file(const char *path, struct host_list *out) {
    enum { MOST_LINE = 4096 };
    struct input in;
    *out = (struct host_list){0};
    enum status status = input_open(&in, "--hostfile ", path, INPUT_STREAM, MOST_LINE);
    while (status == OK && (status = input_line(&in)) == OK && in.n > 0) {
        in.text[strcspn(in.text, "#\r\n")] = 0;
        status = read_line(out, in.text);
        if (status != OK)
            status = FAIL(status, "--hostfile %s, line %" PRId64 ": %s", path, in.number, status_message());
    }
    input_close(&in);
    if (status == OK && out->n == 0) return FAIL(E_USAGE, "--hostfile %s names no host; use `host slots=8`", path);
    return status;
}

/* ---- ranks on hosts ---- */
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

/* Read the local address of a connected datagram socket. Connecting it sends no packet. */
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
