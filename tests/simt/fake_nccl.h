/* NCCL's fake: a communicator and an operation, shared by fake_nccl.cpp (communicators, calls) and fake_nccl_ops.cpp
 * (how an operation is carried out). */
#pragma once

#include "tests/simt/fake.h"
#include "tests/simt/fake_wire.h"

#include <nccl.h>
#include <deque>
#include <string>
#include <vector>

enum nccl_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, SEND, RECV };

/* Each member sends this header before its data. */
struct nccl_header { uint64_t sequence, count; int32_t kind, type, reduction, root; };

struct nccl_operation {
    nccl_header header;
    const void *from;
    void *to;
    int peer;                                     /* of a message */
    bool started = false, finished = false;
    std::vector<bytes_t> sent, received;          /* by rank */
    std::vector<char> arrived;                    /* by rank */
    std::deque<wire_sent> leaving;
};

/* One call, or one ncclGroup, on one stream: a GPU runs it as one kernel. */
struct nccl_bundle { std::vector<nccl_operation> operations; uint64_t ticket; };

struct ncclComm {
    int n, rank, device;
    bool blocking, aborted = false;
    ncclResult_t state = ncclInProgress;          /* the result of ncclCommGetAsyncError */
    std::string why;
    wire_key id;                                  /* its maker, and the number of the id */
    std::vector<int> members;                     /* addresses; empty until all have met */
    uint64_t issued = 0, started = 0, ended = 0;  /* bundles */
    uint64_t n_collectives = 0, next_collective = 0;
    std::vector<uint64_t> n_sent, n_received, next_sent, next_received;   /* messages, by peer: issued, and in flight */
    std::vector<std::function<void()>> postponed; /* calls that a non-blocking communicator makes in the next look() */
    bool used = false;
    double meets_s;                               /* members meet no sooner */
};

static inline wire_key nccl_key(const ncclComm *c, wire_kind kind) { return {c->id.address, c->id.number, kind}; }
/** Set an error that later calls on the communicator return. */
void nccl_break(ncclComm *, ncclResult_t, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t nccl_type_bytes(ncclDataType_t);
const char *nccl_kind_name(int kind);
/** Advance a bundle at the head of its stream; true when it is done. */
bool nccl_bundle_step(ncclComm *, nccl_bundle *);
