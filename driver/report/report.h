/* What a command writes into a folder: JSON, and one page that draws it.
 *
 * DIR/NAME.html is the template of driver/report/page with the JSON of DIR/NAME.json inside: it needs no other file and
 * no network. Its scripts make tables and pictures, by "kind"; Vega draws, which the build puts into the template where
 * its package is installed. Without it a page has its tables, and report_pictures says what to do. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/** Make the directory, and its parents, and see that files can be written there; what is in it is left as it is.
 *  @errors E_IO with path and reason  @collective{none} */
enum status report_prepare(const char *dir);

/** Write a file of the report: to a temporary file first, renamed when it is complete. write(f, self) returns other
 *  than 0 when it failed.
 *  @errors E_IO  @collective{none} */
typedef int report_writer(FILE *, const void *self);
enum status report_replace(const char *dir, const char *name, report_writer *write, const void *self);

/** Replace DIR/NAME.json and DIR/NAME.html, the page of this JSON.
 *  @param json its "kind" is one of PAGES (page/figures.js); it is released always; NULL: there was no memory
 *  for it
 *  @param flags of jansson, for the file
 *  @errors E_MEMORY, E_IO  @collective{none} */
enum status report_write(const char *dir, const char *name, json_t *json, size_t flags);

/** Make the directory, and write there; print where the pictures are unless `quiet`.
 *  @param json as in report_write  @errors as report_prepare and report_write  @collective{none} */
enum status report_page(const char *dir, const char *name, json_t *json, bool quiet);

/** Was Vega there when this program was built? */
bool report_has_pictures(void);
/** Print "pictures: DIR/NAME.html"; or, without Vega, that the page has none, and the command that installs Vega. */
void report_pictures(const char *dir, const char *name);

/** A text as JSON, its bytes that are not UTF-8 replaced. NULL: no memory */
json_t *report_text(const char *text);
/** A number as JSON; null where it is not finite. */
json_t *report_number(double x);
/** What print(f, self) writes, as a JSON text. NULL: no memory */
json_t *report_words(void (*print)(FILE *, const void *self), const void *self);

/* The page around its JSON, zero-terminated (page_text.c). */
extern const char report_template[];
