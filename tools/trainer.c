/* trainer.c - what a training needs before its first step: the plan, the data, and where it begins. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "train.h"

/* ---- the plan ------------------------------------------------------------------------------------------------- */

static size_t find_io(const hyp_engine *engine, bool input, const char *name)
{
    size_t count = input ? hyp_engine_input_count(engine) : hyp_engine_output_count(engine);
    for (size_t i = 0; i < count; i++) {
        const hyp_io_info *info = input ? hyp_engine_input(engine, i) : hyp_engine_output(engine, i);
        if (strcmp(info->name, name) == 0) return i;
    }
    return SIZE_MAX;
}

static bool is_scalar(const hyp_io_info *info, hyp_dtype dtype) { return info->dtype == dtype && info->rank == 0; }

/* A step that drops elements has a variable that counts, a seed to be given, and an input that says whether it does. */
static void find_dropout(trainer *t)
{
    const hyp_engine *engine = t->session.engine;
    size_t seed = find_io(engine, true, "seed"), training = find_io(engine, true, "training");
    bool counts = false;
    for (size_t i = 0; i < hyp_engine_variable_count(engine); i++)
        counts = counts || strcmp(hyp_engine_variable(engine, i)->name, ":draws") == 0;
    bool drops = counts && seed != SIZE_MAX && is_scalar(hyp_engine_input(engine, seed), HYP_I64) &&
                 training != SIZE_MAX && is_scalar(hyp_engine_input(engine, training), HYP_BOOL);
    t->seed_input = drops ? seed : SIZE_MAX;
    t->training_input = drops ? training : SIZE_MAX;
}

/* A plan of a step has variables, a loss, and a learning rate to be given. */
static int find_roles(trainer *t)
{
    const hyp_engine *engine = t->session.engine;
    t->loss_output = find_io(engine, false, "loss");
    t->rate_input = find_io(engine, true, "learning-rate");
    t->labels_input = find_io(engine, true, "labels");
    t->class_output = SIZE_MAX;
    find_dropout(t);
    if (t->loss_output == SIZE_MAX || !is_scalar(hyp_engine_output(engine, t->loss_output), HYP_F32) ||
        t->rate_input == SIZE_MAX || !is_scalar(hyp_engine_input(engine, t->rate_input), HYP_F32) ||
        !hyp_engine_variable_count(engine)) {
        cli_error(t->tool, "%s: is no training step with an optimizer: hypatiac --train makes one", t->request->session.plan);
        return CLI_USAGE;
    }
    if (t->labels_input == SIZE_MAX) return CLI_OK;
    const hyp_io_info *labels = hyp_engine_input(engine, t->labels_input);
    for (size_t i = 0; i < t->session.output_count && labels->dtype == HYP_I64; i++)
        if (i != t->loss_output && hyp_engine_output(engine, i)->rank == labels->rank + 1 && labels->rank > 0) {
            t->class_output = i; /* the first one: what the loss reads, unless it was told otherwise */
            break;
        }
    return CLI_OK;
}

static int make_variables(trainer *t)
{
    hyp_diag diag = {0};
    size_t count = hyp_engine_variable_count(t->session.engine);
    t->variables = cli_alloc(NULL, count, sizeof *t->variables);
    for (size_t i = 0; i < count; i++) {
        const hyp_io_info *info = hyp_engine_variable(t->session.engine, i);
        hyp_tensor v = {.name = info->name, .dtype = info->dtype, .rank = info->rank};
        memcpy(v.dims, info->dims, sizeof v.dims);
        if (hyp_tensor_alloc(&v, &diag) != HYP_OK) return cli_report(t->tool, &diag);
        t->variables[t->variable_count++] = v;
    }
    return CLI_OK;
}

/* ---- batches -------------------------------------------------------------------------------------------------- */

