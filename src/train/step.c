/* step.c - a training step of a model: forward, loss, backward and update as one graph. */
#include "train/step.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "train/gradient.h"

typedef struct step {
    const hyp_graph *model;
    const hyp_train_options *o;
    hyp_graph *out;
    hyp_diag *diag;
    hyp_loss_kind kind;
    hyp_optimizer_kind optimizer;
    hyp_value_id reads;  /* of the model: what the loss reads */
    const char *further; /* the name of the loss's own input, or NULL */
    hyp_type further_type;
    HYP_VEC(hyp_value_id) trained; /* of the model: constants */
    HYP_VEC(hyp_update) kept;      /* constants of the model that it changes itself, and what they become: of the model, of
                                      the step when it has been copied */
    hyp_value_id *map;             /* by value of the model */
    hyp_builder b;
    hyp_dropout dropout; /* with options->dropout */
    hyp_value_id target, rate, loss;
    hyp_parameter *parameters; /* as many as are trained */
} step;

/* ---- what is asked for ------------------------------------------------------------------------------ */

static hyp_value_id find_output(const hyp_graph *g, const char *name)
{
    for (size_t i = 0; i < hyp_graph_shown(g); i++)
        if (strcmp(g->outputs.data[i].name, name) == 0) return g->outputs.data[i].value;
    return HYP_NO_VALUE;
}

/* "no output of the model is called 'x'; the nearest ..." */
static hyp_status no_output(step *s, const char *name, const char *more)
{
    size_t count = hyp_graph_shown(s->model);
    const char **names = hyp_arena_zalloc(&s->b.arena, count + 1, sizeof *names);
    for (size_t i = 0; names && i < count; i++) names[i] = s->model->outputs.data[i].name;
    const char *near = names ? hyp_nearest(name, names) : NULL;
    return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT, "no output of the model is called '%s'%s%s%s%s", name, more,
                    near ? "; the nearest name is '" : "", near ? near : "", near ? "'" : "");
}

static hyp_status find_loss(step *s)
{
    const hyp_train_options *o = s->o;
    if (!o->loss)
        return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT, "no loss is named: mse, cross-entropy, bce, or an output");
    if (!hyp_graph_shown(s->model)) return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT, "the model has no output");
    s->kind = hyp_loss_find(o->loss);
    const char *name = s->kind == HYP_LOSS_OUTPUT ? o->loss : o->output ? o->output : s->model->outputs.data[0].name;
    s->reads = find_output(s->model, name);
    if (s->reads == HYP_NO_VALUE)
        return no_output(s, name,
                         s->kind == HYP_LOSS_OUTPUT ? ", nor is a loss: there are mse, cross-entropy and bce" : "");
    return hyp_loss_input(s->kind, s->model, o, &s->model->values.data[s->reads].type, &s->further, &s->further_type,
                          s->diag);
}

static bool is_candidate(const hyp_value *v)
{
    return v->kind == HYP_VALUE_CONST && v->updatable && !v->measured && v->name && hyp_dtype_is_float(v->type.dtype);
}

static hyp_status check_patterns(step *s)
{
    const hyp_graph *g = s->model;
    for (size_t p = 0; p < s->o->frozen_count; p++) {
        bool any = false;
        for (size_t i = 0; i < g->values.len && !any; i++)
            any = is_candidate(&g->values.data[i]) && fnmatch(s->o->frozen[p], g->values.data[i].name, 0) == 0;
        if (!any)
            return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT,
                            "no parameter is called like '%s', which was to be frozen: no initializer of floats that "
                            "may be trained",
                            s->o->frozen[p]);
    }
    return HYP_OK;
}

static bool is_frozen(const step *s, const char *name)
{
    for (size_t p = 0; p < s->o->frozen_count; p++)
        if (fnmatch(s->o->frozen[p], name, 0) == 0) return true;
    return false;
}

