/* `trivium schedule`: a pipeline schedule in letters or as a picture, and its closed forms. */
#pragma once

#include "driver/chart/schedule_chart.h"

/* MiB of a message, and of the activations that a stage keeps of a microbatch. */
struct schedule_sizes { double message, activations; };

/** Print every schedule with the shape and times of `like` in one table, or the reason why it does not allow the shape.
 *  @errors E_INTERNAL, E_MEMORY */
enum status schedule_all(const struct schedule_chart *like, const struct schedule_sizes *);

/** `trivium schedule --schedule NAME --pp P --microbatches M [--chunks V] [--json] [--svg FILE]`: check, time and draw
 *  a pipeline schedule; no device, no peers. Returns the exit code. */
int schedule_main(int argc, char **argv);
