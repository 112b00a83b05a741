#ifndef TRIVIUM_DRIVER_PIPELINE_VIEWS_H
#define TRIVIUM_DRIVER_PIPELINE_VIEWS_H

#include "driver/recipe.h"

extern const struct pipeline_views pipeline_views;

#endif
