/* hypatia/runtime.hpp - the runtime for C++17: engines, contexts and device memory that free themselves. Errors are exceptions.
 *
 *   hypatia::engine engine("plan.bin");
 *   hypatia::context context(engine);
 *   std::array<float, 64> in{}, out{};
 *   auto x = hypatia::view("x", in.data(), {1, 64});
 *   auto y = hypatia::view("y", out.data(), {1, 64});
 *   context.run(&x, 1, &y, 1);
 *
 * Everything is inline over hypatia/runtime.h, whose comments hold: what a call does, who owns what, which thread may call it.
 * Objects move and are not copied; one that was moved from may only be assigned to or destroyed. A run allocates nothing, but
 * for what is thrown. `get` gives the handle. hyp_version and hyp_version_details need nothing around them.
 */
#ifndef HYPATIA_RUNTIME_HPP
#define HYPATIA_RUNTIME_HPP

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "hypatia/runtime.h"

namespace hypatia {

/* A call that failed: what() is the message of its hyp_diag. */
class error : public std::runtime_error {
public:
    error(hyp_status status, const char *message) : std::runtime_error(message), status_(status) {}
    hyp_status status() const noexcept { return status_; }

private:
    hyp_status status_;
};

namespace detail {

/* Calls with a diagnostic, which stays unwritten where all is well. */
template <class F>
void check(F &&call)
{
    hyp_diag diag;
    diag.message[0] = 0;
    hyp_status status = call(&diag);
    if (status != HYP_OK) throw error(status, diag.message[0] ? diag.message : hyp_status_name(status));
}

struct free_engine {
    void operator()(hyp_engine *engine) const noexcept { hyp_engine_destroy(engine); }
};
struct free_context {
    void operator()(hyp_context *context) const noexcept { hyp_context_destroy(context); }
};
struct free_group {
    void operator()(hyp_group *group) const noexcept { hyp_group_leave(group); }
};

template <class F>
void write_through(const char *text, size_t len, void *write)
{
    (*static_cast<F *>(write))(text, len);
}

} // namespace detail

/* The element type of T. Types that C++ has none for are given as they are: view(..., HYP_BF16). */
template <class T>
constexpr hyp_dtype dtype_of()
{
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>) return HYP_F32;
    else if constexpr (std::is_same_v<U, double>) return HYP_F64;
    else if constexpr (std::is_same_v<U, bool>) return HYP_BOOL;
    else {
        static_assert(std::is_integral_v<U>, "no element type: give it by name");
        constexpr bool is_signed = std::is_signed_v<U>;
        if constexpr (sizeof(U) == 1) return is_signed ? HYP_I8 : HYP_U8;
        else if constexpr (sizeof(U) == 2) return is_signed ? HYP_I16 : HYP_U16;
        else if constexpr (sizeof(U) == 4) return is_signed ? HYP_I32 : HYP_U32;
        else return is_signed ? HYP_I64 : HYP_U64;
    }
}

/* A view of memory of the caller, which holds all elements of these dims: an input, or an output with room for as many.
 * Constant memory is for inputs. name NULL: by position. */
inline hyp_tensor view(const char *name, const void *data, hyp_dtype dtype, std::initializer_list<int64_t> dims,
                       hyp_memory memory = HYP_MEMORY_HOST)
{
    hyp_tensor t{};
    if (dims.size() > HYP_MAX_RANK) throw error(HYP_ERR_INVALID_ARGUMENT, "hypatia::view: more than HYP_MAX_RANK dims");
    t.name = name;
    t.data = const_cast<void *>(data);
    t.dtype = dtype;
    t.memory = memory;
    t.bytes = hyp_dtype_size(dtype);
    for (int64_t dim : dims) {
        t.dims[t.rank++] = dim;
        if (dim < 0 || __builtin_mul_overflow(t.bytes, static_cast<size_t>(dim), &t.bytes))
            throw error(HYP_ERR_INVALID_ARGUMENT, "hypatia::view: the dims are no size of memory");
    }
    return t;
}
template <class T>
hyp_tensor view(const char *name, T *data, std::initializer_list<int64_t> dims, hyp_memory memory = HYP_MEMORY_HOST)
{
    return view(name, data, dtype_of<T>(), dims, memory);
}

/* An output in memory of the context: every run sets data, bytes and dims, which hold until the next one. */
inline hyp_tensor output_of_context(const char *name, hyp_dtype dtype)
{
    hyp_tensor t{};
    t.name = name;
    t.dtype = dtype;
    t.memory = HYP_MEMORY_CONTEXT;
    return t;
}

