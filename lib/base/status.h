/* Status codes and the one-line error.
 *
 * Every function that can fail returns `enum status`. The function that finds the error records it once, with FAIL:
 * value, limit, remedy. Callers return it with TRY. status_report prints it: the driver calls it, or fail_agree in
 * lib/comm after the ranks agree on the first rank that failed. So one failure is one line:
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
    E_CONFIG,   /* values that are each legal but contradict each other: a layout, a model, a batch */
    E_DATA,     /* a data file that is missing, unreadable, truncated or too short */
    E_FORMAT,   /* a file whose content breaks its format */
    E_IO,       /* the system refused to read or write */
    E_MEMORY,   /* an allocation failed or would exceed a limit */
    E_DEVICE,   /* the accelerator or its libraries reported a failure */
    E_COMM,     /* the communication library reported a failure, or ranks disagree about a collective */
    E_TIMEOUT,  /* a peer missed the deadline */
    E_EPOCH,    /* no failure: the job's ranks have changed; drop the work in flight and continue with the new ranks */
    E_NUMERIC,  /* NaN or infinity in a number that training needs */
    E_INTERNAL, /* an invariant of Trivium does not hold: a bug */
    E_TODO,     /* a function of an exercise that the learner has not written yet */
    N_STATUS
};

/** "E_CONFIG" and so on; "OK" for OK. @collective{none} */
const char *status_name(enum status);

/** Exit code of a process that ends with this status: 0 for OK; 2 for E_USAGE, E_CONFIG, E_DATA, E_FORMAT; else 1. */
int status_exit_code(enum status);

/** Set this process's name for the bracket before every error line: "rank 5/8 pp0 dp1 tp1 @node03". Copies at most
 *  127 bytes. Before this call, lines have no bracket. */
void status_identity(const char *text);
/** The name that status_identity copied; "" before that call. */
const char *status_identity_text(void);

/** Record a failure. Use the FAIL macro. The thread keeps its newest message until status_report or status_clear.
 *  @return code, so that `return FAIL(...)` works  @errors code */
enum status status_fail(enum status code, const char *file, int line, const char *function, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/** Add a frame to the recorded failure (shown with TRIVIUM_FRAMES=1) and pass the code on. Use the TRY macro.
 *  @errors code */
enum status status_frame(enum status code, const char *file, int line, const char *function);

/** The recorded line, without a newline; "" if there is none. Borrowed until the next FAIL of this thread. */
const char *status_text(void);

/** The recorded message without rank, code and place, to include it in another one: FAIL(code, "strategy 2: %s",
 *  status_message()). Borrowed until the next FAIL of this thread. */
const char *status_message(void);

/** Write the recorded line, if any, to standard error in a single write, and clear it. */
void status_report(void);
void status_clear(void);

#define FAIL(code, ...) status_fail((code), __FILE__, __LINE__, __func__, __VA_ARGS__)
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        enum status try_status_ = (expression);                                                                        \
        if (try_status_ != OK) return status_frame(try_status_, __FILE__, __LINE__, __func__);                         \
    } while (0)
/* For functions that release resources at a label `done`: sets the local `status`, and on an error jumps to `done`. */
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
