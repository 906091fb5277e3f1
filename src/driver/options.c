#include <string.h>

#include "base/sized.h"
#include "driver/driver.h"

_Static_assert((int)HYP_COMPILE_FORMS == (int)HYP_REWRITE_FORMS, "callers are asked about as many forms as there are");

/* The value of `text` in a list that ends with NULL; the first for NULL. */
static hyp_status choose(const char *what, const char *text, const char *const *names, int *out, hyp_diag *diag)
{
    *out = 0;
    if (!text) return HYP_OK;
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return HYP_OK;
        }
    hyp_strbuf list = {0};
    for (int i = 0; names[i]; i++) hyp_strbuf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    hyp_status status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "unknown %s '%s'; wanted one of %s", what, text,
                                 hyp_strbuf_text(&list));
    hyp_strbuf_dispose(&list);
    return status;
}

static hyp_status read_profile(hyp_settings *s, hyp_diag *diag)
{
    const char *path = s->options.profile;
    if (!path) {
        const char *name = s->profile, *text = hyp_profile_builtin(name);
        if (!text) return hyp_fail(diag, HYP_ERR_INTERNAL, "there is no built-in profile '%s'", name);
        return hyp_profile_parse(&s->arena, name, text, strlen(text), &s->cost.profile, diag);
    }
    hyp_mapping map;
    HYP_TRY(hyp_map_file(path, &map, diag));
    hyp_status status = hyp_profile_parse(&s->arena, path, (const char *)map.data, map.size, &s->cost.profile, diag);
    hyp_unmap(&map);
    return status;
}

/* Rule files as NUL-terminated texts, which mappings are not. */
static hyp_status read_rules(hyp_settings *s, hyp_diag *diag)
{
    size_t count = s->options.rule_file_count;
    s->rule_texts = hyp_arena_zalloc(&s->arena, count ? count : 1, sizeof *s->rule_texts);
    if (!s->rule_texts) return hyp_fail_memory(diag, count * sizeof *s->rule_texts);
    for (size_t i = 0; i < count; i++) {
        const char *path = s->options.rule_files[i];
        hyp_mapping map;
        HYP_TRY(hyp_map_file(path, &map, diag));
        s->rule_texts[i] = hyp_arena_strndup(&s->arena, (const char *)map.data, map.size);
        bool binary = map.size && memchr(map.data, 0, map.size);
        size_t size = map.size;
        hyp_unmap(&map);
        if (!s->rule_texts[i]) return hyp_fail_memory(diag, size);
        if (binary) return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: has a NUL byte: this is no rule file", path);
    }
    return HYP_OK;
}

hyp_status hyp_precision_parse(const char *name, hyp_precision *out, hyp_diag *diag)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16", "fp8", NULL}; /* as in hyp_precision */
    int precision;
    HYP_TRY(choose("precision", name, names, &precision, diag));
    *out = (hyp_precision)precision;
    return HYP_OK;
}

static hyp_status check_train(const hyp_settings *s, hyp_diag *diag)
{
    if (!s->options.train && s->options.recompute_count)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "--recompute names what a training step does not keep for its backward pass, and the plan is of none: "
                        "give --train, too, or --memory-budget, which chooses for any plan");
    if (!s->options.train) return HYP_OK;
    if (s->precision == HYP_PRECISION_FP8)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "there is no training in fp8: compile it for bf16");
    if (s->options.updatable_count)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "--updatable names weights that an engine replaces, and those of a training step are variables, "
                        "which a context has: leave --updatable out, and freeze with --frozen what is not to be trained");
    return HYP_OK;
}