/* hyp_group: the processes that run a plan together. Has to outlive the engines and contexts that it was given to. */
class group {
public:
    using id = unsigned char[HYP_GROUP_ID_BYTES];

    static void make_id(id &out)
    {
        detail::check([&](hyp_diag *diag) { return hyp_group_make_id(out, diag); });
    }
    group(const id &of, int32_t rank, int32_t size, int32_t device_index)
    {
        hyp_group *joined = nullptr;
        detail::check([&](hyp_diag *diag) { return hyp_group_join(of, rank, size, device_index, &joined, diag); });
        handle_.reset(joined);
    }

    hyp_group *get() const noexcept { return handle_.get(); } /* for hyp_engine_options.group */
    int32_t rank() const noexcept { return hyp_group_rank(get()); }
    int32_t size() const noexcept { return hyp_group_size(get()); }

private:
    std::unique_ptr<hyp_group, detail::free_group> handle_;
};

/* Bytes that an engine of this plan would have at most, before it is loaded. */
inline size_t plan_memory_needed(const char *path, const hyp_engine_options *options = nullptr)
{
    size_t bytes = 0;
    detail::check([&](hyp_diag *diag) { return hyp_plan_memory_needed(path, options, &bytes, diag); });
    return bytes;
}

/* Calls write(text, len) with parts of the description of a plan: write throws nothing. */
template <class F>
void describe_plan(const char *path, bool json, F &&write, const hyp_tensor *dims = nullptr, size_t dim_count = 0)
{
    using writer = std::remove_reference_t<F>;
    detail::check([&](hyp_diag *diag) {
        return hyp_plan_describe(path, json, dims, dim_count, detail::write_through<writer>, &write, diag);
    });
}
template <class F>
void describe_plan(const void *data, size_t size, const char *name, bool json, F &&write,
                   const hyp_tensor *dims = nullptr, size_t dim_count = 0)
{
    using writer = std::remove_reference_t<F>;
    detail::check([&](hyp_diag *diag) {
        return hyp_plan_describe_memory(data, size, name, json, dims, dim_count, detail::write_through<writer>, &write,
                                        diag);
    });
}

/* Calls write(text, len) with parts of the record of its compilation that a plan keeps, if it does: write throws nothing. */
template <class F>
void read_plan_record(const char *path, F &&write)
{
    using writer = std::remove_reference_t<F>;
    detail::check([&](hyp_diag *diag) { return hyp_plan_record(path, detail::write_through<writer>, &write, diag); });
}

/* hyp_engine: immutable, shared by threads. */
class engine {
public:
    explicit engine(const char *path, const hyp_engine_options *options = nullptr)
    {
        hyp_engine *made = nullptr;
        detail::check([&](hyp_diag *diag) { return hyp_engine_load_file(path, options, &made, diag); });
        handle_.reset(made);
    }
    /* From memory, which must outlive the engine and its contexts. */
    engine(const void *data, size_t size, const hyp_engine_options *options = nullptr)
    {
        hyp_engine *made = nullptr;
        detail::check([&](hyp_diag *diag) { return hyp_engine_load_memory(data, size, options, &made, diag); });
        handle_.reset(made);
    }
    /* Takes a handle over: that of hyp_engine_load_onnx, say. */
    explicit engine(hyp_engine *handle) noexcept : handle_(handle) {}

