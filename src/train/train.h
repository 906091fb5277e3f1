/* train.h - the backward pass of a graph, and training steps as graphs.
 *
 * Gradients are terms of the operators that there are: the row of an operator in ir/ops.def says them as text, and what
 * shapes decide is written out here (docs/ir.md, "Gradients"). The layer is on ir and base alone.
 *
 * Thread rule: as for graphs, which belong to one thread at a time.
 */
#ifndef HYP_TRAIN_TRAIN_H
#define HYP_TRAIN_TRAIN_H

#include "hypatia/compiler.h"
#include "ir/ir.h"

/* Appends to `g` the nodes that compute the gradients of `loss`, a scalar of floats, by each of the `wrt` values:
 * inputs, constants or results of nodes, of floats. gradients[i], for count values, is of the type of wrt[i], or
 * HYP_NO_VALUE where the loss does not depend on it. Only what lies between them is differentiated. Reverse mode; where
 * a value is read several times, the gradients of its readers are added, the last reader's first. Appended nodes have
 * the sources of the nodes whose gradients they compute, and no rules; nothing of what was there changes, and no
 * outputs are added.
 *
 * Integers and bools carry no gradient, nor does what is constant wherever it is smooth (floor, sign). At kinks
 * gradients are those of PyTorch: relu has 0 at 0, a clip 0 at its bounds, equal operands of a minimum or maximum share
 * theirs.
 *
 * HYP_ERR_UNSUPPORTED lists every node in the way that has no gradient; HYP_ERR_INVALID_ARGUMENT: the loss is no scalar
 * of floats, a value is not of floats or none of the graph. On failure `g` may have more nodes than before, is valid,
 * and computes what it did. */
HYP_NODISCARD hyp_status hyp_differentiate(hyp_graph *g, hyp_value_id loss, const hyp_value_id *wrt, size_t count,
                                           hyp_value_id *gradients, hyp_diag *diag);

/* Whether an operator has a gradient, be it with some attributes alone. */
static inline bool hyp_is_differentiable(hyp_op op) { return hyp_op_get(op)->gradient != NULL; }

/* Makes the step of hyp_train_options from a model: *out, over the same dims, is set on success. Parameters are
 * constants of `model` that are `updatable` and that no pattern of `frozen` fits; an initializer that is not updatable
 * stays a constant. Whoever wants 16 bits gives a model that was demoted (hyp_graph_demote): parameters, loss and
 * update stay as wide as they are there. Data that `model` borrows stay borrowed, data that it owns are copied.
 *
 * HYP_ERR_INVALID_ARGUMENT: an option is out of its range; the loss is unknown, not a scalar or not of floats; the
 * output that it reads is of no shape that fits; there is no parameter; a pattern fits nothing; a name of the model
 * ("loss", "labels") is taken by the step. HYP_ERR_UNSUPPORTED: as hyp_differentiate. Messages say what was found and
 * what to do. */
HYP_NODISCARD hyp_status hyp_train_step(const hyp_graph *model, const hyp_train_options *options, hyp_graph *out,
                                        hyp_diag *diag);

/* Whether a graph has operators that there are for their gradients (batch-norm), and that run as what they are made of. */
bool hyp_has_compositions(const hyp_graph *g);
/* Copies what is live of a graph, with what such operators are made of in their place. *out is set on success; data are
 * borrowed and copied as by hyp_graph_copy_live. */
HYP_NODISCARD hyp_status hyp_write_out(const hyp_graph *in, hyp_graph *out, hyp_diag *diag);

#endif
