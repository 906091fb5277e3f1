/* program.c - the parts of a program: dims, tensors, steps. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codegen/lower.h"
#include "ir/apart.h"
#include "ir/window.h"

hyp_status hyp_lower_unsupported(hyp_lowering *l, const hyp_node *node, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    const char *name = node->from.source_count ? node->from.sources[0] : hyp_lower_value(l, node->outputs[0])->name;
    return hyp_fail(l->diag, HYP_ERR_UNSUPPORTED, "%s at '%s': %s", hyp_op_get(node->op)->name, name ? name : "?",
                    what);
}

hyp_status hyp_lower_alloc(hyp_lowering *l, size_t count, size_t size, void **out)
{
    *out = hyp_arena_zalloc(&l->out->arena, count, size);
    return *out ? HYP_OK : hyp_fail_memory(l->diag, count * size);
}

/* ---- dims ------------------------------------------------------------------------------------------- */

static size_t dim_slot(const hyp_lowering *l, hyp_dim d)
{
    size_t mask = l->dim_slots - 1, i = (size_t)(((uint64_t)d * 0x9e3779b97f4a7c15u) >> 32) & mask;
    while (l->dim_indexes[i] && l->dim_keys[i] != d) i = (i + 1) & mask;
    return i;
}

/* Keeps the table at most half full. The old one stays in the arena. */
static hyp_status grow_dim_table(hyp_lowering *l)
{
    if (l->dims.len * 2 < l->dim_slots) return HYP_OK;
    size_t old_slots = l->dim_slots, slots = old_slots ? old_slots * 2 : 64;
    hyp_dim *old_keys = l->dim_keys;
    uint32_t *old_indexes = l->dim_indexes;
    l->dim_keys = hyp_arena_zalloc(&l->scratch, slots, sizeof *l->dim_keys);
    l->dim_indexes = hyp_arena_zalloc(&l->scratch, slots, sizeof *l->dim_indexes);
    if (!l->dim_keys || !l->dim_indexes) return hyp_fail_memory(l->diag, slots * sizeof *l->dim_keys);
    l->dim_slots = slots;
    for (size_t i = 0; i < old_slots; i++) {
        if (!old_indexes[i]) continue;
        size_t to = dim_slot(l, old_keys[i]);
        l->dim_keys[to] = old_keys[i];
        l->dim_indexes[to] = old_indexes[i];
    }
    return HYP_OK;
}

static hyp_status symbol_index(hyp_lowering *l, int64_t symbol, int64_t *out)
{
    if (!l->symbol_plus1[symbol]) {
        char *name = hyp_arena_strdup(&l->out->arena, hyp_dims_symbol_name(l->graph->dims, (size_t)symbol));
        if (!name) return hyp_fail_memory(l->diag, 0);
        HYP_TRY(hyp_vec_push(&l->symbols, l->diag, name));
        l->symbol_plus1[symbol] = (uint32_t)l->symbols.len;
    }
    *out = (int64_t)l->symbol_plus1[symbol] - 1;
    return HYP_OK;
}

