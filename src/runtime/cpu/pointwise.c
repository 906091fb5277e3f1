/* Pointwise steps: the extents are merged into as long runs as the strides allow, and every instruction works on a
 * block of a run. Steps in f32 run on vectors, steps in other types in pointwise_wide.c. The types of the tensors may
 * be any.
 */
#include <math.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/dtype.h"
#include "runtime/cpu/cpu.h"

typedef struct pointwise {
    const HypPlan__Pointwise *step;
    hyp_dtype compute;
    hyp_walk walk;                            /* over the runs; lane i is input i */
    int64_t runs;                             /* how many there are */
    int64_t length;                           /* elements of a run */
    int64_t block;                            /* elements of a block at most */
    int64_t together;                         /* runs of a block */
    bool far;                                 /* results are beyond the caches */
    bool direct;                              /* the last instruction may write its block of the only result */
    int64_t steps[HYP_PLAN_POINTWISE_INPUTS]; /* from element to element of a run, by input */
    size_t inputs, instrs, outputs;
    struct {
        uint32_t tensor;
        hyp_dtype dtype;
        bool copied; /* named as an output: must be read before any output is written */
        bool dense;  /* runs lie one behind the other */
        bool fixed;  /* it is the same in every block, in its own before the first */
        bool one;    /* of a run it is one number, and instructions want no more */
    } input[HYP_PLAN_POINTWISE_INPUTS];
    struct {
        hyp_block_instr block; /* where it computes in f32 */
        uint32_t from[3];      /* its operands */
        bool joined;           /* another does this, too */
    } instr[HYP_PLAN_POINTWISE_REGISTERS];
    struct {
        uint32_t tensor, reg;
        hyp_dtype dtype;
    } output[HYP_PLAN_POINTWISE_OUTPUTS];
} pointwise;

/* Where blocks of a multiple of this many elements are, kernels may read tensors in place. */
enum { LANES = 16 };

static bool narrow_float(hyp_dtype t) { return hyp_dtype_is_float(t) && t != HYP_F64; }

/* Neighbours apart: the compiler makes vectors of that loop. */
#define LOAD(type, wanted)                                                                                             \
    {                                                                                                                  \
        const type *p = (const type *)x + first;                                                                       \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++) out[i] = (float)(p[i] wanted);                                             \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) out[i] = (float)(p[i * step] wanted);                                      \
        break;                                                                                                         \
    }

/* Elements x[first + i * step], i < n, as floats. */
static void load_strided(hyp_dtype dtype, const void *x, int64_t first, int64_t step, float *out, int64_t n)
{
    switch (dtype) {
    case HYP_F32: LOAD(float, )
    case HYP_BOOL: LOAD(uint8_t, != 0)
    case HYP_U8: LOAD(uint8_t, )
    case HYP_I8: LOAD(int8_t, )
    case HYP_I32: LOAD(int32_t, )
    case HYP_I64: LOAD(int64_t, )
    case HYP_U64: LOAD(uint64_t, )
    default:
        for (int64_t i = 0; i < n; i++) out[i] = (float)hyp_load_f64(dtype, x, (size_t)(first + i * step));
    }
}

/* Whether all are within the range of int32_t: then the compiler makes vectors of the loops that store them. */
static bool are_short(const float *x, int64_t n)
{
    int32_t outside = 0;
    for (int64_t i = 0; i < n; i++) outside |= !(x[i] >= -0x1p31f) | !(x[i] < 0x1p31f);
    return !outside;
}

#define STORE(type, value)                                                                                             \
    for (int64_t i = 0; i < n; i++) ((type *)y)[i] = (type)(value);                                                    \
    break

static void store_integers(hyp_dtype dtype, const float *x, void *y, int64_t n)
{
    switch (are_short(x, n) ? dtype : HYP_DTYPE_NONE) {
    case HYP_U8:
    case HYP_I8: STORE(uint8_t, (int32_t)x[i]);
    case HYP_I32: STORE(int32_t, x[i]);
    case HYP_I64: STORE(int64_t, (int32_t)x[i]);
    default:
        for (int64_t i = 0; i < n; i++) hyp_store_f64(dtype, y, (size_t)i, (double)x[i]);
    }
}

