/* The pass list of the compiler:
 *
 *   model.onnx ──import──► graph ──demote──► graph ──train──► graph ──rewrite──► graph ──quantize──► graph
 *                             (narrow types)  (where asked for)   (unless off)         (fp8)
 *     (operators that there are for their gradients are written out behind train)
 *     ──recompute──► graph ──lower──► program ──write──► plan without its name ──verify──► plan.bin ──emit──► (model.onnx)
 *
 * The graph is verified after every pass that makes one.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "driver/driver.h"
#include "train/train.h"

/* One compilation. Every member is safe to dispose at any time. */
typedef struct compilation {
    const char *model_path, *plan_path; /* plan_path NULL: a dry run */
    hyp_settings settings;
    hyp_dims *dims;
    hyp_onnx_model *model;
    hyp_graph imported, demoted, trained, written_out, rewritten, opened, quantized, again, fitting;
    hyp_graph wide; /* the training step of the imported graph, where `trained` is of the demoted one */
    const hyp_graph *graph; /* the newest of them */
    const hyp_graph *optimized; /* before anything is computed again */
    hyp_rewrite_report rewrite;
    hyp_rewrite_record record; /* for who looks at the plan */
    hyp_footprint kept; /* without what is computed again */
    hyp_lowered lowered;
    hyp_strbuf answer; /* to what was asked */
    hyp_strbuf layers; /* what quantization says of them */
    hyp_verification verification;
    hyp_limit limit; /* of the search for a better plan */
    hyp_timeline timeline;
    hyp_strbuf cut;  /* by which it was cut short; empty: it was not */
    hyp_progress progress;
    double began; /* by hyp_limit_clock */
    size_t nodes_imported, nodes_before;
    double import_seconds, demote_seconds, train_seconds, rewrite_seconds, quantize_seconds, recompute_seconds,
        lower_seconds, expect_seconds, write_seconds, emit_seconds;
} compilation;

/* Nodes that run: those whose results are not known before the plan runs. */
static hyp_status count_running(const compilation *c, const hyp_graph *g, size_t *out, hyp_diag *diag)
{
    bool *constant = hyp_calloc(g->values.len + 1, sizeof *constant);
    if (!constant) return hyp_fail_memory(diag, g->values.len);
    hyp_status status = hyp_constants_find(g, &c->settings.fold, constant, diag);
    size_t count = 0;
    for (size_t i = 0; status == HYP_OK && i < g->nodes.len; i++) {
        const hyp_node *node = &g->nodes.data[i];
        bool runs = false;
        for (uint32_t k = 0; k < node->input_count; k++)
            runs = runs || (node->inputs[k] != HYP_NO_VALUE && !constant[node->inputs[k]]);
        for (uint32_t k = 0; !runs && k < node->output_count; k++) runs = !constant[node->outputs[k]];
        count += runs;
    }
    hyp_free(constant);
    *out = count;
    return status;
}

/* After every pass that makes a graph: checks it and prints it if its stage is asked for. */
static hyp_status finish_pass(compilation *c, const hyp_graph *graph, const char *stage, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    enum { ELIDE_ABOVE = 256 }; /* bytes: larger constants are shown as their hash */
    c->graph = graph;
    hyp_status status = hyp_graph_verify(graph, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "after %s", stage);
        return status;
    }
    if (!o->dump_ir || !o->dump_ir_stage || strcmp(stage, o->dump_ir_stage) != 0) return HYP_OK;
    hyp_strbuf text = {0};
    status = hyp_graph_print(&text, graph, ELIDE_ABOVE, diag);
    if (status == HYP_OK) o->dump_ir(hyp_strbuf_text(&text), text.len, o->dump_ir_user);
    hyp_strbuf_dispose(&text);
    return status;
}

static hyp_status refuse_overwriting(const char *path, const char *what, hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: would overwrite %s; write to another file", path, what);
}

/* What is read is never written to. */
static hyp_status check_path(const compilation *c, const char *path, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    if (!path) return HYP_OK;
    if (hyp_same_file(path, c->model_path)) return refuse_overwriting(path, "the model", diag);
    if (o->profile && hyp_same_file(path, o->profile)) return refuse_overwriting(path, "the profile", diag);
    for (size_t i = 0; i < o->rule_file_count; i++)
        if (hyp_same_file(path, o->rule_files[i])) return refuse_overwriting(path, "rules that were given", diag);
    return HYP_OK;
}

