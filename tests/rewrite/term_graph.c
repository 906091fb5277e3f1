#include "rewrite/term_graph.h"

#include <string.h>

#include "support/values.h"

uint64_t term_random_next(term_random *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t term_random_below(term_random *r, uint32_t n) { return (uint32_t)(term_random_next(r) >> 33) % n; }

static hyp_mood draw_mood(term_data data, term_random *random)
{
    static const hyp_mood counts[] = {[TERM_FINITE] = HYP_MOOD_TIES,
                                      [TERM_ROOM] = HYP_MOOD_POWERS,
                                      [TERM_WIDE] = HYP_MOOD_INFINITE,
                                      [TERM_NO_NAN] = HYP_MOOD_NAN,
                                      [TERM_ANY] = HYP_MOOD_COUNT};
    return hyp_test_mood(counts[data], term_random_next(random));
}

/* ---- building --------------------------------------------------------------------------------------- */

typedef struct builder {
    hyp_graph *g;
    const term_draw *draw;
    struct {
        const char *name;
        hyp_value_id first;
    } names[TERM_MAX_NAMES];
    uint32_t count;
    hyp_diag *diag;
} builder;

static hyp_status fail(builder *b, const hyp_sexpr *at, const char *what)
{
    return hyp_sexpr_fail(b->diag, "case", at, HYP_ERR_MALFORMED, "%s", what);
}

/* Puts the drawn sizes into a dim. */
static hyp_status fix(builder *b, hyp_dim *d)
{
    enum { MAX_SYMBOLS = 64 };
    hyp_dim replacement[MAX_SYMBOLS];
    size_t count = hyp_dims_symbol_count(b->g->dims);
    if (count > MAX_SYMBOLS) return hyp_fail(b->diag, HYP_ERR_LIMIT, "too many symbols");
    for (size_t i = 0; i < count; i++) {
        const char *name = hyp_dims_symbol_name(b->g->dims, i);
        HYP_TRY(hyp_dim_symbol(b->g->dims, name, &replacement[i], b->diag));
        for (uint32_t j = 0; j < b->draw->sizes->count; j++)
            if (strcmp(b->draw->sizes->names[j], name) == 0) replacement[i] = b->draw->sizes->values[j];
    }
    return hyp_dim_substitute(b->g->dims, *d, replacement, d, b->diag);
}

static hyp_status read_type(builder *b, const hyp_sexpr *form, uint32_t end, hyp_type *out)
{
    const char *name = form->items[2]->text;
    *out = (hyp_type){.dtype = strcmp(name, "F") == 0 ? b->draw->real : hyp_dtype_parse(name)};
    if (out->dtype == HYP_DTYPE_NONE) return fail(b, form->items[2], "an element type is wanted");
    for (uint32_t i = 3; i < end; i++) {
        if (out->rank == HYP_MAX_RANK) return fail(b, form->items[i], "too many axes");
        hyp_dim *d = &out->dims[out->rank++];
        HYP_TRY(hyp_dim_parse(b->g->dims, "case", form->items[i], d, b->diag));
        HYP_TRY(fix(b, d));
    }
    return HYP_OK;
}

static hyp_status bind(builder *b, const hyp_sexpr *name, hyp_value_id first)
{
    if (b->count == TERM_MAX_NAMES) return fail(b, name, "too many names");
    b->names[b->count].name = name->text;
    b->names[b->count++].first = first;
    return HYP_OK;
}

/* The last item of a constant is its value when it is written as a float. */
static hyp_status add_const(builder *b, const hyp_sexpr *form)
{
    const hyp_sexpr *last = form->items[form->count - 1];
    bool filled = last->kind == HYP_SX_FLOAT;
    hyp_type type;
    hyp_dim elements;
    hyp_value_id id;
    HYP_TRY(read_type(b, form, form->count - filled, &type));
    HYP_TRY(hyp_type_elements(b->g->dims, &type, &elements, b->diag));
    if (!hyp_dim_is_const(elements)) return fail(b, form, "a constant has no symbolic sizes: list them in `sizes`");
    size_t bytes = (size_t)elements * hyp_dtype_size(type.dtype);
    if (bytes > TERM_MAX_BYTES) return fail(b, form, "a constant of a test is to be small");
    void *data = hyp_calloc(1, bytes + 1);
    if (!data) return hyp_fail_memory(b->diag, bytes);
    hyp_mood mood = draw_mood(b->draw->data, b->draw->random);
    for (size_t i = 0; i < (size_t)elements; i++) {
        double v = filled ? last->number : hyp_test_value(type.dtype, mood, term_random_next(b->draw->random));
        hyp_store_f64(type.dtype, data, i, v);
    }
    hyp_status status = hyp_graph_add_const(b->g, form->items[1]->text, &type, data, bytes, true, &id, b->diag);
    hyp_free(data);
    return status == HYP_OK ? bind(b, form->items[1], id) : status;
}

static hyp_status add_input(builder *b, const hyp_sexpr *form)
{
    hyp_type type;
    hyp_value_id id;
    HYP_TRY(read_type(b, form, form->count, &type));
    HYP_TRY(hyp_graph_add_input(b->g, form->items[1]->text, &type, &id, b->diag));
    return bind(b, form->items[1], id);
}

static hyp_status add_term(builder *b, const hyp_sexpr *sx, hyp_value_id *out);

static hyp_status read_attr(builder *b, hyp_attr_kind kind, const hyp_sexpr *sx, hyp_attr *out)
{
    HYP_TRY(hyp_attr_parse(&b->g->arena, b->g->dims, "case", sx, kind, out, b->diag));
    if (kind == HYP_ATTR_SYM && strcmp(out->sym, "F") == 0) out->sym = hyp_dtype_name(b->draw->real);
    if (kind != HYP_ATTR_DIMS) return HYP_OK;
    hyp_dim *list = hyp_arena_zalloc(&b->g->arena, out->count, sizeof *list);
    if (!list) return hyp_fail_memory(b->diag, out->count * sizeof *list);
    for (uint32_t i = 0; i < out->count; i++) {
        list[i] = out->dims[i];
        HYP_TRY(fix(b, &list[i]));
    }
    out->dims = list;
    return HYP_OK;
}

static hyp_status find_op(builder *b, const hyp_sexpr *head, hyp_op *out, hyp_attr attrs[HYP_MAX_ATTRS])
{
    size_t count;
    const hyp_op_alias *aliases = hyp_op_aliases(&count), *alias = NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(aliases[i].name, head->text) == 0) alias = &aliases[i];
    if (alias)
        *out = alias->op;
    else if (!hyp_op_find(head->text, out))
        return fail(b, head, "no such operator");
    const hyp_op_info *info = hyp_op_get(*out);
    for (uint32_t i = 0; i < info->attr_count; i++)
        if (!info->attrs[i].required) attrs[i] = hyp_attr_default(&info->attrs[i]);
    if (alias) attrs[alias->attr] = (hyp_attr){.kind = HYP_ATTR_SYM, .sym = alias->value};
    return HYP_OK;
}

