/* integers.c - see integers.h; and the steps that are such products: layers and matmuls in i32. */
#include "runtime/cpu/integers.h"

#include <stdatomic.h>

#include "base/dtype.h"

enum { ALIGN = 64, EXACT = 1 << 24, MOST_TERMS = 512 /* whose panel of weights stays in the first-level cache */ };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- how large numbers are ----------------------------------------------------------------------------------- */

typedef struct scan {
    const int32_t *x;
    _Atomic uint32_t bits;
} scan;

static void scan_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    scan *s = state;
    atomic_fetch_or_explicit(&s->bits, hyp_integer_bits_of(s->x + begin, end - begin), memory_order_relaxed);
}

uint32_t hyp_integer_bits(const hyp_cpu_run *run, const int32_t *x, int64_t count)
{
    scan s = {.x = x};
    hyp_cpu_parallel(run, count, HYP_CPU_MOVED, scan_part, &s);
    return atomic_load_explicit(&s.bits, memory_order_relaxed);
}

/* ---- packing ------------------------------------------------------------------------------------------------- */

bool hyp_integers_room(const hyp_cpu_kernels *kernels, int64_t n, int64_t k, size_t *out)
{
    size_t columns = (size_t)round_up(n, kernels->width), zeros = (size_t)hyp_integer_block(kernels) * sizeof(float);
    bool can = hyp_mul_size((size_t)k, columns, out) && hyp_mul_size(*out, sizeof(float), out) &&
               hyp_add_size(*out, zeros + ALIGN, out);
    *out = *out / ALIGN * ALIGN;
    return can;
}

/* The bits of all numbers of the matrix. */
static uint32_t matrix_bits(const hyp_integer_matrix *m)
{
    uint32_t bits = 0;
    for (int64_t j = 0; j < m->n; j++)
        for (int64_t outer = 0; outer < m->k / m->inner; outer++)
            for (int64_t i = 0; i < m->inner; i++) {
                int32_t x = m->at[j * m->column + outer * m->outer_step + i * m->inner_step];
                bits |= (uint32_t)(x < 0 ? ~x : x);
            }
    return bits;
}

/* The panels of the terms from `first` to `end`; see hyp_mlp_layer. */
static float *pack_part(const hyp_cpu_kernels *kernels, const hyp_integer_matrix *m, int64_t first, int64_t end,
                        float *out)
{
    int64_t panel = (int64_t)kernels->panel * kernels->width;
    for (int64_t column = 0; column < m->n; column += panel) {
        int64_t columns = least(m->n - column, panel), room = round_up(columns, kernels->width);
        for (int64_t l = first; l < end; l++, out += room) {
            const int32_t *from =
                m->at + column * m->column + l / m->inner * m->outer_step + l % m->inner * m->inner_step;
            for (int64_t j = 0; j < columns; j++) out[j] = (float)from[j * m->column];
            for (int64_t j = columns; j < room; j++) out[j] = 0;
        }
    }
    return out;
}

bool hyp_integers_pack(const hyp_cpu_kernels *kernels, const hyp_integer_matrix *m, void *room, hyp_integer_layer *out)
{
    /* Of k the sums are those of a part: terms * HYP_INTEGER_LEFT * (bits + 1) <= EXACT. */
    int64_t terms = EXACT / HYP_INTEGER_LEFT / ((int64_t)matrix_bits(m) + 1);
    if (terms < HYP_INTEGER_LEAST_TERMS) return false;
    float *zeros = room, *to = zeros + hyp_integer_block(kernels);
    *out = (hyp_integer_layer){.n = m->n, .k = m->k, .terms = least(terms, MOST_TERMS), .weights = to, .zeros = zeros};
    memset(zeros, 0, (size_t)hyp_integer_block(kernels) * sizeof *zeros);
    for (int64_t l = 0; l < m->k; l += out->terms) to = pack_part(kernels, m, l, least(m->k, l + out->terms), to);
    return true;
}

/* What the model keeps of a step: the numbers apart, which engines have in common. */
struct hyp_integer_weights {
    void *block; /* hyp_block_drop; NULL where products of these weights are not exact */
    hyp_integer_layer layers[];
};

void hyp_integers_free(hyp_integer_weights *w)
{
    if (w) hyp_block_drop(w->block);
    hyp_free(w);
}

/* The layers' numbers lie in this block, which has the same bytes. */
static void move_layers(hyp_integer_weights *w, int64_t count, void *block)
{
    const float *from = w->block, *to = block;
    for (int64_t i = 0; i < count && to != from; i++) {
        w->layers[i].weights = to + (w->layers[i].weights - from);
        w->layers[i].zeros = to + (w->layers[i].zeros - from);
    }
    w->block = block;
}