static hyp_status import(compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    HYP_TRY(check_path(c, c->plan_path, diag));
    HYP_TRY(check_path(c, o->reduced, diag));
    HYP_TRY(check_path(c, o->emit_onnx, diag));
    hyp_onnx_options options = hyp_import_options(o);
    options.compile_body = hyp_compile_body;
    options.compile_user = &c->settings;
    HYP_TRY(hyp_onnx_import(c->model_path, &options, &c->imported, &c->model, diag));
    const char *written[] = {c->plan_path, o->reduced, o->emit_onnx};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (written[i] && hyp_onnx_model_reads(c->model, written[i]))
            return refuse_overwriting(written[i], "external data of the model", diag);
    hyp_onnx_info info = hyp_onnx_model_info(c->model);
    for (size_t i = 0; i < info.warning_count && o->warning; i++)
        o->warning(info.warnings[i], strlen(info.warnings[i]), o->warning_user);
    c->nodes_imported = c->imported.nodes.len;
    HYP_TRY(hyp_settings_sizes(&c->settings, &c->imported, diag));
    c->settings.fold = hyp_fold_budget_of(&c->imported, o->max_fold_bytes, o->max_fold_flops);
    return finish_pass(c, &c->imported, "import", diag);
}

static hyp_status demote(compilation *c, hyp_diag *diag)
{
    hyp_precision precision = c->settings.precision;
    if (precision != HYP_PRECISION_FP32 && precision != HYP_PRECISION_TF32) {
        hyp_dtype to = precision == HYP_PRECISION_FP16 ? HYP_F16 : HYP_BF16;
        HYP_TRY(hyp_graph_demote(c->graph, to, &c->demoted, diag));
        HYP_TRY(finish_pass(c, &c->demoted, "demote", diag));
    }
    return HYP_OK;
}

/* The model becomes a step of its training, where that is asked for. */
static hyp_status train(compilation *c, hyp_diag *diag)
{
    const hyp_train_options *o = c->settings.options.train;
    if (o) {
        HYP_TRY(hyp_train_step(c->graph, o, &c->trained, diag));
        HYP_TRY(finish_pass(c, &c->trained, "train", diag));
    }
    if (hyp_has_compositions(c->graph)) {
        HYP_TRY(hyp_write_out(c->graph, &c->written_out, diag));
        HYP_TRY(finish_pass(c, &c->written_out, "write-out", diag));
    }
    return count_running(c, c->graph, &c->nodes_before, diag);
}

/* Which limit was reached; nothing where none was. */
static void print_limit(const compilation *c, hyp_strbuf *sb)
{
    if (c->limit.why == HYP_LIMIT_TIME)
        hyp_strbuf_printf(sb, "stopped by --max-seconds %g", c->settings.options.max_seconds);
    if (c->limit.why == HYP_LIMIT_ASKED) hyp_strbuf_puts(sb, "interrupted");
}

static hyp_status rewrite(compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    const hyp_graph *from = c->graph;
    if (o->no_rewrite) {
        HYP_TRY(hyp_graph_copy_live(from, &c->rewritten, diag));
    } else {
        hyp_rewrite_options options = hyp_settings_rewrite(&c->settings);
        if (o->choose_form) options.choose = hyp_choose_form;
        options.choose_user = &c->settings;
        options.answer = &c->answer;
        c->record.most = HYP_RECORD_LIST;
        if (!o->no_record) options.record = &c->record;
        options.limit = &c->limit;
        if (o->trace) options.span = hyp_timeline_span;
        options.span_user = &c->timeline;
        hyp_trace_sink sink = {.write = o->dump_rewrites, .user = o->dump_rewrites_user};
        if (o->dump_rewrites) {
            options.trace = hyp_trace_write;
            options.trace_user = &sink;
        }
        HYP_TRY(hyp_rewrite(from, &options, &c->rewritten, &c->rewrite, diag));
        if (sink.failed) return hyp_fail(diag, HYP_ERR_NO_MEMORY, "out of memory while dumping the rewrites");
        print_limit(c, &c->cut);
        if (c->cut.failed) return hyp_fail_memory(diag, c->cut.len);
    }
    return finish_pass(c, &c->rewritten, "rewrite", diag);
}

