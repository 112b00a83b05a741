/* The project's folder configs/: examples, clusters, the demonstration's text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** @return the name by which this program was called: "build/trivium", "trivium"  @collective{none} */
const char *configs_program(void);

/** Find configs/NAME ("clusters/dgx-a100.ini") in the project that built this executable, in PREFIX/share/trivium of
 *  one that `make install` has put into PREFIX/bin, then in the current directory.
 *  @param path written: the file's path, or the missing path in the current directory
 *  @return whether the file can be read  @collective{none} */
bool configs_find(const char *name, char *path, size_t size);
