/* What hypatia/runtime.hpp promises, on the model that is given, which it writes a plan of: runtime MODEL.onnx PLAN. Judged by the reference
 * interpreter. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "hypatia/onnx.h"
#include "hypatia/runtime.hpp"
#include "hypatia/tensor_io.h"

static size_t allocations;
void *operator new(size_t size)
{
    allocations++;
    if (void *p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, size_t) noexcept { std::free(p); }

static void need(bool ok, const char *what)
{
    if (ok) return;
    std::fprintf(stderr, "runtime.cpp: %s\n", what);
    std::exit(1);
}

template <class F> static hyp_status thrown(F &&call)
{
    try {
        call();
    } catch (const hypatia::error &e) {
        need(e.what()[0] != 0, "an error has no message");
        return e.status();
    }
    return HYP_OK;
}

static_assert(!std::is_copy_constructible_v<hypatia::engine> && !std::is_copy_assignable_v<hypatia::context>);
static_assert(std::is_nothrow_move_constructible_v<hypatia::engine> &&
              std::is_nothrow_move_assignable_v<hypatia::context>);
static_assert(std::is_nothrow_move_assignable_v<hypatia::device_tensor> &&
              !std::is_copy_constructible_v<hypatia::device_tensor>);
static_assert(hypatia::dtype_of<const int64_t>() == HYP_I64 && hypatia::dtype_of<unsigned char>() == HYP_U8);

static hypatia::engine load(const char *model)
{
    hyp_engine_options load{};
    load.size = sizeof load;
    load.device = HYP_DEVICE_CPU;
    load.threads = 1;
    hyp_engine *made = nullptr;
    hyp_diag diag{};
    hyp_status status = hyp_engine_load_onnx(model, nullptr, &load, &made, &diag);
    need(status == HYP_OK, diag.message);
    return hypatia::engine(made);
}

/* The interpreter's result, in double, for the first output. */
static std::vector<double> expected(const char *model, const hyp_tensor &x)
{
    hyp_reference *reference;
    hyp_tensor *outputs;
    size_t count;
    need(hyp_reference_open(model, &reference, nullptr) == HYP_OK, "the model is not read");
    need(hyp_reference_run(reference, true, &x, 1, &outputs, &count, nullptr) == HYP_OK, "the interpreter fails");
    std::vector<double> values;
    for (int64_t i = 0; i < hyp_tensor_elements(&outputs[0]); i++) values.push_back(hyp_tensor_at(&outputs[0], i));
    for (size_t i = 0; i < count; i++) hyp_tensor_dispose(&outputs[i]);
    std::free(outputs);
    hyp_reference_close(reference);
    return values;
}

