/* The greeting of a connection over a network: two processes of one job prove to each other that they have its secret.
 * The secret itself is never sent, only codes made with it.
 *
 *   caller                                            called
 *   hello    from, to, epoch, a number  ---->
 *                                              <----  answer   another number, code("answer", hello, answer's number)
 *   proof    code("proof", hello, answer's number) -->
 *                                              <----  welcome  code("welcome", hello, answer's number)
 *
 * Both numbers are 32 random bytes, new each time. So a recorded conversation proves nothing later. Each code is of
 * another text, so that no code can be sent back as another one. All messages have fixed lengths.
 *
 * Later frames on the connection are authenticated with keys that both sides compute in the same way: code("mine", ...)
 * for the caller's frames, code("theirs", ...) for the other direction (sealed.h).
 *
 * The called process may close the connection before it has read the proof, so the caller counts as admitted only after
 * the welcome; if the connection ends earlier, it connects again. wire.h runs this handshake.
 *
 * The codes are HMAC-SHA-512-256 (libsodium, crypto_auth). Source: ISO/IEC 9798-4, three-pass mutual authentication. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GREETING_SECRET = 32, GREETING_NUMBER = 32, GREETING_CODE = 32, GREETING_KEY = 32 };

struct greeting_hello {
    uint32_t magic, version;
    int32_t from_slot, to_slot, epoch, reserved;
    unsigned char number[GREETING_NUMBER];
};
struct greeting_answer { unsigned char number[GREETING_NUMBER], code[GREETING_CODE]; };
struct greeting_proof { unsigned char code[GREETING_CODE]; };
struct greeting_welcome { unsigned char code[GREETING_CODE]; };
struct greeting_keys { unsigned char mine[GREETING_KEY], theirs[GREETING_KEY]; };     /* of the caller */

/** A new secret. @return false: the system has no random numbers  @collective{none} */
bool greeting_secret(unsigned char secret[GREETING_SECRET]);

/** The caller's first message. @collective{none} */
struct greeting_hello greeting_say_hello(int32_t from_slot, int32_t to_slot, int32_t epoch);
/** Is this a hello to this process in this epoch? Its sender is not proven yet. @collective{none} */
bool greeting_hears(const struct greeting_hello *, int32_t to_slot, int32_t epoch);
/** The answer of the called process, made with the secret. @collective{none} */
struct greeting_answer greeting_answer_it(const unsigned char *secret, const struct greeting_hello *);
/** Does the answer prove that its sender has the secret? If so, *out is the caller's proof. @collective{none} */
bool greeting_trusts(const unsigned char *secret, const struct greeting_hello *, const struct greeting_answer *,
                     struct greeting_proof *out);
/** Does the proof, which replies to the answer to this hello, prove that its sender has the secret?
 *  @collective{none} */
bool greeting_is_proven(const unsigned char *secret, const struct greeting_hello *, const struct greeting_answer *,
                        const struct greeting_proof *);
/** The last message, which admits the caller and is made with the secret. Pure. @collective{none} */
struct greeting_welcome greeting_welcome_it(const unsigned char *secret, const struct greeting_hello *,
                                            const struct greeting_answer *);
/** Is this a welcome of this conversation, made with this secret? @collective{none} */
bool greeting_is_welcome(const unsigned char *secret, const struct greeting_hello *, const struct greeting_answer *,
                         const struct greeting_welcome *);
/** The keys of this connection only, computed from the secret and both numbers. Pure. @collective{none} */
struct greeting_keys greeting_keys_of(const unsigned char *secret, const struct greeting_hello *,
                                      const struct greeting_answer *);