static hyp_status quantize(compilation *c, hyp_diag *diag)
{
    if (c->settings.precision != HYP_PRECISION_FP8) return HYP_OK;
    HYP_TRY(hyp_quantize(&c->settings, c->graph, &c->opened, &c->quantized, &c->layers, diag));
    return finish_pass(c, &c->quantized, "quantize", diag);
}

/* What is not to be kept is computed again. */
static hyp_status recompute(compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    const hyp_codegen_options options = hyp_settings_codegen(&c->settings);
    c->optimized = c->graph;
    if (!o->recompute_count && !o->memory_budget) return HYP_OK;
    HYP_TRY(hyp_codegen_footprint(c->graph, &options, &c->kept, diag));
    if (o->recompute_count) {
        HYP_TRY(hyp_recompute_nodes(c->graph, &c->imported, o->recompute, o->recompute_count, &c->again, diag));
        c->graph = &c->again;
    }
    if (o->memory_budget) {
        HYP_TRY(hyp_codegen_fit(c->graph, &options, o->memory_budget, &c->fitting, diag));
        c->graph = &c->fitting;
    }
    return finish_pass(c, c->graph, "recompute", diag);
}

/* The caller's flags, and what made the plan depend on the machine. */
static hyp_status lower(compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    hyp_onnx_info info = hyp_onnx_model_info(c->model);
    size_t flag_count = o->flag_count;
    const char **flags = hyp_calloc(flag_count + 2, sizeof *flags);
    if (!flags) return hyp_fail_memory(diag, flag_count * sizeof *flags);
    for (size_t i = 0; i < flag_count; i++) flags[i] = o->flags[i];
    if (c->cut.len) flags[flag_count++] = hyp_strbuf_text(&c->cut);
    char form[32];
    if (c->rewrite.form) {
        snprintf(form, sizeof form, "--timed=%s", c->rewrite.form);
        for (char *p = form; *p; p++)
            if (*p == ' ') *p = '-';
        flags[flag_count++] = form;
    }
    char classes[HYP_CLASSES];
    hyp_used_classes(&c->settings, o->no_rewrite ? NULL : &c->rewrite, classes);
    hyp_codegen_options options = hyp_settings_codegen(&c->settings);
    options.classes = classes;
    options.model_name = info.graph_name;
    options.model_hash = info.hash;
    options.flags = flags;
    options.flag_count = (uint32_t)flag_count;
    options.equalities = info.equalities;
    options.equality_count = info.equality_count;
    hyp_status status = hyp_codegen_lower(c->graph, &options, &c->lowered, diag);
    if (status == HYP_OK && hyp_plan_recomputed(c->lowered.program)) {
        c->lowered.program->kept_bytes = c->kept.scratch_bytes;
        c->lowered.program->kept_seconds = c->kept.seconds;
    }
    if (status == HYP_OK && o->updatable_count) status = hyp_codegen_add_updates(&c->lowered, &options, diag);
    if (status == HYP_OK && o->train) status = hyp_keep_model(c->model, c->graph, &c->lowered, diag);
    hyp_free(flags);
    return status;
}

static void forget(void *model, const void *data, size_t bytes) { hyp_onnx_model_forget(model, data, bytes); }

/* What the plan is to compute: not demoted, not rewritten. The step of a demoted model is not such a graph; another is
 * made here, and not where nothing is verified. */
static hyp_status find_meant(compilation *c, const hyp_graph **out, hyp_diag *diag)
{
    const hyp_train_options *o = c->settings.options.train;
    bool demoted = c->demoted.values.len != 0;
    *out = !o ? &c->imported : demoted ? &c->wide : &c->trained;
    return o && demoted ? hyp_train_step(&c->imported, o, &c->wide, diag) : HYP_OK;
}

/* What the imported graph gives for samples. */
static hyp_status prepare_verification(compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    if (!c->plan_path && !o->emit_onnx && !o->verify) { /* a dry run has no plan to verify, unless it is told to */
        hyp_strbuf_puts(&c->verification.text, "not verified: nothing was written");
        return HYP_OK;
    }
    if (!o->verify && o->run_plan && c->cut.len) { /* who has no time for a better plan has none for this */
        hyp_strbuf_printf(&c->verification.text, "not verified: %s; --verify strict or warn does it all the same",
                          hyp_strbuf_text(&c->cut));
        return HYP_OK;
    }
    const hyp_graph *meant;
    HYP_TRY(find_meant(c, &meant, diag));
    HYP_TRY(hyp_verification_prepare(&c->verification, meant, &c->settings, o->no_rewrite ? NULL : &c->rewrite, diag));
    return hyp_golden_add(&c->verification, &c->lowered, diag);
}

