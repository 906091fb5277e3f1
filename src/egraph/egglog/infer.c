/* infer.c - sorts of registers, and which form of a primitive is meant: forms that do not fit what is known fall away until
 * one is left. */
#include <string.h>

#include "egraph/egglog/db.h"

/* One form of a primitive: of a container's, for one sort of containers. */
typedef struct form {
    uint32_t prim, container, any;
} form;

/* The sort that a character of a primitive's row means, HYP_EL_NONE where it is not known. */
static uint32_t sort_of(const hyp_egglog *db, const form *f, char c)
{
    switch (c) {
    case 'u': return HYP_EL_UNIT;
    case 'b': return HYP_EL_BOOL;
    case 'i': return HYP_EL_I64;
    case 'f': return HYP_EL_F64;
    case 's': return HYP_EL_STRING;
    case 'C': return f->container;
    case 'K': return db->sorts.data[f->container].key;
    case 'E': return db->sorts.data[f->container].element;
    default: return f->any;
    }
}

/* The character of argument i, or of the result. */
static char place(const hyp_el_prim *p, uint32_t i, uint32_t count)
{
    size_t len = strlen(p->args);
    return i == count ? p->result : p->args[i < len ? i : len - 1];
}

static uint32_t reg_at(const hyp_el_ins *ins, uint32_t i) { return i == ins->count ? ins->out : ins->args[i]; }

/* Whether a form can be what is called, by what is known. */
static bool fits(const hyp_el_lower *l, const hyp_el_ins *ins, form *f)
{
    const hyp_el_prim *p = hyp_el_prim_at(l->db, f->prim);
    size_t len = strlen(p->args);
    if (p->variadic ? ins->count + 1 < len : ins->count != len) return false;
    for (uint32_t i = 0; i <= ins->count; i++) {
        char c = place(p, i, ins->count);
        uint32_t known = l->regs.data[hyp_el_reg_of(l, reg_at(ins, i))].sort, want = sort_of(l->db, f, c);
        if (known == HYP_EL_NONE) continue;
        if (c == 'T' && want == HYP_EL_NONE)
            f->any = known;
        else if (known != want)
            return false;
    }
    return true;
}

/* The forms that fit: how many, and the last of them. */
static uint32_t candidates(const hyp_el_lower *l, const hyp_el_ins *ins, form *out)
{
    uint32_t count = 0, at = 0, prim;
    const char *name = ins->at->items[0]->text;
    while ((prim = hyp_el_next_prim(l->db, name, &at)) != HYP_EL_NONE) {
        const hyp_el_prim *p = hyp_el_prim_at(l->db, prim);
        bool container = p->container >= HYP_EL_VEC;
        for (uint32_t sort = 0; sort < (container ? l->db->sorts.len : 1); sort++) {
            form f = {prim, container ? sort : HYP_EL_NONE, HYP_EL_NONE};
            if (container && l->db->sorts.data[sort].kind != p->container) continue;
            if (!fits(l, ins, &f)) continue;
            *out = f;
            count++;
        }
    }
    return count;
}

static bool waits_for_sort(const hyp_el_lower *l, const hyp_el_ins *ins, const form *f)
{
    const hyp_el_prim *p = hyp_el_prim_at(l->db, f->prim);
    return f->any == HYP_EL_NONE && (p->result == 'T' || strchr(p->args, 'T')) && ins->count;
}

static hyp_status settle(hyp_el_lower *l, hyp_el_ins *ins, const form *f)
{
    const hyp_el_prim *p = hyp_el_prim_at(l->db, f->prim);
    ins->sorts = hyp_arena_alloc(l->arena, (ins->count + 1) * sizeof *ins->sorts);
    if (!ins->sorts) return hyp_fail_memory(l->diag, (ins->count + 1) * sizeof *ins->sorts);
    for (uint32_t i = 0; i <= ins->count; i++) {
        ins->sorts[i] = sort_of(l->db, f, place(p, i, ins->count));
        HYP_TRY(hyp_el_lower_expect(l, reg_at(ins, i), ins->sorts[i], ins->at));
    }
    ins->target = f->prim;
    return HYP_OK;
}

/* What was called, with the sorts that are known. */
static hyp_status complain(hyp_el_lower *l, const hyp_el_ins *ins, const char *what)
{
    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "(%s", ins->at->items[0]->text);
    for (uint32_t i = 0; i < ins->count; i++) {
        uint32_t sort = l->regs.data[hyp_el_reg_of(l, ins->args[i])].sort;
        hyp_strbuf_printf(&sb, " %s", sort == HYP_EL_NONE ? "?" : l->db->sorts.data[sort].name);
    }
    hyp_status status = hyp_sexpr_fail(l->diag, l->file, ins->at, HYP_ERR_MALFORMED, "%s %s)", what, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

hyp_status hyp_el_infer(hyp_el_lower *l, hyp_el_ins *ins, size_t count)
{
    const hyp_el_ins *open = NULL;
    for (bool changed = true; changed;) {
        changed = false;
        open = NULL;
        for (size_t i = 0; i < count; i++) {
            form f = {0};
            if (ins[i].op != HYP_EL_PRIM || ins[i].target != HYP_EL_NONE) continue;
            uint32_t found = candidates(l, &ins[i], &f);
            if (!found) return complain(l, &ins[i], "no primitive is");
            if (found > 1 || waits_for_sort(l, &ins[i], &f)) {
                open = &ins[i];
                continue;
            }
            HYP_TRY(settle(l, &ins[i], &f));
            changed = true;
        }
    }
    return open ? complain(l, open, "it is not known which primitive is meant by") : HYP_OK;
}
