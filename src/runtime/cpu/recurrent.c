/* recurrent.c - LSTM, GRU and RNN in f32: at each time one product of the states of many sequences with r, by the kernel of
 * layers, then the cell's own arithmetic by the code of pointwise steps, row by row. An r that the plan has is packed once, one
 * that is trained in each run.
 *
 * Rows of gates, states and cells are rounded up to whole vectors, r with them, so that every instruction takes whole
 * vectors. What lies behind the state of a row is read by nothing but itself.
 */
#include "kernels/recurrent.h"

#include "runtime/cpu/cpu.h"

enum { LANES = 16 /* floats of the widest vector */, MOST_INSTRS = 20 /* an LSTM with peepholes and clip has 19 */ };

/* Where an instruction's operands are, for one row. */
typedef enum place {
    GATE, /* and the three behind it */
    STATE = 4,
    CELL,
    PEEPHOLE, /* and the two behind it */
    SPARE = PEEPHOLE + 3,
    PRODUCT, /* of the state and r, of which the reset gate takes a part */
    PLACES
} place;

typedef struct instr {
    hyp_block_instr in;
    uint8_t out, x[3];
} instr;

typedef struct cell_code {
    instr list[MOST_INSTRS];
    size_t count, reset; /* of a GRU the first `reset` come before the second product */
} cell_code;

typedef struct recurrent {
    hyp_recurrence asked; /* its arrays are NULL: tensors are below */
    uint32_t x, r, bias_plus1, lengths_plus1, h0_plus1, c0_plus1, peepholes_plus1, out[4];
    hyp_dtype lengths_dtype;
    const hyp_mlp_layer *first, *second; /* all gates, or of a GRU all but the candidate, which is the second; `packs`: of a run */
    int64_t room, rows, groups; /* floats of a gate's row; sequences that go together, at most; parts of them */
    int64_t h, c, more, product, group_floats; /* where these begin in the work space of a group, behind the gates */
    bool second_of_state;                      /* the second product takes the state itself */
    bool shares;                               /* the threads share out the products; else the groups */
    bool cells;                                /* of all times are wanted */
    bool packs;                                /* r is no weight of the plan: each run packs it behind the groups' work */
    size_t packing_at;                         /* in floats */
    cell_code code;
} recurrent;

/* ---- cells ------------------------------------------------------------------------------------------------- */

static void say(cell_code *code, HypPlan__Pointwise__Op op, place out, place a, place b)
{
    code->list[code->count++] = (instr){{.op = op, .to = HYP_F32}, (uint8_t)out, {(uint8_t)a, (uint8_t)b, (uint8_t)a}};
}

/* v = act(v clipped) */
static void say_act(cell_code *code, const hyp_recurrence *k, int act, place v)
{
    if (k->clip > 0) {
        say(code, HYP_PLAN__POINTWISE__OP__CLIP, v, v, v);
        code->list[code->count - 1].in.p = (float)-k->clip;
        code->list[code->count - 1].in.q = (float)k->clip;
    }
    say(code, (HypPlan__Pointwise__Op)act, v, v, v);
}

/* out = 1 - v */
static void say_rest(cell_code *code, place out, place v)
{
    say(code, HYP_PLAN__POINTWISE__OP__CONST, SPARE, v, v);
    code->list[code->count - 1].in.p = 1;
    say(code, HYP_PLAN__POINTWISE__OP__SUB, out, SPARE, v);
}

/* gate += peephole * cell */
static void say_peephole(cell_code *code, int i)
{
    say(code, HYP_PLAN__POINTWISE__OP__MUL, SPARE, (place)(PEEPHOLE + i), CELL);
    say(code, HYP_PLAN__POINTWISE__OP__ADD, (place)(GATE + i), (place)(GATE + i), SPARE);
}

static void say_lstm(cell_code *code, const hyp_recurrence *k)
{
    enum { IN = GATE, OUT, FORGET, NEW };
    if (k->peepholes) say_peephole(code, IN);
    if (k->peepholes && !k->coupled) say_peephole(code, FORGET);
    say_act(code, k, k->f, (place)IN);
    if (k->coupled)
        say_rest(code, (place)FORGET, (place)IN);
    else
        say_act(code, k, k->f, (place)FORGET);
    say_act(code, k, k->g, (place)NEW);
    say(code, HYP_PLAN__POINTWISE__OP__MUL, CELL, (place)FORGET, CELL);
    say(code, HYP_PLAN__POINTWISE__OP__MUL, SPARE, (place)IN, (place)NEW);
    say(code, HYP_PLAN__POINTWISE__OP__ADD, CELL, CELL, SPARE);
    if (k->peepholes) say_peephole(code, OUT);
    say_act(code, k, k->f, (place)OUT);
    say(code, (HypPlan__Pointwise__Op)k->h, SPARE, CELL, CELL);
    say(code, HYP_PLAN__POINTWISE__OP__MUL, STATE, (place)OUT, SPARE);
}

