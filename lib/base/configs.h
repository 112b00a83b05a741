/* The project's folder configs/: examples, clusters, the demonstration's text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Find configs/NAME ("clusters/dgx-a100.ini") in the project that this executable was built in, else in the current
 *  directory. @param path written: where it is, or where it is missing in the current directory
 *  @return whether it is there  @collective{none} */
bool configs_find(const char *name, char *path, size_t size);
