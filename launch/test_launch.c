/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DASHES "--------------------------------------------------------------------------\n"
#define ENDED_EARLY "Primary job  terminated normally, but 1 process returned\n"                                       \
                    "a non-zero exit code. Per user-direction, the job has been aborted.\n"

static struct launch_filter filter;

/* Feed `text` to the filter line by line, as launch_job does. @return the lines that pass */
static const char *through(const char *text) {
    static char passed[8192];
    passed[0] = 0;
    launch_filter_init(&filter);
    while (*text) {
        char line[512];
        size_t n = strcspn(text, "\n") + 1;
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        enum launch_verdict verdict = launch_filter_line(&filter, line);
        if (verdict == LINE_PASS_HELD) strcat(passed, filter.held);
        if (verdict == LINE_PASS || verdict == LINE_PASS_HELD) strcat(passed, line);
        text += n;
    }
    return strcat(passed, launch_filter_end(&filter));
}

static void assert_unchanged(const char *text) {
    assert_string_equal(through(text), text);
}

TEST(test_filter_passes_what_ranks_say) {
    assert_unchanged("warning: 4 threads\n\nstep 1\n[rank 1/2] is not an error\nE_ is none either\nE_lower \n");
    assert_unchanged(
        "the word E_COMM in a sentence\n E_COMM not at the start\n[node:12] E_COMM bracket of something else\n");
    assert_false(filter.facts.error_seen);
}

TEST(test_filter_passes_the_first_error_only) {
    const char *first = "[rank 5/8 pp0 dp1 tp1 @node03] E_CONFIG tp.c:41 tp_check: tp=3 does not divide heads=16\n";
    char text[512];
    snprintf(text, sizeof text, "%s%s", first, "[rank 2/8] E_COMM x.c:1 f: lost\nE_TIMEOUT y.c:2 g: late\n");
    assert_string_equal(through(text), first);
    assert_true(filter.facts.error_seen);
    assert_unchanged("E_USAGE option.c:9 parse: no option --frob\n");
    assert_true(filter.facts.error_seen);
}

TEST(test_filter_reads_who_was_killed) {
    assert_string_equal(through(DASHES ENDED_EARLY DASHES DASHES
                                "mpirun noticed that process rank 3 with PID 0 on node n07 "
                                "exited on signal 9 (Killed).\n" DASHES),
                        "");
    assert_int_equal(filter.facts.rank, 3);
    assert_int_equal(filter.facts.signal, 9);
    assert_string_equal(filter.facts.host, "n07");
    assert_string_equal(filter.facts.signal_name, "Killed");
    assert_false(filter.facts.error_seen);
    assert_string_equal(through(DASHES "prterun noticed that process rank 1 with PID 2711 on node vm exited on\n"
                                "signal 9 (Killed).\n" DASHES),
                        "");
    assert_int_equal(filter.facts.rank, 1);
    assert_int_equal(filter.facts.signal, 9);
}

TEST(test_filter_reads_who_ended_with_which_code) {
    assert_string_equal(through(DASHES
                                "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
                                "the job to be terminated. The first process to do so was:\n\n"
                                "  Process name: [[31450,1],3]\n  Exit code:    75\n" DASHES),
                        "");
    assert_int_equal(filter.facts.rank, 3);
    assert_int_equal(filter.facts.exit_code, 75);
    assert_int_equal(filter.facts.signal, 0);
}

TEST(test_filter_leaves_out_what_mpirun_says_to_itself) {
    assert_string_equal(through("[warn] Epoll MOD(1) on fd 26 failed. Old events were 6; read change was 0 (none); "
                                "write change was 2 (del); close change was 0 (none): Bad file descriptor\n"),
                        "");
    assert_unchanged("[warn] a rank's own words\n");
}

TEST(test_filter_reads_who_aborted) {
    assert_string_equal(through(DASHES
                                "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\n"
                                "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n" DASHES
                                "[n1:99] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
                                "[n1:99] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error "
                                "messages\n"),
                        "");
    assert_int_equal(filter.facts.rank, 2);
    assert_int_equal(filter.facts.exit_code, 1);
}

TEST(test_filter_reads_who_aborted_under_mpich) {
    assert_string_equal(through("Abort(3) on node 2 (rank 2 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, "
                                "3) - process 2\n"),
                        "");
    assert_int_equal(filter.facts.rank, 2);
    assert_int_equal(filter.facts.exit_code, 3);
    assert_unchanged("Abort(1091471) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init_thread: Other MPI error\n");
}

