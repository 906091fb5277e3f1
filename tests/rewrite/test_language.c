/* Messages of the rule language and of device profiles, and what the roofline says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/internal.h"

/* ---- rules ------------------------------------------------------------------------------------------- */

/* Reading this rule file fails, and the message has both texts. */
static void assert_refused(const char *text, const char *place, const char *what)
{
    hyp_rewrite_options options = {.rule_files = (const char *const[]){"mine.rules"},
                                   .rule_texts = (const char *const[]){text},
                                   .rule_file_count = 1,
                                   .no_builtin = true};
    hyp_rewrite_report report;
    hyp_diag diag = {0};
    hyp_status status = hyp_rewrite_list(&options, &report, &diag);
    if (status == HYP_OK) fail_msg("read without complaint: %s", text);
    if (!strstr(diag.message, place) || !strstr(diag.message, what))
        fail_msg("wanted '%s' and '%s' in: %s", place, what, diag.message);
}

static void mistakes_in_rules_are_named_with_their_place(void **state)
{
    (void)state;
    assert_refused("(rule r (rellu ?x) => ?x)", "mine.rules:1:10", "did you mean 'relu'");
    assert_refused("(rule r (relu ?x)\n  => (gely ?x))", "mine.rules:2:7",
                   "'gely' is neither an operator nor a function");
    assert_refused("(rule r (relu ?x ?y) => ?x)", "mine.rules:1:9", "relu takes 1 inputs, 2 are given");
    assert_refused("(rule r (linear ?w ?b) => ?b)", "mine.rules:1:9", "linear takes 3 inputs, 2 are given");
    assert_refused("(rule r (concat :axis 0) => none)", "mine.rules:1:9", "at least 1");
    assert_refused("(rule r (gemm ?a) => ?a)", "mine.rules:1:9", "2 to 3");
    assert_refused("(rule r (transpose ?x) => ?x)", "mine.rules:1:9", "attribute :perm is missing");
    assert_refused("(rule r (transpose :prem ?p ?x) => ?x)", "mine.rules:1:20", "did you mean :perm");
    assert_refused("(rule r (transpose :perm ?p :perm ?q ?x) => ?x)", "mine.rules:1:29", "given twice");
    assert_refused("(rule r (fused-linear-relu :act relu ?w ?b ?x) => ?x)", "mine.rules:1:28", "given twice");
    assert_refused("(rule r (softmax ?x :axis) => ?x)", "mine.rules:1:21", ":axis has no value");
    assert_refused("(rule r (softmax :axis one ?x) => ?x)", "mine.rules:1:24", "an integer is wanted");
    assert_refused("(rule r (add ?x 0) => ?x)", "mine.rules:1:17", "stands where a tensor is wanted");
    assert_refused("(rule r (transpose :perm (compose ?p ?q) ?x) => ?x)", "mine.rules:1:26", "cannot be matched");
    assert_refused("(rule r (relu ?x) => (gelu ?y))", "mine.rules:1:28", "?y");
    assert_refused("(rule r (relu ?x) => ?x :if (konst ?x))", "mine.rules:1:29", "konst");
    assert_refused("(rule r (relu ?x) => ?x :if (const ?x ?x))", "mine.rules:1:29", "const");
    assert_refused("(rule r (transpose :perm ?p ?x) => (transpose :perm (compose ?p) ?x))", "mine.rules:1:53",
                   "compose");
    assert_refused("(rule r (relu ?x) => ?x) (rule r (gelu ?x) => ?x)", "mine.rules:1:26", "rule r");
}

static void rules_are_named_in_messages(void **state)
{
    (void)state;
    assert_refused("(rule fine (relu (relu ?x)) => (relu ?x))\n(rule broken (relu ?x) => (relu))", "rule broken",
                   "relu takes");
}

static void attributes_may_stand_anywhere_and_have_defaults(void **state)
{
    (void)state;
    hyp_rw rw = {0};
    hyp_dims *dims;
    hyp_arena arena = {0};
    hyp_diag diag = {0};
    static const char *const same[][2] = {
        {"(matmul ?a ?b)", "(\"matmul\" \"0\" \"0\" \"1.0\" ?a ?b)"},
        {"(matmul ?a :alpha 2 ?b :trans-b 1)", "(\"matmul\" \"0\" \"1\" \"2.0\" ?a ?b)"},
        {"(gemm ?a ?b)", "(\"gemm\" \"0\" \"0\" \"1.0\" \"1.0\" ?a ?b \"none\")"},
        {"(fused-linear-relu ?w none ?x)", "(\"fused-linear\" \"relu\" ?w none ?x)"},
        {"(fused-mlp :acts (relu none) ?ws... ?x)", "(\"fused-mlp\" \"(relu none)\" ?ws... ?x)"},
        {"(transpose :perm (compose (1 0) ?p) ?x)", "(\"transpose\" (compose \"(1 0)\" ?p) ?x)"},
        {"(get :index 1 (split :axis 0 :sizes (2 batch) ?x))", "(\"get\" \"1\" (\"split\" \"0\" \"(2 batch)\" ?x))"},
    };
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    assert_int_equal(hyp_rw_init(&rw, dims, &diag), HYP_OK);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const hyp_sexpr *forms, *out;
        hyp_strbuf sb = {0};
        assert_int_equal(hyp_sexpr_parse(&arena, "t", same[i][0], strlen(same[i][0]), &forms, &diag), HYP_OK);
        if (hyp_rw_desugar(&rw, &arena, "t", forms->items[0], false, &out, &diag) != HYP_OK)
            fail_msg("%s", diag.message);
        hyp_sexpr_print(&sb, out);
        assert_string_equal(hyp_strbuf_text(&sb), same[i][1]);
        hyp_strbuf_dispose(&sb);
    }
    hyp_rw_dispose(&rw);
    hyp_dims_destroy(dims);
    hyp_arena_dispose(&arena);
}

static void the_list_of_rules_tells_their_sets_and_classes(void **state)
{
    (void)state;
    hyp_rewrite_options options = {0};
    hyp_rewrite_report report;
    hyp_diag diag = {0};
    bool found = false;
    assert_int_equal(hyp_rewrite_list(&options, &report, &diag), HYP_OK);
    assert_true(report.rule_count > 80);
    for (size_t i = 0; i < report.rule_count; i++) {
        const hyp_rule_use *r = &report.rules[i];
        if (strcmp(r->name, "fuse-mlp") != 0) continue;
        found = true;
        assert_string_equal(r->ruleset, "fuse");
        assert_string_equal(r->numeric_class, "N");
        assert_true(r->doc[0] != 0);
    }
    assert_true(found);
    hyp_rewrite_report_dispose(&report);
}

/* ---- profiles ---------------------------------------------------------------------------------------- */

