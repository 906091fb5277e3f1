/* hypatia train - trains a plan of hypatiac --train on data from files. docs/training.md describes it. */
#include "train.h"

#include <stdlib.h>
#include <string.h>

#include "hypatia.h"

enum {
    OPT_DATA,
    OPT_VALIDATE,
    OPT_SCALE,
    OPT_INPUT,
    OPT_EPOCHS,
    OPT_STEPS,
    OPT_BATCH,
    OPT_RATE,
    OPT_SCHEDULE,
    OPT_WARMUP,
    OPT_SEED,
    OPT_CHECKPOINTS,
    OPT_KEEP,
    OPT_EVERY,
    OPT_RESUME,
    OPT_STOP_AFTER,
    OPT_ALLOW_NAN,
    OPT_METRICS,
    OPT_CURVE,
    OPT_DEVICE,
    OPT_GPUS,
    OPT_THREADS,
    OPT_MEMORY,
    OPT_SIGNATURE,
    OPT_VERBOSE,
    OPT_QUIET,
    OPT_HELP
};

static const cli_option options[] = {
    [OPT_DATA] = {"data", 0, "NAME=PATH", "rows of an input: a .npy file, or a folder of them"},
    [OPT_VALIDATE] = {"validate", 0, "NAME=PATH", "the same, of data to judge the model on after each epoch"},
    [OPT_SCALE] = {"scale", 0, "NAME=X", "times X, of data that the plan takes as f32: x=0.00392156862745098"},
    [OPT_INPUT] = {"input", 'i', "NAME=@FILE", "an input that is the same in every batch (.npy, .bin, .pb)"},
    [OPT_EPOCHS] = {"epochs", 'e', "N", "ends after N times all rows"},
    [OPT_STEPS] = {"steps", 0, "N", "ends after N steps"},
    [OPT_BATCH] = {"batch", 'b', "N", "rows of a step, of all GPUs together (32, or as many as the plan is for)"},
    [OPT_RATE] = {"learning-rate", 'r', "X", "the highest learning rate (0.001)"},
    [OPT_SCHEDULE] = {"schedule", 0, "KIND", "constant, step:EVERY:FACTOR, cosine[:LAST] or linear[:LAST] (constant)"},
    [OPT_WARMUP] = {"warmup", 0, "N", "steps in which the rate comes up (0)"},
    [OPT_SEED] = {"seed", 0, "N", "of the order of the rows, and of what is dropped (0)"},
    [OPT_CHECKPOINTS] = {"checkpoints", 'c', "FOLDER", "where the states of the training are kept"},
    [OPT_KEEP] = {"keep", 0, "N", "how many of the last ones, besides the best (3)"},
    [OPT_EVERY] = {"every", 0, "N", "a checkpoint after each N steps, besides those of epochs"},
    [OPT_RESUME] = {"resume", 0, NULL, "go on from the newest checkpoint, if there is one"},
    [OPT_STOP_AFTER] = {"stop-after", 0, "N", "stop after N steps of this run, as an interruption would"},
    [OPT_ALLOW_NAN] = {"allow-nan", 0, NULL, "go on where the loss is no finite number"},
    [OPT_METRICS] = {"metrics", 0, "FILE", "a line of JSON for each step and epoch"},
    [OPT_CURVE] = {"curve", 0, "FILE.svg", "the losses as a picture"},
    [OPT_DEVICE] = {"device", 0, "NAME", "auto (default), cpu, cuda, cuda:N or reference"},
    [OPT_GPUS] = {"gpus", 0, "N", "GPUs of this machine that share every batch, from that of --device on (1)"},
    [OPT_THREADS] = {"threads", 0, "N", "CPU threads of one run (OMP_NUM_THREADS, else all)"},
    [OPT_MEMORY] = {"memory-limit", 0, "MIB", "refuse batches that need more memory"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},
    [OPT_VERBOSE] = {"verbose", 'v', NULL, "say which device was taken and why"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "print errors alone"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia train";

static void help(void)
{
    printf("Usage: hypatia train STEP.bin --data x=x.npy --data labels=y.npy --epochs N --checkpoints FOLDER ...\n"
           "Trains the variables of a plan that 'hypatiac --train' made; 'hypatia export' makes a model of a "
           "checkpoint.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 5 incompatible plan, 130 interrupted, and the state is saved.\n");
}

static int read_count(const cli_args *args, int option, const char *value, int64_t low, int64_t *out)
{
    if (cli_parse_int(value, low, INT64_MAX / 4, out)) return CLI_OK;
    return cli_usage_error(args, "--%s: '%s' is no number from %d on", options[option].name, value, (int)low);
}

static int read_rate(train_request *o, const cli_args *args, int option, const char *value)
{
    if (option == OPT_RATE && (!cli_parse_double(value, 0, &o->rate.rate) || o->rate.rate > 1e30))
        return cli_usage_error(args, "--learning-rate: '%s' is no learning rate", value);
    if (option == OPT_SCHEDULE && !schedule_parse(&o->rate, value))
        return cli_usage_error(
            args, "--schedule: '%s' is none of constant, step:EVERY:FACTOR, cosine[:LAST], linear[:LAST]", value);
    return option == OPT_WARMUP ? read_count(args, option, value, 0, &o->rate.warmup) : CLI_OK;
}

static int read_gpus(train_request *o, const cli_args *args, const char *value)
{
    if (cli_parse_int(value, 1, RANKS_MOST, &o->gpus)) return CLI_OK;
    return cli_usage_error(args, "--gpus: '%s' is no number from 1 to %d", value, RANKS_MOST);
}

/* Those that every command which runs plans has. */
static int read_session(train_request *o, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case OPT_INPUT: cli_list_add(&o->session.inputs, value, strlen(value)); return CLI_OK;
    case OPT_DEVICE: return session_read_option(&o->session, args, SESSION_DEVICE, value);
    case OPT_THREADS: return session_read_option(&o->session, args, SESSION_THREADS, value);
    case OPT_SIGNATURE: return session_read_option(&o->session, args, SESSION_SIGNATURE, value);
    case OPT_MEMORY: return session_read_option(&o->session, args, SESSION_MEMORY, value);
    case OPT_VERBOSE: return session_read_option(&o->session, args, SESSION_VERBOSE, value);
    default: return session_read_option(&o->session, args, option, value);
    }
}

static int read_option(train_request *o, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case OPT_DATA: cli_list_split(&o->data, value); return CLI_OK;
    case OPT_VALIDATE: cli_list_split(&o->validation, value); return CLI_OK;
    case OPT_SCALE: cli_list_split(&o->scales, value); return CLI_OK;
    case OPT_EPOCHS: return read_count(args, option, value, 1, &o->epochs);
    case OPT_STEPS: return read_count(args, option, value, 1, &o->steps);
    case OPT_BATCH: return read_count(args, option, value, 1, &o->batch);
    case OPT_GPUS: return read_gpus(o, args, value);
    case OPT_RATE:
    case OPT_SCHEDULE:
    case OPT_WARMUP: return read_rate(o, args, option, value);
    case OPT_SEED: return read_count(args, option, value, 0, &o->seed);
    case OPT_CHECKPOINTS: o->checkpoints = value; return CLI_OK;
    case OPT_KEEP: return read_count(args, option, value, 1, &o->keep);
    case OPT_EVERY: return read_count(args, option, value, 1, &o->every);
    case OPT_RESUME: o->resume = true; return CLI_OK;
    case OPT_STOP_AFTER: return read_count(args, option, value, 1, &o->stop_after);
    case OPT_ALLOW_NAN: o->allow_nan = true; return CLI_OK;
    case OPT_METRICS: o->metrics = value; return CLI_OK;
    case OPT_CURVE: o->curve = value; return CLI_OK;
    case OPT_QUIET: o->quiet = true; return CLI_OK;
    default: return read_session(o, args, option, value);
    }
}

