/* primitive.c - functions of numbers, truth values and text, and what C programs register.
 *
 * Sorts of arguments and results are characters: u Unit, b bool, i i64, f f64, s String, T any sort (one for all of them);
 * C a container, K and E the sorts of its keys and elements. */
#include <math.h>
#include <string.h>

#include "egraph/egglog/db.h"

#define I(n) hyp_el_get_i64(call->db, call->args[n])
#define F(n) hyp_el_get_f64(call->db, call->args[n])
#define S(n) hyp_el_get_string(call->db, call->args[n])

/* A primitive of one expression each; `holds` may be cleared where there is no value. */
#define PRIM(name, body)                                                                                                    \
    static hyp_status name(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)                                     \
    {                                                                                                                       \
        (void)call;                                                                                                         \
        *out = 0;                                                                                                           \
        body                                                                                                                \
    }
#define GIVES_I64(name, ok, value)                                                                                          \
    PRIM(name, int64_t r = 0; *out_holds = (ok); if (*out_holds) r = (value);                                               \
         return hyp_el_i64(call->db, r, out, call->diag);)
#define GIVES_F64(name, ok, value) PRIM(name, *out_holds = (ok); return hyp_el_f64(call->db, (value), out, call->diag);)
#define GIVES_BOOL(name, value) PRIM(name, *out_holds = true; *out = (value) ? 1 : 0; return HYP_OK;)
#define HOLDS(name, value) PRIM(name, *out_holds = (value); return HYP_OK;)

/* ---- i64: no value where the result does not fit ------------------------------------------------------------ */

#define CHECKED(name, builtin)                                                                                              \
    PRIM(name, int64_t r; *out_holds = !builtin(I(0), I(1), &r);                                                            \
         return *out_holds ? hyp_el_i64(call->db, r, out, call->diag) : HYP_OK;)
CHECKED(i_add, __builtin_add_overflow)
CHECKED(i_sub, __builtin_sub_overflow)
CHECKED(i_mul, __builtin_mul_overflow)
static bool divides(int64_t a, int64_t b) { return b != 0 && !(a == INT64_MIN && b == -1); }
static int64_t shifted(int64_t a, int64_t by, bool left)
{
    return left ? (int64_t)((uint64_t)a << by) : a < 0 ? (int64_t) ~(~(uint64_t)a >> by) : (int64_t)((uint64_t)a >> by);
}
static int64_t log2_of(int64_t a) { return 63 - __builtin_clzll((uint64_t)a); }
GIVES_I64(i_div, divides(I(0), I(1)), I(0) / I(1))
GIVES_I64(i_rem, divides(I(0), I(1)), I(0) % I(1))
GIVES_I64(i_and, true, I(0) & I(1))
GIVES_I64(i_or, true, I(0) | I(1))
GIVES_I64(i_xor, true, I(0) ^ I(1))
GIVES_I64(i_shl, I(1) >= 0 && I(1) < 64, shifted(I(0), I(1), true))
GIVES_I64(i_shr, I(1) >= 0 && I(1) < 64, shifted(I(0), I(1), false))
GIVES_I64(i_not, true, ~I(0))
GIVES_I64(i_neg, I(0) != INT64_MIN, -I(0))
GIVES_I64(i_abs, I(0) != INT64_MIN, I(0) < 0 ? -I(0) : I(0))
GIVES_I64(i_log2, I(0) > 0, log2_of(I(0)))
GIVES_I64(i_min, true, I(0) < I(1) ? I(0) : I(1))
GIVES_I64(i_max, true, I(0) > I(1) ? I(0) : I(1))
HOLDS(i_lt, I(0) < I(1))
HOLDS(i_gt, I(0) > I(1))
HOLDS(i_le, I(0) <= I(1))
HOLDS(i_ge, I(0) >= I(1))
GIVES_BOOL(i_bool_lt, I(0) < I(1))
GIVES_BOOL(i_bool_gt, I(0) > I(1))
GIVES_BOOL(i_bool_le, I(0) <= I(1))
GIVES_BOOL(i_bool_ge, I(0) >= I(1))
GIVES_F64(i_to_f64, true, (double)I(0))

/* ---- f64 -------------------------------------------------------------------------------------------------- */

