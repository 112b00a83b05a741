/* The pipelines of a comparison, under each other in one picture. */
#ifndef TRIVIUM_DRIVER_COMPARE_PIPELINE_H
#define TRIVIUM_DRIVER_COMPARE_PIPELINE_H

#include "driver/compare/compare_row.h"
#include <stdio.h>

/** Two Gantt charts for each row that ran with more than one stage, the schedule as it is predicted and (where it was
 *  traced) as it was; nothing when there is none. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status compare_pipeline_draw(const struct compare_row *, int n_rows, FILE *);

#endif
