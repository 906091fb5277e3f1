/* session.h - a loaded plan with its tensors, and what its steps take: for hypatia's commands and for what hypatiac
 * measures.
 */
#ifndef HYPATIA_TOOLS_SESSION_H
#define HYPATIA_TOOLS_SESSION_H

#include "cli.h"
#include "hypatia/runtime.h"
#include "hypatia/tensor_io.h"
#include "overwrite.h"

/* ---- session.c: a loaded plan and its tensors ----------------------------------------------------------- */

/* What every command that runs a plan is told. */
typedef struct session_options {
    const char *plan, *signer; /* `signer`: file of the public key that the plan has to be signed by; NULL: any or none */
    hyp_device_kind device;
    int32_t device_index, threads;
    int64_t memory_mib; /* of a context, at most; 0 = any */
    bool verbose;
    hyp_group *group; /* borrowed; NULL: this process runs the plan alone */
    cli_list dims;   /* "batch=32" */
    cli_list buckets; /* "batch=16": sizes that are rounded up */
    cli_list inputs; /* "x=@f.npy", "x=random:3", "x=zeros" */
} session_options;
void session_options_free(session_options *o);

/* The first rows of a command's option table, and what reads them. */
enum {
    SESSION_DEVICE,
    SESSION_THREADS,
    SESSION_MEMORY,
    SESSION_SIGNATURE,
    SESSION_BUCKET,
    SESSION_INPUT,
    SESSION_DIM,
    SESSION_VERBOSE,
    SESSION_HELP,
    SESSION_OPTION_COUNT
};
#define SESSION_OPTIONS                                                                                                \
    [SESSION_DEVICE] = {"device", 0, "NAME", "auto (default), cpu, cuda, cuda:N or reference"},                        \
    [SESSION_THREADS] = {"threads", 0, "N", "CPU threads of one run (OMP_NUM_THREADS, else all)"},                     \
    [SESSION_MEMORY] = {"memory-limit", 0, "MIB", "refuse shapes that need more memory"},                              \
    [SESSION_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},         \
    [SESSION_BUCKET] = {"bucket", 0, "NAME=N", "run sizes of a symbolic dimension as the next multiple of N"},         \
    [SESSION_INPUT] = {"input", 'i', "NAME=VALUE", "@FILE (.npy, .bin, .pb), random:SEED or zeros"},                   \
    [SESSION_DIM] = {"dim", 0, "NAME=SIZE", "size of a symbolic dimension, for random and zeros (1)"},                 \
    [SESSION_VERBOSE] = {"verbose", 'v', NULL, "say which device was taken and why"},                                  \
    [SESSION_HELP] = {"help", 'h', NULL, "print this help"}
/* "cpu" and its like; false when there is no such kind of device. A target of the compiler is called as its device is. */
bool session_find_device(const char *name, hyp_device_kind *out);
/* That, or "cuda:1"; out_index is left as it is where the name has none. */
bool session_parse_device(const char *text, hyp_device_kind *out, int32_t *out_index);
/* Takes one of these options or the plan (CLI_POSITIONAL). CLI_OK, or CLI_USAGE after a message. */
int session_read_option(session_options *o, const cli_args *args, int option, const char *value);
/* Reads all arguments of a command: `read` takes an option of the request, CLI_OK to go on, or CLI_USAGE after a message;
 * `o` are the session's options in the request, of which a plan has to be given. False: the command ends here with
 * *out_code, CLI_OK after --help or CLI_USAGE. */
typedef int session_read_fn(void *request, const cli_args *args, int option, const char *value);
bool session_read_arguments(const session_options *o, cli_args *args, session_read_fn *read, void *request,
                            void (*help)(void), int *out_code);
/* Adds what the session reads. */
void session_file_uses(const session_options *o, file_uses *uses);
/* Reads a tolerance; CLI_OK, or CLI_USAGE after a message. */
int read_tolerance(const cli_args *args, const char *value, double *out);

/* An engine with a context; inputs[i] and outputs[i] belong to the plan's input and output i. */
typedef struct session {
    hyp_engine *engine;
    hyp_context *context;
    hyp_tensor *inputs, *outputs;
    size_t input_count, output_count;
} session;

/* These return an exit code after a message. session_close is safe on a zeroed or half-opened session. */
int session_open(session *s, const session_options *o, const char *tool);
void session_close(session *s);
/* Loads the inputs that `o` names, in place of those that there are. The rest become `fallback` ("random:0"), or are listed in an error when it is
 * NULL. A symbolic dim takes its size from --dim, else from a loaded input, else it is 1, which is said on stderr. */
int session_make_inputs(session *s, const session_options *o, const char *fallback, const cli_args *args);
/* Loads input_K.pb of a test_data_set_N folder. */
int session_load_folder(session *s, const char *folder, const char *tool);
/* Allocates the outputs for the inputs' dims. */
int session_make_outputs(session *s, const char *tool);
int session_run(session *s, const char *tool);
/* What an input is declared as, "f32[batch 784]", on stderr. */
void session_print_type(const hyp_io_info *info);

/* ---- steps.c: predicted and measured times -------------------------------------------------------------- */

/* What the steps have to do for the inputs that were run last; NULL after a message. To be freed. */
hyp_step_work_info *step_work(const session *s, const char *tool);

typedef struct step_times {
    hyp_step_work_info *work;
    double *measured; /* seconds by step, medians of several runs */
    double total;
    size_t count;
} step_times;
/* Times the steps of a session with inputs and outputs for about so many seconds, and `least` times at least. An exit code after
 * a message. */
int step_times_measure(step_times *t, session *s, double seconds, size_t least, const char *tool);
void step_times_free(step_times *t);
/* choices.c: how a step is done under the shapes that were run last, and what else was possible, a line for each choice; nothing
 * where there is none. */
void print_choices(FILE *to, const char *indent, const session *s, size_t step);
void print_all_choices(FILE *to, const session *s, const char *tool);
/* "only", "prediction", "tuning", "tuning of a larger size"; "nothing" where nothing can do it. */
const char *choice_by_name(hyp_choice_by by);
/* "exact", "borrowed" or "-". */
const char *step_tuning_name(hyp_step_tuning tuning);
/* A table of all steps that fits the terminal, or, `verbose`, whole. */
void step_times_print(const step_times *t, const session *s, bool verbose);
/* Of all steps together, for the inputs that were run last; 0 where the plan has no predictions. */
double predicted_seconds(const session *s);
/* Of a run: where steps run side by side as much less as the compiler predicts that for typical sizes. */
double predicted_run_seconds(const session *s, double one_by_one);
/* A line with both, and with the sizes that it was scaled from where they are not those of the inputs. */
void print_predicted(const session *s);

#endif
