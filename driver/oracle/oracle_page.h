/* A check as a page, DIR/check.html, and all its numbers in DIR/check.json. */
#pragma once

#include "oracle/suspect.h"

/** Make DIR if it does not exist, and write both files. n: the number of suspects. @errors E_IO, E_MEMORY
 *  @collective{none} */
enum status oracle_page_write(const char *dir, const struct check *, const struct suspicion *, int n);
