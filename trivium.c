/* trivium: the program. Subcommands only; each lives in driver/. */
#include "driver/calibrate/calibrate.h"
#include "driver/commands.h"
#include "driver/preflight.h"
#include "driver/recipe.h"
#include "launch/agent.h"
#include "launch/launch_restart.h"
#include "lib/base/configs.h"
#include "lib/base/program.h"
#include "lib/base/status.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The Makefile, CITATION.cff and the heading of CHANGELOG.md have the same number (tests/more/install.sh). */
static const char VERSION[] = "0.2.0";

/* A script of configs/, which runs this program; it takes two words at most, and refuses a third. */
static int demo_main(int argc, char **argv) {
    char script[PATH_MAX];
    const char *program, *word[3];
    for (int i = 0; i < 3; i++) word[i] = i < argc ? argv[i] : NULL;
    enum status status = program_path(&program);
    /* never the script of a stranger's folder: a relative path is one in the current folder */
    if (status == OK && (!configs_find("demo.sh", script, sizeof script) || *script != '/'))
        status = FAIL(E_IO, "there is no demo.sh with the program %s; build it in its project, or make install",
                      program);
    if (status == OK && setenv("TRIVIUM", program, 1) == 0) {
        execlp("bash", "bash", script, word[0], word[1], word[2], (char *)NULL);
        status = FAIL(E_IO, "cannot run bash: %s; install bash", strerror(errno));
    }
    status_report();
    return status_exit_code(status);
}

/* main: NULL if recipe_commands has the function. meaning: NULL if only other commands run the command. prints: the
 * command's result is its standard output, so that lost output is a failure. `train` prints a log only: a failure
 * because of a lost log would make a supervisor train again. */
struct command { const char *name; int (*main)(int argc, char **argv); bool prints; const char *meaning; };

static const struct command COMMANDS[] = {
    {"demo", demo_main, false, "8 ranks and one have the same losses: a minute or two, into ./trivium-demo"},
    {"train", train_main, false, "train a model; alone, or as one rank under launch, mpirun or srun"},
    {"compare", compare_main, true,
     "compare --strategies \"a | b | ...\": memory and speed of several strategies, side by side"},
    {"launch", launch_main, false, "launch -n N COMMAND ...: run a command on N ranks of this machine"},
    {"preflight", preflight_main, true,
     "under launch, before a long job: where ranks run, what differs, how fast network and disk are"},
    {"postmortem", postmortem_main, true,
     "postmortem [JOB|DIR]: which rank holds up a job that hangs, or held up a dead one; each rank's last steps"},
    {"watch", watch_main, true, "watch [JOB]: what each rank of a running job does, once a second"},
    {"show", show_main, true,
     "show program|types|memory|mesh|comm|options: what a run would do and need, without running it"},
    {"plan", plan_main, true,
     "plan --cluster NAME: what a step of a layout would take on a cluster you do not have"},
    {"calibrate", calibrate_main, true,
     "under launch: measure what cores of this machine do in a second, as a file for plan --cluster"},
    {"budget", budget_main, true,
     "budget --cluster NAME --gpus N: days, hours of GPUs, saves and failures of a training run"},
    {"oracle", oracle_main, true,
     "oracle record|check: the numbers of a run, and the first number that rounding cannot explain"},
    {"generate", NULL, true,
     "generate --checkpoint DIR --prompt TEXT: what a trained model would write next; alone or on tp ranks"},
    {"score", score_main, true,
     "score --checkpoint DIR --data FILE: what a trained model says of clicks; tables stay in the files"},
    {"checkpoint", checkpoint_main, true,
     "checkpoint inspect|export|import: what a checkpoint holds; to and from Hugging Face and llm.c"},
    {"data", data_main, true,
     "data tokenize TEXT... --to OUT.bin | synth-clicks | criteo | inspect FILE: files of tokens and clicks"},
    {"agent", agent_main, false, NULL},
    {"schedule", NULL, true,
     "schedule --schedule NAME --pp P --microbatches M: a pipeline schedule checked, timed and drawn"},
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

/* NULL if this program lacks the command's technique. */
static int (*main_of(const struct command *c))(int, char **) {
    if (c->main) return c->main;
    for (const struct recipe_command *r = recipe_commands; r->name; r++)
        if (!strcmp(r->name, c->name)) return r->main;
    return NULL;
}

static void print_help(FILE *f) {
    fprintf(f, "trivium: train GPT, Llama, Mixtral, BERT, T5 and DLRM with data, tensor, pipeline, context and expert "
               "parallelism\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (COMMANDS[i].meaning && main_of(&COMMANDS[i]))
            fprintf(f, "  trivium %-10s %s\n", COMMANDS[i].name, COMMANDS[i].meaning);
    fprintf(f, "\n  trivium launch -n 8 train --dp 2 --tp 2 --pp 2     the three dimensions on one machine\n"
               "  trivium COMMAND --help                             its options\n"
               "  trivium --version\n");
}

/* Make idle OpenMP threads sleep early. GNU's threads spin for milliseconds by default, which costs nothing on an idle
 * machine. If other processes use the cores, each barrier lasts until the spinning thread's time slice ends: two
 * threads are 20 times slower than one. With 1000 spins they are 2 times slower. (Without spins, small models on an
 * idle machine lose half their speed.) OpenMP reads the variable before main, so the program executes itself again.
 * If the user set a variable, nothing changes. */
static void wait_briefly(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || setenv("GOMP_SPINCOUNT", "1000", 1)) return;
    char path[PATH_MAX];
    /* the real path, so that ps and pgrep show the program's name */
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return;
    path[n] = 0;
    execv(path, argv);
}

/* Open /dev/null in place of a closed standard stream; otherwise the next file would get its number and its text. */
static void fill_closed(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY); /* read-only: writes still fail */
    if (fd >= 0) close(fd);
}

/* A command whose output could not be written (a full disk, say) has failed. */
static int unless_output_was_lost(int code) {
    bool failed = ferror(stdout) != 0;
    if ((fflush(stdout) == 0 && !failed) || code != 0) return code;
    FAIL(E_IO, "not all of the standard output could be written; send it where there is room");
    status_report();
    return status_exit_code(E_IO);
}

/* launch_code_of_hydra says what for. */
static int with_last_word(bool wanted, int code) {
    if (wanted) fprintf(stderr, "trivium: a rank ends with code %d\n", code);
    return code;
}

int main(int argc, char **argv) {
    fill_closed();
    trivium_version = VERSION;
    wait_briefly(argv);
    const bool last_word = getenv("TRIVIUM_LAST_WORD") != NULL; /* now: launch sets it for its ranks */
    const char *name = argc > 1 ? argv[1] : "--help";
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, COMMANDS[i].name) && main_of(&COMMANDS[i])) {
            int code = main_of(&COMMANDS[i])(argc - 2, argv + 2);
            return with_last_word(last_word, COMMANDS[i].prints ? unless_output_was_lost(code) : code);
        }
    if (!strcmp(name, "--version")) {
        printf("trivium %s\n", VERSION);
        return unless_output_was_lost(0);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return unless_output_was_lost(argc > 1 ? 0 : 2);
    }
    char names[256] = "";
    for (size_t i = 0, n = 0; i < N_COMMANDS && n < sizeof names; i++)
        if (main_of(&COMMANDS[i]))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", COMMANDS[i].name);
    FAIL(E_USAGE, "no command is called %s; use one of %s (trivium --help)", name, names);
    status_report();
    return status_exit_code(E_USAGE);
}
