/* validate.c - checks a program before anyone uses it: after it every index is in range, every list has the
 * length that its kernel wants, and the steps form a straight line of reads after writes. Here is what is declared,
 * the steps are in validate_steps.c; what depends on shapes is checked by hyp_plan_check_bounds.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/strbuf.h"
#include "plan/golden.h"
#include "plan/validate.h"

typedef HypPlan__Tensor tensor;

typedef struct check {
    const HypPlan__Program *program;
    hyp_diag *diag;
    hyp_arena arena;
} check;

#define WRONG(c, ...) hyp_fail((c)->diag, HYP_ERR_MALFORMED, __VA_ARGS__)

/* ---- dims, tensors, inputs and outputs ------------------------------------------------------------- */

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names are there and differ. */
static hyp_status want_names(check *c, const char *const *names, size_t n, const char *what)
{
    const char **sorted = hyp_arena_zalloc(&c->arena, n, sizeof *sorted);
    if (!sorted) return hyp_fail_memory(c->diag, n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
        if (names[i][0] == 0) return WRONG(c, "%s %zu has no name", what, i);
        sorted[i] = names[i];
    }
    qsort(sorted, n, sizeof *sorted, compare_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) return WRONG(c, "two %ss are named '%s'", what, sorted[i]);
    return HYP_OK;
}

static hyp_status check_dims(check *c)
{
    const HypPlan__Program *p = c->program;
    for (size_t i = 0; i < p->n_dims; i++) {
        const HypPlan__Dim *d = p->dims[i];
        if (d->kind == HYP_PLAN__DIM__KIND__CONST) continue;
        if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL) {
            if (d->value < 0 || (uint64_t)d->value >= p->n_symbols)
                return WRONG(c, "dim %zu is symbol %lld of %zu", i, (long long)d->value, p->n_symbols);
            continue;
        }
        if ((unsigned)d->kind > HYP_PLAN__DIM__KIND__MAX) return hyp_plan_unknown(c->diag, "kind of dim", d->kind);
        if (d->a >= i || d->b >= i) return WRONG(c, "dim %zu is made of dims that do not come before it", i);
    }
    return HYP_OK;
}

/* Bytes of a weight are those of its shape, which has no symbols. */
static hyp_status check_weight(check *c, const tensor *t)
{
    int64_t bytes = (int64_t)hyp_dtype_size((hyp_dtype)t->dtype), room = sizeof(int64_t);
    for (size_t a = 0; a < t->n_dims; a++) {
        const HypPlan__Dim *d = c->program->dims[t->dims[a]];
        if (d->kind != HYP_PLAN__DIM__KIND__CONST || d->value < 0)
            return WRONG(c, "axis %zu of a weight is not a fixed size", a);
        if (!hyp_add_axis(d->value, &room, &bytes)) return WRONG(c, "its size overflows");
    }
    if (t->bytes != (uint64_t)bytes)
        return WRONG(c, "it has %llu bytes, its shape and type take %lld", (unsigned long long)t->bytes,
                     (long long)bytes);
    if (t->offset % HYP_PLAN_ALIGN != 0)
        return WRONG(c, "it lies at %llu, which is no multiple of %d", (unsigned long long)t->offset, HYP_PLAN_ALIGN);
    return HYP_OK;
}

/* That it ends inside of the other tensor is a matter of shapes. */
static hyp_status check_window(check *c, const tensor *t, const tensor *of)
{
    uint64_t size = hyp_dtype_size((hyp_dtype)t->dtype);
    if (of->place == HYP_PLAN__PLACE__PLACE_WEIGHT) return WRONG(c, "it is a window of a weight");
    if (t->first > (uint64_t)INT64_MAX / size) return WRONG(c, "it begins at element %llu", (unsigned long long)t->first);
    if (t->first * size % HYP_PLAN_WINDOW_ALIGN != 0)
        return WRONG(c, "it begins at byte %llu, which is no multiple of %d", (unsigned long long)(t->first * size),
                     HYP_PLAN_WINDOW_ALIGN);
    return HYP_OK;
}

