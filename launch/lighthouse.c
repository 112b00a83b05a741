/* The loop of the lighthouse: it starts agents, or waits for them. The job begins when all agents are connected. Then
 * the loop handles their messages (lighthouse_members.c) until no rank is left. */
#define _GNU_SOURCE
#include "launch/agent.h"

#include "launch/host_job.h"
#include "launch/lighthouse_job.h"
#include "launch/hosts.h"
#include "lib/base/clock.h"
#include "lib/base/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURN_MS = 50, CHAOS_TURN_MS = 5 };
static const double comes_s = 60, comes_by_itself_s = 600;   /* wait for agents that launch starts; for other agents */
static const double ends_s = 5;                              /* wait for the ranks' ends after TERM */

/* ---- coming ---- */
static void send_job(struct lighthouse *l, int h, int mine_from) {
    const struct launch_request *r = l->request;
    struct host_job job = {.me = h, .n_slots = l->job.n_slots, .n = r->n_ranks, .mine_from = mine_from,
                           .hang_s = r->hang_s, .lost_s = r->heartbeat_s, .encrypts = r->encrypts};
    char *body;
    size_t bytes;
    memcpy(job.host, l->host_of, sizeof job.host);
    if (host_job_write(&job, r->command, &body, &bytes) != OK) {
        lighthouse_give_up(l);
        return;
    }
    host_link_say(&l->host[h].link, HOST_JOB, body, bytes);
    free(body);
}

/* An agent may connect once, and again after a loss if there are processes to start. */
static bool may_come(const struct lighthouse *l, int h) {
    bool was_lost = l->host[h].state == HOST_GONE || l->host[h].state == HOST_SILENT;
    bool wanted = l->has_begun && l->request->elastic && l->n_started < l->job.n_slots && l->ending_s == 0;
    return l->host[h].state == HOST_AWAITED || (was_lost && wanted);
}

/* Send the present state of the job: the members, and the members of the epoch that all ranks may go back to. If the
 * memory holds that epoch no more, all ranks go back to the last checkpoint. */
static void welcome_again(struct lighthouse *l, int h) {
    struct host_link *link = &l->host[h].link;
    const struct membership now = own_membership_now(l->memory);
    const struct membership *from = &l->memory->of[now.from > 0 ? now.from % OWN_EPOCHS : 0];
    fprintf(stderr, "trivium: host %s is here again\n", l->names.of[h].name);
    send_job(l, h, l->n_started);
    for (int s = 0; s < l->n_started; s++)
        if (l->alive[s]) host_link_say_word(link, HOST_ADDRESS, s, 0, (int64_t)l->memory->address[s]);
    host_link_say_word(link, HOST_KEPT, 0, 0, l->memory->kept);
    if (now.from > 0 && from->number == now.from) host_link_say(link, HOST_EPOCH, from, sizeof *from);
    if (now.number > 0) host_link_say(link, HOST_EPOCH, &now, sizeof now);
    if (own_membership_is_committed(l->memory, &now)) host_link_say_word(link, HOST_COMMITTED, 0, now.number, 0);
}

static void seat(struct lighthouse *l, struct host_link *link, const struct host_message *m) {
    char name[HOST_MOST_NAME + 1] = "";
    if (m->kind == HOST_HERE) memcpy(name, m->body, m->bytes);
    int h = host_list_find(&l->names, name);
    if (h >= 0 && m->kind == HOST_HERE && may_come(l, h)) {
        bool again = l->host[h].state != HOST_AWAITED;
        l->host[h].link = *link;
        l->host[h].state = HOST_IS_HERE;
        *link = (struct host_link){.fd = -1};
        if (again) welcome_again(l, h);
        return;
    }
    fprintf(stderr, "trivium: an agent calls itself %.64s, which is %s; it is sent away\n", name,
            h < 0 ? "none of --host" : "here already, or was lost");
    host_link_close(link);
}

