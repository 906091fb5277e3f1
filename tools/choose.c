/* hypatiac --timed: of the forms that a model and its parts can take, which are the fastest here. What was found is
 * kept in the timing cache, where a question has a name that every form has a part in, and so the same answer for equal
 * parts of all models. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "race.h"
#include "resident.h"
#include "tempfile.h"
#include "terminal.h"
#include "timing.h"

enum { FORMS = HYP_COMPILE_FORMS, FEWEST = 5, MOST = 1000, ID = 8 /* bytes */, PARTS = 20 };

#define FOR_PARTS 0.6 /* of the time; the rest is for the whole */

static hyp_status fail(hyp_diag *diag, hyp_status status, const char *message)
{
    diag->status = status;
    snprintf(diag->message, sizeof diag->message, "%s", message);
    return status;
}

/* A form at the start. */
typedef struct runner {
    session session;
    resident resident;
    bool open;
} runner;

/* The forms of one question at the start, and their times. */
typedef struct field {
    runner runners[FORMS];
    racer times[FORMS];
} field;

static bool is_stopped(const chooser *c) { return c->stop && *c->stop; }

/* ---- racing ---------------------------------------------------------------------------------------------- */

/* Without transfers, as tensors lie within a plan. */
static hyp_status run_once(runner *r, hyp_diag *diag)
{
    session *s = &r->session;
    hyp_status status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, diag);
    return status == HYP_OK && r->resident.in_use ? hyp_context_synchronize(s->context, diag) : status;
}

/* Median of the runs of about so many seconds. */
static hyp_status time_round(runner *r, double seconds, double *out, hyp_diag *diag)
{
    double *samples = cli_alloc(NULL, MOST, sizeof *samples), end = timing_now() + seconds;
    size_t count = 0;
    hyp_status status = HYP_OK;
    while (status == HYP_OK && count < MOST && (count == 0 || timing_now() < end)) {
        double begin = timing_now();
        status = run_once(r, diag);
        samples[count++] = timing_now() - begin;
    }
    *out = timing_median(samples, count);
    free(samples);
    return status;
}

/* In turns, so that what else the machine does hits all of them; *out_rounds is 0 when it was stopped. */
static hyp_status time_all(const chooser *c, field *all, size_t count, double seconds, int *out_rounds, hyp_diag *diag)
{
    double end = timing_now() + 2 * seconds, each = seconds / (RACE_ROUNDS * (double)count);
    int rounds = 0;
    *out_rounds = 0;
    for (; rounds < RACE_ROUNDS && (rounds < FEWEST || timing_now() < end); rounds++)
        for (size_t turn = 0; turn < count; turn++) {
            size_t i = rounds % 2 ? count - 1 - turn : turn; /* nobody always follows the same one */
            if (is_stopped(c)) return HYP_OK;
            if (!all->runners[i].open) continue;
            terminal_work_says("timing forms, round %d of up to %d", rounds + 1, RACE_ROUNDS);
            all->times[i].in = true;
            hyp_status status = time_round(&all->runners[i], each, &all->times[i].rounds[rounds], diag);
            if (status != HYP_OK) return status;
        }
    *out_rounds = rounds;
    return HYP_OK;
}

/* Opens the plan of a form. One that cannot be a plan stays closed, but the first has to be one. */
static hyp_status open_form(chooser *c, const hyp_compile_forms *forms, size_t i, runner *out, hyp_diag *diag)
{
    tempfile plan;
    if (tempfile_open(&plan, c->args->tool) != CLI_OK)
        return fail(diag, HYP_ERR_IO, "a form of the model cannot be timed");
    hyp_status status = forms->write(forms, i, plan.path, diag);
    bool written = status == HYP_OK;
    if (status == HYP_ERR_UNSUPPORTED && i > 0) status = HYP_OK;
    if (written) {
        session_options where = {.plan = plan.path, .device = c->options.device, .threads = c->options.threads};
        int code = measure_open_plan(&out->session, &where, c->args);
        if (code == CLI_OK && c->options.device == HYP_DEVICE_CUDA) {
            code = resident_open(&out->resident, &out->session, c->args->tool);
            if (code == CLI_OK) resident_use(&out->resident, &out->session, true);
        }
        out->open = code == CLI_OK;
        if (!out->open)
            status =
                fail(diag, HYP_ERR_DEVICE, "--timed runs the plans on this machine; without it a plan is made for any");
    }
    tempfile_close(&plan);
    return status;
}

