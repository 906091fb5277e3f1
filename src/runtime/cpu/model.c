/* model.c - a plan on the CPU: weights that are packed for all contexts of an engine. */
#include <string.h>

#include "base/dtype.h"
#include "runtime/core/custom.h"
#include "runtime/cpu/integers.h"
#include "runtime/cpu/widened.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif

/* ---- packing ----------------------------------------------------------------------------------------------- */

hyp_mem_account *hyp_cpu_packing_begin(hyp_cpu_model *model)
{
    pthread_mutex_lock(&model->packing);
    return hyp_mem_charge(model->account);
}

void hyp_cpu_packing_end(hyp_cpu_model *model, hyp_mem_account *before)
{
    hyp_mem_charge(before);
    pthread_mutex_unlock(&model->packing);
}

/* ---- model ------------------------------------------------------------------------------------------------- */

void hyp_cpu_unload(void *opaque)
{
    hyp_cpu_model *m = opaque;
    if (m->wide) hyp_cpu_unload(m->wide);
    for (size_t i = 0; m->linear && i < m->plan->program->n_steps; i++) hyp_linear_weights_destroy(m->linear[i]);
    hyp_free(m->linear);
    for (size_t i = 0; m->columns && i < m->plan->program->n_steps; i++) hyp_cpu_free_layers(m->columns[i]);
    for (size_t i = 0; m->grouped && i < m->plan->program->n_steps; i++) hyp_block_drop(m->grouped[i]);
    for (size_t i = 0; m->rows && i < m->plan->program->n_steps; i++) hyp_cpu_free_layers(m->rows[i]);
    for (size_t i = 0; m->winograd && i < m->plan->program->n_steps; i++) hyp_cpu_free_layers(m->winograd[i]);
    for (size_t i = 0; m->neighbours && i < m->plan->program->n_steps; i++) hyp_cpu_free_layers(m->neighbours[i]);
    hyp_free(m->columns);
    hyp_free(m->neighbours);
    hyp_free(m->grouped);
    hyp_free(m->rows);
    hyp_free(m->winograd);
    for (size_t i = 0; m->integers && i < m->plan->program->n_steps; i++) hyp_integers_free(m->integers[i]);
    hyp_free(m->integers);
#ifdef HYP_HAVE_ONEDNN
    for (size_t i = 0; m->windows && i < m->plan->program->n_steps; i++) hyp_dnnl_packed_destroy(m->windows[i]);
    hyp_free(m->windows);
    hyp_dnnl_packed_destroy(m->layers);
#endif
    hyp_wide_plan_destroy(m->widens);
    pthread_mutex_destroy(&m->packing);
    hyp_free(m);
}

bool hyp_cpu_has_step(const hyp_cpu_model *m, size_t step)
{
    return m->widens ? m->widens->steps[step] : !m->wide || !m->wide->widens->steps[step];
}

/* Says once what will be slow: products of a type that only the reference kernels have. */
static void warn_of_slow_types(const hyp_cpu_model *m)
{
    const HypPlan__Program *p = m->plan->program;
    bool told[HYP_F8E4M3 + 1] = {[HYP_F32] = true, [HYP_F64] = true, [HYP_F8E4M3] = true, [HYP_I32] = true};
    for (size_t i = 0; i < p->n_steps; i++) {
        const HypPlan__Step *step = p->steps[i];
        bool linear = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR;
        if (!linear && step->kernel_case != HYP_PLAN__STEP__KERNEL_MATMUL) continue;
        hyp_dtype t = hyp_tensor_dtype(p, linear ? step->linear->x : step->matmul->a);
        if (told[t] || !hyp_cpu_has_step(m, i)) continue;
        told[t] = true;
#ifdef HYP_HAVE_ONEDNN
        if (hyp_dnnl_has(m->device->dnnl, t)) continue;
#endif
        hyp_log_printf(&m->device->log,
                       "cpu: products of type %s run on the reference kernels, which are slow: nothing "
                       "faster is there for this processor",
                       hyp_dtype_name(t));
    }
}

/* Packs weights as far as shapes are known: what tuning found in the plan decides here, too. */
static hyp_status load_linear(hyp_cpu_model *m, hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    hyp_tuning known = {0};
    hyp_status status = hyp_tuning_init(&known, m->device->tuning_name, m->plan, diag);
    int64_t *values = hyp_calloc(p->n_dims + 1, sizeof *values);
    if (!values && status == HYP_OK) status = hyp_fail_memory(diag, p->n_dims * sizeof *values);
    for (size_t i = 0; values && i < p->n_dims; i++)
        values[i] = p->dims[i]->kind == HYP_PLAN__DIM__KIND__CONST ? p->dims[i]->value : 1;
    for (uint32_t i = 0; i < p->n_steps && status == HYP_OK; i++)
        if (p->steps[i]->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR && hyp_cpu_has_step(m, i))
            status = hyp_linear_weights_load(m, i, values, &known, diag);
    hyp_free(values);
    hyp_tuning_dispose(&known);
    return status;
}

