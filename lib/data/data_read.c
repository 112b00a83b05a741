/* Choose the reader of a file: the one that the user names, or the first that recognizes its format. Text is no
 * fallback: a file must look like text, unless the user names the format. */
#include "lib/data/data_private.h"
#include "lib/data/megatron.h"

#include <string.h>

typedef enum status reader(struct data_file *, const struct data_part *, bool *mine);

/* Try the readers that recognize a file by its first bytes. */
static enum status read_by_magic(struct data_file *f, const struct data_part *part, bool *mine) {
    static reader *const readers[] = {llmc_read, clicks_read, npy_read};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        TRY(readers[i](f, part, mine));
        if (*mine) return OK;
    }
    return OK;
}

static enum status read_auto(struct data_file *f, const struct data_part *part) {
    bool mine = false;
    TRY(read_by_magic(f, part, &mine));
    if (!mine) TRY(megatron_read(f, part, &mine));
    if (mine) return OK;
    TRY(data_foreign_refuse(&part->map));
    TRY(data_foreign_refuse_wide(&part->map));
    TRY(data_text_check(&part->map));
    return data_text_read(f, part);
}

/* Raw tokens have no magic number. So a file with another format's magic number is refused. */
static enum status read_raw(struct data_file *f, const struct data_part *part, enum data_element element) {
    bool mine = false;
    TRY(read_by_magic(f, part, &mine));
    if (mine)
        return FAIL(E_FORMAT,
                    "%s has a header (%s), and cannot be read as %s tokens without one; leave --data-format out",
                    part->map.path, data_format_name(f), data_element_name(element));
    TRY(data_foreign_refuse(&part->map));
    return data_raw_read(f, part, element);
}

static enum status read_with(struct data_file *f, const struct data_part *part, reader *read, const char *what) {
    bool mine = false;
    TRY(read(f, part, &mine));
    if (mine) return OK;
    return FAIL(E_FORMAT, "%s does not %s; leave --data-format out, and it is recognised by what is in it",
                part->map.path, what);
}

enum status data_read(struct data_file *f, const struct data_part *part, enum data_as as) {
    switch (as) {
    case DATA_AS_AUTO:
        return read_auto(f, part);
    case DATA_AS_TEXT:
        return data_text_read(f, part);
    case DATA_AS_U16:
        return read_raw(f, part, DATA_U16);
    case DATA_AS_U32:
        return read_raw(f, part, DATA_U32);
    case DATA_AS_LLMC:
        return read_with(f, part, llmc_read, "begin as llm.c's tokens do, with the number 20240520 or 20240801");
    case DATA_AS_MEGATRON:
        return read_with(f, part, megatron_read, "lie next to Megatron's index, as NAME.bin and NAME.idx");
    default:
        return read_with(f, part, npy_read, "begin as NumPy's .npy does, with \\x93NUMPY");
    }
}
