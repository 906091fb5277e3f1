/* act.c - runs right sides, and code that has no left one. */
#include <string.h>

#include "egraph/egglog/db.h"

static hyp_status no_value(hyp_egglog *db, const hyp_el_function *f, const uint32_t *key, hyp_diag *diag)
{
    hyp_strbuf sb = {0};
    for (uint32_t i = 0; i < f->arity; i++) {
        hyp_strbuf_puts(&sb, " ");
        hyp_el_print_literal(db, f->sorts[i], key[i], &sb);
    }
    hyp_status status = hyp_fail(diag, HYP_ERR_MISMATCH, "(%s%.300s) has no value", f->name, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status call(hyp_egglog *db, const hyp_el_ins *ins, uint32_t *regs, hyp_diag *diag)
{
    hyp_el_function *f = &db->functions.data[ins->target];
    uint32_t columns[HYP_EL_MAX_COLUMNS];
    for (uint32_t i = 0; i < ins->count; i++) columns[i] = regs[ins->args[i]];
    uint32_t row = hyp_el_lookup(&f->table, columns);
    if (row != HYP_EL_NONE) {
        uint32_t value = regs[ins->out] = hyp_el_row(&f->table, row)[f->arity];
        bool may_be_old = f->kind == HYP_EL_GLOBAL; /* while a rebuild has a value merged: see hyp_el_rebuild */
        return may_be_old ? hyp_el_canonical(db, f->sorts[f->arity], value, &regs[ins->out], diag) : HYP_OK;
    }
    if (f->kind == HYP_EL_FUNCTION || f->kind == HYP_EL_GLOBAL) return no_value(db, f, columns, diag);
    columns[f->arity] = 0;
    if (f->kind == HYP_EL_CONSTRUCTOR) HYP_TRY(hyp_el_new_id(db, &columns[f->arity], diag));
    regs[ins->out] = columns[f->arity];
    return hyp_el_append(db, &f->table, columns, db->epoch, diag);
}

static hyp_status compute(hyp_egglog *db, const hyp_el_ins *ins, uint32_t *regs, hyp_diag *diag)
{
    bool holds = false;
    hyp_el_value value = 0;
    HYP_TRY(hyp_el_call_prim(db, ins, regs, &value, &holds, diag));
    regs[ins->out] = value;
    if (holds) return HYP_OK;
    hyp_strbuf sb = {0};
    for (uint32_t i = 0; i < ins->count; i++) {
        hyp_strbuf_puts(&sb, " ");
        hyp_el_print_literal(db, ins->sorts[i], regs[ins->args[i]], &sb);
    }
    hyp_status status = hyp_fail(diag, HYP_ERR_MISMATCH, "(%s%.300s) has no value", hyp_el_prim_at(db, ins->target)->name,
                                 hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

hyp_status hyp_el_act(hyp_egglog *db, const hyp_el_code *code, uint32_t *regs, hyp_diag *diag)
{
    uint32_t columns[HYP_EL_MAX_COLUMNS];
    for (const hyp_el_ins *ins = code->head; ins < code->head + code->head_count; ins++) {
        switch (ins->op) {
        case HYP_EL_CALL: HYP_TRY(call(db, ins, regs, diag)); continue;
        case HYP_EL_PRIM: HYP_TRY(compute(db, ins, regs, diag)); continue;
        case HYP_EL_UNION: HYP_TRY(hyp_el_unite(db, regs[ins->args[0]], regs[ins->args[1]], diag)); continue;
        case HYP_EL_PANIC: return hyp_fail(diag, HYP_ERR_MISMATCH, "panic: %s", hyp_el_get_string(db, ins->target));
        case HYP_EL_ATOM:
        case HYP_EL_SAME: continue; /* of left sides */
        case HYP_EL_ASSIGN:
        case HYP_EL_DELETE:
        case HYP_EL_SUBSUME: break;
        }
        for (uint32_t i = 0; i < ins->count; i++) columns[i] = regs[ins->args[i]];
        if (ins->op == HYP_EL_ASSIGN)
            HYP_TRY(hyp_el_put(db, ins->target, columns, diag));
        else if (ins->op == HYP_EL_DELETE)
            HYP_TRY(hyp_el_remove(db, ins->target, columns, diag));
        else
            HYP_TRY(hyp_el_subsume(db, ins->target, columns, diag));
    }
    return HYP_OK;
}

hyp_status hyp_el_evaluate(hyp_egglog *db, const hyp_el_code *code, const uint32_t *given, uint32_t given_count,
                           hyp_el_value *out, hyp_diag *diag)
{
    enum { SMALL = 32 };
    uint32_t small[SMALL], *regs = small;
    if (code->reg_count > SMALL && !(regs = hyp_malloc(code->reg_count * sizeof *regs)))
        return hyp_fail_memory(diag, code->reg_count * sizeof *regs);
    memcpy(regs, code->init, code->reg_count * sizeof *regs);
    if (given_count) memcpy(regs, given, given_count * sizeof *regs);
    hyp_status status = hyp_el_act(db, code, regs, diag);
    if (status == HYP_OK && code->result != HYP_EL_NONE) *out = regs[code->result];
    if (regs != small) hyp_free(regs);
    return status;
}