    hyp_engine *get() const noexcept { return handle_.get(); }
    size_t input_count() const noexcept { return hyp_engine_input_count(get()); }
    size_t output_count() const noexcept { return hyp_engine_output_count(get()); }
    const hyp_io_info *input(size_t i) const noexcept { return hyp_engine_input(get(), i); }
    const hyp_io_info *output(size_t i) const noexcept { return hyp_engine_output(get(), i); }
    hyp_device_kind device() const noexcept { return hyp_engine_device(get()); }
    const char *device_name() const noexcept { return hyp_engine_device_name(get()); }
    size_t weight_count() const noexcept { return hyp_engine_weight_count(get()); }
    const hyp_io_info *weight(size_t i) const noexcept { return hyp_engine_weight(get(), i); }
    size_t memory_bytes() const noexcept { return hyp_engine_memory_bytes(get()); }
    const char *precision() const noexcept { return hyp_engine_precision(get()); }
    const char *classes() const noexcept { return hyp_engine_classes(get()); }
    /* The public key that the plan says it is signed with; nullptr: it is not signed. */
    const unsigned char *signer() const noexcept { return hyp_engine_signer(get()); }
    uint64_t model_hash() const noexcept { return hyp_engine_model_hash(get()); }
    size_t step_count() const noexcept { return hyp_engine_step_count(get()); }
    hyp_step_info step(size_t i) const noexcept /* all zeros beyond the last: hyp_engine_read_step */
    {
        return hyp_engine_step(get(), i);
    }
    double predicted_seconds() const noexcept { return hyp_engine_predicted_seconds(get()); }
    int64_t typical_size(const char *symbol) const noexcept { return hyp_engine_typical_size(get(), symbol); }
    void find_symbol(const char *name) const /* throws where there is none */
    {
        detail::check([&](hyp_diag *diag) { return hyp_engine_find_symbol(get(), name, diag); });
    }
    /* The first symbolic dim that nothing gives a size; NULL when all are filled in. */
    const char *complete_dims(hyp_tensor *inputs, size_t count, const hyp_tensor *sizes, size_t size_count) const
    {
        const char *missing = nullptr;
        detail::check([&](hyp_diag *diag) {
            return hyp_engine_complete_dims(get(), inputs, count, sizes, size_count, &missing, diag);
        });
        return missing;
    }
    /* Runs that the plan keeps: hyp_engine_read_golden_input, hyp_engine_read_golden_output. */
    size_t golden_count() const noexcept { return hyp_engine_golden_count(get()); }
    hyp_golden_input golden_input(size_t run, size_t i) const noexcept { return hyp_engine_golden_input(get(), run, i); }
    hyp_golden_output golden_output(size_t run, size_t i) const noexcept { return hyp_engine_golden_output(get(), run, i); }
    double golden_tolerance(size_t run, size_t output, size_t i) const noexcept
    {
        return hyp_engine_golden_tolerance(get(), run, output, i);
    }
    size_t variable_count() const noexcept { return hyp_engine_variable_count(get()); }
    const hyp_io_info *variable(size_t i) const noexcept { return hyp_engine_variable(get(), i); }
    void update(const hyp_tensor *tensors, size_t count) /* from any thread */
    {
        detail::check([&](hyp_diag *diag) { return hyp_engine_update(get(), tensors, count, diag); });
    }

private:
    std::unique_ptr<hyp_engine, detail::free_engine> handle_;
};

/* hyp_context: of one thread at a time. It stays usable when its engine is destroyed. */
class context {
public:
    explicit context(const engine &from, const hyp_context_options *options = nullptr)
    {
        hyp_context *made = nullptr;
        detail::check([&](hyp_diag *diag) { return hyp_context_create(from.get(), options, &made, diag); });
        handle_.reset(made);
    }

