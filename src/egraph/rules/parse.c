/* Reading rules: s-expressions, or lines of tab-separated columns. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sexpr.h"
#include "egraph/rules/language.h"
#include "egraph/rules/rule.h"

typedef struct variable {
    const char *name;
    uint32_t reg;
    hyp_pat seq; /* of a sequence variable: what it becomes where it is used; kind VAR otherwise */
} variable;

typedef struct parser {
    hyp_egraph *eg;
    hyp_ruleset *rules;
    const char *file;
    hyp_desugar_fn desugar;
    void *user;
    hyp_arena scratch; /* the text as read */
    hyp_diag *diag;
    /* Of the rule being read. */
    const char *name;
    hyp_rule *rule;
    HYP_VEC(variable) vars;
} parser;

/* The parts of a rule as written. */
typedef struct source {
    const hyp_sexpr *form; /* the whole, for its place */
    const char *name, *numeric_class, *ruleset, *doc;
    const hyp_sexpr *left;
    const hyp_sexpr *const *right; /* one term, or several (union A B) */
    uint32_t right_count;
    const hyp_sexpr *condition; /* NULL = none */
} source;

static hyp_status fail(parser *p, const hyp_sexpr *at, const char *fmt, ...) HYP_PRINTF(3, 4);
static hyp_status fail(parser *p, const hyp_sexpr *at, const char *fmt, ...)
{
    char text[HYP_DIAG_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!p->name) return hyp_sexpr_fail(p->diag, p->file, at, HYP_ERR_MALFORMED, "%s", text);
    return hyp_sexpr_fail(p->diag, p->file, at, HYP_ERR_MALFORMED, "rule %s: %s", p->name, text);
}

static void *take(parser *p, size_t count, size_t size) { return hyp_arena_zalloc(&p->rules->arena, count, size); }

static bool is_variable(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == '?'; }

static bool is_sequence(const hyp_sexpr *sx)
{
    size_t len = is_variable(sx) ? strlen(sx->text) : 0;
    return len > 3 && strcmp(sx->text + len - 3, "...") == 0;
}

enum { MOST_VARIABLES = 1024 }; /* of a rule: they are looked for one after the other */

static variable *find_variable(parser *p, const char *name)
{
    for (size_t i = 0; i < p->vars.len; i++)
        if (strcmp(p->vars.data[i].name, name) == 0) return &p->vars.data[i];
    return NULL;
}

static hyp_status note_variables(parser *p, hyp_rule *rule)
{
    rule->variables = hyp_arena_zalloc(&p->rules->arena, p->vars.len, sizeof *rule->variables);
    if (!rule->variables) return hyp_fail_memory(p->diag, p->vars.len * sizeof *rule->variables);
    for (size_t i = 0; i < p->vars.len; i++) {
        if (p->vars.data[i].seq.kind == HYP_PAT_SEQ) continue;
        hyp_variable *v = &rule->variables[rule->variable_count++];
        *v = (hyp_variable){hyp_arena_strdup(&p->rules->arena, p->vars.data[i].name), p->vars.data[i].reg};
        if (!v->name) return hyp_fail_memory(p->diag, strlen(p->vars.data[i].name));
    }
    return HYP_OK;
}

static bool has_sequence(const parser *p)
{
    for (size_t i = 0; i < p->vars.len; i++)
        if (p->vars.data[i].seq.kind == HYP_PAT_SEQ) return true;
    return false;
}

static hyp_status add_variable(parser *p, const hyp_sexpr *sx, variable **out)
{
    if (sx->text[1] == 0 || (is_sequence(sx) && strlen(sx->text) == 4))
        return fail(p, sx, "a variable has a name after its '?'");
    if (p->vars.len == MOST_VARIABLES) return fail(p, sx, "a rule has up to %d variables", MOST_VARIABLES);
    HYP_TRY(hyp_vec_grow(&p->vars, p->diag));
    variable *v = *out = &p->vars.data[p->vars.len - 1];
    *v = (variable){.name = sx->text, .reg = HYP_NONE};
    return HYP_OK;
}

