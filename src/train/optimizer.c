/* optimizer.c - updates of parameters as terms, to the formulas of torch.optim (sgd.py, adam.py, adamw.py, single
 * tensors) and of torch.nn.utils.clip_grad_norm_. */
#include <math.h>
#include <string.h>

#include "train/step.h"

/* As of hyp_optimizer_kind, from sgd on. */
static const char *const names[] = {"sgd", "adam", "adamw", NULL};

/* ---- options ---------------------------------------------------------------------------------------- */

static hyp_status fail_number(hyp_diag *diag, const char *what, double found, const char *wanted)
{
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s is %g, %s is wanted", what, found, wanted);
}

static bool is_fraction(double v) { return v >= 0 && v < 1; }

static hyp_status check_numbers(const hyp_train_options *o, hyp_optimizer_kind kind, hyp_diag *diag)
{
    bool sgd = kind == HYP_OPTIMIZER_SGD;
    if (!is_fraction(o->momentum)) return fail_number(diag, "the momentum", o->momentum, "a number from 0 to below 1");
    if (!is_fraction(o->beta1)) return fail_number(diag, "beta1", o->beta1, "a number from 0 to below 1");
    if (!is_fraction(o->beta2)) return fail_number(diag, "beta2", o->beta2, "a number from 0 to below 1");
    if (!(o->epsilon >= 0 && o->epsilon < INFINITY))
        return fail_number(diag, "epsilon", o->epsilon, "a number from 0 on");
    if (!(o->weight_decay < INFINITY))
        return fail_number(diag, "the weight decay", o->weight_decay, "a number from 0 on");
    if (!(o->clip_norm >= 0 && o->clip_norm < INFINITY))
        return fail_number(diag, "the norm to clip to", o->clip_norm, "a number above 0, or 0 for none,");
    if (!(o->loss_scale >= 0 && o->loss_scale < INFINITY))
        return fail_number(diag, "the scale of the loss", o->loss_scale, "a number above 0, or 0 for none,");
    if (!sgd && kind != HYP_OPTIMIZER_NONE && (o->momentum != 0 || o->nesterov))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "momentum is for the optimizer sgd, not for %s",
                        names[kind - HYP_OPTIMIZER_SGD]);
    if (o->nesterov && o->momentum == 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "Nesterov's momentum wants a momentum above 0");
    return HYP_OK;
}

hyp_status hyp_optimizer_find(const hyp_train_options *o, hyp_optimizer_kind *out, hyp_diag *diag)
{
    const char *name = o->optimizer ? o->optimizer : "adamw";
    *out = HYP_OPTIMIZER_NONE;
    for (int i = 0; names[i] && !o->gradients; i++)
        if (strcmp(names[i], name) == 0) *out = (hyp_optimizer_kind)(HYP_OPTIMIZER_SGD + i);
    if (*out == HYP_OPTIMIZER_NONE && !o->gradients) {
        const char *near = hyp_nearest(name, names);
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "no optimizer is called '%s'; there are sgd, adam and adamw%s%s%s", name,
                        near ? "; the nearest is '" : "", near ? near : "", near ? "'" : "");
    }
    return check_numbers(o, *out, diag);
}

/* ---- gradients -------------------------------------------------------------------------------------- */

static hyp_value_id scaled(hyp_builder *b, hyp_value_id v, hyp_value_id factor)
{
    return hyp_build_node(b, HYP_OP_mul, NULL, v, hyp_build_cast(b, factor, hyp_build_type(b, v).dtype));
}

/* The root of the sum of the squares of all elements. */
static hyp_value_id norm_of(hyp_builder *b, const hyp_parameter *parameters, size_t count)
{
    hyp_value_id sum = HYP_NO_VALUE;
    for (size_t i = 0; i < count; i++) {
        hyp_value_id v = parameters[i].gradient;
        v = hyp_build_node(b, HYP_OP_mul, NULL, v, v);
        v = hyp_build_cast(b, hyp_build_reduce_all(b, HYP_OP_reduce_sum, v), HYP_F32);
        sum = i ? hyp_build_node(b, HYP_OP_add, NULL, sum, v) : v;
    }
    return hyp_build_node(b, HYP_OP_sqrt, NULL, sum);
}