/* An input that is the same in every batch: --input NAME=@FILE. */
static int load_fixed(trainer *t, const char *text)
{
    const char *equals = strstr(text, "=@");
    char *name = cli_copy(text, equals ? (size_t)(equals - text) : strlen(text));
    size_t i = find_io(t->session.engine, true, name);
    free(name);
    if (!equals || i == SIZE_MAX || i == t->rate_input || i == t->seed_input || i == t->training_input) {
        cli_error(t->tool, "--input: '%s' is not of the form NAME=@FILE, or names no input of the plan", text);
        return CLI_USAGE;
    }
    const hyp_io_info *info = hyp_engine_input(t->session.engine, i);
    hyp_tensor want = {.dtype = info->dtype, .rank = info->rank};
    hyp_diag diag = {0};
    memcpy(want.dims, info->dims, sizeof want.dims);
    hyp_tensor_dispose(&t->session.inputs[i]);
    if (hyp_tensor_load(equals + 2, &want, &t->session.inputs[i], &diag) != HYP_OK) return cli_report(t->tool, &diag);
    t->session.inputs[i].name = NULL;
    return CLI_OK;
}

/* Memory for a whole batch of every input that has data. */
static int make_inputs(trainer *t)
{
    hyp_diag diag = {0};
    int code = CLI_OK;
    for (size_t i = 0; i < t->request->session.inputs.count && code == CLI_OK; i++)
        code = load_fixed(t, t->request->session.inputs.items[i]);
    for (size_t i = 0; i < t->data.count && code == CLI_OK; i++) {
        const dataset_column *c = &t->data.columns[i];
        hyp_tensor *in = &t->session.inputs[c->input];
        hyp_tensor_dispose(in);
        *in = (hyp_tensor){.dtype = c->row.dtype, .rank = c->row.rank + 1, .dims = {t->share}};
        memcpy(in->dims + 1, c->row.dims, (size_t)c->row.rank * sizeof *in->dims);
        if (hyp_tensor_alloc(in, &diag) != HYP_OK) code = cli_report(t->tool, &diag);
    }
    hyp_tensor *inputs = t->session.inputs;
    inputs[t->rate_input] = (hyp_tensor){.data = &t->rate_now, .bytes = sizeof t->rate_now, .dtype = HYP_F32};
    if (t->seed_input != SIZE_MAX) {
        inputs[t->seed_input] = (hyp_tensor){.data = &t->seed_now, .bytes = sizeof t->seed_now, .dtype = HYP_I64};
        inputs[t->training_input] =
            (hyp_tensor){.data = &t->training_now, .bytes = sizeof t->training_now, .dtype = HYP_BOOL};
    }
    return code;
}

/* Every input has data or a value, and the same with what it is validated on, which has rows of the same dims. */
static int check_inputs(trainer *t)
{
    for (size_t i = 0; i < t->session.input_count; i++) {
        const char *name = hyp_engine_input(t->session.engine, i)->name;
        if (!t->session.inputs[i].data) {
            cli_error(t->tool, "input %s has no data: --data %s=FILE.npy, or --input for one that is the same in every batch",
                      cli_shown(name), cli_shown(name));
            return CLI_USAGE;
        }
        if (t->validation.count && dataset_has(&t->data, i) != dataset_has(&t->validation, i)) {
            cli_error(t->tool, "--data and --validate are to have the same inputs, and %s is not in both", cli_shown(name));
            return CLI_USAGE;
        }
    }
    if (t->validation.fixed_batch && t->validation.rows < (uint64_t)t->validation.fixed_batch) {
        fprintf(stderr, "%s: --validate: the plan is for batches of %" PRId64 ", but there are only %" PRIu64 " rows\n",
                t->tool, t->validation.fixed_batch, t->validation.rows);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < t->validation.count; i++) {
        const dataset_column *c = &t->validation.columns[i];
        const hyp_tensor *in = &t->session.inputs[c->input];
        if (memcmp(in->dims + 1, c->row.dims, (size_t)c->row.rank * sizeof *in->dims) == 0) continue;
        cli_error(t->tool, "--validate %s: has rows of other dims than --data", cli_shown(c->name));
        return CLI_USAGE;
    }
    return CLI_OK;
}