static hyp_status desugar(parser *p, const hyp_sexpr *in, bool is_left, const hyp_sexpr **out)
{
    *out = in;
    if (!p->desugar) return HYP_OK;
    hyp_status status = p->desugar(p->user, &p->scratch, p->file, in, is_left, out, p->diag);
    if (status != HYP_OK) hyp_diag_prefix(p->diag, "rule %s", p->name);
    return status;
}

/* ---- terms -------------------------------------------------------------------------------------- */

/* Reads the operator of an e-node and makes room for its children. */
static hyp_status begin_node(parser *p, const hyp_sexpr *sx, hyp_pat *out)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST || is_variable(head))
        return fail(p, sx, "a term in parentheses begins with an operator");
    out->kind = HYP_PAT_NODE;
    out->seq = out->op = HYP_NONE;
    out->count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    out->kids = take(p, out->count, sizeof *out->kids);
    if (!out->kids) return hyp_fail_memory(p->diag, out->count * sizeof *out->kids);
    return hyp_intern_add(&p->eg->symbols, head->text, strlen(head->text), &out->symbol, p->diag);
}

static hyp_status end_node(parser *p, hyp_pat *node)
{
    return node->seq == HYP_NONE ? hyp_eg_op(p->eg, node->symbol, node->count, &node->op, p->diag) : HYP_OK;
}

/* The callback that a term calls, or NULL. */
static const hyp_callback *called(parser *p, const hyp_sexpr *sx, uint32_t *out_id)
{
    if (sx->kind != HYP_SX_LIST || sx->count == 0 || sx->items[0]->kind != HYP_SX_SYMBOL) return NULL;
    const char *name = sx->items[0]->text;
    return hyp_intern_find(&p->eg->callback_names, name, strlen(name), out_id) ? &p->eg->callbacks.data[*out_id] : NULL;
}

/* Reads a left-side term whose class is in register `reg`, or in one of its own if that is HYP_NONE. */
static hyp_status read_left(parser *p, const hyp_sexpr *sx, uint32_t reg, hyp_pat *out)
{
    if (is_variable(sx)) {
        variable *v = find_variable(p, sx->text);
        if (is_sequence(sx)) return fail(p, sx, "%s may stand only among the children of an e-node", sx->text);
        if (!v) HYP_TRY(add_variable(p, sx, &v));
        if (v->reg == HYP_NONE) v->reg = p->rule->reg_count++;
        *out = (hyp_pat){.kind = HYP_PAT_VAR, .reg = v->reg};
        return HYP_OK;
    }
    uint32_t id;
    if (called(p, sx, &id))
        return fail(p, sx, "'%s' is a registered function or condition and cannot be matched", sx->items[0]->text);
    HYP_TRY(begin_node(p, sx, out));
    out->reg = reg == HYP_NONE ? p->rule->reg_count++ : reg;
    out->index = p->rule->left_nodes++;
    out->ground = true;
    for (uint32_t j = 0; j < out->count; j++) {
        const hyp_sexpr *kid = sx->items[j + 1];
        if (!is_sequence(kid)) {
            HYP_TRY(read_left(p, kid, HYP_NONE, &out->kids[j]));
            out->ground = out->ground && out->kids[j].kind == HYP_PAT_NODE && out->kids[j].ground;
            continue;
        }
        if (out->seq != HYP_NONE) return fail(p, kid, "an e-node has at most one sequence variable");
        if (find_variable(p, kid->text))
            return fail(p, kid, "%s is bound twice; a sequence cannot be compared", kid->text);
        variable *v;
        HYP_TRY(add_variable(p, kid, &v));
        out->seq = j;
        out->seq_tail = out->count - j - 1;
        out->ground = false;
        v->seq = out->kids[j] =
            (hyp_pat){.kind = HYP_PAT_SEQ, .index = out->index, .seq = out->seq, .seq_tail = out->seq_tail};
    }
    return end_node(p, out);
}

static hyp_status check_arity(parser *p, const hyp_sexpr *sx, const hyp_callback *cb, bool has_seq)
{
    int count = (int)sx->count - 1;
    if (cb->arity < 0 || has_seq || cb->arity == count) return HYP_OK;
    return fail(p, sx, "'%s' takes %d arguments, not %d", sx->items[0]->text, cb->arity, count);
}

