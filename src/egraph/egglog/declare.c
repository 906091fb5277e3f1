/* declare.c - commands that declare: sorts, constructors, functions, relations, rulesets, rules, names of values. */
#include <string.h>

#include "egraph/egglog/db.h"

#define FAIL(sx, status, ...) hyp_sexpr_fail(r->diag, r->file, (sx), (status), __VA_ARGS__)

static hyp_status symbol(hyp_el_reader *r, const hyp_sexpr *form, uint32_t i, const char *what, const char **out)
{
    if (form->count <= i || form->items[i]->kind != HYP_SX_SYMBOL)
        return FAIL(form->count <= i ? form : form->items[i], HYP_ERR_MALFORMED, "%s is wanted here", what);
    *out = form->items[i]->text;
    return HYP_OK;
}

/* An option `:name VALUE` of a form from item `from` on; NULL where it is not there. */
static const hyp_sexpr *option(const hyp_sexpr *form, uint32_t from, const char *name)
{
    for (uint32_t i = from; i + 1 < form->count; i++)
        if (hyp_sexpr_is(form->items[i], name)) return form->items[i + 1];
    return NULL;
}
static bool flag(const hyp_sexpr *form, uint32_t from, const char *name)
{
    for (uint32_t i = from; i < form->count; i++)
        if (hyp_sexpr_is(form->items[i], name)) return true;
    return false;
}

/* Refuses options that are not among the words of `known`, flags after "|". */
static hyp_status check_options(hyp_el_reader *r, const hyp_sexpr *form, uint32_t from, const char *const *known)
{
    for (uint32_t i = from; i < form->count; i++) {
        const hyp_sexpr *sx = form->items[i];
        bool is_flag = false, found = false;
        for (size_t k = 0; known[k] && !found; k++) {
            if (strcmp(known[k], "|") == 0)
                is_flag = true;
            else
                found = hyp_sexpr_is(sx, known[k]);
        }
        if (!found && sx->kind == HYP_SX_SYMBOL && *sx->text == ':')
            return FAIL(sx, HYP_ERR_UNSUPPORTED, "the option %s is not read", sx->text);
        if (!found) return FAIL(sx, HYP_ERR_MALFORMED, "an option is wanted here");
        if (!is_flag && ++i >= form->count) return FAIL(sx, HYP_ERR_MALFORMED, "%s takes a value", sx->text);
    }
    return HYP_OK;
}

/* ---- sorts -------------------------------------------------------------------------------------------------- */

static hyp_status add_sort(hyp_el_reader *r, const hyp_sexpr *at, const char *name, hyp_el_sort sort)
{
    hyp_egglog *db = r->db;
    uint32_t id;
    HYP_TRY(hyp_el_name_of(db, name, &id, r->diag));
    if (db->named.data[id].sort != HYP_EL_NONE) return FAIL(at, HYP_ERR_MALFORMED, "there is a sort %s already", name);
    sort.name = db->names.names.data[id];
    HYP_TRY(hyp_vec_push(&db->sorts, r->diag, sort));
    db->named.data[id].sort = (uint32_t)db->sorts.len - 1;
    return HYP_OK;
}

