/* Device profiles as text: (profile NAME (key value...)... (speedup ...)... (measured ...)...). */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/elementwise.h"
#include "rewrite/builtin.h"
#include "rewrite/internal.h"

typedef enum value_kind { SECONDS, RATE, SHARE, BYTES, COUNT, BOOL, ACTS, CALLS, TYPES } value_kind;
static const struct key {
    const char *name;
    value_kind kind;
    size_t offset;
    bool optional; /* 0 when it is left out */
} keys[] = {
    {"threads", COUNT, offsetof(hyp_device_profile, threads), true},
    {"launch-seconds", SECONDS, offsetof(hyp_device_profile, launch_seconds), false},
    {"next-launch-seconds", SECONDS, offsetof(hyp_device_profile, next_launch_seconds), false},
    {"join-seconds", SECONDS, offsetof(hyp_device_profile, join_seconds), true},
    {"bytes-per-second", RATE, offsetof(hyp_device_profile, bytes_per_second), false},
    {"cache-bytes", BYTES, offsetof(hyp_device_profile, cache_bytes), false},
    {"cache-bytes-per-second", RATE, offsetof(hyp_device_profile, cache_bytes_per_second), false},
    {"last-cache-bytes", BYTES, offsetof(hyp_device_profile, last_cache_bytes), true},
    {"last-cache-bytes-per-second", RATE, offsetof(hyp_device_profile, last_cache_bytes_per_second), true},
    {"far-bytes-per-second", RATE, offsetof(hyp_device_profile, far_bytes_per_second), true},
    {"far-launch-seconds", SECONDS, offsetof(hyp_device_profile, far_launch_seconds), true},
    {"hop-seconds", SECONDS, offsetof(hyp_device_profile, hop_seconds), true},
    {"crowding", SHARE, offsetof(hyp_device_profile, crowding), true},
    {"all-reduce-seconds", SECONDS, offsetof(hyp_device_profile, all_reduce_seconds), true},
    {"all-reduce-bytes-per-second", RATE, offsetof(hyp_device_profile, all_reduce_bytes_per_second), true},
    {"flops-f32", RATE, offsetof(hyp_device_profile, flops_f32), false},
    {"flops-tf32", RATE, offsetof(hyp_device_profile, flops_tf32), false},
    {"flops-f16", RATE, offsetof(hyp_device_profile, flops_f16), false},
    {"flops-bf16", RATE, offsetof(hyp_device_profile, flops_bf16), false},
    {"flops-f8", RATE, offsetof(hyp_device_profile, flops_f8), false},
    {"flops-f64", RATE, offsetof(hyp_device_profile, flops_f64), false},
    {"flops-i32", RATE, offsetof(hyp_device_profile, flops_i32), true},
    {"pointwise-per-second", RATE, offsetof(hyp_device_profile, pointwise_per_second), false},
    {"epilogue", ACTS, offsetof(hyp_device_profile, epilogue_acts), false},
    {"epilogue-bf16", ACTS, offsetof(hyp_device_profile, epilogue_acts_bf16), true},
    {"misaligned-products", COUNT, offsetof(hyp_device_profile, misaligned_products), true},
    {"columns-at-once", COUNT, offsetof(hyp_device_profile, columns_at_once), true},
    {"add-after-act", BOOL, offsetof(hyp_device_profile, add_after_act), false},
    {"sums-in-products", SHARE, offsetof(hyp_device_profile, sums_in_products), true},
    {"kernel-calls", CALLS, offsetof(hyp_device_profile, kernel_calls), false},
    {"attention-reads-parts", BOOL, offsetof(hyp_device_profile, attention_reads_parts), false},
    {"images-read-parts", BOOL, offsetof(hyp_device_profile, images_read_parts), true},
    {"attention-in-one-kernel", TYPES, offsetof(hyp_device_profile, attention_types), false},
    {"attention-gradient-in-one-kernel", TYPES, offsetof(hyp_device_profile, attention_gradient_types), true},
    {"attention-gradient-products", COUNT, offsetof(hyp_device_profile, attention_gradient_products), true},
    {"attention-gradient-widest", COUNT, offsetof(hyp_device_profile, attention_gradient_widest), true},
    {"attention-widest", COUNT, offsetof(hyp_device_profile, attention_widest), true},
    {"mlp-in-one-kernel", BOOL, offsetof(hyp_device_profile, mlp_in_one_kernel), false},
    {"depthwise-ends-in-acts", BOOL, offsetof(hyp_device_profile, depthwise_ends_in_acts), true},
    {"one-tap-convs-as-layers", BOOL, offsetof(hyp_device_profile, one_tap_convs_as_layers), true},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys, MOST_MEASURED = 1000 };