/* Reads a term of the right side, or one of a condition (`in_condition`), over bound variables. */
static hyp_status read_right(parser *p, const hyp_sexpr *sx, bool in_condition, hyp_pat *out)
{
    if (is_variable(sx)) {
        const variable *v = find_variable(p, sx->text);
        if (!v) return fail(p, sx, "%s is not bound by the left side", sx->text);
        if (is_sequence(sx))
            *out = v->seq;
        else
            *out = (hyp_pat){.kind = HYP_PAT_VAR, .reg = v->reg};
        return HYP_OK;
    }
    uint32_t id;
    const hyp_callback *cb = called(p, sx, &id);
    uint32_t index = in_condition && !cb ? HYP_NONE : p->rule->right_nodes++;
    if (cb && cb->is_condition) return fail(p, sx, "'%s' is a condition, not a function", sx->items[0]->text);
    HYP_TRY(begin_node(p, sx, out));
    out->index = index;
    bool has_seq = false;
    for (uint32_t j = 0; j < out->count; j++) {
        HYP_TRY(read_right(p, sx->items[j + 1], in_condition, &out->kids[j]));
        if (out->kids[j].kind != HYP_PAT_SEQ) continue;
        has_seq = true;
        if (out->seq == HYP_NONE) out->seq = j;
    }
    if (!cb) return end_node(p, out);
    out->kind = HYP_PAT_CALL;
    out->callback = id;
    if (!in_condition) p->rule->calls = true;
    return check_arity(p, sx, cb, has_seq);
}

/* A term that stands for one class. */
static hyp_status read_result(parser *p, const hyp_sexpr *sx, bool in_condition, hyp_pat *out)
{
    HYP_TRY(desugar(p, sx, false, &sx));
    if (is_sequence(sx)) return fail(p, sx, "%s stands for several children, one term was wanted", sx->text);
    return read_right(p, sx, in_condition, out);
}

/* ---- conditions --------------------------------------------------------------------------------- */

static hyp_status read_condition(parser *p, const hyp_sexpr *sx, hyp_cond *out)
{
    if (sx->kind != HYP_SX_LIST || sx->count == 0 || sx->items[0]->kind != HYP_SX_SYMBOL)
        return fail(p, sx, "a condition is (name argument...), (and ...), (or ...) or (not ...)");
    bool is_not = hyp_sexpr_is(sx->items[0], "not");
    out->count = sx->count - 1;
    if (is_not || hyp_sexpr_is(sx->items[0], "and") || hyp_sexpr_is(sx->items[0], "or")) {
        if (is_not && out->count != 1) return fail(p, sx, "'not' takes one condition, not %u", out->count);
        out->kind = is_not ? HYP_COND_NOT : hyp_sexpr_is(sx->items[0], "and") ? HYP_COND_AND : HYP_COND_OR;
        out->kids = take(p, out->count, sizeof *out->kids);
        if (!out->kids) return hyp_fail_memory(p->diag, out->count * sizeof *out->kids);
        for (uint32_t i = 0; i < out->count; i++) HYP_TRY(read_condition(p, sx->items[i + 1], &out->kids[i]));
        return HYP_OK;
    }
    const hyp_callback *cb = called(p, sx, &out->callback);
    if (!cb) return fail(p, sx, "unknown condition '%s'", sx->items[0]->text);
    if (!cb->is_condition) return fail(p, sx, "'%s' is a function, not a condition", sx->items[0]->text);
    out->kind = HYP_COND_CALL;
    out->index = p->rule->right_nodes++;
    out->args = take(p, out->count, sizeof *out->args);
    if (!out->args) return hyp_fail_memory(p->diag, out->count * sizeof *out->args);
    bool has_seq = false;
    for (uint32_t i = 0; i < out->count; i++) {
        const hyp_sexpr *arg;
        HYP_TRY(desugar(p, sx->items[i + 1], false, &arg));
        HYP_TRY(read_right(p, arg, true, &out->args[i]));
        has_seq = has_seq || out->args[i].kind == HYP_PAT_SEQ;
    }
    return check_arity(p, sx, cb, has_seq);
}

