/* collect.c - puts the parts together to which a rule that collects is applied at once. */
#include <stdlib.h>
#include <string.h>

#include "egraph/rules/rule.h"

/* A row of parts->words: the number of words that are compared, so that rows can be sorted; the keys; the match, its root
 * last and its registers backwards, in the order of comparing; and the match as it was found. */
enum { WORDS };

static uint32_t row_words(const hyp_rule *rule)
{
    return 1 + rule->collecting->key_count + rule->reg_count + hyp_match_words(rule);
}

static const uint32_t *match_of(const hyp_rule *rule, const uint32_t *row)
{
    return row + 1 + rule->collecting->key_count + rule->reg_count;
}

hyp_status hyp_collect_add(hyp_applier *ap, uint32_t rule_index, const uint32_t *match, hyp_parts_found *parts,
                           hyp_diag *diag)
{
    const hyp_rule *rule = &ap->rules->rules.data[rule_index];
    size_t at = parts->words.len;
    bool holds = false;
    HYP_TRY(hyp_vec_reserve(&parts->words, at + row_words(rule), diag));
    uint32_t *row = parts->words.data + at;
    hyp_status status = hyp_apply_part(ap, rule_index, match, &holds, row + 1, diag);
    if (status != HYP_OK && status != HYP_ERR_MALFORMED) return status;
    if (status != HYP_OK || !holds) return HYP_OK;
    memcpy(row + row_words(rule) - hyp_match_words(rule), match, hyp_match_words(rule) * sizeof *match);
    parts->words.len += row_words(rule);
    return HYP_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const uint32_t *x = *(const uint32_t *const *)a, *y = *(const uint32_t *const *)b;
    for (uint32_t i = 1; i <= x[WORDS]; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

hyp_status hyp_collect_sort(hyp_egraph *eg, const hyp_rule *rule, hyp_parts_found *parts, hyp_diag *diag)
{
    uint32_t words = row_words(rule), keys = rule->collecting->key_count, root = rule->left[0].reg;
    size_t count = parts->words.len / words;
    parts->at = parts->group.len = parts->done = parts->beyond = 0;
    HYP_TRY(hyp_vec_reserve(&parts->order, count + 1, diag));
    parts->order.len = count;
    for (size_t i = 0; i < count; i++) {
        uint32_t *row = parts->words.data + i * words, *to = row + 1 + keys;
        const uint32_t *match = match_of(rule, row);
        row[WORDS] = keys + rule->reg_count;
        for (uint32_t k = 0; k < keys; k++) row[1 + k] = hyp_eg_find(eg, row[1 + k]);
        for (uint32_t r = rule->reg_count; r-- > 0;) /* biases before weights: those are as the model has them, in its order,
                                                        where a weight may have been widened, and be a late class */
            if (r != root) *to++ = hyp_eg_find(eg, match[r]);
        *to = hyp_eg_find(eg, match[root]);
        parts->order.data[i] = row;
    }
    qsort(parts->order.data, count, sizeof *parts->order.data, compare_rows);
    return HYP_OK;
}

/* Makes the instance's match of parts, in the order in which it numbers its registers (pattern.c). */
static hyp_status join(const hyp_rule *rule, const uint32_t *const *part, uint32_t width, hyp_parts_found *parts,
                       hyp_diag *diag)
{
    HYP_TRY(hyp_vec_reserve(&parts->match, (size_t)width * hyp_match_words(rule), diag));
    uint32_t *to = parts->match.data;
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t r = 0; r < rule->reg_count; r++)
            if (i == 0 || !rule->collecting->common[r]) *to++ = match_of(rule, part[i])[r];
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t n = 0; n < rule->match_rows; n++) *to++ = match_of(rule, part[i])[rule->reg_count + n];
    return HYP_OK;
}

/* Notes a root of the group. *out_new: it was not there. */
static void note_root(hyp_parts_found *parts, uint32_t root, bool *out_new)
{
    size_t mask = parts->roots.len - 1, at = hyp_hash(&root, sizeof root, 0) & mask;
    while (parts->roots.data[at] != HYP_NONE && parts->roots.data[at] != root) at = (at + 1) & mask;
    *out_new = parts->roots.data[at] == HYP_NONE;
    parts->roots.data[at] = root;
}