static hyp_status expect(compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    HYP_TRY(prepare_verification(c, diag));
    if (o->no_record) return HYP_OK;
    return hyp_record_add(&c->settings, o->train ? &c->trained : &c->imported, o->no_rewrite ? NULL : &c->rewrite,
                          &c->record, &c->verification, &c->lowered, diag);
}

static hyp_status check_plan(void *user, const char *path, hyp_diag *diag)
{
    compilation *c = user;
    return hyp_verification_run(&c->verification, path, diag);
}

static hyp_status write_to(compilation *c, const char *path, bool checked, hyp_diag *diag)
{
    hyp_plan_check check = {check_plan, c};
    c->lowered.progress = c->settings.progress;
    return hyp_codegen_write(&c->lowered, path, forget, c->model, checked ? &check : NULL, diag);
}

/* Whether a file at this path is made under another name first, so that it can be verified there. */
static bool has_temporary_name(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && (stat(path, &st) != 0 || (S_ISREG(st.st_mode) && st.st_nlink > 0));
}

/* Verifies the plan as a file in the folder for such, which is gone afterwards. */
static hyp_status verify_elsewhere(compilation *c, hyp_diag *diag)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/hypatia-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return hyp_fail(diag, HYP_ERR_IO, "%s: cannot make a temporary file to verify the plan: %s", path,
                        strerror(errno));
    close(fd);
    hyp_status status = write_to(c, path, true, diag);
    unlink(path);
    return status;
}

static hyp_status write_plan(compilation *c, hyp_diag *diag)
{
    bool verifies = c->verification.mode != HYP_VERIFY_OFF, beside = c->plan_path && has_temporary_name(c->plan_path);
    if (verifies && !beside) HYP_TRY(verify_elsewhere(c, diag));
    return c->plan_path ? write_to(c, c->plan_path, verifies && beside, diag) : HYP_OK;
}

/* When the plan is there: one that is wrong is not written in another form either. */
static hyp_status emit(compilation *c, hyp_diag *diag)
{
    return hyp_emit_onnx(c->optimized, &c->settings, c->model, diag);
}

/* Says which rules tried to make what has no type: for built-in ones a condition is missing, one of the user's may be
 * wrong altogether. */
static hyp_status tell_refusals(const compilation *c, hyp_diag *diag)
{
    const hyp_compile_options *o = &c->settings.options;
    hyp_strbuf sb = {0};
    for (size_t i = 0; o->progress && i < c->rewrite.rule_count; i++) {
        const hyp_rule_use *rule = &c->rewrite.rules[i];
        if (!rule->refused) continue;
        hyp_strbuf_printf(&sb, "rule %s declined %zu time%s, its right side means nothing there: %s\n", rule->name,
                          rule->refused, rule->refused == 1 ? "" : "s", rule->refusal);
    }
    hyp_status status = sb.failed ? hyp_fail_memory(diag, sb.len) : HYP_OK;
    if (status == HYP_OK && sb.len) o->progress(hyp_strbuf_text(&sb), sb.len, o->progress_user);
    hyp_strbuf_dispose(&sb);
    return status;
}

/* Tells the caller how far the compilation is. */
static void tell_progress(const hyp_progress *now, void *user)
{
    const compilation *c = user;
    const hyp_compile_options *o = &c->settings.options;
    double clock = hyp_limit_clock(), left = c->limit.deadline > 0 ? fmax(0, c->limit.deadline - clock) : -1;
    hyp_compile_progress told = {.size = sizeof told,
                                 .phase = now->phase,
                                 .iteration = now->iteration,
                                 .e_nodes = now->e_nodes,
                                 .best = now->best,
                                 .done = now->done,
                                 .total = now->total,
                                 .seconds = clock - c->began,
                                 .seconds_left = left};
    o->on_progress(&told, o->on_progress_user);
}