static void say_gru(cell_code *code, const hyp_recurrence *k)
{
    enum { UPDATE = GATE, RESET, CANDIDATE };
    say_act(code, k, k->f, (place)UPDATE);
    say_act(code, k, k->f, (place)RESET);
    say(code, HYP_PLAN__POINTWISE__OP__MUL, (place)RESET, (place)RESET, k->reset_after ? PRODUCT : STATE);
    if (k->reset_after)
        say(code, HYP_PLAN__POINTWISE__OP__ADD, (place)CANDIDATE, (place)CANDIDATE, (place)RESET);
    else
        code->reset = code->count;
    say_act(code, k, k->g, (place)CANDIDATE);
    say_rest(code, SPARE, (place)UPDATE);
    say(code, HYP_PLAN__POINTWISE__OP__MUL, (place)CANDIDATE, (place)CANDIDATE, SPARE);
    say(code, HYP_PLAN__POINTWISE__OP__MUL, STATE, (place)UPDATE, STATE);
    say(code, HYP_PLAN__POINTWISE__OP__ADD, STATE, (place)CANDIDATE, STATE);
}

static void say_cell(cell_code *code, const hyp_recurrence *k)
{
    *code = (cell_code){0};
    if (k->cell == HYP_CELL_LSTM) {
        say_lstm(code, k);
    } else if (k->cell == HYP_CELL_GRU) {
        say_gru(code, k);
    } else {
        say_act(code, k, k->f, GATE);
        say(code, HYP_PLAN__POINTWISE__OP__CAST, STATE, GATE, GATE);
    }
}

/* ---- running ----------------------------------------------------------------------------------------------- */

/* Sequences from `first` on that go through all times together. */
typedef struct group {
    const recurrent *s;
    const hyp_cpu_run *run;
    int64_t first, rows, time;
    float *gates, *h, *c, *more, *product;
} group;

static int64_t length_of(const group *g, int64_t row)
{
    const recurrent *s = g->s;
    return s->lengths_plus1
               ? hyp_load_i64(s->lengths_dtype, g->run->call.at[s->lengths_plus1 - 1], (size_t)(g->first + row))
               : s->asked.time;
}

/* The row of x and of the result that sequence `row` has its turn with; -1 where it is at its end. */
static int64_t turn_of(const group *g, int64_t row)
{
    int64_t length = length_of(g, row), time = g->s->asked.reverse ? length - 1 - g->time : g->time;
    return g->time < length ? time * g->s->asked.batch + g->first + row : -1;
}

/* What x says, with zeros behind each gate. */
static void load_gates(const group *g)
{
    const recurrent *s = g->s;
    const float *x = g->run->call.at[s->x];
    int64_t n = s->asked.size, gates = s->asked.gates;
    for (int64_t row = 0; row < g->rows; row++) {
        float *to = g->gates + row * gates * s->room;
        int64_t turn = turn_of(g, row);
        if (turn < 0 || s->room > n) memset(to, 0, (size_t)(gates * s->room) * sizeof *to);
        for (int64_t i = 0; turn >= 0 && i < gates; i++)
            memcpy(to + i * s->room, x + (turn * gates + i) * n, (size_t)n * sizeof *to);
    }
}

static void multiply(const group *g, const hyp_mlp_layer *layer, const float *x, int64_t x_stride, const float *added,
                     float *y, int64_t y_stride)
{
    const hyp_cpu_kernels *kernels = g->run->kernels;
    int64_t panel = (int64_t)kernels->panel * kernels->width;
    if (g->s->shares)
        hyp_cpu_run_layer(g->run, layer, g->rows, x, x_stride, added, y, y_stride);
    else
        kernels->panels(layer, g->rows, x, x_stride, added, y, y_stride, 0, (layer->n + panel - 1) / panel);
}