/* The parameters: what the loss depends on, of what may be trained. */
static hyp_status find_parameters(step *s)
{
    const hyp_graph *g = s->model;
    size_t candidates = 0, kept = 0;
    HYP_TRY(check_patterns(s));
    for (size_t i = 0; i < g->values.len; i++) {
        if (!is_candidate(&g->values.data[i])) continue;
        candidates++;
        if (is_frozen(s, g->values.data[i].name)) continue;
        if (!g->values.data[i].data && g->values.data[i].bytes)
            return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT, "the elements of '%s' are not there",
                            g->values.data[i].name);
        HYP_TRY(hyp_vec_push(&s->trained, s->diag, (hyp_value_id)i));
    }
    bool *reached = hyp_arena_zalloc(&s->b.arena, s->trained.len + 1, sizeof *reached);
    if (!reached) return hyp_fail_memory(s->diag, s->trained.len);
    HYP_TRY(hyp_gradient_reach(g, s->reads, s->trained.data, s->trained.len, reached, s->diag));
    for (size_t i = 0; i < s->trained.len; i++)
        if (reached[i]) s->trained.data[kept++] = s->trained.data[i];
    size_t free = s->trained.len;
    s->trained.len = kept;
    if (kept) return HYP_OK;
    return hyp_fail(
        s->diag, HYP_ERR_INVALID_ARGUMENT,
        "there is nothing to train: of %zu initializers of floats, %zu are not frozen, and the loss depends on none "
        "of these",
        candidates, free);
}

static hyp_status check_variables(const step *s)
{
    if (!s->model->variables.len) return HYP_OK;
    return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT,
                    "the model has variables, as a training step has; give it as a model");
}

/* ---- what the model keeps of its batches ------------------------------------------------------------- */

/* What an output that is called "new:NAME" is of, NULL for others. */
static const char *kept_name(const char *output) { return strncmp(output, "new:", 4) == 0 ? output + 4 : NULL; }

static hyp_value_id find_candidate(const hyp_graph *g, const char *name)
{
    for (size_t i = 0; i < g->values.len; i++)
        if (is_candidate(&g->values.data[i]) && strcmp(g->values.data[i].name, name) == 0) return (hyp_value_id)i;
    return HYP_NO_VALUE;
}

/* Outputs that say what an initializer becomes: those that are frozen stay as they are. */
static hyp_status find_kept(step *s)
{
    const hyp_graph *g = s->model;
    for (size_t i = 0; i < hyp_graph_shown(g); i++) {
        const char *name = kept_name(g->outputs.data[i].name);
        hyp_value_id before = name ? find_candidate(g, name) : HYP_NO_VALUE, after = g->outputs.data[i].value;
        if (before == HYP_NO_VALUE || is_frozen(s, name)) continue;
        for (size_t k = 0; k < s->trained.len; k++)
            if (s->trained.data[k] == before)
                return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT,
                                "'%s' is trained, as the loss depends on it, and the output 'new:%s' says what it becomes; "
                                "give the output another name, or freeze '%s'",
                                name, name, name);
        if (!hyp_type_equal(&g->values.data[before].type, &g->values.data[after].type))
            return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT, "the output 'new:%s' is of another type than '%s'", name, name);
        HYP_TRY(hyp_vec_push(&s->kept, s->diag, (hyp_update){before, after}));
    }
    return HYP_OK;
}

/* ---- the model in the step -------------------------------------------------------------------------- */

static hyp_status add_own_input(step *s, const char *name, const hyp_type *type, hyp_value_id *out)
{
    const hyp_graph *g = s->model;
    for (size_t i = 0; i < g->inputs.len; i++)
        if (strcmp(g->values.data[g->inputs.data[i]].name, name) == 0)
            return hyp_fail(
                s->diag, HYP_ERR_INVALID_ARGUMENT,
                "the model has an input '%s', as the step has one of its own; give it another name in the model", name);
    return hyp_graph_add_input(s->out, name, type, out, s->diag);
}