/* ---- rules -------------------------------------------------------------------------------------- */

/* (?a = P) of a multi-pattern. */
static hyp_status read_root(parser *p, const hyp_sexpr *sx, hyp_pat *out)
{
    if (sx->kind != HYP_SX_LIST || sx->count != 3 || !is_variable(sx->items[0]) || is_sequence(sx->items[0]) ||
        !hyp_sexpr_is(sx->items[1], "="))
        return fail(p, sx, "a part of a multi-pattern is (?variable = term)");
    variable *v = find_variable(p, sx->items[0]->text);
    if (!v) HYP_TRY(add_variable(p, sx->items[0], &v));
    if (v->reg == HYP_NONE) v->reg = p->rule->reg_count++;
    uint32_t reg = v->reg;
    const hyp_sexpr *term;
    HYP_TRY(desugar(p, sx->items[2], true, &term));
    if (is_variable(term)) return fail(p, term, "a variable alone matches everything; name an operator");
    return read_left(p, term, reg, out);
}

static hyp_status read_left_side(parser *p, const hyp_sexpr *sx)
{
    hyp_rule *rule = p->rule;
    rule->multi = hyp_sexpr_is_form(sx, "multi");
    rule->left_count = rule->multi ? sx->count - 1 : 1;
    if (rule->left_count == 0) return fail(p, sx, "a multi-pattern has at least one part (?variable = term)");
    rule->left = take(p, rule->left_count, sizeof *rule->left);
    if (!rule->left) return hyp_fail_memory(p->diag, rule->left_count * sizeof *rule->left);
    if (rule->multi) {
        for (uint32_t i = 0; i < rule->left_count; i++) HYP_TRY(read_root(p, sx->items[i + 1], &rule->left[i]));
        return HYP_OK;
    }
    HYP_TRY(desugar(p, sx, true, &sx));
    if (is_variable(sx)) return fail(p, sx, "a variable alone matches everything; name an operator");
    return read_left(p, sx, HYP_NONE, &rule->left[0]);
}

static hyp_status read_union(parser *p, const hyp_sexpr *sx, hyp_action *out)
{
    if (!hyp_sexpr_is_form(sx, "union") || sx->count != 3)
        return fail(p, sx, "the right side of a multi-pattern is made of (union term term)");
    HYP_TRY(read_result(p, sx->items[1], false, &out->left));
    HYP_TRY(read_result(p, sx->items[2], false, &out->right));
    if (out->left.kind == HYP_PAT_VAR)
        for (uint32_t i = 0; i < p->rule->left_count && !out->root; i++)
            if (p->rule->left[i].reg == out->left.reg) out->root = &p->rule->left[i];
    return HYP_OK;
}

static hyp_status copy_text(parser *p, const char *text, const char **out)
{
    *out = hyp_arena_strdup(&p->rules->arena, text ? text : "");
    return *out ? HYP_OK : hyp_fail_memory(p->diag, strlen(text));
}

static hyp_status write_info(parser *p, const source *src, hyp_rule_info *out)
{
    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "(rule %s", src->name);
    if (src->numeric_class) hyp_strbuf_printf(&sb, " :class %s", src->numeric_class);
    if (src->ruleset) hyp_strbuf_printf(&sb, " :ruleset %s", src->ruleset);
    if (src->doc) {
        hyp_strbuf_puts(&sb, " :doc ");
        hyp_strbuf_quote(&sb, src->doc);
    }
    hyp_strbuf_puts(&sb, " ");
    hyp_sexpr_print(&sb, src->left);
    hyp_strbuf_puts(&sb, " =>");
    for (uint32_t i = 0; i < src->right_count; i++) {
        hyp_strbuf_puts(&sb, " ");
        hyp_sexpr_print(&sb, src->right[i]);
    }
    if (src->condition) {
        hyp_strbuf_puts(&sb, " :if ");
        hyp_sexpr_print(&sb, src->condition);
    }
    hyp_strbuf_puts(&sb, ")");
    hyp_status status = sb.failed ? hyp_fail_memory(p->diag, sb.len) : copy_text(p, sb.data, &out->text);
    hyp_strbuf_dispose(&sb);
    HYP_TRY(status);
    HYP_TRY(copy_text(p, src->name, &out->name));
    HYP_TRY(copy_text(p, src->numeric_class, &out->numeric_class));
    HYP_TRY(copy_text(p, src->ruleset, &out->ruleset));
    return copy_text(p, src->doc, &out->doc);
}

