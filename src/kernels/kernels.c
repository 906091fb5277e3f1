/* The table of kernels. */
#include "kernels/kernels.h"

enum { ANY = HYP_KERNEL_ANY };

#define KERNEL(id, name, in_lo, in_hi, out_lo, out_hi, attrs, scratch, work)                                           \
    hyp_kernel_fn hyp_kernel_##id;                                                                                     \
    hyp_kernel_scratch_fn hyp_kernel_scratch_##scratch;                                                                \
    hyp_kernel_work_fn hyp_kernel_work_##work;
#include "kernels/kernels.def"

size_t hyp_kernel_scratch_none(const hyp_kernel_call *c)
{
    (void)c;
    return 0;
}

static const hyp_kernel table[] = {
#define KERNEL(id, name, in_lo, in_hi, out_lo, out_hi, attrs, scratch, work)                                           \
    {name, in_lo, in_hi, out_lo, out_hi, attrs, hyp_kernel_##id, hyp_kernel_scratch_##scratch, hyp_kernel_work_##work},
#include "kernels/kernels.def"
};

const hyp_kernel *hyp_kernel_list(size_t *out_count)
{
    *out_count = sizeof table / sizeof *table;
    return table;
}

const hyp_kernel *hyp_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

size_t hyp_kernel_least_attrs(const hyp_kernel *k) { return strcspn(k->attrs, "F"); }

hyp_status hyp_kernel_check(const hyp_kernel *k, const hyp_kernel_call *c)
{
    if (c->in_count < k->min_inputs || c->in_count > k->max_inputs || c->in_count > HYP_KERNEL_MAX_INPUTS)
        return hyp_fail(c->diag, HYP_ERR_MALFORMED, "%s: %u inputs", k->name, c->in_count);
    if (c->out_count < k->min_outputs || c->out_count > k->max_outputs || c->out_count > HYP_KERNEL_MAX_OUTPUTS)
        return hyp_fail(c->diag, HYP_ERR_MALFORMED, "%s: %u outputs", k->name, c->out_count);
    for (size_t i = 0; k->attrs[i]; i++)
        if (c->attrs[i].kind != (k->attrs[i] == 'F' ? HYP_KERNEL_FLOAT : (hyp_kernel_attr_kind)k->attrs[i]))
            return hyp_fail(c->diag, HYP_ERR_MALFORMED, "%s: attribute %zu is of the wrong kind", k->name, i);
    for (uint32_t i = 0; i < k->min_inputs; i++)
        if (c->in[i].dtype == HYP_DTYPE_NONE)
            return hyp_fail(c->diag, HYP_ERR_MALFORMED, "%s: input %u is absent", k->name, i);
    return HYP_OK;
}