static void let_in(struct lighthouse *l, double now_s) {
    struct host_message m;
    host_door_step(&l->door);
    struct sealed wire;
    for (int i = 0; i < MOST_HOSTS; i++) {
        struct host_link *link = &l->unnamed[i];
        if (link->fd < 0) {
            if (!host_door_let_in(&l->door, &wire)) continue;
            if (host_link_open(link, &wire, true) != OK) host_link_close(link);
        }
        host_link_step(link, now_s);
        if (host_link_next(link, &m)) seat(l, link, &m);
        else if (link->broken || now_s > link->heard_s + WIRE_GREETING_S) host_link_close(link);
    }
}

static void begin(struct lighthouse *l) {
    for (int h = 0; h < l->names.n && l->ending_s == 0; h++) send_job(l, h, 0);
    if (l->ending_s > 0) return;
    l->has_begun = true;
    l->n_started = l->n_left = l->job.n_slots - l->request->respawn;
    for (int s = 0; s < l->n_started; s++) l->alive[s] = true;
}

static void look_who_is_here(struct lighthouse *l, double from_s) {
    bool by_themselves = strcmp(l->request->agent_command, "none") == 0;
    double patience_s = by_themselves ? comes_by_itself_s : comes_s;
    int missing = -1;
    for (int h = l->names.n - 1; h >= 0; h--)
        if (!lighthouse_has(l, h)) missing = h;
    if (missing < 0) {
        begin(l);
    } else if (clock_s() > from_s + patience_s) {
        (void)FAIL(E_COMM, "host %s has not come within %g s (%lld that did not know the secret were shown out); look "
                   "whether `trivium agent` runs there, and reaches launch", l->names.of[missing].name, patience_s,
                   (long long)l->door.wire.shown_out);
        lighthouse_give_up(l);
    }
}

/* ---- the agents' processes ---- */
static void starter_has_ended(struct lighthouse *l, int h, int status) {
    char how[64];
    l->host[h].has_ended = true;
    l->host[h].status = status;
    if (lighthouse_has(l, h) || l->ending_s > 0) return;
    if (WIFSIGNALED(status)) snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else snprintf(how, sizeof how, "ended with code %d", WEXITSTATUS(status));
    if (l->host[h].is_again)
        fprintf(stderr, "trivium: host %s does not come again: what should start its agent %s\n", l->names.of[h].name,
                how);
    if (l->host[h].state != HOST_AWAITED) return;
    (void)FAIL(E_COMM, "host %s: what should start its agent (%s) %s; see what it says above", l->names.of[h].name,
               *l->request->agent_command ? l->request->agent_command : "ssh, or trivium agent", how);
    lighthouse_give_up(l);
}

static void look_for_starters(struct lighthouse *l) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int h = 0; h < l->names.n; h++)
            if (l->host[h].starter == pid && !l->host[h].has_ended) starter_has_ended(l, h, status);
}

/* Start the agent of host h. This host's own agent needs no ssh, unless --agent-command gives it. */
static enum status start(struct lighthouse *l, int h) {
    const char *command = l->request->agent_command;
    char text[4096], login[HOST_LOGIN], *words[START_MOST_WORDS];
    const char *self;
    uint32_t ip;
    TRY(program_path(&self));
    if (!*command && (host_address_find(l->names.of[h].name, &ip) != OK || !host_is_here(ip))) {
        status_clear();                      /* perhaps a name that only ssh resolves */
        command = "ssh -o BatchMode=yes %h";
    }
    host_login(&l->names.of[h], login);
    TRY(start_words(command, self, l->meet, login, text, words));
    l->host[h].has_ended = false;
    return start_agent(words, l->memory->secret, &l->unblocked, &l->host[h].starter);
}