void hyp_optimizer_prepare(hyp_optimizer *opt, hyp_parameter *parameters, size_t count)
{
    hyp_builder *b = opt->b;
    const hyp_train_options *o = opt->o;
    hyp_scope s = {.b = b, .numbers = HYP_F32};
    opt->norm = opt->finite = HYP_NO_VALUE;
    for (size_t i = 0; i < count; i++) { /* in 32 bits at least from here on */
        hyp_value_id *g = &parameters[i].gradient;
        *g = hyp_build_cast(b, *g, hyp_dtype_wide(hyp_build_type(b, *g).dtype));
        if (o->loss_scale != 0) *g = scaled(b, *g, hyp_build_scalar(b, hyp_build_type(b, *g).dtype, 1 / o->loss_scale));
    }
    if (o->clip_norm != 0 || o->loss_scale != 0) opt->norm = norm_of(b, parameters, count);
    hyp_scope_name(&s, "norm", opt->norm);
    hyp_scope_name(&s, "most", hyp_build_scalar(b, HYP_F32, o->clip_norm));
    if (o->loss_scale != 0) opt->finite = hyp_form_text(&s, "(less norm inf)");
    if (o->clip_norm != 0) {
        hyp_value_id clip = hyp_form_text(&s, "(min 1 (div most (add norm 1e-6)))");
        for (size_t i = 0; i < count; i++) parameters[i].gradient = scaled(b, parameters[i].gradient, clip);
    }
    hyp_scope_dispose(&s);
}

/* ---- updates ---------------------------------------------------------------------------------------- */

static void push_update(hyp_optimizer *opt, hyp_value_id before, hyp_value_id after)
{
    hyp_builder *b = opt->b;
    if (opt->finite != HYP_NO_VALUE) after = hyp_build_node(b, HYP_OP_where, NULL, opt->finite, after, before);
    if (hyp_build_ok(b)) hyp_build_note(b, hyp_vec_push(&opt->updates, b->diag, (hyp_update){before, after}));
}

/* A variable of zeros beside a parameter, or without one. */
static hyp_value_id add_state(hyp_optimizer *opt, const char *of, const char *name, const hyp_type *type)
{
    hyp_builder *b = opt->b;
    hyp_value_id out = HYP_NO_VALUE;
    char *full = hyp_arena_printf(&b->arena, "%s:%s", of, name);
    if (!full)
        hyp_build_note(b, hyp_fail_memory(b->diag, strlen(of)));
    else if (hyp_build_ok(b))
        hyp_build_note(b, hyp_graph_add_variable(b->g, full, type, NULL, 0, false, &out, b->diag));
    return out;
}

static double weight_decay(const hyp_optimizer *opt)
{
    double given = opt->o->weight_decay;
    return given >= 0 ? given : opt->kind == HYP_OPTIMIZER_ADAMW ? 0.01 : 0;
}

/* Scalars of a step in double, as PyTorch computes them: 1 - 0.999 in 32 bits is off by 6e-5 of it. */
static void add_step_scalars(hyp_optimizer *opt)
{
    const hyp_type count = {.dtype = HYP_I64};
    hyp_builder *b = opt->b;
    hyp_scope s = {.b = b, .numbers = HYP_F64};
    hyp_value_id step = add_state(opt, "", "step", &count);
    hyp_value_id next = hyp_build_node(b, HYP_OP_add, NULL, step, hyp_build_scalar(b, HYP_I64, 1));
    push_update(opt, step, next);
    hyp_scope_name(&s, "t", hyp_build_cast(b, next, HYP_F64));
    hyp_scope_name(&s, "lr", hyp_build_cast(b, opt->rate, HYP_F64));
    hyp_scope_name_number(&s, "beta1", opt->o->beta1);
    hyp_scope_name_number(&s, "beta2", opt->o->beta2);
    hyp_scope_name_number(&s, "decay", weight_decay(opt));
    opt->step_size = hyp_form_text(&s, "(div lr (sub 1 (pow beta1 t)))");
    opt->root = hyp_form_text(&s, "(sqrt (sub 1 (pow beta2 t)))");
    opt->decay = hyp_form_text(&s, "(sub 1 (mul lr decay))");
    hyp_scope_dispose(&s);
}

