/* Files of tokens without a header: u16, as nanoGPT's prepare.py writes them (train.bin), or u32. The file does not
 * record its format, so the reader refuses two likely mistakes: plain text, and u32 tokens read as u16, in which every
 * second number is small. u16 tokens read as u32 give numbers beyond every vocabulary, which data_sample refuses. */
#include "lib/data/data_private.h"

#include <inttypes.h>
#include <string.h>

enum { LOOKED_AT = 1 << 16, LEAST = 64, HIGH = 16 }; /* HIGH: bound of the high halves for vocabularies up to 2^20 */

static uint16_t u16_at(const struct data_map *map, int64_t i) {
    uint16_t x;
    memcpy(&x, map->at + 2 * i, sizeof x);
    return x;
}

static bool are_wider(const struct data_map *map) {
    uint16_t low = 0, high = 0;
    int64_t n = map->bytes < LOOKED_AT ? map->bytes / 2 : LOOKED_AT / 2;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        if (u16_at(map, i) > low) low = u16_at(map, i);
        if (u16_at(map, i + 1) > high) high = u16_at(map, i + 1);
    }
    return map->bytes % 4 == 0 && n >= LEAST && high < HIGH && low >= 16 * HIGH;
}

enum status data_raw_read(struct data_file *f, const struct data_part *part, enum data_element element) {
    const struct data_map *map = &part->map;
    int bytes = data_element_bytes(element);
    const char *name = data_element_name(element);
    if (map->bytes >= LEAST && data_text_is_plain(map, LOOKED_AT))
        return FAIL(E_FORMAT, "%s is text, and cannot be read as %s tokens; leave --data-format out", map->path, name);
    if (map->bytes % bytes)
        return FAIL(E_FORMAT,
                    "%s has %" PRId64 " bytes, which are no %s tokens of %d bytes each; give another "
                    "--data-format, or copy it again",
                    map->path, map->bytes, name, bytes);
    if (element == DATA_U16 && are_wider(map))
        return FAIL(E_FORMAT, "%s: every second u16 is below %d, as of u32 tokens; give --data-format u32", map->path,
                    HIGH);
    f->format = DATA_RAW;
    return data_add(f, map->at, map->bytes / bytes, element);
}
