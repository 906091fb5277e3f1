/* random.c - random-uniform, whose blocks the threads share out. */
#include "kernels/random.h"

#include "base/philox.h"
#include "runtime/cpu/cpu.h"

typedef struct random_run {
    const hyp_cpu_kernels *kernels;
    uint64_t seed, number;
    uint32_t stream;
    float *y;
} random_run;

static void random_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const random_run *r = state;
    r->kernels->random(r->seed, r->number, r->stream, (uint32_t)begin, end - begin, r->y + HYP_PHILOX_WORDS * begin);
}

static hyp_status run_random(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { EACH = 64 /* what a block costs, in simple operations on floats */ };
    const HypPlan__Call *call = op->step->call;
    hyp_call_arguments a;
    hyp_reference_arguments(&run->call, call, diag, &a);
    random_run r = {.kernels = run->kernels,
                    .seed = (uint64_t)hyp_array_i64(&a.in[0], 0),
                    .number = (uint64_t)hyp_array_i64(&a.in[1], 0),
                    .stream = (uint32_t)a.call.attrs[1].i,
                    .y = run->call.at[call->outputs[0]]};
    int64_t blocks = a.out[0].count / HYP_PHILOX_WORDS, rest = a.out[0].count % HYP_PHILOX_WORDS;
    hyp_cpu_parallel(run, blocks, hyp_cpu_grain(HYP_CPU_COMPUTED, EACH), random_part, &r);
    float last[HYP_PHILOX_WORDS];
    if (rest) hyp_random_block(r.seed, r.number, r.stream, (uint32_t)blocks, last);
    if (rest) memcpy(r.y + HYP_PHILOX_WORDS * blocks, last, (size_t)rest * sizeof *last);
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_random(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                  hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step, (void)channels_last;
    hyp_call_arguments a;
    hyp_diag unfit; /* of what does not fit: the plain kernel says so */
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, op->step->call,
                            diag, &a);
    a.call.diag = &unfit;
    if (hyp_kernel_random_check(&a.call) == HYP_OK) op->run = run_random;
    return HYP_OK;
}
