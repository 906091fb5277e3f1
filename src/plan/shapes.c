/* shapes.c - a program under concrete shapes: symbols, dims, sizes, and the proof that no step leaves its tensors. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "plan/plan.h"

/* ---- dims ---------------------------------------------------------------------------------------- */

static hyp_status eval_dim(const HypPlan__Program *p, size_t i, const int64_t *symbols, int64_t *values, hyp_diag *diag)
{
    const HypPlan__Dim *d = p->dims[i];
    int64_t a = 0, b = 0, *out = &values[i];
    bool fits = true;
    if (d->kind >= HYP_PLAN__DIM__KIND__ADD) {
        a = values[d->a];
        b = values[d->b];
        if (a == HYP_PLAN_UNKNOWN || b == HYP_PLAN_UNKNOWN) return *out = HYP_PLAN_UNKNOWN, HYP_OK;
    }
    switch (d->kind) {
    case HYP_PLAN__DIM__KIND__CONST: *out = d->value; break;
    case HYP_PLAN__DIM__KIND__SYMBOL: *out = symbols[d->value] < 0 ? HYP_PLAN_UNKNOWN : symbols[d->value]; break;
    case HYP_PLAN__DIM__KIND__ADD: fits = hyp_add_i64(a, b, out); break;
    case HYP_PLAN__DIM__KIND__MUL: fits = hyp_mul_i64(a, b, out); break;
    case HYP_PLAN__DIM__KIND__FLOORDIV:
        if (b == 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the model divides a size by 0 for inputs of these shapes");
        fits = !(a == INT64_MIN && b == -1);
        if (fits) *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case HYP_PLAN__DIM__KIND__MIN: *out = a < b ? a : b; break;
    case HYP_PLAN__DIM__KIND__MAX: *out = a > b ? a : b; break;
    default: return hyp_fail(diag, HYP_ERR_INTERNAL, "unknown kind of dim %d", d->kind);
    }
    if (fits) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT, "a size overflows 64 bits for inputs of these shapes");
}

hyp_status hyp_plan_eval_dims(const HypPlan__Program *program, const int64_t *symbols, int64_t *values, hyp_diag *diag)
{
    for (size_t i = 0; i < program->n_dims; i++) HYP_TRY(eval_dim(program, i, symbols, values, diag));
    return HYP_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------------- */

static hyp_status overflow(hyp_diag *diag, const char *what)
{
    return hyp_fail(diag, HYP_ERR_LIMIT, "the size of %s overflows for inputs of these shapes", what);
}

/* Product of dims, none of which may be negative. */
static hyp_status product(const int64_t *values, size_t n, const uint32_t *dims, const char *what, int64_t *out,
                          hyp_diag *diag)
{
    int64_t count = 1, room = sizeof(int64_t);
    for (size_t i = 0; i < n; i++) {
        int64_t v = values[dims[i]];
        if (v < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "axis %zu of %s becomes %lld: the model cannot take inputs of these shapes", i, what,
                            (long long)v);
        if (!hyp_add_axis(v, &room, &count)) return overflow(diag, what);
    }
    *out = count;
    return HYP_OK;
}

hyp_status hyp_plan_elements(const HypPlan__Program *program, uint32_t tensor, const int64_t *values, int64_t *out,
                             hyp_diag *diag)
{
    const HypPlan__Tensor *t = program->tensors[tensor];
    char what[96];
    snprintf(what, sizeof what, "tensor %u '%.60s'", tensor, t->name);
    return product(values, t->n_dims, t->dims, what, out, diag);
}

hyp_status hyp_plan_tensor_bytes(const HypPlan__Program *program, uint32_t tensor, const int64_t *values, size_t *out,
                                 hyp_diag *diag)
{
    int64_t count;
    HYP_TRY(hyp_plan_elements(program, tensor, values, &count, diag));
    *out = (size_t)count * hyp_dtype_size((hyp_dtype)program->tensors[tensor]->dtype);
    return HYP_OK;
}

/* ---- bounds ---------------------------------------------------------------------------------------- */

typedef struct bounds {
    const HypPlan__Program *program;
    const int64_t *values;
    const bool *fixed; /* by dim: its value is there before shapes are; NULL: all are */
    int64_t *filled;   /* by tensor: elements that copies have written so far */
    hyp_diag *diag;
} bounds;

static bool are_there(const bounds *b, size_t n, const uint32_t *dims)
{
    for (size_t i = 0; b->fixed && i < n; i++)
        if (!b->fixed[dims[i]]) return false;
    return true;
}

static bool has_elements(const bounds *b, uint32_t t)
{
    return are_there(b, b->program->tensors[t]->n_dims, b->program->tensors[t]->dims);
}

static hyp_status elements(const bounds *b, uint32_t t, int64_t *out)
{
    return hyp_plan_elements(b->program, t, b->values, out, b->diag);
}

/* Tensor t has a * b * c elements (dims). Where one of the sizes is not there yet, it is looked at when shapes are. */
static hyp_status want_size(const bounds *b, uint32_t t, size_t n, const uint32_t *dims, const char *what)
{
    int64_t have = 0, want = 0;
    if (!are_there(b, n, dims) || !has_elements(b, t)) return HYP_OK;
    HYP_TRY(elements(b, t, &have));
    HYP_TRY(product(b->values, n, dims, what, &want, b->diag));
    if (have == want) return HYP_OK;
    return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                    "%s has %lld elements, the step wants %lld: the model cannot take inputs of these shapes", what,
                    (long long)have, (long long)want);
}

