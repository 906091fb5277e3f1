/* What hypatia/runtime.hpp promises, on the model that is given: runtime MODEL.onnx. Judged by the reference
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
    need(argc == 2, "usage: runtime MODEL.onnx");
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