static void mistakes_in_profiles_are_named_with_their_place(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "one form (profile NAME"},
        {"(profile)", "one form (profile NAME"},
        {"(profile p)", "lacks (launch-seconds ...)"},
        {"(profile p (launch-second 1))",
         "p.profile:1:12: a profile has no 'launch-second'; did you mean 'launch-seconds'"},
        {"(profile p (launch-seconds 0))", "p.profile:1:28: launch-seconds is a number from 1e-15 to 1e+06"},
        {"(profile p (launch-seconds 1e-320))", "launch-seconds is a number from 1e-15 to 1e+06"},
        {"(profile p (like cpu) (cache-bytes-per-second 1e-320))", "is a number from 1 to 1e+30"},
        {"(profile p (like cpu) (flops-f32 1e300))", "flops-f32 is a number from 1 to 1e+30"},
        {"(profile p (like cpu) (away 1e-320 1e-11 1e-12 1e-7))", "(away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(profile p (like cpu) (away 1024 1e-11 1e9 1e-7))", "(away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(profile p (like cpu) (crowding 1e300))", "crowding is a number from 0 to 1e+06"},
        {"(profile p (like cpu) (speedup 2 1e-320 1))", "times as fast they compute and move data, 1e-6 to 1e6"},
        {"(profile p (launch-seconds fast))", "launch-seconds is a number from 1e-15 to 1e+06"},
        {"(profile p (launch-seconds nan))", "launch-seconds is a number from 1e-15 to 1e+06"},
        {"(profile p (launch-seconds 1) (launch-seconds 1))", "given twice"},
        {"(profile p (epilogue relu elu))", "p.profile:1:27: an activation is wanted"},
        {"(profile p (mlp-in-one-kernel 1))", "true or false"},
        {"(profile p (kernel-calls conv relu))", "p.profile:1:31: true, false or operators with a kernel"},
        {"(profile p (kernel-calls true conv))", "p.profile:1:26: true, false or operators with a kernel"},
        {"(profile p (attention-in-one-kernel f32 i32))", "p.profile:1:41: a type is wanted"},
        {"(profile p (attention-widest 0))", "attention-widest is a whole number from 1 to 1e+09"},
        {"(profile p 3)", "(key value) is wanted"},
        {"(profile p (like abacus))", "p.profile:1:12: (like NAME) is wanted once"},
        {"(profile p (like cpu) (like cpu))", "p.profile:1:23: (like NAME) is wanted once"},
        {"(profile p (like cpu) (launch-seconds 0))", "p.profile:1:39: launch-seconds is a number from 1e-15 to 1e+06"},
        {"(profile p (threads 1.5))", "p.profile:1:21: threads is a whole number from 1 to 1e+09"},
        {"(profile p (like cpu) (speedup 2 1.5))", "p.profile:1:23: (speedup THREADS COMPUTE MEMORY) is wanted"},
        {"(profile p (like cpu) (speedup 1 1 1))", "with more threads than before, 1:"},
        {"(profile p (like cpu) (speedup 4 3 2) (speedup 2 2 2))", "with more threads than before, 4:"},
        {"(profile p (like cpu) (speedup 2 0 1))", "(speedup THREADS COMPUTE MEMORY) is wanted"},
        {"(profile p (like cpu) (speedup 2 nan 1))", "(speedup THREADS COMPUTE MEMORY) is wanted"},
        {"(profile p (like cpu) (last-cache-bytes -1))", "last-cache-bytes is a number from 0 to 1e+18"},
        {"(profile p (like cpu) (away 1 1 1))", "p.profile:1:23: (away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(profile p (like cpu) (away 1 1 nan 1))", "(away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(profile p (like cpu) (away 2 1 1 1) (away 2 1 1 1))", "with more bytes than before"},
        {"(profile p (like cpu) (measured conv 1 1 1 1 f32 1))", "(measured conv PLACES FILTERS CHANNELS TAPS GROUPS [ST"},
        {"(profile p (like cpu) (measured max-pool 1 1 0 f32 1))", "a size from 1 to 2^40 is wanted here"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hyp_arena arena = {0};
        hyp_device_profile profile;
        hyp_diag diag = {0};
        assert_int_equal(hyp_profile_parse(&arena, "p.profile", wrong[i][0], strlen(wrong[i][0]), &profile, &diag),
                         HYP_ERR_MALFORMED);
        if (!strstr(diag.message, wrong[i][1])) fail_msg("wanted '%s' in: %s", wrong[i][1], diag.message);
        hyp_arena_dispose(&arena);
    }
    assert_null(hyp_profile_builtin("abacus"));
}

/* Any sizes that a profile may give are priced, those whose products are beyond all dimensions as the largest of these. */
static void sizes_of_measurements_may_be_as_large_as_they_like(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int sizes;
    } measured[] = {{"linear", 3}, {"matmul", 4}, {"conv", 5}, {"conv", 6}, {"conv-transpose", 5},
                    {"conv-backward-weights", 5}, {"attention", 4}, {"attention-gradient", 4}, {"max-pool", 2},
                    {"max-pool", 3}, {"average-pool", 3}, {"softmax", 2}, {"reduce-mean", 3}, {"transpose", 2}, {"add", 1}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        hyp_arena arena = {0};
        hyp_device_profile profile;
        hyp_diag diag = {0};
        char text[256];
        int n = snprintf(text, sizeof text, "(profile p (like cpu) (measured %s", measured[i].name);
        for (int k = 0; k < measured[i].sizes; k++) n += snprintf(text + n, sizeof text - (size_t)n, " %lld", 1ll << 40);
        n += snprintf(text + n, sizeof text - (size_t)n, " f32 1))");
        hyp_status status = hyp_profile_parse(&arena, "p", text, (size_t)n, &profile, &diag);
        if (status != HYP_OK) fail_msg("%s: %s", text, diag.message);
        assert_int_equal(profile.measured_count, 1);
        assert_true(isfinite(profile.measured[0].log_ratio));
        hyp_arena_dispose(&arena);
    }
}

static void a_profile_may_start_from_a_built_in_one(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_device_profile cpu, mine;
    static const char text[] = "(profile p (launch-seconds 5e-6) (like cpu))";
    assert_int_equal(
        hyp_profile_parse(&arena, "cpu", hyp_profile_builtin("cpu"), strlen(hyp_profile_builtin("cpu")), &cpu, NULL),
        HYP_OK);
    assert_int_equal(hyp_profile_parse(&arena, "p", text, strlen(text), &mine, NULL), HYP_OK);
    assert_string_equal(mine.name, "p");
    assert_true(mine.launch_seconds == 5e-6 && mine.flops_f32 == cpu.flops_f32);
    assert_int_equal(mine.epilogue_acts, cpu.epilogue_acts);
    hyp_arena_dispose(&arena);
}

static void a_profile_names_the_kernels_that_a_device_has(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool conv, layer_norm;
    } cases[] = {{"(profile p (like cpu) (kernel-calls true))", true, true},
                 {"(profile p (like cpu) (kernel-calls false))", false, false},
                 {"(profile p (like cpu) (kernel-calls))", false, false},
                 {"(profile p (like cpu) (kernel-calls lstm conv))", true, false},
                 {"(profile p (like cpu) (kernel-calls layer-norm))", false, true},
                 {"(profile p (like h200))", true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_arena arena = {0};
        hyp_device_profile profile;
        assert_int_equal(hyp_profile_parse(&arena, "p", cases[i].text, strlen(cases[i].text), &profile, NULL), HYP_OK);
        assert_int_equal(profile.kernel_calls[HYP_OP_conv], cases[i].conv);
        assert_int_equal(profile.kernel_calls[HYP_OP_layer_norm], cases[i].layer_norm);
        assert_false(profile.kernel_calls[HYP_OP_add]);
        hyp_arena_dispose(&arena);
    }
}

/* The CPU's profile with these entries on a line of their own. */
static hyp_status parse_with(hyp_arena *arena, const char *entries, hyp_device_profile *out, hyp_diag *diag)
{
    char *all = hyp_arena_printf(arena, "(profile p (like cpu)\n%s)", entries);
    assert_non_null(all);
    return hyp_profile_parse(arena, "p.profile", all, strlen(all), out, diag);
}

