/* nearby.h - a choice of the e-graph, and choices that differ from it near one e-node: what parts.c and undo.c share.
 *
 * The best choice without one of the chosen e-nodes differs from the chosen one around it; the best without that one
 * and without one that took its place is the next, and so on (Lawler 1972). Only classes a few steps from the e-node
 * may change, so that each of these is found in little time. */
#ifndef HYP_REWRITE_NEARBY_H
#define HYP_REWRITE_NEARBY_H

#include "egraph/extract/memo.h"
#include "rewrite/internal.h"

/* Choices that are looked for around one e-node: for each form that is wanted, and at most. */
enum { HYP_NEAR_EACH = 4, HYP_NEAR_CHOICES = HYP_NEAR_EACH * (HYP_REWRITE_FORMS - 1) };

/* A choice of the whole, and the part of it that is being compared. */
typedef struct hyp_rw_form {
    hyp_enode_id *choice;  /* by class */
    bool *needed, *inside; /* by class: by the outputs; of the part */
    hyp_enode_id *without; /* e-nodes that it was to do without */
    size_t without_count;
    double cost;               /* of what may have changed */
    bool seen, kept, followed; /* followed: what is next best to it was looked for */
    hyp_graph graph;           /* of the part */
    hyp_rewrite_price price;
} hyp_rw_form;

typedef struct hyp_rw_chooser {
    hyp_rw *rw;
    hyp_rw_weigh *weigh;
    const hyp_rewrite_options *options;
    const hyp_rw_rules *rules;
    double seconds; /* of the whole plan */
    double *cost;   /* by e-node; NAN: not asked for */
    bool *out;      /* by e-node: not to be taken */
    bool *tried;    /* by e-node */
    hyp_extraction *choice;
    hyp_rw_form forms[HYP_NEAR_CHOICES + 1]; /* the first is what is chosen */
    size_t form_count, extracted;            /* extracted: choices that were looked for, found or not */
    size_t most;                             /* forms that are asked about */
    /* By class. */
    uint8_t *near;       /* of what is chosen: how far it is from what is tried, which has most; 0: too far to change */
    bool *above;         /* of what is chosen: it needs something near */
    bool *given;         /* what is chosen and neither: it stays as it is, and is there for whatever needs it */
    bool *read;          /* from outside of the part */
    hyp_class_id *order; /* what is chosen, each class after what it needs */
    hyp_class_id *roots; /* what is near, and read from further off or by nobody */
    hyp_class_id *outputs, *stack, *spare;
    size_t order_count, root_count, output_count, bound;
    /* What is chosen, as edges: what order[i] reads is kids[kid_at[i] .. kid_at[i + 1]), and what reads class c, once for
     * each place, readers[reader_at[c] .. reader_at[c + 1]). */
    uint32_t *kid_at, *reader_at, *place; /* place: by class, in order */
    HYP_VEC(hyp_class_id) kids, readers;
    hyp_extract_memo *memo; /* choices that were looked for: what the graph repeats is looked for once */
    uint64_t work;
    hyp_arena arena;
    hyp_diag *diag;
} hyp_rw_chooser;

/* Fills what is not set of a chooser, whose `choice`, `weigh` and `most` are. */
HYP_NODISCARD hyp_status hyp_near_open(hyp_rw_chooser *h);
void hyp_near_close(hyp_rw_chooser *h); /* also after a failure, and of one that was never opened */
void *hyp_near_zeros(hyp_rw_chooser *h, size_t count, size_t size); /* NULL: h->weigh->status says so */

/* The class of output i of the graph, and what the e-node reads that a form has for a class. */
hyp_class_id hyp_near_root(const hyp_rw_chooser *h, size_t i);
const hyp_class_id *hyp_near_kids(const hyp_rw_chooser *h, const hyp_rw_form *f, hyp_class_id c, size_t *out_count);
/* Marks what the outputs need; `order` gets it, each class after what it needs. Returns how many these are. */
size_t hyp_near_walk(hyp_rw_chooser *h, hyp_rw_form *f, hyp_class_id *order);
double hyp_near_price(hyp_rw_chooser *h, hyp_enode_id node);
/* Whether a plan may do without the e-node that a form has for a class, as far as one can see without trying. */
bool hyp_near_is_worth_trying(hyp_rw_chooser *h, const hyp_rw_form *f, hyp_class_id c);

/* From here on choices may differ from the chosen one, the only form that is left, near this class. */
void hyp_near_begin(hyp_rw_chooser *h, hyp_class_id c);
/* Adds the best choice without what a form does without and without one e-node more, unless it is there. */
HYP_NODISCARD hyp_status hyp_near_without(hyp_rw_chooser *h, const hyp_rw_form *from, hyp_enode_id node);
/* Makes a form what is chosen. What it does without stays out, and what was looked for next to it was compared. */
HYP_NODISCARD hyp_status hyp_near_take(hyp_rw_chooser *h, const hyp_rw_form *f);

#endif