/* What no device is beyond, so that sums and ratios of prices are numbers. */
typedef struct range {
    double least, most;
} range;
static const range ranges[] = {[SECONDS] = {HYP_LEAST_SECONDS, HYP_MOST_SECONDS}, [RATE] = {1, 1e30}, [SHARE] = {0, 1e6},
                               [BYTES] = {0, 1e18}, [COUNT] = {1, 1e9}};

static bool is_within(const hyp_sexpr *sx, range in)
{
    bool number = sx->kind == HYP_SX_INT || sx->kind == HYP_SX_FLOAT;
    return number && sx->number >= in.least && sx->number <= in.most;
}

/* The numbers of a form, if all are within these: the first one, and the others. */
static bool read_numbers(const hyp_sexpr *form, range first, range others, double *out)
{
    for (uint32_t i = 1; i < form->count; i++) {
        if (!is_within(form->items[i], i == 1 ? first : others)) return false;
        out[i - 1] = form->items[i]->number;
    }
    return true;
}

const char *hyp_profile_builtin(const char *name)
{
    for (size_t i = 0; i < hyp_builtin_profiles_count; i++)
        if (strcmp(hyp_builtin_profiles[i].name, name) == 0) return hyp_builtin_profiles[i].text;
    return NULL;
}

static const char *builtin_names(hyp_arena *arena)
{
    const char *all = "";
    for (size_t i = 0; all && i < hyp_builtin_profiles_count; i++)
        all = hyp_arena_printf(arena, "%s%s%s", all, i ? ", " : "", hyp_builtin_profiles[i].name);
    return all ? all : "?";
}

int hyp_rw_epilogue_find(const char *name, hyp_op *out)
{
    if (strcmp(name, "leaky-relu") != 0) return hyp_activation_find(name, out);
    *out = HYP_OP_leaky_relu;
    return HYP_ACTS;
}

static hyp_status read_acts(const char *file, const hyp_sexpr *form, uint32_t *out, hyp_diag *diag)
{
    *out = 0;
    for (uint32_t i = 1; i < form->count; i++) {
        const hyp_sexpr *sx = form->items[i];
        hyp_op op;
        int act = sx->kind == HYP_SX_SYMBOL ? hyp_rw_epilogue_find(sx->text, &op) : -1;
        if (act < 0)
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED,
                                  "an activation is wanted:" HYP_ACTIVATION_NAMES " leaky-relu");
        *out |= 1u << act;
    }
    return HYP_OK;
}

static hyp_status read_types(const char *file, const hyp_sexpr *form, uint32_t *out, hyp_diag *diag)
{
    *out = 0;
    for (uint32_t i = 1; i < form->count; i++) {
        const hyp_sexpr *sx = form->items[i];
        hyp_dtype type = sx->kind == HYP_SX_SYMBOL ? hyp_dtype_parse(sx->text) : HYP_DTYPE_NONE;
        if (!hyp_dtype_is_float(type))
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "a type is wanted: f32, f16, bf16 or f64");
        *out |= 1u << type;
    }
    return HYP_OK;
}

/* true: all that there are; false: none; else those named. */
static hyp_status read_calls(const char *file, const hyp_sexpr *form, bool *out, hyp_diag *diag)
{
    bool all = form->count == 2 && hyp_sexpr_is(form->items[1], "true");
    bool none = form->count == 2 && hyp_sexpr_is(form->items[1], "false");
    for (hyp_op op = 0; op < HYP_OP_COUNT; op++) out[op] = all && (hyp_op_get(op)->flags & HYP_OPF_CALL);
    for (uint32_t i = 1; i < form->count && !all && !none; i++) {
        const hyp_sexpr *sx = form->items[i];
        hyp_op op;
        if (sx->kind != HYP_SX_SYMBOL || !hyp_op_find(sx->text, &op) || !(hyp_op_get(op)->flags & HYP_OPF_CALL))
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED,
                                  "true, false or operators with a kernel of their name are wanted (conv, layer-norm, ...)");
        out[op] = true;
    }
    return HYP_OK;
}

