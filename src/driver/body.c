/* body.c - the body of a loop that the runtime runs, compiled as a model is: import.c of onnx has it as a graph. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "driver/driver.h"
#include "train/train.h"

/* One body on its way. */
typedef struct body {
    hyp_settings settings;
    const hyp_graph *graph; /* the newest of: the importer's, and */
    hyp_graph demoted, written_out, rewritten;
    hyp_rewrite_report rewrite;
    hyp_lowered lowered;
    hyp_verification verification;
} body;

/* What is asked of the model is not asked of parts of it. */
static hyp_status set_options(body *b, const hyp_settings *model, const hyp_graph *graph, hyp_diag *diag)
{
    b->settings = *model;
    b->settings.arena = (hyp_arena){0};
    b->settings.cost.constants = 0;
    hyp_compile_options *o = &b->settings.options;
    o->explain = o->why_not = o->why_not_node = NULL;
    o->dump_egraph = NULL;
    o->typical_count = 0;
    o->samples_count = 0;
    HYP_TRY(hyp_settings_sizes(&b->settings, graph, diag));
    b->settings.fold = hyp_fold_budget_of(graph, o->max_fold_bytes, o->max_fold_flops);
    return HYP_OK;
}

static hyp_status optimize(body *b, hyp_diag *diag)
{
    hyp_precision precision = b->settings.precision;
    if (precision != HYP_PRECISION_FP32 && precision != HYP_PRECISION_TF32) {
        HYP_TRY(hyp_graph_demote(b->graph, precision == HYP_PRECISION_FP16 ? HYP_F16 : HYP_BF16, &b->demoted, diag));
        b->graph = &b->demoted;
    }
    if (hyp_has_compositions(b->graph)) {
        HYP_TRY(hyp_write_out(b->graph, &b->written_out, diag));
        b->graph = &b->written_out;
    }
    if (b->settings.options.no_rewrite) {
        HYP_TRY(hyp_graph_copy_live(b->graph, &b->rewritten, diag));
    } else {
        hyp_rewrite_options options = hyp_settings_rewrite(&b->settings);
        options.limit = b->settings.limit;
        HYP_TRY(hyp_rewrite(b->graph, &options, &b->rewritten, &b->rewrite, diag));
    }
    b->graph = &b->rewritten;
    return hyp_graph_verify(b->graph, diag);
}

/* The rules that were applied to the body, of which one is to blame. */
static void name_rules(const body *b, hyp_strbuf *sb)
{
    hyp_strbuf_puts(sb, "; rules that were applied:");
    for (size_t i = 0; i < b->rewrite.rule_count; i++)
        if (b->rewrite.rules[i].applications) hyp_strbuf_printf(sb, " %s", b->rewrite.rules[i].name);
}

/* Compares the plan with the body as it came. A wrong one is an error that names its rules or, where it is to be a
 * warning, one. */
static hyp_status check_plan(body *b, const char *path, hyp_diag *diag)
{
    const hyp_compile_options *o = &b->settings.options;
    hyp_strbuf sb = {0};
    hyp_diag why = {0};
    if (b->verification.mode == HYP_VERIFY_OFF) return HYP_OK;
    hyp_status status = hyp_verification_run(&b->verification, path, &why);
    if (!b->verification.failed) return status == HYP_OK ? HYP_OK : hyp_fail(diag, status, "%s", why.message);
    hyp_strbuf_printf(&sb, "the body of a loop is wrong: %s",
                      status == HYP_OK ? hyp_strbuf_text(&b->verification.fault) : why.message);
    name_rules(b, &sb);
    if (status != HYP_OK)
        status = hyp_fail(diag, status, "%s", hyp_strbuf_text(&sb));
    else if (o->warning)
        o->warning(hyp_strbuf_text(&sb), sb.len, o->warning_user);
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status read_plan(const char *path, void **out_plan, size_t *out_bytes, hyp_diag *diag)
{
    hyp_mapping map;
    HYP_TRY(hyp_map_file(path, &map, diag));
    void *plan = hyp_malloc(map.size);
    if (plan) memcpy(plan, map.data, map.size);
    size_t bytes = map.size;
    hyp_unmap(&map);
    if (!plan) return hyp_fail_memory(diag, bytes);
    *out_plan = plan;
    *out_bytes = bytes;
    return HYP_OK;
}

static hyp_status compile(body *b, const hyp_graph *graph, void **out_plan, size_t *out_bytes, hyp_diag *diag)
{
    char path[HYP_MEMORY_PATH], classes[HYP_CLASSES];
    const hyp_rewrite_report *rewrite = b->settings.options.no_rewrite ? NULL : &b->rewrite;
    b->graph = graph;
    HYP_TRY(optimize(b, diag));
    hyp_codegen_options options = hyp_settings_codegen(&b->settings);
    hyp_used_classes(&b->settings, rewrite, classes);
    memcpy(b->settings.body_classes, classes, sizeof classes);
    options.classes = classes;
    HYP_TRY(hyp_codegen_lower(b->graph, &options, &b->lowered, diag));
    HYP_TRY(hyp_verification_prepare(&b->verification, graph, &b->settings, rewrite, diag));
    int file = hyp_memory_file("", 0, path);
    if (file < 0) return hyp_fail(diag, HYP_ERR_IO, "there can be no file in memory");
    hyp_status status = hyp_codegen_write(&b->lowered, path, NULL, NULL, NULL, diag);
    if (status == HYP_OK) status = check_plan(b, path, diag);
    if (status == HYP_OK) status = read_plan(path, out_plan, out_bytes, diag);
    close(file);
    return status;
}

hyp_status hyp_compile_body(void *settings, const hyp_graph *graph, void **out_plan, size_t *out_bytes, hyp_diag *diag)
{
    body b = {.graph = NULL};
    hyp_graph_init(&b.demoted, graph->dims);
    hyp_graph_init(&b.written_out, graph->dims);
    hyp_graph_init(&b.rewritten, graph->dims);
    hyp_status status = set_options(&b, settings, graph, diag);
    if (status == HYP_OK) status = compile(&b, graph, out_plan, out_bytes, diag);
    if (status == HYP_OK)
        memcpy(((hyp_settings *)settings)->body_classes, b.settings.body_classes, sizeof b.settings.body_classes);
    hyp_verification_dispose(&b.verification);
    hyp_lowered_dispose(&b.lowered);
    hyp_rewrite_report_dispose(&b.rewrite);
    hyp_graph_dispose(&b.rewritten);
    hyp_graph_dispose(&b.written_out);
    hyp_graph_dispose(&b.demoted);
    hyp_arena_dispose(&b.settings.arena);
    return status;
}