static hyp_status check_tensor(check *c, const tensor *t)
{
    const HypPlan__Program *p = c->program;
    if (hyp_dtype_size((hyp_dtype)t->dtype) == 0) return hyp_plan_unknown(c->diag, "element type", t->dtype);
    HYP_TRY(hyp_plan_want_dims(p, t->n_dims, t->dims, "its shape", c->diag));
    switch (t->place) {
    case HYP_PLAN__PLACE__PLACE_INPUT:
    case HYP_PLAN__PLACE__PLACE_OUTPUT: return HYP_OK;
    case HYP_PLAN__PLACE__PLACE_WEIGHT: return check_weight(c, t);
    case HYP_PLAN__PLACE__PLACE_SCRATCH:
        if (t->slot < p->slot_count) return HYP_OK;
        return WRONG(c, "it is in slot %u of %u", t->slot, p->slot_count);
    case HYP_PLAN__PLACE__PLACE_VIEW: {
        if (t->view_of >= p->n_tensors) return WRONG(c, "it is a view of tensor %u of %zu", t->view_of, p->n_tensors);
        const tensor *of = p->tensors[t->view_of];
        if (of->place == HYP_PLAN__PLACE__PLACE_VIEW) return WRONG(c, "it is a view of a view");
        if (of->dtype != t->dtype) return WRONG(c, "it is a view of a tensor of another type");
        return t->window ? check_window(c, t, of) : HYP_OK;
    }
    default: return hyp_plan_unknown(c->diag, "place of a tensor", t->place);
    }
}

static hyp_status check_tensors(check *c)
{
    const HypPlan__Program *p = c->program;
    if (p->slot_count > p->n_tensors)
        return WRONG(c, "there are %u slots for %zu tensors", p->slot_count, p->n_tensors);
    for (size_t i = 0; i < p->n_tensors; i++) {
        hyp_status status = check_tensor(c, p->tensors[i]);
        if (status != HYP_OK) {
            hyp_diag_prefix(c->diag, "tensor %zu '%s'", i, p->tensors[i]->name);
            return status;
        }
    }
    return HYP_OK;
}

/* `list` names every tensor of this place once. */
static hyp_status check_edge(check *c, size_t n, const uint32_t *list, HypPlan__Place place, const char *what)
{
    const HypPlan__Program *p = c->program;
    size_t there = 0;
    for (size_t i = 0; i < p->n_tensors; i++) there += p->tensors[i]->place == place;
    if (there != n) return WRONG(c, "%zu %ss are listed, %zu tensors are ones", n, what, there);
    const char **names = hyp_arena_zalloc(&c->arena, n, sizeof *names);
    if (!names) return hyp_fail_memory(c->diag, n * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        if (list[i] >= p->n_tensors) return WRONG(c, "%s %zu is tensor %u of %zu", what, i, list[i], p->n_tensors);
        const tensor *t = p->tensors[list[i]];
        if (t->place != place) return WRONG(c, "%s %zu is tensor %u, which is placed elsewhere", what, i, list[i]);
        names[i] = t->name;
    }
    /* Different names make different tensors, so with the count each is there once. */
    return want_names(c, names, n, what);
}

/* What their plans compute is checked when they are opened. */
static hyp_status check_updates(check *c)
{
    const HypPlan__Program *p = c->program;
    for (size_t u = 0; u < p->n_updates; u++)
        for (size_t i = 0; i < p->updates[u]->n_pieces; i++) {
            const HypPlan__Update__Piece *piece = p->updates[u]->pieces[i];
            if (piece->tensor >= p->n_tensors || p->tensors[piece->tensor]->place != HYP_PLAN__PLACE__PLACE_WEIGHT ||
                piece->offset >= p->tensors[piece->tensor]->bytes)
                return WRONG(c, "update %zu is of tensor %u from byte %llu on, which is none of a weight", u,
                             piece->tensor, (unsigned long long)piece->offset);
        }
    return HYP_OK;
}

static hyp_status check_symbols(check *c)
{
    const HypPlan__Program *p = c->program;
    HYP_TRY(want_names(c, (const char *const *)p->symbols, p->n_symbols, "symbol"));
    size_t unbound;
    HYP_TRY(hyp_plan_find_unbound(p, &unbound, c->diag));
    if (unbound < p->n_symbols)
        return WRONG(c, "no input has '%s' in a dim that gives it its value", p->symbols[unbound]);
    return HYP_OK;
}

/* Counts are single integers behind the outputs of the model, which are cut along one axis each. */
static hyp_status check_data_sizes(check *c)
{
    const HypPlan__Program *p = c->program;
    size_t outputs = p->n_outputs - hyp_plan_changed(p);
    if (p->hidden_outputs > outputs) return WRONG(c, "%u of %zu outputs are hidden", p->hidden_outputs, outputs);
    size_t shown = hyp_plan_shown_outputs(p);
    for (size_t i = shown; i < outputs; i++) {
        const tensor *t = p->tensors[p->outputs[i]];
        if (t->dtype != HYP_I64 || t->n_dims != 0) return WRONG(c, "the count '%s' is no single i64", t->name);
    }
    for (size_t i = 0; i < p->n_data_sizes; i++) {
        const HypPlan__DataSize *s = p->data_sizes[i];
        if (s->output >= shown || (i && s->output <= p->data_sizes[i - 1]->output) ||
            s->axis >= p->tensors[p->outputs[s->output]]->n_dims || s->count < shown || s->count >= outputs)
            return WRONG(c, "data size %zu is of axis %u of output %u by output %u: there are %zu outputs and %u counts", i,
                         s->axis, s->output, s->count, shown, p->hidden_outputs);
    }
    return HYP_OK;
}