/* Recursion is as deep as the expression, which dim.h bounds. */
hyp_status hyp_lower_dim(hyp_lowering *l, hyp_dim d, uint32_t *out)
{
    static const HypPlan__Dim__Kind kinds[] = {
        [HYP_DIM_CONST] = HYP_PLAN__DIM__KIND__CONST,       [HYP_DIM_SYMBOL] = HYP_PLAN__DIM__KIND__SYMBOL,
        [HYP_DIM_ADD] = HYP_PLAN__DIM__KIND__ADD,           [HYP_DIM_MUL] = HYP_PLAN__DIM__KIND__MUL,
        [HYP_DIM_FLOORDIV] = HYP_PLAN__DIM__KIND__FLOORDIV, [HYP_DIM_MIN] = HYP_PLAN__DIM__KIND__MIN,
        [HYP_DIM_MAX] = HYP_PLAN__DIM__KIND__MAX,
    };
    HYP_TRY(grow_dim_table(l));
    size_t slot = dim_slot(l, d);
    if (l->dim_indexes[slot]) {
        *out = l->dim_indexes[slot] - 1;
        return HYP_OK;
    }
    hyp_dim_view view;
    HYP_TRY(hyp_dim_inspect(l->graph->dims, d, &view, l->diag));
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof(HypPlan__Dim), &memory));
    HypPlan__Dim *dim = memory;
    hyp_plan__dim__init(dim);
    dim->kind = kinds[view.kind];
    if (view.kind == HYP_DIM_CONST) {
        dim->value = view.value;
    } else if (view.kind == HYP_DIM_SYMBOL) {
        HYP_TRY(symbol_index(l, view.value, &dim->value));
    } else {
        HYP_TRY(hyp_lower_dim(l, view.a, &dim->a));
        HYP_TRY(hyp_lower_dim(l, view.b, &dim->b));
    }
    HYP_TRY(hyp_vec_push(&l->dims, l->diag, dim));
    *out = (uint32_t)l->dims.len - 1;
    HYP_TRY(grow_dim_table(l)); /* the operands may have filled or replaced it */
    slot = dim_slot(l, d);
    l->dim_keys[slot] = d;
    l->dim_indexes[slot] = *out + 1;
    return HYP_OK;
}

hyp_status hyp_lower_dims(hyp_lowering *l, size_t n, const hyp_dim *dims, uint32_t **out)
{
    void *list;
    HYP_TRY(hyp_lower_alloc(l, n, sizeof(uint32_t), &list));
    *out = list;
    for (size_t i = 0; i < n; i++) HYP_TRY(hyp_lower_dim(l, dims[i], &(*out)[i]));
    return HYP_OK;
}

hyp_status hyp_lower_product(hyp_lowering *l, size_t n, const hyp_dim *dims, hyp_dim *out)
{
    *out = 1;
    for (size_t i = 0; i < n; i++) HYP_TRY(hyp_dim_mul(l->graph->dims, *out, dims[i], out, l->diag));
    return HYP_OK;
}

/* ---- tensors ---------------------------------------------------------------------------------------- */

hyp_status hyp_lower_add_tensor(hyp_lowering *l, const char *name, const hyp_type *type, HypPlan__Place place,
                                uint32_t *out)
{
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof(HypPlan__Tensor), &memory));
    HypPlan__Tensor *t = memory;
    hyp_plan__tensor__init(t);
    t->name = hyp_arena_strdup(&l->out->arena, name ? name : "");
    if (!t->name) return hyp_fail_memory(l->diag, 0);
    t->dtype = type->dtype;
    t->place = place;
    t->n_dims = (size_t)type->rank;
    HYP_TRY(hyp_lower_dims(l, t->n_dims, type->dims, &t->dims));
    hyp_dim bytes;
    HYP_TRY(hyp_lower_product(l, t->n_dims, type->dims, &bytes));
    HYP_TRY(hyp_dim_mul(l->graph->dims, bytes, (hyp_dim)hyp_dtype_size(type->dtype), &bytes, l->diag));
    if (place == HYP_PLAN__PLACE__PLACE_WEIGHT) t->bytes = (uint64_t)bytes;
    HYP_TRY(hyp_vec_push(&l->tensors, l->diag, t));
    HYP_TRY(hyp_vec_push(&l->folds, l->diag, HYP_NO_VALUE));
    HYP_TRY(hyp_vec_push(&l->bytes, l->diag, bytes));
    *out = (uint32_t)l->tensors.len - 1;
    return HYP_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

/* Appends the index of a name to a list without repeating one. */
static hyp_status add_name(hyp_lowering *l, hyp_intern *names, const char *name, uint32_t *list, size_t *count)
{
    uint32_t id;
    HYP_TRY(hyp_intern_add(names, name, strlen(name), &id, l->diag));
    for (size_t i = 0; i < *count; i++)
        if (list[i] == id) return HYP_OK;
    list[(*count)++] = id;
    return HYP_OK;
}