/* Packs all of them into w->block, `each` bytes for one; false where products of one are not exact. */
static bool pack_each(const hyp_cpu_kernels *kernels, const hyp_integer_matrix *first, int64_t count, int64_t apart,
                      size_t each, hyp_integer_weights *w)
{
    bool exact = true;
    for (int64_t i = 0; i < count && exact; i++) {
        hyp_integer_matrix m = *first;
        char *room = (char *)w->block + (size_t)i * each;
        memset(room + each - ALIGN, 0, ALIGN); /* no packed number may reach its end, and all bytes are compared */
        m.at += i * apart;
        exact = hyp_integers_pack(kernels, &m, room, &w->layers[i]);
    }
    return exact;
}

/* NULL when memory is out. */
static hyp_integer_weights *pack_all(const hyp_cpu_kernels *kernels, const hyp_integer_matrix *first, int64_t count,
                                     int64_t apart)
{
    size_t each, all, head;
    if (!hyp_mul_size((size_t)count, sizeof(hyp_integer_layer), &head) ||
        !hyp_add_size(head, sizeof(hyp_integer_weights), &head) ||
        !hyp_integers_room(kernels, first->n, first->k, &each) || !hyp_mul_size(each, (size_t)count, &all))
        return NULL;
    hyp_integer_weights *w = hyp_calloc(1, head);
    if (w) w->block = hyp_aligned_alloc(ALIGN, all);
    if (!w || !w->block) {
        hyp_free(w);
        return NULL;
    }
    if (pack_each(kernels, first, count, apart, each, w)) {
        move_layers(w, count, hyp_block_share(w->block, all));
    } else {
        hyp_aligned_free(w->block);
        w->block = NULL;
    }
    return w;
}

hyp_status hyp_integers_find(hyp_cpu_model *model, uint32_t step, const hyp_integer_matrix *first, int64_t count,
                             int64_t apart, const hyp_integer_layer **out, hyp_diag *diag)
{
    hyp_mem_account *before = hyp_cpu_packing_begin(model);
    if (!model->integers[step]) model->integers[step] = pack_all(model->device->kernels, first, count, apart);
    const hyp_integer_weights *w = model->integers[step];
    hyp_cpu_packing_end(model, before);
    if (!w) return hyp_fail_memory(diag, (size_t)(first->n * first->k) * sizeof(float));
    *out = w->block ? w->layers : NULL;
    return HYP_OK;
}

/* ---- multiplying --------------------------------------------------------------------------------------------- */

void hyp_integers_add(const hyp_cpu_kernels *kernels, const hyp_integer_layer *w, int64_t rows, const float *x,
                      int64_t x_stride, int64_t begin, int64_t end, float *made, uint32_t *sums, int64_t stride)
{
    int64_t block = hyp_integer_block(kernels), room = round_up(w->n, kernels->width);
    hyp_mlp_layer layer = {.bias = w->zeros, .act = {.op = HYP_PLAN__POINTWISE__OP__CAST, .to = HYP_F32}};
    for (int64_t l = 0; l < w->k; l += w->terms)
        for (int64_t column = begin; column < end; column += block) {
            layer.k = least(w->k - l, w->terms);
            layer.n = least(end - column, block);
            layer.weights = w->weights + l * room + column * layer.k;
            kernels->panels(&layer, rows, x + l, x_stride, NULL, made, block, 0, kernels->block);
            for (int64_t r = 0; r < rows; r++) hyp_integers_sum(sums + r * stride + column, made + r * block, layer.n);
        }
}