/* ---- variables -------------------------------------------------------------------------------------- */

/* Whether both have one type and the same fixed sizes, whose bytes can be told. */
static bool same_fixed(const HypPlan__Program *p, const tensor *a, const tensor *b)
{
    int64_t bytes = (int64_t)hyp_dtype_size((hyp_dtype)a->dtype), room = sizeof(int64_t);
    if (a->dtype != b->dtype || a->n_dims != b->n_dims) return false;
    for (size_t i = 0; i < a->n_dims; i++) {
        const HypPlan__Dim *x = p->dims[a->dims[i]], *y = p->dims[b->dims[i]];
        if (x->kind != HYP_PLAN__DIM__KIND__CONST || y->kind != HYP_PLAN__DIM__KIND__CONST || x->value != y->value ||
            x->value < 0 || !hyp_add_axis(x->value, &room, &bytes))
            return false;
    }
    return true;
}

/* *seen: nothing has had it before. */
static bool take_once(bool *seen)
{
    bool first = !*seen;
    *seen = true;
    return first;
}

/* `outputs`: so many are not of variables. */
static hyp_status check_variable(check *c, size_t i, size_t outputs, bool *set, bool *used)
{
    const HypPlan__Program *p = c->program;
    const HypPlan__Variable *v = p->variables[i];
    size_t inputs = hyp_plan_shown_inputs(p);
    if (v->input != inputs + i) return WRONG(c, "variable %zu is input %u, not %zu", i, v->input, inputs + i);
    const tensor *before = p->tensors[p->inputs[v->input]];
    uint32_t output = v->output_plus1 - 1;
    if (v->output_plus1 && (output < outputs || output >= p->n_outputs || !take_once(&set[output - outputs])))
        return WRONG(c, "the variable '%s' has output %u; wanted is one of %zu to %zu, and no other variable's",
                     before->name, output, outputs, p->n_outputs - 1);
    if (!same_fixed(p, before, v->output_plus1 ? p->tensors[p->outputs[output]] : before))
        return WRONG(c, "the variable '%s' becomes what has not its type and fixed sizes", before->name);
    if (!v->initial_plus1) return HYP_OK;
    uint32_t initial = v->initial_plus1 - 1;
    if (initial >= p->n_tensors || p->tensors[initial]->place != HYP_PLAN__PLACE__PLACE_WEIGHT ||
        !take_once(&used[initial]) || !same_fixed(p, before, p->tensors[initial]))
        return WRONG(c, "the variable '%s' begins with tensor %u, which is no weight of its type and sizes and of it alone",
                     before->name, initial);
    return HYP_OK;
}

static hyp_status check_variables(check *c)
{
    const HypPlan__Program *p = c->program;
    size_t changed = p->n_variables > p->n_inputs ? 0 : hyp_plan_changed(p);
    if (p->n_variables > p->n_inputs || changed > p->n_outputs)
        return WRONG(c, "there are %zu variables, %zu inputs and %zu outputs", p->n_variables, p->n_inputs, p->n_outputs);
    if (p->n_variables && p->n_golden)
        return WRONG(c, "it has variables and runs with known results, which tell nothing of them");
    bool *set = hyp_arena_zalloc(&c->arena, p->n_variables, sizeof *set);
    bool *used = hyp_arena_zalloc(&c->arena, p->n_tensors, sizeof *used);
    if (!set || !used) return hyp_fail_memory(c->diag, p->n_tensors);
    for (size_t i = 0; i < p->n_variables; i++) HYP_TRY(check_variable(c, i, p->n_outputs - changed, set, used));
    return HYP_OK;
}