static hyp_status add_provenance(hyp_lowering *l, const hyp_node *const *nodes, size_t node_count, HypPlan__Step *step)
{
    size_t rules = 0, sources = 0;
    for (size_t i = 0; i < node_count; i++) {
        rules += nodes[i]->from.rule_count;
        sources += nodes[i]->from.source_count;
    }
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, rules, sizeof *step->rules, &memory));
    step->rules = memory;
    HYP_TRY(hyp_lower_alloc(l, sources, sizeof *step->sources, &memory));
    step->sources = memory;
    for (size_t i = 0; i < node_count; i++) {
        const hyp_provenance *from = &nodes[i]->from;
        for (uint32_t r = 0; r < from->rule_count; r++)
            HYP_TRY(add_name(l, &l->rules, from->rules[r], step->rules, &step->n_rules));
        for (uint32_t s = 0; s < from->source_count; s++)
            HYP_TRY(add_name(l, &l->sources, from->sources[s], step->sources, &step->n_sources));
    }
    return HYP_OK;
}

/* The message of a kernel, initialised. */
static hyp_status add_kernel(hyp_lowering *l, HypPlan__Step *step)
{
    void *memory;
#define KERNEL(NAME, type)                                                                                             \
    case HYP_PLAN__STEP__KERNEL_##NAME:                                                                                \
        HYP_TRY(hyp_lower_alloc(l, 1, sizeof *step->type, &memory));                                                   \
        step->type = memory;                                                                                           \
        hyp_plan__##type##__init(step->type);                                                                          \
        return HYP_OK;
    switch (step->kernel_case) {
        KERNEL(LINEAR, linear)
        KERNEL(MATMUL, matmul)
        KERNEL(POINTWISE, pointwise)
        KERNEL(SOFTMAX, softmax)
        KERNEL(REDUCE, reduce)
        KERNEL(COPY, copy)
        KERNEL(GATHER, gather)
        KERNEL(FILL, fill)
        KERNEL(CALL, call)
        KERNEL(ATTENTION, attention)
        KERNEL(CUSTOM, custom)
    default: return hyp_fail(l->diag, HYP_ERR_INTERNAL, "a step without a kernel");
    }
#undef KERNEL
}

hyp_status hyp_lower_add_step(hyp_lowering *l, const char *label, const hyp_node *const *nodes, size_t node_count,
                              HypPlan__Step__KernelCase kernel, HypPlan__Step **out)
{
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof **out, &memory));
    HypPlan__Step *step = memory;
    hyp_plan__step__init(step);
    step->label = hyp_arena_strdup(&l->out->arena, label);
    if (!step->label) return hyp_fail_memory(l->diag, 0);
    step->kernel_case = kernel;
    HYP_TRY(add_kernel(l, step));
    HYP_TRY(add_provenance(l, nodes, node_count, step));
    HYP_TRY(hyp_vec_push(&l->steps, l->diag, step));
    HYP_TRY(hyp_vec_push(&l->dense, l->diag, 0));
    *out = step;
    return HYP_OK;
}

/* ---- the end ---------------------------------------------------------------------------------------- */

static hyp_status copy_list(hyp_lowering *l, const void *data, size_t count, size_t size, void *out_list, size_t *out_n)
{
    void *list;
    HYP_TRY(hyp_lower_alloc(l, count, size, &list));
    if (count) memcpy(list, data, count * size);
    memcpy(out_list, &list, sizeof list);
    *out_n = count;
    return HYP_OK;
}

static hyp_status copy_names(hyp_lowering *l, size_t count, const char *const *names, char ***out, size_t *out_n)
{
    void *list;
    HYP_TRY(hyp_lower_alloc(l, count, sizeof **out, &list));
    *out = list;
    for (*out_n = 0; *out_n < count; (*out_n)++) {
        (*out)[*out_n] = hyp_arena_strdup(&l->out->arena, names[*out_n]);
        if (!(*out)[*out_n]) return hyp_fail_memory(l->diag, 0);
    }
    return HYP_OK;
}