/* Past the caches: a line that is written whole is not read before. Needs end_streams behind it. */
static void stream(const float *x, float *y, int64_t n)
{
#ifdef __SSE2__
    enum { LINE = 64 / sizeof(float) };
    int64_t i = (int64_t)(-(uintptr_t)y / sizeof *y % LINE);
    if (i > n) i = n;
    memcpy(y, x, (size_t)i * sizeof *y);
    for (; i + LINE <= n; i += LINE)
        for (int64_t j = i; j < i + LINE; j += 4) _mm_stream_ps(y + j, _mm_loadu_ps(x + j));
    memcpy(y + i, x + i, (size_t)(n - i) * sizeof *y);
#else
    memcpy(y, x, (size_t)n * sizeof *y);
#endif
}

/* Other threads see what was streamed. */
static void end_streams(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

static void store_block(const hyp_cpu_run *run, bool far, hyp_dtype dtype, const float *x, void *y, int64_t n)
{
    if (far && dtype == HYP_F32)
        stream(x, y, n);
    else if (narrow_float(dtype))
        run->kernels->narrow(dtype, x, y, n);
    else if (dtype == HYP_BOOL)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = x[i] != 0;
    else
        store_integers(dtype, x, y, n);
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
        const float all = room[0];
        for (int64_t j = 1; j < n; j++) room[j] = all;
    } else {
        load_strided(dtype, x, first, step, room, n);
    }
    return room;
}

/* Blocks that one thread needs, and the bytes of one. */
static size_t registers_of(const pointwise *s) { return s->inputs + s->instrs + 1; }
static size_t block_bytes(const pointwise *s) { return (size_t)s->block * (s->compute == HYP_F32 ? sizeof(float) : 8); }

typedef struct pointwise_run {
    const pointwise *s;
    const hyp_cpu_run *run;
    bool far; /* results are written past the caches */
} pointwise_run;

static const void *load_input(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, int64_t done,
                              void *room, int64_t n)
{
    if (s->compute == HYP_F32) return load_block(s, run, walk, i, done, room, n);
    hyp_cpu_wide_load(s->compute, s->input[i].dtype, run->call.at[s->input[i].tensor],
                      walk->offset[i] + done * s->steps[i], s->steps[i], room, n);
    return room;
}

static void run_instr(const pointwise *s, const hyp_cpu_run *run, size_t i, const void *const *registers, void *out,
                      int64_t n)
{
    const uint32_t *from = s->instr[i].from;
    const void *const x[] = {registers[from[0]], registers[from[1]], registers[from[2]]};
    int64_t padded = (n + LANES - 1) / LANES * LANES;
    if (s->compute == HYP_F32)
        run->kernels->instr(&s->instr[i].block, out, (const float *const[]){x[0], x[1], x[2]}, padded);
    else
        hyp_cpu_wide_instr(s->compute, s->step->instrs[i], out, x, n);
}

static bool is_constant(const pointwise *s, size_t instr)
{
    return s->step->instrs[instr]->op == HYP_PLAN__POINTWISE__OP__CONST;
}

/* One short run, written to where it belongs in a block. */
static void load_run(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, float *at)
{
    const float *from = run->call.at[s->input[i].tensor];
    if (s->input[i].dtype != HYP_F32 || s->steps[i] > 1)
        from = load_block(s, run, walk, i, 0, at, s->length);
    else
        from += walk->offset[i];
    if (s->steps[i] == 0 && s->input[i].dtype == HYP_F32) {
        const float all = *from;
        for (int64_t j = 0; j < s->length; j++) at[j] = all;
    } else if (from != at) {
        memcpy(at, from, (size_t)s->length * sizeof *at);
    }
}

/* A run that all others are like, as often as a block of short runs has it. */
static void repeat_run(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, float *room)
{
    for (int64_t r = 0; r < s->together; r++) load_run(s, run, walk, i, room + r * s->length);
}

/* What is the same in every block, before the first: each register has a block of its own. */
static void fill_blocks(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, char *blocks)
{
    const void *registers[HYP_PLAN_POINTWISE_REGISTERS]; /* which a constant may name, though it needs none */
    for (size_t i = 0; i < HYP_PLAN_POINTWISE_REGISTERS; i++) registers[i] = blocks;
    for (size_t i = 0; i < s->inputs; i++) {
        char *room = blocks + i * block_bytes(s);
        if (s->input[i].one) continue;
        if (s->input[i].fixed && s->steps[i] == 0)
            load_input(s, run, walk, i, 0, room, s->block);
        else if (s->input[i].fixed)
            repeat_run(s, run, walk, i, (float *)(void *)room);
    }
    for (size_t i = 0; i < s->instrs; i++)
        if (is_constant(s, i)) run_instr(s, run, i, registers, blocks + (s->inputs + i) * block_bytes(s), s->block);
}

