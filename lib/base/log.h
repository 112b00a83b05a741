/* Progress lines for people, on standard error. Errors go through status.h. */
#pragma once

enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO, LOG_DEBUG };

/** Lines above this level are dropped. Default LOG_INFO. */
void log_set_level(enum log_level);
enum log_level log_get_level(void);

/** Write one line to standard error in a single write. Warnings begin with "[identity] warning: " and debug lines with
 *  "[identity] debug: " (no bracket before status_identity). The format has no trailing newline. */
void log_line(enum log_level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