static hyp_status add_rule(parser *p, const source *src)
{
    p->name = src->name;
    uint32_t id;
    if (hyp_intern_find(&p->rules->names, src->name, strlen(src->name), &id))
        return fail(p, src->form, "there is a rule of this name already");
    HYP_TRY(hyp_intern_add(&p->rules->names, src->name, strlen(src->name), &id, p->diag));
    HYP_TRY(hyp_vec_grow(&p->rules->rules, p->diag));
    hyp_rule *rule = p->rule = &p->rules->rules.data[p->rules->rules.len - 1];
    *rule = (hyp_rule){.enabled = true};
    p->vars.len = 0;
    HYP_TRY(write_info(p, src, &rule->info));

    HYP_TRY(read_left_side(p, src->left));
    HYP_TRY(note_variables(p, rule));
    if (src->right_count == 0 || (!rule->multi && src->right_count > 1))
        return fail(p, src->form, "a rule has one right side, this one has %u", src->right_count);
    rule->action_count = src->right_count;
    rule->actions = take(p, rule->action_count, sizeof *rule->actions);
    if (!rule->actions) return hyp_fail_memory(p->diag, rule->action_count * sizeof *rule->actions);
    if (!rule->multi) {
        rule->actions[0].root = &rule->left[0];
        HYP_TRY(read_result(p, src->right[0], false, &rule->actions[0].right));
    } else {
        for (uint32_t i = 0; i < src->right_count; i++) HYP_TRY(read_union(p, src->right[i], &rule->actions[i]));
    }
    if (src->condition) {
        rule->cond = take(p, 1, sizeof *rule->cond);
        if (!rule->cond) return hyp_fail_memory(p->diag, sizeof *rule->cond);
        HYP_TRY(read_condition(p, src->condition, rule->cond));
    }
    rule->match_rows = p->eg->explain || has_sequence(p) ? rule->left_nodes : 0;
    return hyp_rule_compile(p->rules->eg, &p->rules->arena, rule, p->diag);
}

/* Reads `:keyword value` at form->items[*i]. */
static hyp_status read_option(parser *p, const hyp_sexpr *form, uint32_t *i, source *src)
{
    const hyp_sexpr *key = form->items[*i], *value = *i + 1 < form->count ? form->items[*i + 1] : NULL;
    if (!value) return fail(p, key, "%s wants a value", key->text);
    *i += 2;
    if (hyp_sexpr_is(key, ":if")) {
        src->condition = value;
        return HYP_OK;
    }
    const char **slot = hyp_sexpr_is(key, ":class")     ? &src->numeric_class
                        : hyp_sexpr_is(key, ":ruleset") ? &src->ruleset
                        : hyp_sexpr_is(key, ":doc")     ? &src->doc
                                                        : NULL;
    if (!slot) return fail(p, key, "unknown option %s; known are :class :ruleset :doc :if", key->text);
    if (value->kind == HYP_SX_LIST) return fail(p, value, "%s wants a word or a string", key->text);
    *slot = value->text;
    return HYP_OK;
}

static bool is_option(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == ':'; }