/* The number that an input is along the run. */
static const float *load_one(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, float *room)
{
    const float *x = run->call.at[s->input[i].tensor];
    if (s->input[i].dtype == HYP_F32) return x + walk->offset[i];
    load_strided(s->input[i].dtype, x, walk->offset[i], 0, room, 1);
    return room;
}

/* Short runs, beside each other in blocks: `count` of them from `walk` on, which goes to the one behind. */
static void load_runs(const pointwise *s, const hyp_cpu_run *run, hyp_walk *walk, char *blocks, int64_t count,
                      const void **registers)
{
    int64_t n = count * s->length;
    for (size_t i = 0; i < s->inputs; i++)
        if (s->input[i].one)
            registers[i] = load_one(s, run, walk, i, (float *)(void *)(blocks + i * block_bytes(s)));
        else if (s->input[i].fixed)
            registers[i] = blocks + i * block_bytes(s);
        else if (s->input[i].dense)
            registers[i] = load_block(s, run, walk, i, 0, (float *)(void *)(blocks + i * block_bytes(s)), n);
    for (int64_t r = 0; r < count; r++, hyp_walk_next(walk))
        for (size_t i = 0; i < s->inputs; i++) {
            float *room = (float *)(void *)(blocks + i * block_bytes(s)), *at = room + r * s->length;
            if (s->input[i].dense || s->input[i].fixed) continue;
            registers[i] = room;
            load_run(s, run, walk, i, at);
        }
}

/* The inputs of a block of a long run. A number that stays the same along the run is written out for the first of its
 * blocks that this thread does, which is `fresh`, as long as any. */
static void load_inputs(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, char *blocks, int64_t done,
                        bool fresh, int64_t n, const void **registers)
{
    const int64_t longest = s->length < s->block ? s->length : s->block;
    for (size_t i = 0; i < s->inputs; i++) {
        char *block = blocks + i * block_bytes(s);
        registers[i] = block;
        if (s->input[i].one)
            registers[i] = load_one(s, run, walk, i, (float *)(void *)block);
        else if (s->steps[i] != 0)
            registers[i] = load_input(s, run, walk, i, done, block, n);
        else if (fresh && !s->input[i].fixed)
            load_input(s, run, walk, i, done, block, longest);
    }
}

/* One block: n elements that start `done` into the run that `walk` is at, whose first result is element `at` of the
 * outputs; or, of short runs, those from there on. */
static void run_block(const pointwise_run *r, hyp_walk *walk, char *blocks, int64_t done, bool fresh, int64_t at, int64_t n)
{
    const pointwise *s = r->s;
    const hyp_cpu_run *run = r->run;
    const void *registers[HYP_PLAN_POINTWISE_REGISTERS] = {blocks}; /* for operands that are not there */
    char *block = blocks + s->inputs * block_bytes(s);
    if (s->together > 1)
        load_runs(s, run, walk, blocks, n / s->length, registers);
    else
        load_inputs(s, run, walk, blocks, done, fresh, n, registers);
    bool direct = s->direct && n % LANES == 0; /* else numbers behind the block would be written */
    size_t made = direct ? s->instrs - 1 : s->instrs;
    for (size_t i = 0; i < made; i++, block += block_bytes(s)) {
        if (!is_constant(s, i) && !s->instr[i].joined) run_instr(s, run, i, registers, block, n);
        registers[s->inputs + i] = block;
    }
    if (direct) run_instr(s, run, made, registers, (float *)run->call.at[s->output[0].tensor] + at, n);
    for (size_t i = 0; i < s->outputs && !direct; i++) {
        const void *x = registers[s->output[i].reg];
        hyp_dtype dtype = s->output[i].dtype;
        char *y = (char *)run->call.at[s->output[i].tensor] + at * (int64_t)hyp_dtype_size(dtype);
        if (s->compute == HYP_F32)
            store_block(run, r->far, dtype, x, y, n);
        else
            hyp_cpu_wide_store(s->compute, dtype, x, y, n);
    }
}

static int64_t blocks_of_run(const pointwise *s) { return (s->length + s->block - 1) / s->block; }

