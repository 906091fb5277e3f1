/* target.h - what plans are made for, one row of facts each (target.c): the only place where the compiler knows a device by its
 * name. Costs are no part of it: a profile (rewrite/profile.c) has those, and a target names the one that it starts from.
 */
#ifndef HYP_CODEGEN_TARGET_H
#define HYP_CODEGEN_TARGET_H

#include <stdbool.h>

typedef struct hyp_target {
    const char *name;    /* --target */
    const char *profile; /* built-in, where no other is given */
    /* Constant weights of products are stored [n k], not as the model has them. */
    bool stores_weights_by_rows;
    /* A linear can run the normalization before it, where nothing else reads that. */
    bool joins_norm_and_linear;
    /* Elementwise steps read long rows that lie apart where they are; else a copy brings them together. */
    bool reads_rows_in_place;
    /* Attention of one row reads keys and values of a past where they lie, beside the new ones. */
    bool reads_keys_in_parts;
} hyp_target;

/* By their order in target.c; NULL behind the last. The first is the default. */
const hyp_target *hyp_target_at(int i);
/* NULL when there is none of this name. */
const hyp_target *hyp_target_find(const char *name);

#endif