/* The outputs of a whole batch, which have room for smaller ones: nobody reads them but the loss, and where the model
 * is validated the scores of classes. */
static int make_outputs(trainer *t)
{
    hyp_diag diag = {0};
    session *s = &t->session;
    hyp_status status =
        hyp_context_output_shapes(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
    for (size_t i = 0; i < s->output_count && status == HYP_OK; i++) {
        hyp_tensor *out = &s->outputs[i];
        out->dtype = hyp_engine_output(s->engine, i)->dtype;
        if (i == t->class_output && t->validation.count) {
            t->classes = *out;
            status = hyp_tensor_alloc(&t->classes, &diag);
        }
        if (i == t->loss_output) {
            *out = (hyp_tensor){.data = &t->loss_now, .bytes = sizeof t->loss_now, .dtype = HYP_F32};
        } else if (status == HYP_OK) {
            int64_t elements = hyp_tensor_elements(out);
            out->bytes = elements > 0 ? (size_t)elements * hyp_dtype_size(out->dtype) : 0;
            status = hyp_engine_tensor_alloc(s->engine, out, &diag);
        }
    }
    return status == HYP_OK ? CLI_OK : cli_report(t->tool, &diag);
}

/* ---- where a training begins ----------------------------------------------------------------------------------- */

/* All ranks take equally many rows of every batch, so that the mean of their means is that of the batch. */
static int share_batch(trainer *t, int64_t gpus)
{
    int64_t odd = t->batch % gpus, fixed = t->data.fixed_batch * gpus;
    bool quiet = t->request->quiet;
    if (odd == t->batch) {
        fprintf(stderr, "%s: %" PRId64 " rows are too few for %" PRId64 " GPUs\n", t->tool, t->batch, gpus);
        return CLI_USAGE;
    }
    t->batch -= odd;
    t->share = t->batch / gpus;
    if (odd && !quiet)
        fprintf(stderr, "%s: batches have %" PRId64 " rows, equally many for each of %" PRId64 " GPUs\n", t->tool, t->batch,
                gpus);
    uint64_t left = t->data.rows % (uint64_t)(fixed ? fixed : gpus);
    if (left && !quiet) {
        if (fixed)
            fprintf(stderr, "%s: the plan is for batches of %" PRId64, t->tool, fixed);
        else
            fprintf(stderr, "%s: %" PRId64 " GPUs take equally many rows", t->tool, gpus);
        fprintf(stderr, ": in each epoch %" PRIu64 " of %" PRIu64 " rows are left out\n", left, t->data.rows);
    }
    t->usable = t->data.rows - left;
    return CLI_OK;
}

static int set_batch(trainer *t, uint64_t of_checkpoint)
{
    int64_t gpus = ranks_size(t->ranks), fixed = t->data.fixed_batch * gpus, asked = t->request->batch;
    if (fixed && asked && fixed != asked) {
        fprintf(stderr, "%s: --batch %" PRId64 ": the plan is for batches of %" PRId64 "\n", t->tool, asked, fixed);
        return CLI_USAGE;
    }
    t->batch = fixed ? fixed : asked ? asked : of_checkpoint ? (int64_t)of_checkpoint : 32;
    if ((uint64_t)t->batch > t->data.rows) {
        if (fixed) {
            fprintf(stderr, "%s: the plan is for batches of %" PRId64 ", but there are only %" PRIu64 " rows\n",
                    t->tool, fixed, t->data.rows);
            return CLI_USAGE;
        }
        t->batch = (int64_t)t->data.rows;
    }
    return share_batch(t, gpus);
}

static void set_length(trainer *t)
{
    const train_request *o = t->request;
    uint64_t batch = (uint64_t)t->batch;
    int64_t steps_per_epoch = (int64_t)((t->usable + batch - 1) / batch), by_epochs = 0;
    if (o->epochs && __builtin_mul_overflow(o->epochs, steps_per_epoch, &by_epochs)) by_epochs = INT64_MAX;
    t->total = o->steps && (!by_epochs || o->steps < by_epochs) ? o->steps : by_epochs;
    t->rate = o->rate;
    t->rate.total = t->total;
}

/* What a checkpoint was made with has to be what goes on, where the same bits depend on it. */
static int check_resumed(trainer *t, const train_state *was)
{
    const train_request *o = t->request;
    if (was->rows != t->data.rows) {
        fprintf(stderr, "%s: the checkpoint is of a training with %" PRIu64 " rows, and --data has %" PRIu64 "\n",
                t->tool, was->rows, t->data.rows);
        return CLI_USAGE;
    }
    if (o->seed >= 0 && (uint64_t)o->seed != was->seed) {
        fprintf(stderr, "%s: --seed %" PRId64 ": the checkpoint was made with %" PRIu64 "; leave the option out\n",
                t->tool, o->seed, was->seed);
        return CLI_USAGE;
    }
    if (t->data.fixed_batch && was->position % (uint64_t)t->batch) {
        cli_error(t->tool, "the checkpoint lies within a batch of the plan: go on with the plan that it was made with");
        return CLI_USAGE;
    }
    if (o->quiet) return CLI_OK;
    if ((uint64_t)t->batch != was->batch)
        fprintf(stderr, "%s: batches have %" PRId64 " rows from here on, before they had %" PRIu64 "\n", t->tool,
                t->batch, was->batch);
    if (was->gpus != ranks_size(t->ranks))
        fprintf(stderr, "%s: batches are shared by %d GPUs from here on, before by %" PRId64 "\n", t->tool,
                (int)ranks_size(t->ranks), was->gpus);
    if (strcmp(t->state.schedule, was->schedule) != 0)
        cli_error(t->tool, "the learning rate is another from here on: %s; before: %s", t->state.schedule,
                cli_shown(was->schedule));
    return CLI_OK;
}

/* Others than rank 0 only read them. */
static int open_checkpoints(trainer *t)
{
    const train_request *o = t->request;
    if (t->ranks->rank == 0) return checkpoints_open(&t->checkpoints, o->checkpoints, o->keep, t->tool);
    return o->resume ? checkpoints_open_beside(&t->checkpoints, o->checkpoints, t->tool) : CLI_OK;
}

/* Where another number of GPUs has stopped within an epoch: the rows of it that these can share begin a few rows before. */
static void round_position(const trainer *t, train_state *s)
{
    uint64_t odd = s->position % (uint64_t)ranks_size(t->ranks);
    if (!odd) return;
    s->loss_sum *= (double)(s->position - odd) / (double)s->position;
    s->position -= odd;
}

/* Reads the newest checkpoint, if there is one, and sets what it decides. */
static int begin(trainer *t)
{
    const train_request *o = t->request;
    bool found = false;
    hyp_diag diag = {0};
    train_state was = {.model_hash = hyp_engine_model_hash(t->session.engine)};
    int code = open_checkpoints(t);
    if (code == CLI_OK && o->resume) code = checkpoints_restore(&t->checkpoints, &was, t->variables, t->variable_count, &found);
    if (code == CLI_OK && !o->resume && t->checkpoints.count) {
        cli_error(t->tool, "%s: has checkpoints of another training; --resume goes on with it, or name another folder",
                  o->checkpoints);
        code = CLI_USAGE;
    }
    if (code == CLI_OK) code = set_batch(t, found ? was.batch : 0);
    if (code != CLI_OK) return code;
    set_length(t);
    t->state = (train_state){.model_hash = hyp_engine_model_hash(t->session.engine),
                             .rows = t->data.rows,
                             .seed = o->seed >= 0 ? (uint64_t)o->seed : 0,
                             .gpus = ranks_size(t->ranks),
                             .best = INFINITY};
    schedule_print(&t->rate, t->state.schedule, sizeof t->state.schedule);
    t->state.batch = (uint64_t)t->batch;
    if (!found) return CLI_OK;
    code = check_resumed(t, &was);
    if (code != CLI_OK) return code;
    if (hyp_context_variable_set(t->session.context, t->variables, t->variable_count, &diag) != HYP_OK)
        return cli_report(t->tool, &diag);
    memcpy(was.schedule, t->state.schedule, sizeof was.schedule);
    was.batch = t->state.batch;
    was.gpus = t->state.gpus;
    round_position(t, &was);
    t->state = was;
    if (!o->quiet) printf("resumed after step %" PRId64 "\n", was.step);
    return CLI_OK;
}

static int check_files(const train_request *o, const cli_args *args)
{
    file_uses uses = {0};
    session_file_uses(&o->session, &uses);
    const cli_list *lists[] = {&o->data, &o->validation};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count; i++) {
            const char *equals = strchr(lists[k]->items[i], '=');
            if (equals) file_uses_add(&uses, "data", equals + 1, false);
        }
    file_uses_add(&uses, "--metrics", o->metrics, true);
    file_uses_add(&uses, "--curve", o->curve, true);
    return file_uses_check(&uses, args);
}

