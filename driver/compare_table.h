/* The comparison for people: a table of memory, a table of speed, and what to read off. */
#ifndef TRIVIUM_DRIVER_COMPARE_TABLE_H
#define TRIVIUM_DRIVER_COMPARE_TABLE_H

#include "driver/compare_row.h"
#include <stdio.h>

void compare_table_print(FILE *, const struct compare_row *rows, int n_rows);

/** "12.34" of so many bytes: MiB with about four digits. */
void compare_mib(double bytes, char *text, size_t text_bytes);

#endif
