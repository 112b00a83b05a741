/* Messages between workers and servers of an asynchronous run: a server's shard of every param, and a header.
 *
 *   message of server k:  [ its part of param 0 | of param 1 | ... | clock | version of server 0 | of server 1 | ... ]
 *
 * A push has gradients, the worker's clock, and the versions of the weights of these gradients. An answer has weights
 * and the server's version of them. Each has S_k + 8 (1 + P) bytes, for S_k bytes of shard and P servers. Room for
 * messages is role comm:
 *
 *   worker  a message of each server's shard, for the push and then for the answer
 *   server  a message for each worker; on a rank that also works, a copy of its weights, because the worker's weights
 *           must not change during a step */
#pragma once

#include "dp_variants/server/server.h"

/** Bytes of server k's shard; the offset of the header in its message; bytes of the message. Pure. @collective{none} */
int64_t server_shard_bytes(const struct program *, int k, int n_servers);
int64_t server_header_at(const struct program *, int k, int n_servers);
int64_t server_message_bytes(const struct program *, int k, int n_servers);

/** Copy server k's part of all weights, or of all gradients, into a message or out of it. @collective{none} */
enum server_array { SERVER_WEIGHTS, SERVER_GRADIENTS };
enum server_way { INTO_MESSAGE, OUT_OF_MESSAGE };
void server_copy_shard(const struct program *, int k, int n_servers, enum server_array, enum server_way, char *message);

/** Take `bytes` of a buffer. @return their offset, the old *end; *end moves past them. Pure. @collective{none} */
int64_t server_take(int64_t *end, int64_t bytes);
/** A rank's bytes of role comm; the bill of its step. Pure. @errors none  @collective{none} */
int64_t server_room_bytes(const struct program *, const struct server_ranks *, int rank);
enum status server_loop_cost(const struct plan *, const struct program *, struct bill *);