static hyp_status read_rule(parser *p, const hyp_sexpr *form)
{
    bool both = hyp_sexpr_is_form(form, "birule");
    p->name = NULL;
    if (!both && !hyp_sexpr_is_form(form, "rule"))
        return fail(p, form, "a rule is (rule name left => right) or (birule name left <=> right)");
    if (form->count < 2 || form->items[1]->kind == HYP_SX_LIST) return fail(p, form, "a rule has a name");
    source src = {.form = form, .name = form->items[1]->text};
    p->name = src.name;
    const char *arrow = both ? "<=>" : "=>";
    uint32_t i = 2, right;
    while (i < form->count && is_option(form->items[i])) HYP_TRY(read_option(p, form, &i, &src));
    if (i + 2 >= form->count || !hyp_sexpr_is(form->items[i + 1], arrow))
        return fail(p, form, "after the name and the options come: left %s right", arrow);
    src.left = form->items[i];
    right = i += 2;
    while (i < form->count && !is_option(form->items[i])) i++;
    src.right = (const hyp_sexpr *const *)&form->items[right];
    src.right_count = i - right;
    while (i < form->count) {
        if (!is_option(form->items[i])) return fail(p, form->items[i], "nothing but options may follow the right side");
        HYP_TRY(read_option(p, form, &i, &src));
    }
    HYP_TRY(add_rule(p, &src));
    if (!both) return HYP_OK;
    if (src.right_count != 1) return fail(p, form, "each side of <=> is one term");
    source reversed = src;
    reversed.name = hyp_arena_printf(&p->scratch, "%s-rev", src.name);
    if (!reversed.name) return hyp_fail_memory(p->diag, strlen(src.name));
    reversed.left = src.right[0];
    reversed.right = &src.left;
    return add_rule(p, &reversed);
}

/* A short text must not become a huge one. */
enum { MAX_WORDS = 64, MAX_SUBSTITUTED = 1024 };

/* A copy of a form with `word` put wherever `mark` is written, inside longer symbols and strings, too. */
static hyp_status substitute(parser *p, const hyp_sexpr *in, const char *mark, const char *word, hyp_sexpr **out)
{
    hyp_sexpr *copy = *out = hyp_arena_alloc(&p->scratch, sizeof *copy);
    if (!copy) return hyp_fail_memory(p->diag, sizeof *copy);
    *copy = *in;
    if (in->kind == HYP_SX_LIST) {
        copy->items = hyp_arena_alloc(&p->scratch, in->count * sizeof *copy->items);
        if (!copy->items) return hyp_fail_memory(p->diag, in->count * sizeof *copy->items);
        for (uint32_t i = 0; i < in->count; i++) HYP_TRY(substitute(p, in->items[i], mark, word, &copy->items[i]));
        return HYP_OK;
    }
    hyp_strbuf sb = {0};
    const char *at = in->text, *next;
    while (sb.len <= MAX_SUBSTITUTED && (next = strstr(at, mark)) != NULL) {
        hyp_strbuf_add(&sb, at, (size_t)(next - at));
        hyp_strbuf_puts(&sb, word);
        at = next + strlen(mark);
    }
    hyp_status status = HYP_OK;
    if (at != in->text) {
        hyp_strbuf_puts(&sb, at);
        if (sb.len > MAX_SUBSTITUTED) {
            hyp_strbuf_dispose(&sb);
            return fail(p, in, "with %s put in, this has more than %d bytes", mark, MAX_SUBSTITUTED);
        }
        copy->text = sb.failed ? NULL : hyp_arena_strdup(&p->scratch, sb.data);
        if (!copy->text) status = hyp_fail_memory(p->diag, sb.len);
    }
    hyp_strbuf_dispose(&sb);
    return status;
}

/* (for-each MARK (WORD...) RULE...): every rule once for each word. */
static hyp_status read_each(parser *p, const hyp_sexpr *form)
{
    p->name = NULL;
    const hyp_sexpr *mark = form->count > 1 ? form->items[1] : NULL, *words = form->count > 2 ? form->items[2] : NULL;
    if (!words || mark->kind != HYP_SX_SYMBOL || mark->text[0] != '<' || words->kind != HYP_SX_LIST)
        return fail(p, form, "after for-each come: a mark such as <op>, a list of words, rules");
    if (words->count > MAX_WORDS) return fail(p, words, "for-each takes up to %d words, not %u", MAX_WORDS, words->count);
    for (uint32_t w = 0; w < words->count; w++) {
        if (words->items[w]->kind == HYP_SX_LIST) return fail(p, words->items[w], "a word is wanted, not a list");
        for (uint32_t i = 3; i < form->count; i++) {
            hyp_sexpr *rule;
            HYP_TRY(substitute(p, form->items[i], mark->text, words->items[w]->text, &rule));
            HYP_TRY(read_rule(p, rule));
        }
    }
    return HYP_OK;
}