/* Parts are blocks. */
static void pointwise_part(void *state, int64_t begin, int64_t end, int thread)
{
    const pointwise_run *r = state;
    const pointwise *s = r->s;
    char *work = (char *)r->run->call.work + (size_t)thread * registers_of(s) * block_bytes(s);
    int64_t each = blocks_of_run(s), block = begin % each, row = begin / each * s->together;
    hyp_walk walk = s->walk;
    hyp_walk_seek(&walk, row);
    if (begin < end) fill_blocks(s, r->run, &walk, work);
    for (int64_t i = begin; i < end && s->together > 1; i++, row += s->together) {
        int64_t count = s->runs - row < s->together ? s->runs - row : s->together;
        run_block(r, &walk, work, 0, true, row * s->length, count * s->length);
    }
    for (int64_t i = begin; i < end && s->together == 1; i++) {
        int64_t done = block * s->block, left = s->length - done;
        if (left > s->block) left = s->block;
        run_block(r, &walk, work, done, i == begin || done == 0, row * s->length + done, left);
        if (++block < each) continue;
        block = 0;
        row++;
        hyp_walk_next(&walk);
    }
    if (r->far) end_streams();
}

/* Lines that were read for what they hold are there when a result takes its place. */
static bool takes_a_place(const pointwise *s, const hyp_cpu_run *run)
{
    for (size_t o = 0; o < s->outputs; o++)
        for (size_t i = 0; i < s->inputs; i++)
            if (run->call.at[s->output[o].tensor] == run->call.at[s->input[i].tensor]) return true;
    return false;
}

static hyp_status run_pointwise(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    enum { GRAIN = 8192 }; /* elements that are worth a thread */
    const pointwise *s = op->state;
    pointwise_run r = {s, run, s->far && !takes_a_place(s, run)};
    int64_t runs = (r.s->runs + r.s->together - 1) / r.s->together;
    hyp_cpu_parallel(run, runs * blocks_of_run(r.s), GRAIN / r.s->block, pointwise_part, &r);
    return HYP_OK;
}

/* The last result need not be rounded before it is stored in the same type, if it goes nowhere else. */
static void leave_rounding_to_stores(pointwise *s)
{
    size_t last = s->inputs + s->instrs - 1;
    for (size_t i = 0; i < s->outputs; i++)
        if (s->instrs == 0 || s->output[i].reg != last || s->output[i].dtype != s->instr[s->instrs - 1].block.to)
            return;
    s->instr[s->instrs - 1].block.to = HYP_F32;
}

/* Of whole numbers that floats hold nothing is rounded: bytes, and a few sums of them, in wider types of integers. */
static void leave_whole_numbers(pointwise *s)
{
    enum { EXACT = 1 << 24 };
    double most[HYP_PLAN_POINTWISE_REGISTERS]; /* their size; INFINITY: they need not be whole */
    for (size_t i = 0; i < s->inputs; i++) {
        hyp_dtype t = s->input[i].dtype;
        most[i] = t == HYP_U8 || t == HYP_I8 || t == HYP_BOOL ? 255 : INFINITY;
    }
    for (size_t i = 0; i < s->instrs; i++) {
        const HypPlan__Pointwise__Instr *in = s->step->instrs[i];
        hyp_block_instr *own = &s->instr[i].block;
        double *to = &most[s->inputs + i];
        bool sums = in->op == HYP_PLAN__POINTWISE__OP__ADD || in->op == HYP_PLAN__POINTWISE__OP__SUB;
        *to = sums ? most[in->a] + most[in->b] : in->op == HYP_PLAN__POINTWISE__OP__CAST ? most[in->a] : INFINITY;
        bool wide = own->to == HYP_I32 || own->to == HYP_I64 || own->to == HYP_F32;
        if (!wide || *to > EXACT) *to = INFINITY;
        if (*to <= EXACT) own->to = HYP_F32;
    }
}

static int operands_of(const pointwise *s, size_t i)
{
    if (s->instr[i].joined) return 0;
    return s->instr[i].block.times ? 3 : hyp_plan_pointwise_arity(s->instr[i].block.op);
}

/* How many results and operands of instructions that are done are this register. */
static size_t count_readers(const pointwise *s, size_t reg)
{
    size_t readers = 0;
    for (size_t i = 0; i < s->outputs; i++) readers += s->output[i].reg == reg;
    for (size_t i = 0; i < s->instrs; i++)
        for (int j = 0; j < operands_of(s, i); j++) readers += s->instr[i].from[j] == reg;
    return readers;
}