/* Takes all parts that have the keys of the next one. */
static hyp_status next_group(const hyp_rule *rule, hyp_parts_found *parts, hyp_diag *diag)
{
    uint32_t keys = rule->collecting->key_count, root = keys + rule->reg_count;
    const uint32_t *const *rows = parts->order.data + parts->at;
    size_t count = 1, slots = 4;
    while (parts->at + count < parts->order.len && !memcmp(rows[0] + 1, rows[count] + 1, keys * sizeof **rows)) count++;
    parts->at += count;
    parts->group.len = parts->done = 0;
    while (slots < 2 * count) slots *= 2;
    HYP_TRY(hyp_vec_reserve(&parts->group, count, diag));
    HYP_TRY(hyp_vec_reserve(&parts->roots, slots, diag));
    parts->roots.len = slots;
    memset(parts->roots.data, 0xff, slots * sizeof *parts->roots.data);
    for (size_t i = 0; i < count; i++) {
        bool is_new;
        note_root(parts, rows[i][root], &is_new);
        if (is_new) parts->group.data[parts->group.len++] = rows[i];
    }
    if (parts->group.len > HYP_WIDEST) parts->beyond += parts->group.len - HYP_WIDEST;
    return HYP_OK;
}

hyp_status hyp_collect_next(const hyp_rule *rule, hyp_parts_found *parts, uint32_t *out_width, hyp_diag *diag)
{
    *out_width = 0;
    while (parts->group.len - parts->done < 2) {
        if (parts->at == parts->order.len) return HYP_OK;
        HYP_TRY(next_group(rule, parts, diag));
    }
    size_t left = parts->group.len - parts->done, matches = (left + HYP_WIDEST - 1) / HYP_WIDEST;
    *out_width = (uint32_t)((left + matches - 1) / matches);
    parts->done += *out_width;
    return join(rule, parts->group.data + parts->done - *out_width, *out_width, parts, diag);
}

/* The search of hyp_collect_all. */
typedef struct gathering {
    hyp_applier applier;
    uint32_t rule_index;
    hyp_parts_found *parts;
} gathering;

static hyp_status gather(void *user, const uint32_t *matches, size_t count, hyp_diag *diag)
{
    gathering *g = user;
    uint32_t words = hyp_match_words(&g->applier.rules->rules.data[g->rule_index]);
    for (size_t i = 0; i < count; i++)
        HYP_TRY(hyp_collect_add(&g->applier, g->rule_index, matches + i * words, g->parts, diag));
    return HYP_OK;
}

hyp_status hyp_collect_all(struct hyp_ruleset *rules, uint32_t rule_index, hyp_parts_found *parts, hyp_diag *diag)
{
    hyp_egraph *eg = rules->eg;
    hyp_rule *rule = &rules->rules.data[rule_index];
    size_t words = hyp_match_words(rule) + rule->left_nodes + 1;
    gathering g = {.applier = {.eg = eg, .rules = rules}, .rule_index = rule_index, .parts = parts};
    size_t end = words * (HYP_MATCH_BATCH + 1) + HYP_MATCH_COPY;
    uint32_t *room = hyp_malloc((end + rule->ground_count) * sizeof *room);
    if (!room) return hyp_fail_memory(diag, words * HYP_MATCH_BATCH * sizeof *room);
    hyp_search s = {.eg = eg,
                    .rule = rule,
                    .row_limit = (uint32_t)eg->row_count,
                    .emit = gather,
                    .user = &g,
                    .diag = diag,
                    .match = room,
                    .buffer = room + words};
    uint32_t since = rule->since;
    rule->since = 0;
    parts->words.len = 0;
    hyp_status status = hyp_match(&s, room + end);
    rule->since = since;
    hyp_applier_dispose(&g.applier);
    hyp_free(room);
    return status == HYP_OK ? hyp_collect_sort(eg, rule, parts, diag) : status;
}

size_t hyp_collect_count(const hyp_rule *rule, const hyp_parts_found *parts)
{
    return parts->words.len / row_words(rule);
}

void hyp_collect_dispose(hyp_parts_found *parts)
{
    hyp_vec_free(&parts->words);
    hyp_vec_free(&parts->order);
    hyp_vec_free(&parts->group);
    hyp_vec_free(&parts->roots);
    hyp_vec_free(&parts->match);
}
