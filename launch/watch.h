/* `trivium watch`: a running job as a table, from its ranks' flight records (lib/comm/flight/) and its metrics. */
#pragma once

/** `trivium watch [JOB] [--once] [--json] [--metrics FILE]`: prints the table once a second until the job ends. Reads
 *  only, so ranks are not disturbed. @return the exit code */
int watch_main(int argc, char **argv);