static hyp_status add_inputs(step *s)
{
    const hyp_graph *g = s->model;
    const hyp_type scalar = {.dtype = HYP_F32}, integer = {.dtype = HYP_I64}, truth = {.dtype = HYP_BOOL};
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_value *v = &g->values.data[g->inputs.data[i]];
        HYP_TRY(hyp_graph_add_input(s->out, v->name, &v->type, &s->map[g->inputs.data[i]], s->diag));
    }
    s->target = s->rate = HYP_NO_VALUE;
    if (s->further) HYP_TRY(add_own_input(s, s->further, &s->further_type, &s->target));
    if (!s->o->gradients) HYP_TRY(add_own_input(s, "learning-rate", &scalar, &s->rate));
    if (!s->o->dropout) return HYP_OK;
    HYP_TRY(add_own_input(s, "seed", &integer, &s->dropout.seed));
    return add_own_input(s, "training", &truth, &s->dropout.training);
}

/* What is trained becomes variables; nothing takes the place of other constants. */
static hyp_status add_constants(step *s)
{
    const hyp_graph *g = s->model;
    for (size_t i = 0; i < s->trained.len; i++) {
        const hyp_value *v = &g->values.data[s->trained.data[i]];
        hyp_value_id *to = &s->map[s->trained.data[i]];
        HYP_TRY(hyp_graph_add_variable(s->out, v->name, &v->type, v->data, v->bytes, v->owned, to, s->diag));
        s->parameters[i] = (hyp_parameter){.name = v->name, .before = *to, .gradient = HYP_NO_VALUE};
    }
    for (size_t i = 0; i < s->kept.len; i++) {
        const hyp_value *v = &g->values.data[s->kept.data[i].before];
        HYP_TRY(hyp_graph_add_variable(s->out, v->name, &v->type, v->data, v->bytes, v->owned, &s->map[s->kept.data[i].before],
                                       s->diag));
    }
    const hyp_type count = {.dtype = HYP_I64};
    if (s->o->dropout)
        HYP_TRY(hyp_graph_add_variable(s->out, ":draws", &count, NULL, 0, false, &s->dropout.draws, s->diag));
    for (size_t i = 0; i < g->values.len; i++) {
        if (g->values.data[i].kind != HYP_VALUE_CONST || s->map[i] != HYP_NO_VALUE) continue;
        HYP_TRY(hyp_graph_copy_const(s->out, &g->values.data[i], &s->map[i], s->diag));
        s->out->values.data[s->map[i]].updatable = false;
    }
    return HYP_OK;
}

static hyp_status copy_dropout(step *s, const hyp_node *n)
{
    hyp_value_id v = hyp_dropout_build(&s->b, &s->dropout, n, s->map[n->inputs[0]]);
    HYP_TRY(s->b.status);
    if (v == HYP_NO_VALUE) return hyp_graph_copy_node(s->out, s->model, n, s->map, s->diag);
    const char *name = s->model->values.data[n->outputs[0]].name;
    s->map[n->outputs[0]] = v;
    s->out->values.data[v].name = name ? hyp_arena_strdup(&s->out->arena, name) : NULL;
    return name && !s->out->values.data[v].name ? hyp_fail_memory(s->diag, strlen(name)) : HYP_OK;
}

static hyp_status copy_model(step *s)
{
    size_t values = s->model->values.len;
    s->map = hyp_arena_alloc(&s->b.arena, values * sizeof *s->map);
    s->parameters = hyp_arena_zalloc(&s->b.arena, s->trained.len, sizeof *s->parameters);
    if (!s->map || !s->parameters) return hyp_fail_memory(s->diag, values * sizeof *s->map);
    memset(s->map, 0xff, values * sizeof *s->map); /* HYP_NO_VALUE */
    s->out->name = hyp_arena_strdup(&s->out->arena, s->model->name ? s->model->name : "");
    if (!s->out->name) return hyp_fail_memory(s->diag, 1);
    HYP_TRY(add_inputs(s));
    HYP_TRY(add_constants(s));
    for (size_t i = 0; i < s->model->nodes.len; i++) {
        const hyp_node *n = &s->model->nodes.data[i];
        HYP_TRY(s->o->dropout && n->op == HYP_OP_dropout ? copy_dropout(s, n)
                                                         : hyp_graph_copy_node(s->out, s->model, n, s->map, s->diag));
    }
    for (size_t i = 0; i < s->kept.len; i++) s->kept.data[i].after = s->map[s->kept.data[i].after];
    return HYP_OK;
}

