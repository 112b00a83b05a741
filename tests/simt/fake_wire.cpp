#include "tests/simt/fake_wire.h"

#include <dirent.h>
#include <errno.h>
#include <map>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <unistd.h>

static const char *folder(void) {
    static const char *const given = getenv("SIMT_WIRE");
    return given && *given ? given : NULL;
}

bool wire_is_open(void) { return folder() || fake_world != MPI_COMM_NULL; }

int wire_self(void) {
    int rank;
    if (folder()) return (int)getpid();
    PMPI_Comm_rank(fake_world, &rank);
    return rank;
}

bool wire_is_dead(int address) {
    static const char *const deaths = getenv("SIMT_DEATHS");
    return folder() && deaths && strcmp(deaths, "seen") == 0 && kill(address, 0) != 0 && errno == ESRCH;
}

/* ---- MPI ---- */
static int tag_of(const wire_key &key) {
    int n;
    PMPI_Comm_size(fake_world, &n);
    return (key.number * n + key.address) * WIRE_KINDS + key.kind;
}

static bool take_by_mpi(const wire_key &key, int from, bytes_t &out) {
    int found, bytes, tag = tag_of(key);
    MPI_Status status;
    PMPI_Iprobe(from == WIRE_ANY ? MPI_ANY_SOURCE : from, tag, fake_world, &found, &status);
    if (!found) return false;
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    out.resize((size_t)bytes);
    PMPI_Recv(out.data(), bytes, MPI_BYTE, status.MPI_SOURCE, tag, fake_world, MPI_STATUS_IGNORE);
    return true;
}

/* ---- files: FOLDER/address.number.kind.TO.FROM.sequence ---- */
typedef std::tuple<int, int, int, int, int> line;           /* of a key, to, from */
static std::map<line, int> n_sent, n_taken;

static std::string name_of(const line &l, int sequence) {
    char name[128];
    snprintf(name, sizeof name, "%d.%d.%d.%d.%d.%d", std::get<0>(l), std::get<1>(l), std::get<2>(l), std::get<3>(l),
             std::get<4>(l), sequence);
    return std::string(folder()) + "/" + name;
}

/* The file gets its name when it is complete. */
static std::string write_file(const line &l, const void *at, size_t bytes) {
    std::string path = name_of(l, n_sent[l]++), beside = path + ".part";
    FILE *f = fopen(beside.c_str(), "w");
    bool written = f && fwrite(at, 1, bytes, f) == bytes;
    if (f) written = fclose(f) == 0 && written;
    if (written && rename(beside.c_str(), path.c_str()) == 0) return path;
    fprintf(stderr, "simt: NCCL: cannot write %s: %s\n", path.c_str(), strerror(errno));
    abort();
}

static bool take_file(const line &l, bytes_t &out) {
    std::string path = name_of(l, n_taken[l]);
    FILE *f = fopen(path.c_str(), "r");
    if (!f) return false;
    fseek(f, 0, SEEK_END);
    out.resize((size_t)ftell(f));
    rewind(f);
    bool read = fread(out.data(), 1, out.size(), f) == out.size();
    fclose(f);
    if (!read) return false;
    n_taken[l]++;
    unlink(path.c_str());
    return true;
}

/* Find the sender of a message with this key; WIRE_ANY: none. */
static int find_sender(const wire_key &key) {
    DIR *d = opendir(folder());
    int found = WIRE_ANY;
    for (struct dirent *entry = d ? readdir(d) : NULL; entry && found == WIRE_ANY; entry = readdir(d)) {
        wire_key k = {-1, -1, -1};
        int to, from, sequence, end = 0;
        int n = sscanf(entry->d_name, "%d.%d.%d.%d.%d.%d%n", &k.address, &k.number, &k.kind, &to, &from, &sequence,
                       &end);
        bool same = k.address == key.address && k.number == key.number && k.kind == key.kind;
        if (n != 6 || entry->d_name[end] || !same) continue;
        if (to == wire_self() && sequence == n_taken[line(k.address, k.number, k.kind, to, from)]) found = from;
    }
    if (d) closedir(d);
    return found;
}

/* ---- either ---- */
void wire_post(const wire_key &key, int to, const void *at, size_t bytes) {
    if (folder()) write_file(line(key.address, key.number, key.kind, to, wire_self()), at, bytes);
    else PMPI_Send(at, (int)bytes, MPI_BYTE, to, tag_of(key), fake_world);   /* small enough to be sent without
                                                                                waiting */
}

wire_sent wire_send(const wire_key &key, int to, const bytes_t &message, bool until_taken) {
    wire_sent sent = {MPI_REQUEST_NULL, ""};
    if (folder()) {
        line mine(key.address, key.number, key.kind, to, wire_self());
        std::string path = write_file(mine, message.data(), message.size());
        if (until_taken) sent.path = path;
        return sent;
    }
    auto *start = until_taken ? PMPI_Issend : PMPI_Isend;
    start(message.data(), (int)message.size(), MPI_BYTE, to, tag_of(key), fake_world, &sent.request);
    return sent;
}

bool wire_has_left(wire_sent &sent) {
    int done = 1;
    if (folder()) return sent.path.empty() || access(sent.path.c_str(), F_OK) != 0;
    PMPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
}

bool wire_take(const wire_key &key, int from, bytes_t &out) {
    if (!folder()) return take_by_mpi(key, from, out);
    if (from == WIRE_ANY) from = find_sender(key);
    return from != WIRE_ANY && take_file(line(key.address, key.number, key.kind, wire_self(), from), out);
}
