/* What `plan` and `compare` say and draw of a pipeline: a row of driver/recipe.c's, gone with pp. */
#ifndef TRIVIUM_DRIVER_PIPELINE_VIEWS_H
#define TRIVIUM_DRIVER_PIPELINE_VIEWS_H

#include "driver/recipe.h"

extern const struct pipeline_views pipeline_views;

#endif
