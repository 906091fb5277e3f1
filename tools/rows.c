#include "rows.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "hypatia/tensor_io.h"

enum { ROWS = 3, SEEDS = 2, MOST_SYMBOLS = 256 };
/* Of the largest element of an output: sums in another order, also in 16 bits, stay below, what other rows do is
 * beyond. */
static const double tolerance = 0.02;

typedef struct look {
    hyp_engine *engine;
    hyp_context *context;
    size_t input_count, output_count;
    const char *symbol;                       /* of the first axis */
    hyp_tensor *all, *one, *together, *apart; /* inputs, inputs, outputs, outputs */
    char *reason;
    size_t reason_size;
} look;

static rows_verdict because(look *l, rows_verdict verdict, const char *fmt, ...) HYP_PRINTF(3, 4);
static rows_verdict because(look *l, rows_verdict verdict, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    vsnprintf(l->reason, l->reason_size, fmt, list);
    va_end(list);
    return verdict;
}

/* ---- shapes ------------------------------------------------------------------------------------------------ */

static bool has_rows(const look *l, const hyp_io_info *info)
{
    return info->rank > 0 && info->dims[0] < 0 && info->symbols[0] && strcmp(info->symbols[0], l->symbol) == 0;
}

/* A size that the plan has been run with: in a sample that it keeps, else the typical one, else 1. */
static int64_t usual_size(const look *l, const char *symbol)
{
    hyp_golden_input kept = {.size = sizeof kept};
    for (size_t i = 0; i < l->input_count && hyp_engine_read_golden_input(l->engine, 0, i, &kept); i++) {
        const hyp_io_info *info = hyp_engine_input(l->engine, i);
        for (int32_t a = 0; a < info->rank && a < kept.tensor.rank; a++)
            if (info->symbols[a] && strcmp(info->symbols[a], symbol) == 0) return kept.tensor.dims[a];
    }
    int64_t typical = hyp_engine_typical_size(l->engine, symbol);
    return typical > 0 ? typical : 1;
}

/* Dims of all inputs for so many rows, other open sizes being usual ones. */
static hyp_status complete(const look *l, int64_t rows, hyp_tensor *inputs, hyp_diag *diag)
{
    hyp_tensor sizes[MOST_SYMBOLS] = {{.name = l->symbol, .rank = 1, .dims = {rows}}};
    const char *missing = NULL;
    for (size_t count = 1;; count++) {
        for (size_t i = 0; i < l->input_count; i++) {
            const hyp_io_info *info = hyp_engine_input(l->engine, i);
            inputs[i] = (hyp_tensor){.dtype = info->dtype, .rank = info->rank};
            memcpy(inputs[i].dims, info->dims, sizeof info->dims);
        }
        hyp_status status = hyp_engine_complete_dims(l->engine, inputs, l->input_count, sizes, count, &missing, diag);
        if (status != HYP_OK || !missing || count == MOST_SYMBOLS) return status;
        sizes[count] = (hyp_tensor){.name = missing, .rank = 1, .dims = {usual_size(l, missing)}};
    }
}

/* Whether shapes for one row and for several differ in their first axis alone, which is that of rows. */
static bool grow_by_rows(const hyp_tensor *one, const hyp_tensor *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (one[i].rank < 1 || one[i].rank != all[i].rank || one[i].dims[0] != 1 || all[i].dims[0] != ROWS)
            return false;
        for (int32_t a = 1; a < one[i].rank; a++)
            if (one[i].dims[a] != all[i].dims[a]) return false;
    }
    return true;
}

static rows_verdict look_at_shapes(look *l)
{
    hyp_diag diag = {0};
    l->symbol =
        l->input_count && hyp_engine_input(l->engine, 0)->rank ? hyp_engine_input(l->engine, 0)->symbols[0] : NULL;
    for (size_t i = 0; i < l->input_count + l->output_count; i++) {
        bool input = i < l->input_count;
        const hyp_io_info *info =
            input ? hyp_engine_input(l->engine, i) : hyp_engine_output(l->engine, i - l->input_count);
        if (!l->symbol || !has_rows(l, info))
            return because(l, ROWS_NONE, "the first axis of %s '%s' is not the open one of the first input",
                           input ? "input" : "output", cli_shown(info->name));
    }
    if (!l->symbol) return because(l, ROWS_NONE, "there are no inputs");
    if (complete(l, 1, l->one, &diag) != HYP_OK || complete(l, ROWS, l->all, &diag) != HYP_OK ||
        hyp_context_output_shapes(l->context, l->one, l->input_count, l->apart, l->output_count, &diag) != HYP_OK ||
        hyp_context_output_shapes(l->context, l->all, l->input_count, l->together, l->output_count, &diag) != HYP_OK)
        return because(l, ROWS_UNKNOWN, "%s", diag.message);
    if (!grow_by_rows(l->one, l->all, l->input_count) || !grow_by_rows(l->apart, l->together, l->output_count))
        return because(l, ROWS_NONE, "other sizes follow from that of the first axis");
    return ROWS_INDEPENDENT;
}

