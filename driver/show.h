#ifndef TRIVIUM_DRIVER_SHOW_H
#define TRIVIUM_DRIVER_SHOW_H

/** `trivium show program|memory|mesh|options [options] [--json] [--rank R]`: tables on standard output; no device, no peers. Returns
 *  the exit code. */
int show_main(int argc, char **argv);

#endif
