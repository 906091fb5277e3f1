/* Which forms constants take. What is computed once, when the plan is written, costs nothing when it runs, so this is
 * decided before extraction: for each class of constants the e-node whose whole term is the least work. To the search
 * for the least cost such a class then is one free value, where a chain of n weights has n^2 of them. */
#include <math.h>

#include "rewrite/internal.h"

/* E-nodes that compute constants from constants, in flat arrays. */
typedef struct form {
    hyp_enode_id node;
    hyp_class_id of;
    double work; /* of this operator alone */
    uint32_t first, count; /* its inputs among `inputs` */
} form;

typedef struct chooser {
    hyp_rw *rw;
    hyp_rw_weigh *w;
    HYP_VEC(form) forms;
    HYP_VEC(hyp_class_id) inputs;
    double *work; /* by class: of the best term so far; INFINITY: none */
} chooser;

static double elements(const hyp_rw_fact *f)
{
    double sum = 0;
    for (uint32_t k = 0; k < f->count; k++) {
        double n = 1;
        for (int32_t i = 0; i < f->values[k].type.rank; i++) n *= (double)f->values[k].type.dims[i];
        sum += n;
    }
    return sum;
}

/* Operations, roughly: of a product [M K] [K N] there are M K N. */
static double work_of(const chooser *h, hyp_op op, hyp_class_id c, const hyp_class_id *inputs, size_t count)
{
    double out = elements(hyp_rw_fact_of(h->rw, c));
    if ((op != HYP_OP_matmul && op != HYP_OP_gemm && op != HYP_OP_linear) || count < 2) return 1 + out;
    double a = elements(hyp_rw_fact_of(h->rw, inputs[0]));
    double b = elements(hyp_rw_fact_of(h->rw, inputs[op == HYP_OP_linear ? count - 1 : 1]));
    return 1 + sqrt(a * b * out);
}

/* Notes an e-node of a class of constants; one that computes it from what is no constant is none of ours. */
static hyp_status note(chooser *h, hyp_enode_id node, hyp_class_id c, hyp_diag *diag)
{
    hyp_rw *rw = h->rw;
    size_t count, attrs = 1; /* of a get: the number of the part */
    const hyp_class_id *kids = hyp_enode_children(rw->eg, node, &count);
    form f = {.node = node, .of = c, .first = (uint32_t)h->inputs.len};
    hyp_op op = HYP_OP_COUNT;
    if (count) {
        const hyp_rw_symbol *symbol;
        HYP_TRY(hyp_rw_symbol_of(rw, hyp_enode_op(rw->eg, node), &symbol, diag));
        if (symbol->head == HYP_RW_SYM_OP) op = symbol->op;
        if (op != HYP_OP_COUNT) attrs = hyp_op_get(op)->attr_count;
    }
    for (size_t i = attrs; i < count; i++) {
        hyp_class_id kid = hyp_egraph_find(rw->eg, kids[i]);
        const hyp_rw_fact *fact = hyp_rw_fact_of(rw, kid);
        if (hyp_rw_is_none(rw, fact)) continue;
        if (!fact->constant) {
            h->inputs.len = f.first;
            return HYP_OK;
        }
        HYP_TRY(hyp_vec_push(&h->inputs, diag, kid));
        f.count++;
    }
    if (op != HYP_OP_COUNT) f.work = work_of(h, op, c, h->inputs.data + f.first, f.count);
    return hyp_vec_push(&h->forms, diag, f);
}

static hyp_status list_forms(chooser *h, size_t bound, hyp_diag *diag)
{
    hyp_egraph *eg = h->rw->eg;
    for (hyp_class_id c = 0; c < bound; c++) {
        size_t count;
        if (hyp_egraph_find(eg, c) != c || !hyp_rw_fact_of(h->rw, c)->constant) continue;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
        if (!nodes) return hyp_fail_memory(diag, count * sizeof *nodes);
        for (size_t i = 0; i < count; i++) HYP_TRY(note(h, nodes[i], c, diag));
    }
    return HYP_OK;
}

/* Takes the best forms, from the leaves up, until nothing gets better: every operator adds work, so no form that is
 * taken needs itself. */
static void choose(chooser *h)
{
    hyp_constant_forms *out = &h->w->constants;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < h->forms.len; i++) {
            const form *f = &h->forms.data[i];
            double work = f->work, operators = f->work > 0;
            for (uint32_t k = f->first; k < f->first + f->count; k++) {
                work += h->work[h->inputs.data[k]];
                operators += out->operators[h->inputs.data[k]];
            }
            if (!(work < h->work[f->of])) continue;
            h->work[f->of] = work;
            out->operators[f->of] = operators;
            out->form[f->of] = f->node;
            changed = true;
        }
    }
}

void hyp_constant_forms_dispose(hyp_constant_forms *forms)
{
    hyp_free(forms->form);
    hyp_free(forms->operators);
    *forms = (hyp_constant_forms){0};
}

hyp_status hyp_rw_choose_constants(hyp_rw_weigh *weigh, hyp_diag *diag)
{
    size_t bound = hyp_egraph_class_bound(weigh->rw->eg);
    hyp_constant_forms_dispose(&weigh->constants);
    chooser h = {.rw = weigh->rw, .w = weigh, .work = hyp_malloc((bound + 1) * sizeof *h.work)};
    hyp_constant_forms *out = &weigh->constants;
    *out = (hyp_constant_forms){.bound = bound,
                                .form = hyp_malloc((bound + 1) * sizeof *out->form),
                                .operators = hyp_calloc(bound + 1, sizeof *out->operators)};
    hyp_status status = h.work && out->form && out->operators ? HYP_OK : hyp_fail_memory(diag, bound * sizeof *h.work);
    for (size_t c = 0; c < bound && status == HYP_OK; c++) {
        out->form[c] = HYP_NONE;
        h.work[c] = INFINITY;
    }
    if (status == HYP_OK) status = list_forms(&h, bound, diag);
    if (status == HYP_OK) choose(&h);
    if (status != HYP_OK) hyp_constant_forms_dispose(out);
    hyp_vec_free(&h.forms);
    hyp_vec_free(&h.inputs);
    hyp_free(h.work);
    return status;
}
