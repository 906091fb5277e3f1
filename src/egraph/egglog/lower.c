/* lower.c - from facts and actions to flat code. */
#include <string.h>

#include "egraph/egglog/db.h"

#define FAIL(sx, status, ...) hyp_sexpr_fail(l->diag, l->file, (sx), (status), __VA_ARGS__)

void hyp_el_lower_begin(hyp_el_lower *l, hyp_egglog *db, const char *file, bool once, hyp_diag *diag)
{
    *l = (hyp_el_lower){.db = db, .file = file, .diag = diag, .for_what = "here"};
    l->arena = once ? &l->scratch : &db->arena;
}

void hyp_el_lower_dispose(hyp_el_lower *l)
{
    hyp_vec_free(&l->regs);
    hyp_vec_free(&l->body);
    hyp_vec_free(&l->head);
    hyp_arena_dispose(&l->scratch);
}

/* ---- registers ---------------------------------------------------------------------------------------- */

hyp_status hyp_el_lower_reg(hyp_el_lower *l, const char *name, uint32_t sort, uint32_t *out)
{
    *out = (uint32_t)l->regs.len;
    return hyp_vec_push(&l->regs, l->diag, (hyp_el_reg){.name = name, .sort = sort, .same = *out});
}

static hyp_status constant(hyp_el_lower *l, uint32_t sort, hyp_el_value value, uint32_t *out)
{
    HYP_TRY(hyp_el_lower_reg(l, NULL, sort, out));
    l->regs.data[*out].constant = true;
    l->regs.data[*out].value = value;
    return HYP_OK;
}

static uint32_t reg_named(const hyp_el_lower *l, const char *name)
{
    for (size_t i = l->regs.len; i-- > 0;)
        if (l->regs.data[i].name && strcmp(l->regs.data[i].name, name) == 0) return (uint32_t)i;
    return HYP_EL_NONE;
}

hyp_status hyp_el_lower_expect(hyp_el_lower *l, uint32_t reg, uint32_t sort, const hyp_sexpr *at)
{
    hyp_el_reg *r = &l->regs.data[hyp_el_reg_of(l, reg)];
    if (r->sort == HYP_EL_NONE) r->sort = sort;
    if (r->sort == sort) return HYP_OK;
    return FAIL(at, HYP_ERR_MALFORMED, "this is of sort %s, and %s is wanted", l->db->sorts.data[r->sort].name,
                l->db->sorts.data[sort].name);
}

/* States that two registers are equal. */
static hyp_status equate(hyp_el_lower *l, uint32_t a, uint32_t b, const hyp_sexpr *at)
{
    a = hyp_el_reg_of(l, a);
    b = hyp_el_reg_of(l, b);
    if (a == b) return HYP_OK;
    if (l->regs.data[a].sort != HYP_EL_NONE) HYP_TRY(hyp_el_lower_expect(l, b, l->regs.data[a].sort, at));
    if (l->regs.data[b].sort != HYP_EL_NONE) HYP_TRY(hyp_el_lower_expect(l, a, l->regs.data[b].sort, at));
    if (l->regs.data[a].constant && l->regs.data[b].constant)
        return hyp_el_lower_emit(l, HYP_EL_SAME, 0, (uint32_t[]){a, b}, 2, HYP_EL_NONE, at);
    if (l->regs.data[b].constant)
        l->regs.data[a].same = b;
    else
        l->regs.data[b].same = a;
    return HYP_OK;
}

hyp_status hyp_el_lower_emit(hyp_el_lower *l, hyp_el_op op, uint32_t target, const uint32_t *args, uint32_t count,
                             uint32_t out, const hyp_sexpr *at)
{
    hyp_el_ins ins = {.op = op, .target = target, .out = out, .count = count, .at = at};
    ins.args = hyp_arena_alloc(l->arena, (count + 1) * sizeof *ins.args);
    if (!ins.args) return hyp_fail_memory(l->diag, (count + 1) * sizeof *ins.args);
    if (count) memcpy(ins.args, args, count * sizeof *args);
    return l->in_head ? hyp_vec_push(&l->head, l->diag, ins) : hyp_vec_push(&l->body, l->diag, ins);
}

/* ---- expressions ------------------------------------------------------------------------------------------ */