GIVES_F64(f_add, true, F(0) + F(1))
GIVES_F64(f_sub, true, F(0) - F(1))
GIVES_F64(f_mul, true, F(0) * F(1))
GIVES_F64(f_div, F(1) != 0, F(0) / F(1))
GIVES_F64(f_rem, F(1) != 0, fmod(F(0), F(1)))
GIVES_F64(f_pow, true, pow(F(0), F(1)))
GIVES_F64(f_neg, true, -F(0))
GIVES_F64(f_abs, true, fabs(F(0)))
GIVES_F64(f_min, true, F(0) < F(1) ? F(0) : F(1))
GIVES_F64(f_max, true, F(0) > F(1) ? F(0) : F(1))
HOLDS(f_lt, F(0) < F(1))
HOLDS(f_gt, F(0) > F(1))
HOLDS(f_le, F(0) <= F(1))
HOLDS(f_ge, F(0) >= F(1))
static bool fits_i64(double f) { return f >= -9223372036854775808.0 && f < 9223372036854775808.0; }
GIVES_I64(f_to_i64, fits_i64(F(0)), (int64_t)F(0))

/* ---- bool and any sort --------------------------------------------------------------------------------------- */

GIVES_BOOL(b_not, !call->args[0])
GIVES_BOOL(b_and, call->args[0] && call->args[1])
GIVES_BOOL(b_or, call->args[0] || call->args[1])
GIVES_BOOL(b_xor, call->args[0] != call->args[1])
GIVES_BOOL(b_implies, !call->args[0] || call->args[1])
HOLDS(b_guard, call->args[0] != 0)
HOLDS(differ, call->args[0] != call->args[1])
HOLDS(equal, call->args[0] == call->args[1])
GIVES_BOOL(bool_equal, call->args[0] == call->args[1])
GIVES_BOOL(bool_differ, call->args[0] != call->args[1])
PRIM(least, *out = call->args[call->args[0] < call->args[1] ? 0 : 1]; *out_holds = true; return HYP_OK;)
PRIM(greatest, *out = call->args[call->args[0] > call->args[1] ? 0 : 1]; *out_holds = true; return HYP_OK;)

/* ---- String ---------------------------------------------------------------------------------------------------- */

static hyp_status give_text(const hyp_el_call *call, hyp_strbuf *sb, hyp_el_value *out, bool *out_holds)
{
    hyp_status status = sb->failed ? hyp_fail_memory(call->diag, sb->len)
                                   : hyp_el_string(call->db, hyp_strbuf_text(sb), sb->len, out, call->diag);
    hyp_strbuf_dispose(sb);
    *out_holds = status == HYP_OK;
    return status;
}

static hyp_status s_concat(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    hyp_strbuf sb = {0};
    for (uint32_t i = 0; i < call->count; i++) hyp_strbuf_puts(&sb, S(i));
    return give_text(call, &sb, out, out_holds);
}

static hyp_status s_replace(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    hyp_strbuf sb = {0};
    const char *text = S(0), *what = S(1), *by = S(2);
    size_t len = strlen(what);
    for (const char *at; len && (at = strstr(text, what)) != NULL; text = at + len) {
        hyp_strbuf_add(&sb, text, (size_t)(at - text));
        hyp_strbuf_puts(&sb, by);
    }
    hyp_strbuf_puts(&sb, text);
    return give_text(call, &sb, out, out_holds);
}

static int64_t count_matches(const char *text, const char *what)
{
    int64_t count = 0;
    size_t len = strlen(what);
    while (len && (text = strstr(text, what)) != NULL) {
        text += len;
        count++;
    }
    return count;
}
GIVES_I64(s_count, true, count_matches(S(0), S(1)))

