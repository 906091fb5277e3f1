/* pattern.c - makes a rule of its parts as written: terms become patterns over registers. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "egraph/rules/reader.h"

hyp_status hyp_rule_fail(hyp_rule_reader *p, const hyp_sexpr *at, const char *fmt, ...)
{
    char text[HYP_DIAG_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!p->name) return hyp_sexpr_fail(p->diag, p->file, at, HYP_ERR_MALFORMED, "%s", text);
    return hyp_sexpr_fail(p->diag, p->file, at, HYP_ERR_MALFORMED, "rule %s: %s", p->name, text);
}

static void *take(hyp_rule_reader *p, size_t count, size_t size)
{
    return hyp_arena_zalloc(&p->rules->arena, count, size);
}

static bool is_variable(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == '?'; }

static bool is_sequence(const hyp_sexpr *sx)
{
    size_t len = is_variable(sx) ? strlen(sx->text) : 0;
    return len > 3 && strcmp(sx->text + len - 3, "...") == 0;
}

enum { MOST_VARIABLES = 1024 }; /* of a rule as written: it has a plan for each e-node, in which each has a step */

void hyp_rule_reader_dispose(hyp_rule_reader *p)
{
    hyp_vec_free(&p->vars);
    hyp_vec_free(&p->place);
    hyp_intern_dispose(&p->names);
    hyp_arena_dispose(&p->scratch);
}

static hyp_bound_name *find_variable(hyp_rule_reader *p, const char *name)
{
    uint32_t id;
    if (!hyp_intern_find(&p->names, name, strlen(name), &id)) return NULL;
    uint32_t at = p->place.data[id];
    return at < p->vars.len && p->vars.data[at].id == id ? &p->vars.data[at] : NULL;
}

static hyp_status note_variables(hyp_rule_reader *p, hyp_rule *rule)
{
    rule->variables = hyp_arena_zalloc(&p->rules->arena, p->vars.len, sizeof *rule->variables);
    if (!rule->variables) return hyp_fail_memory(p->diag, p->vars.len * sizeof *rule->variables);
    for (size_t i = 0; i < p->vars.len; i++) {
        if (p->vars.data[i].named.kind == HYP_PAT_SEQ) continue;
        hyp_variable *v = &rule->variables[rule->variable_count++];
        *v = (hyp_variable){hyp_arena_strdup(&p->rules->arena, p->vars.data[i].name), p->vars.data[i].reg};
        if (!v->name) return hyp_fail_memory(p->diag, strlen(p->vars.data[i].name));
    }
    return HYP_OK;
}

static bool has_sequence(const hyp_rule_reader *p)
{
    for (size_t i = 0; i < p->vars.len; i++)
        if (p->vars.data[i].named.kind == HYP_PAT_SEQ) return true;
    return false;
}

static hyp_status add_variable(hyp_rule_reader *p, const hyp_sexpr *sx, hyp_bound_name **out)
{
    if (sx->text[1] == 0 || (is_sequence(sx) && strlen(sx->text) == 4))
        return hyp_rule_fail(p, sx, "a variable has a name after its '?'");
    if (p->vars.len == MOST_VARIABLES && !p->writes_out)
        return hyp_rule_fail(p, sx, "a rule has up to %d variables", MOST_VARIABLES);
    uint32_t id;
    HYP_TRY(hyp_intern_add(&p->names, sx->text, strlen(sx->text), &id, p->diag));
    if (id == p->place.len) HYP_TRY(hyp_vec_grow(&p->place, p->diag));
    p->place.data[id] = (uint32_t)p->vars.len;
    HYP_TRY(hyp_vec_grow(&p->vars, p->diag));
    hyp_bound_name *v = *out = &p->vars.data[p->vars.len - 1];
    *v = (hyp_bound_name){.name = sx->text, .id = id, .reg = HYP_NONE};
    return HYP_OK;
}

static hyp_status desugar(hyp_rule_reader *p, const hyp_sexpr *in, bool is_left, const hyp_sexpr **out)
{
    *out = in;
    if (!p->desugar) return HYP_OK;
    hyp_status status = p->desugar(p->user, &p->scratch, p->file, in, is_left, out, p->diag);
    if (status != HYP_OK) hyp_diag_prefix(p->diag, "rule %s", p->name);
    return status;
}

/* ---- terms -------------------------------------------------------------------------------------- */