static void mistakes_in_measurements_are_named_with_their_place(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"(measured)", ":1: (measured OPERATOR SIZE... TYPE SECONDS) is wanted"},
        {"(measured linea 1 2 3 f32 1e-6)", ":11: 'linea' is no operator that is measured"},
        {"(measured reshape 3 f32 1e-6)", ":11: 'reshape' is no operator"},
        {"(measured linear 1 2 f32 1e-6)", ":1: (measured linear M N K TYPE SECONDS) is wanted"},
        {"(measured conv 1 2 3 f32 1e-6)", ":1: (measured conv PLACES FILTERS CHANNELS TAPS GROUPS [STEPS] TYPE SECONDS)"},
        {"(measured reduce-mean 64 f32 1e-6)", ":1: (measured reduce-mean ELEMENTS ROW [BETWEEN] TYPE SECONDS) is wanted"},
        {"(measured layer-norm 64 8 1 f32 1e-6)", ":1: (measured layer-norm ELEMENTS ROW TYPE SECONDS) is wanted"},
        {"(measured max-pool 64 9 f32 1e-6) (measured max-pool 64 9 f32 2e-6)", ":35: this was measured twice"},
        {"(away 1 2 3)", ":1: (away BYTES READING MOVING LAUNCH LAYER) is wanted, with more bytes than before"},
        {"(away 1 2 3 4 5 6)", ":1: (away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(away 1 2 3 4 -5)", ":1: (away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(away 1 2 3 -4)", ":1: (away BYTES READING MOVING LAUNCH LAYER) is wanted"},
        {"(away 2 0 0 0 0) (away 3 0 0 0)", ":18: this entry (away ...) is without LAYER and those before are with it"},
        {"(away 2 0 0 0) (away 3 0 0 0 0)", ":16: this entry (away ...) is with LAYER and those before are without it"},
        {"(aged 1e-3 0)", ":1: (aged SECONDS MOVING WINDOWS) is wanted, with more seconds than before"},
        {"(aged 1e-3 0 -1)", ":1: (aged SECONDS MOVING WINDOWS) is wanted"},
        {"(aged 1e-3 0 0) (aged 1e-3 0 0)", ":17: (aged SECONDS MOVING WINDOWS) is wanted, with more seconds than before"},
        {"(away 2 0 0 0) (away 2 0 0 0)", ":16: (away BYTES READING MOVING LAUNCH LAYER) is wanted, with more bytes"},
        {"(measured gelu 1 2 f32 1e-6)", ":1: (measured gelu ELEMENTS TYPE SECONDS) is wanted"},
        {"(measured attention 1 2 3 f32 1e-6)",
         ":1: (measured attention BATCH ROWS KEYS WIDTH TYPE SECONDS) is wanted"},
        {"(measured softmax 8 f32 1e-6)", ":1: (measured softmax ELEMENTS ROW TYPE SECONDS) is wanted"},
        {"(measured slice 8 f32 1e-6)", ":11: 'slice' is no operator that is measured"},
        {"(measured linear 1 0 3 f32 1e-6)", ":20: a size from 1 to 2^40 is wanted"},
        {"(measured linear 1 2.5 3 f32 1e-6)", ":20: a size from 1 to 2^40 is wanted"},
        {"(measured gelu 1099511627777 f32 1e-6)", ":16: a size from 1 to 2^40 is wanted"},
        {"(measured gelu 8 float 1e-6)", ":18: an element type is wanted"},
        {"(measured gelu 8 f32 0)", ":22: SECONDS from 1e-15 to 1e+06 is wanted"},
        {"(measured gelu 8 f32 -1e-6)", ":22: SECONDS from 1e-15 to 1e+06 is wanted"},
        {"(measured gelu 8 f32 nan)", ":22: SECONDS from 1e-15 to 1e+06 is wanted"},
        {"(measured gelu 8 f32 inf)", ":22: SECONDS from 1e-15 to 1e+06 is wanted"},
        {"(measured gelu 8 f32 1e-6) (measured gelu 8 f32 2e-6)", ":28: this was measured twice"},
        {"(share)", ":1: (share OPERATOR SIZE... TYPE SHARE) is wanted"},
        {"(share linear 1 2 f32 0.5)", ":1: (share linear M N K TYPE SHARE) is wanted"},
        {"(share gelu 8 f32 0)", ":19: SHARE from 1e-15 to 1e+06 is wanted"},
        {"(share gelu 8 f32 0.5) (share gelu 8 f32 0.5)", ":24: this was measured twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hyp_arena arena = {0};
        hyp_device_profile profile;
        hyp_diag diag = {0};
        assert_int_equal(parse_with(&arena, wrong[i][0], &profile, &diag), HYP_ERR_MALFORMED);
        if (!strstr(diag.message, wrong[i][1])) fail_msg("wanted '%s' in: %s", wrong[i][1], diag.message);
        hyp_arena_dispose(&arena);
    }
}

static void too_many_measurements_are_refused(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_device_profile profile;
    hyp_diag diag = {0};
    hyp_strbuf text = {0};
    for (int i = 1; i <= 1001; i++) hyp_strbuf_printf(&text, "(measured gelu %d f32 1e-6)", i);
    assert_int_equal(parse_with(&arena, hyp_strbuf_text(&text), &profile, &diag), HYP_ERR_LIMIT);
    assert_non_null(strstr(diag.message, "at most 1000 measurements"));
    hyp_strbuf_dispose(&text);
    hyp_arena_dispose(&arena);
}

/* ---- roofline ---------------------------------------------------------------------------------------- */

/* What `asked` says of an operator on [m k] with weights [n k], as many as `layers`, in f32. */
static double ask(hyp_cost_fn asked, const hyp_roofline *line, hyp_op op, int64_t m, int64_t n, int64_t k, const char *act)
{
    hyp_dims *dims;
    hyp_type x = {.dtype = HYP_F32, .rank = 2, .dims = {m, k}}, w = {.dtype = HYP_F32, .rank = 2, .dims = {n, k}};
    hyp_type y = {.dtype = HYP_F32, .rank = 2, .dims = {m, n}};
    const char *const acts[2] = {act, "none"};
    const hyp_type *linear_inputs[3] = {&w, NULL, &x}, *mlp_inputs[5] = {&w, NULL, &w, NULL, &x};
    const bool constant[5] = {op == HYP_OP_linear || op == HYP_OP_fused_linear || op == HYP_OP_fused_mlp};
    hyp_attr attr = {.kind = HYP_ATTR_SYM, .sym = act};
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_cost_query q = {.op = op,
                        .attrs = &attr,
                        .inputs = linear_inputs,
                        .input_const = constant,
                        .input_count = 3,
                        .outputs = &y,
                        .output_count = 1,
                        .dims = dims};
    if (op == HYP_OP_fused_mlp) {
        attr = (hyp_attr){.kind = HYP_ATTR_SYMS, .count = 2, .syms = acts};
        q.inputs = mlp_inputs;
        q.input_count = 5;
    } else if (op != HYP_OP_linear && op != HYP_OP_fused_linear) {
        linear_inputs[0] = &y;
        q.input_count = 1;
        if (op == HYP_OP_softmax) attr = (hyp_attr){.kind = HYP_ATTR_INT, .i = -1};
    }
    double answer = asked(&q, (void *)(uintptr_t)line);
    hyp_dims_destroy(dims);
    return answer;
}

static double cost(const hyp_roofline *line, hyp_op op, int64_t m, int64_t n, int64_t k, const char *act)
{
    return ask(hyp_roofline_cost, line, op, m, n, k, act);
}

static hyp_roofline line_of(hyp_arena *arena, const char *name)
{
    hyp_roofline line = {0};
    const char *text = hyp_profile_builtin(name);
    assert_non_null(text);
    assert_int_equal(hyp_profile_parse(arena, name, text, strlen(text), &line.profile, NULL), HYP_OK);
    return line;
}

static hyp_roofline measured_line(hyp_arena *arena, const char *entries)
{
    hyp_roofline line = {0};
    assert_int_equal(parse_with(arena, entries, &line.profile, NULL), HYP_OK);
    return line;
}

/* Measurements far from any roofline. */
static const char uneven[] = "(measured linear 1 64 64 f32 1e-6) (measured linear 1 1024 1024 f32 1e-3)"
                             "(measured linear 512 64 64 f32 1e-4)";

static void fusing_never_costs_more_than_not_fusing(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 6, 64, 1000, 4096};
    static const struct {
        const char *name;
        hyp_op op;
    } acts[] = {{"relu", HYP_OP_relu}, {"gelu", HYP_OP_gelu}, {"gelu-tanh", HYP_OP_gelu_tanh}, {"tanh", HYP_OP_tanh}};
    hyp_arena arena = {0};
    for (int p = 0; p < 3; p++) {
        hyp_roofline line = p < 2 ? line_of(&arena, p ? "h200" : "cpu") : measured_line(&arena, uneven);
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                for (int a = 0; a < 4; a++) {
                    int64_t m = sizes[i], n = sizes[j];
                    double linear = cost(&line, HYP_OP_linear, m, n, n, "none"),
                           act = cost(&line, acts[a].op, m, n, n, "none");
                    double fused = cost(&line, HYP_OP_fused_linear, m, n, n, acts[a].name);
                    double mlp = cost(&line, HYP_OP_fused_mlp, m, n, n, acts[a].name);
                    assert_true(fused <= (linear + act) * (1 + 1e-12));
                    assert_true(mlp <= (fused + linear) * (1 + 1e-12));
                    assert_true(mlp >= linear);
                }
    }
    hyp_arena_dispose(&arena);
}

/* Of x by w to y, without a bias; `steps`, along two axes, and `added` may be NULL. */
static double strided_seconds(const hyp_roofline *line, const hyp_dim *steps, const hyp_type *x, const hyp_type *w,
                              const hyp_type *y, const hyp_type *added, const char *act)
{
    hyp_dims *dims;
    const hyp_type *inputs[] = {x, w, NULL, added};
    hyp_attr attrs[HYP_MAX_ATTRS] = {[4] = {.kind = HYP_ATTR_SYM, .sym = act}};
    if (steps) attrs[0] = (hyp_attr){.kind = HYP_ATTR_DIMS, .count = 2, .dims = steps};
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_cost_query q = {.op = HYP_OP_conv,
                        .attrs = attrs,
                        .inputs = inputs,
                        .input_count = added ? 4 : 2,
                        .outputs = y,
                        .output_count = 1,
                        .dims = dims};
    double seconds = hyp_roofline_cost(&q, (void *)(uintptr_t)line);
    hyp_dims_destroy(dims);
    return seconds;
}