/* offset + i . strides lies inside the tensor for every index i below the extents. */
static hyp_status want_inside(const bounds *b, uint32_t t, size_t n, const uint32_t *extents, const uint32_t *strides,
                              int64_t offset, const char *what)
{
    int64_t low = offset, high = offset, have = 0;
    HYP_TRY(elements(b, t, &have));
    for (size_t i = 0; i < n; i++)
        if (b->values[extents[i]] == 0) return HYP_OK;
    for (size_t i = 0; i < n; i++) {
        int64_t extent = b->values[extents[i]], reach = 0;
        if (extent < 0)
            return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                            "axis %zu of %s becomes %lld: the model cannot take inputs of these shapes", i, what,
                            (long long)extent);
        if (!hyp_mul_i64(extent - 1, b->values[strides[i]], &reach) ||
            !hyp_add_i64(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return overflow(b->diag, what);
    }
    if (low >= 0 && high < have) return HYP_OK;
    return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                    "elements %lld to %lld of %s, which has %lld, would be used: the model cannot take inputs of these "
                    "shapes",
                    (long long)low, (long long)high, what, (long long)have);
}

static hyp_status bound_linear(const bounds *b, const HypPlan__Linear *k)
{
    HYP_TRY(want_size(b, k->x, 2, (uint32_t[]){k->m, k->layers[0]->k}, "x"));
    for (size_t i = 0; i < k->n_layers; i++) {
        const HypPlan__Layer *l = k->layers[i];
        bool follows = i > 0 && are_there(b, 2, (uint32_t[]){l->k, k->layers[i - 1]->n});
        if (follows && b->values[l->k] != b->values[k->layers[i - 1]->n])
            return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                            "layer %zu takes %lld features, the one before gives %lld", i, (long long)b->values[l->k],
                            (long long)b->values[k->layers[i - 1]->n]);
        HYP_TRY(want_size(b, l->weight, 2, (uint32_t[]){l->n, l->k}, "the weight"));
        if (l->bias_plus1) HYP_TRY(want_size(b, l->bias_plus1 - 1, 1, &l->n, "the bias"));
        uint32_t y = l->hidden_plus1 ? l->hidden_plus1 - 1 : k->y;
        HYP_TRY(want_size(b, y, 2, (uint32_t[]){k->m, l->n}, l->hidden_plus1 ? "a hidden tensor" : "y"));
    }
    if (!k->added_plus1) return HYP_OK;
    return want_size(b, k->added_plus1 - 1, 2, (uint32_t[]){k->m, k->layers[k->n_layers - 1]->n}, "what is added");
}

/* A batch of matrices of rows x columns elements, dense inside. */
static hyp_status bound_matrices(const bounds *b, const HypPlan__Matmul *k, uint32_t t, const uint32_t *strides,
                                 uint32_t rows, uint32_t columns, const char *what)
{
    int64_t size = 0;
    HYP_TRY(product(b->values, 2, (uint32_t[]){rows, columns}, what, &size, b->diag));
    if (size == 0) return HYP_OK;
    HYP_TRY(want_inside(b, t, k->n_batch, k->batch, strides, 0, what));
    return want_inside(b, t, k->n_batch, k->batch, strides, size - 1, what);
}

/* memcpy that takes the NULL of an empty list. */
static void copy_dims(uint32_t *to, const uint32_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = from[i];
}