/* Reads the operator of an e-node and makes room for its children. */
static hyp_status begin_node(hyp_rule_reader *p, const hyp_sexpr *sx, hyp_pat *out)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST || is_variable(head))
        return hyp_rule_fail(p, sx, "a term in parentheses begins with an operator");
    out->kind = HYP_PAT_NODE;
    out->sequence = out->op = HYP_NONE;
    out->count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    out->kids = take(p, out->count, sizeof *out->kids);
    if (!out->kids) return hyp_fail_memory(p->diag, out->count * sizeof *out->kids);
    return hyp_intern_add(&p->eg->symbols, head->text, strlen(head->text), &out->symbol, p->diag);
}

static hyp_status end_node(hyp_rule_reader *p, hyp_pat *node)
{
    return node->sequence == HYP_NONE ? hyp_eg_op(p->eg, node->symbol, node->count, &node->op, p->diag) : HYP_OK;
}

/* The callback that a term calls, or NULL. */
static const hyp_callback *called(hyp_rule_reader *p, const hyp_sexpr *sx, uint32_t *out_id)
{
    if (sx->kind != HYP_SX_LIST || sx->count == 0 || sx->items[0]->kind != HYP_SX_SYMBOL) return NULL;
    const char *name = sx->items[0]->text;
    return hyp_intern_find(&p->eg->callback_names, name, strlen(name), out_id) ? &p->eg->callbacks.data[*out_id] : NULL;
}

/* Reads a left-side term whose class is in register `reg`, or in one of its own if that is HYP_NONE. */
static hyp_status read_left(hyp_rule_reader *p, const hyp_sexpr *sx, uint32_t reg, hyp_pat *out)
{
    if (is_variable(sx)) {
        hyp_bound_name *v = find_variable(p, sx->text);
        if (is_sequence(sx)) return hyp_rule_fail(p, sx, "%s may stand only among the children of an e-node", sx->text);
        if (!v) HYP_TRY(add_variable(p, sx, &v));
        if (v->reg == HYP_NONE) v->reg = p->rule->reg_count++;
        *out = (hyp_pat){.kind = HYP_PAT_VAR, .reg = v->reg};
        return HYP_OK;
    }
    uint32_t id;
    if (called(p, sx, &id))
        return hyp_rule_fail(p, sx, "'%s' is a registered function or condition and cannot be matched",
                             sx->items[0]->text);
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
        if (out->sequence != HYP_NONE) return hyp_rule_fail(p, kid, "an e-node has at most one sequence variable");
        if (find_variable(p, kid->text))
            return hyp_rule_fail(p, kid, "%s is bound twice; a sequence cannot be compared", kid->text);
        hyp_bound_name *v;
        HYP_TRY(add_variable(p, kid, &v));
        out->sequence = j;
        out->ground = false;
        v->named = out->kids[j] =
            (hyp_pat){.kind = HYP_PAT_SEQ, .index = out->index, .before = j, .after = out->count - j - 1};
    }
    return end_node(p, out);
}

static hyp_status check_arity(hyp_rule_reader *p, const hyp_sexpr *sx, const hyp_callback *cb, bool has_seq)
{
    int count = (int)sx->count - 1;
    if (cb->arity < 0 || has_seq || cb->arity == count) return HYP_OK;
    return hyp_rule_fail(p, sx, "'%s' takes %d arguments, not %d", sx->items[0]->text, cb->arity, count);
}

/* Reads a term of the right side, or one of a condition (`in_condition`), over bound variables. */
static hyp_status read_right(hyp_rule_reader *p, const hyp_sexpr *sx, bool in_condition, hyp_pat *out)
{
    if (is_variable(sx)) {
        const hyp_bound_name *v = find_variable(p, sx->text);
        if (!v) return hyp_rule_fail(p, sx, "%s is not bound by the left side", sx->text);
        *out = is_sequence(sx) || v->named.kind != HYP_PAT_VAR ? v->named : (hyp_pat){.kind = HYP_PAT_VAR, .reg = v->reg};
        return HYP_OK;
    }
    uint32_t id;
    const hyp_callback *cb = called(p, sx, &id);
    uint32_t index = in_condition && !cb ? HYP_NONE : p->rule->right_nodes++;
    if (cb && cb->is_condition) return hyp_rule_fail(p, sx, "'%s' is a condition, not a function", sx->items[0]->text);
    HYP_TRY(begin_node(p, sx, out));
    out->index = index;
    bool has_seq = false;
    for (uint32_t j = 0; j < out->count; j++) {
        HYP_TRY(read_right(p, sx->items[j + 1], in_condition, &out->kids[j]));
        if (out->kids[j].kind != HYP_PAT_SEQ) continue;
        has_seq = true;
        if (out->sequence == HYP_NONE) out->sequence = j;
    }
    if (!cb) return end_node(p, out);
    out->kind = HYP_PAT_CALL;
    out->callback = id;
    if (!in_condition) p->rule->calls = true;
    return check_arity(p, sx, cb, has_seq);
}