static double convolution_seconds(const hyp_roofline *line, const hyp_type *x, const hyp_type *w, const hyp_type *y,
                                  const hyp_type *added, const char *act)
{
    return strided_seconds(line, NULL, x, w, y, added, act);
}

/* A convolution of 3x3 over so many places. */
static double conv_seconds(const hyp_roofline *line, int64_t places, int64_t filters, int64_t channels)
{
    const hyp_type x = {.dtype = HYP_F32, .rank = 3, .dims = {1, channels, places}};
    const hyp_type w = {.dtype = HYP_F32, .rank = 3, .dims = {filters, channels, 9}};
    const hyp_type y = {.dtype = HYP_F32, .rank = 3, .dims = {1, filters, places}};
    return convolution_seconds(line, &x, &w, &y, NULL, "none");
}

/* Of two measurements whose sizes are as near the one with as much to do says more. */
static void a_convolution_is_like_those_that_compute_as_much(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "");
    char text[256];
    double roofline = conv_seconds(&line, 784, 512, 512);
    const double factors[] = {0.5, 8};
    for (int i = 0; i < 2; i++) {
        double small = factors[i] * conv_seconds(&line, 196, 256, 256), large = conv_seconds(&line, 3136, 256, 256);
        snprintf(text, sizeof text, "(measured conv 196 256 256 9 1 f32 %g) (measured conv 3136 256 256 9 1 f32 %g)", small,
                 large);
        hyp_roofline measured = measured_line(&arena, text);
        double ratio = conv_seconds(&measured, 784, 512, 512) / roofline;
        assert_true(fabs(log(ratio)) < 0.1 * fabs(log(factors[i])));
        assert_true(fabs(conv_seconds(&measured, 196, 256, 256) / small - 1) < 1e-4);
    }
    hyp_arena_dispose(&arena);
}

/* Of two as near those of nine taps in steps of one say more of one that has these, where entries tell of steps. */
static void a_convolution_is_like_those_of_its_kind(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "");
    const double roofline = conv_seconds(&line, 784, 64, 64);
    char text[256];
    for (int told = 0; told < 2; told++) {
        const char *steps = told ? " 1" : "";
        snprintf(text, sizeof text, "(measured conv 784 64 128 9 1%s f32 %g) (measured conv 784 64 64 18 1%s f32 %g)", steps,
                 2 * conv_seconds(&line, 784, 64, 128), steps, 2 * 8 * roofline);
        hyp_roofline measured = measured_line(&arena, text);
        double ratio = conv_seconds(&measured, 784, 64, 64) / roofline;
        assert_true(told ? ratio > 2 && ratio < 2.2 : ratio > 3.5 && ratio < 6);
    }
    hyp_arena_dispose(&arena);
}

/* Each part of a split that is read where it lies takes its share away, and all of them everything. */
static void parts_that_are_read_in_place_cost_nothing(void **state)
{
    (void)state;
    hyp_dims *dims;
    hyp_arena arena = {0};
    hyp_type x = {.dtype = HYP_F32, .rank = 2, .dims = {64, 4096}};
    hyp_type part = {.dtype = HYP_F32, .rank = 2, .dims = {64, 1024}};
    const hyp_type *input = &x, outputs[4] = {part, part, part, part};
    const hyp_dim sizes[] = {1024, 1024, 1024, 1024};
    const hyp_attr attrs[] = {{.kind = HYP_ATTR_INT, .i = 1}, {.kind = HYP_ATTR_DIMS, .count = 4, .dims = sizes}};
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_cost_query q = {.op = HYP_OP_split,
                        .attrs = attrs,
                        .inputs = &input,
                        .input_count = 1,
                        .outputs = outputs,
                        .output_count = 4,
                        .dims = dims};
    for (int gpu = 0; gpu < 2; gpu++) {
        hyp_roofline line = line_of(&arena, gpu ? "h200" : "cpu");
        q.in_place = 0;
        double all = hyp_roofline_cost(&q, &line);
        for (q.in_place = 1; q.in_place < 4; q.in_place++) {
            double share = gpu ? (4.0 - q.in_place) / 4 : 1; /* the CPU's profile does not count on it */
            assert_true(fabs(hyp_roofline_cost(&q, &line) / (all * share) - 1) < 1e-9);
        }
        assert_true(hyp_roofline_cost(&q, &line) <= (gpu ? 1e-11 : all));
    }
    hyp_dims_destroy(dims);
    hyp_arena_dispose(&arena);
}

static void costs_are_near_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        int64_t m, n, k;
        bool tf32;
        double seconds;
    } measured[] = {
        {"cpu", 1, 512, 512, false, 9.0e-6},         {"cpu", 8, 2048, 512, false, 191e-6},
        {"cpu", 128, 1024, 1024, false, 1633e-6},    {"cpu", 512, 4096, 1024, false, 25587e-6},
        {"h200", 1024, 2048, 784, false, 72.2e-6},   {"h200", 8192, 4096, 4096, false, 5440e-6},
        {"h200", 1024, 2048, 2048, false, 179.9e-6},
    };
    hyp_arena arena = {0};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        hyp_roofline line = line_of(&arena, measured[i].profile);
        double seconds = cost(&line, HYP_OP_fused_linear, measured[i].m, measured[i].n, measured[i].k, "relu");
        if (seconds > 2 * measured[i].seconds || seconds < measured[i].seconds / 2)
            fail_msg("%s %d x %d x %d: %g s, measured %g s", measured[i].profile, (int)measured[i].m,
                     (int)measured[i].n, (int)measured[i].k, seconds, measured[i].seconds);
    }
    hyp_arena_dispose(&arena);
}

static void what_was_measured_costs_that(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline plain = line_of(&arena, "cpu");
    hyp_roofline line = measured_line(&arena, "(measured linear 4 64 64 f32 3e-6) (measured linear 4 256 256 f32 8e-6)"
                                              "(measured gelu 8192 f32 5e-5) (measured softmax 8192 128 f32 7e-5)");
    /* An entry is of a layer with a bias, whose bytes count for next to nothing. */
    assert_true(fabs(cost(&line, HYP_OP_linear, 4, 64, 64, "none") / 3e-6 - 1) < 0.01);
    assert_true(fabs(cost(&line, HYP_OP_linear, 4, 256, 256, "none") / 8e-6 - 1) < 0.01);
    assert_true(cost(&line, HYP_OP_fused_mlp, 4, 256, 256, "relu") < 2 * 8e-6);
    assert_true(fabs(cost(&line, HYP_OP_gelu, 128, 64, 0, "none") / 5e-5 - 1) < 1e-12);
    assert_true(fabs(cost(&line, HYP_OP_softmax, 64, 128, 0, "none") / 7e-5 - 1) < 1e-12);
    /* Nothing is known of another operator. */
    assert_true(cost(&line, HYP_OP_tanh, 128, 64, 0, "none") == cost(&plain, HYP_OP_tanh, 128, 64, 0, "none"));
    hyp_arena_dispose(&arena);
}

/* A product of computed matrices with so many columns, in batches of eight. */
static double product_seconds(hyp_roofline *line, int64_t columns, bool constant)
{
    hyp_type x = {.dtype = HYP_F32, .rank = 3, .dims = {8, 64, 64}}, w = x, y = x;
    w.dims[2] = y.dims[2] = columns;
    if (constant) w = (hyp_type){.dtype = HYP_F32, .rank = 2, .dims = {64, columns}};
    const hyp_type *inputs[2] = {&x, &w};
    const bool consts[2] = {false, constant};
    hyp_attr attrs[HYP_MAX_ATTRS] = {0};
    hyp_cost_query q = {.op = HYP_OP_matmul,
                        .inputs = inputs,
                        .input_const = consts,
                        .input_count = 2,
                        .outputs = &y,
                        .output_count = 1,
                        .attrs = attrs};
    return hyp_roofline_cost(&q, line);
}

