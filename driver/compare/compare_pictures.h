/* The comparison as pictures: DIR/NAME.svg each, and all of them in DIR/report.html. A row that did not run is in each
 * with its reason.
 *
 * Memory is drawn for the rank whose planned total is largest, so that its roles add up (the table's roles are each the
 * largest of any rank). Times are means over the ranks. */
#ifndef TRIVIUM_DRIVER_COMPARE_PICTURES_H
#define TRIVIUM_DRIVER_COMPARE_PICTURES_H

#include "driver/compare/compare_row.h"
#include <stdio.h>

struct compare_picture {
    const char *name, *heading, *meaning;                            /* of the file; for people */
    /** Write one <svg>, or nothing where no row has what it shows. @errors E_MEMORY */
    enum status (*draw)(const struct compare_row *, int n_rows, FILE *);
};
extern const struct compare_picture compare_pictures[];
extern const int compare_n_pictures;

/** Replace the files. One that would be empty is removed, so that no earlier comparison's stays. @errors E_IO,
 *  E_MEMORY  @collective{none} */
enum status compare_pictures_write(const char *dir, const struct compare_row *, int n_rows);

#endif
