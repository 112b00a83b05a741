#ifndef TRIVIUM_DRIVER_SCHEDULE_H
#define TRIVIUM_DRIVER_SCHEDULE_H

/** `trivium schedule --schedule NAME --pp P --microbatches M [--chunks V] [--json] [--svg FILE]`: a pipeline schedule
 *  checked, run against a clock, and drawn; no device, no peers. Returns the exit code. */
int schedule_main(int argc, char **argv);

#endif