static void columns_of_a_product_are_computed_together(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline each = measured_line(&arena, "(columns-at-once 1)"), line = measured_line(&arena, "(columns-at-once 16)");
    assert_true(product_seconds(&line, 80, false) == product_seconds(&each, 80, false));
    assert_true(product_seconds(&line, 65, false) == product_seconds(&line, 80, false));
    assert_true(product_seconds(&line, 81, false) > 1.1 * product_seconds(&line, 80, false));
    assert_true(product_seconds(&each, 65, false) < 0.85 * product_seconds(&each, 80, false));
    /* Of a layer's weights others are made when they are packed. */
    assert_true(product_seconds(&line, 65, true) == product_seconds(&each, 65, true));
    hyp_arena_dispose(&arena);
}

/* Of a convolution along two axes, with strides: an entry knows neither. What is added is no part of it. */
static void a_measured_convolution_costs_that_and_what_is_added(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line =
        measured_line(&arena, "(measured conv 392 64 16 9 2 f32 5e-5) (measured conv 8 8 8 1 1 f32 1e-6)");
    hyp_type x = {.dtype = HYP_F32, .rank = 4, .dims = {2, 32, 14, 14}}, w = x, y = x;
    w.dims[0] = y.dims[1] = 64;
    w.dims[1] = 16;
    w.dims[2] = w.dims[3] = 3;
    double alone = convolution_seconds(&line, &x, &w, &y, NULL, "none");
    double with_sum = convolution_seconds(&line, &x, &w, &y, &y, "none");
    assert_true(fabs(alone / 5e-5 - 1) < 1e-12);
    assert_true(with_sum > alone && with_sum < 1.1 * alone);
    hyp_arena_dispose(&arena);
}

/* An entry may say by how many places windows go on; one that does not is of any. */
static void windows_that_go_on_by_two_are_priced_as_such(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline any = measured_line(&arena, "(measured conv 196 64 64 9 1 f32 5e-5)"),
                 line = measured_line(&arena, "(measured conv 196 64 64 9 1 1 f32 5e-5)"
                                              "(measured conv 196 64 64 9 1 4 f32 9e-5)");
    hyp_type x = {.dtype = HYP_F32, .rank = 4, .dims = {1, 64, 14, 14}}, y = x, large = x;
    const hyp_type w = {.dtype = HYP_F32, .rank = 4, .dims = {64, 64, 3, 3}};
    const hyp_dim one[] = {1, 1}, two[] = {2, 2};
    large.dims[2] = large.dims[3] = 28;
    assert_true(fabs(strided_seconds(&line, one, &x, &w, &y, NULL, "none") / 5e-5 - 1) < 1e-9);
    assert_true(fabs(strided_seconds(&line, two, &large, &w, &y, NULL, "none") / 9e-5 - 1) < 1e-9);
    assert_true(fabs(strided_seconds(&any, two, &large, &w, &y, NULL, "none") / 5e-5 - 1) < 1e-9);
    hyp_arena_dispose(&arena);
}

/* Rows of 49 in 100 x 49, columns of 100, and the places of an image of 64 channels, which lie far apart as columns do. */
static void means_are_priced_by_the_axes_that_they_are_over(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_dims *dims;
    hyp_roofline line = measured_line(&arena, "(measured reduce-mean 4900 49 1 f32 7e-5)"
                                              "(measured reduce-mean 4900 100 49 f32 1e-5)"
                                              "(measured reduce-mean 3136 49 64 f32 2e-5)");
    const struct {
        hyp_type x, y;
        hyp_dim axes[2];
        uint32_t count;
        double seconds;
    } cases[] = {
        {{.dtype = HYP_F32, .rank = 2, .dims = {100, 49}}, {.dtype = HYP_F32, .rank = 1, .dims = {100}}, {1}, 1, 7e-5},
        {{.dtype = HYP_F32, .rank = 2, .dims = {100, 49}}, {.dtype = HYP_F32, .rank = 1, .dims = {49}}, {0}, 1, 1e-5},
        {{.dtype = HYP_F32, .rank = 4, .dims = {1, 64, 7, 7}},
         {.dtype = HYP_F32, .rank = 2, .dims = {1, 64}},
         {2, 3},
         2,
         2e-5},
    };
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hyp_type *x = &cases[i].x;
        const hyp_attr attrs[] = {{.kind = HYP_ATTR_DIMS, .count = cases[i].count, .dims = cases[i].axes},
                                  hyp_attr_of_int(0)};
        hyp_cost_query q = {.op = HYP_OP_reduce_mean,
                            .attrs = attrs,
                            .inputs = &x,
                            .input_count = 1,
                            .outputs = &cases[i].y,
                            .output_count = 1,
                            .dims = dims};
        assert_true(fabs(hyp_roofline_cost(&q, &line) / cases[i].seconds - 1) < 1e-9);
    }
    hyp_dims_destroy(dims);
    hyp_arena_dispose(&arena);
}

/* Of 14 x 14 places, without a bias. */
static double conv_act_cost(const hyp_roofline *line, int64_t filters, int64_t channels, int64_t taps, int64_t groups,
                            const char *act)
{
    hyp_type x = {.dtype = HYP_F32, .rank = 4, .dims = {1, channels, 14, 14}}, y = x;
    hyp_type w = {.dtype = HYP_F32, .rank = 4, .dims = {filters, channels / groups, taps, 1}};
    y.dims[1] = filters;
    return convolution_seconds(line, &x, &w, &y, NULL, act);
}

static double conv_cost(const hyp_roofline *line, int64_t filters, int64_t channels, int64_t taps, int64_t groups)
{
    return conv_act_cost(line, filters, channels, taps, groups, "none");
}

/* A gelu is part of no product's kernel here. */
static void depthwise_kernels_end_in_activations_where_a_profile_says_so(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    for (int inside = 0; inside < 2; inside++) {
        hyp_roofline line = measured_line(&arena, inside ? "(epilogue relu) (depthwise-ends-in-acts true)"
                                                         : "(epilogue relu) (depthwise-ends-in-acts false)");
        double alone = conv_cost(&line, 64, 64, 9, 64), gelu = conv_act_cost(&line, 64, 64, 9, 64, "gelu");
        assert_true(inside ? gelu == alone : gelu > alone + 1e-7);
        assert_true(conv_act_cost(&line, 64, 64, 9, 1, "gelu") > conv_cost(&line, 64, 64, 9, 1) + 1e-7);
    }
    hyp_arena_dispose(&arena);
}

static double gradient_cost(const hyp_roofline *line, hyp_op op)
{
    const hyp_type g = {.dtype = HYP_F32, .rank = 2, .dims = {512, 256}}, x = {.dtype = HYP_F32, .rank = 2, .dims = {512, 64}};
    const hyp_type outputs[] = {{.dtype = HYP_F32, .rank = 2, .dims = {256, 64}}, {.dtype = HYP_F32, .rank = 1, .dims = {256}}};
    const hyp_type *inputs[] = {&g, &x};
    const hyp_dim first = 0;
    const hyp_attr rows = {.kind = HYP_ATTR_DIMS, .count = 1, .dims = &first};
    const hyp_attr turned = hyp_attr_of_int(0), of_product[] = {hyp_attr_of_int(1), turned, hyp_attr_of_float(1)};
    hyp_cost_query q = {.op = op, .inputs = inputs, .input_count = 2, .outputs = outputs, .output_count = 1};
    if (op == HYP_OP_matmul) q.attrs = of_product;
    if (op == HYP_OP_reduce_sum) q.attrs = &rows, q.input_count = 1, q.outputs = &outputs[1];
    if (op == HYP_OP_linear_gradient) q.attrs = &turned, q.output_count = 2;
    return hyp_roofline_cost(&q, (void *)(uintptr_t)line);
}

/* They take more than the product, and less than the product and sums by themselves. */
static void products_add_up_rows_where_a_profile_says_so(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline without = measured_line(&arena, ""), with = measured_line(&arena, "(sums-in-products 0.75)");
    double product = gradient_cost(&with, HYP_OP_matmul), sums = gradient_cost(&with, HYP_OP_reduce_sum);
    double both = gradient_cost(&with, HYP_OP_linear_gradient);
    assert_true(both > product && both < product + sums);
    assert_true(gradient_cost(&without, HYP_OP_linear_gradient) >= HYP_COST_UNSUPPORTED);
    hyp_arena_dispose(&arena);
}

/* What was measured of linears says something of a convolution of one tap, where a profile says so; what was measured
 * of just that convolution says all. */
