#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal.h"
#include "timing.h"
#include "train.h"

enum { LONGEST_LINE = 4096 };

/* ---- metrics --------------------------------------------------------------------------------------------------- */

/* What a line is of; NULL where it is none of ours. */
static const char *read_line(const char *text, size_t len, json_t **out, int64_t *step)
{
    const char *event;
    json_int_t number;
    *out = json_loadb(text, len, 0, NULL);
    if (json_unpack(*out, "{s:s, s:I}", "event", &event, "step", &number) == 0 && number >= 0) {
        *step = number;
        return event;
    }
    json_decref(*out);
    *out = NULL;
    return NULL;
}

static double number_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void add_points(train_report *r, const char *event, const json_t *line, int64_t step)
{
    if (strcmp(event, "step") == 0) curve_add_step(&r->curve, step - 1, number_of(line, "loss"));
    if (strcmp(event, "epoch") != 0) return;
    curve_epoch e = {step, number_of(line, "validation-loss"), number_of(line, "accuracy")};
    curve_add_epoch(&r->curve, &e);
}

/* Goes to where the lines of a resumed training begin. CLI_USAGE where the file has other lines than metrics. */
static int skip_lines(train_report *r, int64_t from)
{
    static const char begin[] = "{\"event\":";
    char text[LONGEST_LINE];
    long end = 0;
    while (fgets(text, sizeof text, r->metrics)) {
        size_t len = strlen(text);
        bool whole = len && text[len - 1] == '\n';
        json_t *line;
        int64_t step = 0;
        const char *event = read_line(text, len, &line, &step);
        bool cut =
            !whole && len < sizeof text - 1 && strncmp(text, begin, len < strlen(begin) ? len : strlen(begin)) == 0;
        if (!event && !cut) {
            cli_error(r->tool, "%s: is no file of metrics, which would be lost", r->metrics_path);
            return CLI_USAGE;
        }
        bool keep = event && whole && step <= from; /* what ends within a line was being written */
        if (keep) add_points(r, event, line, step);
        json_decref(line);
        if (!keep) break;
        end = ftell(r->metrics);
    }
    if (!ferror(r->metrics) && fseek(r->metrics, end, SEEK_SET) == 0 && ftruncate(fileno(r->metrics), end) == 0)
        return CLI_OK;
    cli_error(r->tool, "%s: cannot read: %s", r->metrics_path, strerror(errno));
    return CLI_FAILED;
}