/* Whether a register is what this operator makes in f32, for one reader. Gives the instruction. */
static bool made_by(const pointwise *s, size_t reg, HypPlan__Pointwise__Op op, size_t *instr)
{
    if (reg < s->inputs) return false;
    *instr = reg - s->inputs;
    const hyp_block_instr *in = &s->instr[*instr].block;
    return in->op == op && in->to == HYP_F32 && count_readers(s, reg) == 1;
}

/* Sums multiply a term, and relu of a sum is done with it, so that these pass through the cache once. */
static void join_instructions(pointwise *s)
{
    for (size_t i = 0, made; i < s->instrs; i++) {
        hyp_block_instr *in = &s->instr[i].block;
        uint32_t *from = s->instr[i].from;
        if (in->op == HYP_PLAN__POINTWISE__OP__RELU && made_by(s, from[0], HYP_PLAN__POINTWISE__OP__ADD, &made)) {
            memcpy(from, s->instr[made].from, sizeof s->instr[i].from);
            in->op = HYP_PLAN__POINTWISE__OP__ADD;
            in->times = s->instr[made].block.times;
            in->relu = true;
            s->instr[made].joined = true;
        }
        if (in->op != HYP_PLAN__POINTWISE__OP__ADD || in->relu) continue;
        for (int j = 0; j < 2 && !in->times; j++) {
            if (!made_by(s, from[j], HYP_PLAN__POINTWISE__OP__MUL, &made)) continue;
            const uint32_t *factors = s->instr[made].from, other = from[1 - j];
            memcpy(from, (uint32_t[]){factors[0], other, factors[1]}, sizeof s->instr[i].from);
            in->times = s->instr[made].joined = true;
        }
    }
}

/* Whether an instruction can have one number for an operand. */
static bool takes_one(HypPlan__Pointwise__Op op)
{
    return op == HYP_PLAN__POINTWISE__OP__ADD || op == HYP_PLAN__POINTWISE__OP__SUB || op == HYP_PLAN__POINTWISE__OP__MUL ||
           op == HYP_PLAN__POINTWISE__OP__DIV || op == HYP_PLAN__POINTWISE__OP__MIN || op == HYP_PLAN__POINTWISE__OP__MAX;
}

/* Numbers that stay the same along a run need not be written out for instructions that take one. */
static void find_ones(pointwise *s)
{
    for (size_t i = 0; i < s->inputs; i++) {
        bool one = s->steps[i] == 0 && (s->together == 1 || s->input[i].fixed);
        for (size_t o = 0; o < s->outputs; o++) one = one && s->output[o].reg != i;
        for (size_t k = 0; k < s->instrs; k++)
            for (int j = 0; j < operands_of(s, k); j++)
                one = one && (s->instr[k].from[j] != i || takes_one(s->instr[k].block.op));
        s->input[i].one = one;
        for (size_t k = 0; k < s->instrs && one; k++)
            for (int j = 0; j < operands_of(s, k); j++)
                s->instr[k].block.ones |= (unsigned)(s->instr[k].from[j] == i) << j;
    }
}

/* Operands that an instruction does not have are its first one: kernels may load three vectors whatever they compute. */
static void fill_operands(pointwise *s)
{
    for (size_t i = 0; i < s->instrs; i++)
        for (int j = operands_of(s, i); j > 0 && j < 3; j++) {
            s->instr[i].from[j] = s->instr[i].from[0];
            s->instr[i].block.ones |= (s->instr[i].block.ones & 1) << j;
        }
}

static bool is_dense(const pointwise *s, size_t i)
{
    int64_t each = s->length;
    bool dense = s->steps[i] == 1;
    for (size_t a = s->walk.rank; a-- > 0; each *= s->walk.extents[a])
        dense = dense && (s->walk.strides[i][a] == each || s->walk.extents[a] == 1);
    return dense;
}

/* One number, or in blocks of whole runs what is the same in each of these. */
static bool is_fixed(const pointwise *s, size_t i)
{
    bool fixed = s->steps[i] == 0 || s->together > 1;
    for (size_t a = 0; a < s->walk.rank; a++) fixed = fixed && (s->walk.strides[i][a] == 0 || s->walk.extents[a] == 1);
    return fixed;
}

/* As much as the registers have room for in the first-level cache: a call for every block takes as long as some hundred
 * elements. 16 bits are rounded by kernels that have room for no more than the least. */