static hyp_status read_value(const char *file, const hyp_sexpr *form, const struct key *key, hyp_device_profile *out,
                             hyp_diag *diag)
{
    char *at = (char *)out + key->offset;
    if (key->kind == ACTS) {
        uint32_t acts;
        HYP_TRY(read_acts(file, form, &acts, diag));
        memcpy(at, &acts, sizeof acts);
        return HYP_OK;
    }
    if (key->kind == TYPES) {
        uint32_t types;
        HYP_TRY(read_types(file, form, &types, diag));
        memcpy(at, &types, sizeof types);
        return HYP_OK;
    }
    if (key->kind == CALLS) return read_calls(file, form, (bool *)at, diag);
    if (form->count != 2) return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "%s takes one value", key->name);
    const hyp_sexpr *sx = form->items[1];
    if (key->kind == BOOL) {
        bool yes = hyp_sexpr_is(sx, "true");
        if (!yes && !hyp_sexpr_is(sx, "false"))
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "%s is true or false", key->name);
        memcpy(at, &yes, sizeof yes);
        return HYP_OK;
    }
    const range in = ranges[key->kind];
    if (!is_within(sx, in) || (key->kind == COUNT && sx->kind != HYP_SX_INT))
        return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "%s is a%s number from %g to %g", key->name,
                              key->kind == COUNT ? " whole" : "", in.least, in.most);
    memcpy(at, &sx->number, sizeof sx->number);
    return HYP_OK;
}

static hyp_status read_form(const char *file, const hyp_sexpr *form, bool given[KEY_COUNT], hyp_device_profile *out,
                            hyp_diag *diag)
{
    const char *names[KEY_COUNT + 1] = {0};
    if (form->kind != HYP_SX_LIST || form->count == 0 || form->items[0]->kind != HYP_SX_SYMBOL)
        return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "(key value) is wanted here");
    for (size_t i = 0; i < KEY_COUNT; i++) {
        names[i] = keys[i].name;
        if (!hyp_sexpr_is(form->items[0], keys[i].name)) continue;
        if (given[i]) return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "%s is given twice", keys[i].name);
        given[i] = true;
        return read_value(file, form, &keys[i], out, diag);
    }
    const char *near = hyp_nearest(form->items[0]->text, names);
    return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "a profile has no '%s'%s%s%s", form->items[0]->text,
                          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* (speedup THREADS COMPUTE MEMORY), by rising threads, which are more than those of the profile. */
static hyp_status read_speedups(const char *file, const hyp_sexpr *forms, hyp_device_profile *out, hyp_diag *diag)
{
    size_t count = 0;
    double threads = out->threads;
    for (uint32_t i = 2; i < forms->count; i++) {
        const hyp_sexpr *form = forms->items[i];
        if (!hyp_sexpr_is_form(form, "speedup")) continue;
        double numbers[3] = {0};
        const range all = {1e-6, 1e6};
        bool right = form->count == 4 && form->items[1]->kind == HYP_SX_INT && read_numbers(form, all, all, numbers);
        if (!right || !(numbers[0] > threads))
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED,
                                  "(speedup THREADS COMPUTE MEMORY) is wanted, with more threads than before, %g: how many "
                                  "times as fast they compute and move data, 1e-6 to 1e6",
                                  threads);
        if (count == HYP_SPEEDUPS)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_LIMIT, "a profile has at most %d speedups", HYP_SPEEDUPS);
        threads = numbers[0];
        out->speedups[count++] = (hyp_speedup){numbers[0], numbers[1], numbers[2]};
        out->speedup_count = count; /* in place of those of the profile that this one is like */
    }
    return HYP_OK;
}

/* (away BYTES READING MOVING LAUNCH LAYER), by rising bytes; without the last a layer is as other kernels are. */
static hyp_status read_aways(const char *file, const hyp_sexpr *forms, hyp_device_profile *out, hyp_diag *diag)
{
    size_t count = 0;
    for (uint32_t i = 2; i < forms->count; i++) {
        const hyp_sexpr *form = forms->items[i];
        if (!hyp_sexpr_is_form(form, "away")) continue;
        enum { LEAST = 4, MOST = 5 };
        double numbers[MOST] = {0}; /* in the order of hyp_away */
        bool right = (form->count == 1 + LEAST || form->count == 1 + MOST) &&
                     read_numbers(form, (range){1, 1e15}, (range){0, HYP_MOST_SECONDS}, numbers);
        if (!right || !(numbers[0] > (count ? out->aways[count - 1].bytes : 0)))
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED,
                                  "(away BYTES READING MOVING LAUNCH LAYER) is wanted, with more bytes than before: seconds for "
                                  "a byte of weights, seconds more for a byte of other data, for a kernel and for a layer "
                                  "that were touched so many bytes ago");
        if (count == HYP_AWAYS)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_LIMIT, "a profile has at most %d entries (away ...)", HYP_AWAYS);
        bool apart = form->count == 1 + MOST;
        if (count > 0 && apart != out->layers_apart)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED,
                                  "this entry (away ...) is with%s LAYER and those before are with%s it: between the two a layer "
                                  "would have no price; say LAYER in all of them, or in none",
                                  apart ? "" : "out", apart ? "out" : "");
        out->aways[count++] = (hyp_away){numbers[0], numbers[1], numbers[2], numbers[3], numbers[apart ? 4 : 3]};
        out->away_count = count; /* in place of those of the profile that this one is like */
        out->layers_apart = apart;
    }
    return HYP_OK;
}