/* A term that stands for one class. */
static hyp_status read_result(hyp_rule_reader *p, const hyp_sexpr *sx, bool in_condition, hyp_pat *out)
{
    HYP_TRY(desugar(p, sx, false, &sx));
    if (is_sequence(sx)) return hyp_rule_fail(p, sx, "%s stands for several children, one term was wanted", sx->text);
    return read_right(p, sx, in_condition, out);
}

/* ---- conditions --------------------------------------------------------------------------------- */

static hyp_status read_condition(hyp_rule_reader *p, const hyp_sexpr *sx, hyp_cond *out)
{
    if (sx->kind != HYP_SX_LIST || sx->count == 0 || sx->items[0]->kind != HYP_SX_SYMBOL)
        return hyp_rule_fail(p, sx, "a condition is (name argument...), (and ...), (or ...) or (not ...)");
    bool is_not = hyp_sexpr_is(sx->items[0], "not");
    out->count = sx->count - 1;
    if (is_not || hyp_sexpr_is(sx->items[0], "and") || hyp_sexpr_is(sx->items[0], "or")) {
        if (is_not && out->count != 1) return hyp_rule_fail(p, sx, "'not' takes one condition, not %u", out->count);
        out->kind = is_not ? HYP_COND_NOT : hyp_sexpr_is(sx->items[0], "and") ? HYP_COND_AND : HYP_COND_OR;
        out->kids = take(p, out->count, sizeof *out->kids);
        if (!out->kids) return hyp_fail_memory(p->diag, out->count * sizeof *out->kids);
        for (uint32_t i = 0; i < out->count; i++) HYP_TRY(read_condition(p, sx->items[i + 1], &out->kids[i]));
        return HYP_OK;
    }
    const hyp_callback *cb = called(p, sx, &out->callback);
    if (!cb) return hyp_rule_fail(p, sx, "unknown condition '%s'", sx->items[0]->text);
    if (!cb->is_condition) return hyp_rule_fail(p, sx, "'%s' is a function, not a condition", sx->items[0]->text);
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

/* ---- sides ---------------------------------------------------------------------------------------- */

/* (?a = P) of a multi-pattern. */
static hyp_status read_root(hyp_rule_reader *p, const hyp_sexpr *sx, hyp_pat *out)
{
    if (sx->kind != HYP_SX_LIST || sx->count != 3 || !is_variable(sx->items[0]) || is_sequence(sx->items[0]) ||
        !hyp_sexpr_is(sx->items[1], "="))
        return hyp_rule_fail(p, sx, "a part of a multi-pattern is (?variable = term)");
    hyp_bound_name *v = find_variable(p, sx->items[0]->text);
    if (!v) HYP_TRY(add_variable(p, sx->items[0], &v));
    if (v->reg == HYP_NONE) v->reg = p->rule->reg_count++;
    uint32_t reg = v->reg;
    const hyp_sexpr *term;
    HYP_TRY(desugar(p, sx->items[2], true, &term));
    if (is_variable(term)) return hyp_rule_fail(p, term, "a variable alone matches everything; name an operator");
    return read_left(p, term, reg, out);
}

static hyp_status read_left_side(hyp_rule_reader *p, const hyp_sexpr *sx)
{
    hyp_rule *rule = p->rule;
    rule->multi = hyp_sexpr_is_form(sx, "multi");
    rule->left_count = rule->multi ? sx->count - 1 : 1;
    if (rule->left_count == 0) return hyp_rule_fail(p, sx, "a multi-pattern has at least one part (?variable = term)");
    rule->left = take(p, rule->left_count, sizeof *rule->left);
    if (!rule->left) return hyp_fail_memory(p->diag, rule->left_count * sizeof *rule->left);
    if (rule->multi) {
        for (uint32_t i = 0; i < rule->left_count; i++) HYP_TRY(read_root(p, sx->items[i + 1], &rule->left[i]));
        return HYP_OK;
    }
    HYP_TRY(desugar(p, sx, true, &sx));
    if (is_variable(sx)) return hyp_rule_fail(p, sx, "a variable alone matches everything; name an operator");
    return read_left(p, sx, HYP_NONE, &rule->left[0]);
}

/* (let ?m TERM): a name for a term, which is the same in every union behind it. */
static hyp_status read_let(hyp_rule_reader *p, const hyp_sexpr *sx)
{
    hyp_bound_name *v;
    hyp_pat named;
    if (sx->count != 3 || !is_variable(sx->items[1]) || is_sequence(sx->items[1]))
        return hyp_rule_fail(p, sx, "a name for a term is (let ?variable term)");
    if (find_variable(p, sx->items[1]->text))
        return hyp_rule_fail(p, sx->items[1], "%s stands for something already", sx->items[1]->text);
    HYP_TRY(read_result(p, sx->items[2], false, &named));
    HYP_TRY(add_variable(p, sx->items[1], &v));
    v->named = named;
    if (named.kind == HYP_PAT_VAR) v->reg = named.reg; /* another name of what it stands for */
    return HYP_OK;
}

static hyp_status read_union(hyp_rule_reader *p, const hyp_sexpr *sx, hyp_action *out)
{
    if (!hyp_sexpr_is_form(sx, "union") || sx->count != 3)
        return hyp_rule_fail(p, sx, "the right side of a multi-pattern is made of (let ?variable term) and (union term term)");
    HYP_TRY(read_result(p, sx->items[1], false, &out->left));
    HYP_TRY(read_result(p, sx->items[2], false, &out->right));
    if (out->left.kind == HYP_PAT_VAR)
        for (uint32_t i = 0; i < p->rule->left_count && !out->root; i++)
            if (p->rule->left[i].reg == out->left.reg) out->root = &p->rule->left[i];
    return HYP_OK;
}

static hyp_status copy_text(hyp_rule_reader *p, const char *text, const char **out)
{
    *out = hyp_arena_strdup(&p->rules->arena, text ? text : "");
    return *out ? HYP_OK : hyp_fail_memory(p->diag, text ? strlen(text) : 0);
}

static hyp_status write_text(hyp_rule_reader *p, const hyp_written_rule *src, hyp_rule_info *out)
{
    hyp_strbuf sb = {0};
    hyp_strbuf_puts(&sb, "(rule ");
    hyp_sexpr_print_symbol(&sb, src->name);
    if (src->numeric_class) {
        hyp_strbuf_puts(&sb, " :class ");
        hyp_sexpr_print_symbol(&sb, src->numeric_class);
    }
    if (src->ruleset) {
        hyp_strbuf_puts(&sb, " :ruleset ");
        hyp_sexpr_print_symbol(&sb, src->ruleset);
    }
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
    return status;
}

static hyp_status write_info(hyp_rule_reader *p, const hyp_written_rule *src, hyp_rule_info *out)
{
    HYP_TRY(p->names_only ? copy_text(p, NULL, &out->text) : write_text(p, src, out));
    HYP_TRY(copy_text(p, src->name, &out->name));
    HYP_TRY(copy_text(p, src->numeric_class, &out->numeric_class));
    HYP_TRY(copy_text(p, src->ruleset, &out->ruleset));
    return copy_text(p, src->doc, &out->doc);
}

static hyp_status read_actions(hyp_rule_reader *p, const hyp_written_rule *src)
{
    hyp_rule *rule = p->rule;
    if (src->right_count == 0 || (!rule->multi && src->right_count > 1))
        return hyp_rule_fail(p, src->form, "a rule has one right side, this one has %u", src->right_count);
    rule->actions = take(p, src->right_count, sizeof *rule->actions);
    if (!rule->actions) return hyp_fail_memory(p->diag, src->right_count * sizeof *rule->actions);
    if (!rule->multi) {
        rule->action_count = 1;
        rule->actions[0].root = &rule->left[0];
        return read_result(p, src->right[0], false, &rule->actions[0].right);
    }
    for (uint32_t i = 0; i < src->right_count; i++) {
        if (hyp_sexpr_is_form(src->right[i], "let"))
            HYP_TRY(read_let(p, src->right[i]));
        else
            HYP_TRY(read_union(p, src->right[i], &rule->actions[rule->action_count++]));
    }
    return rule->action_count ? HYP_OK : hyp_rule_fail(p, src->form, "a right side has a union");
}

/* Reads both sides and the condition of p->rule; `part`: it is one part of a rule that collects, without a right side. */
static hyp_status read_sides(hyp_rule_reader *p, const hyp_written_rule *src, bool part)
{
    hyp_rule *rule = p->rule;
    p->vars.len = 0;
    HYP_TRY(read_left_side(p, src->left));
    HYP_TRY(note_variables(p, rule));
    if (!part) HYP_TRY(read_actions(p, src));
    if (src->condition) {
        rule->cond = take(p, 1, sizeof *rule->cond);
        if (!rule->cond) return hyp_fail_memory(p->diag, sizeof *rule->cond);
        HYP_TRY(read_condition(p, src->condition, rule->cond));
    }
    rule->match_rows = p->eg->explain || has_sequence(p) ? rule->left_nodes : 0;
    return hyp_rule_check_sorts(p, src->form);
}

/* ---- rules that collect --------------------------------------------------------------------------- */

/* The instance for so many parts of the rule with this index. Applied, but never searched, it has no plans. */
static hyp_status add_instance(hyp_rule_reader *p, uint32_t index, uint32_t width)
{
    hyp_rule *base = &p->rules->rules.data[index], *rule = take(p, 1, sizeof *rule);
    hyp_written_rule src;
    if (!rule) return hyp_fail_memory(p->diag, sizeof *rule);
    p->name = base->info.name;
    p->rule = rule;
    rule->info = base->info;
    HYP_TRY(hyp_collect_instance(p, base->collecting->src, width, &src));
    HYP_TRY(read_sides(p, &src, false));
    HYP_TRY(hyp_rule_compile_actions(&p->rules->arena, rule, p->diag));
    base->collecting->instances[width] = rule;
    return HYP_OK;
}

hyp_status hyp_rule_instance(struct hyp_ruleset *rules, uint32_t rule, uint32_t width, hyp_diag *diag)
{
    const hyp_collecting *c = rules->rules.data[rule].collecting;
    if (c->instances[width]) return HYP_OK;
    hyp_rule_reader p = {.eg = rules->eg,
                         .rules = rules,
                         .file = c->file,
                         .desugar = rules->desugar,
                         .user = rules->desugar_user,
                         .writes_out = true,
                         .diag = diag};
    hyp_status status = add_instance(&p, rule, width);
    hyp_rule_reader_dispose(&p);
    return status;
}

/* Reads the keys, of the part whose variables are bound. */
static hyp_status read_keys(hyp_rule_reader *p, const hyp_sexpr *keys, hyp_collecting *c)
{
    c->keys = take(p, keys->count, sizeof *c->keys);
    c->common = take(p, p->rule->reg_count, sizeof *c->common);
    if (!c->keys || !c->common) return hyp_fail_memory(p->diag, keys->count * sizeof *c->keys);
    for (; c->key_count < keys->count; c->key_count++) {
        hyp_pat *key = &c->keys[c->key_count];
        HYP_TRY(read_result(p, keys->items[c->key_count], true, key));
        if (key->kind == HYP_PAT_VAR) c->common[key->reg] = true;
    }
    return HYP_OK;
}

static hyp_status add_collecting(hyp_rule_reader *p, const hyp_written_rule *src)
{
    hyp_rule *rule = p->rule;
    hyp_written_rule part;
    hyp_collecting *c = rule->collecting = take(p, 1, sizeof *c);
    if (!c || !(c->src = take(p, 1, sizeof *c->src)) || !(c->file = hyp_arena_strdup(&p->rules->arena, p->file)))
        return hyp_fail_memory(p->diag, sizeof *c);
    HYP_TRY(hyp_collect_part(p, src, &part));
    HYP_TRY(hyp_collect_keep(p, src, c->src));
    HYP_TRY(read_sides(p, &part, true));
    if (has_sequence(p)) return hyp_rule_fail(p, src->left, "a rule that collects has no variables of several children");
    HYP_TRY(read_keys(p, c->src->left->items[1], c));
    return add_instance(p, (uint32_t)p->rules->rules.len - 1, 2); /* so that what is wrong is said now */
}

/* ---- rules ------------------------------------------------------------------------------------------ */

hyp_status hyp_rule_add(hyp_rule_reader *p, const hyp_written_rule *src)
{
    p->name = src->name;
    uint32_t id;
    if (hyp_intern_find(&p->rules->names, src->name, strlen(src->name), &id))
        return hyp_rule_fail(p, src->form, "there is a rule of this name already");
    if (HYP_RULE_INDEX(p->rules->rules.len + 1) == 0) return hyp_rule_fail(p, src->form, "these are too many rules");
    HYP_TRY(hyp_vec_grow(&p->rules->rules, p->diag));
    hyp_rule *rule = p->rule = &p->rules->rules.data[p->rules->rules.len - 1];
    *rule = (hyp_rule){.enabled = !p->names_only};
    hyp_status status = write_info(p, src, &rule->info);
    if (status == HYP_OK && !p->names_only) {
        status = hyp_rule_collects(src->left) ? add_collecting(p, src) : read_sides(p, src, false);
        if (status == HYP_OK) status = hyp_rule_compile(p->rules->eg, &p->rules->arena, rule, p->diag);
    }
    if (status == HYP_OK) status = hyp_intern_add(&p->rules->names, src->name, strlen(src->name), &id, p->diag);
    if (status != HYP_OK) p->rules->rules.len--; /* as if nothing had been read */
    return status;
}
