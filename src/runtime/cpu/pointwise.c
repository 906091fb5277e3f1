/* Pointwise steps in f32, whatever the types of the tensors: the extents are merged into as long runs as the strides
 * allow, and every instruction works on a block of a run. Steps in other types are left to the reference kernel.
 */
#include "base/dtype.h"
#include "runtime/cpu/cpu.h"

typedef struct pointwise {
    hyp_walk walk;                            /* over the runs; lane i is input i */
    int64_t runs;                             /* how many there are */
    int64_t length;                           /* elements of a run */
    int64_t steps[HYP_PLAN_POINTWISE_INPUTS]; /* from element to element of a run, by input */
    size_t inputs, instrs, outputs;
    struct {
        uint32_t tensor;
        hyp_dtype dtype;
        bool copied; /* named as an output: must be read before any output is written */
    } input[HYP_PLAN_POINTWISE_INPUTS];
    struct {
        hyp_block_instr instr;
        uint32_t a, b, c;
    } instr[HYP_PLAN_POINTWISE_REGISTERS];
    struct {
        uint32_t tensor, reg;
        hyp_dtype dtype;
    } output[HYP_PLAN_POINTWISE_OUTPUTS];
} pointwise;

/* Where blocks of a multiple of this many elements are, kernels may read tensors in place. */
enum { LANES = 16 };

static bool narrow_float(hyp_dtype t) { return t == HYP_F32 || t == HYP_F16 || t == HYP_BF16; }

#define LOAD(type)                                                                                                     \
    for (int64_t i = 0; i < n; i++) out[i] = (float)((const type *)x)[first + i * step];                               \
    break

/* Elements x[first + i * step], i < n, as floats. */
static void load_strided(hyp_dtype dtype, const void *x, int64_t first, int64_t step, float *out, int64_t n)
{
    switch (dtype) {
    case HYP_F32: LOAD(float);
    case HYP_BOOL:
        for (int64_t i = 0; i < n; i++) out[i] = ((const uint8_t *)x)[first + i * step] != 0 ? 1.0f : 0.0f;
        break;
    case HYP_U8: LOAD(uint8_t);
    case HYP_I32: LOAD(int32_t);
    case HYP_I64: LOAD(int64_t);
    case HYP_U64: LOAD(uint64_t);
    default:
        for (int64_t i = 0; i < n; i++) out[i] = (float)hyp_load_f64(dtype, x, (size_t)(first + i * step));
    }
}

/* Floats as the elements y[first + i]. */
static void store_block(const hyp_cpu_run *run, hyp_dtype dtype, const float *x, char *y, int64_t first, int64_t n)
{
    y += first * (int64_t)hyp_dtype_size(dtype);
    if (narrow_float(dtype))
        run->kernels->narrow(dtype, x, y, n);
    else if (dtype == HYP_BOOL)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = x[i] != 0;
    else
        for (int64_t i = 0; i < n; i++) hyp_store_f64(dtype, y, (size_t)i, (double)x[i]);
}

static const float *load_block(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, int64_t done,
                               float *room, int64_t n)
{
    hyp_dtype dtype = s->input[i].dtype;
    const char *x = run->call.at[s->input[i].tensor];
    int64_t step = s->steps[i], first = walk->offset[i] + done * step;
    if (step == 1 && narrow_float(dtype)) {
        const char *at = x + first * (int64_t)hyp_dtype_size(dtype);
        if (dtype == HYP_F32 && n % LANES == 0 && !s->input[i].copied) return (const float *)(const void *)at;
        run->kernels->widen(dtype, at, room, n);
    } else if (step == 0) {
        load_strided(dtype, x, first, 0, room, 1);
        for (int64_t j = 1; j < n; j++) room[j] = room[0];
    } else {
        load_strided(dtype, x, first, step, room, n);
    }
    return room;
}

/* Blocks that one thread needs. */
static size_t registers_of(const pointwise *s) { return s->inputs + s->instrs + 1; }

typedef struct pointwise_run {
    const pointwise *s;
    const hyp_cpu_run *run;
} pointwise_run;

/* One block: n elements that start `done` into the run that `walk` is at, whose first result is element `at` of the
 * outputs. */