static hyp_status read_forms(parser *p, const char *text, size_t len)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(&p->scratch, p->file, text, len, &forms, p->diag));
    for (uint32_t i = 0; i < forms->count; i++)
        HYP_TRY(hyp_sexpr_is_form(forms->items[i], "for-each") ? read_each(p, forms->items[i])
                                                               : read_rule(p, forms->items[i]));
    return HYP_OK;
}

/* ---- tab-separated lines ------------------------------------------------------------------------ */

/* Moves what was read from a column to its place in the file. */
static void shift(hyp_sexpr *sx, uint32_t line, uint32_t column)
{
    sx->line = line;
    sx->column += column - 1;
    for (uint32_t i = 0; sx->kind == HYP_SX_LIST && i < sx->count; i++) shift(sx->items[i], line, column);
}

/* Reads a broken column again with what is before it in the file as white space, for the message. */
static hyp_status tell_place(parser *p, const char *text, size_t len, uint32_t line, uint32_t column)
{
    const hyp_sexpr *forms;
    size_t before = (size_t)line - 1 + column - 1;
    char *padded = hyp_arena_alloc(&p->scratch, before + len);
    if (!padded) return hyp_fail_memory(p->diag, before + len);
    memset(padded, '\n', line - 1);
    memset(padded + line - 1, ' ', column - 1);
    memcpy(padded + before, text, len);
    return hyp_sexpr_parse(&p->scratch, p->file, padded, before + len, &forms, p->diag);
}

/* One column as a term; *out is NULL where it is empty. */
static hyp_status read_column(parser *p, const char *text, size_t len, uint32_t line, uint32_t column, hyp_sexpr **out)
{
    const hyp_sexpr *forms;
    *out = NULL;
    hyp_status status = hyp_sexpr_parse(&p->scratch, p->file, text, len, &forms, p->diag);
    if (status == HYP_ERR_MALFORMED) return tell_place(p, text, len, line, column);
    if (status != HYP_OK || forms->count == 0) return status;
    *out = forms->items[0];
    shift(*out, line, column);
    return forms->count == 1 ? HYP_OK : fail(p, *out, "a column holds one term, this one %u", forms->count);
}

static hyp_status read_line(parser *p, const char *line, size_t len, uint32_t number)
{
    enum { NAME, LEFT, RIGHT, CONDITION, COLUMNS };
    hyp_sexpr place = {.line = number, .column = 1}, *columns[COLUMNS] = {NULL};
    const char *end = line + len, *at = line;
    p->name = NULL;
    for (int i = 0; i < COLUMNS && at <= end; i++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at)), *stop = tab && i + 1 < COLUMNS ? tab : end;
        if (i == NAME) {
            place.column = (uint32_t)hyp_text_prefix(at, (size_t)(stop - at)) + 1;
            if (at + place.column <= stop) return fail(p, &place, "this is not UTF-8");
            place.column = 1;
            p->name = hyp_arena_strndup(&p->scratch, at, (size_t)(stop - at));
            if (!p->name) return hyp_fail_memory(p->diag, (size_t)(stop - at));
        } else {
            HYP_TRY(read_column(p, at, (size_t)(stop - at), number, (uint32_t)(at - line) + 1, &columns[i]));
        }
        at = stop + 1;
    }
    if (!*p->name || !columns[LEFT] || !columns[RIGHT])
        return fail(p, &place, "a line is: name <tab> left <tab> right, and maybe <tab> condition");
    source src = {.form = &place,
                  .name = p->name,
                  .left = columns[LEFT],
                  .right = (const hyp_sexpr *const *)&columns[RIGHT],
                  .right_count = 1,
                  .condition = columns[CONDITION]};
    return add_rule(p, &src);
}