/* ---- loss, backward, update ------------------------------------------------------------------------- */

static hyp_status differentiate(step *s)
{
    size_t count = s->trained.len;
    hyp_value_id gradient = HYP_NO_VALUE, read = s->map[s->reads];
    hyp_value_id *lists = hyp_arena_alloc(&s->b.arena, 2 * count * sizeof *lists), *gradients = lists + count;
    if (!lists) return hyp_fail_memory(s->diag, 2 * count * sizeof *lists);
    for (size_t i = 0; i < count; i++) lists[i] = s->parameters[i].before;
    const hyp_type type = hyp_build_type(&s->b, read);
    const hyp_dim classes = s->kind == HYP_LOSS_CROSS_ENTROPY ? type.dims[type.rank > 1] : 0;
    if (classes && s->o->loss_only) read = hyp_classes_widen(&s->b, s->o, read);
    hyp_loss_build(&s->b, s->kind, s->o, read, classes, s->target, s->o->loss_scale != 0 ? s->o->loss_scale : 1, &s->loss,
                   &gradient);
    s->loss = hyp_build_cast(&s->b, s->loss, HYP_F32);
    HYP_TRY(s->b.status);
    HYP_TRY(hyp_gradient_from(s->out, read, gradient, lists, count, gradients, s->diag));
    for (size_t i = 0; i < count; i++) s->parameters[i].gradient = gradients[i];
    return HYP_OK;
}

/* ---- several processes ------------------------------------------------------------------------------ */

/* Values on their way into one all-reduce. */
typedef struct bucket {
    hyp_value_id *at[HYP_ALL_REDUCE_MOST]; /* where they are, and what took their place is put */
    uint32_t count;
    size_t bytes;
} bucket;

/* What processes send each other of a value: gradients that were computed in 16 bits are widened where they have arrived. */
static hyp_value_id as_computed(const step *s, hyp_value_id v)
{
    const hyp_value *value = &s->out->values.data[v];
    if (!hyp_build_ok(&s->b) || value->kind != HYP_VALUE_NODE) return v;
    const hyp_node *n = &s->out->nodes.data[value->producer];
    if (n->op != HYP_OP_cast) return v;
    hyp_dtype from = s->out->values.data[n->inputs[0]].type.dtype;
    return hyp_dtype_is_float(from) && hyp_dtype_size(from) < hyp_dtype_size(value->type.dtype) ? n->inputs[0] : v;
}

static void close_bucket(step *s, bucket *b)
{
    hyp_value_id values[HYP_ALL_REDUCE_MOST], means[HYP_ALL_REDUCE_MOST];
    const hyp_attr mean = hyp_attr_of_sym("mean");
    for (uint32_t i = 0; i < b->count; i++) values[i] = as_computed(s, *b->at[i]);
    if (b->count && hyp_build_ok(&s->b))
        hyp_build_note(&s->b, hyp_graph_add_node(s->out, HYP_OP_all_reduce, values, b->count, &mean, NULL, means, b->count,
                                                 s->diag));
    for (uint32_t i = 0; i < b->count && hyp_build_ok(&s->b); i++)
        *b->at[i] = hyp_build_cast(&s->b, means[i], hyp_build_type(&s->b, *b->at[i]).dtype);
    *b = (bucket){0};
}

/* Buckets are as large as a link between devices is well used by, and small enough that one is on its way while the next is
 * computed; the number of tensors in one is what a kernel takes. */