static hyp_status add_op(builder *b, const hyp_sexpr *sx, hyp_value_id *out)
{
    enum { MAX_INPUTS = 256 };
    hyp_op op;
    hyp_attr attrs[HYP_MAX_ATTRS] = {{0}};
    hyp_value_id inputs[MAX_INPUTS], outs[16];
    uint32_t count = 0, outputs = 1;
    HYP_TRY(find_op(b, sx->items[0], &op, attrs));
    for (uint32_t i = 1; i < sx->count; i++) {
        const hyp_sexpr *item = sx->items[i];
        uint32_t which;
        if (item->kind != HYP_SX_SYMBOL || item->text[0] != ':') {
            if (count == MAX_INPUTS) return fail(b, item, "too many inputs");
            HYP_TRY(add_term(b, item, &inputs[count++]));
            continue;
        }
        if (!hyp_op_find_attr(op, item->text + 1, &which) || i + 1 == sx->count)
            return fail(b, item, "no such attribute");
        HYP_TRY(read_attr(b, hyp_op_get(op)->attrs[which].kind, sx->items[++i], &attrs[which]));
    }
    if (hyp_op_get(op)->outputs != HYP_VARIADIC) outputs = hyp_op_get(op)->outputs;
    if (op == HYP_OP_split) outputs = attrs[1].count;
    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "%s_%zu", hyp_op_get(op)->name, b->g->nodes.len);
    const char *source = hyp_strbuf_text(&sb);
    hyp_provenance from = {.sources = &source, .source_count = 1};
    hyp_status status = outputs <= 16
                            ? hyp_graph_add_node(b->g, op, inputs, count, attrs, &from, outs, outputs, b->diag)
                            : fail(b, sx, "too many outputs");
    hyp_strbuf_dispose(&sb);
    *out = outs[0];
    return status;
}

