/* gemm.c - products of the caller's matrices by the kernel of layers, for machines without oneDNN: the right operand is
 * packed into panels, then tiles of rows by blocks of panels are done side by side. */
#include "runtime/cpu/cpu.h"

enum { LANES = 16 }; /* floats of the widest vector */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

typedef struct gemm_run {
    const hyp_cpu_gemm *g;
    const hyp_cpu_kernels *kernels;
    const float *a, *b;
    float *panels, *turned, *c; /* turned: a as [m,k], where it is stored the other way round */
    hyp_mlp_layer layer;
    int64_t block, blocks; /* columns that are packed, or done, together; how many */
} gemm_run;

bool hyp_cpu_gemm_floats(const hyp_cpu_gemm *g, size_t *out)
{
    size_t n = (size_t)round_up(g->n, LANES), k = (size_t)g->k, turned = 0;
    return (!g->trans_a || hyp_mul_size((size_t)round_up(g->m, LANES), k, &turned)) && hyp_mul_size(n, k + 1, out) &&
           hyp_add_size(*out, turned, out);
}

static void pack_part(void *state, int64_t begin, int64_t end, int thread)
{
    const gemm_run *r = state;
    const hyp_cpu_gemm *g = r->g;
    int64_t n_step = g->trans_b ? g->b_ld : 1, k_step = g->trans_b ? 1 : g->b_ld;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * r->block, left = g->n - first;
        hyp_cpu_pack_panels(r->kernels, r->b + first * n_step, n_step, k_step, left < r->block ? left : r->block, g->k,
                            r->panels + first * g->k);
    }
}

static void turn_part(void *state, int64_t begin, int64_t end, int thread)
{
    const gemm_run *r = state;
    (void)thread;
    r->kernels->transpose(r->a + begin, r->g->k, end - begin, r->g->a_ld, r->turned + begin * r->g->k, r->g->k);
}

static void tile_part(void *state, int64_t begin, int64_t end, int thread)
{
    const gemm_run *r = state;
    const hyp_cpu_gemm *g = r->g;
    const float *a = r->turned ? r->turned : r->a;
    int64_t a_ld = r->turned ? g->k : g->a_ld, step = r->kernels->block;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / r->blocks * HYP_MLP_ROWS, block = i % r->blocks, left = g->m - row;
        float *c = r->c + row * g->c_ld;
        r->kernels->panels(&r->layer, left < HYP_MLP_ROWS ? left : HYP_MLP_ROWS, a + row * a_ld, a_ld,
                           g->accumulate ? c : NULL, c, g->c_ld, block * step, (block + 1) * step);
    }
}

void hyp_cpu_run_gemm(const hyp_cpu_run *run, const hyp_cpu_gemm *g, const float *a, const float *b, const float *bias,
                      float *c, float *floats)
{
    enum { WORTH = 1 << 18 }; /* multiplications that are worth a thread */
    int64_t room = round_up(g->n, LANES);
    gemm_run r = {.g = g, .kernels = run->kernels, .a = a, .b = b, .c = c, .panels = floats + room};
    r.block = (int64_t)run->kernels->block * run->kernels->panel * run->kernels->width;
    r.blocks = (g->n + r.block - 1) / r.block;
    r.turned = g->trans_a ? floats + room * (g->k + 1) : NULL;
    r.layer = (hyp_mlp_layer){.n = g->n, .k = g->k, .bias = floats, .weights = r.panels};
    r.layer.act = (hyp_block_instr){.op = hyp_plan_act_op(g->act), .to = HYP_F32};
    for (int64_t j = 0; j < room; j++) floats[j] = bias && j < g->n ? bias[j] : 0;
    hyp_cpu_parallel(run, r.blocks, hyp_cpu_grain(HYP_CPU_MOVED, r.block * g->k), pack_part, &r);
    if (r.turned) hyp_cpu_parallel(run, g->m, hyp_cpu_grain(HYP_CPU_MOVED, g->k), turn_part, &r);
    int64_t tiles = (g->m + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS, rows = g->m < HYP_MLP_ROWS ? g->m : HYP_MLP_ROWS;
    hyp_cpu_parallel(run, tiles * r.blocks, hyp_cpu_grain(WORTH, rows * r.block * g->k), tile_part, &r);
}