/* (aged SECONDS MOVING WINDOWS), by rising seconds. */
static hyp_status read_ages(const char *file, const hyp_sexpr *forms, hyp_device_profile *out, hyp_diag *diag)
{
    size_t count = 0;
    for (uint32_t i = 2; i < forms->count; i++) {
        const hyp_sexpr *form = forms->items[i];
        if (!hyp_sexpr_is_form(form, "aged")) continue;
        double numbers[3] = {0}; /* in the order of hyp_age */
        const range any = {0, 1e15};
        bool right = form->count == 4 && read_numbers(form, any, any, numbers);
        if (!right || !(numbers[0] > (count ? out->ages[count - 1].seconds : 0)))
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED,
                                  "(aged SECONDS MOVING WINDOWS) is wanted, with more seconds than before: seconds more for a byte "
                                  "of data that was touched so many seconds ago, and where convolutions and pools move it");
        if (count == HYP_AGES)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_LIMIT, "a profile has at most %d entries (aged ...)", HYP_AGES);
        out->ages[count++] = (hyp_age){numbers[0], numbers[1], numbers[2]};
        out->age_count = count; /* in place of those of the profile that this one is like */
    }
    return HYP_OK;
}

/* The entries of a kind, (measured ...) or (share ...), among the forms. */
static hyp_status read_entries(hyp_arena *arena, const char *file, const hyp_sexpr *forms, const char *kind,
                               hyp_measured **out, size_t *out_count, hyp_diag *diag)
{
    hyp_measured *list = hyp_arena_zalloc(arena, forms->count, sizeof *list);
    size_t count = 0;
    if (!list) return hyp_fail_memory(diag, forms->count * sizeof *list);
    for (uint32_t i = 2; i < forms->count; i++) {
        const hyp_sexpr *form = forms->items[i];
        if (!hyp_sexpr_is_form(form, kind)) continue;
        if (count == MOST_MEASURED)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_LIMIT, "a profile has at most %d measurements of a kind",
                                   MOST_MEASURED);
        HYP_TRY(hyp_measured_read(file, form, &list[count], diag));
        for (size_t k = 0; k < count; k++)
            if (hyp_measured_same(&list[k], &list[count]))
                return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "this was measured twice");
        count++;
    }
    *out = list;
    *out_count = count;
    return HYP_OK;
}

/* What kernels took, and how that compares to what the keys say. */
static hyp_status read_measured(hyp_arena *arena, const char *file, const hyp_sexpr *forms, hyp_device_profile *out,
                                hyp_diag *diag)
{
    hyp_measured *list;
    size_t count;
    out->measured_count = 0;
    HYP_TRY(read_entries(arena, file, forms, "measured", &list, &count, diag));
    for (size_t i = 0; i < count; i++) hyp_measured_compare(out, &list[i]);
    out->measured = list;
    out->measured_count = count;
    return HYP_OK;
}

/* Which shares of the device kernels take; those of the profile that this one is like, where it has none. */
static hyp_status read_shares(hyp_arena *arena, const char *file, const hyp_sexpr *forms, hyp_device_profile *out,
                              hyp_diag *diag)
{
    hyp_measured *list;
    size_t count;
    HYP_TRY(read_entries(arena, file, forms, "share", &list, &count, diag));
    for (size_t i = 0; i < count; i++) list[i].log_ratio = log(list[i].seconds);
    if (count == 0) return HYP_OK;
    out->shares = list;
    out->share_count = count;
    return HYP_OK;
}

