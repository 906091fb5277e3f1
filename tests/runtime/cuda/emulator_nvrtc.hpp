// emulator_nvrtc.hpp - an NVRTC whose machine code is a shared object for the host, and its loading. Included by
// emulator.cpp alone. HYP_EMULATOR_CXX is a C++ compiler, HYP_EMULATOR_FOLDER has emulator_generated.hpp.
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

static const generated_halves halves = {
    [](uint16_t bits) { return from_half(bits); }, [](float v) { return half_bits(v); },
    [](double v) { return half_bits(v); }, [](float v) { return bfloat_bits(v); },
    [](double v) { return bfloat_bits(v); }, [](uint8_t code) { return from_byte(code); },
    [](float v) { return to_byte(v); }, [](double v) { return to_byte(v); },
    &blockIdx.x, &threadIdx.x, &blockDim.x, [] { __syncthreads(); }, [] { __syncwarp(); },
    [](float v, int mask) { return __shfl_xor_sync(0, v, mask); }, barrier_init, barrier_arrive, barrier_expect, barrier_wait,
    copy_bulk};

// ---- loading ----------------------------------------------------------------------------------------------

struct generated_module {
    void *handle;
    std::map<std::string, entry> kernels; // those that were asked for
};
static int generated_modules; // that are not unloaded yet

// A file that exists nowhere else, with this content.
static std::string new_file(const char *data, size_t size)
{
    const char *folder = getenv("TMPDIR");
    std::string name = std::string(folder ? folder : "/tmp") + "/hypatia-emulator-XXXXXX";
    int file = mkstemp(&name[0]);
    if (file < 0 || write(file, data, size) != (ssize_t)size) give_up("no temporary file can be written");
    close(file);
    return name;
}

static CUresult load_generated(CUmodule *module, const void *image)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    std::string file = new_file((const char *)image, head->e_shoff + head->e_shnum * (size_t)head->e_shentsize);
    void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(file.c_str());
    if (!handle) return CUDA_ERROR_INVALID_IMAGE;
    *module = (CUmodule) new generated_module{handle, {}};
    std::lock_guard<std::mutex> hold(lock);
    generated_modules++;
    return CUDA_SUCCESS;
}
static CUresult find_generated(CUfunction *function, generated_module *module, const char *name)
{
    generated_kernel *run = (generated_kernel *)dlsym(module->handle, (std::string("emulator_run_") + name).c_str());
    const size_t *args = (const size_t *)dlsym(module->handle, (std::string("emulator_args_") + name).c_str());
    if (!run || !args) return CUDA_ERROR_NOT_FOUND;
    std::lock_guard<std::mutex> hold(lock);
    bool barriers = strncmp(name, "cell_", 5) == 0;
    auto at = module->kernels.emplace(name, entry{nullptr, *args, barriers, nullptr, run}).first;
    at->second.name = at->first.c_str();
    return *function = (CUfunction)&at->second, CUDA_SUCCESS;
}
static void unload_generated(CUmodule module)
{
    std::lock_guard<std::mutex> hold(lock);
    generated_modules--;
    dlclose(((generated_module *)module)->handle);
    delete (generated_module *)module;
}

// For the tests: how many modules of generated kernels there are, how many programs were compiled, and how many kernels
// for a single size and for any ran, and of the latter such as do a layer, too.
static std::atomic<int> compiled, generated_runs, sized_runs, cell_runs;
extern "C" __attribute__((visibility("default"))) int emulator_cell_runs(void) { return cell_runs; }
extern "C" __attribute__((visibility("default"))) int emulator_generated_runs(void) { return generated_runs; }
extern "C" __attribute__((visibility("default"))) int emulator_sized_runs(void) { return sized_runs; }
extern "C" __attribute__((visibility("default"))) int emulator_modules(void)
{
    std::lock_guard<std::mutex> hold(lock);
    return generated_modules;
}
extern "C" __attribute__((visibility("default"))) int emulator_compiled(void) { return compiled; }

// ---- compiling --------------------------------------------------------------------------------------------

#define NVRTC(type) extern "C" __attribute__((visibility("default"))) type

struct nvrtc_program {
    std::string source, log, image;
};
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6 };

static std::string content_of(const std::string &file)
{
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

NVRTC(const char *) nvrtcGetErrorString(int) { return "error of the emulator"; }
NVRTC(int)
nvrtcCreateProgram(nvrtc_program **out, const char *source, const char *, int, const char *const *, const char *const *)
{
    return *out = new nvrtc_program{source, "", ""}, NVRTC_SUCCESS;
}
NVRTC(int) nvrtcDestroyProgram(nvrtc_program **p) { return delete *p, NVRTC_SUCCESS; }
NVRTC(int) nvrtcCompileProgram(nvrtc_program *p, int count, const char *const *options)
{
    if (count != 2 || strcmp(options[0], "--gpu-architecture=sm_90") != 0) give_up("NVRTC got options for another GPU");
    if (is_mode("uncompiled") || (is_mode("uncompiled double") && p->source.find("double x0[") != std::string::npos)) {
        p->log = "pointwise.cu(1): warning: none\npointwise.cu(2): error: as the emulator was told\n1 error detected\n";
        return NVRTC_ERROR_COMPILATION;
    }
    static std::map<std::string, std::string> known; // compiling the same again takes long
    compiled++;
    std::lock_guard<std::mutex> hold(lock);
    if (known.count(p->source)) return p->image = known[p->source], NVRTC_SUCCESS;
    std::string text = "#include \"emulator_generated.hpp\"\n" + p->source;
    const std::regex kernel("__launch_bounds__\\([0-9]+\\)\n(\\w+)\\(const (?:__grid_constant__ )?(\\w+) ");
    for (std::sregex_iterator at(p->source.begin(), p->source.end(), kernel), end; at != end; ++at) {
        const std::string name = (*at)[1], args = (*at)[2];
        text += "extern \"C\" {\nextern const size_t emulator_args_" + name + " = sizeof(" + args +
                ");\nvoid emulator_run_" + name +
                "(const void *args, const generated_halves *given)\n{\n    halves = given;\n    " + name + "(*(const " + args +
                " *)args);\n}\n}\n";
    }
    std::string source = new_file(text.data(), text.size()), object = new_file("", 0), log = new_file("", 0);
    // Without the headers of C++, which take longer than the kernels.
    std::string command = std::string(HYP_EMULATOR_CXX) +
                          " -std=c++17 -nostdinc++ -O1 -w -fPIC -shared -fno-strict-aliasing -I" HYP_EMULATOR_FOLDER " -o " + object +
                          " -x c++ " + source + " > " + log + " 2>&1";
    bool ok = system(command.c_str()) == 0;
    p->log = content_of(log);
    p->image = content_of(object);
    for (const std::string &file : {source, object, log}) unlink(file.c_str());
    if (ok) known[p->source] = p->image;
    return ok ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
NVRTC(int) nvrtcGetProgramLogSize(nvrtc_program *p, size_t *size) { return *size = p->log.size() + 1, NVRTC_SUCCESS; }
NVRTC(int) nvrtcGetProgramLog(nvrtc_program *p, char *log)
{
    return memcpy(log, p->log.c_str(), p->log.size() + 1), NVRTC_SUCCESS;
}
NVRTC(int) nvrtcGetCUBINSize(nvrtc_program *p, size_t *size) { return *size = p->image.size(), NVRTC_SUCCESS; }
NVRTC(int) nvrtcGetCUBIN(nvrtc_program *p, char *image)
{
    return memcpy(image, p->image.data(), p->image.size()), NVRTC_SUCCESS;
}