static void add_to_bucket(step *s, bucket *b, hyp_value_id *at)
{
    enum { ENOUGH = 16 << 20 };
    size_t bytes = 0;
    hyp_type type = hyp_build_type(&s->b, as_computed(s, *at));
    if (!hyp_type_bytes(&type, &bytes)) bytes = ENOUGH;
    b->at[b->count++] = at;
    b->bytes += bytes;
    if (b->count == HYP_ALL_REDUCE_MOST || b->bytes >= ENOUGH) close_bucket(s, b);
}

/* What all processes have means of, and which node gives it. */
typedef struct shared_value {
    hyp_value_id *at;
    hyp_node_id maker;
    size_t number; /* in the list, for two of one node */
} shared_value;

static int by_maker(const void *left, const void *right)
{
    const shared_value *a = left, *b = right;
    if (a->maker != b->maker) return a->maker < b->maker ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Means over all processes in place of their own, those first that are known first: of the last layers, whatever the order
 * of the parameters in the model. */
static hyp_status share(step *s)
{
    bucket b = {0};
    size_t count = 0;
    shared_value *all = hyp_arena_zalloc(&s->b.arena, 1 + s->trained.len + s->kept.len, sizeof *all);
    if (!all) return hyp_fail_memory(s->diag, s->trained.len * sizeof *all);
    all[count++].at = &s->loss;
    for (size_t i = 0; i < s->trained.len; i++) all[count++].at = &s->parameters[i].gradient;
    for (size_t i = 0; i < s->kept.len; i++) all[count++].at = &s->kept.data[i].after;
    for (size_t i = 0; i < count; i++) {
        const hyp_value *v = &s->out->values.data[as_computed(s, *all[i].at)];
        all[i].maker = v->kind == HYP_VALUE_NODE ? v->producer : 0;
        all[i].number = i;
    }
    qsort(all, count, sizeof *all, by_maker);
    for (size_t i = 0; i < count; i++) add_to_bucket(s, &b, all[i].at);
    close_bucket(s, &b);
    return s->b.status;
}

static hyp_status add_output(step *s, const char *name, hyp_value_id v)
{
    if (find_output(s->out, name) != HYP_NO_VALUE)
        return hyp_fail(
            s->diag, HYP_ERR_INVALID_ARGUMENT,
            "the model has an output '%s', as the step has one of its own; give it another name in the model", name);
    return hyp_graph_add_output(s->out, name, v, s->diag);
}

static bool is_kept(const step *s, const hyp_named_value *output)
{
    const char *name = kept_name(output->name);
    return name && find_candidate(s->model, name) != HYP_NO_VALUE;
}

/* The model's own, apart from one that is the loss and is called so, and those that say what becomes of initializers. */
static hyp_status add_model_outputs(step *s)
{
    for (size_t i = 0; i < hyp_graph_shown(s->model); i++) {
        const hyp_named_value *output = &s->model->outputs.data[i];
        if (is_kept(s, output)) continue;
        if (output->value == s->reads && s->kind == HYP_LOSS_OUTPUT && strcmp(output->name, "loss") == 0) continue;
        HYP_TRY(add_output(s, output->name, s->map[output->value]));
    }
    return HYP_OK;
}

/* Counts of outputs of which the data say how much there is: at the end of the list, as in the model. */
static hyp_status add_counts(step *s, size_t model_first)
{
    const hyp_graph *g = s->model;
    size_t shown = hyp_graph_shown(g), first = s->out->outputs.len;
    for (size_t i = shown; i < g->outputs.len; i++)
        HYP_TRY(hyp_graph_add_output(s->out, g->outputs.data[i].name, s->map[g->outputs.data[i].value], s->diag));
    for (size_t i = 0; i < g->sizes.len; i++) {
        hyp_data_size size = g->sizes.data[i];
        size.output += (uint32_t)model_first;
        size.count = (uint32_t)(size.count >= shown ? size.count - shown + first : size.count + model_first);
        HYP_TRY(hyp_vec_push(&s->out->sizes, s->diag, size));
    }
    s->out->hidden_outputs = g->hidden_outputs;
    return HYP_OK;
}

static hyp_status add_gradients(step *s)
{
    for (size_t i = 0; i < s->trained.len && s->o->gradients; i++) {
        const hyp_parameter *p = &s->parameters[i];
        char *name = hyp_arena_printf(&s->b.arena, "gradient:%s", p->name);
        if (!name) return hyp_fail_memory(s->diag, strlen(p->name));
        hyp_value_id v = hyp_build_cast(&s->b, p->gradient, hyp_build_type(&s->b, p->before).dtype);
        HYP_TRY(s->b.status);
        HYP_TRY(add_output(s, name, v));
    }
    return HYP_OK;
}

/* What the variables become, when all outputs that are shown are there. */
static hyp_status set_variables(step *s, const hyp_optimizer *opt)
{
    for (size_t i = 0; i < opt->updates.len; i++)
        HYP_TRY(hyp_graph_set_variable(s->out, opt->updates.data[i].before, opt->updates.data[i].after, s->diag));
    for (size_t i = 0; i < s->kept.len; i++)
        HYP_TRY(hyp_graph_set_variable(s->out, s->map[s->kept.data[i].before], s->kept.data[i].after, s->diag));
    if (!s->o->dropout) return HYP_OK;
    hyp_value_id draws = hyp_dropout_count(&s->b, &s->dropout);
    HYP_TRY(s->b.status);
    return hyp_graph_set_variable(s->out, s->dropout.draws, draws, s->diag);
}

static hyp_status finish(step *s)
{
    hyp_optimizer opt = {.b = &s->b, .o = s->o, .kind = s->optimizer, .rate = s->rate};
    hyp_optimizer_prepare(&opt, s->parameters, s->trained.len);
    hyp_optimizer_update(&opt, s->parameters, s->trained.len);
    hyp_status status = s->b.status;
    if (status == HYP_OK) status = add_output(s, "loss", s->loss);
    size_t first = s->out->outputs.len;
    if (status == HYP_OK && !s->o->loss_only) status = add_model_outputs(s);
    if (status == HYP_OK && s->o->clip_norm != 0) status = add_output(s, "gradient-norm", opt.norm);
    if (status == HYP_OK) status = add_gradients(s);
    if (status == HYP_OK && !s->o->loss_only) status = add_counts(s, first);
    if (status == HYP_OK) status = set_variables(s, &opt);
    hyp_vec_free(&opt.updates);
    return status;
}

static hyp_status make(step *s)
{
    HYP_TRY(check_variables(s));
    HYP_TRY(hyp_optimizer_find(s->o, &s->optimizer, s->diag));
    HYP_TRY(find_loss(s));
    HYP_TRY(find_parameters(s));
    HYP_TRY(find_kept(s));
    if (s->o->dropout) HYP_TRY(hyp_dropout_check(s->model, s->diag));
    HYP_TRY(copy_model(s));
    HYP_TRY(differentiate(s));
    if (s->o->data_parallel) HYP_TRY(share(s));
    return finish(s);
}

hyp_status hyp_train_step(const hyp_graph *model, const hyp_train_options *options, hyp_graph *out, hyp_diag *diag)
{
    hyp_graph made, live;
    hyp_graph_init(&made, model->dims);
    step s = {.model = model, .o = options, .out = &made, .diag = diag, .b = {.g = &made, .diag = diag}};
    hyp_status status = make(&s);
    if (status == HYP_OK)
        status = hyp_graph_copy_live(&made, &live, diag); /* leaves out gradients of what nothing reads */
    hyp_vec_free(&s.trained);
    hyp_vec_free(&s.kept);
    hyp_builder_dispose(&s.b);
    hyp_graph_dispose(&made);
    if (status == HYP_OK) *out = live;
    return status;
}
