/* step.h - the parts of a training step: private to src/train. */
#ifndef HYP_TRAIN_STEP_H
#define HYP_TRAIN_STEP_H

#include "train/form.h"
#include "train/train.h"

/* ---- loss.c ----------------------------------------------------------------------------------------- */

typedef enum hyp_loss_kind { HYP_LOSS_OUTPUT, HYP_LOSS_MSE, HYP_LOSS_CROSS_ENTROPY, HYP_LOSS_BCE } hyp_loss_kind;

hyp_loss_kind hyp_loss_find(const char *name);
/* The name and type of the further input that a loss of this kind reads, NULL for none; x: type of what it reads of the
 * model. HYP_ERR_INVALID_ARGUMENT where no x of this type fits. */
HYP_NODISCARD hyp_status hyp_loss_input(hyp_loss_kind kind, const hyp_graph *g, const hyp_train_options *o,
                                        const hyp_type *x, const char **out_name, hyp_type *out_type, hyp_diag *diag);
/* The loss of x, a scalar of f32 or f64, and its gradient by x, of its type, times `scale`. A cross-entropy knows the first
 * `classes` of x, which may have been widened. */
void hyp_loss_build(hyp_builder *b, hyp_loss_kind kind, const hyp_train_options *o, hyp_value_id x, hyp_dim classes,
                    hyp_value_id target, double scale, hyp_value_id *out_loss, hyp_value_id *out_gradient);

/* ---- classes.c -------------------------------------------------------------------------------------- */

/* The logits of a cross-entropy, which nothing else reads, with classes behind them that have no probability, as many as make
 * products of 16 bits fast; the same value where they are. */
hyp_value_id hyp_classes_widen(hyp_builder *b, const hyp_train_options *o, hyp_value_id logits);

/* ---- dropout.c -------------------------------------------------------------------------------------- */

/* What all dropouts of a step share. */
typedef struct hyp_dropout {
    hyp_value_id seed;     /* an input: an i64 scalar */
    hyp_value_id training; /* an input: a bool scalar; false: nothing is dropped */
    hyp_value_id draws;    /* a variable: an i64 scalar, the number of steps before this one */
    int64_t streams;       /* dropouts so far, each of which has a stream of its own */
} hyp_dropout;

/* HYP_ERR_INVALID_ARGUMENT where the model has no dropout that drops anything. */
HYP_NODISCARD hyp_status hyp_dropout_check(const hyp_graph *model, hyp_diag *diag);
/* What node n of a model gives for x in a step: x without the part that its ratio says, the rest divided by 1 - ratio.
 * HYP_NO_VALUE where it is no dropout that drops anything. */
hyp_value_id hyp_dropout_build(hyp_builder *b, hyp_dropout *d, const hyp_node *n, hyp_value_id x);
/* What `draws` becomes. */
hyp_value_id hyp_dropout_count(hyp_builder *b, const hyp_dropout *d);

/* ---- optimizer.c ------------------------------------------------------------------------------------ */

typedef enum hyp_optimizer_kind {
    HYP_OPTIMIZER_NONE,
    HYP_OPTIMIZER_SGD,
    HYP_OPTIMIZER_ADAM,
    HYP_OPTIMIZER_ADAMW
} hyp_optimizer_kind;

/* HYP_ERR_INVALID_ARGUMENT: there is none of the name, or a number is out of its range. */
HYP_NODISCARD hyp_status hyp_optimizer_find(const hyp_train_options *o, hyp_optimizer_kind *out, hyp_diag *diag);

typedef struct hyp_update {
    hyp_value_id before, after; /* of a variable */
} hyp_update;

typedef struct hyp_parameter {
    const char *name;
    hyp_value_id before;   /* the variable's value before the step */
    hyp_value_id gradient; /* of its type */
} hyp_parameter;

/* What all updates share. */
typedef struct hyp_optimizer {
    hyp_builder *b;
    const hyp_train_options *o;
    hyp_optimizer_kind kind;
    hyp_value_id rate;   /* f32 scalar */
    hyp_value_id norm;   /* of all gradients, HYP_NO_VALUE: not wanted */
    hyp_value_id finite; /* a bool: whether anything changes; HYP_NO_VALUE: always */
    hyp_value_id step_size, root,
        decay; /* f64 scalars of adam and adamw: lr / (1 - beta1^t), sqrt(1 - beta2^t), 1 - lr decay */
    HYP_VEC(hyp_update) updates;
} hyp_optimizer;

/* Gradients divided by the loss scale and clipped, in place, and of the parameters' types still. */
void hyp_optimizer_prepare(hyp_optimizer *opt, hyp_parameter *parameters, size_t count);
/* The variables besides the parameters, and what each becomes: `updates`. All shown inputs are there. */
void hyp_optimizer_update(hyp_optimizer *opt, const hyp_parameter *parameters, size_t count);

#endif
