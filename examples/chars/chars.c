/* Writes text with a small character transformer, one character at a time, always the likeliest.
 *
 *   chars PLAN.bin PROMPT LENGTH
 *
 * Shows what a decoder needs: one plan for any number of characters, and the keys and values of what came before, which go
 * out of one call and into the next. chars.onnx was made by train.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/runtime.h"

static const char alphabet[] = "\n abcdefghijklmnopqrstuvwxyz.,"; /* as in train.py */

enum { LAYERS = 2, HEADS = 4, SIZE = 12, CONTEXT = 256, LETTERS = sizeof alphabet - 1 };

/* Keys and values of all layers. Two sets: one goes in, the other comes out. */
typedef struct past {
    float keys[LAYERS * HEADS * CONTEXT * SIZE], values[LAYERS * HEADS * CONTEXT * SIZE];
} past;

static void check(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "chars: %s\n", diag->message);
    exit(1);
}

static hyp_tensor past_tensor(const char *name, float *data, size_t bytes, int64_t length)
{
    return (hyp_tensor){.name = name,
                        .data = data,
                        .bytes = bytes,
                        .dtype = HYP_F32,
                        .rank = 5,
                        .dims = {LAYERS, 1, HEADS, length, SIZE}};
}

/* Feeds `count` characters that follow the `length` of the past; returns the likeliest next one. */
static int64_t step(hyp_context *context, int64_t *ids, int64_t count, past *from, past *to, int64_t length)
{
    static float logits[CONTEXT * LETTERS];
    hyp_diag diag = {0};
    hyp_tensor inputs[] = {
        {.name = "ids", .data = ids, .bytes = (size_t)count * sizeof *ids, .dtype = HYP_I64, .rank = 2, .dims = {1, count}},
        past_tensor("past_keys", from->keys, sizeof from->keys, length),
        past_tensor("past_values", from->values, sizeof from->values, length)};
    hyp_tensor outputs[] = {{.name = "logits", .data = logits, .bytes = sizeof logits, .dtype = HYP_F32},
                            past_tensor("keys", to->keys, sizeof to->keys, 0),
                            past_tensor("values", to->values, sizeof to->values, 0)};
    check(hyp_context_run(context, inputs, 3, outputs, 3, &diag), &diag);
    const float *last = logits + (count - 1) * LETTERS;
    int64_t best = 0;
    for (int64_t i = 1; i < LETTERS; i++)
        if (last[i] > last[best]) best = i;
    return best;
}

int main(int argc, char **argv)
{
    static past sets[2];
    int64_t ids[CONTEXT], count = 0, length = 0;
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: chars PLAN.bin PROMPT LENGTH\n");
        return 2;
    }
    long wanted = strtol(argv[3], NULL, 10);
    for (const char *c = argv[2]; *c && count < CONTEXT; c++) {
        const char *letter = strchr(alphabet, *c);
        if (!letter) {
            fprintf(stderr, "chars: '%c' is not in the alphabet: small letters, blank, comma, full stop\n", *c);
            return 2;
        }
        ids[count++] = letter - alphabet;
    }
    if (count == 0 || wanted <= count || wanted > CONTEXT) {
        fprintf(stderr, "chars: LENGTH must be above that of the prompt, and at most %d\n", CONTEXT);
        return 2;
    }
    check(hyp_engine_load_file(argv[1], NULL, &engine, &diag), &diag);
    check(hyp_context_create(engine, NULL, &context, &diag), &diag);
    fputs(argv[2], stdout);
    for (int turn = 0; length + count < wanted; turn ^= 1) {
        int64_t next = step(context, ids, count, &sets[turn], &sets[1 - turn], length);
        length += count;
        ids[0] = next;
        count = 1;
        putchar(alphabet[next]);
        fflush(stdout);
    }
    putchar('\n');
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return 0;
}