static int open_all(trainer *t, const train_request *o)
{
    int code = find_roles(t);
    if (code == CLI_OK) code = dataset_open(&t->data, t->session.engine, &o->data, &o->scales, "--data", t->tool);
    if (code == CLI_OK)
        code = dataset_open(&t->validation, t->session.engine, &o->validation,
                            o->validation.count ? &o->scales : &(cli_list){0}, "--validate", t->tool);
    if (code == CLI_OK) code = make_variables(t);
    if (code == CLI_OK) code = begin(t);
    if (code == CLI_OK) code = make_inputs(t);
    if (code == CLI_OK) code = check_inputs(t);
    if (code == CLI_OK) code = make_outputs(t);
    if (code == CLI_OK)
        code = feed_open(&t->feed, t->session.engine, &t->data, t->session.inputs, t->session.input_count, t->share,
                         t->tool);
    if (code == CLI_OK) code = train_report_open(&t->report, o, t->state.step ? t->state.step : -1, t->tool);
    return code;
}

static void catch_signals(trainer *t)
{
    if (!t->ranks->board || t->ranks->path) { /* else the parent does */
        t->ranks->signal = interrupt_catch();
        interrupt_catch_termination();
    }
    signal(SIGXFSZ, SIG_IGN); /* a file that may not be so large is an error like a full disk */
}