/* The instructions from `from` to `to`, for rows that are not at their end. */
static void compute(const group *g, size_t from, size_t to)
{
    const recurrent *s = g->s;
    for (int64_t row = 0; row < g->rows; row++) {
        float *at[PLACES] = {0};
        if (turn_of(g, row) < 0) continue;
        for (int64_t i = 0; i < s->asked.gates; i++) at[GATE + i] = g->gates + (row * s->asked.gates + i) * s->room;
        for (int64_t i = 0; i < 3; i++) at[PEEPHOLE + i] = g->more + i * s->room;
        at[STATE] = g->h + row * s->room;
        at[CELL] = g->c + row * s->room;
        at[PRODUCT] = g->product + row * s->room;
        at[SPARE] = g->more + 3 * s->room;
        for (int64_t i = 0; i < s->room; i += HYP_BLOCK) {
            int64_t count = s->room - i < HYP_BLOCK ? s->room - i : HYP_BLOCK;
            for (const instr *in = s->code.list + from; in < s->code.list + to; in++) {
                const float *x[3] = {at[in->x[0]] + i, at[in->x[1]] + i, at[in->x[2]] + i};
                g->run->kernels->instr(&in->in, at[in->out] + i, x, count);
            }
        }
    }
}

static void take_time(const group *g)
{
    const recurrent *s = g->s;
    int64_t stride = s->asked.gates * s->room;
    load_gates(g);
    multiply(g, s->first, g->h, s->room, g->gates, g->gates, stride);
    if (s->second_of_state) multiply(g, s->second, g->h, s->room, NULL, g->product, s->room);
    if (s->code.reset) {
        float *candidate = g->gates + 2 * s->room;
        compute(g, 0, s->code.reset);
        multiply(g, s->second, g->gates + s->room, stride, candidate, candidate, stride);
    }
    compute(g, s->code.reset, s->code.count);
}

/* rows[n] with room behind each from dense ones, or zeros; and back. */
static void load_rows(const group *g, uint32_t tensor_plus1, int64_t first, int64_t rows, float *to)
{
    int64_t n = g->s->asked.size, room = g->s->room;
    memset(to, 0, (size_t)(rows * room) * sizeof *to);
    const float *from = tensor_plus1 ? (const float *)g->run->call.at[tensor_plus1 - 1] + first * n : NULL;
    for (int64_t row = 0; from && row < rows; row++) memcpy(to + row * room, from + row * n, (size_t)n * sizeof *to);
}

static void store_rows(const group *g, const float *from, float *to)
{
    int64_t n = g->s->asked.size;
    for (int64_t row = 0; row < g->rows; row++)
        memcpy(to + (g->first + row) * n, from + row * g->s->room, (size_t)n * sizeof *to);
}

/* What rows have at this time, 0 for those that are at their end. */
static void store_time(const group *g, const float *from, float *y)
{
    int64_t n = g->s->asked.size;
    for (int64_t row = 0; row < g->rows; row++) {
        int64_t turn = turn_of(g, row);
        if (turn >= 0)
            memcpy(y + turn * n, from + row * g->s->room, (size_t)n * sizeof *y);
        else
            memset(y + (g->time * g->s->asked.batch + g->first + row) * n, 0, (size_t)n * sizeof *y);
    }
}

static void run_group(const recurrent *s, const hyp_cpu_run *run, int64_t index, float *work)
{
    int64_t left = s->asked.batch - index * s->rows;
    group g = {.s = s,
               .run = run,
               .first = index * s->rows,
               .rows = left < s->rows ? left : s->rows,
               .gates = work,
               .h = work + s->h,
               .c = work + s->c,
               .more = work + s->more,
               .product = work + s->product};
    load_rows(&g, s->h0_plus1, g.first, g.rows, g.h);
    load_rows(&g, s->c0_plus1, g.first, g.rows, g.c);
    load_rows(&g, s->peepholes_plus1, 0, 3, g.more);
    memset(g.more + 3 * s->room, 0, (size_t)s->room * sizeof *g.more);
    for (; g.time < s->asked.time; g.time++) {
        take_time(&g);
        store_time(&g, g.h, run->call.at[s->out[0]]);
        if (s->cells) store_time(&g, g.c, run->call.at[s->out[3]]);
    }
    store_rows(&g, g.h, run->call.at[s->out[1]]);
    if (s->asked.cell == HYP_CELL_LSTM) store_rows(&g, g.c, run->call.at[s->out[2]]);
}

typedef struct groups_run {
    const recurrent *s;
    const hyp_cpu_run *run;
} groups_run;

static void groups_part(void *state, int64_t begin, int64_t end, int thread)
{
    const groups_run *r = state;
    float *work = (float *)r->run->call.work + thread * r->s->group_floats;
    for (int64_t i = begin; i < end; i++) run_group(r->s, r->run, i, work);
}

static void run_groups(const recurrent *s, const hyp_cpu_run *run)
{
    if (s->shares) {
        groups_part(&(groups_run){s, run}, 0, s->groups, 0);
        return;
    }
    hyp_cpu_run alone = *run;
    alone.threads = 1; /* the products within a group */
    hyp_cpu_parallel(run, s->groups, 1, groups_part, &(groups_run){s, &alone});
}