static void a_convolution_of_one_tap_is_a_layer_where_it_runs_as_one(void **state)
{
    (void)state;
    static const char entries[] = "(measured linear 196 512 2560 f32 4e-3) (measured conv 196 8 8 9 1 f32 1e-6)"
                                  "(measured conv 196 64 64 1 1 f32 3e-3)";
    char as_layers[256];
    snprintf(as_layers, sizeof as_layers, "(one-tap-convs-as-layers true) %s", entries);
    hyp_arena arena = {0};
    hyp_roofline apart = measured_line(&arena, entries), layers = measured_line(&arena, as_layers);
    /* An entry of a layer is with a bias, whose bytes count for next to nothing. */
    assert_true(fabs(conv_cost(&layers, 512, 2560, 1, 1) / 4e-3 - 1) < 0.01);
    assert_true(conv_cost(&apart, 512, 2560, 1, 1) > 0 && fabs(conv_cost(&apart, 512, 2560, 1, 1) / 4e-3 - 1) > 0.1);
    assert_true(fabs(conv_cost(&layers, 64, 64, 1, 1) / 3e-3 - 1) < 1e-12);
    assert_true(conv_cost(&layers, 512, 2560, 3, 1) ==
                conv_cost(&apart, 512, 2560, 3, 1)); /* of three taps, of groups: */
    assert_true(conv_cost(&layers, 512, 2560, 1, 2) == conv_cost(&apart, 512, 2560, 1, 2)); /* none is a layer */
    hyp_arena_dispose(&arena);
}

/* Some channels of one image, and some of the images, where `axis` says so: both lie in one piece. */
static double split_cost(const hyp_roofline *line, int64_t axis, uint8_t rank)
{
    hyp_dims *dims;
    hyp_type x = {.dtype = HYP_F32, .rank = rank, .dims = {1, 96, 14, 14}}, parts[2] = {x, x};
    if (axis == 0) x.dims[0] = 96;
    const hyp_dim sizes[2] = {32, 64};
    const hyp_attr attrs[2] = {{.i = axis}, {.dims = sizes, .count = 2}};
    for (int i = 0; i < 2; i++) parts[i].dims[axis] = sizes[i];
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_cost_query q = {.op = HYP_OP_split,
                        .attrs = attrs,
                        .inputs = (const hyp_type *[]){&x},
                        .input_count = 1,
                        .outputs = parts,
                        .output_count = 2,
                        .dims = dims};
    double seconds = hyp_roofline_cost(&q, (void *)line);
    hyp_dims_destroy(dims);
    return seconds;
}

static void channels_of_an_image_are_turned_twice_where_its_kernels_read_no_parts(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline turned = measured_line(&arena, ""), read = measured_line(&arena, "(images-read-parts true)");
    double view = split_cost(&read, 1, 4);
    assert_true(view < 1e-9 && split_cost(&turned, 1, 4) > 1e-6); /* 75 KB are read and written */
    assert_true(split_cost(&turned, 0, 4) == view);               /* images */
    assert_true(split_cost(&turned, 1, 3) == view);               /* rows of a sentence */
    hyp_roofline measured = measured_line(&arena, "(measured transpose 18816 1 f32 1e-4)"); /* of as many elements */
    assert_true(fabs(split_cost(&measured, 1, 4) / 2e-4 - 1) < 0.01);
    hyp_arena_dispose(&arena);
}

static void turning_takes_what_a_transposition_was_measured_to(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "(measured transpose 18816 1 f32 1e-4)");
    double launch = line.profile.launch_seconds, turned = hyp_roofline_turn(&line, 18816, false);
    assert_true(fabs((turned + launch) / 1e-4 - 1) < 1e-9); /* of the step's own launch none is left */
    double copied = hyp_roofline_turn(&line, 18816, true), copy = 2 * 4 * 18816 / line.profile.cache_bytes_per_second;
    assert_true(fabs((turned - copied) / copy - 1) < 1e-6); /* it moves as much anyway */
    line = measured_line(&arena, "(measured transpose 18816 1 f32 1e-12)");
    assert_true(hyp_roofline_turn(&line, 18816, true) == 0);
    hyp_arena_dispose(&arena);
}

static void between_measurements_the_ratio_is_between_theirs(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline plain = line_of(&arena, "cpu");
    hyp_roofline line =
        measured_line(&arena, "(measured linear 1 64 64 f32 1e-6) (measured linear 1 1024 1024 f32 1e-3)"
                              "(measured linear 512 64 64 f32 1e-4)");
    double low = INFINITY, high = 0, before = 0;
    static const int64_t of[3][3] = {{1, 64, 64}, {1, 1024, 1024}, {512, 64, 64}};
    for (int i = 0; i < 3; i++) {
        double ratio = cost(&line, HYP_OP_linear, of[i][0], of[i][1], of[i][2], "none") /
                       cost(&plain, HYP_OP_linear, of[i][0], of[i][1], of[i][2], "none");
        low = fmin(low, ratio);
        high = fmax(high, ratio);
    }
    for (int64_t n = 16; n <= 1 << 14; n *= 4) {
        double seconds = cost(&line, HYP_OP_linear, 16, n, n, "none");
        double ratio = seconds / cost(&plain, HYP_OP_linear, 16, n, n, "none");
        assert_true(ratio >= low * (1 - 1e-9) && ratio <= high * (1 + 1e-9));
        assert_true(seconds > before); /* four times as wide takes longer */
        before = seconds;
    }
    hyp_arena_dispose(&arena);
}

/* The share of the device that a kernel takes: as measured, between measurements between theirs, of others what a
 * profile says of all, and no less than what it moves. */
static void shares_are_those_that_were_measured(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    static const char shares[] = "(crowding 0.125) (cache-bytes-per-second 1e13) (share linear 64 64 64 f32 0.25) "
                                 "(share linear 64 1024 1024 f32 0.75)";
    hyp_roofline line = measured_line(&arena, shares);
    assert_true(fabs(ask(hyp_roofline_share, &line, HYP_OP_linear, 64, 64, 64, "none") - 0.25) < 1e-9);
    assert_true(fabs(ask(hyp_roofline_share, &line, HYP_OP_fused_linear, 64, 1024, 1024, "relu") - 0.75) < 1e-9);
    double between = ask(hyp_roofline_share, &line, HYP_OP_linear, 64, 256, 256, "none");
    assert_true(between > 0.3 && between < 0.7);
    assert_true(ask(hyp_roofline_share, &line, HYP_OP_softmax, 4, 4, 0, "none") == 0.125);
    double moving = ask(hyp_roofline_share, &line, HYP_OP_relu, 1 << 12, 1 << 12, 0, "none");
    assert_true(moving > 0.8 && moving <= 1);
    line.profile.share_count = 0;
    assert_true(ask(hyp_roofline_share, &line, HYP_OP_linear, 64, 64, 64, "none") < 0.25);
    hyp_arena_dispose(&arena);
}

/* A core whose caches hold a megabyte, and what lies behind them takes a microsecond for each thousand bytes and a
 * launch ten. */
static const char far_away[] = "(cache-bytes 1000000) (cache-bytes-per-second 1e10) (bytes-per-second 5e9)"
                               "(far-bytes-per-second 1e9) (far-launch-seconds 1e-5)";

static void what_is_far_away_takes_longer(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline near = line_of(&arena, "cpu"), line = measured_line(&arena, far_away);
    assert_true(hyp_roofline_far(&near, 1000, 1e12, 0, 0, false) == 0); /* a profile that does not say so */
    assert_true(hyp_roofline_far(&line, 1000, 0, 0, 0, false) == 0);
    assert_true(hyp_roofline_far(&line, 1000, 500000, 0, 0, false) == 0);
    double half = hyp_roofline_far(&line, 1000, 1250000, 0, 0, false);
    assert_true(fabs(half / 0.5e-6 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 2e6, 0, 0, false) / 1e-6 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 1e9, 0, 0, false) / 1e-6 - 1) < 1e-9);
    /* A kernel that goes over as much itself was measured so. */
    assert_true(fabs(hyp_roofline_far(&line, 1000, 1e9, 0, 1250000, false) / 0.5e-6 - 1) < 1e-9);
    assert_true(hyp_roofline_far(&line, 1000, 1e9, 0, 2e6, false) == 0);
    hyp_arena_dispose(&arena);
}