static hyp_status bound_matmul(const bounds *b, const HypPlan__Matmul *k)
{
    uint32_t dims[HYP_MAX_RANK + 2];
    copy_dims(dims, k->batch, k->n_batch);
    dims[k->n_batch] = k->m;
    dims[k->n_batch + 1] = k->n;
    HYP_TRY(want_size(b, k->y, k->n_batch + 2, dims, "y"));
    HYP_TRY(bound_matrices(b, k, k->a, k->a_strides, k->m, k->k, "a"));
    return bound_matrices(b, k, k->b, k->b_strides, k->k, k->n, "b");
}

/* Row-major over the extents: axes of one element do not count. */
static bool is_dense(const bounds *b, size_t n, const uint32_t *extents, const uint32_t *strides)
{
    int64_t want = 1;
    for (size_t i = n; i-- > 0;) {
        int64_t extent = b->values[extents[i]];
        if (extent == 1) continue;
        if (b->values[strides[i]] != want || !hyp_mul_i64(want, extent, &want)) return false;
    }
    return true;
}

/* Batch, rows and columns of an operand of attention. */
typedef struct box {
    size_t rank;
    uint32_t extents[HYP_MAX_RANK], strides[HYP_MAX_RANK];
} box;

static box box_of(const HypPlan__Attention *k, const HypPlan__Attention__Operand *o, uint32_t rows, uint32_t columns)
{
    box x = {.rank = k->n_batch + 2};
    copy_dims(x.extents, k->batch, k->n_batch);
    x.extents[k->n_batch] = rows;
    x.extents[k->n_batch + 1] = columns;
    copy_dims(x.strides, o->strides, x.rank);
    return x;
}

static hyp_status bound_operand(const bounds *b, const HypPlan__Attention *k, const HypPlan__Attention__Operand *o,
                                uint32_t rows, uint32_t columns, const char *what)
{
    box x = box_of(k, o, rows, columns);
    return want_inside(b, o->tensor, x.rank, x.extents, x.strides, b->values[o->offset], what);
}

static hyp_status bound_key_parts(const bounds *b, const HypPlan__Attention *k)
{
    int64_t first = b->values[k->first_keys], more = b->values[k->more_keys], rows = b->values[k->rows], keys;
    if (first < 0 || more < 0 || !hyp_add_i64(first, more, &keys) || keys != b->values[k->keys] || rows != 1)
        return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                        "keys in two parts are %lld and %lld for %lld rows, wanted %lld for one", (long long)first,
                        (long long)more, (long long)rows, (long long)b->values[k->keys]);
    HYP_TRY(bound_operand(b, k, k->more_k, k->more_keys, k->width, "more of k"));
    return bound_operand(b, k, k->more_v, k->more_keys, k->columns, "more of v");
}

/* Every element of y is written once: with its axes in the order of their strides it is dense. */
static hyp_status bound_attention_result(const bounds *b, const HypPlan__Attention *k)
{
    box y = box_of(k, k->y, k->rows, k->columns);
    int64_t have = 0;
    HYP_TRY(want_size(b, k->y->tensor, y.rank, y.extents, "y"));
    HYP_TRY(elements(b, k->y->tensor, &have));
    if (have == 0) return HYP_OK;
    for (size_t i = 1; i < y.rank; i++)
        for (size_t j = i; j > 0 && b->values[y.strides[j - 1]] < b->values[y.strides[j]]; j--) {
            uint32_t stride = y.strides[j], extent = y.extents[j];
            y.strides[j] = y.strides[j - 1];
            y.extents[j] = y.extents[j - 1];
            y.strides[j - 1] = stride;
            y.extents[j - 1] = extent;
        }
    if (b->values[k->y->offset] == 0 && is_dense(b, y.rank, y.extents, y.strides)) return HYP_OK;
    return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT, "y is not dense: the model cannot take inputs of these shapes");
}

static hyp_status bound_attention(const bounds *b, const HypPlan__Attention *k)
{
    HYP_TRY(bound_operand(b, k, k->q, k->rows, k->width, "q"));
    uint32_t keys = k->more_k ? k->first_keys : k->keys;
    HYP_TRY(bound_operand(b, k, k->k, keys, k->width, "k"));
    HYP_TRY(bound_operand(b, k, k->v, keys, k->columns, "v"));
    if (k->more_k) HYP_TRY(bound_key_parts(b, k));
    if (k->mask) HYP_TRY(bound_operand(b, k, k->mask, k->rows, k->keys, "the mask"));
    return bound_attention_result(b, k);
}

