/* snapshot.c - push and pop: tables are copied, of what only grows its length is noted. */
#include <string.h>

#include "egraph/egglog/db.h"

typedef struct hyp_el_saved {
    struct hyp_el_saved *next;
    size_t sorts, functions, rulesets, rules, named, parents;
    hyp_el_table *tables;  /* by function */
    size_t *ruleset_rules; /* by ruleset: how many it had */
    uint32_t *since;       /* by rule */
    hyp_el_name *names;    /* `named` */
    uint32_t *parent;
    uint32_t epoch;
} hyp_el_saved;

static void dispose(hyp_egglog *db, hyp_el_saved *s)
{
    for (size_t i = 0; s->tables && i < s->functions; i++) hyp_el_dispose_table(db, &s->tables[i]);
    hyp_free(s->tables);
    hyp_free(s->ruleset_rules);
    hyp_free(s->since);
    hyp_free(s->names);
    hyp_free(s->parent);
    hyp_free(s);
}

void hyp_el_discard_saved(hyp_egglog *db)
{
    while (db->saved) {
        hyp_el_saved *next = db->saved->next;
        dispose(db, db->saved);
        db->saved = next;
    }
}

static hyp_status save_tables(hyp_egglog *db, hyp_el_saved *s, hyp_diag *diag)
{
    for (size_t i = 0; i < s->functions; i++) {
        HYP_TRY(hyp_el_copy_table(db, &db->functions.data[i].table, &s->tables[i], diag));
    }
    for (size_t i = 0; i < s->rulesets; i++) s->ruleset_rules[i] = db->rulesets.data[i].rules.len;
    for (size_t i = 0; i < s->rules; i++) s->since[i] = db->rules.data[i].since;
    if (s->named) memcpy(s->names, db->named.data, s->named * sizeof *s->names);
    if (s->parents) memcpy(s->parent, db->parent.data, s->parents * sizeof *s->parent);
    return HYP_OK;
}

hyp_status hyp_el_push(hyp_egglog *db, hyp_diag *diag)
{
    HYP_TRY(hyp_el_rebuild(db, diag));
    hyp_el_saved *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->sorts = db->sorts.len;
    s->functions = db->functions.len;
    s->rulesets = db->rulesets.len;
    s->rules = db->rules.len;
    s->named = db->named.len;
    s->parents = db->parent.len;
    s->epoch = db->epoch;
    s->tables = hyp_calloc(s->functions, sizeof *s->tables);
    s->ruleset_rules = hyp_calloc(s->rulesets, sizeof *s->ruleset_rules);
    s->since = hyp_calloc(s->rules, sizeof *s->since);
    s->names = hyp_calloc(s->named, sizeof *s->names);
    s->parent = hyp_calloc(s->parents, sizeof *s->parent);
    hyp_status status = HYP_OK;
    if (!s->tables || !s->ruleset_rules || !s->since || !s->names || !s->parent)
        status = hyp_fail_memory(diag, s->parents * sizeof *s->parent);
    if (status == HYP_OK) status = save_tables(db, s, diag);
    if (status != HYP_OK) {
        dispose(db, s);
        return status;
    }
    s->next = db->saved;
    db->saved = s;
    return HYP_OK;
}

hyp_status hyp_el_pop(hyp_egglog *db, hyp_diag *diag)
{
    hyp_el_saved *s = db->saved;
    if (!s) return hyp_fail(diag, HYP_ERR_MALFORMED, "(pop) without a (push) before it");
    for (size_t i = 0; i < db->functions.len; i++) hyp_el_dispose_table(db, &db->functions.data[i].table);
    db->functions.len = s->functions;
    db->live = 0;
    for (size_t i = 0; i < s->functions; i++) {
        db->functions.data[i].table = s->tables[i];
        db->live += s->tables[i].live;
        s->tables[i] = (hyp_el_table){0};
    }
    for (size_t i = s->rulesets; i < db->rulesets.len; i++) {
        hyp_vec_free(&db->rulesets.data[i].rules);
        hyp_vec_free(&db->rulesets.data[i].parts);
    }
    db->rulesets.len = s->rulesets;
    for (size_t i = 0; i < s->rulesets; i++) db->rulesets.data[i].rules.len = s->ruleset_rules[i];
    db->rules.len = s->rules;
    for (size_t i = 0; i < s->rules; i++) db->rules.data[i].since = s->since[i];
    db->sorts.len = s->sorts;
    for (size_t i = 0; i < db->named.len; i++)
        db->named.data[i] = i < s->named ? s->names[i] : (hyp_el_name){HYP_EL_NONE, HYP_EL_NONE, HYP_EL_NONE};
    db->parent.len = s->parents;
    if (s->parents) memcpy(db->parent.data, s->parent, s->parents * sizeof *s->parent);
    db->dirty.len = 0;
    db->epoch = s->epoch;
    db->changes++;
    db->saved = s->next;
    dispose(db, s);
    return HYP_OK;
}
