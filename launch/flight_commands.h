/* Commands that read the flight records of a job's ranks (lib/comm/flight/), and disturb no rank. */
#pragma once

/** `trivium postmortem [JOB|DIR] [--json]`: compares the records of all ranks (lib/comm/flight/postmortem.h). JOB: a
 *  job on this host, running or dead (default: the newest). DIR: a folder in which `launch` keeps a failed job's
 *  records. @return the exit code */
int postmortem_main(int argc, char **argv);
/** `trivium watch [JOB] [--once] [--json] [--metrics FILE]`: prints a running job as a table, from its records and its
 *  metrics, once a second until the job ends. @return the exit code */
int watch_main(int argc, char **argv);
