/* Recognises a handwritten digit with a model that is part of the program: no file is read, and nothing is copied. */
#include <stdio.h>

#include <hypatia/runtime.h>

#include "digits_plan.h" /* made by hypatia_add_model: CMakeLists.txt */

enum { PIXELS = 64, DIGITS = 10 };

/* Of 16. */
static const unsigned char three[PIXELS] = {
     0,  2, 10, 14, 11,  1,  0,  0, //
     0,  7, 15,  8, 16,  4,  0,  0, //
     0,  1,  1,  6, 15,  1,  0,  0, //
     0,  0,  0, 15,  9,  0,  0,  0, //
     0,  0,  1, 16, 15,  9,  1,  0, //
     0,  0,  0,  1,  6, 15,  8,  0, //
     0,  2,  8,  4,  6, 15,  7,  0, //
     0,  2, 13, 16, 15,  9,  0,  0, //
};

static int most_likely(const float *probabilities)
{
    int best = 0;
    for (int i = 1; i < DIGITS; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return best;
}

int main(void)
{
    float image[PIXELS], probabilities[DIGITS];
    for (int i = 0; i < PIXELS; i++) image[i] = (float)three[i] / 16;
    hyp_tensor in = {.data = image, .bytes = sizeof image, .dtype = HYP_F32, .rank = 2, .dims = {1, PIXELS}};
    hyp_tensor out = {.data = probabilities, .bytes = sizeof probabilities, .dtype = HYP_F32};
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    hyp_status status = hyp_engine_load_memory(digits_plan, digits_plan_size, NULL, &engine, &diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, &diag);
    if (status == HYP_OK) status = hyp_context_run(context, &in, 1, &out, 1, &diag);
    if (status == HYP_OK) {
        int digit = most_likely(probabilities);
        printf("%d, for %.0f %% sure\n", digit, 100 * probabilities[digit]);
    } else {
        fprintf(stderr, "embedded: %s\n", diag.message);
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return status != HYP_OK;
}
