/* What holds of options that were accepted: each value's text is legal, and read again it is the same value. */
#pragma once

#include "lib/base/option.h"

void options_must_read_again(const struct options *);
