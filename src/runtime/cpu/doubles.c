/* doubles.c - products in f64, which no library here has: layers and matmuls of models in double, and those of integers
 * that have more terms than floats hold exactly. Sums of integers are exact here in any order.
 */
#include "base/dtype.h"
#include "runtime/cpu/cpu.h"

/* c[m n] = act(a b + bias + before) + after, c dense; a and b by steps between rows and between columns. */
typedef struct product {
    const hyp_cpu_kernels *kernels;
    const double *a, *b, *bias, *before, *after; /* the last three may be NULL */
    double *c, *panels, alpha;
    int64_t m, n, k, a_row, a_column, b_row, b_column;
    HypPlan__Act act;
} product;

static void finish_row(const product *p, const double *sums, int64_t i, int64_t first, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        int64_t at = i * p->n + first + j;
        double sum = p->alpha * sums[j];
        if (p->bias) sum += p->bias[first + j];
        if (p->before) sum += p->before[at];
        if (p->act != HYP_PLAN__ACT__ACT_NONE) sum = hyp_reference_act(p->act, sum);
        p->c[at] = p->after ? sum + p->after[at] : sum;
    }
}

/* Panels of columns from `begin` to `end`. */
static void multiply_part(void *state, int64_t begin, int64_t end, int thread)
{
    const product *p = state;
    int64_t width = p->kernels->width;
    double *panel = p->panels + thread * p->k * width, sums[HYP_DOUBLE_ROWS * HYP_DOUBLE_PANEL];
    for (int64_t first = begin * width; first < p->n && first < end * width; first += width) {
        int64_t columns = p->n - first < width ? p->n - first : width;
        for (int64_t l = 0; l < p->k; l++)
            for (int64_t j = 0; j < width; j++)
                panel[l * width + j] = j < columns ? p->b[l * p->b_row + (first + j) * p->b_column] : 0;
        for (int64_t i = 0; i < p->m; i += HYP_DOUBLE_ROWS) {
            int64_t rows = p->m - i < HYP_DOUBLE_ROWS ? p->m - i : HYP_DOUBLE_ROWS;
            p->kernels->doubles(p->a + i * p->a_row, p->a_row, p->a_column, rows, panel, p->k, sums);
            for (int64_t r = 0; r < rows; r++) finish_row(p, sums + r * width, i + r, first, columns);
        }
    }
}

static void multiply(const hyp_cpu_run *run, product *p)
{
    int64_t width = run->kernels->width;
    int64_t each = p->m > 0 && p->k > INT64_MAX / width / p->m ? INT64_MAX : p->m * p->k * width;
    p->kernels = run->kernels;
    p->panels = run->call.work;
    hyp_cpu_parallel(run, (p->n + width - 1) / width, hyp_cpu_grain(8 * HYP_CPU_COMPUTED, each), multiply_part, p);
}

static hyp_status run_layers(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Linear *s = op->step->linear;
    const double *x = run->call.at[s->x], *added = s->added_plus1 ? run->call.at[s->added_plus1 - 1] : NULL;
    for (size_t l = 0; l < s->n_layers; l++) {
        const HypPlan__Layer *layer = s->layers[l];
        bool last = l + 1 == s->n_layers;
        int64_t n = run->call.values[layer->n], k = run->call.values[layer->k];
        double *y = run->call.at[last ? s->y : layer->hidden_plus1 - 1];
        product p = {.a = x, .b = run->call.at[layer->weight], .c = y, .alpha = 1};
        p.bias = layer->bias_plus1 ? run->call.at[layer->bias_plus1 - 1] : NULL;
        p.before = last && !s->add_after ? added : NULL;
        p.after = last && s->add_after ? added : NULL;
        p.m = run->call.values[s->m], p.n = n, p.k = k;
        p.a_row = k, p.a_column = 1;
        p.b_row = layer->weight_kn ? n : 1, p.b_column = layer->weight_kn ? 1 : k;
        p.act = layer->act;
        multiply(run, &p);
        x = y;
    }
    return HYP_OK;
}

static hyp_status run_matmul(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Matmul *s = op->step->matmul;
    const int64_t *v = run->call.values;
    int64_t m = v[s->m], n = v[s->n], k = v[s->k];
    hyp_walk w;
    hyp_walk_init(&w, v, s->batch, s->n_batch);
    hyp_walk_lane(&w, v, s->a_strides, 0);
    hyp_walk_lane(&w, v, s->b_strides, 0);
    int64_t count = hyp_walk_count(&w);
    for (int64_t i = 0; i < count; i++, hyp_walk_next(&w)) {
        product p = {.a = (const double *)run->call.at[s->a] + w.offset[0],
                     .b = (const double *)run->call.at[s->b] + w.offset[1],
                     .c = (double *)run->call.at[s->y] + i * m * n,
                     .alpha = (double)s->alpha,
                     .m = m,
                     .n = n,
                     .k = k};
        p.a_row = s->trans_a ? 1 : k, p.a_column = s->trans_a ? m : 1;
        p.b_row = s->trans_b ? 1 : n, p.b_column = s->trans_b ? k : 1;
        multiply(run, &p);
    }
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_doubles(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    bool layers = op->step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR;
    int64_t most = layers ? 0 : values[op->step->matmul->k], least = layers ? INT64_MAX : most;
    for (size_t l = 0; layers && l < op->step->linear->n_layers; l++) {
        int64_t k = values[op->step->linear->layers[l]->k];
        most = k > most ? k : most;
        least = k < least ? k : least;
    }
    if (least == 0) return HYP_OK; /* empty operands lie nowhere; the plain kernel reads none */
    size_t each = (size_t)model->device->kernels->width * sizeof(double) * (size_t)model->device->threads;
    if (!hyp_mul_size(each, (size_t)most, &op->work_bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    op->run = layers ? run_layers : run_matmul;
    return HYP_OK;
}
