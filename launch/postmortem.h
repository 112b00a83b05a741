/* `trivium postmortem`: compares the flight records of a job's ranks (lib/comm/flight/postmortem.h). */
#pragma once

/** `trivium postmortem [JOB|DIR] [--json]`. JOB: a job on this host, running or dead (default: the newest). DIR: a
 *  folder in which `launch` keeps a failed job's records. Reads only. @return the exit code */
int postmortem_main(int argc, char **argv);
