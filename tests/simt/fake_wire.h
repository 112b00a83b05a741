/* Messages between members of NCCL's fake. An *address* is a process; messages of one key between two
 * addresses arrive in the order in which they were sent.
 *
 *   MPI      the default: the address is the rank in a communicator of the fakes' own (fake_mpi.h)
 *   files    where ranks are started without MPI (`launch --comm-transport direct`): SIMT_WIRE=FOLDER, the address is
 *            the process id, a message is a file that its receiver removes. A process that dies leaves its files
 *
 * SIMT_MEETING=SECONDS: making a communicator takes this time, as with NCCL.
 * A peer that dies is silent, as over NVLink. With SIMT_DEATHS=seen its death is reported, as by NCCL's
 * network connections. */
#pragma once

#include "tests/simt/fake_mpi.h"

#include <stddef.h>
#include <string>
#include <vector>

typedef std::vector<char> bytes_t;

enum wire_kind { WIRE_CARD, WIRE_TABLE, WIRE_COLLECTIVE, WIRE_MESSAGE, WIRE_KINDS };
/* The conversation of a communicator: its id was the `number`th that `address` made. */
struct wire_key { int address, number, kind; };
struct wire_sent { MPI_Request request; std::string path; };

enum { WIRE_ANY = -1 };

bool wire_is_open(void);
int wire_self(void);
/** Send a small message; it has left on return. */
void wire_post(const wire_key &, int to, const void *at, size_t bytes);
/** Start a send. until_taken: it is complete when the receiver has taken it, else as soon as the bytes may change. The
 *  bytes must stay until wire_has_left returns true. */
wire_sent wire_send(const wire_key &, int to, const bytes_t &, bool until_taken);
bool wire_has_left(wire_sent &);
/** Take a message if one is there. */
bool wire_take(const wire_key &, int from, bytes_t &out);
bool wire_is_dead(int address);
