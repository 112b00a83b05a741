/* Which leaks count: the project's own, not those of MPI's start and end. */
#pragma once

/** Memory allocated from here to sanitizer_watch_leaks may stay allocated. */
void sanitizer_ignore_leaks(void);
/** Once the world has started. */
void sanitizer_watch_leaks(void);