static int64_t choose_block(const pointwise *s)
{
    enum { ROOM = 4096 };
    int64_t block = HYP_BLOCK;
    if (s->compute != HYP_F32) return block;
    for (size_t i = 0; i < s->instrs; i++)
        if (s->instr[i].block.to != HYP_F32) return block;
    while (2 * block * (int64_t)registers_of(s) <= ROOM) block *= 2;
    return block;
}

/* Short runs share blocks, so many that a block is whole vectors where it has room for that: these are read and written
 * where they lie. */
static int64_t choose_together(const pointwise *s)
{
    if (s->compute != HYP_F32 || s->length <= 0 || s->length > HYP_BLOCK / 2) return 1;
    int64_t runs = s->block / s->length, whole = LANES;
    while (whole > 1 && s->length * whole / 2 % LANES == 0) whole /= 2;
    return runs > whole ? runs / whole * whole : runs;
}

static bool is_direct(const pointwise *s)
{
    return s->compute == HYP_F32 && !s->far && s->outputs == 1 && s->output[0].dtype == HYP_F32 && s->instrs > 0 &&
           s->output[0].reg == s->inputs + s->instrs - 1 && !is_constant(s, s->instrs - 1);
}

static void translate(const HypPlan__Program *p, const HypPlan__Pointwise *step, const int64_t *values, pointwise *s)
{
    *s = (pointwise){.step = step,
                     .compute = (hyp_dtype)step->compute,
                     .inputs = step->n_inputs,
                     .instrs = step->n_instrs,
                     .outputs = step->n_outputs};
    hyp_walk_init(&s->walk, values, step->extents, step->n_extents);
    for (size_t i = 0; i < s->inputs; i++) {
        uint32_t tensor = step->inputs[i]->tensor;
        s->input[i].tensor = tensor;
        s->input[i].dtype = hyp_tensor_dtype(p, tensor);
        hyp_walk_lane(&s->walk, values, step->inputs[i]->strides, 0);
    }
    for (size_t i = 0; i < s->instrs; i++) {
        const HypPlan__Pointwise__Instr *in = step->instrs[i];
        s->instr[i].block = (hyp_block_instr){.op = in->op, .p = (float)in->p, .q = (float)in->q, .to = (hyp_dtype)in->to};
        memcpy(s->instr[i].from, (uint32_t[]){in->a, in->b, in->c}, sizeof s->instr[i].from);
    }
    for (size_t i = 0; i < s->outputs; i++) {
        s->output[i].tensor = step->outputs[i];
        s->output[i].reg = step->output_regs[i];
        s->output[i].dtype = hyp_tensor_dtype(p, step->outputs[i]);
        if (s->output[i].reg < s->inputs) s->input[s->output[i].reg].copied = true;
    }
    leave_whole_numbers(s);
    leave_rounding_to_stores(s);
    hyp_walk_coalesce(&s->walk);
    s->length = hyp_walk_take_inner(&s->walk, s->steps);
    s->runs = hyp_walk_count(&s->walk);
}

/* Whether a step reads and writes so much that who reads a result does not find it in a cache. Systems do not say what part of
 * the last level is ours; measured (EPYC, 32 MiB of it): four arrays read and three written took 1.3 times as long
 * streamed at 14 MB, 0.83 times at 28 MB, 0.71 times from 56 MB on. */
static bool is_far(const pointwise *s)
{
    enum { FAR = 32 << 20 };
    double bytes = 0;
    for (size_t i = 0; i < s->inputs; i++) bytes += s->steps[i] ? (double)hyp_dtype_size(s->input[i].dtype) : 0;
    for (size_t i = 0; i < s->outputs; i++) bytes += (double)hyp_dtype_size(s->output[i].dtype);
    return bytes * (double)s->runs * (double)s->length > FAR;
}

hyp_status hyp_cpu_prepare_pointwise(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    pointwise s;
    translate(model->plan->program, op->step->pointwise, values, &s);
    s.far = is_far(&s);
    s.block = choose_block(&s);
    s.together = choose_together(&s);
    for (size_t i = 0; i < s.inputs; i++) {
        s.input[i].dense = is_dense(&s, i);
        s.input[i].fixed = is_fixed(&s, i) && !(s.input[i].dense && s.runs == 1);
    }
    if (s.compute == HYP_F32) {
        join_instructions(&s);
        find_ones(&s);
        fill_operands(&s);
    }
    s.direct = is_direct(&s);
    op->work_bytes = (size_t)model->device->threads * registers_of(&s) * block_bytes(&s);
    return hyp_cpu_keep_state(op, run_pointwise, &s, sizeof s, diag);
}