/* Runs one pass, measures it and says so. */
static hyp_status run_pass(compilation *c, const char *name, hyp_status (*pass)(compilation *, hyp_diag *),
                           double *out_seconds, hyp_diag *diag)
{
    double start = hyp_limit_clock();
    hyp_progress_begin(&c->progress, name, 0);
    HYP_TRY(pass(c, diag));
    *out_seconds = hyp_limit_clock() - start;
    const hyp_compile_options *o = &c->settings.options;
    if (o->trace) hyp_timeline_pass(&c->timeline, name, start, *out_seconds, c->graph->nodes.len);
    if (!o->progress) return HYP_OK;
    char line[160];
    int n = snprintf(line, sizeof line, "%-9s %9.4f s  %zu nodes\n", name, *out_seconds, c->graph->nodes.len);
    o->progress(line, (size_t)n, o->progress_user);
    return HYP_OK;
}

static hyp_status run_passes(compilation *c, hyp_diag *diag)
{
    HYP_TRY(run_pass(c, "import", import, &c->import_seconds, diag));
    HYP_TRY(run_pass(c, "demote", demote, &c->demote_seconds, diag));
    HYP_TRY(run_pass(c, "train", train, &c->train_seconds, diag));
    HYP_TRY(run_pass(c, "rewrite", rewrite, &c->rewrite_seconds, diag));
    HYP_TRY(tell_refusals(c, diag));
    HYP_TRY(run_pass(c, "quantize", quantize, &c->quantize_seconds, diag));
    HYP_TRY(run_pass(c, "recompute", recompute, &c->recompute_seconds, diag));
    HYP_TRY(run_pass(c, "lower", lower, &c->lower_seconds, diag));
    HYP_TRY(run_pass(c, "expect", expect, &c->expect_seconds, diag));
    HYP_TRY(run_pass(c, "write", write_plan, &c->write_seconds, diag));
    return c->settings.options.emit_onnx ? run_pass(c, "emit", emit, &c->emit_seconds, diag) : HYP_OK;
}

/* The program was lowered, so that its sizes are sizes. */
static void tell_footprint(const compilation *c, hyp_compile_report *report)
{
    const HypPlan__Program *p = c->lowered.program;
    hyp_footprint found = {0};
    if (hyp_footprint_of(p, &found, NULL) == HYP_OK) {
        report->scratch_bytes = found.scratch_bytes;
        report->memory_bytes = found.bytes;
        report->variable_bytes = found.variable_bytes;
    }
    report->recomputed = hyp_plan_recomputed(p);
    report->kept_bytes = (size_t)p->kept_bytes;
    report->kept_seconds = p->kept_seconds;
}

static hyp_status make_report(compilation *c, hyp_compile_report **out, hyp_diag *diag)
{
    bool rewrote = !c->settings.options.no_rewrite;
    hyp_compile_report *report;
    HYP_TRY(hyp_report_create(rewrote ? &c->rewrite : NULL, c->lowered.program, &c->layers, &c->answer,
                              &c->verification.text, &c->cut, &report, diag));
    hyp_status status = count_running(c, c->graph, &report->nodes_after, diag);
    if (status != HYP_OK) {
        hyp_compile_report_destroy(report);
        return status;
    }
    struct stat st;
    if (c->plan_path && stat(c->plan_path, &st) == 0) report->plan_bytes = (uint64_t)st.st_size;
    report->parts_changed = c->rewrite.parts_changed;
    report->nodes_imported = c->nodes_imported;
    report->nodes_before = c->nodes_before;
    report->import_seconds = c->import_seconds;
    report->rewrite_seconds = c->demote_seconds + c->train_seconds + c->rewrite_seconds + c->quantize_seconds;
    report->lower_seconds = c->lower_seconds;
    report->verify_seconds = c->verification.seconds;
    report->write_seconds = c->expect_seconds + c->write_seconds + c->emit_seconds - c->verification.seconds;
    report->wrong = c->verification.failed;
    tell_footprint(c, report);
    status = c->settings.options.no_record ? HYP_OK : hyp_report_add_run(report, &c->record, &c->verification, diag);
    if (status == HYP_OK)
        *out = report;
    else
        hyp_compile_report_destroy(report);
    return status;
}

/* The search for the blame reads the model again: one that came through a pipe from memory. */
static void find_blame(const compilation *c, hyp_blame_fn *blame, hyp_diag *diag)
{
    char path[HYP_MEMORY_PATH];
    size_t size;
    hyp_progress_begin(c->settings.progress, "blame", 0);
    const void *bytes = hyp_onnx_model_piped(c->model, &size);
    int fd = bytes ? hyp_memory_file(bytes, size, path) : -1;
    blame(fd >= 0 ? path : c->model_path, &c->settings, &c->rewrite, &c->verification, diag);
    if (fd >= 0) close(fd);
}

