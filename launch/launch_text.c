/* Passes on the text of mpirun and its ranks: standard output unchanged, standard error through the filter.
 *
 * Standard output has a pipe as well, because mpirun crashes when its reader leaves (`launch ... | head`), while launch
 * ends the job in order. A slow reader must not block launch, which has to handle signals. So launch writes only after
 * poll reports room; a pipe then takes at least 4096 bytes. */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_MS = 250 }; /* mpirun's messages have no pause of this length */

void launch_text_init(struct launch_text *text, struct launch_filter *filter, int out_fd, int err_fd) {
    *text = (struct launch_text){.filter = filter, .out_fd = out_fd, .err_fd = err_fd};
    fcntl(out_fd, F_SETFL, O_NONBLOCK);
    fcntl(err_fd, F_SETFL, O_NONBLOCK);
}

/* @return the number of bytes read, or 0. At the end of the text, close *fd */
static size_t take(int *fd, char *bytes, size_t room) {
    ssize_t n = read(*fd, bytes, room);
    if (n != 0) return n > 0 ? (size_t)n : 0;
    close(*fd);
    *fd = -1;
    return 0;
}

/* ---- standard output ---- */

static void read_out(struct launch_text *text) {
    text->out_at = 0;
    text->out_bytes = take(&text->out_fd, text->out, sizeof text->out);
}

static bool has_room(void) {
    struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
    return poll(&out, 1, 0) > 0;
}

/* After a failed write all further text is dropped, because the job still trains and its pipe must not fill up. */
static void write_out(struct launch_text *text) {
    ssize_t n = text->lost ? (ssize_t)text->out_bytes : write(STDOUT_FILENO, text->out + text->out_at, text->out_bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n < 0) text->lost = errno;
    text->out_at += n < 0 ? 0 : (size_t)n;
    text->out_bytes -= n < 0 ? text->out_bytes : (size_t)n;
}

/* A rank's output comes before the line of standard error that it writes next, unless the reader of output waits. */
static void pass_out(struct launch_text *text) {
    do {
        if (text->out_bytes == 0) read_out(text);
        if (text->out_bytes == 0) break;
        if (has_room()) write_out(text);
    } while (text->out_bytes == 0);
}

/* ---- standard error ---- */

static void show(const struct launch_text *text, const char *line) {
    if (text->lost == EPIPE) return; /* the reader's leaving causes these errors */
    for (size_t left = strlen(line); left > 0;) {
        ssize_t n = write(STDERR_FILENO, line, left);
        if (n < 0 && errno != EINTR) return; /* standard error is closed */
        if (n < 0) continue;
        line += n;
        left -= (size_t)n;
    }
}

static void end_line(struct launch_text *text) {
    text->line[text->line_bytes] = 0;
    enum launch_verdict verdict = launch_filter_line(text->filter, text->line);
    if (verdict == LINE_PASS_HELD) show(text, text->filter->held);
    if (verdict == LINE_PASS || verdict == LINE_PASS_HELD) show(text, text->line);
    text->line_bytes = 0;
}

/* A carriage return ends a line as well, so that progress that rewrites its line is shown at once. */
static void read_err(struct launch_text *text) {
    char bytes[4096];
    size_t n = take(&text->err_fd, bytes, sizeof bytes);
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == 0) continue; /* NUL would hide the rest of its line */
        text->line[text->line_bytes++] = bytes[i];
        if (bytes[i] == '\n' || bytes[i] == '\r' || text->line_bytes == sizeof text->line - 1) end_line(text);
    }
}

/* ---- both ---- */

bool launch_text_turn(struct launch_text *text) {
    bool full = text->out_bytes > 0; /* -1 below: poll ignores a negative descriptor */
    struct pollfd wanted[4] = {{launch_signal_fd(), POLLIN, 0}, {text->err_fd, POLLIN, 0},
                               {full ? -1 : text->out_fd, POLLIN, 0}, {full ? STDOUT_FILENO : -1, POLLOUT, 0}};
    if (poll(wanted, 4, IDLE_MS) == 0) show(text, launch_filter_end(text->filter));
    if (wanted[2].revents || wanted[3].revents) pass_out(text);
    if (wanted[1].revents) read_err(text);
    return full || wanted[1].revents || wanted[2].revents;
}

bool launch_text_is_open(const struct launch_text *text) {
    return text->out_fd >= 0 || text->err_fd >= 0 || text->out_bytes > 0;
}

void launch_text_finish(struct launch_text *text) {
    if (text->line_bytes > 0) end_line(text);
    show(text, launch_filter_end(text->filter));
    if (text->err_fd >= 0) close(text->err_fd);
    if (text->out_fd >= 0) close(text->out_fd);
}