/* The code that launch takes for two ranks, after what they have said and Hydra's code. */
static int code_after(const char *said, int code) {
    assert_string_equal(through(said), "");
    return launch_code_of_hydra(&filter.facts, code, 2);
}

TEST(test_the_ranks_words_count_under_hydra) {
    const char *saved = "trivium: a rank ends with code 75\ntrivium: a rank ends with code 75\n",
               *done = "trivium: a rank ends with code 0\ntrivium: a rank ends with code 0\n",
               *one = "trivium: a rank ends with code 75\n", *failed = "trivium: a rank ends with code 75\n"
                                                                      "trivium: a rank ends with code 1\n";
    assert_int_equal(code_after(saved, 0), EXIT_CHECKPOINTED);
    assert_int_equal(code_after(saved, EXIT_CHECKPOINTED), EXIT_CHECKPOINTED);
    assert_int_equal(code_after(done, 0), 0);
    assert_int_equal(code_after(one, 0), 1);                   /* the other one was killed */
    assert_int_equal(code_after("", 0), 1);
    assert_int_equal(code_after(failed, EXIT_CHECKPOINTED), 1); /* 75 | 1 is 75 */
    assert_int_equal(code_after(saved, 9), 9);
}

TEST(test_filter_reads_what_the_agent_says) {
    assert_string_equal(through("step 1\ntrivium agent: rank 2 on host n07 was killed by signal 9 (Killed)\nstep 2\n"),
                        "step 1\nstep 2\n");
    assert_int_equal(filter.facts.rank, 2);
    assert_int_equal(filter.facts.signal, 9);
    assert_string_equal(filter.facts.host, "n07");
    assert_string_equal(filter.facts.signal_name, "Killed");
    assert_string_equal(through("trivium agent: rank 3 on host n08 ended with code 5\n"), "");
    assert_int_equal(filter.facts.rank, 3);
    assert_int_equal(filter.facts.exit_code, 5);
    assert_int_equal(filter.facts.signal, 0);
}

TEST(test_filter_drops_reads_of_a_dead_rank) {
    assert_string_equal(through("[n1:99] Read -1, expected 8192, errno = 3\n"), "");
    assert_unchanged("[n1:99] Read -1, expected 8192, errno = 1\n"); /* the user must see EPERM */
    assert_unchanged("[n1:99] Read the manual\n");
}

TEST(test_filter_prefers_the_signal_whatever_the_order) {
    const char *killed =
        DASHES "prterun noticed that process rank 1 with PID 7 on node a exited on signal 11.\n" DASHES;
    const char *aborted =
        DASHES "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n" DASHES;
    for (int order = 0; order < 2; order++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", order ? killed : aborted, order ? aborted : killed);
        assert_string_equal(through(text), "");
        assert_int_equal(filter.facts.rank, 1);
        assert_int_equal(filter.facts.signal, 11);
        assert_string_equal(filter.facts.signal_name, "");
    }
}

TEST(test_filter_finds_an_error_inside_a_block) {
    const char *error = "[rank 0/2] E_NUMERIC loss.c:3 f: loss is nan\n";
    char text[1024];
    snprintf(text, sizeof text, DASHES "Primary job  terminated normally, but 1 process returned\n%s" DASHES "after\n",
             error);
    assert_string_equal(through(text), "[rank 0/2] E_NUMERIC loss.c:3 f: loss is nan\nafter\n");
}

TEST(test_filter_passes_other_blocks) {
    assert_unchanged(DASHES "There are not enough slots available in the system\n" DASHES);
    assert_unchanged(DASHES "a rank's own table\n" DASHES "1 2 3\n" DASHES DASHES "no more\n" DASHES);
    assert_unchanged(DASHES);
    assert_unchanged("--- short ---\n-----\n");
    /* the next block is still found */
    assert_string_equal(through(DASHES "a rule alone\n" DASHES ENDED_EARLY DASHES "end\n"),
                        DASHES "a rule alone\nend\n");
}

TEST(test_filter_keeps_the_want_of_shared_memory_for_the_end) {
    const char *block = DASHES "A system call failed during shared memory initialization that should\n" DASHES;
    assert_string_equal(through(block), "");
    assert_true(filter.facts.no_shared_memory);
    assert_int_equal(filter.facts.rank, -1);
}

static enum status parse(struct launch_request *request, const char *w0, const char *w1, const char *w2,
                         const char *w3) {
    static char *words[5];
    char *given[] = {(char *)w0, (char *)w1, (char *)w2, (char *)w3, NULL};
    memcpy(words, given, sizeof words);
    int n = 0;
    while (words[n]) n++;
    return launch_parse(n, words, request);
}