/* The address where agents find this host: --meet, or the address that the first other host sees. */
static enum status find_meeting(struct lighthouse *l, struct network_address *at) {
    *at = (struct network_address){0x7f000001, 0};
    if (l->request->meet) return host_address_read(l->request->meet, 0, at);
    for (int h = 0; h < l->names.n; h++) {
        uint32_t ip;
        TRY(host_address_find(l->names.of[h].name, &ip));
        if (!host_is_here(ip)) return host_seen_from(ip, &at->ip);
    }
    return OK;
}

/* Start the agent of a lost host again, once for each loss. */
static void start_again(struct lighthouse *l, double now_s) {
    for (int h = 0; h < l->names.n && l->ending_s == 0; h++) {
        if (l->host[h].again_s == 0 || now_s < l->host[h].again_s) continue;
        l->host[h].again_s = 0;
        l->host[h].is_again = true;
        if (start(l, h) != OK) status_report();
    }
}

static enum status start_all(struct lighthouse *l) {
    struct network_address at;
    TRY(find_meeting(l, &at));
    TRY(host_door_open(&l->door, at, l->memory->secret));
    host_address_text(&l->door.at, l->meet);
    for (int h = 0; h < l->names.n && strcmp(l->request->agent_command, "none") != 0; h++)
        TRY(start(l, h));
    return OK;
}

/* ---- together ---- */
static void on_signals(struct lighthouse *l, int signals) {
    for (struct signalfd_siginfo x; read(signals, &x, sizeof x) == (ssize_t)sizeof x;) {
        int number = (int)x.ssi_signo;
        if (number == SIGUSR1) lighthouse_say(l, -1, HOST_SIGNAL, -1, 0, SIGUSR1);
        if (number == SIGUSR1 || number == SIGCHLD) continue;
        if (l->code == 0) l->code = 128 + number;
        lighthouse_end_all(l);
    }
}

static void wait_for_something(struct lighthouse *l, int signals) {
    struct pollfd p[2 + WIRE_STRANGERS + 2 * MOST_HOSTS] = {{signals, POLLIN, 0}};
    int n = 1 + host_door_polls(&l->door, p + 1);
    for (int h = 0; h < l->names.n; h++) {
        if (!lighthouse_has(l, h)) continue;
        short events = host_link_has_more(&l->host[h].link) ? POLLIN | POLLOUT : POLLIN;
        p[n++] = (struct pollfd){l->host[h].link.fd, events, 0};
    }
    for (int i = 0; i < MOST_HOSTS; i++)
        if (l->unnamed[i].fd >= 0) p[n++] = (struct pollfd){l->unnamed[i].fd, POLLIN, 0};
    poll(p, (nfds_t)n, l->chaos.seed ? CHAOS_TURN_MS : TURN_MS);
}

/* Time during which this process was stopped does not count as silence of the hosts. */
static void forgive_the_gap(struct lighthouse *l, double now_s) {
    for (int h = 0; h < l->names.n && now_s > l->looked_s + 1; h++) l->host[h].link.heard_s += now_s - l->looked_s;
    l->looked_s = now_s;
}

static bool only_spares_are_left(const struct lighthouse *l) {
    const struct membership now = own_membership_now(l->memory);
    for (int i = 0; i < now.n; i++)
        if (l->alive[now.slot[i]]) return false;
    return l->has_begun;
}

static bool is_over(const struct lighthouse *l) {
    if (l->ending_s > 0 && (!l->has_begun || clock_s() > l->ending_s + ends_s)) return true;
    return l->has_begun && l->n_left == 0;
}

static void turn(struct lighthouse *l, int signals, double from_s) {
    wait_for_something(l, signals);
    double now_s = clock_s();
    forgive_the_gap(l, now_s);
    on_signals(l, signals);
    look_for_starters(l);
    let_in(l, now_s);
    l->who[0] = 0;
    for (int h = 0; h < l->names.n; h++) lighthouse_hear(l, h, now_s);
    if (l->who[0] && l->ending_s == 0) lighthouse_go_on(l);
    else lighthouse_look_ahead(l);
    lighthouse_place(l);
    start_again(l, now_s);
    if (!l->has_begun && l->ending_s == 0) look_who_is_here(l, from_s);
    if (only_spares_are_left(l)) lighthouse_end_all(l);
}

