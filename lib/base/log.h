/* Progress for people, on standard error or standard output. Errors go through status.h. */
#pragma once

enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO, LOG_DEBUG };

/** Lines above this level are dropped. Default LOG_INFO. */
void log_set_level(enum log_level);
enum log_level log_get_level(void);

/** One line to standard error in a single write, prefixed "warning: " / "" / "debug: " and, when the process has an
 *  identity and speaks at LOG_WARN or LOG_DEBUG, with it in brackets. No trailing newline in format. */
void log_line(enum log_level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