static hyp_status lower_number(hyp_el_lower *l, const hyp_sexpr *sx, uint32_t *out)
{
    hyp_el_value v;
    if (sx->kind == HYP_SX_INT) {
        HYP_TRY(hyp_el_i64(l->db, sx->integer, &v, l->diag));
        return constant(l, HYP_EL_I64, v, out);
    }
    if (!strpbrk(sx->text, ".eEnN")) return FAIL(sx, HYP_ERR_MALFORMED, "%.100s does not fit into an i64", sx->text);
    HYP_TRY(hyp_el_f64(l->db, sx->number, &v, l->diag));
    return constant(l, HYP_EL_F64, v, out);
}

static hyp_status lower_function(hyp_el_lower *l, uint32_t function, const hyp_sexpr *sx, const uint32_t *args,
                                 uint32_t count, uint32_t *out)
{
    const hyp_el_function *f = &l->db->functions.data[function];
    uint32_t columns[HYP_EL_MAX_COLUMNS];
    if (count != f->arity)
        return FAIL(sx, HYP_ERR_MALFORMED, "%s takes %u argument%s, and gets %u", f->name, f->arity,
                    f->arity == 1 ? "" : "s", count);
    if (l->in_head && f->kind == HYP_EL_FUNCTION && !l->may_look_up)
        return FAIL(sx, HYP_ERR_MALFORMED,
                    "%s is a function, whose value a right side cannot look up: match (= x (%s ..)) on the left", f->name,
                    f->name);
    for (uint32_t i = 0; i < count; i++) {
        HYP_TRY(hyp_el_lower_expect(l, args[i], f->sorts[i], sx->count > i + 1 ? sx->items[i + 1] : sx));
        columns[i] = args[i];
    }
    HYP_TRY(hyp_el_lower_reg(l, NULL, f->sorts[f->arity], out));
    columns[count] = *out;
    return hyp_el_lower_emit(l, l->in_head ? HYP_EL_CALL : HYP_EL_ATOM, function, columns, l->in_head ? count : count + 1,
                             *out, sx);
}

static hyp_status lower_name(hyp_el_lower *l, const hyp_sexpr *sx, uint32_t *out)
{
    const char *name = sx->text;
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) return constant(l, HYP_EL_BOOL, *name == 't', out);
    if (strcmp(name, "NaN") == 0) {
        hyp_el_value v;
        HYP_TRY(hyp_el_f64(l->db, (double)__builtin_nanf(""), &v, l->diag));
        return constant(l, HYP_EL_F64, v, out);
    }
    bool anonymous = strcmp(name, "_") == 0;
    uint32_t function = hyp_el_function_named(l->db, name);
    *out = anonymous ? HYP_EL_NONE : reg_named(l, name);
    if (*out != HYP_EL_NONE) return HYP_OK;
    if (function != HYP_EL_NONE && l->db->functions.data[function].kind == HYP_EL_GLOBAL)
        return lower_function(l, function, sx, NULL, 0, out);
    if (!l->in_head) return hyp_el_lower_reg(l, anonymous ? NULL : name, HYP_EL_NONE, out);
    if (function != HYP_EL_NONE) return FAIL(sx, HYP_ERR_MALFORMED, "%s is a function: a call of it is (%s)", name, name);
    return FAIL(sx, HYP_ERR_MALFORMED, "%s is not bound %s", name, l->for_what);
}

/* What egglog has and is not read, so that it is named. */
static bool is_unread(const char *name)
{
    static const char *const unread[] = {"bigint", "bigrat", "from-string", "numer", "denom", "rational", "vec-range", NULL};
    if (strncmp(name, "unstable-", 9) == 0 || strncmp(name, "multiset-", 9) == 0) return true;
    for (size_t i = 0; unread[i]; i++)
        if (strcmp(name, unread[i]) == 0) return true;
    return false;
}

