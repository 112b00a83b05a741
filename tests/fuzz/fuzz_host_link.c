/* parses: lib/base launch/host_link.c launch/host_job.c lib/comm/direct/sealed.c */
/* The bytes on the connection of an agent (first byte even) or of the lighthouse (odd), in pieces of the second byte's
 * size. */
#include "launch/host_job.h"
#include "launch/host_link.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void is_job(const struct host_message *m) {
    struct host_texts t;
    if (host_job_read(m, &t) != OK) {
        MUST(!t.text && !t.texts);
        status_clear();
        return;
    }
    size_t bytes = 0;
    for (int i = 0; i < t.job.n_texts; i++) bytes += strlen(t.texts[i]) + 1;
    MUST(bytes == m->bytes - sizeof t.job && t.job.n_slots <= OWN_MOST_RANKS && t.words[0] && !t.texts[t.job.n_texts]);
    host_texts_free(&t);
}

static void hear(struct host_link *l) {
    struct host_message m;
    while (host_link_next(l, &m)) {
        const struct host_row *row = &host_rows[m.kind];
        MUST((l->at_lighthouse ? row->up : row->down) && m.bytes >= row->least && m.bytes <= row->most);
        MUST(m.body >= l->in && m.body + m.bytes <= l->in + l->in_bytes);
        if (m.kind == HOST_JOB) is_job(&m);
    }
    MUST(l->in_at <= l->in_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct greeting_keys keys = {"an agent's", "the lighthouse's"};
    struct sealed near, far;
    struct host_link l;
    int fd[2];
    if (size < 2 || size > 30000) return 0;     /* a socket has room for all of it */
    size_t piece = 1 + data[1];
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
    MUST(sealed_open(&near, fd[0], &keys, true, true) == OK && sealed_open(&far, fd[1], &keys, false, true) == OK);
    MUST(host_link_open(&l, &near, data[0] % 2 == 0) == OK);
    for (size_t at = 2; at < size && !l.broken; at += piece) {
        size_t n = at + piece < size ? piece : size - at;
        MUST(sealed_put(&far, data + at, n) == (int64_t)n);
        host_link_step(&l, l.said_s);
        hear(&l);
    }
    sealed_close(&far);
    host_link_step(&l, l.said_s);
    hear(&l);
    MUST(l.broken);
    host_link_close(&l);
    return 0;
}
