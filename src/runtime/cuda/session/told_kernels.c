#include "runtime/cuda/session/told_kernels.h"

#include <stdio.h>
#include <string.h>

#include "runtime/core/user_cache.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/ops/pointwise_source.h"

hyp_status hyp_cuda_told_init(hyp_cuda_device *d, hyp_diag *diag)
{
    if (pthread_mutex_init(&d->told.lock, NULL) == 0) return HYP_OK;
    return hyp_fail_memory(diag, sizeof d->told.lock);
}

static void drop(hyp_cuda_told *t)
{
    hyp_free(t->text);
    hyp_free(t->name);
}

void hyp_cuda_told_unload(hyp_cuda_device *d)
{
    for (size_t i = 0; i < d->told.modules.len; i++) d->lib.cuModuleUnload(d->told.modules.data[i]);
    d->told.modules.len = 0;
}

void hyp_cuda_told_dispose(hyp_cuda_device *d)
{
    hyp_cuda_told_kernels *k = &d->told;
    hyp_mem_account *before = hyp_mem_charge(NULL);
    for (size_t i = 0; i < k->list.len; i++) drop(&k->list.data[i]);
    hyp_vec_free(&k->modules);
    hyp_vec_free(&k->list);
    hyp_nvrtc_close(&k->nvrtc);
    hyp_mem_charge(before);
    pthread_mutex_destroy(&k->lock);
}

/* ---- the compiler -------------------------------------------------------------------------------------------- */

static hyp_status open_compiler(hyp_cuda_device *d, const hyp_nvrtc **out, hyp_diag *diag)
{
    hyp_cuda_told_kernels *k = &d->told;
    void *near;
    if (d->sm < HYP_CUDA_GENERATED_SM)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "kernels are generated for compute capability %d.%d or newer",
                        HYP_CUDA_GENERATED_SM / 10, HYP_CUDA_GENERATED_SM % 10);
    memcpy(&near, &d->lib.cublasLtCreate, sizeof near);
    if (!k->nvrtc.handle) HYP_TRY(hyp_nvrtc_open(&k->nvrtc, near, diag));
    *out = &k->nvrtc;
    return HYP_OK;
}

hyp_status hyp_cuda_compiler(hyp_cuda_device *d, const hyp_nvrtc **out, hyp_diag *diag)
{
    pthread_mutex_lock(&d->told.lock);
    hyp_status status = open_compiler(d, out, diag);
    pthread_mutex_unlock(&d->told.lock);
    return status;
}

static void tell(hyp_cuda_device *d, const char *why)
{
    if (!d->told.explained)
        hyp_log_printf(&d->log, "pointwise steps are interpreted, some of them many times slower: %s", why);
    d->told.explained = true;
}

static void tell_of_limit(hyp_cuda_device *d)
{
    char why[128];
    snprintf(why, sizeof why, "an engine compiles at most %d kernels, of %d instructions; 'hypatia tune' compiles any",
             HYP_CUDA_TOLD_MOST, HYP_CUDA_TOLD_INSTRUCTIONS);
    tell(d, why);
}

/* ---- the list ------------------------------------------------------------------------------------------------ */

static hyp_cuda_told *find(hyp_cuda_told_kernels *k, const char *text)
{
    for (size_t i = 0; i < k->list.len; i++)
        if (strcmp(k->list.data[i].text, text) == 0) return &k->list.data[i];
    return NULL;
}

