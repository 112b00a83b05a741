/* A check as a page, DIR/check.html, and all its numbers in DIR/check.json. */
#pragma once

#include "oracle/suspect.h"
#include <jansson.h>

struct oracle_page { const struct check *check; const struct suspicion *suspect; int n_suspects; };

/** "transformer.h.3.mlp.c_fc.weight.grad" -> 3; -1 if the name has no layer. */
int oracle_layer_of(const char *name);

/** All numbers of a check, and the suspects. NULL: no memory */
json_t *oracle_page_json(const struct oracle_page *);
/** Make DIR if it does not exist, and write both files. @errors E_IO, E_MEMORY  @collective{none} */
enum status oracle_page_write(const char *dir, const struct oracle_page *);