/* ---- values ------------------------------------------------------------------------------------------------ */

/* Draws rows of input i as verification has drawn its samples. */
static void draw(const look *l, size_t i, uint64_t seed)
{
    hyp_golden_input known = {.size = sizeof known};
    if (hyp_engine_read_golden_input(l->engine, 0, i, &known) && !known.tensor.data &&
        known.tensor.dtype == l->all[i].dtype)
        hyp_tensor_draw(&l->all[i], HYP_DRAW_ORDINARY, seed + i, known.low, known.high);
    else
        hyp_tensor_randomize(&l->all[i], seed + i);
}

static hyp_status run(const look *l, const hyp_tensor *inputs, hyp_tensor *outputs, hyp_diag *diag)
{
    return hyp_context_run(l->context, inputs, l->input_count, outputs, l->output_count, diag);
}

/* Whether row `row` of output o is what came of this row alone. */
static bool same_row(const look *l, size_t o, int64_t row, double scale, double *worst)
{
    const hyp_tensor *all = &l->together[o], *one = &l->apart[o];
    int64_t count = hyp_tensor_elements(one);
    for (int64_t i = 0; i < count; i++) {
        double a = hyp_tensor_at(one, i), b = hyp_tensor_at(all, row * count + i);
        double off = a == b || (a != a && b != b) ? 0 : a > b ? a - b : b > a ? b - a : scale + 1;
        if (off > *worst) *worst = off;
        if (off > tolerance * scale) return false;
    }
    return true;
}

static double largest(const hyp_tensor *t)
{
    double most = 0;
    for (int64_t i = 0, count = hyp_tensor_elements(t); i < count; i++) {
        double x = hyp_tensor_at(t, i);
        if (x < 0) x = -x;
        if (x > most && x - x == 0) most = x;
    }
    return most;
}

static rows_verdict compare_rows(look *l, uint64_t seed)
{
    hyp_diag diag = {0};
    double worst = 0;
    for (size_t i = 0; i < l->input_count; i++) draw(l, i, seed);
    if (run(l, l->all, l->together, &diag) != HYP_OK) return because(l, ROWS_UNKNOWN, "%s", diag.message);
    for (int64_t row = 0; row < ROWS; row++) {
        for (size_t i = 0; i < l->input_count; i++)
            if (l->one[i].bytes)
                memcpy(l->one[i].data, (const char *)l->all[i].data + (size_t)row * l->one[i].bytes, l->one[i].bytes);
        if (run(l, l->one, l->apart, &diag) != HYP_OK) return because(l, ROWS_UNKNOWN, "%s", diag.message);
        for (size_t o = 0; o < l->output_count; o++)
            if (!same_row(l, o, row, largest(&l->together[o]), &worst))
                return because(l, ROWS_DEPENDENT,
                               "a row of output '%s' differs by %.3g from the same row alone: it depends on other rows",
                               cli_shown(hyp_engine_output(l->engine, o)->name), worst);
    }
    return ROWS_INDEPENDENT;
}

static rows_verdict look_at_values(look *l)
{
    hyp_diag diag = {0};
    for (size_t i = 0; i < l->input_count; i++)
        if (hyp_tensor_alloc(&l->all[i], &diag) != HYP_OK || hyp_tensor_alloc(&l->one[i], &diag) != HYP_OK)
            return because(l, ROWS_UNKNOWN, "%s", diag.message);
    for (size_t o = 0; o < l->output_count; o++) {
        l->together[o].dtype = l->apart[o].dtype = hyp_engine_output(l->engine, o)->dtype;
        if (hyp_tensor_alloc(&l->together[o], &diag) != HYP_OK || hyp_tensor_alloc(&l->apart[o], &diag) != HYP_OK)
            return because(l, ROWS_UNKNOWN, "%s", diag.message);
    }
    rows_verdict verdict = ROWS_INDEPENDENT;
    for (uint64_t seed = 0; verdict == ROWS_INDEPENDENT && seed < SEEDS; seed++)
        verdict = compare_rows(l, 1000 * seed + 1);
    return verdict;
}

rows_verdict rows_look(hyp_engine *engine, hyp_context *context, char *reason, size_t reason_size)
{
    look l = {.engine = engine, .context = context, .reason = reason, .reason_size = reason_size};
    l.input_count = hyp_engine_input_count(engine);
    l.output_count = hyp_engine_output_count(engine);
    hyp_tensor **arrays[] = {&l.all, &l.one, &l.together, &l.apart};
    size_t counts[] = {l.input_count, l.input_count, l.output_count, l.output_count};
    for (int k = 0; k < 4; k++) {
        *arrays[k] = cli_alloc(NULL, counts[k], sizeof **arrays[k]);
        memset(*arrays[k], 0, counts[k] * sizeof **arrays[k]);
    }
    *reason = '\0';
    rows_verdict verdict = look_at_shapes(&l);
    if (verdict == ROWS_INDEPENDENT) verdict = look_at_values(&l);
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < counts[k]; i++) hyp_tensor_dispose(&(*arrays[k])[i]);
        free(*arrays[k]);
    }
    return verdict;
}
