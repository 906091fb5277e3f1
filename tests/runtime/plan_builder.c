#include "runtime/plan_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"

static void *arena_copy(plan_builder *b, const void *data, size_t bytes)
{
    void *copy = hyp_arena_alloc(&b->arena, bytes);
    assert_non_null(copy);
    if (bytes) memcpy(copy, data, bytes);
    return copy;
}

void pb_init(plan_builder *b)
{
    memset(b, 0, sizeof *b);
    HypPlan__Program *p = &b->program;
    hyp_plan__program__init(p);
    p->producer = (char *)(uintptr_t) "test";
    p->target = (char *)(uintptr_t) "cpu";
    p->precision = (char *)(uintptr_t) "fp32";
    p->model_name = (char *)(uintptr_t) "made by hand";
    p->symbols = b->symbols;
    p->dims = b->dim_list;
    p->tensors = b->tensor_list;
    p->inputs = b->inputs;
    p->outputs = b->outputs;
    p->steps = b->step_list;
}

void pb_dispose(plan_builder *b) { hyp_arena_dispose(&b->arena); }

/* ---- dims ---------------------------------------------------------------------------------------------- */

static uint32_t add_dim(plan_builder *b, HypPlan__Dim__Kind kind, int64_t value, uint32_t a, uint32_t c)
{
    HypPlan__Program *p = &b->program;
    for (uint32_t i = 0; i < p->n_dims; i++)
        if (b->dims[i].kind == kind && b->dims[i].value == value && b->dims[i].a == a && b->dims[i].b == c) return i;
    assert_true(p->n_dims < PB_MAX);
    HypPlan__Dim *d = &b->dims[p->n_dims];
    hyp_plan__dim__init(d);
    d->kind = kind;
    d->value = value;
    d->a = a;
    d->b = c;
    b->dim_list[p->n_dims] = d;
    return (uint32_t)p->n_dims++;
}

uint32_t pb_const(plan_builder *b, int64_t value) { return add_dim(b, HYP_PLAN__DIM__KIND__CONST, value, 0, 0); }

uint32_t pb_symbol(plan_builder *b, const char *name)
{
    size_t s = 0;
    while (s < b->program.n_symbols && strcmp(b->symbols[s], name) != 0) s++;
    if (s == b->program.n_symbols) {
        assert_true(s < PB_MAX);
        b->symbols[b->program.n_symbols++] = arena_copy(b, name, strlen(name) + 1);
    }
    return add_dim(b, HYP_PLAN__DIM__KIND__SYMBOL, (int64_t)s, 0, 0);
}

uint32_t pb_dim(plan_builder *b, HypPlan__Dim__Kind kind, uint32_t a, uint32_t c) { return add_dim(b, kind, 0, a, c); }