static hyp_status to_string(const hyp_el_call *call, hyp_el_value *out, bool *out_holds)
{
    hyp_strbuf sb = {0};
    hyp_el_print_literal(call->db, call->sorts[0], call->args[0], &sb);
    return give_text(call, &sb, out, out_holds);
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

const hyp_el_prim hyp_el_builtin_prims[] = {
    {"+", "ii", 'i', .fn = i_add},
    {"-", "ii", 'i', .fn = i_sub},
    {"*", "ii", 'i', .fn = i_mul},
    {"/", "ii", 'i', .fn = i_div},
    {"%", "ii", 'i', .fn = i_rem},
    {"&", "ii", 'i', .fn = i_and},
    {"|", "ii", 'i', .fn = i_or},
    {"^", "ii", 'i', .fn = i_xor},
    {"<<", "ii", 'i', .fn = i_shl},
    {">>", "ii", 'i', .fn = i_shr},
    {"not-i64", "i", 'i', .fn = i_not},
    {"neg", "i", 'i', .fn = i_neg},
    {"abs", "i", 'i', .fn = i_abs},
    {"log2", "i", 'i', .fn = i_log2},
    {"min", "ii", 'i', .fn = i_min},
    {"max", "ii", 'i', .fn = i_max},
    {"<", "ii", 'u', .fn = i_lt},
    {">", "ii", 'u', .fn = i_gt},
    {"<=", "ii", 'u', .fn = i_le},
    {">=", "ii", 'u', .fn = i_ge},
    {"bool-<", "ii", 'b', .fn = i_bool_lt},
    {"bool->", "ii", 'b', .fn = i_bool_gt},
    {"bool-<=", "ii", 'b', .fn = i_bool_le},
    {"bool->=", "ii", 'b', .fn = i_bool_ge},
    {"to-f64", "i", 'f', .fn = i_to_f64},
    {"to-string", "i", 's', .fn = to_string},
    {"+", "ff", 'f', .fn = f_add},
    {"-", "ff", 'f', .fn = f_sub},
    {"*", "ff", 'f', .fn = f_mul},
    {"/", "ff", 'f', .fn = f_div},
    {"%", "ff", 'f', .fn = f_rem},
    {"^", "ff", 'f', .fn = f_pow},
    {"neg", "f", 'f', .fn = f_neg},
    {"abs", "f", 'f', .fn = f_abs},
    {"min", "ff", 'f', .fn = f_min},
    {"max", "ff", 'f', .fn = f_max},
    {"<", "ff", 'u', .fn = f_lt},
    {">", "ff", 'u', .fn = f_gt},
    {"<=", "ff", 'u', .fn = f_le},
    {">=", "ff", 'u', .fn = f_ge},
    {"to-i64", "f", 'i', .fn = f_to_i64},
    {"to-string", "f", 's', .fn = to_string},
    {"not", "b", 'b', .fn = b_not},
    {"and", "bb", 'b', .fn = b_and},
    {"or", "bb", 'b', .fn = b_or},
    {"xor", "bb", 'b', .fn = b_xor},
    {"=>", "bb", 'b', .fn = b_implies},
    {"guard", "b", 'u', .fn = b_guard},
    {"+", "s", 's', .variadic = true, .fn = s_concat},
    {"replace", "sss", 's', .fn = s_replace},
    {"count-matches", "ss", 'i', .fn = s_count},
    {"!=", "TT", 'u', .fn = differ},
    {"value-eq", "TT", 'u', .fn = equal},
    {"bool-=", "TT", 'b', .fn = bool_equal},
    {"bool-!=", "TT", 'b', .fn = bool_differ},
    {"ordering-min", "TT", 'T', .fn = least},
    {"ordering-max", "TT", 'T', .fn = greatest},
};
const uint32_t hyp_el_builtin_prim_count = sizeof hyp_el_builtin_prims / sizeof *hyp_el_builtin_prims;

const hyp_el_prim *hyp_el_prim_at(const hyp_egglog *db, uint32_t prim)
{
    if (prim < hyp_el_builtin_prim_count) return &hyp_el_builtin_prims[prim];
    prim -= hyp_el_builtin_prim_count;
    if (prim < hyp_el_container_prim_count) return &hyp_el_container_prims[prim];
    return &db->prims.data[prim - hyp_el_container_prim_count];
}

uint32_t hyp_el_next_prim(const hyp_egglog *db, const char *name, uint32_t *at)
{
    size_t count = hyp_el_builtin_prim_count + hyp_el_container_prim_count + db->prims.len;
    while (*at < count) {
        uint32_t prim = (*at)++;
        if (strcmp(hyp_el_prim_at(db, prim)->name, name) == 0) return prim;
    }
    return HYP_EL_NONE;
}

hyp_status hyp_el_call_prim(hyp_egglog *db, const hyp_el_ins *ins, const uint32_t *regs, hyp_el_value *out, bool *out_holds,
                            hyp_diag *diag)
{
    enum { SMALL = 16 };
    const hyp_el_prim *p = hyp_el_prim_at(db, ins->target);
    uint32_t small[SMALL] = {0}, *args = small;
    if (ins->count > SMALL && !(args = hyp_malloc(ins->count * sizeof *args)))
        return hyp_fail_memory(diag, ins->count * sizeof *args);
    for (uint32_t i = 0; i < ins->count; i++) args[i] = regs[ins->args[i]];
    hyp_el_call call = {db, args, ins->count, ins->sorts, p->user, diag};
    hyp_status status = p->fn(&call, out, out_holds);
    if (args != small) hyp_free(args);
    return status;
}
