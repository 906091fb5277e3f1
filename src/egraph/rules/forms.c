/* forms.c - reads rules that are written as s-expressions. */
#include <stdio.h>
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

static const hyp_word_list *find_list(const hyp_word_list *lists, const char *name, size_t len)
{
    for (; lists && lists->name; lists++)
        if (strlen(lists->name) == len && strncmp(lists->name, name, len) == 0) return lists;
    return NULL;
}

static hyp_status unknown_list(const hyp_word_list *lists, const char *file, const hyp_sexpr *word, hyp_diag *diag)
{
    char known[256] = "";
    for (size_t n = 0; lists && lists->name && n < sizeof known; lists++)
        n += (size_t)snprintf(known + n, sizeof known - n, " %s...", lists->name);
    return hyp_sexpr_fail(diag, file, word, HYP_ERR_MALFORMED, "%s is no list of words; known are:%s", word->text,
                          *known ? known : " none");
}

static void drop(hyp_sexpr *from, const char *word)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < from->count; i++)
        if (strcmp(from->items[i]->text, word) != 0) from->items[kept++] = from->items[i];
    from->count = kept;
}

static hyp_status add_word(hyp_arena *arena, const char *file, const hyp_sexpr *place, const char *word, hyp_sexpr *to,
                           hyp_diag *diag)
{
    hyp_sexpr *copy = hyp_arena_alloc(arena, sizeof *copy);
    if (!copy) return hyp_fail_memory(diag, sizeof *copy);
    if (to->count == MAX_WORDS)
        return hyp_sexpr_fail(diag, file, place, HYP_ERR_MALFORMED, "for-each takes up to %d words", MAX_WORDS);
    *copy = *place;
    copy->text = word;
    to->items[to->count++] = copy;
    return HYP_OK;
}

hyp_status hyp_rule_words(const hyp_word_list *lists, hyp_arena *arena, const char *file, const hyp_sexpr *in,
                          const hyp_sexpr **out, hyp_diag *diag)
{
    hyp_sexpr *all = hyp_arena_alloc(arena, sizeof *all);
    if (!all) return hyp_fail_memory(diag, sizeof *all);
    *all = *in;
    all->count = 0;
    all->items = hyp_arena_alloc(arena, MAX_WORDS * sizeof *all->items);
    if (!all->items) return hyp_fail_memory(diag, MAX_WORDS * sizeof *all->items);
    for (uint32_t i = 0; i < in->count; i++) {
        const hyp_sexpr *word = in->items[i];
        if (word->kind == HYP_SX_LIST)
            return hyp_sexpr_fail(diag, file, word, HYP_ERR_MALFORMED, "a word is wanted, not a list");
        size_t len = strlen(word->text), before = all->count;
        if (len > 3 && strcmp(word->text + len - 3, "...") == 0) {
            const hyp_word_list *list = find_list(lists, word->text, len - 3);
            if (!list) return unknown_list(lists, file, word, diag);
            for (const char *const *w = list->words; *w; w++) HYP_TRY(add_word(arena, file, word, *w, all, diag));
        } else if (word->text[0] == '!') {
            drop(all, word->text + 1);
            if (all->count == before)
                return hyp_sexpr_fail(diag, file, word, HYP_ERR_MALFORMED, "no word before this is %s", word->text + 1);
        } else {
            HYP_TRY(add_word(arena, file, word, word->text, all, diag));
        }
    }
    *out = all;
    return HYP_OK;
}

/* (for-each MARK (WORD...) RULE...): every rule once for each word. */
static hyp_status read_each(hyp_rule_reader *p, const hyp_sexpr *form)
{
    p->name = NULL;
    const hyp_sexpr *mark = form->count > 1 ? form->items[1] : NULL, *words = form->count > 2 ? form->items[2] : NULL;
    if (!words || mark->kind != HYP_SX_SYMBOL || mark->text[0] != '<' || words->kind != HYP_SX_LIST)
        return hyp_rule_fail(p, form, "after for-each come: a mark such as <op>, a list of words, rules");
    HYP_TRY(hyp_rule_words(p->eg->word_lists, &p->scratch, p->file, words, &words, p->diag));
    for (uint32_t w = 0; w < words->count; w++) {
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
    for (uint32_t i = 0; i < forms->count; i++) {
        const hyp_sexpr *form = forms->items[i];
        HYP_TRY(hyp_sexpr_is_form(form, "for-each") ? read_each(p, form)
                : hyp_declares(form)                ? hyp_declare_form(p, form)
                                                    : read_rule(p, form));
    }
    return HYP_OK;
}
