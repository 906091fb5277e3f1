/* Pointwise steps: the extents are merged into as long runs as the strides allow, and every instruction works on a
 * block of a run. Steps in f32 run on vectors, steps in other types in pointwise_wide.c. The types of the tensors may
 * be any.
 */
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "runtime/cpu/pointwise.h"

typedef hyp_cpu_pointwise pointwise;
enum { LANES = HYP_POINTWISE_LANES };

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
        char *room = blocks + i * hyp_pointwise_block_bytes(s);
        if (s->input[i].one) continue;
        if (s->input[i].fixed && s->steps[i] == 0)
            load_input(s, run, walk, i, 0, room, s->block);
        else if (s->input[i].fixed)
            repeat_run(s, run, walk, i, (float *)(void *)room);
    }
    for (size_t i = 0; i < s->instrs; i++)
        if (hyp_pointwise_is_constant(s, i))
            run_instr(s, run, i, registers, blocks + (s->inputs + i) * hyp_pointwise_block_bytes(s), s->block);
}

/* The number that an input is along the run. */
static const float *load_one(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, float *room)
{
    const float *x = run->call.at[s->input[i].tensor];
    if (s->input[i].dtype == HYP_F32) return x + walk->offset[i];
    load_strided(s->input[i].dtype, x, walk->offset[i], 0, room, 1);
    return room;
}

/* An input of some runs from `walk` on, along its last axis, each to where it belongs in a block. */
static void load_row(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, size_t i, int64_t count, float *at)
{
    int64_t apart = walk->rank ? walk->strides[i][walk->rank - 1] : 0;
    if (s->input[i].dtype == HYP_F32 && s->steps[i] == 1) {
        const float *from = run->call.at[s->input[i].tensor];
        hyp_cpu_copy_rows(from + walk->offset[i], apart, at, s->length, count, s->length);
        return;
    }
    hyp_walk w = *walk;
    for (int64_t r = 0; r < count; r++, w.offset[i] += apart) load_run(s, run, &w, i, at + r * s->length);
}

/* Short runs, beside each other in blocks: `count` of them from `walk` on, which goes to the one behind. */
static void load_runs(const pointwise *s, const hyp_cpu_run *run, hyp_walk *walk, char *blocks, int64_t count,
                      const void **registers)
{
    int64_t n = count * s->length;
    size_t last = walk->rank ? walk->rank - 1 : 0;
    for (size_t i = 0; i < s->inputs; i++) {
        float *room = (float *)(void *)(blocks + i * hyp_pointwise_block_bytes(s));
        registers[i] = room;
        if (s->input[i].one)
            registers[i] = load_one(s, run, walk, i, room);
        else if (!s->input[i].fixed && s->input[i].dense)
            registers[i] = load_block(s, run, walk, i, 0, room, n);
    }
    for (int64_t r = 0, some; r < count; r += some) {
        some = walk->rank ? walk->extents[last] - walk->index[last] : 1;
        if (some > count - r) some = count - r;
        for (size_t i = 0; i < s->inputs; i++) {
            float *room = (float *)(void *)(blocks + i * hyp_pointwise_block_bytes(s));
            if (!s->input[i].one && !s->input[i].dense && !s->input[i].fixed)
                load_row(s, run, walk, i, some, room + r * s->length);
        }
        for (size_t i = 0; i < s->inputs && walk->rank; i++) walk->offset[i] += (some - 1) * walk->strides[i][last];
        if (walk->rank) walk->index[last] += some - 1;
        hyp_walk_next(walk);
    }
}

/* The inputs of a block of a long run. A number that stays the same along the run is written out for the first of its
 * blocks that this thread does, which is `fresh`, as long as any. */
static void load_inputs(const pointwise *s, const hyp_cpu_run *run, const hyp_walk *walk, char *blocks, int64_t done,
                        bool fresh, int64_t n, const void **registers)
{
    const int64_t longest = s->length < s->block ? s->length : s->block;
    for (size_t i = 0; i < s->inputs; i++) {
        char *block = blocks + i * hyp_pointwise_block_bytes(s);
        registers[i] = block;
        if (s->input[i].one)
            registers[i] = load_one(s, run, walk, i, (float *)(void *)block);
        else if (s->steps[i] != 0)
            registers[i] = load_input(s, run, walk, i, done, block, n);
        else if (fresh && !s->input[i].fixed)
            load_input(s, run, walk, i, done, block, longest);
    }
}

