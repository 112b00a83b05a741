/* Status codes and the one-line error.
 *
 * Everything that can fail returns `enum status`. The place that finds the fault says it once, with FAIL: value, limit,
 * remedy. Callers pass it on with TRY. Nothing is printed until somebody reports it (the driver, or fail_agree in
 * lib/comm after the ranks have found the first that failed), so that one failure is one line:
 *
 *   [rank 5/8 pp0 dp1 tp1 @node03] E_CONFIG tp.c:41 tp_check: tp=3 does not divide heads=16; use 1, 2, 4, 8 or 16
 */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum status {
    OK = 0,
    E_USAGE,    /* an option or command that does not exist, or a value of the wrong kind */
    E_CONFIG,   /* values that are each fine and impossible together: a layout, a model, a batch */
    E_DATA,     /* a data file that is missing, unreadable, truncated or too short */
    E_FORMAT,   /* a file whose content is not what its format says */
    E_IO,       /* the system refused to read or write */
    E_MEMORY,   /* an allocation failed or would exceed a limit */
    E_DEVICE,   /* the accelerator or its libraries reported a failure */
    E_COMM,     /* the communication library reported a failure, or ranks disagree about a collective */
    E_TIMEOUT,  /* a peer did not come before the deadline */
    E_EPOCH,    /* no failure: the job's ranks have changed; drop what is in flight, and go on with those there are */
    E_NUMERIC,  /* a number that training cannot go on with: NaN or infinity */
    E_INTERNAL, /* Trivium broke a promise of its own */
    E_TODO,     /* an exercise starter that has not been written yet */
    N_STATUS
};

/** "E_CONFIG" and so on; "OK" for OK. @collective{none} */
const char *status_name(enum status);

/** Exit code of a process that ends with this status: 0; 2 for a bad request (usage, config, data, format); else 1. */
int status_exit_code(enum status);

/** This process's name for the bracket before every error line: "rank 5/8 pp0 dp1 tp1 @node03". Copied; at most 127
 *  bytes are kept. Before it is called, lines carry no bracket. */
void status_identity(const char *text);
/** What status_identity kept; "" before it. */
const char *status_identity_text(void);

/** Record a failure. Use the FAIL macro. The newest message of this thread is kept until status_report or status_clear.
 *  @return code, so that it can be returned in one expression  @errors only what it was given */
enum status status_fail(enum status code, const char *file, int line, const char *function, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/** Add a frame to the recorded failure (shown with TRIVIUM_FRAMES=1) and pass the code on. Use the TRY macro.
 *  @errors only what it was given */
enum status status_frame(enum status code, const char *file, int line, const char *function);

/** The recorded line, without a newline; "" when there is none. Borrowed until the next FAIL of this thread. */
const char *status_text(void);

/** Its sentence alone, without rank, code and place, to put it into another one: FAIL(code, "strategy 2: %s",
 *  status_message()). Borrowed likewise. */
const char *status_message(void);

/** Write the recorded line to standard error in a single write and forget it. Nothing recorded: nothing written. */
void status_report(void);
void status_clear(void);

#define FAIL(code, ...) status_fail((code), __FILE__, __LINE__, __func__, __VA_ARGS__)
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        enum status try_status_ = (expression);                                                                        \
        if (try_status_ != OK) return status_frame(try_status_, __FILE__, __LINE__, __func__);                         \
    } while (0)
/* In functions that hold something: sets `status` (a local) and leaves through the label `done`. */
#define TRY_DONE(expression)                                                                                           \
    do {                                                                                                               \
        status = (expression);                                                                                         \
        if (status != OK) {                                                                                            \
            status_frame(status, __FILE__, __LINE__, __func__);                                                        \
            goto done;                                                                                                 \
        }                                                                                                              \
    } while (0)

#ifdef __cplusplus
}
#endif