hyp_status hyp_lower_guess_sizes(hyp_lowering *l, const int64_t **out)
{
    enum { GUESS = 64 };
    size_t symbols = hyp_dims_symbol_count(l->graph->dims);
    int64_t *sizes = hyp_arena_zalloc(&l->scratch, symbols, sizeof *sizes);
    if (!sizes) return hyp_fail_memory(l->diag, symbols * sizeof *sizes);
    for (size_t i = 0; i < symbols; i++) sizes[i] = l->options->typical_sizes ? l->options->typical_sizes[i] : GUESS;
    *out = sizes;
    return HYP_OK;
}

hyp_status hyp_lower_typical_values(hyp_lowering *l, const int64_t **out)
{
    const HypPlan__Program *p = l->out->program;
    int64_t *symbols = hyp_arena_zalloc(&l->scratch, p->n_symbols, sizeof *symbols);
    int64_t *values = hyp_arena_zalloc(&l->scratch, p->n_dims, sizeof *values);
    if (!symbols || !values) return hyp_fail_memory(l->diag, p->n_dims * sizeof *values);
    for (size_t i = 0; i < p->n_symbols; i++) symbols[i] = (int64_t)p->typical_sizes[i];
    *out = values;
    return hyp_plan_eval_dims(p, symbols, values, l->diag);
}

/* Along which symbols runs may be padded. */
static hyp_status add_padding(hyp_lowering *l)
{
    HypPlan__Program *p = l->out->program;
    void *texts;
    HYP_TRY(hyp_lower_alloc(l, p->n_symbols, sizeof *p->padding, &texts));
    p->padding = texts;
    p->n_padding = p->n_symbols;
    for (size_t s = 0; s < hyp_dims_symbol_count(l->graph->dims); s++) {
        if (!l->symbol_plus1[s]) continue;
        hyp_strbuf why = {0};
        hyp_status status = hyp_graph_check_padding(l->graph, s, &why, l->diag);
        char **text = &p->padding[l->symbol_plus1[s] - 1];
        *text = status == HYP_OK ? hyp_arena_strdup(&l->out->arena, hyp_strbuf_text(&why)) : NULL;
        hyp_strbuf_dispose(&why);
        HYP_TRY(status);
        if (!*text) return hyp_fail_memory(l->diag, 0);
    }
    return HYP_OK;
}

hyp_status hyp_lower_finish_program(hyp_lowering *l)
{
    HypPlan__Program *p = l->out->program;
    HYP_TRY(copy_list(l, l->symbols.data, l->symbols.len, sizeof *p->symbols, &p->symbols, &p->n_symbols));
    if (l->options->typical_sizes) {
        void *sizes;
        HYP_TRY(hyp_lower_alloc(l, l->symbols.len, sizeof *p->typical_sizes, &sizes));
        p->typical_sizes = sizes;
        p->n_typical_sizes = l->symbols.len;
        for (size_t s = 0; s < hyp_dims_symbol_count(l->graph->dims); s++)
            if (l->symbol_plus1[s]) p->typical_sizes[l->symbol_plus1[s] - 1] = (uint64_t)l->options->typical_sizes[s];
    }
    HYP_TRY(add_padding(l));
    HYP_TRY(copy_list(l, l->dims.data, l->dims.len, sizeof *p->dims, &p->dims, &p->n_dims));
    HYP_TRY(copy_list(l, l->tensors.data, l->tensors.len, sizeof *p->tensors, &p->tensors, &p->n_tensors));
    HYP_TRY(copy_list(l, l->steps.data, l->steps.len, sizeof *p->steps, &p->steps, &p->n_steps));
    HYP_TRY(
        copy_names(l, l->rules.names.len, (const char *const *)l->rules.names.data, &p->rule_names, &p->n_rule_names));
    HYP_TRY(copy_names(l, l->sources.names.len, (const char *const *)l->sources.names.data, &p->source_names,
                       &p->n_source_names));
    return copy_names(l, l->options->flag_count, l->options->flags, &p->flags, &p->n_flags);
}

/* ---- tensors of values ------------------------------------------------------------------------------- */

_Static_assert((int)HYP_WINDOW_ALIGN == (int)HYP_PLAN_WINDOW_ALIGN, "plans take the windows that the graph has");