/* ---- r as layers ------------------------------------------------------------------------------------------- */

/* The columns of r of `gates` gates from `first` on, each with zeros behind it up to `room`: w[size, gates*room] and its bias
 * [gates*room], of zeros before. */
static void spread_gates(const hyp_recurrence *k, const float *r, const float *bias, int64_t first, int64_t gates,
                         int64_t room, float *w, float *b)
{
    for (int64_t i = 0; i < k->size; i++)
        for (int64_t j = 0; j < gates; j++)
            memcpy(w + (i * gates + j) * room, r + (i * k->gates + first + j) * k->size, (size_t)k->size * sizeof *w);
    if (bias) memcpy(b, bias, (size_t)k->size * sizeof *b);
}

/* Floats of such columns, of their bias and of their panels. */
static bool packed_floats(const recurrent *s, int64_t gates, size_t *out)
{
    return hyp_mul_size((size_t)(gates * s->room), 2 * (size_t)s->asked.size + 1, out);
}

/* A layer of them, all in memory at `at`. */
static hyp_mlp_layer lay_gates(const recurrent *s, const hyp_cpu_run *run, int64_t first, int64_t gates, const float *bias,
                               float *at)
{
    const hyp_recurrence *k = &s->asked;
    int64_t n = gates * s->room;
    float *w = at + n, *panels = w + n * k->size;
    memset(at, 0, (size_t)(n * (k->size + 1)) * sizeof *at);
    spread_gates(k, run->call.at[s->r], bias, first, gates, s->room, w, at);
    hyp_cpu_pack_panels(run->kernels, w, 1, n, n, k->size, panels);
    return (hyp_mlp_layer){.n = n,
                           .k = k->size,
                           .bias = at,
                           .weights = panels,
                           .act = {.op = HYP_PLAN__POINTWISE__OP__CAST, .to = HYP_F32}};
}

/* With the r of this run. */
static void run_packing(const recurrent *s, const hyp_cpu_run *run)
{
    bool two = s->asked.cell == HYP_CELL_GRU;
    int64_t gates = two ? 2 : s->asked.gates;
    float *at = (float *)run->call.work + s->packing_at;
    size_t floats = 0;
    recurrent now = *s;
    (void)packed_floats(s, gates, &floats); /* was seen to fit */
    const hyp_mlp_layer first = lay_gates(s, run, 0, gates, NULL, at);
    hyp_mlp_layer second = {0};
    if (two) second = lay_gates(s, run, 2, 1, s->bias_plus1 ? run->call.at[s->bias_plus1 - 1] : NULL, at + floats);
    now.first = &first;
    now.second = &second;
    run_groups(&now, run);
}

