/* write_out.c - operators that there are for their gradients, as the operators that they are made of: what their
 * statistics are computed by has kernels, and elementwise operators behind it run with those around them. */
#include "train/form.h"
#include "train/train.h"

/* What each output of an operator is, in the language of gradients. */
typedef struct composition {
    hyp_op op;
    const char *outputs[3];
} composition;

#define STATS "(let s (batch-norm-stats :epsilon epsilon x)) "

static const composition compositions[] = {
    {HYP_OP_batch_norm,
     {STATS "(let m (output 0 s)) (like x (add (mul (mul (sub (like m x) (of-channels m x)) (of-channels (output 2 s) x)) "
            "(of-channels (like m scale) x)) (of-channels (like m bias) x)))",
      STATS "(add (mul mean momentum) (mul (like mean (output 0 s)) rest))",
      STATS "(add (mul variance momentum) (mul (like variance (output 1 s)) rest))"}},
};

static const composition *find(hyp_op op)
{
    for (size_t i = 0; i < sizeof compositions / sizeof *compositions; i++)
        if (compositions[i].op == op) return &compositions[i];
    return NULL;
}

bool hyp_has_compositions(const hyp_graph *g)
{
    for (size_t i = 0; i < g->nodes.len; i++)
        if (find(g->nodes.data[i].op)) return true;
    return false;
}

/* Of a batch normalization, whose statistics that are kept are of types of their own. */
static void build(hyp_scope *s, const composition *c, hyp_value_id *outputs)
{
    for (uint32_t i = 0; i < s->node.output_count; i++) {
        s->numbers = hyp_build_type(s->b, s->node.inputs[i == 0 ? 0 : 2 + i]).dtype;
        hyp_scope_name_number(s, "rest", 1 - s->node.attrs[1].f);
        outputs[i] = hyp_form_text(s, c->outputs[i]);
    }
}

static hyp_status write_out(void *user, hyp_graph *out, hyp_node_id id, const hyp_value_id *inputs, hyp_value_id *outputs,
                            bool *out_made, hyp_diag *diag)
{
    const hyp_node *node = &((const hyp_graph *)user)->nodes.data[id];
    const composition *c = find(node->op);
    if (!c) return HYP_OK;
    hyp_builder b = {.g = out, .diag = diag, .from = node->from};
    hyp_scope s = {.b = &b, .node = *node};
    s.node.inputs = inputs;
    hyp_scope_name_inputs(&s);
    build(&s, c, outputs);
    *out_made = true;
    hyp_status status = b.status;
    hyp_scope_dispose(&s);
    hyp_builder_dispose(&b);
    return status;
}

hyp_status hyp_write_out(const hyp_graph *in, hyp_graph *out, hyp_diag *diag)
{
    hyp_graph source = *in; /* for the maker, to which nothing const is handed on */
    return hyp_graph_rebuild(in, write_out, &source, out, diag);
}
