/* A check as a page, DIR/check.html, with a map of the steps (DIR/map.svg), and all its numbers in DIR/check.json. */
#ifndef TRIVIUM_DRIVER_ORACLE_ORACLE_PAGE_H
#define TRIVIUM_DRIVER_ORACLE_ORACLE_PAGE_H

#include "oracle/suspect.h"
#include <stdio.h>

struct oracle_page { const struct check *check; const struct suspicion *suspect; int n_suspects; };

/** "transformer.h.3.mlp.c_fc.weight.grad" -> 3; -1: it is of no layer. */
int oracle_layer_of(const char *name);

/** Make DIR if need be, and write the page, the picture and the numbers. @errors E_IO, E_MEMORY  @collective{none} */
enum status oracle_page_write(const char *dir, const struct oracle_page *);

/** A row a layer, four columns a step: how many times too far the worst tensor of the cell is. One <svg>.
 *  @errors E_MEMORY  @collective{none} */
enum status oracle_map_svg(const struct check *, FILE *);

#endif