TEST(test_request_needs_ranks_and_a_command) {
    struct launch_request r;
    assert_fails(parse(&r, NULL, NULL, NULL, NULL), E_USAGE, "number of ranks", "-n 8");
    assert_fails(parse(&r, "train", "-n", "8", NULL), E_USAGE, "number of ranks");
    assert_fails(parse(&r, "-n", NULL, NULL, NULL), E_USAGE, "-n needs a value");
    assert_fails(parse(&r, "-n", "eight", "train", NULL), E_USAGE, "-n eight", "not a number");
    assert_fails(parse(&r, "-n", "", "train", NULL), E_USAGE, "-n needs a value");
    assert_fails(parse(&r, "-n", "8x", "train", NULL), E_USAGE, "-n 8x");
    assert_fails(parse(&r, "-n", "0", "train", NULL), E_USAGE, "-n 0", "1 to");
    assert_fails(parse(&r, "-n", "-2", "train", NULL), E_USAGE, "-n -2");
    assert_fails(parse(&r, "-n", "99999999999999999999", "train", NULL), E_USAGE, "1 to");
    assert_fails(parse(&r, "-n", "8", NULL, NULL), E_USAGE, "needs a command");
    assert_fails(parse(&r, "-q", "8", "train", NULL), E_USAGE, "no option -q", "-n");
    assert_fails(parse(&r, "--hostfile", "/nowhere/hosts", "train", NULL), E_USAGE, "/nowhere/hosts", "No such file");
}

TEST(test_request_leaves_the_commands_options_alone) {
    struct launch_request r;
    assert_ok(parse(&r, "-n", "8", "train", "--help"));
    assert_int_equal(r.n_ranks, 8);
    assert_int_equal(r.n_words, 2);
    assert_string_equal(r.command[1], "--help");
    assert_false(r.help);
    assert_ok(parse(&r, "--help", NULL, NULL, NULL));
    assert_true(r.help);
}

TEST(test_words_are_mpirun_program_command) {
    static const char *const mpirun[] = {TRIVIUM_MPIRUN};
    char wanted[512] = "";
    struct launch_request r;
    assert_ok(parse(&r, "-n", "4", "train", "--dp 2; rm"));
    char **words, all[512] = "";
    assert_ok(launch_words(&r, "self", "/opt/tri vium", "4", &words));
    for (int i = 0; words[i]; i++) strcat(strcat(all, words[i]), "|"); /* words stay whole: no shell sees them */
    for (size_t i = 0; i < sizeof mpirun / sizeof *mpirun; i++) strcat(strcat(wanted, mpirun[i]), "|");
    assert_true(strstr(wanted, "mpirun") && (TRIVIUM_OPEN_MPI == (strstr(wanted, "|--oversubscribe|") != NULL)));
    assert_string_equal(all, strcat(wanted, "-n|4|/opt/tri vium|train|--dp 2; rm|"));
    free(words);
}

/* Parse a request for the direct transport with up to six more words. */
static enum status parse_hosts(struct launch_request *r, const char *a, const char *b, const char *c, const char *d,
                               const char *e, const char *f) {
    const char *words[] = {"--comm-transport", "direct", a, b, c, d, e, f}, *argv[16];
    int n = 0;
    for (int i = 0; i < 8; i++)
        if (words[i]) argv[n++] = words[i];
    argv[n++] = "train";
    return launch_parse(n, (char **)argv, r);
}

