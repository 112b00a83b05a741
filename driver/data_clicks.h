/* trivium data synth-clicks and data criteo: files of clicks. */
#pragma once

#include "lib/base/status.h"
#include "lib/data/data.h"

#include <stdbool.h>

/** Is this word one of the two commands? */
bool data_clicks_is(const char *word);
/** Run the command argv[0]. @errors E_USAGE, E_DATA, E_FORMAT, E_IO, E_MEMORY */
enum status data_clicks(int argc, char **argv);
/** Print what `data inspect` shows of a file of clicks. */
void data_clicks_print(const struct data_file *);