uint32_t *pb_consts(plan_builder *b, size_t count, const int64_t *values)
{
    uint32_t *dims = hyp_arena_alloc(&b->arena, count * sizeof *dims);
    assert_non_null(dims);
    for (size_t i = 0; i < count; i++) dims[i] = pb_const(b, values[i]);
    return dims;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static uint32_t add_tensor(plan_builder *b, const char *name, hyp_dtype dtype, HypPlan__Place place, size_t rank,
                           const uint32_t *dims)
{
    HypPlan__Program *p = &b->program;
    assert_true(p->n_tensors < PB_MAX);
    HypPlan__Tensor *t = &b->tensors[p->n_tensors];
    hyp_plan__tensor__init(t);
    t->name = arena_copy(b, name, strlen(name) + 1);
    t->dtype = dtype;
    t->place = place;
    t->n_dims = rank;
    t->dims = arena_copy(b, dims, rank * sizeof *dims);
    b->tensor_list[p->n_tensors] = t;
    return (uint32_t)p->n_tensors++;
}

uint32_t pb_input(plan_builder *b, const char *name, hyp_dtype dtype, size_t rank, const uint32_t *dims)
{
    uint32_t t = add_tensor(b, name, dtype, HYP_PLAN__PLACE__PLACE_INPUT, rank, dims);
    b->inputs[b->program.n_inputs++] = t;
    return t;
}

uint32_t pb_output(plan_builder *b, const char *name, hyp_dtype dtype, size_t rank, const uint32_t *dims)
{
    uint32_t t = add_tensor(b, name, dtype, HYP_PLAN__PLACE__PLACE_OUTPUT, rank, dims);
    b->outputs[b->program.n_outputs++] = t;
    return t;
}

uint32_t pb_scratch(plan_builder *b, hyp_dtype dtype, uint32_t slot, size_t rank, const uint32_t *dims)
{
    uint32_t t = add_tensor(b, "", dtype, HYP_PLAN__PLACE__PLACE_SCRATCH, rank, dims);
    b->tensors[t].slot = slot;
    if (slot >= b->program.slot_count) b->program.slot_count = slot + 1;
    return t;
}

uint32_t pb_view(plan_builder *b, uint32_t of, size_t rank, const uint32_t *dims)
{
    uint32_t t = add_tensor(b, "", (hyp_dtype)b->tensors[of].dtype, HYP_PLAN__PLACE__PLACE_VIEW, rank, dims);
    b->tensors[t].view_of = of;
    return t;
}

uint32_t pb_weight(plan_builder *b, hyp_dtype dtype, size_t rank, const int64_t *dims, const void *data)
{
    size_t bytes = hyp_dtype_size(dtype);
    for (size_t a = 0; a < rank; a++) bytes *= (size_t)dims[a];
    uint32_t t = add_tensor(b, "", dtype, HYP_PLAN__PLACE__PLACE_WEIGHT, rank, pb_consts(b, rank, dims));
    b->tensors[t].bytes = bytes;
    b->weights[t] = arena_copy(b, data, bytes);
    return t;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static HypPlan__Step *add_step(plan_builder *b, HypPlan__Step__KernelCase kernel, const char *label)
{
    assert_true(b->program.n_steps < PB_MAX);
    HypPlan__Step *step = &b->steps[b->program.n_steps];
    hyp_plan__step__init(step);
    step->kernel_case = kernel;
    step->label = (char *)(uintptr_t)label;
    b->step_list[b->program.n_steps++] = step;
    return step;
}

static void *message(plan_builder *b, size_t size)
{
    void *m = hyp_arena_zalloc(&b->arena, 1, size);
    assert_non_null(m);
    return m;
}

#define ADD_STEP(NAME, field)                                                                                          \
    HypPlan__Step *step = add_step(b, HYP_PLAN__STEP__KERNEL_##NAME, #field);                                          \
    step->field = message(b, sizeof *step->field);                                                                     \
    hyp_plan__##field##__init(step->field);                                                                            \
    return step->field

HypPlan__Matmul *pb_matmul(plan_builder *b) { ADD_STEP(MATMUL, matmul); }
void pb_dense(plan_builder *b, HypPlan__Matmul *step, const int64_t sizes[4], bool trans_a, bool trans_b, bool shared)
{
    int64_t m = sizes[1], n = sizes[2], k = sizes[3];
    step->n_batch = step->n_a_strides = step->n_b_strides = 1;
    step->batch = pb_consts(b, 1, sizes);
    step->a_strides = pb_consts(b, 1, (int64_t[]){m * k});
    step->b_strides = pb_consts(b, 1, (int64_t[]){shared ? 0 : n * k});
    step->m = pb_const(b, m), step->n = pb_const(b, n), step->k = pb_const(b, k);
    step->trans_a = trans_a, step->trans_b = trans_b;
    step->alpha = 1;
}
HypPlan__Attention *pb_attention(plan_builder *b) { ADD_STEP(ATTENTION, attention); }
HypPlan__Softmax *pb_softmax(plan_builder *b) { ADD_STEP(SOFTMAX, softmax); }
HypPlan__Reduce *pb_reduce(plan_builder *b) { ADD_STEP(REDUCE, reduce); }
HypPlan__Copy *pb_copy(plan_builder *b) { ADD_STEP(COPY, copy); }
HypPlan__Gather *pb_gather(plan_builder *b) { ADD_STEP(GATHER, gather); }
HypPlan__Fill *pb_fill(plan_builder *b) { ADD_STEP(FILL, fill); }
static HypPlan__Linear *new_linear(plan_builder *b) { ADD_STEP(LINEAR, linear); }
static HypPlan__Pointwise *new_pointwise(plan_builder *b) { ADD_STEP(POINTWISE, pointwise); }

static HypPlan__Call *new_call(plan_builder *b) { ADD_STEP(CALL, call); }

static HypPlan__Custom *new_custom(plan_builder *b) { ADD_STEP(CUSTOM, custom); }

static void fill_call(plan_builder *b, HypPlan__Call *call, const char *kernel, size_t inputs, const uint32_t *input,
                      uint32_t output)
{
    call->kernel = hyp_arena_strdup(&b->arena, kernel);
    call->n_inputs_plus1 = inputs;
    call->inputs_plus1 = hyp_arena_zalloc(&b->arena, inputs, sizeof *call->inputs_plus1);
    call->outputs = hyp_arena_zalloc(&b->arena, HYP_PLAN_CALL_OUTPUTS, sizeof *call->outputs);
    call->attrs = hyp_arena_zalloc(&b->arena, HYP_PLAN_CALL_ATTRS, sizeof *call->attrs);
    assert_true(call->kernel && call->inputs_plus1 && call->outputs && call->attrs);
    for (size_t i = 0; i < inputs; i++) call->inputs_plus1[i] = input[i] == PB_NONE ? 0 : input[i] + 1;
    call->n_outputs = 1;
    call->outputs[0] = output;
}

HypPlan__Call *pb_call(plan_builder *b, const char *kernel, size_t inputs, const uint32_t *input, uint32_t output)
{
    HypPlan__Call *call = new_call(b);
    fill_call(b, call, kernel, inputs, input, output);
    return call;
}

HypPlan__Custom *pb_custom(plan_builder *b, const char *domain, const char *name, size_t inputs, const uint32_t *input,
                           uint32_t output)
{
    HypPlan__Custom *custom = new_custom(b);
    custom->domain = hyp_arena_strdup(&b->arena, domain);
    custom->call = hyp_arena_zalloc(&b->arena, 1, sizeof *custom->call);
    assert_true(custom->domain && custom->call);
    hyp_plan__call__init(custom->call);
    fill_call(b, custom->call, name, inputs, input, output);
    return custom;
}

void pb_call_output(HypPlan__Call *call, uint32_t output)
{
    assert_true(call->n_outputs < HYP_PLAN_CALL_OUTPUTS);
    call->outputs[call->n_outputs++] = output;
}

static HypPlan__Call__Attr *add_attr(plan_builder *b, HypPlan__Call *call)
{
    HypPlan__Call__Attr *attr = hyp_arena_zalloc(&b->arena, 1, sizeof *attr);
    assert_non_null(attr);
    hyp_plan__call__attr__init(attr);
    call->attrs[call->n_attrs++] = attr;
    return attr;
}

void pb_call_ints(plan_builder *b, HypPlan__Call *call, size_t count, const int64_t *values)
{
    HypPlan__Call__Attr *attr = add_attr(b, call);
    attr->kind = HYP_PLAN__CALL__ATTR__KIND__INTS;
    attr->n_dims = count;
    attr->dims = pb_consts(b, count, values);
}

void pb_call_int(plan_builder *b, HypPlan__Call *call, int64_t value)
{
    pb_call_ints(b, call, 1, &value);
    call->attrs[call->n_attrs - 1]->kind = HYP_PLAN__CALL__ATTR__KIND__INT;
}

void pb_batch_norm(plan_builder *b)
{
    static const char *const in[] = {"x", "scale", "bias", "mean", "variance"}, *const out[] = {"y", "new mean", "new variance"};
    const int64_t rows[] = {2, 3}, channels = 3;
    uint32_t inputs[5];
    pb_init(b);
    const uint32_t *dims = pb_consts(b, 2, rows);
    for (int i = 0; i < 5; i++)
        inputs[i] = pb_input(b, in[i], HYP_F32, i ? 1 : 2, i ? pb_consts(b, 1, &channels) : dims);
    HypPlan__Call *call = pb_call(b, "batch-norm", 5, inputs, pb_output(b, out[0], HYP_F32, 2, dims));
    for (int i = 1; i < 3; i++) pb_call_output(call, pb_output(b, out[i], HYP_F32, 1, pb_consts(b, 1, &channels)));
    pb_call_float(b, call, 1e-5);
    pb_call_float(b, call, 0.9);
}

void pb_over_axes(plan_builder *b, const char *kernel, hyp_dtype dtype, const int64_t dims[3], int set, bool from_end)
{
    int64_t axes[3], kept[3];
    size_t count = 0;
    for (int a = 0; a < 3; a++) {
        kept[a] = set >> a & 1 ? 1 : dims[a];
        if (set >> a & 1) axes[count++] = a - (from_end ? 3 : 0);
    }
    uint32_t x = pb_input(b, "x", dtype, 3, pb_consts(b, 3, dims)), y = pb_output(b, "y", dtype, 3, pb_consts(b, 3, kept));
    HypPlan__Call *call = pb_call(b, kernel, 1, &x, y);
    pb_call_ints(b, call, count, axes);
    pb_call_int(b, call, 1);
}

void pb_call_float(plan_builder *b, HypPlan__Call *call, double value)
{
    HypPlan__Call__Attr *attr = add_attr(b, call);
    attr->kind = HYP_PLAN__CALL__ATTR__KIND__FLOAT;
    attr->number = value;
}

void pb_call_symbol(plan_builder *b, HypPlan__Call *call, const char *text)
{
    HypPlan__Call__Attr *attr = add_attr(b, call);
    attr->kind = HYP_PLAN__CALL__ATTR__KIND__SYM;
    attr->text = hyp_arena_strdup(&b->arena, text);
    assert_non_null(attr->text);
}

HypPlan__Attention__Operand *pb_attended(plan_builder *b, uint32_t tensor, size_t count, const int64_t *strides,
                                         int64_t offset)
{
    HypPlan__Attention__Operand *o = hyp_arena_zalloc(&b->arena, 1, sizeof *o);
    assert_non_null(o);
    hyp_plan__attention__operand__init(o);
    o->tensor = tensor;
    o->n_strides = count;
    o->strides = pb_consts(b, count, strides);
    o->offset = pb_const(b, offset);
    return o;
}

void pb_copy_all(plan_builder *b, uint32_t x, uint32_t y, uint32_t count)
{
    HypPlan__Copy *s = pb_copy(b);
    uint32_t *extent = pb_consts(b, 1, (int64_t[]){0});
    *extent = count;
    s->x = x;
    s->y = y;
    s->n_extents = s->n_x_strides = s->n_y_strides = 1;
    s->extents = extent;
    s->x_strides = s->y_strides = pb_consts(b, 1, (int64_t[]){1});
    s->x_offset = s->y_offset = pb_const(b, 0);
}

HypPlan__Linear *pb_linear(plan_builder *b, uint32_t x, uint32_t y, uint32_t m)
{
    HypPlan__Linear *s = new_linear(b);
    s->x = x;
    s->y = y;
    s->m = m;
    s->layers = message(b, 32 * sizeof *s->layers);
    return s;
}

HypPlan__Layer *pb_layer(plan_builder *b, HypPlan__Linear *linear, int64_t n, int64_t k, uint32_t weight, uint32_t bias,
                         HypPlan__Act act, uint32_t hidden)
{
    HypPlan__Layer *layer = message(b, sizeof *layer);
    hyp_plan__layer__init(layer);
    layer->n = pb_const(b, n);
    layer->k = pb_const(b, k);
    layer->weight = weight;
    layer->bias_plus1 = bias + 1; /* PB_NONE + 1 == 0 */
    layer->act = act;
    layer->hidden_plus1 = hidden + 1;
    assert_true(linear->n_layers < 32);
    linear->layers[linear->n_layers++] = layer;
    return layer;
}

HypPlan__Pointwise *pb_pointwise(plan_builder *b, hyp_dtype compute, size_t rank, const uint32_t *extents)
{
    HypPlan__Pointwise *s = new_pointwise(b);
    s->compute = compute;
    s->n_extents = rank;
    s->extents = arena_copy(b, extents, rank * sizeof *extents);
    s->inputs = message(b, HYP_PLAN_POINTWISE_INPUTS * sizeof *s->inputs);
    s->instrs = message(b, HYP_PLAN_POINTWISE_REGISTERS * sizeof *s->instrs);
    s->outputs = message(b, HYP_PLAN_POINTWISE_OUTPUTS * sizeof *s->outputs);
    s->output_regs = message(b, HYP_PLAN_POINTWISE_OUTPUTS * sizeof *s->output_regs);
    return s;
}

void pb_operand(plan_builder *b, HypPlan__Pointwise *step, uint32_t tensor, const uint32_t *strides)
{
    HypPlan__Pointwise__Operand *operand = message(b, sizeof *operand);
    hyp_plan__pointwise__operand__init(operand);
    operand->tensor = tensor;
    operand->n_strides = step->n_extents;
    operand->strides = arena_copy(b, strides, step->n_extents * sizeof *strides);
    assert_true(step->n_inputs < HYP_PLAN_POINTWISE_INPUTS);
    step->inputs[step->n_inputs++] = operand;
}

uint32_t pb_instr(plan_builder *b, HypPlan__Pointwise *step, HypPlan__Pointwise__Op op, uint32_t a, uint32_t c,
                  double p, double q, hyp_dtype to)
{
    HypPlan__Pointwise__Instr *instr = message(b, sizeof *instr);
    hyp_plan__pointwise__instr__init(instr);
    instr->op = op;
    instr->a = a;
    instr->b = c;
    instr->p = p;
    instr->q = q;
    instr->to = to;
    assert_true(step->n_inputs + step->n_instrs < HYP_PLAN_POINTWISE_REGISTERS);
    step->instrs[step->n_instrs++] = instr;
    return (uint32_t)(step->n_inputs + step->n_instrs - 1);
}

void pb_result(plan_builder *b, HypPlan__Pointwise *step, uint32_t tensor, uint32_t reg)
{
    (void)b;
    assert_true(step->n_outputs < HYP_PLAN_POINTWISE_OUTPUTS);
    step->outputs[step->n_outputs++] = tensor;
    step->output_regs[step->n_output_regs++] = reg;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static hyp_status give_weight(void *user, uint32_t tensor, const void **out, hyp_diag *diag)
{
    (void)diag;
    *out = ((plan_builder *)user)->weights[tensor];
    return HYP_OK;
}

void pb_write(plan_builder *b, char path[PB_PATH])
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, PB_PATH, "%s/hypatia-test-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    hyp_diag diag = {0};
    hyp_plan_place_weights(&b->program);
    hyp_plan_weights weights = {give_weight, b};
    if (hyp_plan_write(path, &b->program, &weights, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
}

void pb_remove(plan_builder *b, const char *path)
{
    unlink(path);
    pb_dispose(b);
}

hyp_engine *pb_load(plan_builder *b, hyp_device_kind device)
{
    char path[PB_PATH];
    pb_write(b, path);
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    hyp_status status = hyp_engine_load_file(path, &options, &engine, &diag);
    unlink(path);
    if (status != HYP_OK) fail_msg("%s", diag.message);
    return engine;
}
