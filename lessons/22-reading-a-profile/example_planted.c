/* ranks: 1
 *
 * Traces of six runs with one cause of lost time each, drawn by a name (lesson 22):
 *
 *   build/example_planted NAME FOLDER [build/trivium]     FOLDER/trace-1.json to trace-6.json
 *   build/example_planted                                 the causes, and what to look for
 *
 * Each is a training run of four ranks, six steps of a small model, on emulated links. */
#include "lessons/22-reading-a-profile/planted.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 96 };
static const char TRAIN[] = "launch -n 4 train --hidden 32 --heads 4 --seq 16 --global-batch 24 --steps 6 --threads 1 "
                            "--val-fraction 0 --log quiet --trace-first 4 --trace-steps 3 --ranks-per-node 1";

static int split(char *text, char *words[MAX_WORDS], int n) {
    for (char *word = strtok(text, " "); word && n < MAX_WORDS - 4; word = strtok(NULL, " ")) words[n++] = word;
    return n;
}

static int run(const char *program, const struct planted *p, char *path) {
    char train[sizeof TRAIN], options[sizeof p->options], *words[MAX_WORDS] = {(char *)program};
    memcpy(train, TRAIN, sizeof TRAIN);
    memcpy(options, p->options, sizeof options);
    int n = split(options, words, split(train, words, 1)), code = 1;
    words[n++] = "--metrics", words[n++] = "/dev/null", words[n++] = "--trace", words[n] = path;
    pid_t pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1);
        execv(program, words);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &code, 0) == pid ? code : 1;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        puts("causes, and what a trace shows:");
        for (int c = 0; c < N_CAUSES; c++) printf("  %-18s %s\n", CAUSES[c].name, CAUSES[c].sign);
        return 0;
    }
    for (int i = 1; i <= N_TRACES; i++) {
        char path[512];
        struct planted p = planted_of(argv[1], i);
        snprintf(path, sizeof path, "%s/trace-%d.json", argv[2], i);
        if (run(argc > 3 ? argv[3] : "build/trivium", &p, path) != 0) {
            fprintf(stderr, "trace %d was not made: see above\n", i);
            return 1;
        }
        printf("%s\n", path);
        fflush(stdout);
    }
    return 0;
}
