#define _GNU_SOURCE /* pipe2 */
#include "launch/hosts.h"

#include "lib/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- words ---- */
struct text { char *at, *end; };

/* Copy a word, with each %h replaced by `name`. @return the copy; NULL: no room */
static char *put_word(struct text *t, const char *word, size_t n, const char *name) {
    char *from = t->at;
    for (size_t i = 0; i < n; i++) {
        bool is_host = name && word[i] == '%' && i + 1 < n && word[i + 1] == 'h';
        const char *what = is_host ? name : &word[i];
        size_t bytes = is_host ? strlen(name) : 1;
        if (t->end - t->at <= (ptrdiff_t)bytes) return NULL;
        memcpy(t->at, what, bytes);
        t->at += bytes;
        i += is_host;
    }
    *t->at++ = 0;
    return from;
}

enum status start_words(const char *command, const char *self, const char *meet, const char *name, char text[4096],
                        char *words[START_MOST_WORDS]) {
    const char *host = strchr(name, '@') ? strchr(name, '@') + 1 : name;
    const char *const ours[] = {self, "agent", "--meet", meet, "--host", host};
    enum { N_OURS = sizeof ours / sizeof *ours };
    struct text t = {text, text + 4096};
    int n = 0;
    for (const char *at = command ? command : ""; *(at += strspn(at, " \t")); at += strcspn(at, " \t")) {
        if (n == START_MOST_WORDS - N_OURS - 1 || !(words[n++] = put_word(&t, at, strcspn(at, " \t"), name)))
            return FAIL(E_USAGE, "--agent-command has too many words; put them into a script");
    }
    for (int i = 0; i < N_OURS; i++)
        if (!(words[n++] = put_word(&t, ours[i], strlen(ours[i]), NULL)))
            return FAIL(E_USAGE, "--agent-command is too long; put it into a script");
    words[n] = NULL;
    return OK;
}

/* ---- the process ---- */
static void become(char *const *words, int in, const sigset_t *unblocked, pid_t lighthouse) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != lighthouse) _exit(1);
    dup2(in, STDIN_FILENO);
    sigprocmask(SIG_SETMASK, unblocked, NULL);
    program_run(words);
    fprintf(stderr, "trivium: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* The secret fits into a pipe's buffer. It is written before fork, so a reader that ends early raises no SIGPIPE. */
enum status start_agent(char *const *words, const unsigned char *secret, const sigset_t *unblocked, pid_t *out) {
    int in[2];
    char line[SECRET_TEXT + 1];
    pid_t self = getpid();
    if (pipe2(in, O_CLOEXEC) != 0) return FAIL(E_IO, "cannot make a pipe: %s", strerror(errno));
    host_secret_text(secret, line);
    line[SECRET_TEXT - 1] = '\n';
    line[SECRET_TEXT] = 0;
    bool written = write(in[1], line, SECRET_TEXT) == SECRET_TEXT;
    close(in[1]);
    *out = fork();
    if (*out == 0) become(words, in[0], unblocked, self);
    close(in[0]);
    if (*out < 0) return FAIL(E_IO, "cannot start a process: %s; raise `ulimit -u`", strerror(errno));
    return written ? OK : FAIL(E_IO, "cannot hand the secret to %s: %s", words[0], strerror(errno));
}
