/* target.h - what plans are made for, one row of facts each (target.c): the only place where the compiler knows a device by its
 * name. Costs are no part of it: a profile (rewrite/profile.c) has those, and a target names the one that it starts from.
 */
#ifndef HYP_CODEGEN_TARGET_H
#define HYP_CODEGEN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"

enum { HYP_TARGET_MACHINES = 6 };
typedef struct hyp_target {
    const char *name; /* --target */
    /* What its machines are called, --target NAME:MACHINE, each with its built-in profile; the first is meant where none is
     * named. Plans for one run on all of them: it is the costs that differ. */
    struct hyp_target_machine {
        const char *name, *profile;
    } machines[HYP_TARGET_MACHINES];
    size_t workspace_bytes; /* that a context has for its library, whatever it runs */
    uint32_t streams; /* on which its steps may run side by side, for predictions; 1: one after the other */
    /* It multiplies matrices of integers. */
    bool multiplies_integers;
    /* Constant weights of products are stored [n k], not as the model has them. */
    bool stores_weights_by_rows;
    /* But not those of layers in strict f32 for so many rows, the first and the last number, and more columns than that first
     * one: its library is faster with what the model has if that is [k n]. 0: there are none. */
    int64_t keeps_weights_for[2];
    /* A linear can run the normalization before it, where nothing else reads that. */
    bool joins_norm_and_linear;
    /* Elementwise steps read long rows that lie apart where they are; else a copy brings them together. */
    bool reads_rows_in_place;
    /* Attention of one row reads keys and values of a past where they lie, beside the new ones. */
    bool reads_keys_in_parts;
    /* It convolves images with their channels last, and turns those that lie otherwise (plan/channels_last.h). */
    bool turns_images;
    /* It runs loops trip by trip. */
    bool runs_loops;
} hyp_target;

/* NULL when there is none of this name. */
const hyp_target *hyp_target_find(const char *name);
/* The target and the built-in profile of "NAME" or "NAME:MACHINE"; of "cpu:native", those of the processor here.
 * HYP_ERR_INVALID_ARGUMENT for what there is not. */
HYP_NODISCARD hyp_status hyp_target_parse(const char *text, const hyp_target **out, const char **out_profile, hyp_diag *diag);

#endif