static hyp_status bound_pointwise(const bounds *b, const HypPlan__Pointwise *k)
{
    const HypPlan__Program *p = b->program;
    for (size_t o = 0; o < k->n_outputs; o++)
        HYP_TRY(want_size(b, k->outputs[o], k->n_extents, k->extents, "an output"));
    for (size_t i = 0; i < k->n_inputs; i++) {
        const HypPlan__Pointwise__Operand *x = k->inputs[i];
        HYP_TRY(want_inside(b, x->tensor, k->n_extents, k->extents, x->strides, 0, "an input"));
        const HypPlan__Tensor *root = p->tensors[hyp_plan_root(p, x->tensor)];
        if (root->place != HYP_PLAN__PLACE__PLACE_SCRATCH) continue;
        for (size_t o = 0; o < k->n_outputs; o++) {
            const HypPlan__Tensor *y = p->tensors[k->outputs[o]];
            if (y->place != HYP_PLAN__PLACE__PLACE_SCRATCH || y->slot != root->slot) continue;
            if (!is_dense(b, k->n_extents, k->extents, x->strides))
                return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT, "an output replaces input %zu, which is not dense",
                                i);
        }
    }
    return HYP_OK;
}

static hyp_status bound_softmax(const bounds *b, const HypPlan__Softmax *k)
{
    const uint32_t dims[] = {k->outer, k->axis, k->inner};
    HYP_TRY(want_size(b, k->x, 3, dims, "x"));
    return want_size(b, k->y, 3, dims, "y");
}

static hyp_status bound_reduce(const bounds *b, const HypPlan__Reduce *k)
{
    uint32_t extents[2 * HYP_MAX_RANK], strides[2 * HYP_MAX_RANK];
    copy_dims(extents, k->kept, k->n_kept);
    copy_dims(extents + k->n_kept, k->reduced, k->n_reduced);
    copy_dims(strides, k->kept_strides, k->n_kept);
    copy_dims(strides + k->n_kept, k->reduced_strides, k->n_reduced);
    HYP_TRY(want_size(b, k->y, k->n_kept, k->kept, "y"));
    int64_t reduced = 0;
    HYP_TRY(product(b->values, k->n_reduced, k->reduced, "the reduced axes", &reduced, b->diag));
    return want_inside(b, k->x, k->n_kept + k->n_reduced, extents, strides, 0, "x");
}

static hyp_status bound_copy(bounds *b, const HypPlan__Copy *k)
{
    HYP_TRY(want_inside(b, k->x, k->n_extents, k->extents, k->x_strides, b->values[k->x_offset], "x"));
    HYP_TRY(want_inside(b, k->y, k->n_extents, k->extents, k->y_strides, b->values[k->y_offset], "y"));
    int64_t count = 0;
    HYP_TRY(product(b->values, k->n_extents, k->extents, "the copy", &count, b->diag));
    if (!hyp_add_i64(b->filled[k->y], count, &b->filled[k->y])) return overflow(b->diag, "the copy");
    return HYP_OK;
}

static hyp_status bound_gather(const bounds *b, const HypPlan__Gather *k)
{
    HYP_TRY(want_size(b, k->x, 3, (uint32_t[]){k->outer, k->axis, k->inner}, "x"));
    HYP_TRY(want_size(b, k->indices, 1, &k->count, "the indices"));
    return want_size(b, k->y, 3, (uint32_t[]){k->outer, k->count, k->inner}, "y");
}

static hyp_status bound_fill(const bounds *b, const HypPlan__Fill *k)
{
    int64_t have = 0;
    HYP_TRY(elements(b, k->y, &have));
    if ((uint64_t)have == k->n_values) return HYP_OK;
    return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT, "y has %lld elements for %zu values", (long long)have,
                    k->n_values);
}

static hyp_status bound_step(bounds *b, const HypPlan__Step *s)
{
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return bound_linear(b, s->linear);
    case HYP_PLAN__STEP__KERNEL_MATMUL: return bound_matmul(b, s->matmul);
    case HYP_PLAN__STEP__KERNEL_ATTENTION: return bound_attention(b, s->attention);
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return bound_pointwise(b, s->pointwise);
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: return bound_softmax(b, s->softmax);
    case HYP_PLAN__STEP__KERNEL_REDUCE: return bound_reduce(b, s->reduce);
    case HYP_PLAN__STEP__KERNEL_COPY: return bound_copy(b, s->copy);
    case HYP_PLAN__STEP__KERNEL_GATHER: return bound_gather(b, s->gather);
    case HYP_PLAN__STEP__KERNEL_FILL: return bound_fill(b, s->fill);
    case HYP_PLAN__STEP__KERNEL_CALL:
    case HYP_PLAN__STEP__KERNEL_CUSTOM: return HYP_OK; /* kernels check the shapes that they get */
    default: return hyp_fail(b->diag, HYP_ERR_INTERNAL, "unknown kernel %d", s->kernel_case);
    }
}