/* The entry for a step, a new one if need be; *out NULL: there are too many. It holds until the next is made. */
static hyp_status entry_of(hyp_cuda_device *d, const hyp_cuda_pw_program *program, hyp_cuda_told **out, hyp_diag *diag)
{
    hyp_cuda_told_kernels *k = &d->told;
    char name[HYP_CUDA_TOLD_NAME];
    hyp_strbuf text = {0};
    hyp_cuda_pw_told_source(program, hyp_cuda_pw_told_width(program, d->multiprocessors), name, &text);
    if (text.failed) {
        hyp_strbuf_dispose(&text);
        return hyp_fail_memory(diag, sizeof name);
    }
    *out = find(k, text.data);
    const hyp_cuda_pw_program *then = program->before.then;
    uint32_t own = program->args.instrs + (then ? then->args.instrs : 0);
    size_t instructions = k->instructions + own;
    bool full = k->list.len >= HYP_CUDA_TOLD_MOST || instructions > HYP_CUDA_TOLD_INSTRUCTIONS;
    hyp_status status = HYP_OK;
    if (!*out && full) tell_of_limit(d);
    if (!*out && !full) {
        hyp_cuda_told t = {.text = hyp_malloc(text.len + 1),
                           .name = hyp_malloc(sizeof name),
                           .instructions = own,
                           .wanted = true,
                           .cell = program->before.parts > 0};
        status = t.text && t.name ? hyp_vec_push(&k->list, diag, t) : hyp_fail_memory(diag, text.len + 1);
        if (status == HYP_OK) {
            memcpy(t.text, text.data, text.len + 1);
            memcpy(t.name, name, sizeof name);
            k->instructions = instructions;
            *out = &k->list.data[k->list.len - 1];
        } else {
            drop(&t);
        }
    }
    hyp_strbuf_dispose(&text);
    return status;
}

/* ---- compiling ----------------------------------------------------------------------------------------------- */

/* Entries from..to of the list that are wanted, as one source. */
static hyp_status write_source(const hyp_cuda_told_kernels *k, size_t from, size_t to, hyp_strbuf *out, hyp_diag *diag)
{
    bool cells = false;
    for (size_t i = from; i < to; i++) cells = cells || (k->list.data[i].wanted && k->list.data[i].cell);
    hyp_cuda_pw_begin_source(cells, out);
    for (size_t i = from; i < to; i++)
        if (k->list.data[i].wanted) hyp_strbuf_puts(out, k->list.data[i].text);
    return out->failed ? hyp_fail_memory(diag, out->len) : HYP_OK;
}

/* Gives the wanted entries their kernels of a module. */
static hyp_status take(hyp_cuda_device *d, const uint8_t *image, size_t bytes, size_t from, size_t to, hyp_diag *diag)
{
    hyp_cuda_told_kernels *k = &d->told;
    CUmodule module;
    HYP_TRY(hyp_vec_reserve(&k->modules, k->modules.len + 1, diag));
    HYP_TRY(hyp_cuda_image_open(&d->lib, image, bytes, &module, diag));
    hyp_status status = HYP_OK;
    for (size_t i = from; i < to && status == HYP_OK; i++) {
        hyp_cuda_told *t = &k->list.data[i];
        if (t->wanted) status = hyp_cuda_image_find(&d->lib, module, t->name, &t->function, diag);
        if (t->wanted && t->cell && status == HYP_OK) status = hyp_cuda_allow_shared(d, t->function, t->name, diag);
    }
    if (status == HYP_OK) {
        k->modules.data[k->modules.len++] = module;
        return HYP_OK;
    }
    for (size_t i = from; i < to; i++)
        if (k->list.data[i].wanted) k->list.data[i].function = NULL;
    d->lib.cuModuleUnload(module);
    return status;
}

/* From the cache, where it is there and good; *out_done says whether. `text` is the device's architecture and the
 * source. */
static hyp_status take_kept(hyp_cuda_device *d, const char *text, size_t from, size_t to, bool *out_done,
                            hyp_diag *diag)
{
    uint8_t *image;
    size_t bytes;
    hyp_diag why = {0};
    *out_done = false;
    HYP_TRY(hyp_user_cache_get(text, &image, &bytes, diag));
    if (!image) return HYP_OK;
    hyp_status status = take(d, image, bytes, from, to, &why);
    hyp_free(image);
    *out_done = status == HYP_OK;
    return status == HYP_OK || status == HYP_ERR_DEVICE ? HYP_OK : hyp_fail(diag, status, "%s", why.message);
}

static hyp_status take_compiled(hyp_cuda_device *d, const char *text, const char *source, size_t from, size_t to,
                                hyp_diag *diag)
{
    const hyp_nvrtc *nvrtc;
    uint8_t *image;
    size_t bytes;
    HYP_TRY(open_compiler(d, &nvrtc, diag));
    double began = hyp_clock_seconds();
    HYP_TRY(hyp_nvrtc_compile(nvrtc, source, d->sm, &image, &bytes, diag));
    hyp_status status = take(d, image, bytes, from, to, diag);
    if (status == HYP_OK) {
        size_t count = 0;
        for (size_t i = from; i < to; i++) count += d->told.list.data[i].wanted;
        hyp_log_printf(&d->log, "kernels compiled for pointwise steps: %zu, in %.2f s", count,
                       hyp_clock_seconds() - began);
        hyp_user_cache_put(text, image, bytes);
    }
    hyp_free(image);
    return status;
}