static void close_form(runner *r)
{
    if (r->session.engine) resident_close(&r->resident, &r->session);
    session_close(&r->session);
    *r = (runner){0};
}

/* "image f32[32 64]" of every input. */
static void print_inputs(FILE *to, const session *s)
{
    for (size_t i = 0; i < s->input_count; i++) {
        const hyp_tensor *t = &s->inputs[i];
        fprintf(to, "%s%s %s[", i ? ", " : "", cli_shown(hyp_engine_input(s->engine, i)->name),
                hyp_dtype_name(t->dtype));
        for (int32_t a = 0; a < t->rank; a++) fprintf(to, "%s%lld", a ? " " : "", (long long)t->dims[a]);
        fputc(']', to);
    }
}

static void print_times(FILE *to, const hyp_compile_forms *forms, const field *all, size_t best)
{
    fprintf(to, "%s with ", forms->whole ? "timed" : "part timed");
    print_inputs(to, &all->runners[0].session);
    fprintf(to, " on %s:\n", hyp_engine_device_name(all->runners[0].session.engine));
    for (size_t i = 0; i < forms->count; i++)
        if (all->times[i].in)
            fprintf(to, "  %-12s %12.3f us, predicted %12.3f us%s\n", forms->names[i], all->times[i].median * 1e6,
                    forms->seconds[i] * 1e6, i == best ? "  (kept)" : "");
}

/* ---- questions ------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* "form of 0123456789abcdef 123456789abcdef0", in whatever order the forms were predicted. To be freed. */
static char *name_question(const hyp_compile_forms *forms)
{
    const char *ids[FORMS];
    size_t used = 0, room = forms->count * (2 * ID + 1) + 16;
    char *text = cli_alloc(NULL, room, 1);
    for (size_t i = 0; i < forms->count; i++) ids[i] = forms->ids[i];
    qsort(ids, forms->count, sizeof *ids, by_text);
    used += (size_t)snprintf(text, room, "form of");
    for (size_t i = 0; i < forms->count; i++) used += (size_t)snprintf(text + used, room - used, " %s", ids[i]);
    return text;
}

