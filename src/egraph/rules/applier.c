/* applier.c - rules whose right side is a function of the caller's. Such a rule is
 *     (multi (?:matched = LEFT)) => (union ?:matched (NAME@N ?:matched ?x ?y ...))
 * with a function registered for it, so that it is searched, scheduled and recorded like any other. */
#include <string.h>

#include "base/sized.h"
#include "egraph/rules/reader.h"

typedef HYP_VEC(hyp_sexpr *) item_list;

static hyp_status make(hyp_rule_reader *p, hyp_sexpr_kind kind, const char *text, hyp_sexpr **out)
{
    hyp_sexpr *sx = *out = hyp_arena_zalloc(&p->scratch, 1, sizeof *sx);
    if (!sx) return hyp_fail_memory(p->diag, sizeof *sx);
    *sx = (hyp_sexpr){.kind = kind, .text = text, .line = 1, .column = 1};
    return HYP_OK;
}

static hyp_status push_symbol(hyp_rule_reader *p, item_list *to, const char *text)
{
    hyp_sexpr *sx;
    HYP_TRY(make(p, HYP_SX_SYMBOL, text, &sx));
    return hyp_vec_push(to, p->diag, sx);
}

/* A list of what was pushed, which is forgotten. */
static hyp_status make_list(hyp_rule_reader *p, item_list *from, hyp_sexpr **out)
{
    HYP_TRY(make(p, HYP_SX_LIST, NULL, out));
    (*out)->count = (uint32_t)from->len;
    (*out)->items = hyp_arena_alloc(&p->scratch, from->len * sizeof *from->data);
    if (!(*out)->items) return hyp_fail_memory(p->diag, from->len * sizeof *from->data);
    memcpy((*out)->items, from->data, from->len * sizeof *from->data);
    from->len = 0;
    return HYP_OK;
}

/* Adds the variables of a left side that are not there yet, in order of sight. */
static hyp_status push_variables(hyp_rule_reader *p, item_list *to, hyp_sexpr *sx)
{
    for (uint32_t i = 0; sx->kind == HYP_SX_LIST && i < sx->count; i++) HYP_TRY(push_variables(p, to, sx->items[i]));
    if (sx->kind != HYP_SX_SYMBOL || sx->text[0] != '?') return HYP_OK;
    for (size_t i = 0; i < to->len; i++)
        if (strcmp(to->data[i]->text, sx->text) == 0) return HYP_OK;
    return hyp_vec_push(to, p->diag, sx);
}

static hyp_status read_one(hyp_rule_reader *p, const char *what, const char *text, hyp_sexpr **out)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(&p->scratch, what, text, strlen(text), &forms, p->diag));
    if (forms->count != 1)
        return hyp_fail(p->diag, HYP_ERR_MALFORMED, "%s: one form was wanted, %u were found in: %s", what, forms->count,
                        text);
    *out = forms->items[0];
    return HYP_OK;
}

/* (multi (?:matched = LEFT)), or the left side itself if it is one. *out_root is its first root. */
static hyp_status make_left(hyp_rule_reader *p, item_list *items, hyp_sexpr *left, hyp_sexpr **out,
                            const char **out_root)
{
    hyp_sexpr *part = left->kind == HYP_SX_LIST && left->count > 1 ? left->items[1] : NULL;
    *out = left;
    *out_root = "?:matched";
    if (hyp_sexpr_is_form(left, "collect"))
        return hyp_rule_fail(p, left, "a rule that collects has a right side of text");
    if (hyp_sexpr_is_form(left, "multi")) {
        if (part && part->kind == HYP_SX_LIST && part->count && part->items[0]->kind == HYP_SX_SYMBOL)
            *out_root = part->items[0]->text; /* whatever else is wrong with it is told when it is read */
        return HYP_OK;
    }
    HYP_TRY(push_symbol(p, items, *out_root));
    HYP_TRY(push_symbol(p, items, "="));
    HYP_TRY(hyp_vec_push(items, p->diag, left));
    HYP_TRY(make_list(p, items, &part));
    HYP_TRY(push_symbol(p, items, "multi"));
    HYP_TRY(hyp_vec_push(items, p->diag, part));
    return make_list(p, items, out);
}

/* A name for the function that nothing else has, and that is one word, so that the rule's text reads back. */
static hyp_status name_function(hyp_rule_reader *p, const char *rule, const char **out)
{
    uint32_t id;
    for (size_t n = p->eg->callbacks.len;; n++) {
        char *name = hyp_arena_printf(&p->scratch, "%s@%zu", rule, n);
        if (!name) return hyp_fail_memory(p->diag, strlen(rule));
        for (char *at = name; *at; at++)
            if ((unsigned char)*at <= ' ' || *at == 0x7f || strchr("()\";?", *at)) *at = '_';
        *out = name;
        if (!hyp_intern_find(&p->eg->callback_names, *out, strlen(*out), &id)) return HYP_OK;
    }
}

static hyp_status add(hyp_rule_reader *p, item_list *items, const hyp_rule_source *given)
{
    hyp_sexpr *left, *condition = NULL, *call, *right;
    const char *root, *function;
    p->name = given->name;
    HYP_TRY(read_one(p, "left", given->left, &left));
    if (given->condition) HYP_TRY(read_one(p, "condition", given->condition, &condition));
    HYP_TRY(make_left(p, items, left, &left, &root));
    HYP_TRY(name_function(p, given->name, &function));
    HYP_TRY(hyp_egraph_register_function(p->eg, function, -1, given->apply, given->user, p->diag));
    HYP_TRY(push_variables(p, items, left));
    hyp_sexpr *head;
    HYP_TRY(make(p, HYP_SX_SYMBOL, function, &head));
    HYP_TRY(hyp_vec_push(items, p->diag, head));
    memmove(items->data + 1, items->data, (items->len - 1) * sizeof *items->data);
    items->data[0] = head;
    HYP_TRY(make_list(p, items, &call));
    HYP_TRY(push_symbol(p, items, "union"));
    HYP_TRY(push_symbol(p, items, root));
    HYP_TRY(hyp_vec_push(items, p->diag, call));
    HYP_TRY(make_list(p, items, &right));
    const hyp_sexpr *one = right;
    hyp_written_rule src = {.form = left,
                            .name = given->name,
                            .doc = given->doc,
                            .left = left,
                            .right = &one,
                            .right_count = 1,
                            .condition = condition};
    return hyp_rule_add(p, &src);
}

hyp_status hyp_ruleset_add(hyp_ruleset *rules, const hyp_rule_source *source, hyp_diag *diag)
{
    hyp_rule_source given = {.size = sizeof given};
    HYP_NEED(rules);
    HYP_NEED(source);
    HYP_TRY(hyp_sized_take(&given, source, hyp_rule_source, diag));
    HYP_NEED(given.name);
    HYP_NEED(given.left);
    HYP_NEED(given.apply);
    if (hyp_eg_in_use(rules->eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a rule was added inside a callback of its e-graph");
    if (!*given.name || hyp_text_prefix(given.name, strlen(given.name)) < strlen(given.name))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a rule has a name, which is UTF-8");
    hyp_rule_reader p = {.eg = rules->eg, .rules = rules, .file = "rule", .diag = diag};
    item_list items = {0};
    hyp_status status = add(&p, &items, &given);
    hyp_vec_free(&items);
    hyp_rule_reader_dispose(&p);
    return status;
}