static hyp_status compile(hyp_cuda_device *d, size_t from, size_t to, hyp_diag *diag)
{
    hyp_strbuf text = {0};
    bool done = false;
    hyp_strbuf_printf(&text, "// sm_%d\n", d->sm);
    size_t source = text.len;
    hyp_status status = write_source(&d->told, from, to, &text, diag);
    if (status == HYP_OK) status = take_kept(d, text.data, from, to, &done, diag);
    if (status == HYP_OK && !done) status = take_compiled(d, text.data, text.data + source, from, to, diag);
    hyp_strbuf_dispose(&text);
    return status;
}

static bool is_refusal(hyp_status status) { return status == HYP_ERR_UNSUPPORTED || status == HYP_ERR_DEVICE; }

/* Where one kernel is in the way of the others, each is a program of its own. */
static hyp_status compile_wanted(hyp_cuda_device *d, hyp_diag *diag)
{
    hyp_cuda_told_kernels *k = &d->told;
    hyp_diag why = {0};
    size_t from = 0, to = k->list.len, count = 0;
    while (from < to && !k->list.data[from].wanted) from++;
    for (size_t i = from; i < to; i++) count += k->list.data[i].wanted;
    if (count == 0) return HYP_OK;
    hyp_status status = compile(d, from, to, &why);
    for (size_t i = from; i < to && is_refusal(status) && count > 1 && k->nvrtc.handle; i++) {
        hyp_diag alone = {0};
        if (!k->list.data[i].wanted) continue;
        hyp_status one = compile(d, i, i + 1, &alone);
        if (one != HYP_OK && !is_refusal(one)) return hyp_fail(diag, one, "%s", alone.message);
    }
    if (is_refusal(status)) tell(d, why.message);
    return status == HYP_OK || is_refusal(status) ? HYP_OK : hyp_fail(diag, status, "%s", why.message);
}

/* Compiles what is wanted. Where that fails, it is forgotten, to be tried again. */
static hyp_status settle(hyp_cuda_device *d, hyp_status status, hyp_diag *diag)
{
    hyp_cuda_told_kernels *k = &d->told;
    size_t kept = 0;
    if (status == HYP_OK) status = compile_wanted(d, diag);
    for (size_t i = 0; i < k->list.len; i++) {
        hyp_cuda_told *t = &k->list.data[i];
        if (status != HYP_OK && t->wanted && !t->function) {
            k->instructions -= t->instructions;
            drop(t);
            continue;
        }
        t->wanted = false;
        k->list.data[kept++] = *t;
    }
    k->list.len = kept;
    return status;
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

void hyp_cuda_told_begin(hyp_cuda_device *d)
{
    pthread_mutex_lock(&d->told.lock);
    d->told.charged = hyp_mem_charge(NULL);
}

hyp_status hyp_cuda_told_want(hyp_cuda_device *d, const hyp_cuda_pw_program *program, hyp_diag *diag)
{
    hyp_cuda_told *unused;
    return entry_of(d, program, &unused, diag);
}

hyp_status hyp_cuda_told_end(hyp_cuda_device *d, hyp_status status, hyp_diag *diag)
{
    status = settle(d, status, diag);
    hyp_mem_charge(d->told.charged);
    pthread_mutex_unlock(&d->told.lock);
    return status;
}

hyp_status hyp_cuda_told_find(hyp_cuda_device *d, const hyp_cuda_pw_program *program, CUfunction *out, hyp_diag *diag)
{
    hyp_cuda_told *entry = NULL;
    *out = NULL;
    hyp_cuda_told_begin(d);
    hyp_status status = entry_of(d, program, &entry, diag);
    size_t at = entry ? (size_t)(entry - d->told.list.data) : 0;
    status = settle(d, status, diag);
    if (status == HYP_OK && entry) *out = d->told.list.data[at].function;
    return hyp_cuda_told_end(d, status, diag);
}