hyp_integer_parts hyp_integers_divide(const hyp_cpu_kernels *kernels, int64_t m, int64_t n, int threads)
{
    hyp_integer_parts p = {.groups = (m + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS, .slices = 1, .n = n};
    p.block = hyp_integer_block(kernels);
    int64_t blocks = (n + p.block - 1) / p.block, wanted = threads > 1 ? 2 * threads : 1;
    if (p.groups > 0 && p.groups < wanted) p.slices = least((wanted + p.groups - 1) / p.groups, blocks);
    return p;
}

void hyp_integers_slice(const hyp_integer_parts *parts, int64_t i, int64_t *begin, int64_t *end)
{
    int64_t blocks = (parts->n + parts->block - 1) / parts->block, slice = i % parts->slices;
    *begin = blocks * slice / parts->slices * parts->block;
    *end = least(blocks * (slice + 1) / parts->slices * parts->block, parts->n);
}

/* ---- layers and matmuls -------------------------------------------------------------------------------------- */

/* A step. Its left matrix is at steps between rows and between columns. */
typedef struct product {
    const hyp_integer_layer *packed; /* of the model; NULL: the right matrix is packed in every run */
    hyp_integer_matrix right;        /* without the numbers */
    uint32_t a, b;                   /* tensors */
    int64_t m, a_row, a_column, a_count;
    size_t thread_at,
        thread_bytes; /* in the work space, behind what is packed: rows of floats, and what is made of them */
} product;

/* One product of a step: y = act(a b + bias + before) + after. */
typedef struct part_run {
    const product *s;
    const hyp_cpu_run *run;
    const hyp_integer_layer *w;
    const int32_t *a, *bias, *before, *after; /* the last three may be NULL */
    int32_t *y;
    hyp_integer_parts parts;
    bool relu;
} part_run;

static void widen_rows(const product *s, const int32_t *a, int64_t rows, float *out)
{
    for (int64_t r = 0; r < rows; r++, a += s->a_row, out += s->right.k) {
        if (s->a_column == 1) {
            memcpy(out, a, (size_t)s->right.k * sizeof *out);
            hyp_integers_widen(out, s->right.k);
        } else {
            for (int64_t l = 0; l < s->right.k; l++) out[l] = (float)a[l * s->a_column];
        }
    }
}

static int32_t sum_of(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

/* What the sums of a row start with. `before` may be y. */
static void start_row(const part_run *p, int64_t row, int64_t begin, int64_t end)
{
    int32_t *y = p->y + row * p->w->n;
    const int32_t *before = p->before ? p->before + row * p->w->n : NULL;
    for (int64_t j = begin; j < end; j++) y[j] = sum_of(before ? before[j] : 0, p->bias ? p->bias[j] : 0);
}

static void finish_row(const part_run *p, int64_t row, int64_t begin, int64_t end)
{
    int32_t *y = p->y + row * p->w->n;
    const int32_t *after = p->after ? p->after + row * p->w->n : NULL;
    for (int64_t j = begin; j < end && p->relu; j++) y[j] = y[j] < 0 ? 0 : y[j];
    for (int64_t j = begin; j < end && after; j++) y[j] = sum_of(y[j], after[j]);
}

static void run_part(void *state, int64_t begin, int64_t end, int thread)
{
    const part_run *p = state;
    const product *s = p->s;
    float *x = (float *)(void *)((char *)p->run->call.work + s->thread_at + (size_t)thread * s->thread_bytes);
    float *made = x + HYP_MLP_ROWS * s->right.k;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / p->parts.slices * HYP_MLP_ROWS, rows = least(s->m - row, HYP_MLP_ROWS), from, to;
        hyp_integers_slice(&p->parts, i, &from, &to);
        widen_rows(s, p->a + row * s->a_row, rows, x);
        for (int64_t r = 0; r < rows; r++) start_row(p, row + r, from, to);
        hyp_integers_add(p->run->kernels, p->w, rows, x, s->right.k, from, to, made, (uint32_t *)p->y + row * p->w->n,
                         p->w->n);
        for (int64_t r = 0; r < rows; r++) finish_row(p, row + r, from, to);
    }
}

static void multiply(part_run *p)
{
    enum { PART_FLOPS = 1 << 19 }; /* that are worth a thread */
    const product *s = p->s;
    p->parts = hyp_integers_divide(p->run->kernels, s->m, s->right.n, p->run->threads);
    double flops = 2.0 * HYP_MLP_ROWS * (double)s->right.n * (double)s->right.k / (double)p->parts.slices;
    hyp_cpu_parallel(p->run, p->parts.groups * p->parts.slices,
                     hyp_cpu_grain(PART_FLOPS, flops < 1e9 ? (int64_t)flops : 1 << 30), run_part, p);
}

/* Whether the numbers of the left matrix are. */
static bool are_small(const product *s, const hyp_cpu_run *run)
{
    return hyp_integer_bits(run, run->call.at[s->a], s->a_count) < HYP_INTEGER_LEFT;
}

/* Packs the right matrix where that is not done; false: its numbers are too large. */
static bool take_right(const product *s, const hyp_cpu_run *run, const int32_t *b, hyp_integer_layer *out)
{
    hyp_integer_matrix m = s->right;
    m.at = b;
    if (!s->packed) return hyp_integers_pack(run->kernels, &m, run->call.work, out);
    *out = *s->packed;
    return true;
}

static hyp_status run_layer(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const product *s = op->state;
    const HypPlan__Linear *step = op->step->linear;
    const HypPlan__Layer *layer = step->layers[0];
    const int32_t *added = step->added_plus1 ? run->call.at[step->added_plus1 - 1] : NULL;
    hyp_integer_layer w;
    if (!are_small(s, run) || !take_right(s, run, run->call.at[s->b], &w))
        return hyp_reference_step(&run->call, op->step, diag);
    part_run p = {.s = s, .run = run, .w = &w, .a = run->call.at[s->a], .y = run->call.at[step->y]};
    p.bias = layer->bias_plus1 ? run->call.at[layer->bias_plus1 - 1] : NULL;
    p.before = step->add_after ? NULL : added;
    p.after = step->add_after ? added : NULL;
    p.relu = layer->act == HYP_PLAN__ACT__ACT_RELU;
    multiply(&p);
    return HYP_OK;
}

static hyp_status run_matmul(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const product *s = op->state;
    const HypPlan__Matmul *step = op->step->matmul;
    const int64_t *v = run->call.values;
    const int32_t *b = run->call.at[s->b];
    hyp_integer_layer w;
    bool small = are_small(s, run);
    hyp_walk walk;
    hyp_walk_init(&walk, v, step->batch, step->n_batch);
    hyp_walk_lane(&walk, v, step->a_strides, 0);
    hyp_walk_lane(&walk, v, step->b_strides, 0);
    int64_t count = hyp_walk_count(&walk), packed = -1;
    for (int64_t i = 0; i < count; i++, hyp_walk_next(&walk)) {
        if (!small || (walk.offset[1] != packed && !take_right(s, run, b + walk.offset[1], &w)))
            return hyp_reference_step(&run->call, op->step, diag);
        packed = walk.offset[1];
        part_run p = {.s = s, .run = run, .w = &w, .a = (const int32_t *)run->call.at[s->a] + walk.offset[0]};
        p.y = (int32_t *)run->call.at[step->y] + i * s->m * s->right.n;
        multiply(&p);
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

static int64_t elements_of(const HypPlan__Program *p, uint32_t tensor, const int64_t *values)
{
    int64_t count = 1;
    for (size_t i = 0; i < p->tensors[tensor]->n_dims; i++) count *= values[p->tensors[tensor]->dims[i]];
    return count;
}

static void fill_layer(product *s, const HypPlan__Linear *step, const int64_t *values)
{
    const HypPlan__Layer *layer = step->layers[0];
    int64_t n = values[layer->n], k = values[layer->k];
    s->a = step->x;
    s->b = layer->weight;
    s->m = values[step->m];
    s->a_row = k, s->a_column = 1;
    s->right = (hyp_integer_matrix){.k = k, .n = n, .inner = k};
    s->right.column = layer->weight_kn ? 1 : k;
    s->right.inner_step = layer->weight_kn ? n : 1;
}

static void fill_matmul(product *s, const HypPlan__Matmul *step, const int64_t *values)
{
    int64_t m = values[step->m], n = values[step->n], k = values[step->k];
    s->a = step->a;
    s->b = step->b;
    s->m = m;
    s->a_row = step->trans_a ? 1 : k, s->a_column = step->trans_a ? m : 1;
    s->right = (hyp_integer_matrix){.k = k, .n = n, .inner = k};
    s->right.column = step->trans_b ? k : 1;
    s->right.inner_step = step->trans_b ? 1 : n;
}

/* Room for what is packed in a run, and for each thread rows of the left matrix and what a block makes of them. */
static bool lay_out(const hyp_cpu_model *model, product *s, size_t *work_bytes)
{
    const hyp_cpu_kernels *kernels = model->device->kernels;
    size_t each, made = (size_t)hyp_integer_made_floats(kernels) * sizeof(float);
    if (s->packed)
        s->thread_at = 0;
    else if (!hyp_integers_room(kernels, s->right.n, s->right.k, &s->thread_at))
        return false;
    if (!hyp_mul_size((size_t)s->right.k, HYP_MLP_ROWS * sizeof(float), &each) || !hyp_add_size(each, made, &each))
        return false;
    s->thread_bytes = each; /* 48 rows of floats and blocks: a multiple of 64 */
    return hyp_mul_size(each, (size_t)model->device->threads, &each) && hyp_add_size(each, s->thread_at, work_bytes);
}

hyp_status hyp_cpu_prepare_integers(hyp_cpu_model *model, uint32_t step, const int64_t *values, hyp_cpu_op *op,
                                    hyp_diag *diag)
{
    const HypPlan__Program *program = model->plan->program;
    bool layers = op->step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR;
    product *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    if (layers)
        fill_layer(s, op->step->linear, values);
    else
        fill_matmul(s, op->step->matmul, values);
    s->a_count = elements_of(program, s->a, values);
    bool can = s->right.k > 0 && s->right.n > 0 && s->m > 0; /* the plain kernel has what is left, and reads none */
    hyp_status status = HYP_OK;
    if (can && layers && hyp_linear_is_constant(model->plan, op->step->linear)) {
        hyp_integer_matrix m = s->right;
        m.at = hyp_cpu_weight(model->plan, s->b);
        status = hyp_integers_find(model, step, &m, 1, 0, &s->packed, diag);
        can = s->packed;
    }
    if (can && status == HYP_OK && !lay_out(model, s, &op->work_bytes)) status = hyp_fail_memory(diag, SIZE_MAX);
    return hyp_cpu_finish_op(op, status, can, layers ? run_layer : run_matmul, hyp_free, s);
}
