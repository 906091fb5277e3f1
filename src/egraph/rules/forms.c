/* forms.c - reads rules that are written as s-expressions. */
#include <string.h>

#include "egraph/rules/reader.h"

/* Reads `:keyword value` at form->items[*i]. */
static hyp_status read_option(hyp_rule_reader *p, const hyp_sexpr *form, uint32_t *i, hyp_written_rule *src)
{
    const hyp_sexpr *key = form->items[*i], *value = *i + 1 < form->count ? form->items[*i + 1] : NULL;
    if (!value) return hyp_rule_fail(p, key, "%s wants a value", key->text);
    *i += 2;
    if (hyp_sexpr_is(key, ":if")) {
        src->condition = value;
        return HYP_OK;
    }
    const char **slot = hyp_sexpr_is(key, ":class")     ? &src->numeric_class
                        : hyp_sexpr_is(key, ":ruleset") ? &src->ruleset
                        : hyp_sexpr_is(key, ":doc")     ? &src->doc
                                                        : NULL;
    if (!slot) return hyp_rule_fail(p, key, "unknown option %s; known are :class :ruleset :doc :if", key->text);
    if (value->kind == HYP_SX_LIST) return hyp_rule_fail(p, value, "%s wants a word or a string", key->text);
    *slot = value->text;
    return HYP_OK;
}

static bool is_option(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == ':'; }

static hyp_status read_rule(hyp_rule_reader *p, const hyp_sexpr *form)
{
    bool both = hyp_sexpr_is_form(form, "birule");
    p->name = NULL;
    if (!both && !hyp_sexpr_is_form(form, "rule"))
        return hyp_rule_fail(p, form, "a rule is (rule name left => right) or (birule name left <=> right)");
    if (form->count < 2 || form->items[1]->kind == HYP_SX_LIST) return hyp_rule_fail(p, form, "a rule has a name");
    hyp_written_rule src = {.form = form, .name = form->items[1]->text};
    p->name = src.name;
    const char *arrow = both ? "<=>" : "=>";
    uint32_t i = 2, right;
    while (i < form->count && is_option(form->items[i])) HYP_TRY(read_option(p, form, &i, &src));
    if (i + 2 >= form->count || !hyp_sexpr_is(form->items[i + 1], arrow))
        return hyp_rule_fail(p, form, "after the name and the options come: left %s right", arrow);
    src.left = form->items[i];
    right = i += 2;
    while (i < form->count && !is_option(form->items[i])) i++;
    src.right = (const hyp_sexpr *const *)&form->items[right];
    src.right_count = i - right;
    while (i < form->count) {
        if (!is_option(form->items[i]))
            return hyp_rule_fail(p, form->items[i], "nothing but options may follow the right side");
        HYP_TRY(read_option(p, form, &i, &src));
    }
    HYP_TRY(hyp_rule_add(p, &src));
    if (!both) return HYP_OK;
    if (src.right_count != 1) return hyp_rule_fail(p, form, "each side of <=> is one term");
    hyp_written_rule reversed = src;
    reversed.name = hyp_arena_printf(&p->scratch, "%s-rev", src.name);
    if (!reversed.name) return hyp_fail_memory(p->diag, strlen(src.name));
    reversed.left = src.right[0];
    reversed.right = &src.left;
    return hyp_rule_add(p, &reversed);
}

/* A short text must not become a huge one. */
enum { MAX_WORDS = 64, MAX_SUBSTITUTED = 1024 };

/* A copy of a form with `word` put wherever `mark` is written, inside longer symbols and strings, too. */
static hyp_status substitute(hyp_rule_reader *p, const hyp_sexpr *in, const char *mark, const char *word,
                             hyp_sexpr **out)
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
            return hyp_rule_fail(p, in, "with %s put in, this has more than %d bytes", mark, MAX_SUBSTITUTED);
        }
        copy->text = sb.failed ? NULL : hyp_arena_strdup(&p->scratch, sb.data);
        if (!copy->text) status = hyp_fail_memory(p->diag, sb.len);
    }
    hyp_strbuf_dispose(&sb);
    return status;
}

/* (for-each MARK (WORD...) RULE...): every rule once for each word. */
static hyp_status read_each(hyp_rule_reader *p, const hyp_sexpr *form)
{
    p->name = NULL;
    const hyp_sexpr *mark = form->count > 1 ? form->items[1] : NULL, *words = form->count > 2 ? form->items[2] : NULL;
    if (!words || mark->kind != HYP_SX_SYMBOL || mark->text[0] != '<' || words->kind != HYP_SX_LIST)
        return hyp_rule_fail(p, form, "after for-each come: a mark such as <op>, a list of words, rules");
    if (words->count > MAX_WORDS)
        return hyp_rule_fail(p, words, "for-each takes up to %d words, not %u", MAX_WORDS, words->count);
    for (uint32_t w = 0; w < words->count; w++) {
        if (words->items[w]->kind == HYP_SX_LIST)
            return hyp_rule_fail(p, words->items[w], "a word is wanted, not a list");
        for (uint32_t i = 3; i < form->count; i++) {
            hyp_sexpr *rule;
            HYP_TRY(substitute(p, form->items[i], mark->text, words->items[w]->text, &rule));
            HYP_TRY(read_rule(p, rule));
        }
    }
    return HYP_OK;
}

hyp_status hyp_rules_read_forms(hyp_rule_reader *p, const char *text, size_t len)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(&p->scratch, p->file, text, len, &forms, p->diag));
    for (uint32_t i = 0; i < forms->count; i++)
        HYP_TRY(hyp_sexpr_is_form(forms->items[i], "for-each") ? read_each(p, forms->items[i])
                                                               : read_rule(p, forms->items[i]));
    return HYP_OK;
}
