/* What the price of a kernel is made of, in words.
 *
 * The cost model itself is asked, with a profile in which all but one thing is free: what is left is what that thing
 * takes. So nothing is said here that the price does not do, whatever operators the roofline knows. */
#include <math.h>
#include <stddef.h>

#include "rewrite/internal.h"

/* The rates of a profile, and what they are rates of. */
static const struct {
    size_t at; /* in a hyp_device_profile */
    bool moves;
    const char *name;
} rates[] = {
#define RATE(field, moves, name)                                                                                       \
    {                                                                                                                  \
        offsetof(hyp_device_profile, field), moves, name                                                               \
    }
    RATE(flops_f32, false, "f32 operations"),
    RATE(flops_tf32, false, "tf32 operations"),
    RATE(flops_f16, false, "f16 operations"),
    RATE(flops_bf16, false, "bf16 operations"),
    RATE(flops_f8, false, "f8 operations"),
    RATE(flops_f64, false, "f64 operations"),
    RATE(flops_i32, false, "i32 operations"),
    RATE(pointwise_per_second, false, "elementwise operations"),
    RATE(bytes_per_second, true, "bytes of memory"),
    RATE(cache_bytes_per_second, true, "bytes of the cache"),
    RATE(last_cache_bytes_per_second, true, "bytes of the last cache"),
#undef RATE
};
/* In place of a rate: what is away by how much lies between (hyp_away). */
enum { RATES = sizeof rates / sizeof *rates, AWAY };

/* A kernel, and the roofline that is changed to ask about it. */
typedef struct asking {
    const hyp_graph *graph;
    const hyp_node *const *nodes;
    size_t count;
    hyp_roofline given, line; /* line.profile is changed from one question to the next */
    hyp_measured *measured;   /* those of the profile, to be changed */
    hyp_diag *diag;
} asking;

static hyp_status price(asking *a, double *out)
{
    return hyp_roofline_kernel(a->graph, a->nodes, a->count, &a->line, out, a->diag);
}

static double *rate_of(hyp_device_profile *p, size_t i) { return (double *)((char *)p + rates[i].at); }

/* Prices the kernel as if nothing had been measured. `rate`: all but this one, or AWAY, take no time, unless it is RATES. */
static hyp_status price_without(asking *a, bool launches, size_t rate, bool operations, bool moves, double *out)
{
    hyp_device_profile *p = &a->line.profile;
    *p = a->given.profile;
    p->measured_count = 0;
    if (!launches) p->launch_seconds = p->next_launch_seconds = p->join_seconds = 0;
    for (size_t i = 0; i < RATES; i++)
        if (*rate_of(p, i) > 0 && (rate != RATES ? i != rate : !(rates[i].moves ? moves : operations)))
            *rate_of(p, i) = INFINITY; /* 0: something else stands for it */
    for (size_t i = 0; i < p->away_count && rate != AWAY && !(rate == RATES && moves); i++)
        p->aways[i].moving = p->aways[i].reading = 0;
    return price(a, out);
}

/* ---- measurements ----------------------------------------------------------------------------------------- */

/* Prices the kernel where the measurements of an operator, or one of them, say e times as much as the roofline, and all
 * others as much. The logarithm of what that makes of it is their weight. */
static hyp_status price_by(asking *a, hyp_op op, size_t one, double plain, double *out_weight)
{
    double seconds;
    for (size_t i = 0; i < a->given.profile.measured_count; i++)
        a->measured[i].log_ratio = a->measured[i].op == op && (one == SIZE_MAX || i == one) ? 1 : 0;
    HYP_TRY(price(a, &seconds));
    *out_weight = log(seconds / plain);
    return HYP_OK;
}

/* The measurement that says most of what the kernel takes; NULL where none says anything. */
static hyp_status find_measured(asking *a, const hyp_measured **out)
{
    size_t count = a->given.profile.measured_count;
    const hyp_measured *all = a->given.profile.measured;
    double plain, most = 1e-6, weight, of_op = 1e-6;
    hyp_op best = HYP_OP_COUNT;
    *out = NULL;
    a->line.profile = a->given.profile;
    a->line.profile.measured = a->measured;
    for (size_t i = 0; i < count; i++) a->measured[i].log_ratio = 0;
    HYP_TRY(price(a, &plain));
    for (size_t i = 0; i < count; i++) { /* entries of an operator follow each other */
        if (i > 0 && all[i].op == all[i - 1].op) continue;
        HYP_TRY(price_by(a, all[i].op, SIZE_MAX, plain, &weight));
        if (weight <= of_op) continue;
        of_op = weight;
        best = all[i].op;
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].op != best) continue;
        HYP_TRY(price_by(a, best, i, plain, &weight));
        if (weight <= most) continue;
        most = weight;
        *out = &all[i];
    }
    return HYP_OK;
}

