/* `trivium show`: what a run would do, as tables: no device, no peers. */
#ifndef TRIVIUM_DRIVER_SHOW_H
#define TRIVIUM_DRIVER_SHOW_H

/** `trivium show program|types|memory|mesh|comm|options [options] [--json] [--rank R]`: tables on standard output; no
 *  device, no peers.
 *  @return the exit code  @collective{none} */
int show_main(int argc, char **argv);

#endif
