/* The options of hypatiac that make a training step of a model. What their values mean together is for the library to
 * say. */
#include "train_options.h"

#include <string.h>

#include "hypatia/tensor_io.h"

static const cli_option rows[] = {TRAIN_ROWS(0)};

void train_request_init(train_request *t) { *t = (train_request){.options = HYP_TRAIN_OPTIONS_INIT}; }

void train_request_free(train_request *t)
{
    cli_list_free(&t->frozen);
    hyp_tensor_dispose(&t->weights);
}

static bool read_number(const cli_args *args, int option, const char *value, double *out)
{
    if (cli_parse_double(value, 0, out)) return true;
    cli_usage_error(args, "--%s: '%s' is no number from 0 on", rows[option].name, value);
    return false;
}

static bool read_betas(train_request *t, const cli_args *args, const char *value)
{
    cli_list parts = {0};
    cli_list_split(&parts, value);
    bool good = parts.count == 2 && cli_parse_double(parts.items[0], 0, &t->options.beta1) &&
                cli_parse_double(parts.items[1], 0, &t->options.beta2);
    cli_list_free(&parts);
    if (!good) cli_usage_error(args, "--betas: '%s' is not of the form 0.9,0.999", value);
    return good;
}

static bool read_weights(train_request *t, const cli_args *args, const char *path)
{
    hyp_diag diag = {0};
    hyp_tensor_dispose(&t->weights);
    if (hyp_tensor_load(path, NULL, &t->weights, &diag) != HYP_OK) {
        cli_usage_error(args, "--class-weights: %s", diag.message);
        return false;
    }
    if (t->weights.dtype != HYP_F32 || t->weights.rank != 1) {
        cli_usage_error(args, "--class-weights: %s has %s of rank %d; wanted are f32, one for each class", path,
                        hyp_dtype_name(t->weights.dtype), (int)t->weights.rank);
        return false;
    }
    t->options.class_weights = t->weights.data;
    t->options.class_weight_count = (size_t)t->weights.dims[0];
    return true;
}

bool train_read_option(train_request *t, const cli_args *args, int option, const char *value)
{
    hyp_train_options *o = &t->options;
    if (!t->first) t->first = rows[option].name;
    switch (option) {
    case TRAIN_LOSS: o->loss = value; break;
    case TRAIN_OUTPUT: o->output = value; break;
    case TRAIN_IGNORE_INDEX:
        if (cli_parse_int(value, INT64_MIN, INT64_MAX, &o->ignore_index)) break;
        cli_usage_error(args, "--ignore-index: '%s' is no integer", value);
        return false;
    case TRAIN_LABEL_SMOOTHING: return read_number(args, option, value, &o->label_smoothing);
    case TRAIN_CLASS_WEIGHTS: return read_weights(t, args, value);
    case TRAIN_OPTIMIZER: o->optimizer = value; break;
    case TRAIN_MOMENTUM: return read_number(args, option, value, &o->momentum);
    case TRAIN_NESTEROV: o->nesterov = true; break;
    case TRAIN_WEIGHT_DECAY: return read_number(args, option, value, &o->weight_decay);
    case TRAIN_BETAS: return read_betas(t, args, value);
    case TRAIN_EPSILON: return read_number(args, option, value, &o->epsilon);
    case TRAIN_CLIP_NORM: return read_number(args, option, value, &o->clip_norm);
    case TRAIN_FROZEN: cli_list_split(&t->frozen, value); break;
    case TRAIN_GRADIENTS: o->gradients = true; break;
    case TRAIN_DATA_PARALLEL: o->data_parallel = true; break;
    case TRAIN_DROPOUT: o->dropout = true; break;
    case TRAIN_LOSS_ONLY: o->loss_only = true; break;
    case TRAIN_LOSS_SCALE: return read_number(args, option, value, &o->loss_scale);
    default: return false;
    }
    return true;
}

bool train_finish(train_request *t, const cli_args *args, const hyp_train_options **out)
{
    *out = NULL;
    if (t->first && !t->options.loss) {
        cli_usage_error(args, "--%s is for a training step: give --train with its loss, too", t->first);
        return false;
    }
    t->options.frozen = (const char *const *)t->frozen.items;
    t->options.frozen_count = t->frozen.count;
    if (t->options.loss) *out = &t->options;
    return true;
}
