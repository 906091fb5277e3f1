/* form.h - terms of the gradients' text form (docs/ir.md, "Gradients") made into nodes: private to src/train.
 *
 * A form is a name, a number, or a list: of an operator with attributes by name and operands, or of a head, which a
 * function of ours writes out in operators. Forms are ours, not the user's: one that is wrong is HYP_ERR_INTERNAL,
 * which tests look for.
 */
#ifndef HYP_TRAIN_FORM_H
#define HYP_TRAIN_FORM_H

#include "train/build.h"

typedef struct hyp_form_name {
    const char *name;
    size_t length;         /* of the name, which may be part of a longer text */
    hyp_value_id value;    /* HYP_NO_VALUE: an input that is absent */
    const hyp_sexpr *form; /* not NULL: what the name stands for, made when it is read */
} hyp_form_name;

typedef struct hyp_form_made {
    const hyp_sexpr *form;
    hyp_value_id value;
} hyp_form_made;

/* What the names in a form mean. */
typedef struct hyp_scope {
    hyp_builder *b;
    hyp_node node;     /* whose gradient it is: attributes by name, and what heads ask of; all zeros elsewhere */
    uint32_t input;    /* of the node, by which the gradient is */
    hyp_dtype numbers; /* of a number that stands beside nothing that has a type of numbers */
    HYP_VEC(hyp_form_name) names;
    HYP_VEC(hyp_form_made) made; /* a term that occurs twice is made once */
} hyp_scope;

void hyp_scope_dispose(hyp_scope *s);
void hyp_scope_name(hyp_scope *s, const char *name, hyp_value_id value);
/* Names the inputs of the node as its row's documentation does, "(a b c): ...", or the only one x. */
void hyp_scope_name_inputs(hyp_scope *s);
/* Names a constant in the type of the scope's numbers. */
void hyp_scope_name_number(hyp_scope *s, const char *name, double value);
/* The value of a name, HYP_NO_VALUE for one that is absent or unknown. */
hyp_value_id hyp_scope_find(hyp_scope *s, const char *name);

/* The forms of a text, in the builder's arena; NULL after a failure. */
const hyp_sexpr *hyp_form_read(hyp_builder *b, const char *text);
hyp_value_id hyp_form_build(hyp_scope *s, const hyp_sexpr *form);
/* The form of a text, which may begin with (let NAME FORM)... for it. */
hyp_value_id hyp_form_text(hyp_scope *s, const char *text);
/* Whether a form is (let NAME FORM); `s` not NULL: and gives the name its meaning. */
bool hyp_form_is_let(hyp_scope *s, const hyp_sexpr *form);
bool hyp_form_equal(const hyp_sexpr *a, const hyp_sexpr *b);

/* ---- heads: heads_*.c ------------------------------------------------------------------------------- */

/* Gives the value of (head argument...). */
typedef hyp_value_id hyp_head_fn(hyp_scope *s, const hyp_value_id *args);

#define HYP_HEADS(X)                                                                                                   \
    /* name, number of arguments, function */                                                                          \
    X("fit", 2, fit)                   /* (fit v g): g summed and repeated to the shape of v */                        \
    X("reshape-to", 2, reshape_to)     /* (reshape-to v g): g with the shape of v */                                   \
    X("zeros", 1, zeros)               /* zeros of the type of v */                                                    \
    X("given", 2, given)               /* (given g y): g, or zeros of the type of y where it is absent */              \
    X("like", 2, like)                 /* (like v w): w in the element type of v */                                    \
    X("rows", 1, rows)                 /* as a matrix: all axes but the last by the last */                            \
    X("keep", 1, keep)                 /* what was reduced along `axes`, with axes of size 1 in their place */         \
    X("ratio", 2, ratio)               /* (ratio v w): elements of v for each of w, a scalar of the type of w */        \
    X("over-root", 1, over_root)       /* g / (2 y), of a square root; 0 where y is the length of zeros */              \
    X("others", 1, others)             /* for each element the product of the others along `axes` */                   \
    X("untranspose", 1, untranspose)   /* the permutation of the node undone */                                        \
    X("part", 1, part)                 /* of a concat: what came from the input at hand */                             \
    X("join", 0, join)                 /* of a split: the gradients of its results in a row */                         \
    X("unslice", 1, unslice)           /* put where a slice took from, zeros elsewhere */                              \
    X("ungather", 1, ungather)         /* added where a gather took from */                                            \
    X("from-first-axis", 1, from_first_axis) /* indices behind batch axes, with the places along these in front of them */ \
    X("unpooled", 1, unpooled)         /* taken from where a max-unpool put it */                                      \
    X("of-updates", 1, of_updates)     /* of a cache: taken from where updates went */                                 \
    X("off-on", 1, off_on)             /* of a one-hot: summed where there is the one value, and the other */          \
    X("of-matrices", 1, of_matrices)   /* of an affine-grid: by theta */                                               \
    X("unpad", 1, unpad)               /* without what a pad put around */                                             \
    X("unresize", 1, unresize)         /* the transpose of a resize */                                                 \
    X("left-factor", 1, left_factor)   /* of a product: the gradient by a */                                           \
    X("right-factor", 1, right_factor) /* by b */                                                                      \
    X("power-slope", 0, power_slope)   /* b a^(b - 1) */                                                               \
    X("conv-data", 1, conv_data)       /* of a convolution: by x */                                                    \
    X("conv-weights", 2, conv_weights) /* (conv-weights x g): by w */                                                  \
    X("conv-transpose-data", 1, conv_transpose_data)       /* of its transpose: by x */                                \
    X("conv-transpose-weights", 2, conv_transpose_weights) /* (conv-transpose-weights g x): by w */                    \
    X("of-channels", 2, of_channels)             /* (of-channels v x): a number for each channel of x, to broadcast */   \
    X("channel-sum", 1, channel_sum)             /* summed over all axes but the second */                             \
    X("max-pool-back", 1, max_pool_back)         /* added where the largest were */                                    \
    X("average-pool-back", 1, average_pool_back) /* shared among each window */                                        \
    X("window-sum-back", 1, window_sum_back)     /* added to all of each window */                                     \
    X("states-before", 2, states_before)             /* (states-before y h): of a recurrence, at each time */           \
    X("lstm-cells", 0, lstm_cells)                   /* of all times */                                                \
    X("recurrent-back", 2, recurrent_back)           /* (recurrent-back before cells): by x */                         \
    X("recurrent-weights", 2, recurrent_weights)     /* (recurrent-weights before d): by r */                          \
    X("recurrent-first", 1, recurrent_first)         /* by the first state */                                          \
    X("recurrent-first-cell", 1, recurrent_first_cell)                                                                 \
    X("recurrent-bias", 1, recurrent_bias)             /* of a GRU's candidate */                                      \
    X("recurrent-peepholes", 2, recurrent_peepholes)   /* (recurrent-peepholes d cells) */                             \
    X("channels-around", 1, channels_around)     /* the mean over `size` channels around each */                       \
    X("channels-opposite", 1, channels_opposite) /* the transpose of that */

#define X(name, count, function) hyp_head_fn hyp_head_##function;
HYP_HEADS(X)
#undef X

/* An axis attribute of the node, counted from the start in a tensor of this rank. */
static inline int32_t hyp_scope_axis(const hyp_scope *s, uint32_t attr, int32_t rank)
{
    int64_t axis = s->node.attrs[attr].i;
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

#endif