static void id_bytes(const char *id, uint8_t out[ID])
{
    for (size_t i = 0; i < ID; i++) {
        char pair[] = {id[2 * i], id[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

/* What the cache says; false where it says nothing, or of no form that there is. */
static bool look_up(chooser *c, const hyp_compile_forms *forms, const char *question, size_t *out)
{
    hyp_tuned t = {.size = sizeof t};
    uint8_t id[ID];
    if (!tune_cache_find(question, &t, &c->known)) return false;
    for (size_t i = 0; i < forms->count; i++) {
        id_bytes(forms->ids[i], id);
        if (t.algorithm_bytes != ID || memcmp(t.algorithm, id, ID) != 0) continue;
        *out = i;
        return true;
    }
    fprintf(stderr, "%s: %s: the line of '%s' names none of its forms, and is left out\n", c->args->tool,
            c->cache ? c->cache : "the cache", question);
    return false;
}

static hyp_status remember(chooser *c, const hyp_compile_forms *forms, const char *question, const field *all,
                           size_t best, hyp_diag *diag)
{
    uint8_t id[ID];
    id_bytes(forms->ids[best], id);
    hyp_tuned t = {.size = sizeof t,
                   .product = question,
                   .algorithm = id,
                   .algorithm_bytes = ID,
                   .attributes = forms->names[best],
                   .seconds = all->times[best].median,
                   .first_seconds = all->times[0].median};
    if (tune_cache_add(&c->known, c->cache, c->device, &t, c->args->tool) == CLI_OK) return HYP_OK;
    return fail(diag, HYP_ERR_IO, "what was timed cannot be kept");
}

/* Opens the first form to learn what the device is called, and reads what is known of it. */
static hyp_status meet_device(chooser *c, const hyp_compile_forms *forms, runner *first, hyp_diag *diag)
{
    if (c->device) return HYP_OK;
    hyp_status status = open_form(c, forms, 0, first, diag);
    if (status != HYP_OK) return status;
    const char *name = hyp_context_tuning_device(first->session.context);
    if (!name) name = hyp_engine_device_name(first->session.engine);
    c->device = cli_copy(name, strlen(name));
    if (!c->cache || tune_cache_load(&c->known, c->cache, c->device, c->args->tool) == CLI_OK) return HYP_OK;
    return fail(diag, HYP_ERR_IO, "the timing cache cannot be read");
}

static hyp_status race(chooser *c, const hyp_compile_forms *forms, const char *question, field *all, size_t *out,
                       hyp_diag *diag)
{
    double begin = timing_now(), share = forms->whole ? 1 - FOR_PARTS : FOR_PARTS / PARTS;
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < forms->count && status == HYP_OK; i++)
        if (!all->runners[i].open) status = open_form(c, forms, i, &all->runners[i], diag);
    int rounds = 0;
    terminal_work_tick(false);
    if (status == HYP_OK) status = time_all(c, all, forms->count, share * c->options.seconds, &rounds, diag);
    terminal_work_tick(true);
    terminal_work_hide();
    c->spent += timing_now() - begin;
    if (status != HYP_OK || rounds == 0) return status;
    *out = race_winner(all->times, forms->count, forms->predicted, rounds);
    if (c->people) print_times(c->people, forms, all, *out);
    return remember(c, forms, question, all, *out, diag);
}

static hyp_status answer(chooser *c, const hyp_compile_forms *forms, field *all, size_t *out, hyp_diag *diag)
{
    hyp_status status = meet_device(c, forms, &all->runners[0], diag);
    if (status != HYP_OK && !c->timed && !c->device) {
        c->blind = true; /* what is wrong with the device was said */
        fprintf(stderr, "%s: %s: not used: its lines are for devices that are here\n", c->args->tool, c->cache);
        return HYP_OK;
    }
    if (status != HYP_OK) return status;
    char *question = name_question(forms);
    bool known = look_up(c, forms, question, out);
    bool late = !forms->whole && c->spent > FOR_PARTS * c->options.seconds;
    if (!forms->whole) c->remembered += known;
    if (!known && c->timed && !late && !is_stopped(c)) {
        status = race(c, forms, question, all, out, diag);
        if (!forms->whole) c->raced++;
    } else if (known && forms->whole && c->people) {
        terminal_work_hide();
        fprintf(c->people, "the form that was the fastest before: %s\n", forms->names[*out]);
    }
    free(question);
    return status;
}

hyp_status chooser_ask(const hyp_compile_forms *forms, size_t *out, void *user, hyp_diag *diag)
{
    chooser *c = user;
    field all = {0};
    if (c->blind || forms->count > FORMS) return HYP_OK;
    if (!forms->whole) c->parts++;
    hyp_status status = answer(c, forms, &all, out, diag);
    for (size_t i = 0; i < FORMS; i++) close_form(&all.runners[i]);
    return status;
}

void chooser_print(const chooser *c, FILE *to, size_t changed)
{
    if (!c->device) return;
    size_t left = c->parts - c->remembered - c->raced;
    fprintf(to, "parts: %zu, known: %zu, timed: %zu, changed: %zu, %.2f s of timing\n", c->parts, c->remembered,
            c->raced, changed, c->spent);
    if (c->timed && left > 0) fprintf(to, "not timed, because time ran out: %zu; --seconds gives more\n", left);
}

void chooser_free(chooser *c)
{
    tune_cache_free(&c->known);
    free(c->device);
}