TEST(test_several_hosts_of_the_own_transport) {
    struct launch_request r;
    unsetenv("TRIVIUM_SECRET");
    assert_ok(parse_hosts(&r, "--host", "a:2,b:3", NULL, NULL, NULL, NULL));
    assert_true(r.n_ranks == 5 && r.heartbeat_s == 3 && !launch_is_one_host(&r));
    assert_ok(parse_hosts(&r, "--host", "a:2,b:3", "--elastic", "2", "--spares", "1"));
    assert_true(r.n_ranks == 4 && r.spares == 1);
    assert_fails(parse_hosts(&r, "--host", "a:2,b:3", "-n", "6", NULL, NULL), E_USAGE, "6 ranks", "hosts with 5");
    assert_fails(parse_hosts(&r, "--host", "a:1", "--elastic", "1", "--spares", "1"), E_USAGE, "no rank");
    assert_fails(parse_hosts(&r, "--host", "a:200,b:200", NULL, NULL, NULL, NULL), E_USAGE, "400", "256");
    assert_fails(parse_hosts(&r, "--host", "a:2,a", NULL, NULL, NULL, NULL), E_USAGE, "a twice");
    assert_ok(parse_hosts(&r, "--host", "a:2", "--between-hosts", "encrypted", NULL, NULL));
    assert_true(r.encrypts);
    assert_ok(parse_hosts(&r, "-n", "2", "--nodes", "2", "--between-hosts", "authenticated"));
    assert_false(r.encrypts);
    assert_fails(parse_hosts(&r, "--host", "a:2", "--between-hosts", "no", NULL, NULL), E_USAGE, "--between-hosts no",
                 "authenticated nor encrypted");
    assert_fails(parse_hosts(&r, "-n", "2", "--between-hosts", "encrypted", NULL, NULL), E_USAGE, "several hosts",
                 "--nodes 2");
    assert_fails(parse_hosts(&r, "--host", "a:2", "--nodes", "2", NULL, NULL), E_USAGE, "--nodes 2", "--host");
    assert_fails(parse_hosts(&r, "--host", "a:2", "--heartbeat-timeout", "0.5", NULL, NULL), E_USAGE, "0.5",
                 "1 or more");
    assert_fails(parse_hosts(&r, "-n", "2", "--heartbeat-timeout", "5", NULL, NULL), E_USAGE, "--heartbeat", "--host");
    assert_fails(parse_hosts(&r, "-n", "2", "--agent-command", "ssh %h", NULL, NULL), E_USAGE, "--agent-command",
                 "--host");
    assert_fails(parse_hosts(&r, "-n", "2", "--meet", "a:1", NULL, NULL), E_USAGE, "--meet", "--host");
    assert_fails(parse_hosts(&r, "--host", "a:2", "--agent-command", "none", NULL, NULL), E_USAGE, "none", "--meet");
    assert_fails(parse_hosts(&r, "--host", "a:2", "--agent-command", "none", "--meet", "b:1"), E_USAGE,
                 "TRIVIUM_SECRET");
    setenv("TRIVIUM_SECRET", "x", 1);
    assert_ok(parse_hosts(&r, "--host", "a:2", "--agent-command", "none", "--meet", "b:1"));
    unsetenv("TRIVIUM_SECRET");
    setenv("SLURM_JOB_NUM_NODES", "2", 1);
    assert_fails(parse_hosts(&r, "-n", "2", NULL, NULL, NULL, NULL), E_USAGE, "Slurm", "--host");
    assert_ok(parse_hosts(&r, "--host", "a:2", NULL, NULL, NULL, NULL));
    unsetenv("SLURM_JOB_NUM_NODES");
}

TEST(test_words_of_the_own_transport) {
    struct launch_request r;
    char **words, all[512] = "";
    for (int former = 0; former < 2; former++) {                                     /* own: its name until 0.1 */
        setenv("TRIVIUM_COMM_TRANSPORT", former ? "own" : "direct", 1);
        assert_ok(parse(&r, "-n", "4", "train", "x"));
        assert_true(r.own);
    }
    setenv("TRIVIUM_COMM_TRANSPORT", "tcp", 1);
    assert_fails(parse(&r, "-n", "4", "train", "x"), E_USAGE, "TRIVIUM_COMM_TRANSPORT tcp", "mpi nor direct");
    unsetenv("TRIVIUM_COMM_TRANSPORT");
    assert_ok(parse(&r, "-n", "4", "train", "x"));
    assert_false(r.own);
    char *own[] = {"--comm-transport", "direct", "-n", "4", "--elastic", "2", "--spares", "1", "train", "x"};
    assert_ok(launch_parse(10, own, &r));
    assert_true(r.hang_s == 60 && r.chaos == 0);
    assert_ok(launch_words(&r, "/bin/self", "/opt/other", "3", &words));
    for (int i = 0; words[i]; i++) strcat(strcat(all, words[i]), "|");
    assert_string_equal(all, "/bin/self|agent|--comm-transport|direct|-n|4|--elastic|2|--spares|1|-n|3|/opt/other|"
                             "train|x|");
    free(words);
    char *chaos[] = {"--comm-transport", "direct", "-n", "4", "--chaos", "7", "train"};
    assert_fails(launch_parse(7, chaos, &r), E_USAGE, "--chaos 7", "--elastic 4");
    char *hang[] = {"-n", "4", "--hang-timeout", "3", "train"};
    assert_fails(launch_parse(5, hang, &r), E_USAGE, "--hang-timeout 3", "--comm-transport direct");
    char *seconds[] = {"-n", "4", "--comm-transport", "direct", "--hang-timeout", "soon", "train"};
    assert_fails(launch_parse(7, seconds, &r), E_USAGE, "--hang-timeout soon", "86400");
    char *under_mpi[] = {"-n", "2", "--elastic", "1", "train"};
    assert_fails(launch_parse(5, under_mpi, &r), E_USAGE, "--elastic 1", "--comm-transport direct");
    char *dead[] = {"-n", "2", "--comm-transport", "direct", "--respawn", "3", "train"};
    assert_fails(launch_parse(7, dead, &r), E_USAGE, "--respawn 3", "--elastic 2");
    char *idle[] = {"-n", "2", "--comm-transport", "direct", "--spares", "1", "train"};
    assert_fails(launch_parse(7, idle, &r), E_USAGE, "--spares 1", "--elastic 2");
    char *fewer[] = {"-n", "4", "--comm-transport", "direct", "--elastic", "3", "--max-restarts", "2", "--min-ranks",
                     "2", "train"};
    assert_fails(launch_parse(11, fewer, &r), E_USAGE, "--min-ranks 2", "--elastic 3");
    fewer[9] = "3";
    assert_ok(launch_parse(11, fewer, &r));
    char *most[] = {"-n", "2", "--comm-transport", "direct", "--elastic", "3", "train"};
    assert_fails(launch_parse(7, most, &r), E_USAGE, "--elastic 3", "the 2 ranks");
}