static bool is_view(const hyp_lowering *l, uint32_t tensor)
{
    return l->tensors.data[tensor]->place == HYP_PLAN__PLACE__PLACE_VIEW;
}

hyp_status hyp_lower_add_view(hyp_lowering *l, const char *name, const hyp_type *type, uint32_t of, uint32_t *out)
{
    HYP_TRY(hyp_lower_add_tensor(l, name, type, HYP_PLAN__PLACE__PLACE_VIEW, out));
    const HypPlan__Tensor *seen = l->tensors.data[of];
    HypPlan__Tensor *view = l->tensors.data[*out];
    view->view_of = is_view(l, of) ? seen->view_of : of;
    view->window = is_view(l, of) && seen->window;
    view->first = view->window ? seen->first : 0;
    return HYP_OK;
}

/* A part of what a split or slice reads. */
static hyp_status read_window(hyp_lowering *l, const hyp_node *node, hyp_value_id v, uint32_t *out)
{
    const hyp_value *x = hyp_lower_value(l, node->inputs[0]), *value = hyp_lower_value(l, v);
    uint32_t of, output = 0;
    int64_t first = 0;
    while (node->outputs[output] != v) output++;
    hyp_is_window(node->op, node->attrs, &x->type, &value->type, output, &first);
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &of));
    HYP_TRY(hyp_lower_add_view(l, value->name, &value->type, of, out));
    l->tensors.data[*out]->window = true;
    l->tensors.data[*out]->first += (uint64_t)first;
    return HYP_OK;
}

/* The tensor of a value that is no view. */
static hyp_status read_root(hyp_lowering *l, hyp_value_id v, uint32_t *out)
{
    hyp_value_info *info = &l->values[v];
    if (!info->tensor_plus1) {
        const hyp_value *value = hyp_lower_value(l, v);
        const hyp_node *from = value->kind == HYP_VALUE_NODE ? &l->graph->nodes.data[value->producer] : NULL;
        if (from && !info->constant && hyp_lower_is_windows(l, from)) {
            HYP_TRY(read_window(l, from, v, out));
            info->tensor_plus1 = *out + 1;
            return HYP_OK;
        }
        if (!info->constant) return hyp_fail(l->diag, HYP_ERR_INTERNAL, "value %u is read before it is computed", v);
        HYP_TRY(hyp_lower_add_tensor(l, value->name, &value->type, HYP_PLAN__PLACE__PLACE_WEIGHT, out));
        l->folds.data[*out] = v;
        info->tensor_plus1 = *out + 1;
    }
    *out = info->tensor_plus1 - 1;
    return HYP_OK;
}

hyp_status hyp_lower_read(hyp_lowering *l, hyp_value_id v, uint32_t *out_tensor)
{
    hyp_value_id root = hyp_lower_root(l, v);
    const hyp_value *value = hyp_lower_value(l, v);
    if (root == v || l->values[v].tensor_plus1) return read_root(l, v, out_tensor);
    HYP_TRY(read_root(l, root, out_tensor));
    if (!hyp_type_equal(&value->type, &hyp_lower_value(l, root)->type)) {
        HYP_TRY(hyp_lower_add_view(l, value->name, &value->type, *out_tensor, out_tensor));
    }
    l->values[v].tensor_plus1 = *out_tensor + 1;
    return HYP_OK;
}

hyp_status hyp_lower_write(hyp_lowering *l, hyp_value_id v, uint32_t *out_tensor)
{
    hyp_value_info *info = &l->values[v];
    const hyp_value *value = hyp_lower_value(l, v);
    if (info->output_plus1) {
        const hyp_named_value *output = &l->graph->outputs.data[info->output_plus1 - 1];
        HYP_TRY(hyp_lower_add_tensor(l, output->name, &hyp_lower_value(l, output->value)->type,
                                     HYP_PLAN__PLACE__PLACE_OUTPUT, out_tensor));
    } else {
        HYP_TRY(hyp_lower_add_tensor(l, value->name, &value->type, HYP_PLAN__PLACE__PLACE_SCRATCH, out_tensor));
    }
    info->tensor_plus1 = *out_tensor + 1;
    return HYP_OK;
}
