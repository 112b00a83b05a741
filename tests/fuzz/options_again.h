/* What holds of options that were accepted: each value's text is legal, and read again it is the same value. */
#ifndef TRIVIUM_TESTS_FUZZ_OPTIONS_AGAIN_H
#define TRIVIUM_TESTS_FUZZ_OPTIONS_AGAIN_H

#include "lib/base/option.h"

void options_must_read_again(const struct options *);

#endif