/* A model with nothing loaded; *out is NULL where memory is out. */
static hyp_status new_model(hyp_cpu_device *device, const hyp_plan *plan, hyp_cpu_model **out, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    *out = NULL;
    hyp_cpu_model *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    *m = (hyp_cpu_model){.device = device, .plan = plan, .account = hyp_mem_charged()};
    if (pthread_mutex_init(&m->packing, NULL) != 0) {
        hyp_free(m);
        return hyp_fail_memory(diag, sizeof m->packing);
    }
    m->linear = hyp_calloc(p->n_steps, sizeof(hyp_linear_weights *));
    m->columns = hyp_calloc(p->n_steps, sizeof(hyp_mlp *));
    m->grouped = hyp_calloc(p->n_steps, sizeof *m->grouped);
    m->rows = hyp_calloc(p->n_steps, sizeof(hyp_mlp *));
    m->winograd = hyp_calloc(p->n_steps, sizeof(hyp_mlp *));
    m->neighbours = hyp_calloc(p->n_steps, sizeof(hyp_mlp *));
    m->integers = hyp_calloc(p->n_steps, sizeof *m->integers);
    bool made = m->linear && m->columns && m->grouped && m->rows && m->winograd && m->neighbours && m->integers;
    hyp_status status = made ? HYP_OK : hyp_fail_memory(diag, p->n_steps * sizeof(hyp_linear_weights *));
#ifdef HYP_HAVE_ONEDNN
    m->windows = hyp_calloc(p->n_steps, sizeof(hyp_dnnl_packed *));
    if (!m->windows && status == HYP_OK) status = hyp_fail_memory(diag, p->n_steps * sizeof(hyp_dnnl_packed *));
#endif
    if (status == HYP_OK)
        *out = m;
    else
        hyp_cpu_unload(m);
    return status;
}

/* The model of the steps in 16 bits that kernels for floats do, if there are any. */
static hyp_status load_wide(hyp_cpu_model *m, hyp_diag *diag)
{
    hyp_wide_plan *plan;
    HYP_TRY(hyp_wide_plan_make(m->device, m->plan, &plan, diag));
    if (!plan) return HYP_OK;
    hyp_status status = new_model(m->device, &plan->plan, &m->wide, diag);
    if (status != HYP_OK) {
        hyp_wide_plan_destroy(plan);
        return status;
    }
    m->wide->widens = plan;
    return load_linear(m->wide, diag);
}

/* Layers are packed once, by us or the library, which both fill blocks up with zeros; what is in 16 bits may be
 * widened. */
size_t hyp_cpu_load_bound(const hyp_plan *plan)
{
    enum { BLOCK = 64 };
    const HypPlan__Program *p = plan->program;
    size_t bytes = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        const HypPlan__Linear *s =
            p->steps[i]->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR ? p->steps[i]->linear : NULL;
        for (size_t l = 0; s && hyp_linear_is_constant(plan, s) && l < s->n_layers; l++) {
            size_t n = (size_t)p->dims[s->layers[l]->n]->value, k = (size_t)p->dims[s->layers[l]->k]->value;
            bytes += (n + BLOCK) / BLOCK * BLOCK * ((k + BLOCK) / BLOCK * BLOCK + 1) * sizeof(float);
        }
    }
    for (size_t t = 0; t < p->n_tensors; t++)
        if (p->tensors[t]->place == HYP_PLAN__PLACE__PLACE_WEIGHT &&
            hyp_dtype_size((hyp_dtype)p->tensors[t]->dtype) == 2)
            bytes += 2 * (size_t)p->tensors[t]->bytes + BLOCK;
    return bytes;
}

hyp_status hyp_cpu_load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    hyp_cpu_model *m;
    HYP_TRY(new_model(device, plan, &m, diag));
#ifdef HYP_HAVE_ONEDNN
    int threads_before = hyp_dnnl_set_threads(m->device->dnnl, 1);
#endif
    cpu_set_t before;
    bool visits = hyp_pool_visit(m->device->pool, &before);
    hyp_status status = hyp_custom_check(plan, false, diag);
    if (status == HYP_OK) status = hyp_reference_check_calls(p, diag);
    if (status == HYP_OK) status = load_wide(m, diag);
    if (status == HYP_OK) status = load_linear(m, diag);
    if (visits) hyp_pool_leave(&before);
    if (status == HYP_OK && !plan->replaced) warn_of_slow_types(m);
    if (status == HYP_OK && !plan->replaced && plan->device && strcmp(plan->device->name, m->device->tuning_name) != 0)
        hyp_log_printf(&m->device->log, "cpu: the plan was tuned on %s, this is %s: it runs as if it were not tuned",
                       plan->device->name, m->device->tuning_name);
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_set_threads(m->device->dnnl, threads_before);
#endif
    if (status == HYP_OK)
        *out_model = m;
    else
        hyp_cpu_unload(m);
    return status;
}
