/* `trivium watch`: a running job as a table, from its ranks' flight records (lib/comm/flight/) and its metrics. */
#pragma once

/** `trivium watch [JOB] [--once] [--json] [--metrics FILE]`: prints once a second until the job ends. Reads only; ranks
 *  do not notice it. @return the exit code */
int watch_main(int argc, char **argv);
