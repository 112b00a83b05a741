/* `trivium show`: what a run would do, as tables: no device, no peers. */
#pragma once

/** `trivium show program|types|memory|mesh|comm|options [options] [--json] [--rank R]`: tables on standard output; no
 *  device, no peers.
 *  @return the exit code  @collective{none} */
int show_main(int argc, char **argv);