static void store_results(const pointwise_run *r, hyp_dtype dtype, const char *x, char *y, int64_t n)
{
    if (r->s->compute == HYP_F32)
        store_block(r->run, r->far, dtype, (const float *)(const void *)x, y, n);
    else
        hyp_cpu_wide_store(r->s->compute, dtype, x, y, n);
}

/* A block of results: of one run, `done` into it, or of several runs. */
static void store_runs(const pointwise_run *r, size_t i, const char *x, int64_t row, int64_t done, int64_t n)
{
    const pointwise *s = r->s;
    hyp_dtype dtype = s->output[i].dtype;
    int64_t size = (int64_t)hyp_dtype_size(dtype), apart = s->output[i].apart, each = s->length - done;
    char *y = r->run->call.at[s->output[i].tensor];
    if (!apart) {
        store_results(r, dtype, x, y + (row * s->length + done) * size, n);
        return;
    }
    if (done == 0 && n >= each && dtype == HYP_F32 && s->compute == HYP_F32) {
        hyp_cpu_copy_rows((const float *)(const void *)x, each, (float *)(void *)y + row * apart, apart, n / each, each);
        return;
    }
    for (; n > 0; n -= each, row++, x += each * (int64_t)(s->compute == HYP_F32 ? sizeof(float) : 8))
        store_results(r, dtype, x, y + (row * apart + done) * size, n < each ? n : each);
}

/* One block: n elements that start `done` into run `row`, which `walk` is at; or, of short runs, those from there on. */
static void run_block(const pointwise_run *r, hyp_walk *walk, char *blocks, int64_t row, int64_t done, bool fresh, int64_t n)
{
    const pointwise *s = r->s;
    const hyp_cpu_run *run = r->run;
    const void *registers[HYP_PLAN_POINTWISE_REGISTERS] = {blocks}; /* for operands that are not there */
    char *block = blocks + s->inputs * hyp_pointwise_block_bytes(s);
    if (s->together > 1)
        load_runs(s, run, walk, blocks, n / s->length, registers);
    else
        load_inputs(s, run, walk, blocks, done, fresh, n, registers);
    int64_t apart = s->output[0].apart, at = row * (apart ? apart : s->length) + done;
    bool direct = s->direct && n % LANES == 0; /* else numbers behind the block would be written */
    if (apart && s->together > 1) direct = false;
    size_t made = direct ? s->instrs - 1 : s->instrs;
    for (size_t i = 0; i < made; i++, block += hyp_pointwise_block_bytes(s)) {
        if (!hyp_pointwise_is_constant(s, i) && !s->instr[i].joined) run_instr(s, run, i, registers, block, n);
        registers[s->inputs + i] = block;
    }
    if (direct) run_instr(s, run, made, registers, (float *)run->call.at[s->output[0].tensor] + at, n);
    for (size_t i = 0; i < s->outputs && !direct; i++) store_runs(r, i, registers[s->output[i].reg], row, done, n);
}

static int64_t blocks_of_run(const pointwise *s) { return (s->length + s->block - 1) / s->block; }

/* Parts are blocks. */
static void pointwise_part(void *state, int64_t begin, int64_t end, int thread)
{
    const pointwise_run *r = state;
    const pointwise *s = r->s;
    char *work = (char *)r->run->call.work + (size_t)thread * hyp_pointwise_registers(s) * hyp_pointwise_block_bytes(s);
    int64_t each = blocks_of_run(s), block = begin % each, row = begin / each * s->together;
    hyp_walk walk = s->walk;
    hyp_walk_seek(&walk, row);
    if (begin < end) fill_blocks(s, r->run, &walk, work);
    for (int64_t i = begin; i < end && s->together > 1; i++, row += s->together) {
        int64_t count = s->runs - row < s->together ? s->runs - row : s->together;
        run_block(r, &walk, work, row, 0, true, count * s->length);
    }
    for (int64_t i = begin; i < end && s->together == 1; i++) {
        int64_t done = block * s->block, left = s->length - done;
        if (left > s->block) left = s->block;
        run_block(r, &walk, work, row, done, i == begin || done == 0, left);
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

hyp_status hyp_cpu_run_pointwise(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    enum { GRAIN = 8192 }; /* elements that are worth a thread */
    const pointwise *s = op->state;
    pointwise_run r = {s, run, s->far && !takes_a_place(s, run)};
    int64_t runs = (r.s->runs + r.s->together - 1) / r.s->together;
    hyp_cpu_parallel(run, runs * blocks_of_run(r.s), GRAIN / r.s->block, pointwise_part, &r);
    return HYP_OK;
}