/* Time by itself makes something far where a profile says so: beside what lies between, whichever makes it further. */
static void what_was_touched_long_ago_takes_longer(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "(away 1000000 1e-10 0 1e-6) (away 16000000 5e-10 4e-10 9e-6)"
                                              "(aged 1e-3 1e-10 2e-10) (aged 4e-3 3e-10 8e-10)");
    assert_true(hyp_roofline_far(&line, 1000, 0, 0, 0, false) == 0);
    assert_true(hyp_roofline_far(&line, 1000, 0, 5e-4, 0, false) == 0);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 0, 1e-3, 0, false) / 1e-7 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 0, 2e-3, 0, false) / 2e-7 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 0, 1, 0, false) / 3e-7 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 0, 2e-3, 0, true) / 5e-7 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 4e6, 1e-3, 0, false) / 2e-7 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 0, 1, 4e6, false) / 1e-7 - 1) < 1e-9); /* measured so */
    line = measured_line(&arena, "(aged 1e-3 1e-10 3e-10)");
    assert_true(fabs(hyp_roofline_far(&line, 1000, 1e12, 1, 0, false) / 1e-7 - 1) < 1e-9);
    line.profile.speedups[0] = (hyp_speedup){2, 2, 2};
    line.profile.speedup_count = 1;
    assert_true(hyp_roofline_with_threads(&line.profile, 2).ages[0].moving == 0.5e-10);
    assert_true(hyp_roofline_with_threads(&line.profile, 2).ages[0].windows == 1.5e-10);
    hyp_arena_dispose(&arena);
}

/* In place of what is far: between entries in proportion to the logarithm, from half of the first on. */
static void what_is_away_takes_longer_by_how_much_lies_between(void **state)
{
    (void)state;
    enum { N = 128 };
    const double weights = 4.0 * N * N;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "(away 1000000 1e-10 0 1e-6) (away 16000000 5e-10 4e-10 9e-6)");
    assert_true(hyp_roofline_far(&line, 1000, 0, 0, 0, false) == 0);
    assert_true(hyp_roofline_far(&line, 1000, 1e6, 0, 0, false) == 0);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 4e6, 0, 0, false) / 2e-7 - 1) < 1e-9);
    assert_true(fabs(hyp_roofline_far(&line, 1000, 16e6, 0, 4e6, false) / 2e-7 - 1) < 1e-9); /* measured so */
    assert_true(fabs(hyp_roofline_far(&line, 1000, 1e12, 0, 0, false) / 4e-7 - 1) < 1e-9);
    assert_true(hyp_roofline_far(&line, 1000, 4e6, 0, 16e6, false) == 0);
    double alone = cost(&line, HYP_OP_linear, 1, N, N, "none"), relu = cost(&line, HYP_OP_relu, 1, N, 0, "none");
    line.round = 500000;
    assert_true(cost(&line, HYP_OP_linear, 1, N, N, "none") == alone);
    line.round = 4e6;
    assert_true(fabs((cost(&line, HYP_OP_relu, 1, N, 0, "none") - relu) / 5e-6 - 1) < 1e-9);
    double away = cost(&line, HYP_OP_linear, 1, N, N, "none") - alone;
    assert_true(fabs(away / (5e-6 + weights * 2e-10) - 1) < 1e-9);
    hyp_arena_dispose(&arena);
}

/* A layer begins to read in another time than a kernel begins, and what it waits for weights is not multiplied by what was
 * measured. */
static void layers_wait_for_weights_beside_what_was_measured(void **state)
{
    (void)state;
    enum { N = 128, LARGE = 1024 };
    const double weights = 4.0 * N * N, bytes = 4.0 * LARGE * LARGE, took = 2e-3;
    hyp_arena arena = {0};
#define AWAY "(away 1000000 1e-10 0 1e-6 2e-6) (away 16000000 5e-10 0 9e-6 6e-6)"
    hyp_roofline plain = measured_line(&arena, AWAY),
                 line = measured_line(&arena, AWAY "(measured linear 1 1024 1024 f32 2e-3)");
#undef AWAY
    double alone = cost(&plain, HYP_OP_linear, 1, N, N, "none"), relu = cost(&plain, HYP_OP_relu, 1, N, 0, "none");
    double one = cost(&plain, HYP_OP_linear, 1, LARGE, LARGE, "none");
    double four = cost(&plain, HYP_OP_linear, 1, 4 * LARGE, LARGE, "none");
    plain.round = 4e6;
    assert_true(fabs((cost(&plain, HYP_OP_linear, 1, N, N, "none") - alone) / (4e-6 + weights * 2e-10) - 1) < 1e-9);
    assert_true(fabs((cost(&plain, HYP_OP_relu, 1, N, 0, "none") - relu) / 5e-6 - 1) < 1e-9);
    assert_true(fabs(cost(&line, HYP_OP_linear, 1, LARGE, LARGE, "none") / took - 1) < 0.01); /* but for biases */
    double waiting = bytes * 4e-10 * log(2 * bytes / 1e6) / log(16), of_four = 4 * bytes * 4e-10;
    double expected = of_four + (four - of_four) * (took - waiting) / (one - waiting);
    assert_true(fabs(cost(&line, HYP_OP_linear, 1, 4 * LARGE, LARGE, "none") / expected - 1) < 0.01);
    assert_true(expected < 0.98 * four * took / one);
    hyp_arena_dispose(&arena);
}

/* A kernel finds what it touched in the run before as far as it is long, with no step where a cache ends. */
static void what_a_kernel_goes_over_is_as_far_as_that(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline near = measured_line(&arena, "(pointwise-per-second 1e15) (away 1e12 0 0 0)"),
                 line = measured_line(&arena, "(pointwise-per-second 1e15) (away 1000000 0 0 0) (away 16000000 0 4e-10 0)");
    const int64_t rows[] = {100, 500, 2000, 100000};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) { /* a row of 500 is read and written */
        double bytes = 4000.0 * (double)rows[i], part = fmin(1, fmax(0, log(bytes / 1e6) / log(16)));
        double more = cost(&line, HYP_OP_tanh, rows[i], 500, 0, "none") - cost(&near, HYP_OP_tanh, rows[i], 500, 0, "none");
        assert_true(fabs(more - bytes * part * 4e-10) < 1e-12);
    }
    hyp_arena_dispose(&arena);
}

/* A model of many weights: none is near when its turn comes, nor is the program of a kernel. */
static void weights_and_launches_are_as_far_as_the_model_is_large(void **state)
{
    (void)state;
    enum { N = 128 };
    const double weights = 4.0 * N * N;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, far_away);
    double alone = cost(&line, HYP_OP_linear, 1, N, N, "none"), relu = cost(&line, HYP_OP_relu, 1, N, 0, "none");
    line.constants = 400000;
    assert_true(cost(&line, HYP_OP_linear, 1, N, N, "none") == alone);
    line.constants = 1e8;
    double far = cost(&line, HYP_OP_linear, 1, N, N, "none");
    assert_true(fabs((far - alone) / (1e-5 + weights / 5e9 - weights / 1e10) - 1) < 1e-9);
    assert_true(fabs((cost(&line, HYP_OP_relu, 1, N, 0, "none") - relu) / 1e-5 - 1) < 1e-9);
    assert_true(cost(&line, HYP_OP_fused_linear, 1, N, N, "relu") < far + cost(&line, HYP_OP_relu, 1, N, 0, "none"));
    hyp_arena_dispose(&arena);
}

/* Types without entries of an operator go by the additions of their type. */
static void narrow_integers_cost_what_adding_them_does(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "(measured add 65536 u8 1e-3) (measured add 65536 f32 1e-5)");
    hyp_type x = {.dtype = HYP_U8, .rank = 1, .dims = {65536}}, y = x;
    const hyp_type *inputs[2] = {&x, &x};
    hyp_cost_query q = {.op = HYP_OP_sub, .inputs = inputs, .input_count = 2, .outputs = &y, .output_count = 1};
    assert_true(fabs(hyp_roofline_cost(&q, &line) / 1e-3 - 1) < 1e-9);
    assert_true(hyp_roofline_work(&q, &line) > 0.9e-3);
    q.op = HYP_OP_cast; /* of one input, and none was measured */
    q.input_count = 1;
    assert_true(hyp_roofline_cost(&q, &line) > 0.9e-3);
    x.dtype = y.dtype = HYP_F32;
    assert_true(hyp_roofline_cost(&q, &line) < 1e-4);
    hyp_arena_dispose(&arena);
}

