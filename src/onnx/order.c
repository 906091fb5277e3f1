#include <string.h>

#include "onnx/import.h"

typedef struct frame {
    uint32_t node;
    uint32_t next_input;
} frame;

typedef HYP_VEC(frame) frame_stack;

static hyp_status report_cycle(hyp_importer *im, const frame_stack *stack, uint32_t again)
{
    hyp_strbuf path = {0};
    size_t start = 0, shown = 0;
    while (stack->data[start].node != again) start++;
    for (size_t i = stack->len; i-- > start && shown < 8; shown++) {
        const char *name = hyp_onnx_node_name(im, im->scope.graph->node[stack->data[i].node]);
        hyp_strbuf_printf(&path, "\"%s\" feeds ", name ? name : "?");
    }
    size_t left = stack->len - start - shown;
    const char *first = hyp_onnx_node_name(im, im->scope.graph->node[stack->data[stack->len - 1].node]);
    if (left) hyp_strbuf_printf(&path, "%zu more, which feed ", left);
    hyp_status status = hyp_fail(im->diag, HYP_ERR_MALFORMED, "%s: the nodes form a cycle: %s\"%s\"", im->file,
                                 hyp_strbuf_text(&path), first ? first : "?");
    hyp_strbuf_dispose(&path);
    return status;
}

/* Depth-first, producers before the node, nodes in the order of the file; the stack is explicit because its
 * depth is the input's. */
static hyp_status visit(hyp_importer *im, uint32_t root, uint8_t *state, frame_stack *stack, uint32_t *order,
                        size_t *count)
{
    enum { NEW, OPEN, DONE };
    if (state[root] != NEW) return HYP_OK;
    HYP_TRY(hyp_vec_push(stack, im->diag, (frame){root, 0}));
    state[root] = OPEN;
    while (stack->len) {
        frame *top = &stack->data[stack->len - 1];
        const HypOnnx__NodeProto *node = im->scope.graph->node[top->node];
        if (top->next_input == node->n_input + node->n_outer) {
            state[top->node] = DONE;
            order[(*count)++] = top->node;
            stack->len--;
            continue;
        }
        uint32_t i = top->next_input++;
        const hyp_symbol *s = hyp_onnx_symbol(im, i < node->n_input ? node->input[i] : node->outer[i - node->n_input]);
        if (!s || s->kind != HYP_SYMBOL_NODE || state[s->index] == DONE) continue;
        if (state[s->index] == OPEN) return report_cycle(im, stack, s->index);
        state[s->index] = OPEN;
        uint32_t next = s->index;
        HYP_TRY(hyp_vec_push(stack, im->diag, (frame){next, 0}));
    }
    return HYP_OK;
}

hyp_status hyp_onnx_order_nodes(hyp_importer *im, uint32_t *order)
{
    size_t nodes = im->scope.graph->n_node, count = 0;
    frame_stack stack = {0};
    uint8_t *state = hyp_arena_zalloc(&im->arena, nodes, 1);
    hyp_status status = state ? HYP_OK : hyp_fail_memory(im->diag, nodes);
    for (uint32_t i = 0; i < nodes && status == HYP_OK; i++) status = visit(im, i, state, &stack, order, &count);
    hyp_vec_free(&stack);
    return status;
}
