/* Check accepted options: each value's text is legal, and reading it again gives the same value. */
#pragma once

#include "lib/base/option.h"

void options_must_read_again(const struct options *);