static hyp_status check(hyp_settings *s, hyp_diag *diag)
{
    static const char *const verifications[] = {"by cost", "strict", "warn", "off", NULL};
    static const char *const stages[] = {"import", "demote", "train", "rewrite", "quantize", "recompute", NULL};
    static const char *const domains[] = {"", "com.microsoft", NULL};
    int stage, verification, domain;
    HYP_TRY(hyp_target_parse(s->options.target ? s->options.target : "cpu", &s->target, &s->profile, diag));
    HYP_TRY(hyp_precision_parse(s->options.precision, &s->precision, diag));
    HYP_TRY(choose("verification", s->options.verify, verifications, &verification, diag));
    if (s->options.no_rewrite && s->options.dump_egraph)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "the e-graph of rewriting was asked for, and rewriting was turned off: leave one of the two out");
    if (s->options.no_rewrite && (s->options.explain || s->options.why_not))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "a question about rewriting was asked, and rewriting was turned off: leave one of the two out");
    if (s->options.why_not_node && !s->options.why_not)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "why_not_node was given without a rule in why_not");
    if (s->options.loop_limit < 0 || s->options.loop_limit > (int64_t)1 << 40)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the limit of loops is %lld trips: it must be from 0 to 2^40",
                        (long long)s->options.loop_limit);
    HYP_TRY(choose("domain of emitted operators", s->options.emit_onnx_domain, domains, &domain, diag));
    if (s->options.emit_onnx && s->options.train)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "a training step cannot be written as ONNX, which has no state; 'hypatia export' writes what was trained");
    HYP_TRY(choose("stage for the IR dump", s->options.dump_ir_stage, stages, &stage, diag));
    if (s->options.forms && (s->options.forms < 2 || s->options.forms > HYP_COMPILE_FORMS))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "forms of a part: 2 to %d of them are compared, not %zu",
                        HYP_COMPILE_FORMS, s->options.forms);
    if (!s->options.precision) s->options.precision = "fp32";
    s->cost.tf32 = s->precision == HYP_PRECISION_TF32;
    s->cost.threads = s->options.threads;
    if (s->precision == HYP_PRECISION_FP8 && s->options.samples_count == 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "fp8 takes the scales of layers from sample inputs, and none were given: give some tens of "
                        "typical ones, --samples x=@x.npy or --samples FOLDER (hyp_compile_options.samples)");
    if (s->precision == HYP_PRECISION_FP8 && s->options.updatable_count)
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "fp8 takes the scales of layers from their weights, so that others cannot take their place: leave out "
            "one of fp8 and --updatable");
    s->dump = (hyp_rewrite_dump){s->options.dump_egraph,       s->options.dump_egraph_user,
                                 s->options.dump_egraph_dot,   s->options.dump_egraph_around,
                                 s->options.dump_egraph_depth, s->options.dump_egraph_nodes};
    HYP_TRY(check_train(s, diag));
    HYP_TRY(read_profile(s, diag));
    return read_rules(s, diag);
}

hyp_status hyp_settings_init(const hyp_compile_options *options, hyp_settings *out, hyp_diag *diag)
{
    /* Others compile with these again. */
    hyp_settings s = {.options.size = sizeof s.options, .train = HYP_TRAIN_OPTIONS_INIT};
    HYP_TRY(hyp_sized_take(&s.options, options, hyp_compile_options, diag));
    if (s.options.train) HYP_TRY(hyp_sized_take(&s.train, s.options.train, hyp_train_options, diag));
    hyp_status status = check(&s, diag);
    if (status != HYP_OK) {
        hyp_settings_dispose(&s);
        return status;
    }
    *out = s;
    if (s.options.train) out->options.train = &out->train;
    return HYP_OK;
}

void hyp_settings_dispose(hyp_settings *settings)
{
    hyp_arena_dispose(&settings->arena);
    *settings = (hyp_settings){0};
}

/* The symbol of this name; the number of symbols when there is none. */
static size_t find_symbol(const hyp_dims *dims, const char *name)
{
    size_t i = 0, count = hyp_dims_symbol_count(dims);
    while (i < count && strcmp(hyp_dims_symbol_name(dims, i), name) != 0) i++;
    return i;
}