/* A name, none, (get :index i term) or an operator. */
static hyp_status add_term(builder *b, const hyp_sexpr *sx, hyp_value_id *out)
{
    if (sx->kind == HYP_SX_SYMBOL) {
        *out = HYP_NO_VALUE;
        if (strcmp(sx->text, "none") == 0) return HYP_OK;
        for (uint32_t i = b->count; i-- > 0;)
            if (strcmp(b->names[i].name, sx->text) == 0) {
                *out = b->names[i].first;
                return HYP_OK;
            }
        return fail(b, sx, "no value has this name");
    }
    if (sx->kind != HYP_SX_LIST || sx->count == 0) return fail(b, sx, "a term is wanted");
    if (!hyp_sexpr_is_form(sx, "get")) return add_op(b, sx, out);
    if (sx->count != 4) return fail(b, sx, "(get :index i term) is wanted");
    HYP_TRY(add_term(b, sx->items[3], out));
    *out += (hyp_value_id)sx->items[2]->integer; /* the outputs of a node follow each other */
    return HYP_OK;
}

static hyp_status add_form(builder *b, const hyp_sexpr *form)
{
    hyp_value_id id;
    if (hyp_sexpr_is_form(form, "input")) return add_input(b, form);
    if (hyp_sexpr_is_form(form, "const")) return add_const(b, form);
    if (hyp_sexpr_is_form(form, "let")) {
        HYP_TRY(add_term(b, form->items[2], &id));
        return bind(b, form->items[1], id);
    }
    if (!hyp_sexpr_is_form(form, "out")) return fail(b, form, "input, const, let or out is wanted");
    HYP_TRY(add_term(b, form->items[1], &id));
    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "y%zu", b->g->outputs.len);
    hyp_status status = hyp_graph_add_output(b->g, hyp_strbuf_text(&sb), id, b->diag);
    hyp_strbuf_dispose(&sb);
    return status;
}

hyp_status term_graph_build(hyp_graph *g, const hyp_sexpr *forms, uint32_t first, const term_draw *draw, hyp_diag *diag)
{
    builder b = {.g = g, .draw = draw, .diag = diag};
    for (uint32_t i = first; i < forms->count; i++) HYP_TRY(add_form(&b, forms->items[i]));
    return HYP_OK;
}

hyp_status term_graph_parse(hyp_graph *g, const char *text, hyp_diag *diag)
{
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    term_random random = {1};
    const term_sizes none = {{0}, {0}, 0};
    const term_draw draw = {&none, HYP_F32, TERM_FINITE, &random};
    hyp_status status = hyp_sexpr_parse(&arena, "case", text, strlen(text), &forms, diag);
    if (status == HYP_OK) status = term_graph_build(g, forms, 0, &draw, diag);
    hyp_arena_dispose(&arena);
    return status;
}

/* ---- data ------------------------------------------------------------------------------------------- */

hyp_status term_inputs(const hyp_graph *g, term_data data, term_random *random, hyp_eval_tensor *inputs, hyp_diag *diag)
{
    enum { MAX_SYMBOLS = 64 };
    int64_t symbols[MAX_SYMBOLS];
    for (size_t i = 0; i < MAX_SYMBOLS; i++) symbols[i] = term_random_below(random, 5);
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_type *type = &g->values.data[g->inputs.data[i]].type;
        hyp_mood mood = draw_mood(data, random);
        int64_t dims[HYP_MAX_RANK];
        for (int32_t k = 0; k < type->rank; k++) HYP_TRY(hyp_dim_eval(g->dims, type->dims[k], symbols, &dims[k], diag));
        HYP_TRY(hyp_eval_tensor_alloc(&inputs[i], type->dtype, type->rank, dims, diag));
        for (size_t k = 0; k < inputs[i].count; k++) {
            double v = hyp_test_value(type->dtype, mood, term_random_next(random));
            if (inputs[i].f)
                inputs[i].f[k] = v;
            else
                inputs[i].i[k] = (int64_t)v;
        }
    }
    return HYP_OK;
}
