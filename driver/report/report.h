/* The report of a command: JSON, and one page that draws the JSON.
 *
 * DIR/NAME.html is the template of driver/report/page with the JSON of DIR/NAME.json inside; the page needs no other
 * file and no network. Its scripts make tables and pictures, chosen by "kind". Vega draws the pictures; the build puts
 * Vega into the template if its package is installed. Without Vega a page has tables only, and report_pictures prints
 * how to install it. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/** Make the directory and its parents, and check that files can be written there. Existing files stay.
 *  @errors E_IO with path and reason  @collective{none} */
enum status report_prepare(const char *dir);

/** Write a file of the report to a temporary file, and rename it when it is complete. write(f, self) returns 0 on
 *  success.
 *  @errors E_IO  @collective{none} */
typedef int report_writer(FILE *, const void *self);
enum status report_replace(const char *dir, const char *name, report_writer *write, const void *self);

/** Replace DIR/NAME.json and DIR/NAME.html, the page of this JSON.
 *  @param json its "kind" is one of PAGES (page/figures.js); always released; NULL: E_MEMORY
 *  @param flags of jansson, for the file
 *  @errors E_MEMORY, E_IO  @collective{none} */
enum status report_write(const char *dir, const char *name, json_t *json, size_t flags);

/** report_prepare, then report_write; then, unless `quiet`, report_pictures.
 *  @param json as in report_write  @errors as report_prepare and report_write  @collective{none} */
enum status report_page(const char *dir, const char *name, json_t *json, bool quiet);

/** Does this build have Vega? */
bool report_has_pictures(void);
/** Print "pictures: DIR/NAME.html", or without Vega the command that installs it. */
void report_pictures(const char *dir, const char *name);

/** A text as JSON; markup_plain replaces bytes that are not UTF-8. NULL: no memory */
json_t *report_text(const char *text);
/** A number as JSON; null if it is not finite. */
json_t *report_number(double x);
/** The text that print(f, self) writes, as JSON. NULL: no memory */
json_t *report_words(void (*print)(FILE *, const void *self), const void *self);

/* The page around its JSON, zero-terminated (the end of report.c). */
extern const char report_template[];
