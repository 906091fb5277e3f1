/* interface.c - the database as C programs see it: primitives of theirs, rows, JSON. */
#include <string.h>

#include "egraph/egglog/db.h"

enum { MOST_ARGUMENTS = 8 };

/* A primitive that C has registered. */
typedef struct registered {
    hyp_egglog_primitive_fn fn;
    void *user;
} registered;

static hyp_egglog_value to_c(hyp_egglog *db, uint32_t sort, hyp_el_value v)
{
    hyp_egglog_value out = {.kind = HYP_EGGLOG_UNIT};
    switch (db->sorts.data[sort].kind) {
    case HYP_EL_UNIT: break;
    case HYP_EL_BOOL: out = (hyp_egglog_value){.kind = HYP_EGGLOG_BOOL, .as.boolean = v != 0}; break;
    case HYP_EL_I64: out = (hyp_egglog_value){.kind = HYP_EGGLOG_I64, .as.i64 = hyp_el_get_i64(db, v)}; break;
    case HYP_EL_F64: out = (hyp_egglog_value){.kind = HYP_EGGLOG_F64, .as.f64 = hyp_el_get_f64(db, v)}; break;
    case HYP_EL_STRING: out = (hyp_egglog_value){.kind = HYP_EGGLOG_STRING, .as.string = hyp_el_get_string(db, v)}; break;
    case HYP_EL_EQ: out = (hyp_egglog_value){.kind = HYP_EGGLOG_ID, .as.id = hyp_el_find(db, v)}; break;
    case HYP_EL_VEC:
    case HYP_EL_SET:
    case HYP_EL_MAP: out = (hyp_egglog_value){.kind = HYP_EGGLOG_CONTAINER, .as.id = v}; break;
    }
    return out;
}

static hyp_status from_c(const hyp_el_call *call, const hyp_egglog_value *v, hyp_el_value *out)
{
    static const hyp_egglog_kind kinds[] = {HYP_EGGLOG_UNIT, HYP_EGGLOG_BOOL, HYP_EGGLOG_I64, HYP_EGGLOG_F64,
                                            HYP_EGGLOG_STRING};
    uint32_t sort = call->sorts[call->count];
    *out = 0;
    if (v->kind != kinds[sort] || (v->kind == HYP_EGGLOG_STRING && !v->as.string))
        return hyp_fail(call->diag, HYP_ERR_INVALID_ARGUMENT,
                        "a primitive registered for %s has given another kind of value", call->db->sorts.data[sort].name);
    switch (v->kind) {
    case HYP_EGGLOG_BOOL: *out = v->as.boolean; return HYP_OK;
    case HYP_EGGLOG_I64: return hyp_el_i64(call->db, v->as.i64, out, call->diag);
    case HYP_EGGLOG_F64: return hyp_el_f64(call->db, v->as.f64, out, call->diag);
    case HYP_EGGLOG_STRING:
        if (hyp_text_prefix(v->as.string, strlen(v->as.string)) != strlen(v->as.string))
            return hyp_fail(call->diag, HYP_ERR_INVALID_ARGUMENT, "a primitive has given text that is not UTF-8");
        return hyp_el_string(call->db, v->as.string, strlen(v->as.string), out, call->diag);
    default: return HYP_OK;
    }
}

static hyp_status call_registered(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    const registered *c = call->user;
    hyp_egglog_value args[MOST_ARGUMENTS], result = {.kind = HYP_EGGLOG_UNIT};
    for (uint32_t i = 0; i < call->count; i++) args[i] = to_c(call->db, call->sorts[i], call->args[i]);
    *out_holds = c->fn(args, call->count, &result, c->user);
    return *out_holds ? from_c(call, &result, out) : HYP_OK;
}

/* The character of a sort that a primitive of C may have; 0 for another. */
static char letter_of(const char *sort)
{
    static const char *const names[] = {"Unit", "bool", "i64", "f64", "String"};
    for (size_t i = 0; sort && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], sort) == 0) return "ubifs"[i];
    return 0;
}

hyp_status hyp_egglog_register(hyp_egglog *db, const char *name, const char *const *argument_sorts, size_t count,
                               const char *sort, hyp_egglog_primitive_fn fn, void *user, hyp_diag *diag)
{
    char letters[MOST_ARGUMENTS + 1] = {0};
    HYP_NEED(db);
    HYP_NEED(name);
    HYP_NEED(fn);
    HYP_NEED_LIST(argument_sorts, count);
    if (count > MOST_ARGUMENTS)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: %zu arguments: at most %d", name, count, MOST_ARGUMENTS);
    for (size_t i = 0; i <= count; i++) {
        const char *of = i == count ? sort : argument_sorts[i];
        char letter = letter_of(of);
        if (!letter)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "%s: the sort of a primitive is Unit, bool, i64, f64 or String, not %s", name, of ? of : "NULL");
        if (i < count)
            letters[i] = letter;
        else
            letters[MOST_ARGUMENTS] = letter;
    }
    registered *c = hyp_arena_zalloc(&db->arena, 1, sizeof *c);
    hyp_el_prim p = {
        .name = hyp_arena_strdup(&db->arena, name), .result = letters[MOST_ARGUMENTS], .fn = call_registered, .user = c};
    p.args = hyp_arena_strndup(&db->arena, letters, count);
    if (!c || !p.name || !p.args) return hyp_fail_memory(diag, sizeof *c);
    *c = (registered){fn, user};
    return hyp_vec_push(&db->prims, diag, p);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

static hyp_status table_named(const hyp_egglog *db, const char *name, uint32_t *out, hyp_diag *diag)
{
    *out = hyp_el_function_named(db, name);
    return *out == HYP_EL_NONE ? hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "there is no table %s", name) : HYP_OK;
}

hyp_status hyp_egglog_size(const hyp_egglog *db, const char *table, size_t *out, hyp_diag *diag)
{
    uint32_t function;
    HYP_NEED(db);
    HYP_NEED(table);
    HYP_NEED(out);
    HYP_TRY(table_named(db, table, &function, diag));
    *out = db->functions.data[function].table.live;
    return HYP_OK;
}

hyp_status hyp_egglog_rows(hyp_egglog *db, const char *table, hyp_egglog_row_fn fn, void *user, hyp_diag *diag)
{
    hyp_egglog_value columns[HYP_EL_MAX_COLUMNS];
    uint32_t function;
    HYP_NEED(db);
    HYP_NEED(table);
    HYP_NEED(fn);
    HYP_TRY(table_named(db, table, &function, diag));
    HYP_TRY(hyp_el_rebuild(db, diag));
    const hyp_el_function *f = &db->functions.data[function];
    for (size_t row = 0; row < f->table.count; row++) {
        const uint32_t *r = hyp_el_row(&f->table, row);
        if (r[f->table.width] == HYP_EL_DEAD) continue;
        for (uint32_t c = 0; c <= f->arity; c++) columns[c] = to_c(db, f->sorts[c], r[c]);
        HYP_TRY(fn(columns, f->arity + 1, r[f->table.width] & HYP_EL_SUBSUMED, user, diag));
    }
    return HYP_OK;
}