int trainer_open(trainer *t, const train_request *o, const cli_args *args, ranks *r)
{
    t->request = o;
    t->tool = args->tool;
    t->ranks = r;
    int code = r->rank == 0 ? check_files(o, args) : CLI_OK;
    if (code == CLI_OK) code = session_open(&t->session, &o->session, t->tool);
    /* Rank 0 goes first, so that what is wrong is told once. */
    if (code == CLI_OK && r->rank > 0 && ranks_look(r)) return CLI_OK;
    if (code == CLI_OK) code = open_all(t, o);
    if (code != CLI_OK) return code;
    t->report.total = t->total;
    t->order = cli_alloc(NULL, t->data.rows, sizeof *t->order);
    catch_signals(t);
    if (r->rank == 0) ranks_look(r);
    ranks_meet(r);
    return CLI_OK;
}

void trainer_close(trainer *t)
{
    session *s = &t->session;
    feed_close(t->feed);
    const size_t own[] = {t->rate_input, t->seed_input, t->training_input};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) /* fields of the trainer; the session frees the rest */
        if (own[i] < s->input_count) s->inputs[own[i]] = (hyp_tensor){0};
    if (t->loss_output < s->output_count) s->outputs[t->loss_output] = (hyp_tensor){0};
    for (size_t i = 0; i < s->output_count; i++) hyp_engine_tensor_free(s->engine, &s->outputs[i]);
    for (size_t i = 0; i < t->variable_count; i++) hyp_tensor_dispose(&t->variables[i]);
    hyp_tensor_dispose(&t->classes);
    free(t->variables);
    free(t->order);
    dataset_close(&t->data);
    dataset_close(&t->validation);
    checkpoints_close(&t->checkpoints);
    session_close(&t->session);
    *t = (trainer){0};
}