static hyp_status read_lines(parser *p, const char *text, size_t len)
{
    const char *end = text + len;
    for (uint32_t number = 1; text < end; number++) {
        const char *eol = memchr(text, '\n', (size_t)(end - text)), *stop = eol ? eol : end;
        size_t n = (size_t)(stop - text);
        if (n && text[n - 1] == '\r') n--;
        if (n && text[0] != '#' && text[0] != ';') HYP_TRY(read_line(p, text, n, number));
        text = stop + 1;
    }
    return HYP_OK;
}

/* Whether the first line that is not empty or a comment holds a tab after a name. */
static bool is_tabular(const char *text, size_t len)
{
    const char *end = text + len;
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text)), *stop = eol ? eol : end;
        if (stop > text && *text != '#' && *text != ';' && *text != '\r')
            return *text != '(' && *text != ' ' && *text != '\t' && memchr(text, '\t', (size_t)(stop - text));
        text = stop + 1;
    }
    return false;
}

/* ---- rulesets ----------------------------------------------------------------------------------- */

void hyp_ruleset_free(hyp_ruleset *rules)
{
    for (size_t i = 0; i < rules->rules.len; i++) hyp_vec_free(&rules->rules.data[i].declined);
    hyp_vec_free(&rules->rules);
    hyp_intern_dispose(&rules->names);
    hyp_arena_dispose(&rules->arena);
    hyp_free(rules);
}

hyp_status hyp_ruleset_extend_with(hyp_ruleset *rules, const char *file, const char *text, size_t len,
                                   hyp_desugar_fn desugar_fn, void *user, hyp_diag *diag)
{
    parser p = {.eg = rules->eg, .rules = rules, .file = file, .desugar = desugar_fn, .user = user, .diag = diag};
    hyp_status status = is_tabular(text, len) ? read_lines(&p, text, len) : read_forms(&p, text, len);
    hyp_vec_free(&p.vars);
    hyp_arena_dispose(&p.scratch);
    return status;
}

hyp_status hyp_ruleset_parse_with(hyp_egraph *eg, const char *file, const char *text, size_t len,
                                  hyp_desugar_fn desugar_fn, void *user, hyp_ruleset **out, hyp_diag *diag)
{
    hyp_ruleset *rules = hyp_calloc(1, sizeof *rules);
    if (!rules) return hyp_fail_memory(diag, sizeof *rules);
    rules->eg = eg;
    rules->index = eg->ruleset_count;
    hyp_status status = hyp_ruleset_extend_with(rules, file, text, len, desugar_fn, user, diag);
    if (status != HYP_OK) {
        hyp_ruleset_free(rules);
        return status;
    }
    rules->next = eg->rulesets;
    eg->rulesets = rules;
    eg->ruleset_count++;
    *out = rules;
    return HYP_OK;
}

hyp_status hyp_ruleset_parse(hyp_egraph *eg, const char *file, const char *text, size_t len, hyp_ruleset **out,
                             hyp_diag *diag)
{
    return hyp_ruleset_parse_with(eg, file, text, len, NULL, NULL, out, diag);
}

void hyp_ruleset_destroy(hyp_ruleset *rules)
{
    if (!rules) return;
    if (rules->eg->explain) return; /* proofs still name its rules: it goes with the e-graph */
    hyp_ruleset **link = &rules->eg->rulesets;
    while (*link != rules) link = &(*link)->next;
    *link = rules->next;
    hyp_ruleset_free(rules);
}

size_t hyp_ruleset_count(const hyp_ruleset *rules) { return rules->rules.len; }
hyp_rule_info hyp_ruleset_rule(const hyp_ruleset *rules, size_t i) { return rules->rules.data[i].info; }
void hyp_ruleset_backoff(hyp_ruleset *rules, size_t i, size_t match_limit, size_t ban_length)
{
    if (i >= rules->rules.len) return;
    rules->rules.data[i].own_match_limit = match_limit;
    rules->rules.data[i].own_ban_length = ban_length;
}

void hyp_ruleset_guard(hyp_ruleset *rules, hyp_may_unite_fn fn, void *user)
{
    rules->may_unite = fn;
    rules->may_unite_user = user;
}

void hyp_ruleset_enable(hyp_ruleset *rules, size_t i, bool enabled) { rules->rules.data[i].enabled = enabled; }
