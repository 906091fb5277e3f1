#include "codegen/target.h"

#include <stddef.h>
#include <string.h>

static const hyp_target targets[] = {
    /* its library packs weights as it likes, and its caches make short copies cheap */
    {.name = "cpu", .profile = "cpu"},
    /* warps read rows of weights whole, and every launch costs */
    {.name = "cuda",
     .profile = "h200",
     .stores_weights_by_rows = true,
     .joins_norm_and_linear = true,
     .reads_rows_in_place = true,
     .reads_keys_in_parts = true},
};

const hyp_target *hyp_target_at(int i)
{
    return i >= 0 && (size_t)i < sizeof targets / sizeof *targets ? &targets[i] : NULL;
}

const hyp_target *hyp_target_find(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}
