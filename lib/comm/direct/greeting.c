#include "lib/comm/direct/greeting.h"

#include <sodium.h>
#include <string.h>

static const uint32_t MAGIC = 0x74727667, VERSION = 3;      /* "trvg" */

_Static_assert(GREETING_SECRET == crypto_auth_KEYBYTES && GREETING_CODE == crypto_auth_BYTES &&
               GREETING_KEY == GREETING_CODE, "sizes are libsodium's");

bool greeting_secret(unsigned char secret[GREETING_SECRET]) {
    if (sodium_init() < 0) return false;
    randombytes_buf(secret, GREETING_SECRET);
    return true;
}

static void code_of(const unsigned char *secret, const char *what, const struct greeting_hello *hello,
                    const unsigned char *number, unsigned char *out) {
    struct { char what[8]; struct greeting_hello hello; unsigned char number[GREETING_NUMBER]; } text;
    memset(&text, 0, sizeof text);
    text.hello = *hello;
    memcpy(text.what, what, strlen(what));       /* "answer", "proof" ... */
    memcpy(text.number, number, GREETING_NUMBER);
    crypto_auth(out, (const unsigned char *)&text, sizeof text, secret);
}

struct greeting_hello greeting_say_hello(int32_t from_slot, int32_t to_slot, int32_t epoch) {
    struct greeting_hello hello = {MAGIC, VERSION, from_slot, to_slot, epoch, 0, {0}};
    randombytes_buf(hello.number, sizeof hello.number);
    return hello;
}

bool greeting_hears(const struct greeting_hello *h, int32_t to_slot, int32_t epoch) {
    return h->magic == MAGIC && h->version == VERSION && h->to_slot == to_slot && h->epoch == epoch;
}

struct greeting_answer greeting_answer_it(const unsigned char *secret, const struct greeting_hello *hello) {
    struct greeting_answer answer;
    randombytes_buf(answer.number, sizeof answer.number);
    code_of(secret, "answer", hello, answer.number, answer.code);
    return answer;
}

static bool is_code(const unsigned char *secret, const char *what, const struct greeting_hello *hello,
                    const unsigned char *number, const unsigned char *code) {
    unsigned char right[GREETING_CODE];
    code_of(secret, what, hello, number, right);
    return sodium_memcmp(right, code, GREETING_CODE) == 0;
}

bool greeting_trusts(const unsigned char *secret, const struct greeting_hello *hello,
                     const struct greeting_answer *answer, struct greeting_proof *out) {
    if (!is_code(secret, "answer", hello, answer->number, answer->code)) return false;
    code_of(secret, "proof", hello, answer->number, out->code);
    return true;
}

bool greeting_is_proven(const unsigned char *secret, const struct greeting_hello *hello,
                        const struct greeting_answer *answer, const struct greeting_proof *proof) {
    return is_code(secret, "proof", hello, answer->number, proof->code);
}

struct greeting_welcome greeting_welcome_it(const unsigned char *secret, const struct greeting_hello *hello,
                                            const struct greeting_answer *answer) {
    struct greeting_welcome welcome;
    code_of(secret, "welcome", hello, answer->number, welcome.code);
    return welcome;
}

bool greeting_is_welcome(const unsigned char *secret, const struct greeting_hello *hello,
                         const struct greeting_answer *answer, const struct greeting_welcome *welcome) {
    return is_code(secret, "welcome", hello, answer->number, welcome->code);
}

struct greeting_keys greeting_keys_of(const unsigned char *secret, const struct greeting_hello *hello,
                                      const struct greeting_answer *answer) {
    struct greeting_keys keys;
    code_of(secret, "mine", hello, answer->number, keys.mine);
    code_of(secret, "theirs", hello, answer->number, keys.theirs);
    return keys;
}
