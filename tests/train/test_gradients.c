/* Every operator's gradient against central differences (gradients.cases), and what the table of gradients says. */
#include "base/file.h"
#include "train/central.h"

typedef struct tally {
    central found;
    bool case_of[HYP_OP_COUNT]; /* a case is of this operator, and a gradient went through it */
    size_t cases;
    const char *type; /* NULL: f64, else what floats are in its place, and */
    double room;      /* how far gradients in native arithmetic may be from those in double */
} tally;

/* With `name` for <op>, and the type for f64. */
static void write_graph(const char *body, const char *name, const char *type, hyp_strbuf *text)
{
    hyp_strbuf_puts(text, "(graph \"case\" ");
    while (*body) {
        if (strncmp(body, "<op>", 4) == 0) {
            hyp_strbuf_puts(text, name);
            body += 4;
        } else if (type && strncmp(body, "(f64", 4) == 0) {
            hyp_strbuf_printf(text, "(%s", type);
            body += 4;
        } else {
            hyp_strbuf_add(text, body++, 1);
        }
    }
    hyp_strbuf_puts(text, ")");
}

static void run_case(const char *name, const char *body, double low, double high, int64_t below, tally *t)
{
    rng r = {.state = 0x9e3779b97f4a7c15u + t->cases};
    hyp_dims *dims = new_dims();
    hyp_dim symbol;
    hyp_diag diag = {0};
    hyp_strbuf text = {0};
    hyp_op op;
    assert_ok(hyp_dim_symbol(dims, "n", &symbol, &diag), &diag);
    assert_ok(hyp_dim_symbol(dims, "m", &symbol, &diag), &diag);
    write_graph(body, name, t->type, &text);
    hyp_graph g;
    hyp_graph_init(&g, dims);
    if (hyp_graph_parse(&g, name, hyp_strbuf_text(&text), text.len, &diag) != HYP_OK)
        fail_msg("%s\n%s", diag.message, hyp_strbuf_text(&text));
    central found = {0};
    const int64_t symbols[] = {3, 2};
    hyp_eval_tensor inputs[16];
    draw_inputs(&g, &r, low, high, below, symbols, inputs);
    if (t->type)
        check_native(&g, name, &r, inputs, symbols, t->room);
    else
        check_central(&g, name, &r, inputs, symbols, &found);
    if (!t->type && (found.checked < 5 * found.skipped || !found.checked))
        fail_msg("%s: %zu elements compared, %zu not\n%s", name, found.checked, found.skipped, hyp_strbuf_text(&text));
    if (!hyp_op_find(name, &op) || (!t->type && !found.differentiated[op])) fail_msg("the case of '%s' has no such node", name);
    t->case_of[op] = true;
    t->cases++;
    hyp_strbuf_dispose(&text);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

/* A case: its head line, and its body up to an empty line. */
static void run_cases(char *head, char *body, tally *t)
{
    double low, high;
    long below;
    int used = 0;
    if (sscanf(head, "case %lf %lf %ld%n", &low, &high, &below, &used) != 3) fail_msg("no head of a case: %s", head);
    for (char *op = strtok(head + used, " "); op; op = strtok(NULL, " ")) run_case(op, body, low, high, below, t);
}

static void read_cases(tally *t)
{
    hyp_mapping map;
    hyp_diag diag = {0};
    assert_ok(hyp_map_file(HYP_SOURCE_DIR "/tests/train/gradients.cases", &map, &diag), &diag);
    char *text = strndup((const char *)map.data, map.size), *line = text;
    hyp_unmap(&map);
    while (line && *line) {
        char *end = strchr(line, '\n');
        if (strncmp(line, "case ", 5) != 0) {
            if (*line != ';' && *line != '\n') fail_msg("neither a case nor a comment: %.60s", line);
            line = end ? end + 1 : NULL;
            continue;
        }
        assert_non_null(end);
        char *body = end + 1, *stop = strstr(body, "\n\n");
        *end = 0;
        if (stop) *stop = 0;
        run_cases(line, body, t);
        line = stop ? stop + 2 : NULL;
    }
    free(text);
}

/* Whether a gradient passes any input. */
static bool passes(hyp_op op)
{
    const char *text = hyp_op_get(op)->gradient;
    return text && strspn(text, "none ") != strlen(text);
}

static void every_gradient_agrees_with_differences(void **state)
{
    tally t = {0};
    (void)state;
    read_cases(&t);
    for (int op = 0; op < HYP_OP_COUNT; op++)
        if (passes((hyp_op)op) != t.case_of[op])
            fail_msg("%s has %s", hyp_op_get((hyp_op)op)->name,
                     passes((hyp_op)op) ? "a gradient and no case" : "a case and no gradient");
    print_message("%zu cases\n", t.cases);
}

static void gradients_in_narrow_types_are_near(void **state)
{
    static const struct {
        const char *type;
        double room;
    } rows[] = {{"f32", 0x1p-18}, {"f16", 0x1p-6}, {"bf16", 0x1p-3}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tally t = {.type = rows[i].type, .room = rows[i].room};
        read_cases(&t);
    }
}

/* Parts that slices took are put side by side, not each among zeros and then added up. */
static void gradients_of_parts_are_one_concat(void **state)
{
    static const struct {
        const char *body;
        size_t concats, pads, adds;
    } rows[] = {
        /* all of x, in another order */
        {"(%a (slice :starts (0 4) :sizes (2 2) :steps (1 1) %x)) (%b (slice :starts (0 0) :sizes (2 1) :steps (1 1) %x)) "
         "(%c (slice :starts (0 1) :sizes (2 3) :steps (1 1) %x))",
         1, 0, 0},
        /* something left out in front, then between */
        {"(%a (slice :starts (0 1) :sizes (2 2) :steps (1 1) %x)) (%b (slice :starts (0 4) :sizes (2 2) :steps (1 1) %x)) "
         "(%c (slice :starts (0 3) :sizes (2 1) :steps (1 1) %x))",
         1, 1, 0},
        {"(%a (slice :starts (0 0) :sizes (2 1) :steps (1 1) %x)) (%b (slice :starts (0 2) :sizes (2 3) :steps (1 1) %x)) "
         "(%c (slice :starts (0 5) :sizes (2 1) :steps (1 1) %x))",
         1, 1, 0},
        /* one overlaps: it is added */
        {"(%a (slice :starts (0 0) :sizes (2 3) :steps (1 1) %x)) (%b (slice :starts (0 3) :sizes (2 3) :steps (1 1) %x)) "
         "(%c (slice :starts (0 1) :sizes (2 4) :steps (1 1) %x))",
         1, 1, 1},
        /* another axis, and another reader */
        {"(%a (slice :starts (0 0) :sizes (2 3) :steps (1 1) %x)) (%b (slice :starts (1 0) :sizes (1 6) :steps (1 1) %x)) "
         "(%c (neg %x))",
         0, 2, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_dims *dims = new_dims();
        hyp_diag diag = {0};
        hyp_strbuf text = {0};
        hyp_graph g;
        size_t count[HYP_OP_COUNT] = {0};
        hyp_strbuf_printf(&text,
                          "(graph \"parts\" (input %%x (f64 2 6)) %s (%%d (reduce-sum :axes (0 1) :keep 0 %%a)) "
                          "(%%e (reduce-sum :axes (0 1) :keep 0 %%b)) (%%f (reduce-sum :axes (0 1) :keep 0 %%c)) "
                          "(%%h (mul %%d %%e)) (%%y (mul %%h %%f)) (output \"y\" %%y))",
                          rows[i].body);
        hyp_graph_init(&g, dims);
        assert_ok(hyp_graph_parse(&g, "parts", hyp_strbuf_text(&text), text.len, &diag), &diag);
        hyp_value_id x = g.inputs.data[0], y = g.outputs.data[0].value, gradient;
        size_t before = g.nodes.len;
        assert_ok(hyp_differentiate(&g, y, &x, 1, &gradient, &diag), &diag);
        for (size_t n = before; n < g.nodes.len; n++) count[g.nodes.data[n].op]++;
        if (count[HYP_OP_concat] != rows[i].concats || count[HYP_OP_pad] != rows[i].pads ||
            count[HYP_OP_add] != rows[i].adds)
            fail_msg("row %zu: %zu concats, %zu pads, %zu additions", i, count[HYP_OP_concat], count[HYP_OP_pad],
                     count[HYP_OP_add]);
        hyp_strbuf_dispose(&text);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

/* What has no gradient is written down here: a new operator has to be given one, or to be put on this list. */
static void operators_without_gradients_are_known(void **state)
{
    static const char *const known[] = {"fused-linear",
                                        "fused-linear-add",
                                        "fused-mlp",
                                        "quantized-linear",
                                        "attention", /* made by rewriting */
                                        "lstm-gradient",
                                        "gru-gradient",
                                        "rnn-gradient",
                                        "bit-cast",
                                        "grid-sample-gradient",
                                        "roi-align-gradient",
                                        "softmax-stats",
                                        "max-pool-gradient",
                                        "attention-gradient",
                                        "linear-gradient",
                                        "norm-gradient",
                                        "batch-norm-stats",
                                        "batch-norm-gradient",
                                        "softmax-gradient",
                                        "all-reduce",
                                        "custom",
                                        "conv-backward-weights",
                                        "unique"};
    (void)state;
    for (int op = 0; op < HYP_OP_COUNT; op++) {
        bool listed = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            listed |= strcmp(known[i], hyp_op_get((hyp_op)op)->name) == 0;
        if (listed == hyp_is_differentiable((hyp_op)op))
            fail_msg("%s %s", hyp_op_get((hyp_op)op)->name,
                     listed ? "is listed and has a gradient" : "has none and is not listed");
    }
}

/* Each text reads, and has a form for each input. */
static void every_text_has_its_forms(void **state)
{
    (void)state;
    for (int op = 0; op < HYP_OP_COUNT; op++) {
        const hyp_op_info *info = hyp_op_get((hyp_op)op);
        hyp_arena arena = {0};
        hyp_diag diag = {0};
        const hyp_sexpr *forms;
        uint32_t count = 0, names = 1;
        if (!info->gradient) continue;
        assert_ok(hyp_sexpr_parse(&arena, info->name, info->gradient, strlen(info->gradient), &forms, &diag), &diag);
        for (uint32_t i = 0; i < forms->count; i++) count += !hyp_sexpr_is_form(forms->items[i], "let");
        if (count != (info->max_inputs == HYP_VARIADIC ? 1 : info->max_inputs))
            fail_msg("%s: %u forms for %u inputs", info->name, count, info->max_inputs);
        if (info->doc[0] == '(')
            for (const char *at = info->doc; *at != ')'; at++) names += *at == ' ';
        if (info->max_inputs != HYP_VARIADIC && names != info->max_inputs)
            fail_msg("%s: its line names %u inputs of %u", info->name, names, info->max_inputs);
        hyp_arena_dispose(&arena);
    }
}

/* At kinks and ties, where differences say nothing: what PyTorch 2.15 gives. */
static void kinks_are_as_pytorch_has_them(void **state)
{
    static const struct {
        const char *body; /* of x to a y */
        int count;
        double x[6], wanted[6];
    } rows[] = {
        {"(%y (relu %x))", 3, {0, -0.0, 1}, {0, 0, 1}},
        {"(%y (leaky-relu :alpha 0.25 %x))", 2, {0, 1}, {0.25, 1}},
        {"(%y (elu :alpha 0.5 %x))", 2, {0, 1}, {0.5, 1}},
        {"(%y (clip :min -1 :max 2 %x))", 5, {-1, 2, 0, -2, 3}, {0, 0, 1, 0, 0}},
        {"(%y (clip :min -1 %x))", 3, {-1, 0, -2}, {0, 1, 0}},
        {"(%y (abs %x))", 3, {0, -1, 2}, {0, -1, 1}},
        {"(%y (softsign %x))", 1, {0}, {1}},
        {"(%y (hard-swish %x))", 2, {-3, 3}, {0, 1}},
        {"(const %c (f64) 1) (%y (max %x %c))", 3, {1, 2, 0}, {0.5, 1, 0}},
        {"(const %c (f64) 1) (%y (min %c %x))", 3, {1, 2, 0}, {0.5, 0, 1}},
        {"(%y (max %x %x))", 2, {1, 2}, {1, 1}},
        {"(%y (reduce-max :axes (0) :keep 0 %x))", 4, {2, 1, 2, 2}, {1. / 3, 0, 1. / 3, 1. / 3}},
        {"(%y (reduce-min :axes (0) %x))", 3, {1, 1, 2}, {0.5, 0.5, 0}},
        {"(%y (reduce-prod :axes (0) %x))", 3, {0, 2, 3}, {6, 0, 0}},
        {"(%y (reduce-prod :axes (0) %x))", 3, {0, 0, 3}, {0, 0, 0}},
        {"(const %c (f64) 2) (%y (pow %x %c))", 2, {0, -3}, {0, -6}},
        {"(const %c (f64 3) 0 1 2) (%y (pow %x %c))", 3, {0, 0, 0}, {0, 1, 0}},
        {"(const %c (f64 3) 0 2 3) (%y (pow %c %x))", 3, {0, 0, 1}, {0, 0.6931471805599453, 3.295836866004329}},
        {"(%a (reshape :shape (1 1 4) %x)) (%y (max-pool :kernel (2) :strides (2) :pads (0 0) :dilations (1) %a))",
         4,
         {1, 1, 0, 3},
         {1, 0, 0, 1}},
        {"(%y (floor %x))", 1, {0.5}, {0}},
        {"(%y (cumprod :axis 0 %x))", 4, {2, 0, 3, 0}, {1, 8, 0, 0}},
        {"(%s (mul %x %x)) (%a (reduce-sum :axes (0) %s)) (%y (sqrt %a))", 2, {0, 0}, {0, 0}},
        {"(const %i (i64 3) 0 0 1) (const %u (f64 3) 1 0 5) (%y (scatter-elements :axis 0 :reduction max %x %i %u))",
         2,
         {1, 2},
         {0.5, 0}},
        {"(const %i (f64 1 1 3) 1 2 4) (%a (reshape :shape (1 2 1) %x)) (%y (grid-sample :align-corners 1 %i %a))", 2, {-1, 1}, {1, -4}},
        {"(const %i (f64 1 1 3) 1 2 4) (%a (reshape :shape (1 2 1) %x)) (%y (grid-sample :align-corners 1 :padding border %i %a))",
         2,
         {-1, 1},
         {0, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_dims *dims = new_dims();
        hyp_diag diag = {0};
        char text[512];
        snprintf(text, sizeof text, "(graph \"k\" (input %%x (f64 %d)) %s (output \"y\" %%y))", rows[i].count,
                 rows[i].body);
        hyp_graph g = parse(dims, text);
        hyp_value_id x = g.inputs.data[0], y = g.outputs.data[0].value, gradient = HYP_NO_VALUE;
        hyp_type type = g.values.data[y].type;
        const hyp_dim axes[] = {0, 1, 2};
        hyp_attr sum[] = {{.kind = HYP_ATTR_DIMS, .count = (uint32_t)type.rank, .dims = axes}, {.kind = HYP_ATTR_INT}};
        if (type.rank) assert_ok(hyp_graph_add_node(&g, HYP_OP_reduce_sum, &y, 1, sum, NULL, &y, 1, &diag), &diag);
        assert_ok(hyp_differentiate(&g, y, &x, 1, &gradient, &diag), &diag);
        hyp_eval_tensor in = {0}, out[2] = {{0}};
        if (gradient != HYP_NO_VALUE) assert_ok(hyp_graph_add_output(&g, "g", gradient, &diag), &diag);
        assert_ok(hyp_eval_tensor_alloc(&in, HYP_F64, 1, (int64_t[]){rows[i].count}, &diag), &diag);
        memcpy(in.f, rows[i].x, in.count * sizeof *in.f);
        assert_ok(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, &in, 1, out, &diag), &diag);
        for (size_t k = 0; k < in.count; k++) {
            double got = out[1].f ? out[1].f[k] : 0;
            if (!(got - rows[i].wanted[k] <= 1e-12 && got - rows[i].wanted[k] >= -1e-12))
                fail_msg("%s at %g: %.17g instead of %.17g", rows[i].body, rows[i].x[k], got, rows[i].wanted[k]);
        }
        hyp_eval_tensor_dispose(&in);
        for (int k = 0; k < 2; k++) hyp_eval_tensor_dispose(&out[k]);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_agrees_with_differences),
        cmocka_unit_test(gradients_in_narrow_types_are_near),
        cmocka_unit_test(gradients_of_parts_are_one_concat),
        cmocka_unit_test(kinks_are_as_pytorch_has_them),
        cmocka_unit_test(operators_without_gradients_are_known),
        cmocka_unit_test(every_text_has_its_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