static void run_block(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, float (*blocks)[HYP_BLOCK],
                      int64_t done, int64_t at, int64_t n)
{
    const float *registers[HYP_PLAN_POINTWISE_REGISTERS] = {blocks[0]}; /* for operands that are not there */
    int64_t padded = (n + LANES - 1) / LANES * LANES;
    for (size_t i = 0; i < s->inputs; i++) registers[i] = load_block(s, run, walk, i, done, blocks[i], n);
    for (size_t i = 0; i < s->instrs; i++) {
        size_t reg = s->inputs + i;
        const float *const x[] = {registers[s->instr[i].a], registers[s->instr[i].b], registers[s->instr[i].c]};
        run->kernels->instr(&s->instr[i].instr, blocks[reg], x, padded);
        registers[reg] = blocks[reg];
    }
    for (size_t i = 0; i < s->outputs; i++)
        store_block(run, s->output[i].dtype, registers[s->output[i].reg], run->call.at[s->output[i].tensor], at, n);
}

static int64_t blocks_of_run(const pointwise *s) { return (s->length + HYP_BLOCK - 1) / HYP_BLOCK; }

/* Parts are blocks. */
static void pointwise_part(void *state, int64_t begin, int64_t end, int thread)
{
    const pointwise_run *r = state;
    const pointwise *s = r->s;
    float(*work)[HYP_BLOCK] = r->run->call.work;
    int64_t each = blocks_of_run(s), block = begin % each, row = begin / each;
    hyp_walk walk = s->walk;
    hyp_walk_seek(&walk, row);
    for (int64_t i = begin; i < end; i++) {
        int64_t done = block * HYP_BLOCK, left = s->length - done;
        run_block(s, r->run, &walk, work + (size_t)thread * registers_of(s), done, row * s->length + done,
                  left < HYP_BLOCK ? left : HYP_BLOCK);
        if (++block < each) continue;
        block = 0;
        row++;
        hyp_walk_next(&walk);
    }
}

static hyp_status run_pointwise(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    enum { GRAIN = 8192 / HYP_BLOCK }; /* blocks that are worth a thread */
    pointwise_run r = {op->state, run};
    hyp_cpu_parallel(run, r.s->runs * blocks_of_run(r.s), GRAIN, pointwise_part, &r);
    return HYP_OK;
}

/* False where the step computes in a type that is not for the kernels of this file. */
static bool translate(const HypPlan__Program *p, const HypPlan__Pointwise *step, const int64_t *values, pointwise *s)
{
    if (step->compute != HYP_F32) return false;
    *s = (pointwise){.inputs = step->n_inputs, .instrs = step->n_instrs, .outputs = step->n_outputs};
    hyp_walk_init(&s->walk, values, step->extents, step->n_extents);
    for (size_t i = 0; i < s->inputs; i++) {
        uint32_t tensor = step->inputs[i]->tensor;
        s->input[i].tensor = tensor;
        s->input[i].dtype = hyp_tensor_dtype(p, tensor);
        hyp_walk_lane(&s->walk, values, step->inputs[i]->strides, 0);
    }
    for (size_t i = 0; i < s->instrs; i++) {
        const HypPlan__Pointwise__Instr *in = step->instrs[i];
        s->instr[i].instr = (hyp_block_instr){in->op, (float)in->p, (float)in->q, (hyp_dtype)in->to};
        s->instr[i].a = in->a;
        s->instr[i].b = in->b;
        s->instr[i].c = in->c;
    }
    for (size_t i = 0; i < s->outputs; i++) {
        s->output[i].tensor = step->outputs[i];
        s->output[i].reg = step->output_regs[i];
        s->output[i].dtype = hyp_tensor_dtype(p, step->outputs[i]);
        if (s->output[i].reg < s->inputs) s->input[s->output[i].reg].copied = true;
    }
    hyp_walk_coalesce(&s->walk);
    s->length = hyp_walk_take_inner(&s->walk, s->steps);
    s->runs = hyp_walk_count(&s->walk);
    return true;
}

hyp_status hyp_cpu_prepare_pointwise(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    pointwise s;
    if (!translate(model->plan->program, op->step->pointwise, values, &s)) return HYP_OK;
    op->state = hyp_malloc(sizeof s);
    if (!op->state) return hyp_fail_memory(diag, sizeof s);
    *(pointwise *)op->state = s;
    op->run = run_pointwise;
    op->destroy = hyp_free;
    op->work_bytes = (size_t)hyp_cpu_threads(model->device) * registers_of(&s) * HYP_BLOCK * sizeof(float);
    return HYP_OK;
}