static hyp_status unknown_symbol(const hyp_dims *dims, const char *name, hyp_diag *diag)
{
    hyp_strbuf list = {0};
    for (size_t i = 0; i < hyp_dims_symbol_count(dims); i++)
        hyp_strbuf_printf(&list, "%s%s", i ? ", " : "; it has ", hyp_dims_symbol_name(dims, i));
    hyp_status status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "typical sizes: the model has no symbolic dim '%s'%s",
                                 name, hyp_strbuf_text(&list));
    hyp_strbuf_dispose(&list);
    return status;
}

/* Bytes of the constants of a graph that a run reads whole, as wide as the precision stores them. Of the table of a gather it
 * reads some rows. */
static hyp_status find_constants(hyp_settings *s, const hyp_graph *model, hyp_diag *diag)
{
    bool half = s->precision != HYP_PRECISION_FP32 && s->precision != HYP_PRECISION_TF32;
    bool *counted = hyp_calloc(model->values.len + 1, sizeof *counted);
    if (!counted) return hyp_fail_memory(diag, model->values.len);
    for (size_t i = 0; i < model->nodes.len; i++) {
        const hyp_node *n = &model->nodes.data[i];
        for (uint32_t k = n->op == HYP_OP_gather; k < n->input_count; k++) {
            hyp_value_id v = n->inputs[k];
            if (v == HYP_NO_VALUE || counted[v] || model->values.data[v].kind != HYP_VALUE_CONST) continue;
            counted[v] = true;
            double bytes = (double)model->values.data[v].bytes;
            s->cost.constants += half && model->values.data[v].type.dtype == HYP_F32 ? bytes / 2 : bytes;
        }
    }
    hyp_free(counted);
    return HYP_OK;
}

/* Bytes that a run goes over: constants, and what nodes write and others read. Elementwise operators run in the kernels of
 * others, mostly. */
static double find_round(const hyp_settings *s, const hyp_graph *model)
{
    double round = s->cost.constants;
    for (size_t i = 0; i < model->nodes.len; i++) {
        const hyp_node *n = &model->nodes.data[i];
        if (hyp_op_get(n->op)->flags & (HYP_OPF_ELEMENTWISE | HYP_OPF_VIEW)) continue;
        for (uint32_t k = 0; k < n->output_count; k++) {
            const hyp_type *t = &model->values.data[n->outputs[k]].type;
            double bytes = (double)hyp_dtype_size(t->dtype);
            for (int32_t a = 0; a < t->rank; a++) {
                int64_t size = HYP_TYPICAL_SIZE;
                if (hyp_dim_eval(model->dims, t->dims[a], s->cost.sizes, &size, NULL) != HYP_OK) size = HYP_TYPICAL_SIZE;
                bytes *= (double)size;
            }
            round += 2 * bytes;
        }
    }
    return round;
}

hyp_status hyp_settings_sizes(hyp_settings *s, const hyp_graph *model, hyp_diag *diag)
{
    const hyp_dims *dims = model->dims;
    HYP_TRY(find_constants(s, model, diag));
    size_t count = hyp_dims_symbol_count(dims);
    int64_t *sizes = hyp_arena_zalloc(&s->arena, count + 1, sizeof *sizes);
    if (!sizes) return hyp_fail_memory(diag, count * sizeof *sizes);
    for (size_t i = 0; i < count; i++) sizes[i] = HYP_TYPICAL_SIZE;
    for (size_t i = 0; i < s->options.typical_count; i++) {
        const char *name = s->options.typical_names[i];
        size_t symbol = find_symbol(dims, name);
        if (symbol == count) return unknown_symbol(dims, name, diag);
        if (s->options.typical_values[i] < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "typical sizes: that of '%s' is below 0", name);
        sizes[symbol] = s->options.typical_values[i];
    }
    s->cost.sizes = sizes;
    s->cost.size_count = count;
    s->cost.round = find_round(s, model);
    return HYP_OK;
}

/* What a step of the plan takes by the cost model. */
static hyp_status predict(const hyp_graph *g, const hyp_node *const *nodes, size_t count, void *roofline, double *out,
                          hyp_diag *diag)
{
    return hyp_roofline_kernel(g, nodes, count, roofline, out, diag);
}

