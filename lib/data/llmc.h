/* The constants of llm.c's .bin format (see llmc.c), for its reader and its writer. */
#pragma once

#include <stdint.h>

enum { LLMC_HEADER_BYTES = 256 * 4, LLMC_MAGIC_U16 = 20240520, LLMC_VERSION_U16 = 1, LLMC_MAGIC_U32 = 20240801,
       LLMC_VERSION_U32 = 7 };
struct llmc_header { int32_t magic, version, n_tokens; };