int main(int argc, char **argv)
{
    need(argc == 3, "usage: runtime MODEL.onnx PLAN");
    hypatia::engine engine = load(argv[1]);
    need(engine.input_count() == 1 && engine.output_count() == 1 && engine.device() == HYP_DEVICE_CPU,
         "another engine");
    const int64_t rows = 3, columns = engine.input(0)->dims[1], classes = engine.output(0)->dims[1];
    std::vector<float> in(size_t(rows * columns)), out(size_t(rows * classes)), again(out.size());
    auto x = hypatia::view(engine.input(0)->name, in.data(), {rows, columns});
    auto y = hypatia::view(engine.output(0)->name, out.data(), {rows, classes});
    hyp_tensor_randomize(&x, 1);
    auto judge = [&](const std::vector<float> &got, const std::vector<double> &want) {
        need(got.size() == want.size(), "another number of results");
        for (size_t i = 0; i < got.size(); i++)
            need(std::fabs(got[i] - want[i]) <= 1e-4 * std::fmax(1, std::fabs(want[i])), "a result is wrong");
    };

    hypatia::context context(engine);
    context.reserve(&x, 1);
    context.run(&x, 1, &y, 1);
    judge(out, expected(argv[1], x));
    auto z = hypatia::view(nullptr, again.data(), {rows, classes});
    context.bind(&x, 1, &z, 1);
    context.run();
    size_t before = allocations;
    for (int i = 0; i < 10; i++) context.run(&x, 1, &y, 1), context.run();
    need(allocations == before, "a run allocates");
    need(again == out && context.bound_output(0)->dims[0] == rows, "what is bound gives something else");

    hyp_tensor shape = hypatia::view(nullptr, nullptr, HYP_F32, {});
    context.output_shapes(&x, 1, &shape, 1);
    need(shape.rank == 2 && shape.dims[0] == rows && shape.dims[1] == classes, "another shape");
    need(engine.memory_bytes() > 0 && context.memory_bytes() >= context.scratch_bytes(), "no memory is counted");
    std::vector<double> seconds(engine.step_count());
    context.time_steps(&x, 1, &y, 1, seconds.data(), seconds.size());
    need(!seconds.empty() && seconds[0] > 0 && context.step_work(0).flops > 0, "a step takes nothing");
    need(engine.step(0).kernel[0] && !engine.step(seconds.size()).kernel, "steps are not told");
    need(thrown([&] { context.step_work(seconds.size()); }) == HYP_ERR_INVALID_ARGUMENT, "a step beyond the last");
    hyp_tensor open = x, size = hypatia::view("batch", nullptr, HYP_F32, {7});
    open.dims[0] = open.dims[1] = -1;
    need(engine.complete_dims(&open, 1, &size, 1) == nullptr && open.dims[0] == 7 && open.dims[1] == columns,
         "dims are not completed");
    need(thrown([&] { engine.find_symbol("bach"); }) == HYP_ERR_INVALID_ARGUMENT, "there is no such symbol");
    const char *saved = argv[2];
    context.save_plan(saved);
    size_t length = 0;
    hypatia::describe_plan(saved, false, [&](const char *, size_t len) { length += len; });
    need(length > 100 && hypatia::plan_memory_needed(saved) > 0, "the saved plan is not described");
    auto ignore = [](const char *, size_t) {};
    hypatia::read_plan_record(saved, ignore);
    need(thrown([&] { hypatia::describe_plan(&length, sizeof length, "no plan", true, ignore); }) == HYP_ERR_MALFORMED,
         "any bytes are a plan");
    hyp_tune_options quick{};
    quick.size = sizeof quick;
    quick.seconds = 0.01;
    hyp_tune_report report = context.tune(&x, 1, &quick);
    need(context.tuned_count() == report.known + report.timed && context.tuning_device(), "tuning is not told");
    context.share_tuning();
    need(!context.adopt_tuning(), "it adopts what it has shared");
    if (context.tuned_count()) context.add_tuned(context.tuned(0));
    hypatia::group::id id = {};
    need(thrown([&] { hypatia::group none(id, 2, 1, 0); }) != HYP_OK, "a rank beyond the group's size");

    hypatia::context moved(std::move(context));
    context = std::move(moved);
    {
        hypatia::engine gone = std::move(engine); /* contexts hold what they need */
    }
    context.run();
    std::thread([&] { context.cancel(); }).join();
    need(thrown([&] { context.run(); }) == HYP_ERR_CANCELLED, "it was not cancelled");
    context.run();
    judge(again, expected(argv[1], x));

    need(thrown([] { hypatia::engine none("no such plan"); }) == HYP_ERR_IO, "a missing plan is no error");
    need(thrown([&] { context.run(&x, 1, nullptr, 0); }) == HYP_ERR_INVALID_ARGUMENT, "a missing output is no error");
    need(thrown([&] {
             hypatia::view("x", in.data(), {INT64_MAX, INT64_MAX});
         }) == HYP_ERR_INVALID_ARGUMENT,
         "too large");

    hypatia::engine other = load(argv[1]);
    hypatia::device_tensor there(other, x), first(other, z);
    there.copy_from(x);
    first = std::move(there);
    auto back = hypatia::view("x", in.data(), {rows, columns});
    first.copy_to(back);
    judge(again, expected(argv[1], x));
    std::puts("runtime.hpp: all well");
    return 0;
}