/* In a reader's kernel an operator takes no longer than in one of its own, whatever of that was measured. */
static void a_reader_computes_for_no_more_than_a_kernel_would(void **state)
{
    (void)state;
    static const char *const profiles[] = {"cpu", "generic", "avx2", "avx512", "amx", "h100", "h200"};
    static const hyp_op ops[] = {HYP_OP_add,  HYP_OP_mul, HYP_OP_sub,  HYP_OP_relu, /* three of two inputs first */
                                 HYP_OP_tanh, HYP_OP_exp, HYP_OP_gelu, HYP_OP_cast};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    static const int64_t sizes[] = {1000, 16384, 300000, 2097152, 12582912, 100000000};
    hyp_arena arena = {0};
    for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++) {
        hyp_roofline line = line_of(&arena, profiles[p]);
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            for (size_t t = 0; t < 3; t++)
                for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                    hyp_type x = {.dtype = types[t], .rank = 1, .dims = {sizes[i]}};
                    const hyp_type *inputs[2] = {&x, &x};
                    hyp_cost_query q = {
                        .op = ops[o], .inputs = inputs, .input_count = o < 3 ? 2 : 1, .outputs = &x, .output_count = 1};
                    double apart = hyp_roofline_cost(&q, &line);
                    q.joined = true;
                    double joined = hyp_roofline_cost(&q, &line);
                    if (!(joined <= apart * 1.0001))
                        fail_msg("%s, %s of %lld of type %d: %g s in a reader's kernel, %g s in its own", profiles[p],
                                 hyp_op_get(ops[o])->name, (long long)sizes[i], (int)types[t], joined, apart);
                }
    }
    hyp_arena_dispose(&arena);
}

/* A pass that waits for memory says nothing of arithmetic: what was measured of it does not count again for each operator
 * of a group. These took 28 us on an H100. */
static void a_group_moves_its_tensors_once(void **state)
{
    (void)state;
    static const char text[] =
        "(graph \"\" (input %g (bf16 8 512 3072)) (input %x (bf16 8 512 3072)) (%1 (mul %x %x)) (%2 (mul %x %1)) "
        "(%3 (add %x %2)) (%4 (tanh %3)) (%5 (mul %4 %4)) (%6 (sub %g %5)) (%7 (mul %6 %g)) (%8 (mul %7 %x)) "
        "(%9 (add %8 %4)) (%10 (mul %9 %1)) (%11 (add %10 %2)) (%12 (mul %11 %g)) (output \"y\" %12))";
    hyp_arena arena = {0};
    hyp_roofline line = line_of(&arena, "h100");
    hyp_dims *dims;
    hyp_graph g;
    const hyp_node *nodes[12];
    double seconds;
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_graph_init(&g, dims);
    assert_int_equal(hyp_graph_parse(&g, "group", text, strlen(text), NULL), HYP_OK);
    assert_int_equal(g.nodes.len, 12);
    for (size_t i = 0; i < 12; i++) nodes[i] = &g.nodes.data[i];
    assert_int_equal(hyp_roofline_kernel(&g, nodes, 12, &line, &seconds, NULL), HYP_OK);
    if (seconds < 14e-6 || seconds > 56e-6) fail_msg("%g s", seconds);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    hyp_arena_dispose(&arena);
}

/* Where a profile tells what moving takes: x + x moves two tensors, and x + z three. */
static void a_tensor_that_is_read_twice_moves_once(void **state)
{
    (void)state;
    static const char text[] = "(graph \"\" (input %x (f32 1048576)) (input %z (f32 1048576)) (%1 (add %x %x)) (%2 (add %x %z)) "
                               "(output \"a\" %1) (output \"b\" %2))";
    hyp_arena arena = {0};
    hyp_roofline line = measured_line(&arena, "(away 1000000 0 1e-9 0)");
    hyp_dims *dims;
    hyp_graph g;
    double seconds[2];
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_graph_init(&g, dims);
    assert_int_equal(hyp_graph_parse(&g, "twice", text, strlen(text), NULL), HYP_OK);
    for (int i = 0; i < 2; i++) {
        const hyp_node *node = &g.nodes.data[i];
        assert_int_equal(hyp_roofline_kernel(&g, &node, 1, &line, &seconds[i], NULL), HYP_OK);
    }
    assert_true(fabs(seconds[0] / seconds[1] * 1.5 - 1) < 0.05);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    hyp_arena_dispose(&arena);
}

/* Points in time wait for each other: a recurrence of ten times as many takes ten times as long. */
static void a_recurrence_takes_its_time(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_roofline line = line_of(&arena, "cpu");
    hyp_type x = {.dtype = HYP_F32, .rank = 3, .dims = {10, 1, 2048}},
             r = {.dtype = HYP_F32, .rank = 2, .dims = {512, 2048}};
    hyp_type y = {.dtype = HYP_F32, .rank = 3, .dims = {10, 1, 512}};
    const hyp_type *inputs[2] = {&x, &r};
    hyp_cost_query q = {.op = HYP_OP_lstm, .inputs = inputs, .input_count = 2, .outputs = &y, .output_count = 1};
    double ten = hyp_roofline_cost(&q, &line), least = 10 * 4.0 * 512 * 2048 / line.profile.cache_bytes_per_second;
    assert_true(ten > least);
    x.dims[0] = y.dims[0] = 100;
    double hundred = hyp_roofline_cost(&q, &line);
    assert_true(hundred > 9.5 * ten && hundred < 10.5 * ten);
    hyp_arena_dispose(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_far_away_takes_longer),
        cmocka_unit_test(what_was_touched_long_ago_takes_longer),
        cmocka_unit_test(weights_and_launches_are_as_far_as_the_model_is_large),
        cmocka_unit_test(narrow_integers_cost_what_adding_them_does),
        cmocka_unit_test(a_reader_computes_for_no_more_than_a_kernel_would),
        cmocka_unit_test(a_group_moves_its_tensors_once),
        cmocka_unit_test(a_tensor_that_is_read_twice_moves_once),
        cmocka_unit_test(what_a_kernel_goes_over_is_as_far_as_that),
        cmocka_unit_test(a_recurrence_takes_its_time),
        cmocka_unit_test(mistakes_in_rules_are_named_with_their_place),
        cmocka_unit_test(rules_are_named_in_messages),
        cmocka_unit_test(attributes_may_stand_anywhere_and_have_defaults),
        cmocka_unit_test(the_list_of_rules_tells_their_sets_and_classes),
        cmocka_unit_test(mistakes_in_profiles_are_named_with_their_place),
        cmocka_unit_test(fusing_never_costs_more_than_not_fusing),
        cmocka_unit_test(a_convolution_is_like_those_that_compute_as_much),
        cmocka_unit_test(a_convolution_is_like_those_of_its_kind),
        cmocka_unit_test(parts_that_are_read_in_place_cost_nothing),
        cmocka_unit_test(costs_are_near_what_was_measured),
        cmocka_unit_test(sizes_of_measurements_may_be_as_large_as_they_like),
        cmocka_unit_test(a_profile_may_start_from_a_built_in_one),
        cmocka_unit_test(a_profile_names_the_kernels_that_a_device_has),
        cmocka_unit_test(mistakes_in_measurements_are_named_with_their_place),
        cmocka_unit_test(too_many_measurements_are_refused),
        cmocka_unit_test(what_was_measured_costs_that),
        cmocka_unit_test(columns_of_a_product_are_computed_together),
        cmocka_unit_test(a_measured_convolution_costs_that_and_what_is_added),
        cmocka_unit_test(products_add_up_rows_where_a_profile_says_so),
        cmocka_unit_test(depthwise_kernels_end_in_activations_where_a_profile_says_so),
        cmocka_unit_test(a_convolution_of_one_tap_is_a_layer_where_it_runs_as_one),
        cmocka_unit_test(channels_of_an_image_are_turned_twice_where_its_kernels_read_no_parts),
        cmocka_unit_test(turning_takes_what_a_transposition_was_measured_to),
        cmocka_unit_test(between_measurements_the_ratio_is_between_theirs),
        cmocka_unit_test(shares_are_those_that_were_measured),
        cmocka_unit_test(what_is_away_takes_longer_by_how_much_lies_between),
        cmocka_unit_test(layers_wait_for_weights_beside_what_was_measured),
        cmocka_unit_test(windows_that_go_on_by_two_are_priced_as_such),
        cmocka_unit_test(means_are_priced_by_the_axes_that_they_are_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
