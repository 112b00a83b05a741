/* Leaks of the project count, those of MPI's start and end do not. */
#pragma once

/** Memory allocated after this call, and before sanitizer_watch_leaks, may stay allocated. */
void sanitizer_ignore_leaks(void);
/** Call when the world has started: leaks count from here. */
void sanitizer_watch_leaks(void);
