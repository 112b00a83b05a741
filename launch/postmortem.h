/* `trivium postmortem`: compares the flight records of a job's ranks (lib/comm/flight/postmortem.h). */
#pragma once

/** `trivium postmortem [JOB|DIR] [--json]`: for a job on this host, running or dead ("": the newest), or for a folder
 *  where `launch` has put its records. Reads only. @return the exit code */
int postmortem_main(int argc, char **argv);
