/* How certain a search's answer is.
 *
 *   tied      half of the published step times are predicted within MODEL_ERROR (README), so a layout within that of
 *             the best may be better. Among tied layouts, the one that needs least memory comes first
 *   tipping   three assumptions are uncertain: the outermost wire, the products' efficiency, and the memory outside the
 *   points    plan. For each, the nearest value at which another one of the kept layouts wins */
#pragma once

#include "planner/search.h"

#define MODEL_ERROR 0.033

/** Sort the tied layouts by memory, then the others by step. @return the number of tied layouts */
int explain_order(struct search *);

enum assumption { ASSUME_WIRE, ASSUME_PRODUCTS, ASSUME_RESERVE, N_ASSUMPTIONS };
/* wire: bytes a second; products: part of the peak; reserve: bytes. `other` wins above `beyond` if beyond > now, else
 * below it. beyond 0: no value from a quarter to four times `now` changes the winner. */
struct tipping { double now, beyond; struct layout other; };

/** Tipping points of a search's shortest step. Kept layouts are priced again on changed clusters.
 *  @errors those of price_plan; E_MEMORY  @collective{none} */
enum status explain_tipping(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *,
                            const struct search *, struct tipping out[N_ASSUMPTIONS]);