static hyp_status run_recurrent(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const recurrent *s = op->state;
    if (s->lengths_plus1) {
        hyp_call_arguments a;
        hyp_reference_arguments(&run->call, op->step->call, diag, &a);
        HYP_TRY(hyp_recurrence_check_lengths(&a.call, &a.in[s->asked.lengths_at], s->asked.time));
    }
    if (s->packs)
        run_packing(s, run);
    else
        run_groups(s, run);
    return HYP_OK;
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

/* Such columns as a layer of its own. */
static hyp_mlp *pack_gates(const hyp_cpu_kernels *kernels, const hyp_recurrence *k, const float *r, const float *bias,
                           int64_t first, int64_t gates, int64_t room)
{
    size_t count;
    if (!hyp_mul_size((size_t)k->size + 1, (size_t)(gates * room), &count) || count > SIZE_MAX / sizeof(float))
        return NULL;
    float *w = hyp_calloc(count, sizeof *w);
    if (!w) return NULL;
    float *b = w + k->size * gates * room;
    spread_gates(k, r, bias, first, gates, room, w, b);
    hyp_mlp *mlp = hyp_cpu_pack_layers(kernels, 1, w, gates * room, k->size, b, NULL);
    hyp_free(w);
    return mlp;
}

/* Packed once for all contexts. */
static hyp_status find_packed(hyp_cpu_model *model, uint32_t step, recurrent *s, const float *r, const float *bias,
                              hyp_diag *diag)
{
    const hyp_cpu_kernels *kernels = model->device->kernels;
    const hyp_recurrence *k = &s->asked;
    bool two = k->cell == HYP_CELL_GRU;
    hyp_mlp **first = &model->rows[step], **second = &model->columns[step];
    hyp_mem_account *before = hyp_cpu_packing_begin(model);
    if (!*first) *first = pack_gates(kernels, k, r, NULL, 0, two ? 2 : k->gates, s->room);
    if (two && !*second) *second = pack_gates(kernels, k, r, bias, 2, 1, s->room);
    hyp_cpu_packing_end(model, before);
    if (!*first || (two && !*second)) return hyp_fail_memory(diag, (size_t)(k->size * k->gates) * sizeof *r);
    s->first = (*first)->layers;
    s->second = two ? (*second)->layers : NULL;
    return HYP_OK;
}

/* Each thread takes some sequences through all times where there are enough of them for most threads; else all threads
 * share out each product, if it is large enough. */
static bool choose_groups(recurrent *s, const hyp_cpu_device *device, size_t *work_bytes)
{
    enum { FEW_ROWS = 8 };
    const hyp_recurrence *k = &s->asked;
    int64_t batch = k->batch, threads = device->threads, most = INT64_MAX / 64 / HYP_MLP_ROWS / (int64_t)sizeof(float);
    if (k->size > most || batch > INT64_MAX - HYP_MLP_ROWS) return false;
    s->room = (k->size + LANES - 1) / LANES * LANES;
    int64_t able = batch / FEW_ROWS < threads ? batch / FEW_ROWS : threads;
    int64_t together = batch < HYP_MLP_ROWS ? batch : HYP_MLP_ROWS;
    s->shares = able <= 1 ||
                (2 * able <= threads && hyp_cpu_layer_shares(device->kernels, k->gates * s->room, k->size, together));
    int64_t each = s->shares ? batch : (batch + able - 1) / able;
    int64_t parts = (each + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS;
    s->rows = (each + parts - 1) / parts;
    s->groups = (batch + s->rows - 1) / s->rows;
    s->h = s->rows * k->gates * s->room;
    s->c = s->h + s->rows * s->room;
    s->more = s->c + s->rows * s->room;
    s->product = s->more + 4 * s->room;
    s->group_floats = s->product + s->rows * s->room;
    return hyp_mul_size((size_t)s->group_floats * sizeof(float), (size_t)threads, work_bytes);
}

/* Room for r behind the work of all groups. */
static bool add_packing(recurrent *s, size_t *work_bytes)
{
    size_t floats, more;
    s->packing_at = *work_bytes / sizeof(float); /* whole vectors, as all that is in there */
    return packed_floats(s, s->asked.gates, &floats) && hyp_mul_size(floats, sizeof(float), &more) &&
           hyp_add_size(*work_bytes, more, work_bytes);
}

hyp_status hyp_cpu_prepare_recurrent(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                     const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    (void)channels_last;
    const HypPlan__Call *call = op->step->call;
    hyp_call_arguments a;
    hyp_recurrence k;
    hyp_diag unfit; /* of shapes that do not fit: the plain kernel says so */
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, call, &unfit, &a);
    if (hyp_recurrence_read(&a.call, &k) != HYP_OK || k.x->dtype != HYP_F32 || k.batch == 0 || k.size == 0)
        return HYP_OK;
    const float *r = hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1),
                *bias = k.bias ? hyp_cpu_weight(model->plan, call->inputs_plus1[2] - 1) : NULL;
    recurrent *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->x = call->inputs_plus1[0] - 1;
    s->r = call->inputs_plus1[1] - 1;
    s->bias_plus1 = k.bias ? call->inputs_plus1[2] : 0;
    s->packs = !r || (k.bias && !bias);
    s->cells = call->n_outputs > 3;
    s->lengths_plus1 = hyp_plan_call_input(call, k.lengths_at);
    s->h0_plus1 = hyp_plan_call_input(call, k.lengths_at + 1);
    s->c0_plus1 = k.c0 ? hyp_plan_call_input(call, k.lengths_at + 2) : 0;
    s->peepholes_plus1 = k.peepholes ? hyp_plan_call_input(call, k.lengths_at + 3) : 0;
    if (k.lengths) s->lengths_dtype = k.lengths->dtype;
    for (size_t i = 0; i < call->n_outputs; i++) s->out[i] = call->outputs[i];
    say_cell(&s->code, &k);
    s->second_of_state = k.reset_after;
    s->asked = k;
    s->asked.x = s->asked.r = s->asked.lengths = s->asked.h0 = s->asked.c0 = s->asked.bias = s->asked.peepholes = NULL;
    bool can = choose_groups(s, model->device, &op->work_bytes);
    if (can && s->packs) can = add_packing(s, &op->work_bytes);
    hyp_status status = can && !s->packs ? find_packed(model, step, s, r, bias, diag) : HYP_OK;
    return hyp_cpu_finish_op(op, status, can, run_recurrent, hyp_free, s);
}