static void update_sgd(hyp_optimizer *opt, hyp_scope *s, const hyp_parameter *p, const hyp_type *state)
{
    bool momentum = opt->o->momentum != 0;
    hyp_scope_name(s, "lr", hyp_build_cast(s->b, opt->rate, s->numbers));
    hyp_scope_name_number(s, "momentum", opt->o->momentum);
    hyp_scope_name(s, "d", hyp_form_text(s, weight_decay(opt) != 0 ? "(add g (mul decay p))" : "g"));
    if (momentum) {
        hyp_value_id before = add_state(opt, p->name, "momentum", state);
        hyp_scope_name(s, "m", before);
        hyp_value_id after = hyp_form_text(s, "(add (mul momentum m) d)");
        hyp_scope_name(s, "b", after);
        push_update(opt, before, after);
    }
    hyp_scope_name(s, "new",
                   hyp_form_text(s, !momentum          ? "(sub p (mul lr d))"
                                    : opt->o->nesterov ? "(sub p (mul lr (add d (mul momentum b))))"
                                                       : "(sub p (mul lr b))"));
}

static void update_adam(hyp_optimizer *opt, hyp_scope *s, const hyp_parameter *p, const hyp_type *state)
{
    bool decoupled = opt->kind == HYP_OPTIMIZER_ADAMW, decays = weight_decay(opt) != 0;
    hyp_value_id m = add_state(opt, p->name, "m", state), v = add_state(opt, p->name, "v", state);
    hyp_scope_name(s, "m", m);
    hyp_scope_name(s, "v", v);
    hyp_scope_name(s, "step-size", hyp_build_cast(s->b, opt->step_size, s->numbers));
    hyp_scope_name(s, "root", hyp_build_cast(s->b, opt->root, s->numbers));
    hyp_scope_name(s, "keep", hyp_build_cast(s->b, opt->decay, s->numbers));
    hyp_scope_name_number(s, "beta2", opt->o->beta2);
    hyp_scope_name_number(s, "rest1", 1 - opt->o->beta1);
    hyp_scope_name_number(s, "rest2", 1 - opt->o->beta2);
    hyp_scope_name_number(s, "epsilon", opt->o->epsilon);
    hyp_scope_name(s, "d", hyp_form_text(s, decays && !decoupled ? "(add g (mul decay p))" : "g"));
    hyp_scope_name(s, "q", hyp_form_text(s, decays && decoupled ? "(mul p keep)" : "p"));
    hyp_value_id new_m = hyp_form_text(s, "(add m (mul rest1 (sub d m)))");
    hyp_value_id new_v = hyp_form_text(s, "(add (mul beta2 v) (mul rest2 (mul d d)))");
    hyp_scope_name(s, "new-m", new_m);
    hyp_scope_name(s, "new-v", new_v);
    push_update(opt, m, new_m);
    push_update(opt, v, new_v);
    hyp_scope_name(s, "new",
                   hyp_form_text(s, "(sub q (mul step-size (div new-m (add epsilon (div (sqrt new-v) root)))))"));
}

void hyp_optimizer_update(hyp_optimizer *opt, const hyp_parameter *parameters, size_t count)
{
    hyp_builder *b = opt->b;
    b->from = (hyp_provenance){0};
    bool adam = opt->kind == HYP_OPTIMIZER_ADAM || opt->kind == HYP_OPTIMIZER_ADAMW;
    if (adam) add_step_scalars(opt);
    for (size_t i = 0; i < count && hyp_build_ok(b); i++) {
        const hyp_parameter *p = &parameters[i];
        if (opt->kind == HYP_OPTIMIZER_NONE) { /* it stays as it is, whatever the gradients are */
            hyp_build_note(b, hyp_vec_push(&opt->updates, b->diag, (hyp_update){p->before, p->before}));
            continue;
        }
        hyp_type type = hyp_build_type(b, p->before), state = type;
        state.dtype = hyp_dtype_wide(type.dtype);
        hyp_scope s = {.b = b, .numbers = state.dtype};
        hyp_scope_name(&s, "p", hyp_build_cast(b, p->before, state.dtype));
        hyp_scope_name(&s, "g", p->gradient);
        hyp_scope_name_number(&s, "decay", weight_decay(opt));
        if (adam)
            update_adam(opt, &s, p, &state);
        else
            update_sgd(opt, &s, p, &state);
        push_update(opt, p->before, hyp_build_cast(b, hyp_scope_find(&s, "new"), type.dtype));
        hyp_scope_dispose(&s);
    }
}