static int write_line(train_report *r, json_t *line)
{
    int failed = json_dumpf(line, r->metrics, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(line);
    if (failed == 0 && fputc('\n', r->metrics) != EOF && fflush(r->metrics) == 0) return CLI_OK;
    terminal_work_hide();
    cli_error(r->tool, "%s: cannot write: %s", r->metrics_path, strerror(errno));
    fclose(r->metrics);
    r->metrics = NULL;
    return CLI_FAILED;
}

static void set_number(json_t *line, const char *key, double value)
{
    json_object_set_new(line, key, isfinite(value) ? json_real(value) : json_null()); /* JSON has no others */
}

/* ---- the line on a terminal ----------------------------------------------------------------------------------- */

static void say_progress(const train_report *r, const train_state *state, double loss, double rate, uint64_t rows)
{
    char epoch[64] = "", left[32];
    if (!terminal_work_asks()) return;
    if (r->epochs) snprintf(epoch, sizeof epoch, ", epoch %" PRId64 " of %" PRId64, state->epoch + 1, r->epochs);
    terminal_work_says("step %" PRId64 " of %" PRId64 "%s: loss %.4g, rate %.3g, %.4g samples/s, %s left", state->step, r->total,
                       epoch, loss, rate, (double)rows / r->step_seconds,
                       terminal_duration((double)(r->total - state->step) * r->step_seconds, left));
}

/* ---- the report ------------------------------------------------------------------------------------------------- */

int train_report_open(train_report *r, const train_request *o, int64_t from, const char *tool)
{
    *r = (train_report){.tool = tool,
                        .quiet = o->quiet,
                        .metrics_path = o->metrics,
                        .curve_path = o->curve,
                        .epochs = o->epochs};
    r->started = timing_now();
    terminal_work_begin(tool, o->quiet, false);
    if (!o->metrics) return CLI_OK;
    r->metrics = fopen(o->metrics, from < 0 ? "w" : "a+");
    if (!r->metrics) {
        cli_error(tool, "%s: cannot write: %s", o->metrics, strerror(errno));
        return CLI_FAILED;
    }
    if (from < 0) return CLI_OK;
    rewind(r->metrics);
    int code = skip_lines(r, from);
    if (code == CLI_OK) return CLI_OK;
    fclose(r->metrics);
    curve_free(&r->curve);
    *r = (train_report){0};
    return code;
}

int train_report_step(train_report *r, const train_state *state, double loss, double rate, uint64_t rows,
                      double seconds)
{
    r->step_seconds = r->step_seconds > 0 ? 0.95 * r->step_seconds + 0.05 * seconds : seconds;
    r->epoch_seconds += seconds;
    curve_add_step(&r->curve, state->step - 1, loss);
    say_progress(r, state, loss, rate, rows);
    if (!r->metrics) return CLI_OK;
    json_t *line = json_pack("{s:s, s:I, s:I}", "event", "step", "step", (json_int_t)state->step, "epoch",
                             (json_int_t)state->epoch);
    set_number(line, "loss", loss);
    set_number(line, "learning-rate", rate);
    return write_line(r, line);
}

static int draw(train_report *r)
{
    if (!r->curve_path) return CLI_OK;
    FILE *file = fopen(r->curve_path, "w");
    if (file) curve_draw(&r->curve, file);
    bool failed = !file || ferror(file);
    if (file && fclose(file) != 0) failed = true;
    if (!failed) return CLI_OK;
    terminal_work_hide();
    cli_error(r->tool, "%s: cannot write: %s", r->curve_path, strerror(errno));
    r->curve_path = NULL;
    return CLI_FAILED;
}

/* `stepping`: what its steps took of the seconds; validation and the checkpoint before are in the others. */
static void print_epoch(const train_epoch *e, double seconds, double stepping)
{
    printf("epoch %" PRId64 ": loss %.6g", e->epoch + 1, e->loss);
    if (!isnan(e->validation)) printf(", validation %.6g", e->validation);
    if (!isnan(e->accuracy)) printf(", accuracy %.2f %%", 100 * e->accuracy);
    printf(", rate %.3g, %" PRId64 " steps", e->rate, e->step);
    if (e->rows) printf(", %.4g samples/s", (double)e->rows / stepping);
    printf(", %.3g s%s\n", seconds, e->best ? ", best" : "");
    fflush(stdout);
}

int train_report_epoch(train_report *r, const train_epoch *e)
{
    double now = timing_now(), seconds = now - r->started;
    r->started = now;
    terminal_work_hide();
    if (!r->quiet) print_epoch(e, seconds, r->epoch_seconds);
    r->epoch_seconds = 0;
    curve_epoch point = {e->step, e->validation, e->accuracy};
    curve_add_epoch(&r->curve, &point);
    int code = draw(r);
    if (!r->metrics) return code;
    json_t *line =
        json_pack("{s:s, s:I, s:I}", "event", "epoch", "step", (json_int_t)e->step, "epoch", (json_int_t)e->epoch);
    set_number(line, "loss", e->loss);
    set_number(line, "validation-loss", e->validation);
    set_number(line, "accuracy", e->accuracy);
    set_number(line, "seconds", seconds);
    int written = write_line(r, line);
    return code == CLI_OK ? written : code;
}

int train_report_close(train_report *r)
{
    if (!r->tool) return CLI_OK;
    terminal_work_end();
    int code = draw(r);
    if (r->metrics && fclose(r->metrics) != 0) {
        cli_error(r->tool, "%s: cannot write: %s", r->metrics_path, strerror(errno));
        code = CLI_FAILED;
    }
    curve_free(&r->curve);
    *r = (train_report){0};
    return code;
}