    hyp_context *get() const noexcept { return handle_.get(); }
    void reserve(const hyp_tensor *inputs, size_t count)
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_reserve(get(), inputs, count, diag); });
    }
    void run(const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs, size_t output_count)
    {
        detail::check([&](hyp_diag *diag) {
            return hyp_context_run(get(), inputs, input_count, outputs, output_count, diag);
        });
    }
    /* On a stream and in an order of the caller's: see hyp_context_run_with. */
    void run(const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs, size_t output_count,
             const hyp_run_options &options)
    {
        detail::check([&](hyp_diag *diag) {
            return hyp_context_run_with(get(), inputs, input_count, outputs, output_count, &options, diag);
        });
    }
    void *stream() noexcept { return hyp_context_stream(get()); } /* CUstream; NULL on a CPU */
    void release_captured() noexcept { hyp_context_release_captured(get()); }
    void bind(const hyp_tensor *inputs, size_t input_count, const hyp_tensor *outputs, size_t output_count)
    {
        detail::check([&](hyp_diag *diag) {
            return hyp_context_bind(get(), inputs, input_count, outputs, output_count, diag);
        });
    }
    void run()
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_run_bound(get(), diag); });
    }
    const hyp_tensor *bound_output(size_t i) const noexcept { return hyp_context_bound_output(get(), i); }
    void synchronize()
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_synchronize(get(), diag); });
    }
    void cancel() noexcept { hyp_context_cancel(get()); } /* from any thread */
    void get_variables(hyp_tensor *tensors, size_t count)
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_variable_get(get(), tensors, count, diag); });
    }
    void set_variables(const hyp_tensor *tensors, size_t count)
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_variable_set(get(), tensors, count, diag); });
    }
    void reset_variables()
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_variables_reset(get(), diag); });
    }
    /* Fills rank and dims of outputs for inputs of these dims. */
    void output_shapes(const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs, size_t output_count)
    {
        detail::check([&](hyp_diag *diag) {
            return hyp_context_output_shapes(get(), inputs, input_count, outputs, output_count, diag);
        });
    }
    /* seconds[i] of step i; the engine has step_count of them. */
    void time_steps(const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs, size_t output_count, double *seconds,
                    size_t step_count)
    {
        detail::check([&](hyp_diag *diag) {
            return hyp_context_time_steps(get(), inputs, input_count, outputs, output_count, seconds, step_count, diag);
        });
    }
    hyp_step_work_info step_work(size_t step)
    {
        hyp_step_work_info info;
        info.size = sizeof info;
        detail::check([&](hyp_diag *diag) { return hyp_context_step_work(get(), step, &info, diag); });
        return info;
    }
    hyp_tune_report tune(const hyp_tensor *inputs, size_t count, const hyp_tune_options *options = nullptr)
    {
        hyp_tune_report report;
        report.size = sizeof report;
        detail::check([&](hyp_diag *diag) { return hyp_context_tune(get(), inputs, count, options, &report, diag); });
        return report;
    }
    const char *tuning_device() const noexcept { return hyp_context_tuning_device(get()); } /* NULL: it tunes nothing */
    size_t tuned_count() const noexcept { return hyp_context_tuned_count(get()); }
    hyp_tuned tuned(size_t i) const noexcept { return hyp_context_tuned(get(), i); } /* hyp_context_read_tuned */
    void add_tuned(const hyp_tuned &tuned)
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_add_tuned(get(), &tuned, diag); });
    }
    void share_tuning()
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_share_tuning(get(), diag); });
    }
    bool adopt_tuning() /* whether there was something new */
    {
        bool is_new = false;
        detail::check([&](hyp_diag *diag) { return hyp_context_adopt_tuning(get(), &is_new, diag); });
        return is_new;
    }
    hyp_step_tuning step_tuning(size_t step) const noexcept { return hyp_context_step_tuning(get(), step); }
    size_t choice_count(size_t step) const noexcept { return hyp_context_choice_count(get(), step); }
    hyp_choice_info choice(size_t step, size_t i) const noexcept /* hyp_context_read_choice */
    {
        return hyp_context_choice(get(), step, i);
    }
    hyp_alternative_info alternative(size_t step, size_t choice, size_t i) const noexcept /* hyp_context_read_alternative */
    {
        return hyp_context_alternative(get(), step, choice, i);
    }
    void save_plan(const char *path) const
    {
        detail::check([&](hyp_diag *diag) { return hyp_context_save_plan(get(), path, diag); });
    }
    size_t memory_bytes() const noexcept { return hyp_context_memory_bytes(get()); }
    size_t scratch_bytes() const noexcept { return hyp_context_scratch_bytes(get()); }
    size_t memory_needed(const hyp_tensor *inputs, size_t count) /* after `reserve`, in bytes */
    {
        size_t bytes = 0;
        detail::check([&](hyp_diag *diag) { return hyp_context_memory_needed(get(), inputs, count, &bytes, diag); });
        return bytes;
    }

private:
    std::unique_ptr<hyp_context, detail::free_context> handle_;
};

/* A tensor in the memory of an engine's device, which must outlive it. */
class device_tensor {
public:
    /* Room for all elements of `like`, whose name, type and dims it takes; not set to anything. */
    device_tensor(const engine &of, const hyp_tensor &like) : engine_(of.get()), tensor_(like)
    {
        detail::check([&](hyp_diag *diag) { return hyp_engine_tensor_alloc(engine_, &tensor_, diag); });
    }
    ~device_tensor() { hyp_engine_tensor_free(engine_, &tensor_); }
    device_tensor(device_tensor &&other) noexcept : engine_(other.engine_), tensor_(other.tensor_)
    {
        other.tensor_.data = nullptr;
    }
    device_tensor &operator=(device_tensor &&other) noexcept
    {
        if (this == &other) return *this;
        hyp_engine_tensor_free(engine_, &tensor_);
        engine_ = other.engine_;
        tensor_ = other.tensor_;
        other.tensor_.data = nullptr;
        return *this;
    }
    device_tensor(const device_tensor &) = delete;
    device_tensor &operator=(const device_tensor &) = delete;

    const hyp_tensor &get() const noexcept { return tensor_; }
    void copy_from(const hyp_tensor &host)
    {
        detail::check([&](hyp_diag *diag) { return hyp_engine_tensor_copy(engine_, &host, &tensor_, diag); });
    }
    void copy_to(hyp_tensor &host) const
    {
        detail::check([&](hyp_diag *diag) { return hyp_engine_tensor_copy(engine_, &tensor_, &host, diag); });
    }

private:
    hyp_engine *engine_;
    hyp_tensor tensor_;
};

} // namespace hypatia

#endif
