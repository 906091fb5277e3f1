/* short.c - numbers of 16 bits: what is in memory so, and floats where a step computes. */
#include <inttypes.h>
#include <string.h>

#include "c99/writer.h"
#include "kernels/resize.h"

/* Whether a step only moves elements, of whatever type. */
static bool only_moves(const HypPlan__Step *s)
{
    static const char *const movers[] = {"gather-elements", "gather-nd", "one-hot", "trilu"};
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_COPY || s->kernel_case == HYP_PLAN__STEP__KERNEL_GATHER ||
        s->kernel_case == HYP_PLAN__STEP__KERNEL_FILL)
        return true;
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_CALL) return false;
    const HypPlan__Call *call = s->call;
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        if (strcmp(call->kernel, movers[i]) == 0) return true;
    if (strncmp(call->kernel, "scatter-", 8) == 0) return strcmp(call->attrs[call->n_attrs - 1]->text, "none") == 0;
    return false;
}

/* Whether a step's functions widen a weight, a part at a time. */
static bool widens_itself(const hyp_c99_writer *w, const HypPlan__Step *s, uint32_t tensor)
{
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && strcmp(s->call->kernel, "conv") == 0)
        return hyp_plan_call_input(s->call, 1) == tensor + 1 && hyp_plan_call_input(s->call, 0) != tensor + 1;
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_LINEAR) return false;
    bool weight = false;
    for (size_t l = 0; l < s->linear->n_layers; l++) weight = weight || s->linear->layers[l]->weight == tensor;
    return weight && w->p->tensors[hyp_plan_root(w->p, tensor)]->place == HYP_PLAN__PLACE__PLACE_WEIGHT;
}

/* `    hyp_widen(HYP_BF16, 12, FROM, TO);` between a tensor and where it is as floats. */
static void put_conversion(hyp_c99_writer *w, bool widens, uint32_t tensor, size_t wide, int64_t count)
{
    hyp_strbuf_printf(&w->body, "    hyp_%s(%s, %" PRId64 ", ", widens ? "widen" : "narrow",
                      hyp_c99_kind((hyp_dtype)w->p->tensors[tensor]->dtype), count);
    for (int i = 0; i < 2; i++) {
        w->wide[tensor] = widens == (i == 1) ? wide : 0;
        hyp_c99_tensor(w, tensor);
        hyp_strbuf_puts(&w->body, i ? ");\n" : ", ");
    }
    hyp_c99_want(w, widens ? "widen" : "narrow");
}

hyp_status hyp_c99_widen(hyp_c99_writer *w, const HypPlan__Step *s, const uint32_t *list, size_t reads, size_t writes,
                         hyp_diag *diag)
{
    enum { ALIGN = 16 };
    size_t end = 0;
    for (size_t i = 0; i < reads + writes && !only_moves(s); i++) {
        int64_t count;
        if (!hyp_c99_is_short((hyp_dtype)w->p->tensors[list[i]]->dtype) || w->wide[list[i]] || widens_itself(w, s, list[i]))
            continue;
        HYP_TRY(hyp_plan_elements(w->p, list[i], w->values, &count, diag));
        size_t begin = (end + ALIGN - 1) / ALIGN * ALIGN;
        if (!hyp_add_size(begin, (size_t)count, &end) || end > PTRDIFF_MAX / 16)
            return hyp_fail(diag, HYP_ERR_LIMIT, "the workspace is beyond any size");
        if (i < reads) put_conversion(w, true, list[i], begin + 1, count);
        w->wide[list[i]] = begin + 1;
    }
    if (end > w->wide_floats) w->wide_floats = end;
    return HYP_OK;
}

hyp_status hyp_c99_narrow(hyp_c99_writer *w, const uint32_t *list, size_t reads, size_t writes, hyp_diag *diag)
{
    for (size_t i = reads; i < reads + writes; i++) {
        int64_t count;
        if (!w->wide[list[i]]) continue;
        HYP_TRY(hyp_plan_elements(w->p, list[i], w->values, &count, diag));
        put_conversion(w, false, list[i], w->wide[list[i]], count);
        w->wide[list[i]] = 0;
    }
    for (size_t i = 0; i < reads; i++) w->wide[list[i]] = 0;
    return HYP_OK;
}
