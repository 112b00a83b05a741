/* What `plan` and `compare` say and draw of a pipeline: a row of driver/recipe.c's, gone with pp. */
#pragma once

#include "driver/recipe.h"

extern const struct pipeline_views pipeline_views;