/* End the agents, and wait for the commands that started them. */
static void say_goodbye(struct lighthouse *l) {
    const struct timespec nap = {0, 10000000};
    double until_s = clock_s() + 2;
    lighthouse_say(l, -1, HOST_OVER, 0, 0, l->code);
    for (int h = 0; h < l->names.n; h++)
        if (lighthouse_has(l, h)) host_link_flush(&l->host[h].link, 1);
    for (bool left = true; left && clock_s() < until_s; nanosleep(&nap, NULL)) {
        look_for_starters(l);
        left = false;
        for (int h = 0; h < l->names.n; h++)
            left |= lighthouse_has(l, h) && l->host[h].starter > 0 && !l->host[h].has_ended;
    }
    for (int h = 0; h < l->names.n; h++) {
        if (l->host[h].starter > 0 && !l->host[h].has_ended) kill(l->host[h].starter, SIGKILL);
        host_link_close(&l->host[h].link);
    }
    for (int i = 0; i < MOST_HOSTS; i++) host_link_close(&l->unnamed[i]);
    host_door_close(&l->door);
}

static enum status prepare(struct lighthouse *l) {
    const struct launch_request *r = l->request;
    const char *secret = getenv("TRIVIUM_SECRET");
    l->job.n_slots = r->n_ranks + r->spares + r->respawn;
    TRY(r->host ? host_list_read(r->host, &l->names) : host_list_read_file(r->hostfile, &l->names));
    TRY(host_list_deal(&l->names, r->n_ranks + r->spares, l->host_of));
    for (int s = r->n_ranks + r->spares; s < l->job.n_slots; s++) l->host_of[s] = -1;
    TRY(own_memory_make(l->job.n_slots, r->n_ranks, &l->job.fd));
    TRY(own_memory_map(&l->job, &l->memory));
    if (secret && *secret) TRY(host_secret_read(secret, l->memory->secret));
    memcpy(l->memory->host, l->host_of, sizeof l->host_of);
    struct membership first = own_membership_now(l->memory);
    TRY(own_membership_open(l->memory, &l->job, &first, NULL));   /* reopen epoch 0 with the slots' hosts */
    return OK;
}

static enum status run(struct lighthouse *l) {
    static const int numbers[] = {SIGCHLD, SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t watched;
    sigemptyset(&watched);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) sigaddset(&watched, numbers[k]);
    TRY(prepare(l));
    signal(SIGUSR1, SIG_DFL);                /* launch has set it to SIG_IGN, which would discard it */
    sigprocmask(SIG_BLOCK, &watched, &l->unblocked);
    int signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) return FAIL(E_IO, "cannot watch for signals: %s", strerror(errno));
    double from_s = l->looked_s = clock_s();
    enum status status = start_all(l);
    while (status == OK && !is_over(l)) turn(l, signals, from_s);
    if (l->chaos.seed) chaos_print(&l->chaos.costs, l->chaos.seed, clock_s(), stderr);
    say_goodbye(l);
    close(signals);
    return status;
}

int lighthouse_main(const struct launch_request *request) {
    static struct lighthouse l;
    l = (struct lighthouse){.request = request, .door.wire.listening = -1, .committed_of = -1,
                            .reconnect = RECONNECT_NOTHING,
                            .chaos = {.seed = request->chaos, .mean_s = request->chaos_s, .hang_s = request->hang_s}};
    for (int i = 0; i < MOST_HOSTS; i++) l.unnamed[i].fd = l.host[i].link.fd = -1;
    enum status status = run(&l);
    status_report();
    return status == OK ? l.code : status_exit_code(status);
}
