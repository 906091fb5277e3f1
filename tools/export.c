/* hypatia export - the model behind a training step, with the values of a checkpoint, as ONNX. */
#include <stdlib.h>
#include <string.h>

#include "checkpoints.h"
#include "folders.h"
#include "hypatia.h"
#include "hypatia/compiler.h"
#include "safetensors.h"
#include "signing.h"

enum { OPT_OUTPUT, OPT_MODEL, OPT_SIGNATURE, OPT_HELP };

static const cli_option options[] = {
    [OPT_OUTPUT] = {"output", 'o', "FILE.onnx", "the model"},
    [OPT_MODEL] = {"model", 0, "FILE.onnx", "that the plan was made of, where the plan is without it"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia export";

typedef struct request {
    const char *plan, *checkpoint, *model, *output, *signer;
} request;

static void help(void)
{
    printf("Usage: hypatia export STEP.bin CHECKPOINT -o TRAINED.onnx\n"
           "Writes the model that a plan of 'hypatiac --train' was made of, with the values of a checkpoint of "
           "'hypatia train'.\n"
           "Of a folder the best one is taken, else the newest.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 3 the plan has no model, 5 incompatible plan.\n");
}

static int write_model(const request *r, const safetensors *s)
{
    hyp_diag diag = {0};
    int code = CLI_OK;
    hyp_tensor *tensors = cli_alloc(NULL, s->count, sizeof *tensors);
    size_t made = 0;
    for (; made < s->count && code == CLI_OK; made++) {
        tensors[made] = s->tensors[made];
        if (hyp_tensor_alloc(&tensors[made], &diag) != HYP_OK) {
            code = cli_report(tool, &diag);
            break;
        }
        code = safetensors_read(s, made, &tensors[made], tool);
    }
    if (code == CLI_OK && hyp_model_export(r->plan, r->model, tensors, s->count, r->output, &diag) != HYP_OK)
        code = cli_report(tool, &diag);
    for (size_t i = 0; i < made; i++) hyp_tensor_dispose(&tensors[i]);
    free(tensors);
    return code;
}

static int export_model(const request *r, const cli_args *args)
{
    file_uses uses = {0};
    safetensors s;
    char *path =
        is_folder(r->checkpoint) ? checkpoints_find(r->checkpoint, tool) : cli_copy(r->checkpoint, strlen(r->checkpoint));
    int code = path ? CLI_OK : CLI_FAILED;
    file_uses_add(&uses, "the plan", r->plan, false);
    file_uses_add(&uses, "--require-signature", r->signer, false);
    file_uses_add(&uses, "--model", r->model, false);
    file_uses_add(&uses, "the checkpoint", path, false);
    file_uses_add(&uses, "--output", r->output, true);
    int checked = file_uses_check(&uses, args);
    if (code == CLI_OK) code = checked;
    if (code == CLI_OK) code = signing_require(r->plan, r->signer, tool);
    if (code == CLI_OK) code = safetensors_open(&s, path, tool);
    if (code == CLI_OK) {
        code = write_model(r, &s);
        safetensors_close(&s);
    }
    free(path);
    return code;
}

int command_export(int argc, char **argv)
{
    request r = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    const char *value;
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) switch (option) {
        case CLI_ERROR: return CLI_USAGE;
        case OPT_HELP: help(); return CLI_OK;
        case OPT_OUTPUT: r.output = value; break;
        case OPT_MODEL: r.model = value; break;
        case OPT_SIGNATURE: r.signer = value; break;
        default:
            if (r.checkpoint)
                return cli_usage_error(&args, "a plan and a checkpoint are wanted, and '%s' is one more", value);
            if (r.plan)
                r.checkpoint = value;
            else
                r.plan = value;
        }
    if (!r.checkpoint) return cli_usage_error(&args, "a plan and a checkpoint are wanted");
    if (!r.output) return cli_usage_error(&args, "no output was given: -o TRAINED.onnx");
    return export_model(&r, &args);
}