/* Views have as many elements as what they view, and windows end in it. */
static hyp_status bound_tensor(const bounds *b, uint32_t t)
{
    int64_t have = 0, of = 0;
    if (!has_elements(b, t) || !has_elements(b, hyp_plan_root(b->program, t))) return HYP_OK;
    HYP_TRY(elements(b, t, &have));
    HYP_TRY(elements(b, hyp_plan_root(b->program, t), &of));
    const HypPlan__Tensor *tensor = b->program->tensors[t];
    if (hyp_plan_is_window(tensor)) {
        int64_t first = (int64_t)tensor->first;
        if (first <= of && have <= of - first) return HYP_OK;
        return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                        "tensor %u '%s' is %lld elements from number %lld on of %lld: the model cannot take inputs of these "
                        "shapes",
                        t, tensor->name, (long long)have, (long long)first, (long long)of);
    }
    if (have == of) return HYP_OK;
    return hyp_fail(
        b->diag, HYP_ERR_INVALID_ARGUMENT,
        "%lld elements are reshaped to %lld in tensor %u '%s': the model cannot take inputs of these shapes",
        (long long)of, (long long)have, t, b->program->tensors[t]->name);
}

/* What copies build, they fill. Parts that overlap would leave a gap, and are as wrong as one. */
static hyp_status bound_parts(const bounds *b, const HypPlan__Step *s)
{
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_COPY) return HYP_OK;
    int64_t have = 0;
    HYP_TRY(elements(b, s->copy->y, &have));
    if (have == b->filled[s->copy->y]) return HYP_OK;
    return hyp_fail(b->diag, HYP_ERR_INVALID_ARGUMENT,
                    "copies fill %lld of the %lld elements of y: the model cannot take inputs of these shapes",
                    (long long)b->filled[s->copy->y], (long long)have);
}

hyp_status hyp_plan_check_bounds(const HypPlan__Program *program, const int64_t *values, hyp_diag *diag)
{
    bounds b = {program, values, NULL, hyp_calloc(program->n_tensors, sizeof *b.filled), diag};
    if (!b.filled) return hyp_fail_memory(diag, program->n_tensors * sizeof *b.filled);
    hyp_status status = HYP_OK;
    for (uint32_t t = 0; status == HYP_OK && t < program->n_tensors; t++) status = bound_tensor(&b, t);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; status == HYP_OK && i < program->n_steps; i++) {
            status = pass == 0 ? bound_step(&b, program->steps[i]) : bound_parts(&b, program->steps[i]);
            if (status != HYP_OK) hyp_diag_prefix(diag, "step %zu (%s)", i, program->steps[i]->label);
        }
    }
    hyp_free(b.filled);
    return status;
}

/* The fixed dims: constants, and what is made of them alone. */
static hyp_status eval_fixed(const HypPlan__Program *p, int64_t *values, bool *fixed, hyp_diag *diag)
{
    for (size_t i = 0; i < p->n_dims; i++) {
        const HypPlan__Dim *d = p->dims[i];
        fixed[i] = d->kind == HYP_PLAN__DIM__KIND__CONST ||
                   (d->kind >= HYP_PLAN__DIM__KIND__ADD && fixed[d->a] && fixed[d->b]);
        if (fixed[i]) HYP_TRY(eval_dim(p, i, NULL, values, diag));
    }
    return HYP_OK;
}

hyp_status hyp_plan_check_fixed(const HypPlan__Program *program, hyp_diag *diag)
{
    int64_t *values = hyp_calloc(program->n_dims + 1, sizeof *values);
    bool *fixed = hyp_calloc(program->n_dims + 1, sizeof *fixed);
    bounds b = {program, values, fixed, NULL, diag};
    hyp_status status = values && fixed ? eval_fixed(program, values, fixed, diag)
                                        : hyp_fail_memory(diag, (program->n_dims + 1) * sizeof *values);
    for (uint32_t t = 0; status == HYP_OK && t < program->n_tensors; t++) status = bound_tensor(&b, t);
    for (size_t i = 0; status == HYP_OK && i < program->n_steps; i++) {
        if (program->steps[i]->kernel_case != HYP_PLAN__STEP__KERNEL_LINEAR) continue;
        status = bound_linear(&b, program->steps[i]->linear);
        if (status != HYP_OK) hyp_diag_prefix(diag, "step %zu (%s)", i, program->steps[i]->label);
    }
    hyp_free(values);
    hyp_free(fixed);
    return status;
}