/* Starts from the built-in profile that a form (like NAME) names; *found says whether there is one. */
static hyp_status read_base(hyp_arena *arena, const char *file, const hyp_sexpr *forms, hyp_device_profile *out,
                            bool *found, hyp_diag *diag)
{
    *found = false;
    for (uint32_t i = 2; i < forms->count; i++) {
        const hyp_sexpr *form = forms->items[i];
        if (!hyp_sexpr_is_form(form, "like")) continue;
        bool named = form->count == 2 && form->items[1]->kind == HYP_SX_SYMBOL;
        const char *name = named ? form->items[1]->text : "", *text = hyp_profile_builtin(name);
        if (!text || *found)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED,
                                  "(like NAME) is wanted once, with the name of a built-in profile: %s", builtin_names(arena));
        HYP_TRY(hyp_profile_parse(arena, name, text, strlen(text), out, diag));
        *found = true;
    }
    return HYP_OK;
}

hyp_status hyp_profile_parse(hyp_arena *arena, const char *file, const char *text, size_t len, hyp_device_profile *out,
                             hyp_diag *diag)
{
    const hyp_sexpr *forms;
    bool given[KEY_COUNT] = {0}, based;
    hyp_device_profile profile = {.threads = 1};
    HYP_TRY(hyp_sexpr_parse(arena, file, text, len, &forms, diag));
    const hyp_sexpr *form = forms->count == 1 ? forms->items[0] : NULL;
    if (!form || !hyp_sexpr_is_form(form, "profile") || form->count < 2 || form->items[1]->kind != HYP_SX_SYMBOL)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: a device profile is one form (profile NAME (key value)...)",
                        file);
    HYP_TRY(read_base(arena, file, form, &profile, &based, diag));
    profile.name = form->items[1]->text;
    for (uint32_t i = 2; i < form->count; i++) {
        const hyp_sexpr *entry = form->items[i];
        bool later = hyp_sexpr_is_form(entry, "measured") || hyp_sexpr_is_form(entry, "speedup") ||
                     hyp_sexpr_is_form(entry, "share") || hyp_sexpr_is_form(entry, "away") ||
                     hyp_sexpr_is_form(entry, "aged");
        if (!later && !hyp_sexpr_is_form(entry, "like")) HYP_TRY(read_form(file, entry, given, &profile, diag));
    }
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (!given[i] && !based && !keys[i].optional)
            return hyp_sexpr_fail(diag, file, form, HYP_ERR_MALFORMED, "the profile lacks (%s ...)", keys[i].name);
    HYP_TRY(read_speedups(file, form, &profile, diag));
    HYP_TRY(read_aways(file, form, &profile, diag));
    HYP_TRY(read_ages(file, form, &profile, diag));
    HYP_TRY(read_measured(arena, file, form, &profile, diag));
    HYP_TRY(read_shares(arena, file, form, &profile, diag));
    *out = profile;
    return HYP_OK;
}

/* ---- threads ---------------------------------------------------------------------------------------- */

/* How fast the device is with more threads: between two numbers of them that its profile knows, in proportion. */
static hyp_speedup speedup(const hyp_device_profile *d, double threads)
{
    hyp_speedup low = {d->threads, 1, 1};
    for (size_t i = 0; i < d->speedup_count; i++) {
        hyp_speedup high = d->speedups[i];
        if (high.threads <= threads) {
            low = high;
            continue;
        }
        double part = fmax(0, threads - low.threads) / (high.threads - low.threads);
        return (hyp_speedup){threads, low.compute + part * (high.compute - low.compute),
                             low.memory + part * (high.memory - low.memory)};
    }
    return low;
}

/* Measurements are kept: they are ratios to the profile. */
hyp_device_profile hyp_roofline_with_threads(const hyp_device_profile *d, double threads)
{
    hyp_speedup s = speedup(d, threads);
    hyp_device_profile out = *d;
    out.launch_seconds += d->join_seconds;
    out.next_launch_seconds += d->join_seconds;
    out.bytes_per_second *= s.memory;
    out.cache_bytes *= threads / d->threads; /* each core has its own */
    out.cache_bytes_per_second *= s.compute;
    out.last_cache_bytes_per_second *= s.memory;
    out.pointwise_per_second *= s.compute;
    double *const rates[] = {&out.flops_f32,  &out.flops_tf32, &out.flops_f16,
                             &out.flops_bf16, &out.flops_f8,   &out.flops_f64};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) *rates[i] *= s.compute;
    for (size_t i = 0; i < out.away_count; i++) {
        out.aways[i].reading /= out.aways[i].bytes <= out.cache_bytes ? s.compute : s.memory;
        out.aways[i].moving /= s.memory;
    }
    for (size_t i = 0; i < out.age_count; i++) {
        out.ages[i].moving /= s.memory;
        out.ages[i].windows /= s.memory;
    }
    return out;
}
