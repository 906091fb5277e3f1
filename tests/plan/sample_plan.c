#include "sample_plan.h"

#include <string.h>

#define LIST(arena, type, ...) copy_list((arena), (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}))
static void *copy_list(hyp_arena *a, const void *list, size_t bytes)
{
    return memcpy(hyp_arena_alloc(a, bytes), list, bytes);
}

/* Sets a repeated uint32 field and its count. */
#define SET(message, field, ...)                                                                                       \
    ((message)->field = LIST(a, uint32_t, __VA_ARGS__),                                                                \
     (message)->n_##field = sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static HypPlan__Dim *dim(hyp_arena *a, HypPlan__Dim__Kind kind, int64_t value, uint32_t x, uint32_t y)
{
    HypPlan__Dim *d = hyp_arena_alloc(a, sizeof *d);
    hyp_plan__dim__init(d);
    d->kind = kind;
    d->value = value;
    d->a = x;
    d->b = y;
    return d;
}

static HypPlan__Tensor *tensor(hyp_arena *a, const char *name, HypPlan__Place place, uint32_t place_index,
                               uint32_t dtype, size_t rank, const uint32_t *dims)
{
    HypPlan__Tensor *t = hyp_arena_alloc(a, sizeof *t);
    hyp_plan__tensor__init(t);
    t->name = hyp_arena_strdup(a, name);
    t->dtype = dtype;
    t->place = place;
    t->dims = copy_list(a, dims, rank * sizeof *dims);
    t->n_dims = rank;
    if (place == HYP_PLAN__PLACE__PLACE_SCRATCH) t->slot = place_index;
    if (place == HYP_PLAN__PLACE__PLACE_VIEW) t->view_of = place_index;
    if (place == HYP_PLAN__PLACE__PLACE_WEIGHT) t->bytes = place_index;
    return t;
}

static HypPlan__Step *add_step(hyp_arena *a, HypPlan__Program *p, const char *label, HypPlan__Step__KernelCase kernel)
{
    HypPlan__Step *s = hyp_arena_alloc(a, sizeof *s);
    hyp_plan__step__init(s);
    s->label = hyp_arena_strdup(a, label);
    s->kernel_case = kernel;
    p->steps[p->n_steps++] = s;
    return s;
}

/* Gives the step its kernel message, of which the field has the name. */
#define KERNEL(s, type)                                                                                                \
    ((s)->type = hyp_arena_alloc(a, sizeof *(s)->type), hyp_plan__##type##__init((s)->type), (s)->type)

static HypPlan__Layer *layer(hyp_arena *a, uint32_t n, uint32_t k, uint32_t weight, uint32_t bias_plus1)
{
    HypPlan__Layer *l = hyp_arena_alloc(a, sizeof *l);
    hyp_plan__layer__init(l);
    l->n = n;
    l->k = k;
    l->weight = weight;
    l->bias_plus1 = bias_plus1;
    return l;
}

static void add_linear(hyp_arena *a, HypPlan__Program *p)
{
    HypPlan__Step *s = add_step(a, p, "fused-mlp", HYP_PLAN__STEP__KERNEL_LINEAR);
    HypPlan__Linear *k = KERNEL(s, linear);
    SET(s, rules, 0);
    SET(s, sources, 0, 1);
    k->x = S_X;
    k->y = S_Y;
    k->m = D_BATCH;
    k->layers = hyp_arena_alloc(a, 2 * sizeof *k->layers);
    k->layers[k->n_layers++] = layer(a, D_8, D_4, S_W1, S_B1 + 1);
    k->layers[k->n_layers++] = layer(a, D_4, D_8, S_W2, 0);
    k->layers[0]->act = HYP_PLAN__ACT__ACT_RELU;
    k->layers[0]->hidden_plus1 = S_HIDDEN + 1;
}

static void add_pointwise(hyp_arena *a, HypPlan__Program *p)
{
    HypPlan__Step *s = add_step(a, p, "add", HYP_PLAN__STEP__KERNEL_POINTWISE);
    HypPlan__Pointwise *k = KERNEL(s, pointwise);
    SET(k, extents, D_BATCH, D_4);
    k->inputs = hyp_arena_alloc(a, 2 * sizeof *k->inputs);
    for (; k->n_inputs < 2; k->n_inputs++) {
        k->inputs[k->n_inputs] = hyp_arena_alloc(a, sizeof **k->inputs);
        hyp_plan__pointwise__operand__init(k->inputs[k->n_inputs]);
        SET(k->inputs[k->n_inputs], strides, D_4, D_1);
    }
    k->inputs[0]->tensor = S_Y;
    k->inputs[1]->tensor = S_X;
    k->instrs = hyp_arena_alloc(a, sizeof *k->instrs);
    k->instrs[0] = hyp_arena_alloc(a, sizeof **k->instrs);
    hyp_plan__pointwise__instr__init(k->instrs[0]);
    k->n_instrs = 1;
    k->instrs[0]->b = 1;
    k->instrs[0]->to = HYP_F32;
    SET(k, outputs, S_Z);
    SET(k, output_regs, 2);
    k->compute = HYP_F32;
}

static void add_copy(hyp_arena *a, HypPlan__Program *p, uint32_t x, uint32_t y, uint32_t y_stride, uint32_t y_offset)
{
    HypPlan__Step *s = add_step(a, p, "concat", HYP_PLAN__STEP__KERNEL_COPY);
    HypPlan__Copy *k = KERNEL(s, copy);
    SET(k, extents, D_BATCH, D_4);
    SET(k, x_strides, D_4, D_1);
    SET(k, y_strides, y_stride, D_1);
    k->x = x;
    k->y = y;
    k->x_offset = D_0;
    k->y_offset = y_offset;
}

static void add_matmul(hyp_arena *a, HypPlan__Program *p)
{
    HypPlan__Step *s = add_step(a, p, "matmul", HYP_PLAN__STEP__KERNEL_MATMUL);
    HypPlan__Matmul *k = KERNEL(s, matmul);
    k->a = S_Z;
    k->b = S_X;
    k->y = S_PRODUCT;
    k->m = k->n = D_BATCH;
    k->k = D_4;
    k->trans_b = 1;
    k->alpha = 1;
}

static void add_others(hyp_arena *a, HypPlan__Program *p)
{
    HypPlan__Step *s = add_step(a, p, "softmax", HYP_PLAN__STEP__KERNEL_SOFTMAX);
    HypPlan__Softmax *softmax = KERNEL(s, softmax);
    softmax->x = S_CAT;
    softmax->y = S_SOFT;
    softmax->outer = D_BATCH;
    softmax->axis = D_8;
    softmax->inner = D_1;

    s = add_step(a, p, "reduce-sum", HYP_PLAN__STEP__KERNEL_REDUCE);
    HypPlan__Reduce *reduce = KERNEL(s, reduce);
    reduce->x = S_PRODUCT;
    reduce->y = S_SUM;
    SET(reduce, kept, D_BATCH);
    SET(reduce, kept_strides, D_BATCH);
    SET(reduce, reduced, D_BATCH);
    SET(reduce, reduced_strides, D_1);

    s = add_step(a, p, "gather", HYP_PLAN__STEP__KERNEL_GATHER);
    HypPlan__Gather *gather = KERNEL(s, gather);
    gather->x = S_CAT;
    gather->indices = S_IDS;
    gather->y = S_PICKED;
    gather->outer = D_BATCH;
    gather->axis = D_8;
    gather->inner = D_1;
    gather->count = D_3;

    s = add_step(a, p, "shape", HYP_PLAN__STEP__KERNEL_FILL);
    HypPlan__Fill *fill = KERNEL(s, fill);
    fill->y = S_SHAPE;
    SET(fill, values, D_BATCH, D_8);

    s = add_step(a, p, "copy", HYP_PLAN__STEP__KERNEL_COPY);
    HypPlan__Copy *copy = KERNEL(s, copy);
    SET(copy, extents, D_8BATCH);
    SET(copy, x_strides, D_1);
    SET(copy, y_strides, D_1);
    copy->x = S_FLAT;
    copy->y = S_COPY;
    copy->x_offset = copy->y_offset = D_0;
}

static HypPlan__Attention__Operand *operand(hyp_arena *a, uint32_t tensor, uint32_t row)
{
    HypPlan__Attention__Operand *o = hyp_arena_alloc(a, sizeof *o);
    hyp_plan__attention__operand__init(o);
    o->tensor = tensor;
    SET(o, strides, row, D_1);
    o->offset = D_0;
    return o;
}

static void add_attention(hyp_arena *a, HypPlan__Program *p)
{
    HypPlan__Step *s = add_step(a, p, "attention", HYP_PLAN__STEP__KERNEL_ATTENTION);
    HypPlan__Attention *k = KERNEL(s, attention);
    k->rows = k->keys = D_BATCH;
    k->width = k->columns = D_4;
    k->q = operand(a, S_X, D_4);
    k->k = operand(a, S_X, D_4);
    k->v = operand(a, S_X, D_4);
    k->mask = operand(a, S_PRODUCT, D_BATCH);
    k->y = operand(a, S_MIXED, D_4);
    k->scale = 0.5f;
}

HypPlan__Program *sample_program(hyp_arena *a)
{
    HypPlan__Program *p = hyp_arena_alloc(a, sizeof *p);
    hyp_plan__program__init(p);
    p->producer = hyp_arena_strdup(a, "test 1");
    p->target = hyp_arena_strdup(a, "cpu");
    p->precision = hyp_arena_strdup(a, "fp32");
    p->model_name = hyp_arena_strdup(a, "sample");
    p->model_hash = 77;
    p->symbols = LIST(a, char *, hyp_arena_strdup(a, "batch"));
    p->n_symbols = 1;
    p->rule_names = LIST(a, char *, hyp_arena_strdup(a, "fuse-mlp"));
    p->n_rule_names = 1;
    p->source_names = LIST(a, char *, hyp_arena_strdup(a, "fc1"), hyp_arena_strdup(a, "fc2"));
    p->n_source_names = 2;

    static const int64_t consts[] = {0, 1, 2, 3, 4, 8};
    p->dims = hyp_arena_alloc(a, D_DIMS * sizeof *p->dims);
    for (p->n_dims = 0; p->n_dims < D_BATCH; p->n_dims++)
        p->dims[p->n_dims] = dim(a, HYP_PLAN__DIM__KIND__CONST, consts[p->n_dims], 0, 0);
    p->dims[p->n_dims++] = dim(a, HYP_PLAN__DIM__KIND__SYMBOL, 0, 0, 0);
    p->dims[p->n_dims++] = dim(a, HYP_PLAN__DIM__KIND__MUL, 0, D_8, D_BATCH);

#define PLACE(p) HYP_PLAN__PLACE__PLACE_##p
#define T(name, place, index, dtype, ...)                                                                              \
    tensor(a, name, PLACE(place), index, dtype, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                  \
           (uint32_t[]){__VA_ARGS__})
    HypPlan__Tensor *const tensors[S_TENSORS] = {
        [S_X] = T("x", INPUT, 0, HYP_F32, D_BATCH, D_4),
        [S_IDS] = T("ids", INPUT, 0, HYP_I64, D_3),
        [S_W1] = T("w1", WEIGHT, 128, HYP_F32, D_8, D_4),
        [S_B1] = T("b1", WEIGHT, 32, HYP_F32, D_8),
        [S_W2] = T("w2", WEIGHT, 128, HYP_F32, D_4, D_8),
        [S_HIDDEN] = T("", SCRATCH, 0, HYP_F32, D_BATCH, D_8),
        [S_Y] = T("", SCRATCH, 1, HYP_F32, D_BATCH, D_4),
        [S_Z] = T("", SCRATCH, 1, HYP_F32, D_BATCH, D_4),
        [S_CAT] = T("", SCRATCH, 0, HYP_F32, D_BATCH, D_8),
        [S_FLAT] = T("", VIEW, S_CAT, HYP_F32, D_8BATCH),
        [S_PRODUCT] = T("", SCRATCH, 2, HYP_F32, D_BATCH, D_BATCH),
        [S_SOFT] = T("soft", OUTPUT, 0, HYP_F32, D_BATCH, D_8),
        [S_SUM] = T("sum", OUTPUT, 0, HYP_F32, D_BATCH),
        [S_PICKED] = T("picked", OUTPUT, 0, HYP_F32, D_BATCH, D_3),
        [S_SHAPE] = T("shape", OUTPUT, 0, HYP_I64, D_2),
        [S_COPY] = T("copy", OUTPUT, 0, HYP_F32, D_8BATCH),
        [S_MIXED] = T("mixed", OUTPUT, 0, HYP_F32, D_BATCH, D_4),
    };
    p->tensors = copy_list(a, tensors, sizeof tensors);
    p->n_tensors = S_TENSORS;
    SET(p, inputs, S_X, S_IDS);
    SET(p, outputs, S_SOFT, S_SUM, S_PICKED, S_SHAPE, S_COPY, S_MIXED);
    p->slot_count = 3;

    p->steps = hyp_arena_alloc(a, T_STEPS * sizeof *p->steps);
    add_linear(a, p);
    add_pointwise(a, p);
    add_copy(a, p, S_Z, S_CAT, D_8, D_0);
    add_copy(a, p, S_X, S_CAT, D_8, D_4);
    add_matmul(a, p);
    add_others(a, p);
    add_attention(a, p);
    hyp_plan_place_weights(p);
    return p;
}

static hyp_status get_weight(void *user, uint32_t tensor, const void **out, hyp_diag *diag)
{
    static _Thread_local float values[32];
    (void)user, (void)diag;
    for (size_t i = 0; i < 32; i++) values[i] = (float)tensor + (float)i / 16;
    *out = values;
    return HYP_OK;
}

hyp_plan_weights sample_weights(void) { return (hyp_plan_weights){get_weight, NULL}; }