static int check_device(const train_request *o, const cli_args *args)
{
    hyp_device_kind device = o->session.device;
    if (device == HYP_DEVICE_AUTO || device == HYP_DEVICE_CUDA) return CLI_OK;
    return cli_usage_error(args, "--gpus and --device: several processes train on GPUs alone, --device cuda or cuda:N");
}

/* What has to be there; CLI_USAGE after a message. */
static int check_request(const train_request *o, const cli_args *args)
{
    if (!o->session.plan) return cli_usage_error(args, "no plan was given");
    if (!o->data.count) return cli_usage_error(args, "no data was given: --data NAME=FILE.npy for each input");
    if (!o->epochs && !o->steps)
        return cli_usage_error(args, "how long to train was not given: --epochs N or --steps N");
    if (!o->checkpoints)
        return cli_usage_error(
            args, "no folder for the states was given, without which nothing is left: --checkpoints FOLDER");
    if (o->gpus > 1) return check_device(o, args);
    return CLI_OK;
}

/* Trains as the process that the command is, or as one of several; those have their files by rank 0 alone. */
static int train(train_request *o, cli_args *args, ranks *r)
{
    trainer t = {0};
    if (r->size > 1) args->tool = r->name;
    if (r->rank > 0) {
        o->quiet = true;
        o->metrics = o->curve = NULL;
    }
    int code = r->size > 1 ? check_device(o, args) : CLI_OK;
    if (code == CLI_OK) code = ranks_join(r, &o->session);
    o->session.group = r->group;
    if (r->group) o->session.device_index += r->local;
    if (code == CLI_OK) code = trainer_open(&t, o, args, r);
    if (code == CLI_OK) code = trainer_run(&t);
    trainer_close(&t);
    ranks_leave(r);
    return code;
}

int command_train(int argc, char **argv)
{
    train_request o = {.rate = {.rate = 1e-3}, .seed = -1, .keep = 3};
    ranks r = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    const char *value;
    int code = CLI_OK, option;
    while (code == CLI_OK && (option = cli_next(&args, &value)) != CLI_END) {
        if (option == CLI_ERROR) code = CLI_USAGE;
        if (option == OPT_HELP) {
            help();
            goto done;
        }
        if (code == CLI_OK) code = read_option(&o, &args, option, value);
    }
    if (code == CLI_OK) code = check_request(&o, &args);
    if (code == CLI_OK && !o.gpus) code = ranks_find_launcher(&r, tool);
    if (code == CLI_OK && (o.gpus < 2 || ranks_start(&r, (int32_t)o.gpus, tool, &code))) code = train(&o, &args, &r);
done:
    session_options_free(&o.session);
    cli_list_free(&o.data);
    cli_list_free(&o.validation);
    cli_list_free(&o.scales);
    return code;
}