/* There is no such function; says which is nearest. */
static hyp_status unknown(hyp_el_lower *l, const hyp_sexpr *sx)
{
    const char *name = sx->text, *near = NULL;
    if (is_unread(name)) return FAIL(sx, HYP_ERR_UNSUPPORTED, "the primitive %s is not read", name);
    const char **names = hyp_malloc((l->db->functions.len + 1) * sizeof *names);
    if (names) {
        size_t count = 0;
        for (size_t i = 0; i < l->db->functions.len; i++) names[count++] = l->db->functions.data[i].name;
        names[count] = NULL;
        near = hyp_nearest(name, names);
    }
    hyp_free(names);
    return FAIL(sx, HYP_ERR_MALFORMED, "there is no function or primitive %s%s%s%s", name, near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

static hyp_status lower_list(hyp_el_lower *l, const hyp_sexpr *sx, uint32_t *out)
{
    if (!sx->count) return constant(l, HYP_EL_UNIT, 0, out);
    const hyp_sexpr *head = sx->items[0];
    if (head->kind != HYP_SX_SYMBOL) return FAIL(head, HYP_ERR_MALFORMED, "a call begins with the name of a function");
    uint32_t function = hyp_el_function_named(l->db, head->text), count = sx->count - 1, at = 0;
    bool prim = hyp_el_next_prim(l->db, head->text, &at) != HYP_EL_NONE;
    if (function != HYP_EL_NONE && l->db->functions.data[function].kind == HYP_EL_GLOBAL) function = HYP_EL_NONE;
    if (function == HYP_EL_NONE && !prim) return unknown(l, head);
    uint32_t *args = hyp_malloc((count + 1) * sizeof *args);
    if (!args) return hyp_fail_memory(l->diag, (count + 1) * sizeof *args);
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < count && status == HYP_OK; i++) status = hyp_el_lower_expr(l, sx->items[i + 1], &args[i]);
    if (status == HYP_OK && function != HYP_EL_NONE) {
        status = lower_function(l, function, sx, args, count, out);
    } else if (status == HYP_OK) {
        status = hyp_el_lower_reg(l, NULL, HYP_EL_NONE, out);
        if (status == HYP_OK) status = hyp_el_lower_emit(l, HYP_EL_PRIM, HYP_EL_NONE, args, count, *out, sx);
    }
    hyp_free(args);
    return status;
}

hyp_status hyp_el_lower_expr(hyp_el_lower *l, const hyp_sexpr *sx, uint32_t *out)
{
    hyp_el_value v;
    switch (sx->kind) {
    case HYP_SX_INT:
    case HYP_SX_FLOAT: return lower_number(l, sx, out);
    case HYP_SX_STRING:
        HYP_TRY(hyp_el_string(l->db, sx->text, strlen(sx->text), &v, l->diag));
        return constant(l, HYP_EL_STRING, v, out);
    case HYP_SX_SYMBOL: return lower_name(l, sx, out);
    case HYP_SX_LIST: break;
    }
    return lower_list(l, sx, out);
}

/* ---- the left side ------------------------------------------------------------------------------------------- */

hyp_status hyp_el_lower_fact(hyp_el_lower *l, const hyp_sexpr *fact)
{
    uint32_t first, other;
    if (fact->kind != HYP_SX_LIST) return FAIL(fact, HYP_ERR_MALFORMED, "a fact is a call or (= ..)");
    if (!hyp_sexpr_is_form(fact, "=")) return hyp_el_lower_expr(l, fact, &first);
    if (fact->count < 3) return FAIL(fact, HYP_ERR_MALFORMED, "(= ..) takes two expressions or more");
    HYP_TRY(hyp_el_lower_expr(l, fact->items[1], &first));
    for (uint32_t i = 2; i < fact->count; i++) {
        HYP_TRY(hyp_el_lower_expr(l, fact->items[i], &other));
        HYP_TRY(equate(l, first, other, fact->items[i]));
    }
    return HYP_OK;
}

hyp_status hyp_el_lower_turn(hyp_el_lower *l)
{
    HYP_TRY(hyp_el_infer(l, l->body.data, l->body.len));
    for (size_t i = 0; i < l->body.len; i++) {
        const hyp_el_ins *ins = &l->body.data[i];
        if (ins->op == HYP_EL_ATOM)
            for (uint32_t j = 0; j < ins->count; j++) l->regs.data[hyp_el_reg_of(l, ins->args[j])].bound = true;
        if (ins->op == HYP_EL_PRIM) l->regs.data[hyp_el_reg_of(l, ins->out)].bound = true;
    }
    for (uint32_t i = 0; i < l->regs.len; i++) {
        const hyp_el_reg *r = &l->regs.data[hyp_el_reg_of(l, i)];
        if (r->bound || r->constant || !l->regs.data[i].name) continue;
        return hyp_fail(l->diag, HYP_ERR_MALFORMED, "%s: %s: nothing binds the variable %s", l->file, l->for_what,
                        l->regs.data[i].name);
    }
    l->in_head = true;
    return HYP_OK;
}

/* ---- the right side ---------------------------------------------------------------------------------------------- */

/* (f args): its function and the registers of the arguments. */
static hyp_status lower_place(hyp_el_lower *l, const hyp_sexpr *sx, uint32_t *out_function, uint32_t *args)
{
    bool call = sx->kind == HYP_SX_LIST && sx->count && sx->items[0]->kind == HYP_SX_SYMBOL;
    *out_function = call ? hyp_el_function_named(l->db, sx->items[0]->text) : HYP_EL_NONE;
    if (*out_function == HYP_EL_NONE)
        return FAIL(sx, HYP_ERR_MALFORMED, "a call of a function, constructor or relation is wanted");
    const hyp_el_function *f = &l->db->functions.data[*out_function];
    if (f->kind == HYP_EL_GLOBAL) return FAIL(sx, HYP_ERR_MALFORMED, "%s is a name of a value, not a function", f->name);
    if (sx->count - 1 != f->arity)
        return FAIL(sx, HYP_ERR_MALFORMED, "%s takes %u argument%s, and gets %u", f->name, f->arity,
                    f->arity == 1 ? "" : "s", sx->count - 1);
    for (uint32_t i = 0; i < f->arity; i++) {
        HYP_TRY(hyp_el_lower_expr(l, sx->items[i + 1], &args[i]));
        HYP_TRY(hyp_el_lower_expect(l, args[i], f->sorts[i], sx->items[i + 1]));
    }
    return HYP_OK;
}

static hyp_status lower_set(hyp_el_lower *l, const hyp_sexpr *sx)
{
    uint32_t function, args[HYP_EL_MAX_COLUMNS];
    HYP_TRY(lower_place(l, sx->items[1], &function, args));
    const hyp_el_function *f = &l->db->functions.data[function];
    if (f->kind != HYP_EL_FUNCTION)
        return FAIL(sx, HYP_ERR_MALFORMED, "%s is a %s, whose value cannot be set", f->name,
                    f->kind == HYP_EL_RELATION ? "relation" : "constructor");
    HYP_TRY(hyp_el_lower_expr(l, sx->items[2], &args[f->arity]));
    HYP_TRY(hyp_el_lower_expect(l, args[f->arity], f->sorts[f->arity], sx->items[2]));
    return hyp_el_lower_emit(l, HYP_EL_ASSIGN, function, args, f->arity + 1, HYP_EL_NONE, sx);
}

hyp_status hyp_el_lower_unite(hyp_el_lower *l, const uint32_t pair[2], const hyp_sexpr *at, const hyp_sexpr *second)
{
    uint32_t sort = l->regs.data[hyp_el_reg_of(l, pair[0])].sort;
    if (l->db->sorts.data[sort].kind != HYP_EL_EQ)
        return FAIL(at, HYP_ERR_MALFORMED, "values of sort %s cannot be united: they are not e-classes",
                    l->db->sorts.data[sort].name);
    HYP_TRY(hyp_el_lower_expect(l, pair[1], sort, second));
    return hyp_el_lower_emit(l, HYP_EL_UNION, 0, pair, 2, HYP_EL_NONE, at);
}

static hyp_status lower_union(hyp_el_lower *l, const hyp_sexpr *sx)
{
    uint32_t pair[2];
    HYP_TRY(hyp_el_lower_expr(l, sx->items[1], &pair[0]));
    HYP_TRY(hyp_el_lower_expr(l, sx->items[2], &pair[1]));
    HYP_TRY(hyp_el_infer(l, l->head.data, l->head.len));
    return hyp_el_lower_unite(l, pair, sx, sx->items[2]);
}

static hyp_status lower_let(hyp_el_lower *l, const hyp_sexpr *sx)
{
    uint32_t reg, named;
    if (sx->items[1]->kind != HYP_SX_SYMBOL) return FAIL(sx->items[1], HYP_ERR_MALFORMED, "(let NAME EXPRESSION)");
    const char *name = sx->items[1]->text;
    if (reg_named(l, name) != HYP_EL_NONE || hyp_el_function_named(l->db, name) != HYP_EL_NONE)
        return FAIL(sx->items[1], HYP_ERR_MALFORMED, "%s has a meaning already", name);
    HYP_TRY(hyp_el_lower_expr(l, sx->items[2], &reg));
    HYP_TRY(hyp_el_lower_reg(l, name, HYP_EL_NONE, &named));
    l->regs.data[named].same = hyp_el_reg_of(l, reg);
    return HYP_OK;
}

static hyp_status lower_action(hyp_el_lower *l, const hyp_sexpr *sx)
{
    static const struct {
        const char *name;
        uint32_t count;
    } forms[] = {{"let", 3}, {"set", 3}, {"union", 3}, {"delete", 2}, {"subsume", 2}, {"panic", 2}};
    uint32_t function, args[HYP_EL_MAX_COLUMNS];
    hyp_el_value text;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (hyp_sexpr_is_form(sx, forms[i].name) && sx->count != forms[i].count)
            return FAIL(sx, HYP_ERR_MALFORMED, "(%s ..) takes %u argument%s", forms[i].name, forms[i].count - 1,
                        forms[i].count == 2 ? "" : "s");
    if (hyp_sexpr_is_form(sx, "let")) return lower_let(l, sx);
    if (hyp_sexpr_is_form(sx, "set")) return lower_set(l, sx);
    if (hyp_sexpr_is_form(sx, "union")) return lower_union(l, sx);
    if (hyp_sexpr_is_form(sx, "panic")) {
        if (sx->items[1]->kind != HYP_SX_STRING) return FAIL(sx->items[1], HYP_ERR_MALFORMED, "(panic \"..\") takes a text");
        HYP_TRY(hyp_el_string(l->db, sx->items[1]->text, strlen(sx->items[1]->text), &text, l->diag));
        return hyp_el_lower_emit(l, HYP_EL_PANIC, text, NULL, 0, HYP_EL_NONE, sx);
    }
    bool removes = hyp_sexpr_is_form(sx, "delete");
    if (!removes && !hyp_sexpr_is_form(sx, "subsume")) return hyp_el_lower_expr(l, sx, &function);
    HYP_TRY(lower_place(l, sx->items[1], &function, args));
    const hyp_el_function *f = &l->db->functions.data[function];
    if (!removes && f->kind == HYP_EL_FUNCTION)
        return FAIL(sx, HYP_ERR_MALFORMED, "%s is a function: only terms and relations are subsumed", f->name);
    return hyp_el_lower_emit(l, removes ? HYP_EL_DELETE : HYP_EL_SUBSUME, function, args, f->arity, HYP_EL_NONE, sx);
}

hyp_status hyp_el_lower_action(hyp_el_lower *l, const hyp_sexpr *sx)
{
    if (sx->kind != HYP_SX_LIST || !sx->count)
        return FAIL(sx, HYP_ERR_MALFORMED, "an action is a call, let, set, union, delete, subsume or panic");
    HYP_TRY(lower_action(l, sx));
    return hyp_el_infer(l, l->head.data, l->head.len);
}

/* ---- code ------------------------------------------------------------------------------------------------------------ */

static hyp_status copy_code(hyp_el_lower *l, const hyp_el_ins *ins, size_t count, bool atoms, bool others, hyp_el_ins *to,
                            uint32_t *out_count)
{
    for (size_t i = 0; i < count; i++) {
        if (ins[i].op == HYP_EL_ATOM ? !atoms : !others) continue;
        hyp_el_ins *made = &to[(*out_count)++];
        *made = ins[i];
        for (uint32_t j = 0; j < made->count; j++) made->args[j] = hyp_el_reg_of(l, made->args[j]);
        if (made->out != HYP_EL_NONE) made->out = hyp_el_reg_of(l, made->out);
        made->at = NULL; /* it lives no longer than the text */
    }
    return HYP_OK;
}

hyp_status hyp_el_lower_finish(hyp_el_lower *l, uint32_t result, hyp_el_code **out)
{
    hyp_arena *arena = l->arena;
    hyp_el_code *code = hyp_arena_zalloc(arena, 1, sizeof *code);
    if (!code) return hyp_fail_memory(l->diag, sizeof *code);
    code->body = hyp_arena_zalloc(arena, l->body.len + 1, sizeof *code->body);
    code->head = hyp_arena_zalloc(arena, l->head.len + 1, sizeof *code->head);
    code->init = hyp_arena_zalloc(arena, l->regs.len + 1, sizeof *code->init);
    if (!code->body || !code->head || !code->init) return hyp_fail_memory(l->diag, l->regs.len * sizeof *code->init);
    HYP_TRY(copy_code(l, l->body.data, l->body.len, true, false, code->body, &code->atom_count));
    code->body_count = code->atom_count;
    HYP_TRY(copy_code(l, l->body.data, l->body.len, false, true, code->body, &code->body_count));
    HYP_TRY(copy_code(l, l->head.data, l->head.len, true, true, code->head, &code->head_count));
    code->reg_count = (uint32_t)l->regs.len;
    for (uint32_t i = 0; i < l->regs.len; i++) code->init[i] = l->regs.data[i].value;
    code->result = result == HYP_EL_NONE ? result : hyp_el_reg_of(l, result);
    code->result_sort = result == HYP_EL_NONE ? result : l->regs.data[code->result].sort;
    *out = code;
    return hyp_el_make_plans(l, code);
}
