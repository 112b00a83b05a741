/* trivium data synth-clicks and data criteo: files of clicks. */
#pragma once

#include "lib/base/status.h"
#include "lib/data/data.h"

#include <stdbool.h>

/** Is this word one of the two commands? */
bool data_clicks_is(const char *word);
/** Run it; argv[0] is the word. @errors E_USAGE, E_DATA, E_FORMAT, E_IO, E_MEMORY */
enum status data_clicks(int argc, char **argv);
/** data inspect, of a file of clicks. */
void data_clicks_print(const struct data_file *);
