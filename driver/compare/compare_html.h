/* The comparison as one page, DIR/report.html: what was run, the tables, the pictures. It needs no other file, no
 * network and no script, and is well-formed XML. Everything that a person or a file could have named is escaped. */
#ifndef TRIVIUM_DRIVER_COMPARE_HTML_H
#define TRIVIUM_DRIVER_COMPARE_HTML_H

#include "driver/compare/compare_row.h"

/* What was run. */
struct compare_about {
    const struct options *options;       /* what all strategies have in common; NULL: not said */
    int n_strategies;                    /* asked for */
    char date[32], machine[256];
};

/** Now, and this machine: processor, cores, ranks, MPI.  @collective{none} */
void compare_about_here(struct compare_about *);

/** Replace the page; of the strategies asked for the first n_rows are done. @errors E_IO, E_MEMORY 
 *  @collective{none} */
enum status compare_html_write(const char *dir, const struct compare_about *, const struct compare_row *, int n_rows);

#endif