TEST(test_words_name_the_hosts) {
    const size_t at = sizeof (const char *[]){TRIVIUM_MPIRUN} / sizeof(char *) + 2; /* behind -n 4 */
    struct launch_request r = {.n_ranks = 4, .host = "a:2,b:2", .command = (char *[]){"train", NULL}, .n_words = 1};
    char **words;
    assert_ok(launch_words(&r, "self", "trivium", "4", &words));
    assert_string_equal(words[at], "--host");
    assert_string_equal(words[at + 1], "a:2,b:2");
    free(words);
}

/* A rank's text, longer than a turn reads, and then its line of standard error come in this order. */
TEST(test_output_comes_before_the_next_line_of_standard_error) {
    static char text[10000], read_back[2 * sizeof text];
    int out[2], err[2], both[2];
    size_t n = 0;
    memset(text, 'a', sizeof text);
    assert_int_equal(pipe(out) | pipe(err) | pipe(both), 0);
    assert_int_equal(write(out[1], text, sizeof text), sizeof text);
    assert_int_equal(write(err[1], "said\n", 5), 5);
    close(out[1]), close(err[1]);
    pid_t child = fork();
    if (child == 0) {
        struct launch_text passed;
        dup2(both[1], STDOUT_FILENO), dup2(both[1], STDERR_FILENO);
        launch_filter_init(&filter);
        launch_text_init(&passed, &filter, out[0], err[0]);
        while (launch_text_is_open(&passed)) launch_text_turn(&passed);
        _exit(0);
    }
    close(both[1]);
    for (ssize_t k; (k = read(both[0], read_back + n, sizeof read_back - n)) > 0;) n += (size_t)k;
    waitpid(child, NULL, 0);
    close(both[0]), close(out[0]), close(err[0]);
    assert_int_equal(n, sizeof text + 5);
    assert_memory_equal(read_back, text, sizeof text);
    assert_memory_equal(read_back + sizeof text, "said\n", 5);
}

TESTS(unit_test(test_filter_passes_what_ranks_say), unit_test(test_filter_passes_the_first_error_only),
      unit_test(test_filter_reads_who_was_killed), unit_test(test_filter_reads_who_ended_with_which_code),
      unit_test(test_filter_reads_who_aborted),
      unit_test(test_filter_leaves_out_what_mpirun_says_to_itself), unit_test(test_filter_reads_what_the_agent_says),
      unit_test(test_filter_reads_who_aborted_under_mpich), unit_test(test_the_ranks_words_count_under_hydra),
      unit_test(test_filter_drops_reads_of_a_dead_rank),
      unit_test(test_filter_prefers_the_signal_whatever_the_order),
      unit_test(test_filter_finds_an_error_inside_a_block), unit_test(test_filter_passes_other_blocks),
      unit_test(test_filter_keeps_the_want_of_shared_memory_for_the_end),
      unit_test(test_request_needs_ranks_and_a_command), unit_test(test_request_leaves_the_commands_options_alone),
      unit_test(test_words_are_mpirun_program_command), unit_test(test_words_of_the_own_transport),
      unit_test(test_several_hosts_of_the_own_transport),
      unit_test(test_words_name_the_hosts), unit_test(test_output_comes_before_the_next_line_of_standard_error))
