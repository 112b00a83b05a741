/* A page of pictures and tables in HTML, which is well-formed XML. It needs no other file, no network and no script.
 * What a person or a file could have named has to be escaped (driver/chart/markup.h). */
#ifndef TRIVIUM_DRIVER_PAGE_H
#define TRIVIUM_DRIVER_PAGE_H

#include "lib/base/status.h"
#include <stdio.h>

/** The head, and the title once more as a heading. page_close ends the page. */
void page_open(FILE *, const char *title);
void page_close(FILE *);

/* A heading, what it means, and a picture, which is a file of its own as well: NAME.svg. */
struct page_picture {
    const char *name, *heading, *meaning;
    enum status (*draw)(const void *self, FILE *);   /* one <svg>; nothing: there is no such picture this time */
};
/** Put a picture into the page, and beside it into `dir`; what an earlier run has left there goes.
 *  @errors those of draw; E_IO, E_MEMORY  @collective{none} */
enum status page_add(FILE *page, const char *dir, const struct page_picture *, const void *self);

/** Write DIR/NAME by write(self, f), which does not see whether writing fails; the file is replaced when it is whole.
 *  @errors those of write; E_IO, E_MEMORY  @collective{none} */
enum status page_write(const char *dir, const char *name, enum status (*write)(const void *self, FILE *),
                       const void *self);

#endif