hyp_status hyp_compile_once(const char *model_path, const char *plan_path, const hyp_compile_options *options,
                            hyp_blame_fn *blame, hyp_compile_report **out_report, hyp_diag *diag)
{
    compilation c = {.model_path = model_path, .plan_path = plan_path, .began = hyp_limit_clock()};
    HYP_TRY(hyp_settings_init(options, &c.settings, diag));
    c.timeline.start = c.began;
    c.limit.asked = c.settings.options.stop;
    c.settings.limit = &c.limit;
    if (c.settings.options.max_seconds > 0) c.limit.deadline = c.began + c.settings.options.max_seconds;
    if (c.settings.options.on_progress) {
        c.progress.tell = tell_progress;
        c.progress.user = &c;
        c.settings.progress = c.limit.progress = &c.progress;
    }
    hyp_status status = hyp_dims_create(&c.dims, diag);
    if (status == HYP_OK) {
        hyp_graph_init(&c.imported, c.dims);
        hyp_graph_init(&c.demoted, c.dims);
        hyp_graph_init(&c.trained, c.dims);
        hyp_graph_init(&c.written_out, c.dims);
        hyp_graph_init(&c.wide, c.dims);
        hyp_graph_init(&c.rewritten, c.dims);
        hyp_graph_init(&c.opened, c.dims);
        hyp_graph_init(&c.quantized, c.dims);
        hyp_graph_init(&c.again, c.dims);
        hyp_graph_init(&c.fitting, c.dims);
        status = run_passes(&c, diag);
        bool hurried = c.limit.why == HYP_LIMIT_ASKED; /* then nobody waits for the blame either */
        bool wrong = status == HYP_ERR_MISMATCH && c.verification.failed; /* not a body, of which there is no model */
        if (wrong && blame && !hurried) find_blame(&c, blame, diag);
        const hyp_compile_options *o = &c.settings.options;
        if (status == HYP_OK && o->trace) status = hyp_timeline_write(&c.timeline, model_path, o->trace, o->trace_user, diag);
        if (status == HYP_OK && out_report) status = make_report(&c, out_report, diag);
        hyp_strbuf_dispose(&c.timeline.text);
        hyp_strbuf_dispose(&c.answer);
        hyp_strbuf_dispose(&c.layers);
        hyp_strbuf_dispose(&c.cut);
        hyp_rewrite_record_dispose(&c.record);
        hyp_verification_dispose(&c.verification);
        hyp_lowered_dispose(&c.lowered);
        hyp_rewrite_report_dispose(&c.rewrite);
        hyp_graph_dispose(&c.fitting);
        hyp_graph_dispose(&c.again);
        hyp_graph_dispose(&c.quantized);
        hyp_graph_dispose(&c.opened);
        hyp_graph_dispose(&c.rewritten);
        hyp_graph_dispose(&c.wide);
        hyp_graph_dispose(&c.written_out);
        hyp_graph_dispose(&c.trained);
        hyp_graph_dispose(&c.demoted);
        hyp_graph_dispose(&c.imported);
    }
    hyp_onnx_model_destroy(c.model);
    hyp_dims_destroy(c.dims);
    hyp_settings_dispose(&c.settings);
    return status;
}

hyp_status hyp_compile_file(const char *model_path, const char *plan_path, const hyp_compile_options *options,
                            hyp_compile_report **out_report, hyp_diag *diag)
{
    HYP_NEED(model_path);
    return hyp_compile_once(model_path, plan_path, options, hyp_blame, out_report, diag);
}

hyp_status hyp_compile_list_rules(const hyp_compile_options *options, hyp_compile_report **out_report, hyp_diag *diag)
{
    HYP_NEED(out_report);
    hyp_settings settings;
    HYP_TRY(hyp_settings_init(options, &settings, diag));
    hyp_rewrite_options rewrite = hyp_settings_rewrite(&settings);
    hyp_rewrite_report report = {0};
    hyp_status status = hyp_rewrite_list(&rewrite, &report, diag);
    if (status == HYP_OK) status = hyp_report_create(&report, NULL, NULL, NULL, NULL, NULL, out_report, diag);
    hyp_rewrite_report_dispose(&report);
    hyp_settings_dispose(&settings);
    return status;
}
