/* windows.h - convolutions in f32: what their kernels share; over 1 or 2 spatial axes that is more. */
#ifndef HYP_RUNTIME_CPU_WINDOWS_H
#define HYP_RUNTIME_CPU_WINDOWS_H

#include "kernels/window.h"
#include "runtime/cpu/cpu.h"

/* The activation that a convolution ends in. */
static inline hyp_block_instr hyp_cpu_conv_act(const hyp_conv *v)
{
    return (hyp_block_instr){.op = (HypPlan__Pointwise__Op)v->act, .p = (float)v->p, .q = (float)v->q, .to = HYP_F32};
}

/* What a convolution, or the transpose of one, is called with. */
typedef struct hyp_cpu_conv_call {
    hyp_call_arguments arguments; /* that conv borrows */
    hyp_conv conv;
    uint32_t x, bias_plus1, added_plus1, y; /* tensors */
    bool x_last, added_last, y_last;        /* their channels are */
    const void *w, *bias;                   /* in the plan; bias NULL: there is none, or it is computed */
} hyp_cpu_conv_call;

/* False where weights are computed or shapes do not fit, which the plain kernel says. */
bool hyp_cpu_take_conv(const hyp_cpu_model *model, const hyp_cpu_op *op, const int64_t *values,
                       const bool *channels_last, hyp_cpu_conv_call *out);

/* What model->grouped has of a step: first a bias for each result. Packed when it is first wanted; NULL from `pack`:
 * memory is out. */
typedef float *hyp_cpu_pack_conv(const hyp_conv *v, const float *w, const float *bias);
HYP_NODISCARD hyp_status hyp_cpu_find_grouped(hyp_cpu_model *model, uint32_t step, const hyp_cpu_conv_call *call,
                                              hyp_cpu_pack_conv *pack, const float **out, hyp_diag *diag);

enum { HYP_Y, HYP_X }; /* spatial axes, innermost last */

typedef struct hyp_cpu_conv {
    uint32_t x, added_plus1, y;      /* tensors */
    bool x_last, added_last, y_last; /* their channels are */
    int64_t x_apart, y_apart; /* floats from place to place of those that are: their channels, or more, in rows of others */
    bool moves_added; /* y takes its place and lies otherwise: it is turned before, and lies like y then */
    hyp_block_instr act;
    const float *w, *bias; /* in the plan; bias may be NULL */
    int64_t batch, groups, in_channels, channels; /* of all groups together */
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2];
    int64_t width; /* of the lines of x that results want, in places */
} hyp_cpu_conv;

/* Whether results, or what is added to them, are to be turned beside where they lie. */
static inline bool hyp_cpu_turns(const hyp_cpu_conv *s) { return !s->y_last || (s->added_plus1 && !s->added_last); }

/* False where a step is none that can be done so. */
bool hyp_cpu_read_conv(const hyp_cpu_model *model, const hyp_cpu_op *op, const int64_t *values,
                       const bool *channels_last, hyp_cpu_conv *out);

/* What is added to all images, NULL if nothing is; `room`: hyp_cpu_moved_bytes of memory. */
const float *hyp_cpu_find_added(const hyp_cpu_run *run, const hyp_cpu_conv *s, float *room);
static inline size_t hyp_cpu_moved_bytes(const hyp_cpu_conv *s)
{
    return s->moves_added ? (size_t)(s->batch * s->out[HYP_Y] * s->out[HYP_X] * s->channels) * sizeof(float) : 0;
}

/* The lines of an image x from `line`, which may be outside, `count` of them, with the channels last and zeros for what
 * lies outside: s->width places each. */
void hyp_cpu_bring_lines(const hyp_cpu_run *run, const hyp_cpu_conv *s, const float *x, int64_t line, int64_t count,
                         float *out);

/* Whether x are numbers that may be multiplied by what is no weight of theirs, and weights such as may be by what they are
 * none of: NaN, infinite and very large ones are not. */
bool hyp_cpu_is_tame(const float *x, int64_t count);

/* Lines of results as the sums that define them, for x that is not tame (directly.c). */
typedef struct hyp_direct {
    const float *x;          /* where the first window begins, */
    int64_t line, place;     /* floats from line to line and from place to place of it */
    int64_t lines, from, to; /* of results, and which channels */
    const float *added;      /* to the lines, places `channels` apart; may be y; NULL: nothing */
    float *y;
    int64_t y_place; /* floats from place to place of y */
} hyp_direct;
void hyp_cpu_conv_directly(const hyp_cpu_kernels *kernels, const hyp_cpu_conv *c, const hyp_direct *d);

#endif
