/* validate.c - batches of a training, and what the model as it is gives for data that it does not train on. */
#include <math.h>
#include <stdlib.h>

#include "interrupt.h"
#include "shuffle.h"
#include "train.h"

void trainer_fill(trainer *t, const dataset *d, const uint64_t *rows, size_t count)
{
    t->inputs = t->session.inputs;
    for (size_t i = 0; i < d->count; i++) {
        const dataset_column *c = &d->columns[i];
        hyp_tensor *in = &t->session.inputs[c->input];
        in->dims[0] = (int64_t)count; /* the others are those of all rows: check_inputs */
        dataset_read(c, rows, count, in->data);
    }
}

int trainer_step(trainer *t, bool keep_variables)
{
    hyp_run_options options = {.size = sizeof options, .keep_variables = keep_variables};
    hyp_diag diag = {0};
    t->seed_now = (int64_t)shuffle_number(~t->state.seed, (uint64_t)t->ranks->rank); /* apart from the order's keys */
    t->training_now = !keep_variables;
    session *s = &t->session;
    if (hyp_context_run_with(s->context, t->inputs, s->input_count, s->outputs, s->output_count, &options, &diag) == HYP_OK)
        return CLI_OK;
    return cli_report(t->tool, &diag);
}

/* Labels whose class has the largest score, and labels that name a class; classes are along axis 1 of the scores. */
typedef struct hits {
    uint64_t right, of;
} hits;

static double score(const hyp_tensor *scores, int64_t i)
{
    return scores->dtype == HYP_F32 ? (double)((const float *)scores->data)[i] : hyp_tensor_at(scores, i);
}

static void count_hits(const hyp_tensor *scores, const hyp_tensor *labels, hits *h)
{
    int64_t classes = scores->dims[1], inner = 1, outer = scores->dims[0];
    for (int32_t a = 2; a < scores->rank; a++) inner *= scores->dims[a];
    const int64_t *label = labels->data;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t wanted = label[o * inner + i], best = 0;
            if (wanted < 0 || wanted >= classes) continue; /* one that does not count */
            double most = score(scores, o * classes * inner + i);
            for (int64_t c = 1; c < classes; c++) {
                double s = score(scores, (o * classes + c) * inner + i);
                if (s > most) {
                    most = s;
                    best = c;
                }
            }
            h->right += best == wanted;
            h->of++;
        }
}

/* Whether the scores are the labels with an axis of classes more. */
static bool are_scores_of(const hyp_tensor *scores, const hyp_tensor *labels)
{
    if (scores->rank != labels->rank + 1 || scores->dims[1] < 1) return false;
    for (int32_t a = 0; a < labels->rank; a++)
        if (scores->dims[a ? a + 1 : 0] != labels->dims[a]) return false;
    return true;
}

int trainer_validate(trainer *t, double *out_loss, double *out_accuracy)
{
    const dataset *d = &t->validation;
    uint64_t usable = d->fixed_batch ? d->rows - d->rows % (uint64_t)t->share : d->rows;
    double sum = 0;
    hits h = {0};
    int code = CLI_OK;
    *out_loss = *out_accuracy = NAN;
    if (!usable) return CLI_OK;
    uint64_t *rows = cli_alloc(NULL, (size_t)t->share, sizeof *rows);
    hyp_tensor device = {0};
    hyp_tensor *outputs = t->session.outputs;
    bool scored = t->class_output != SIZE_MAX; /* then there are labels: find_roles */
    const hyp_tensor *labels = scored ? &t->session.inputs[t->labels_input] : NULL;
    if (scored) {
        device = outputs[t->class_output];
        outputs[t->class_output] = t->classes;
    }
    for (uint64_t at = 0; at < usable && code == CLI_OK;) {
        uint64_t count = usable - at < (uint64_t)t->share ? usable - at : (uint64_t)t->share;
        for (uint64_t i = 0; i < count; i++) rows[i] = at + i;
        trainer_fill(t, d, rows, (size_t)count);
        code = ranks_look(t->ranks) ? CLI_INTERRUPTED : trainer_step(t, true);
        if (code == CLI_OK && scored && are_scores_of(&outputs[t->class_output], labels))
            count_hits(&outputs[t->class_output], labels, &h);
        sum += (double)t->loss_now * (double)count;
        at += count;
    }
    if (scored) outputs[t->class_output] = device;
    free(rows);
    if (code != CLI_OK) return code;
    *out_loss = sum / (double)usable;
    if (h.of) *out_accuracy = (double)h.right / (double)h.of;
    return CLI_OK;
}