static hyp_status find_sort(hyp_el_reader *r, const hyp_sexpr *sx, uint32_t *out)
{
    static const char *const absent[] = {"BigInt", "BigRat", "Rational", NULL};
    if (sx->kind != HYP_SX_SYMBOL) return FAIL(sx, HYP_ERR_MALFORMED, "the name of a sort is wanted here");
    *out = hyp_el_sort_named(r->db, sx->text);
    if (*out != HYP_EL_NONE) return HYP_OK;
    for (size_t i = 0; absent[i]; i++)
        if (hyp_sexpr_is(sx, absent[i])) return FAIL(sx, HYP_ERR_UNSUPPORTED, "the sort %s is not read", absent[i]);
    const char **names = hyp_malloc((r->db->sorts.len + 1) * sizeof *names);
    const char *near = NULL;
    for (size_t i = 0; names && i < r->db->sorts.len; i++) names[i] = r->db->sorts.data[i].name;
    if (names) {
        names[r->db->sorts.len] = NULL;
        near = hyp_nearest(sx->text, names);
    }
    hyp_free(names);
    return FAIL(sx, HYP_ERR_MALFORMED, "there is no sort %s%s%s%s", sx->text, near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

/* (sort NAME), (sort NAME (Vec S)) */
static hyp_status declare_sort(hyp_el_reader *r, const hyp_sexpr *form)
{
    static const char *const containers[] = {"Vec", "Set", "Map"};
    const char *name, *kind;
    HYP_TRY(symbol(r, form, 1, "the name of a sort", &name));
    if (form->count == 2) return add_sort(r, form, name, (hyp_el_sort){.kind = HYP_EL_EQ, .ids = true});
    const hyp_sexpr *of = form->items[2];
    if (of->kind != HYP_SX_LIST || form->count != 3) return FAIL(of, HYP_ERR_UNSUPPORTED, "a sort with options is not read");
    HYP_TRY(symbol(r, of, 0, "Vec, Set or Map", &kind));
    for (uint32_t k = 0; k < 3; k++) {
        if (strcmp(kind, containers[k]) != 0) continue;
        hyp_el_sort sort = {.kind = (hyp_el_sort_kind)(HYP_EL_VEC + k), .key = HYP_EL_NONE};
        if (of->count != (k == 2 ? 3u : 2u))
            return FAIL(of, HYP_ERR_MALFORMED, "(%s ..) takes %d sort%s", kind, k == 2 ? 2 : 1, k == 2 ? "s" : "");
        if (k == 2) HYP_TRY(find_sort(r, of->items[1], &sort.key));
        HYP_TRY(find_sort(r, of->items[of->count - 1], &sort.element));
        sort.ids = r->db->sorts.data[sort.element].ids || (k == 2 && r->db->sorts.data[sort.key].ids);
        return add_sort(r, form, name, sort);
    }
    return FAIL(of, HYP_ERR_UNSUPPORTED, "sorts of %s are not read", kind);
}

/* ---- functions ------------------------------------------------------------------------------------------------- */

hyp_status hyp_el_add_function(hyp_el_reader *r, const hyp_el_function *f, const hyp_sexpr *at, uint32_t *out)
{
    hyp_egglog *db = r->db;
    uint32_t id;
    HYP_TRY(hyp_el_name_of(db, f->name, &id, r->diag));
    if (db->named.data[id].function != HYP_EL_NONE) return FAIL(at, HYP_ERR_MALFORMED, "%s is declared already", f->name);
    hyp_el_function made = *f;
    made.name = db->names.names.data[id];
    made.table = (hyp_el_table){.width = f->arity + 1};
    for (uint32_t i = 0; i <= f->arity; i++) made.ids |= db->sorts.data[f->sorts[i]].ids;
    HYP_TRY(hyp_vec_push(&db->functions, r->diag, made));
    *out = db->named.data[id].function = (uint32_t)db->functions.len - 1;
    return HYP_OK;
}

/* Sorts of a list of names, and room for one more. */
static hyp_status read_sorts(hyp_el_reader *r, const hyp_sexpr *at, hyp_sexpr *const *items, uint32_t count,
                             hyp_el_function *f)
{
    if (count >= HYP_EL_MAX_COLUMNS)
        return FAIL(at, HYP_ERR_UNSUPPORTED, "%u arguments: at most %d are read", count, HYP_EL_MAX_COLUMNS - 1);
    f->arity = count;
    f->sorts = hyp_arena_zalloc(&r->db->arena, count + 1, sizeof *f->sorts);
    if (!f->sorts) return hyp_fail_memory(r->diag, (count + 1) * sizeof *f->sorts);
    for (uint32_t i = 0; i < count; i++) HYP_TRY(find_sort(r, items[i], &f->sorts[i]));
    return HYP_OK;
}

static hyp_status read_cost(hyp_el_reader *r, const hyp_sexpr *form, uint32_t from, hyp_el_function *f)
{
    static const char *const known[] = {":cost", "|", ":unextractable", NULL};
    const hyp_sexpr *cost = option(form, from, ":cost");
    HYP_TRY(check_options(r, form, from, known));
    f->unextractable = flag(form, from, ":unextractable");
    f->cost = 1;
    if (cost && (cost->kind != HYP_SX_INT || cost->integer < 0))
        return FAIL(cost, HYP_ERR_MALFORMED, ":cost takes an integer that is not negative");
    if (cost) f->cost = (double)cost->integer;
    return HYP_OK;
}

/* (NAME SORT* [:cost N] [:unextractable]) of a datatype */
static hyp_status declare_variant(hyp_el_reader *r, const hyp_sexpr *form, uint32_t sort)
{
    hyp_el_function f = {.kind = HYP_EL_CONSTRUCTOR};
    uint32_t end = 1, made;
    if (form->kind != HYP_SX_LIST) return FAIL(form, HYP_ERR_MALFORMED, "a variant is (NAME SORT ..)");
    HYP_TRY(symbol(r, form, 0, "the name of a constructor", &f.name));
    while (end < form->count && !(form->items[end]->kind == HYP_SX_SYMBOL && *form->items[end]->text == ':')) end++;
    HYP_TRY(read_sorts(r, form, form->items + 1, end - 1, &f));
    HYP_TRY(read_cost(r, form, end, &f));
    f.sorts[f.arity] = sort;
    return hyp_el_add_function(r, &f, form, &made);
}

static hyp_status declare_variants(hyp_el_reader *r, const hyp_sexpr *form, uint32_t from, const char *name)
{
    uint32_t sort = hyp_el_sort_named(r->db, name);
    for (uint32_t i = from; i < form->count; i++) HYP_TRY(declare_variant(r, form->items[i], sort));
    return HYP_OK;
}

static hyp_status declare_datatype(hyp_el_reader *r, const hyp_sexpr *form)
{
    const char *name;
    HYP_TRY(symbol(r, form, 1, "the name of a sort", &name));
    HYP_TRY(add_sort(r, form, name, (hyp_el_sort){.kind = HYP_EL_EQ, .ids = true}));
    return declare_variants(r, form, 2, name);
}

/* (datatype* (NAME VARIANT*) (sort NAME (Vec NAME))): all names are known to all. */
static hyp_status declare_datatypes(hyp_el_reader *r, const hyp_sexpr *form)
{
    const char *name;
    for (int pass = 0; pass < 3; pass++) {
        for (uint32_t i = 1; i < form->count; i++) {
            const hyp_sexpr *part = form->items[i];
            if (part->kind != HYP_SX_LIST) return FAIL(part, HYP_ERR_MALFORMED, "a part is (NAME VARIANT ..) or (sort ..)");
            bool sort = hyp_sexpr_is_form(part, "sort");
            if (sort && pass == 1) HYP_TRY(declare_sort(r, part));
            if (sort) continue;
            HYP_TRY(symbol(r, part, 0, "the name of a sort", &name));
            if (pass == 0) HYP_TRY(add_sort(r, part, name, (hyp_el_sort){.kind = HYP_EL_EQ, .ids = true}));
            if (pass == 2) HYP_TRY(declare_variants(r, part, 1, name));
        }
    }
    return HYP_OK;
}

static hyp_status lower_merge(hyp_el_lower *l, uint32_t sort, const hyp_sexpr *merge, hyp_el_code **out)
{
    uint32_t old, new, result;
    l->for_what = "in :merge, which has old and new";
    HYP_TRY(hyp_el_lower_reg(l, "old", sort, &old));
    HYP_TRY(hyp_el_lower_reg(l, "new", sort, &new));
    l->in_head = l->may_look_up = true;
    HYP_TRY(hyp_el_lower_expr(l, merge, &result));
    HYP_TRY(hyp_el_lower_expect(l, result, sort, merge));
    HYP_TRY(hyp_el_infer(l, l->head.data, l->head.len));
    return hyp_el_lower_finish(l, result, out);
}

/* (constructor NAME (SORT*) SORT ..), (relation NAME (SORT*)), (function NAME (SORT*) SORT :merge E | :no-merge) */
static hyp_status declare_function(hyp_el_reader *r, const hyp_sexpr *form, hyp_el_function_kind kind)
{
    static const char *const known[] = {":merge", "|", ":no-merge", NULL};
    hyp_el_function f = {.kind = kind, .cost = 1};
    uint32_t made, wanted = kind == HYP_EL_RELATION ? 3 : 4;
    HYP_TRY(symbol(r, form, 1, "a name", &f.name));
    if (form->count < wanted || form->items[2]->kind != HYP_SX_LIST)
        return FAIL(form, HYP_ERR_MALFORMED, "(%s NAME (SORT ..)%s)", form->items[0]->text, wanted == 3 ? "" : " SORT ..");
    HYP_TRY(read_sorts(r, form, form->items[2]->items, form->items[2]->count, &f));
    f.sorts[f.arity] = HYP_EL_UNIT;
    if (kind == HYP_EL_RELATION && form->count > 3)
        return FAIL(form->items[3], HYP_ERR_UNSUPPORTED, "options of a relation are not read");
    if (kind != HYP_EL_RELATION) HYP_TRY(find_sort(r, form->items[3], &f.sorts[f.arity]));
    if (kind == HYP_EL_CONSTRUCTOR && r->db->sorts.data[f.sorts[f.arity]].kind != HYP_EL_EQ)
        return FAIL(form->items[3], HYP_ERR_MALFORMED, "a constructor makes terms of a sort of the program, not %s",
                    form->items[3]->text);
    if (kind == HYP_EL_CONSTRUCTOR) HYP_TRY(read_cost(r, form, 4, &f));
    if (kind != HYP_EL_FUNCTION) return hyp_el_add_function(r, &f, form, &made);
    HYP_TRY(check_options(r, form, 4, known));
    const hyp_sexpr *merge = option(form, 4, ":merge");
    f.no_merge = flag(form, 4, ":no-merge");
    if (f.no_merge == (merge != NULL))
        return FAIL(form, HYP_ERR_MALFORMED, "a function has either :merge EXPRESSION or :no-merge");
    if (merge) {
        hyp_el_lower l;
        hyp_el_lower_begin(&l, r->db, r->file, false, r->diag);
        hyp_status status = lower_merge(&l, f.sorts[f.arity], merge, &f.merge);
        hyp_el_lower_dispose(&l);
        HYP_TRY(status);
    }
    return hyp_el_add_function(r, &f, form, &made);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static hyp_status find_ruleset(hyp_el_reader *r, const hyp_sexpr *form, uint32_t from, uint32_t *out)
{
    const hyp_sexpr *named = option(form, from, ":ruleset");
    *out = 0;
    if (!named) return HYP_OK;
    if (named->kind == HYP_SX_SYMBOL) *out = hyp_el_ruleset_named(r->db, named->text);
    if (named->kind != HYP_SX_SYMBOL || *out == HYP_EL_NONE)
        return FAIL(named, HYP_ERR_MALFORMED, "there is no such ruleset");
    if (r->db->rulesets.data[*out].parts.len)
        return FAIL(named, HYP_ERR_MALFORMED, "%s combines rulesets, and has no rules of its own", named->text);
    return HYP_OK;
}

static hyp_status add_rule(hyp_el_reader *r, const hyp_sexpr *form, uint32_t from, hyp_el_code *code)
{
    hyp_egglog *db = r->db;
    hyp_el_rule rule = {.code = code};
    HYP_TRY(find_ruleset(r, form, from, &rule.ruleset));
    HYP_TRY(hyp_vec_push(&db->rules, r->diag, rule));
    return hyp_vec_push(&db->rulesets.data[rule.ruleset].rules, r->diag, (uint32_t)db->rules.len - 1);
}

static hyp_status lower_rule(hyp_el_lower *l, const hyp_sexpr *form, hyp_el_code **out)
{
    const hyp_sexpr *facts = form->items[1], *actions = form->items[2];
    l->for_what = "in this rule";
    for (uint32_t i = 0; i < facts->count; i++) HYP_TRY(hyp_el_lower_fact(l, facts->items[i]));
    HYP_TRY(hyp_el_lower_turn(l));
    for (uint32_t i = 0; i < actions->count; i++) HYP_TRY(hyp_el_lower_action(l, actions->items[i]));
    return hyp_el_lower_finish(l, HYP_EL_NONE, out);
}

/* (rewrite L R): a match of L is united with R. `left` and `right` are the places of L and R in the form. L may be a
 * variable that :when binds. */
static hyp_status lower_rewrite(hyp_el_lower *l, const hyp_sexpr *form, uint32_t left, uint32_t right, hyp_el_code **out)
{
    const hyp_sexpr *when = option(form, 3, ":when"), *from = form->items[left];
    bool subsume = flag(form, 3, ":subsume");
    uint32_t pair[2];
    l->for_what = "in this rewrite";
    HYP_TRY(hyp_el_lower_expr(l, from, &pair[0]));
    hyp_el_ins match = l->body.len ? l->body.data[l->body.len - 1] : (hyp_el_ins){.op = HYP_EL_SAME};
    bool term = from->kind == HYP_SX_LIST && match.op == HYP_EL_ATOM &&
                l->db->functions.data[match.target].kind == HYP_EL_CONSTRUCTOR;
    if (!term && (subsume || from->kind != HYP_SX_SYMBOL))
        return hyp_sexpr_fail(l->diag, l->file, from, HYP_ERR_MALFORMED,
                              "the left side of a rewrite is a term of a constructor");
    for (uint32_t i = 0; when && i < when->count; i++) HYP_TRY(hyp_el_lower_fact(l, when->items[i]));
    HYP_TRY(hyp_el_lower_turn(l));
    HYP_TRY(hyp_el_lower_expr(l, form->items[right], &pair[1]));
    HYP_TRY(hyp_el_infer(l, l->head.data, l->head.len));
    HYP_TRY(hyp_el_lower_unite(l, pair, form, form->items[right]));
    if (subsume) HYP_TRY(hyp_el_lower_emit(l, HYP_EL_SUBSUME, match.target, match.args, match.count - 1, HYP_EL_NONE, form));
    return hyp_el_lower_finish(l, HYP_EL_NONE, out);
}

static hyp_status declare_rule(hyp_el_reader *r, const hyp_sexpr *form)
{
    static const char *const known[] = {":ruleset", ":name", NULL};
    if (form->count < 3 || form->items[1]->kind != HYP_SX_LIST || form->items[2]->kind != HYP_SX_LIST)
        return FAIL(form, HYP_ERR_MALFORMED, "(rule (FACT ..) (ACTION ..) ..)");
    HYP_TRY(check_options(r, form, 3, known));
    hyp_el_lower l;
    hyp_el_code *code = NULL;
    hyp_el_lower_begin(&l, r->db, r->file, false, r->diag);
    hyp_status status = lower_rule(&l, form, &code);
    hyp_el_lower_dispose(&l);
    return status == HYP_OK ? add_rule(r, form, 3, code) : status;
}

static hyp_status declare_rewrite(hyp_el_reader *r, const hyp_sexpr *form, bool both)
{
    static const char *const known[] = {":ruleset", ":when", ":name", "|", ":subsume", NULL};
    if (form->count < 3) return FAIL(form, HYP_ERR_MALFORMED, "(%s LEFT RIGHT ..)", form->items[0]->text);
    HYP_TRY(check_options(r, form, 3, known));
    const hyp_sexpr *when = option(form, 3, ":when");
    if (when && when->kind != HYP_SX_LIST) return FAIL(when, HYP_ERR_MALFORMED, ":when takes (FACT ..)");
    for (int back = 0; back <= (both ? 1 : 0); back++) {
        hyp_el_lower l;
        hyp_el_code *code = NULL;
        hyp_el_lower_begin(&l, r->db, r->file, false, r->diag);
        hyp_status status = lower_rewrite(&l, form, back ? 2 : 1, back ? 1 : 2, &code);
        hyp_el_lower_dispose(&l);
        HYP_TRY(status);
        HYP_TRY(add_rule(r, form, 3, code));
    }
    return HYP_OK;
}

/* (ruleset NAME), (unstable-combined-ruleset NAME RULESET*) */
static hyp_status declare_ruleset(hyp_el_reader *r, const hyp_sexpr *form, bool combined)
{
    hyp_egglog *db = r->db;
    const char *name, *part;
    uint32_t id;
    hyp_el_ruleset made = {0};
    HYP_TRY(symbol(r, form, 1, "the name of a ruleset", &name));
    HYP_TRY(hyp_el_name_of(db, name, &id, r->diag));
    if (db->named.data[id].ruleset != HYP_EL_NONE)
        return FAIL(form, HYP_ERR_MALFORMED, "there is a ruleset %s already", name);
    if (!combined && form->count != 2) return FAIL(form, HYP_ERR_MALFORMED, "(ruleset NAME)");
    hyp_status status = HYP_OK;
    for (uint32_t i = 2; i < form->count && status == HYP_OK; i++) {
        status = symbol(r, form, i, "the name of a ruleset", &part);
        uint32_t found = status == HYP_OK ? hyp_el_ruleset_named(db, part) : HYP_EL_NONE;
        if (status == HYP_OK && found == HYP_EL_NONE)
            status = FAIL(form->items[i], HYP_ERR_MALFORMED, "there is no ruleset %s", part);
        if (status == HYP_OK) status = hyp_vec_push(&made.parts, r->diag, found);
    }
    made.name = db->names.names.data[id];
    if (status == HYP_OK) status = hyp_vec_push(&db->rulesets, r->diag, made);
    if (status != HYP_OK) {
        hyp_vec_free(&made.parts);
        return status;
    }
    db->named.data[id].ruleset = (uint32_t)db->rulesets.len - 1;
    return HYP_OK;
}

/* ---- names of values ------------------------------------------------------------------------------------------------ */

static hyp_status declare_let(hyp_el_reader *r, const hyp_sexpr *form)
{
    hyp_el_function f = {.kind = HYP_EL_GLOBAL, .unextractable = true};
    hyp_el_lower l;
    hyp_el_code *code = NULL;
    hyp_el_value value = 0;
    uint32_t reg, made;
    HYP_TRY(symbol(r, form, 1, "a name", &f.name));
    if (form->count != 3) return FAIL(form, HYP_ERR_MALFORMED, "(let NAME EXPRESSION)");
    f.sorts = hyp_arena_zalloc(&r->db->arena, 1, sizeof *f.sorts);
    if (!f.sorts) return hyp_fail_memory(r->diag, sizeof *f.sorts);
    hyp_el_lower_begin(&l, r->db, r->file, true, r->diag);
    l.in_head = l.may_look_up = true;
    hyp_status status = hyp_el_lower_expr(&l, form->items[2], &reg);
    if (status == HYP_OK) status = hyp_el_infer(&l, l.head.data, l.head.len);
    if (status == HYP_OK) status = hyp_el_lower_finish(&l, reg, &code);
    if (status == HYP_OK) status = hyp_el_evaluate(r->db, code, NULL, 0, &value, r->diag);
    if (status == HYP_OK) f.sorts[0] = code->result_sort;
    hyp_el_lower_dispose(&l);
    HYP_TRY(status);
    HYP_TRY(hyp_el_add_function(r, &f, form, &made));
    return hyp_el_put(r->db, made, &value, r->diag);
}

hyp_status hyp_el_declare(hyp_el_reader *r, const hyp_sexpr *form, bool *out_known)
{
    *out_known = true;
    if (hyp_sexpr_is_form(form, "sort")) return declare_sort(r, form);
    if (hyp_sexpr_is_form(form, "datatype")) return declare_datatype(r, form);
    if (hyp_sexpr_is_form(form, "datatype*")) return declare_datatypes(r, form);
    if (hyp_sexpr_is_form(form, "constructor")) return declare_function(r, form, HYP_EL_CONSTRUCTOR);
    if (hyp_sexpr_is_form(form, "relation")) return declare_function(r, form, HYP_EL_RELATION);
    if (hyp_sexpr_is_form(form, "function")) return declare_function(r, form, HYP_EL_FUNCTION);
    if (hyp_sexpr_is_form(form, "rule")) return declare_rule(r, form);
    if (hyp_sexpr_is_form(form, "rewrite")) return declare_rewrite(r, form, false);
    if (hyp_sexpr_is_form(form, "birewrite")) return declare_rewrite(r, form, true);
    if (hyp_sexpr_is_form(form, "ruleset")) return declare_ruleset(r, form, false);
    if (hyp_sexpr_is_form(form, "unstable-combined-ruleset")) return declare_ruleset(r, form, true);
    if (hyp_sexpr_is_form(form, "let")) return declare_let(r, form);
    *out_known = false;
    return HYP_OK;
}
