/* Weights that are gathered as codes. See zero_quantized.c. */
#pragma once

#include "lib/comm/comm_request.h"
#include "lib/run/technique.h"

/* The code of weights on the wire, which may be none; room (zero_quantized_room_bytes): for the code of one shard. */
struct zero_quantized { struct codec codec; unsigned char *room; };

/** Check a settled plan's --weight-codec. Pure. @errors E_CONFIG with value, limit and remedy */
enum status zero_quantized_check(const struct plan *);
/** The code in which a plan's weights are sent. Pure. */
struct codec zero_quantized_codec(const struct plan *);

/** Bytes of the codes of all shards, which a gather sends; 0: this param is gathered without codes. Pure. */
int64_t zero_quantized_bytes(const struct codec *, const struct program *, const struct param *);
/** Comm memory for `room`; none without a codec. Pure. */
int64_t zero_quantized_room_bytes(const struct codec *, const struct program *);
/** The exchange that gathers a param's codes. Pure. */
struct exchange zero_quantized_exchange(const struct codec *, const struct program *, const struct param *);

/** Encode own (shard_n elements, where it is stored or anywhere in whole) and start the gather of all codes into the
 *  end of whole (padded_n elements). @collective{group} @errors E_COMM */
enum status zero_quantized_start(const struct zero_quantized *, const struct program *, const struct param *,
                                 const struct group *, const void *own, void *whole, struct comm_request *);
/** After the gather: decode all shards into whole, the own shard too; padding is zero. @collective{none} */
void zero_quantized_decode(const struct zero_quantized *, const struct program *, const struct param *, void *whole);
