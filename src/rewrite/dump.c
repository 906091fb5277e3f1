/* The e-graph of a phase, whole or the part around a node of the model, for other programs. */
#include <math.h>
#include <stdlib.h>

#include "rewrite/internal.h"

/* What no kernel computes costs nothing that can be said. */
static double cost_of(hyp_egraph *eg, hyp_enode_id node, void *weigh)
{
    double cost = hyp_rw_node_cost(eg, node, weigh);
    return isnan(cost) ? INFINITY : cost;
}

/* "@7", as whole terms call an e-class. */
static hyp_status find_class(const hyp_rw_inquiry *q, const char *text, hyp_class_id *out)
{
    char *end;
    unsigned long number = strtoul(text + 1, &end, 10);
    bool good = text[1] >= '0' && text[1] <= '9' && !*end && number < hyp_egraph_class_bound(q->rw->eg);
    *out = good ? hyp_egraph_find(q->rw->eg, (hyp_class_id)number) : HYP_NONE;
    if (*out != HYP_NONE) return HYP_OK;
    return hyp_fail(q->diag, HYP_ERR_INVALID_ARGUMENT, "the e-graph has no e-class %s; it has @0 to @%zu", text,
                    hyp_egraph_class_bound(q->rw->eg) - 1);
}

static hyp_status find_around(const hyp_rw_inquiry *q, const char *source, hyp_class_id *list, size_t *count)
{
    hyp_rw *rw = q->rw;
    if (source[0] == '@') {
        *count = 1;
        return find_class(q, source, list);
    }
    for (hyp_enode_id n = 0; n < rw->encoded.len; n++)
        if (hyp_rw_stands_for(rw, n, source)) list[(*count)++] = hyp_enode_class(rw->eg, n);
    if (*count) return HYP_OK;
    return hyp_fail(q->diag, HYP_ERR_INVALID_ARGUMENT,
                    "nothing of '%s' is left when its phase begins: it was computed, or became part of another node", source);
}

static hyp_status write_part(const hyp_rw_inquiry *q, const hyp_rewrite_dump *d, const hyp_class_id *classes, size_t count)
{
    hyp_egraph *eg = q->rw->eg;
    const hyp_egraph_part part = {classes, count, d->depth ? d->depth : HYP_REWRITE_DUMP_DEPTH};
    if (d->dot && d->around) return hyp_egraph_write_part_dot(eg, &part, d->nodes, q->choice, d->write, d->user, q->diag);
    if (d->dot) return hyp_egraph_write_dot(eg, classes, count, d->nodes, q->choice, d->write, d->user, q->diag);
    if (d->around) return hyp_egraph_write_part_json(eg, &part, cost_of, q->weigh, d->write, d->user, q->diag);
    return hyp_egraph_write_json(eg, classes, count, cost_of, q->weigh, d->write, d->user, q->diag);
}

hyp_status hyp_rw_dump(const hyp_rw_inquiry *q, const hyp_rewrite_dump *d, const char *around)
{
    const hyp_rw *rw = q->rw;
    size_t count = 0, room = rw->encoded.len + rw->in->outputs.len + 1;
    hyp_class_id *classes = hyp_calloc(room, sizeof *classes);
    if (!classes) return hyp_fail_memory(q->diag, room * sizeof *classes);
    hyp_status status = HYP_OK;
    if (around)
        status = find_around(q, around, classes, &count);
    else
        for (size_t i = 0; i < rw->in->outputs.len; i++) classes[count++] = rw->class_of[rw->in->outputs.data[i].value];
    if (status == HYP_OK) status = write_part(q, d, classes, count);
    hyp_free(classes);
    return status;
}
