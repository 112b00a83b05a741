/* `trivium show`: tables of a run's program, memory and messages. */
#pragma once

/** `trivium show program|types|memory|mesh|comm|options [options] [--json] [--rank R]`: print tables; no device, no
 *  peers.
 *  @return the exit code  @collective{none} */
int show_main(int argc, char **argv);
