/* parses: lib/base lib/comm/direct/messages.c */
/* The bytes from a peer of the direct transport that has been let in: headers and bodies. The input begins with the
 * waiting receives, their order, and the pieces of the stream. The rest is the stream itself, or the fields of frames
 * (so that a mutation gets past a header). What must hold: a finished receive has the body of the next message of its
 * lane, as a reader from the stream's beginning finds it; no other memory is written to; and when the stream has ended,
 * all receives have ended. */
#include "lib/comm/direct/messages.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, MOST_RECEIVES = 12, MAGIC = 0x7472766d };
struct header { uint64_t context; int64_t bytes; uint64_t at; int32_t tag; uint32_t magic; };
struct wanted { struct own_message *message; uint64_t context; int tag, bytes; uint8_t *at; bool open; };

/* ---- the stream ---- */
static uint8_t stream[MOST];
static size_t n_stream, served, pieces, n_calls;

static int64_t put(void *out, const void *from, size_t n) { return (void)out, (void)from, (int64_t)n; }
static int64_t take(void *in, void *to, size_t n) {
    size_t left = n_stream - served, piece = pieces ? 1 + (n_calls++ * 7 + pieces) % (8 * pieces) : n;
    (void)in;
    if (left == 0) return -1;
    if (n > left) n = left;
    if (n > piece) n = piece;
    memcpy(to, stream + served, n);
    served += n;
    return (int64_t)n;
}

static void append(const void *bytes, size_t n) {
    if (n > MOST - n_stream) n = MOST - n_stream;
    memcpy(stream + n_stream, bytes, n);
    n_stream += n;
}

/* A byte of lane and kind, and a length; then that many bytes of the input. */
static void make_frames(struct fuzz_bytes *b) {
    static const int64_t lengths[] = {-1, INT64_MAX, INT64_MIN, 1ll << 40, (1ll << 40) + 1, 1 << 20, 65, 64};
    n_stream = 0;
    while (b->left > 1) {
        uint8_t kind = (uint8_t)fuzz_number(b, 1), n = (uint8_t)fuzz_number(b, 1);
        struct header h = {kind % 3, n, 0, kind / 4 % 2, MAGIC};
        if (kind / 8 % 8 == 7) h.context = UINT64_MAX;                           /* mail */
        if (kind / 64 == 3) h.bytes = lengths[n % 8];
        if (kind / 64 == 2) h.at = (uintptr_t)stream, h.magic = n % 2 ? 0x7472766c : 0x74727672;     /* lent; read */
        append(&h, sizeof h);
        size_t body = n < b->left ? n : b->left;
        append(b->at, body);
        b->at += body, b->left -= body;
    }
}

/* ---- a reader's answer: the body of message `turn` of a lane, if all of the body has been served ---- */
static const uint8_t *body_of(uint64_t context, int tag, int turn, int64_t *bytes) {
    struct header h;
    for (size_t at = 0; at + sizeof h <= served; at += sizeof h + (size_t)h.bytes) {
        memcpy(&h, stream + at, sizeof h);
        if (h.magic != MAGIC || h.bytes < 0 || (uint64_t)h.bytes > served - at - sizeof h) return NULL;
        if (h.context != context || h.tag != tag || turn-- > 0) continue;
        *bytes = h.bytes;
        return stream + at + sizeof h;
    }
    return NULL;
}

static void must_be_right(const struct wanted *all, int i) {
    const struct wanted *w = &all[i];
    int turn = 0;
    int64_t bytes;
    for (int j = 0; j < i; j++) turn += all[j].context == w->context && all[j].tag == w->tag;
    const uint8_t *body = body_of(w->context, w->tag, turn, &bytes);
    MUST(body && bytes == w->bytes && (bytes == 0 || memcmp(body, w->at, (size_t)bytes) == 0));
}

/* ---- a process that receives ---- */
static void look(struct own_messages *o, struct wanted *all, int i) {
    bool done = false;
    if (!all[i].open) return;
    int code = own_test(o, &all[i].message, &done);
    MUST(code >= OWN_OK && code <= OWN_OTHER_LENGTH && (!done || code == OWN_OK));
    MUST((all[i].message == NULL) == (done || code != OWN_OK));
    all[i].open = all[i].message;
    if (done) must_be_right(all, i);
}

static void receive(struct own_messages *o, struct wanted *w, struct fuzz_bytes *b) {
    uint8_t kind = (uint8_t)fuzz_number(b, 1);
    *w = (struct wanted){.context = kind % 3, .tag = kind / 4 % 2, .bytes = (int)fuzz_number(b, 1), .open = true};
    w->at = malloc((size_t)w->bytes);                                /* of its size: a write beyond it is noticed */
    MUST(own_receive(o, w->context, 1, w->tag, w->at, w->bytes, &w->message) == OWN_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes b = {data, size};
    struct wanted all[MOST_RECEIVES];
    struct own_wire wire[2] = {{NULL, NULL, put, take, NULL, NULL}, {NULL, NULL, put, take, NULL, NULL}};
    struct own_messages *o = own_messages_open(2, 0, wire);
    uint8_t how = (uint8_t)fuzz_number(&b, 1), text[OWN_MAIL_BYTES];
    int n = (int)fuzz_number(&b, 1) % MOST_RECEIVES, from;
    MUST(o);
    served = n_calls = n_stream = 0;
    pieces = how / 4;
    struct fuzz_bytes receives = b;                                  /* two bytes each */
    for (int i = 0; i < 2 * n; i++) fuzz_number(&b, 1);
    if (how & 1) make_frames(&b);
    else append(b.at, b.left);
    for (int i = 0; i < n; i++) {
        receive(o, &all[i], &receives);
        if (how & 2) look(o, all, i / 2);
        if (how & 2) own_mail_receive(o, &from, text, sizeof text);
    }
    for (size_t before = MOST + 1; served != before;) {              /* until nothing more is taken */
        before = served;
        own_push(o);
        for (int i = 0; i < n; i++) look(o, all, i);
    }
    for (int i = 0; i < n; i++) look(o, all, i);
    for (int k = 0; k < 3; k++) own_push(o);
    for (int i = 0; i < n; i++) {                                    /* the stream has ended, so all have */
        look(o, all, i);
        MUST(!all[i].open);
    }
    while (own_mail_receive(o, &from, text, sizeof text)) MUST(from == 1);
    MUST(own_unreceived(o) >= 0);
    own_messages_close(&o);
    for (int i = 0; i < n; i++) free(all[i].at);
    return 0;
}