static hyp_status explain(const hyp_graph *g, const hyp_node *const *nodes, size_t count, void *roofline, hyp_strbuf *out,
                          hyp_diag *diag)
{
    return hyp_roofline_explain(g, nodes, count, roofline, out, diag);
}

static double predict_far(double bytes, double since, double ago, double own, bool windows, void *roofline)
{
    return hyp_roofline_far(roofline, bytes, since, ago, own, windows);
}

static double predict_turn(double elements, bool copied, void *roofline)
{
    return hyp_roofline_turn(roofline, elements, copied);
}

static hyp_status predict_share(const hyp_graph *g, const hyp_node *const *nodes, size_t count, void *roofline, double *out,
                                hyp_diag *diag)
{
    return hyp_roofline_kernel_share(g, nodes, count, roofline, out, diag);
}

hyp_codegen_options hyp_settings_codegen(hyp_settings *settings)
{
    return (hyp_codegen_options){.target = settings->target,
                                 .fold = settings->fold,
                                 .precision = settings->precision,
                                 .producer = "hypatiac " HYP_VERSION,
                                 .predict = predict,
                                 .explain = explain,
                                 .predict_far = predict_far,
                                 .predict_turn = predict_turn,
                                 .predict_share = predict_share,
                                 .predict_user = &settings->cost,
                                 .hop_seconds = settings->cost.profile.hop_seconds,
                                 .typical_sizes = settings->cost.sizes};
}

hyp_rewrite_options hyp_settings_rewrite(hyp_settings *settings)
{
    const hyp_compile_options *o = &settings->options;
    return (hyp_rewrite_options){
        .rule_files = o->rule_files,
        .rule_texts = settings->rule_texts,
        .rule_file_count = o->rule_file_count,
        .no_builtin = o->no_builtin_rules,
        .disabled = o->disabled_rules,
        .disabled_count = o->disabled_rule_count,
        .only = o->only_rules,
        .only_count = o->only_rule_count,
        .allow_approximate = o->allow_approximate,
        .max_iterations = o->max_iterations,
        .max_nodes = o->max_nodes,
        .fold = settings->fold,
        .cost = hyp_roofline_cost,
        .cost_user = &settings->cost,
        .price = hyp_price,
        .price_user = settings,
        .streams = settings->cost.profile.hop_seconds > 0 ? settings->target->streams : 1,
        .hop_seconds = settings->cost.profile.hop_seconds,
        .share = hyp_roofline_share,
        .forms = o->forms,
        .full_terms = o->full_terms,
        .dump = o->dump_egraph ? &settings->dump : NULL,
        .explain = o->explain,
        .why_not = o->why_not,
        .why_not_node = o->why_not_node,
    };
}

hyp_onnx_options hyp_import_options(const hyp_compile_options *o)
{
    static const char *const all[] = {"*"}; /* whatever is trained is no constant; frozen ones are constants again then */
    const hyp_target *target = NULL;
    const char *profile;
    hyp_diag unknown; /* which the settings tell of */
    bool known = hyp_target_parse(o->target ? o->target : "cpu", &target, &profile, &unknown) == HYP_OK;
    return (hyp_onnx_options){.shapes = o->shapes,
                              .shape_count = o->shape_count,
                              .bound = o->bound,
                              .bound_count = o->bound_count,
                              .dim_names = o->dim_names,
                              .dim_values = o->dim_values,
                              .dim_count = o->dim_count,
                              .updatable = o->train ? all : o->updatable,
                              .updatable_count = o->train ? 1 : o->updatable_count,
                              .states = o->train != NULL,
                              .dropout = o->train && o->train->dropout,
                              .no_integer_products = known && !target->multiplies_integers,
                              .custom_domains = o->custom_domains,
                              .custom_domain_count = o->custom_domain_count,
                              .custom_outputs = o->custom_outputs,
                              .custom_output_count = o->custom_output_count,
                              .runs_loops = known && target->runs_loops && !o->write_loops && !o->train && !o->emit_onnx,
                              .loop_limit = o->loop_limit};
}