/* Of valid steps. */
static hyp_status check_in_place(check *c)
{
    const HypPlan__Program *p = c->program;
    if (!hyp_plan_has_in_place(p)) return HYP_OK;
    bool *may_be = hyp_arena_zalloc(&c->arena, p->n_variables, sizeof *may_be);
    if (!may_be) return hyp_fail_memory(c->diag, p->n_variables);
    HYP_TRY(hyp_plan_find_in_place(p, may_be, c->diag));
    for (size_t i = 0; i < p->n_variables; i++)
        if (p->variables[i]->in_place && !may_be[i])
            return WRONG(c, "the variable '%s' is updated in place, where a run may yet fail or read what it was",
                         p->tensors[p->inputs[p->variables[i]->input]]->name);
    return HYP_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static hyp_status check_program(check *c)
{
    const HypPlan__Program *p = c->program;
    if (p->n_dims > UINT32_MAX || p->n_tensors >= UINT32_MAX || p->n_steps >= UINT32_MAX)
        return WRONG(c, "the program is too large");
    if (p->n_typical_sizes != 0 && p->n_typical_sizes != p->n_symbols)
        return WRONG(c, "%zu typical sizes for %zu symbols", p->n_typical_sizes, p->n_symbols);
    if (p->n_padding != 0 && p->n_padding != p->n_symbols)
        return WRONG(c, "it says of %zu of %zu symbols whether they may be padded", p->n_padding, p->n_symbols);
    if (!(p->predicted_seconds >= 0 && p->predicted_seconds <= DBL_MAX))
        return WRONG(c, "it is predicted to take %g seconds", p->predicted_seconds);
    if (!(p->kept_seconds >= 0 && p->kept_seconds <= DBL_MAX))
        return WRONG(c, "without computing anything again it is predicted to take %g seconds", p->kept_seconds);
    if (!(p->hop_seconds >= 0 && p->hop_seconds <= DBL_MAX))
        return WRONG(c, "going on on another stream is predicted to take %g seconds", p->hop_seconds);
    if (p->record.len > HYP_PLAN_MAX_RECORD ||
        hyp_text_prefix((const char *)p->record.data, p->record.len) < p->record.len)
        return WRONG(c, "the record of its compilation has %zu bytes; wanted is UTF-8 of at most %d", p->record.len,
                     HYP_PLAN_MAX_RECORD);
    HYP_TRY(check_dims(c));
    HYP_TRY(check_tensors(c));
    HYP_TRY(check_edge(c, p->n_inputs, p->inputs, HYP_PLAN__PLACE__PLACE_INPUT, "input"));
    HYP_TRY(check_edge(c, p->n_outputs, p->outputs, HYP_PLAN__PLACE__PLACE_OUTPUT, "output"));
    HYP_TRY(check_updates(c));
    HYP_TRY(check_variables(c));
    HYP_TRY(check_data_sizes(c));
    HYP_TRY(hyp_plan_validate_steps(p, c->diag));
    HYP_TRY(check_in_place(c));
    HYP_TRY(check_symbols(c));

    int64_t *values = hyp_arena_zalloc(&c->arena, p->n_dims, sizeof *values);
    if (!values) return hyp_fail_memory(c->diag, p->n_dims * sizeof *values);
    hyp_status status = p->n_symbols > 0 ? hyp_plan_check_fixed(p, c->diag)
                                         : hyp_plan_eval_dims(p, NULL, values, c->diag);
    if (status == HYP_OK && p->n_symbols == 0) status = hyp_plan_check_bounds(p, values, c->diag);
    if (status == HYP_OK || status == HYP_ERR_NO_MEMORY) return status;
    if (c->diag) c->diag->status = HYP_ERR_MALFORMED;
    return HYP_ERR_MALFORMED; /* fixed shapes that do not fit are the plan's fault, not the caller's */
}

hyp_status hyp_plan_validate(const HypPlan__Program *program, hyp_diag *diag)
{
    check c = {.program = program, .diag = diag};
    hyp_status status = check_program(&c);
    if (status == HYP_OK) status = hyp_plan_validate_golden(program, diag);
    hyp_arena_dispose(&c.arena);
    return status;
}

hyp_status hyp_plan_validate_device(const HypPlan__Device *device, hyp_diag *diag)
{
    const char *before = "";
    if (!*device->name) return hyp_fail(diag, HYP_ERR_MALFORMED, "the device section does not name its device");
    for (size_t i = 0; i < device->n_products; i++) {
        const HypPlan__TunedProduct *p = device->products[i];
        if (strcmp(before, p->key) >= 0)
            return hyp_fail(diag, HYP_ERR_MALFORMED,
                            "the device section has product '%s' behind '%s'; wanted its keys to ascend", p->key,
                            before);
        before = p->key;
        if (p->algorithm.len < 1 || p->algorithm.len > HYP_PLAN_MAX_ALGORITHM)
            return hyp_fail(diag, HYP_ERR_MALFORMED,
                            "the device section has an algorithm of %zu bytes for '%s'; wanted 1 to %d",
                            p->algorithm.len, p->key, HYP_PLAN_MAX_ALGORITHM);
        if (!(p->seconds >= 0 && p->seconds <= DBL_MAX && p->first_seconds >= 0 && p->first_seconds <= DBL_MAX))
            return hyp_fail(diag, HYP_ERR_MALFORMED, "the device section has times of %g and %g seconds for '%s'",
                            p->seconds, p->first_seconds, p->key);
    }
    return HYP_OK;
}