static void say_measured(const hyp_measured *m, hyp_strbuf *out)
{
    hyp_strbuf_printf(out, ", mostly (%s", hyp_op_get(m->op)->name);
    for (uint32_t i = 0; i < m->rank; i++) hyp_strbuf_printf(out, " %.0f", m->shape[i]);
    hyp_strbuf_printf(out, " %s)", hyp_dtype_name(m->dtype));
}

/* ---- words ---------------------------------------------------------------------------------------------------- */

/* "3.36e+09 f32 operations at 1.6e+11/s: 21 us". `fixed` is what no rate changes. */
static hyp_status say_rate(asking *a, size_t rate, double work, double fixed, const char *before, hyp_strbuf *out,
                           bool *out_said)
{
    double seconds, per_second = *rate_of(&a->given.profile, rate);
    HYP_TRY(price_without(a, false, rate, false, false, &seconds));
    seconds -= fixed;
    *out_said = seconds > 0.01 * work;
    if (!*out_said) return HYP_OK;
    hyp_strbuf_printf(out, "%s%.3g %s at %.3g/s: %.4g us", before, seconds * per_second, rates[rate].name, per_second,
                      seconds * 1e6);
    return HYP_OK;
}

static hyp_status explain(asking *a, hyp_strbuf *out)
{
    double whole, all, plain, work, single, fixed;
    const hyp_measured *nearest = NULL;
    a->line = a->given;
    HYP_TRY(price(a, &whole));
    a->line.constants = a->given.constants = a->line.round = a->given.round = 0; /* from here on as if all of it lay near */
    HYP_TRY(price(a, &all));
    a->line.threads = 0;
    HYP_TRY(price(a, &single));
    bool shares = single > all; /* who is too short for more threads runs on one */
    if (shares) a->given.profile = hyp_roofline_with_threads(&a->given.profile, a->given.threads);
    HYP_TRY(price_without(a, true, RATES, true, true, &plain));
    HYP_TRY(price_without(a, false, RATES, true, true, &work));
    HYP_TRY(price_without(a, false, RATES, false, false, &fixed));
    if (fixed >= HYP_COST_UNSUPPORTED) {
        hyp_strbuf_puts(out, "the profile's device has no kernel for it");
        return HYP_OK;
    }
    if (shares) hyp_strbuf_printf(out, "%.0f threads, ", a->given.threads);
    hyp_strbuf_printf(out, "launch %.4g us", (plain - work) * 1e6);
    work -= fixed;
    if (work > 0.001 * plain) hyp_strbuf_printf(out, " + work %.4g us", work * 1e6);
    bool any = false, said;
    for (size_t i = 0; i < RATES && work > 0.001 * plain; i++) {
        HYP_TRY(say_rate(a, i, work, fixed, any ? " | " : " (", out, &said));
        any = any || said;
    }
    if (a->given.profile.away_count > 0 && work > 0.001 * plain) {
        double away;
        HYP_TRY(price_without(a, false, AWAY, false, false, &away));
        if (away - fixed > 0.01 * work)
            hyp_strbuf_printf(out, "%sweights and what is away: %.4g us", any ? " | " : " (", (away - fixed) * 1e6);
        any = any || away - fixed > 0.01 * work;
    }
    if (any) hyp_strbuf_puts(out, ")");
    HYP_TRY(find_measured(a, &nearest));
    bool differs = plain > 0 && fabs(all / plain - 1) > 1e-4;
    if (differs) hyp_strbuf_printf(out, ", x %.4g as %smeasured", all / plain, nearest ? "" : "its functions were ");
    if (differs && nearest) say_measured(nearest, out);
    if (whole - all > 1e-4 * whole) hyp_strbuf_printf(out, "; far weights and code: %.4g us", (whole - all) * 1e6);
    return out->failed ? hyp_fail_memory(a->diag, out->len) : HYP_OK;
}

hyp_status hyp_roofline_explain(const hyp_graph *graph, const hyp_node *const *nodes, size_t count,
                                const hyp_roofline *roofline, hyp_strbuf *out, hyp_diag *diag)
{
    asking a = {.graph = graph, .nodes = nodes, .count = count, .given = *roofline, .diag = diag};
    size_t measured = roofline->profile.measured_count;
    a.measured = hyp_malloc((measured + 1) * sizeof *a.measured);
    if (!a.measured) return hyp_fail_memory(diag, measured * sizeof *a.measured);
    for (size_t i = 0; i < measured; i++) a.measured[i] = roofline->profile.measured[i];
    hyp_status status = explain(&a, out);
    hyp_free(a.measured);
    return status;
}
