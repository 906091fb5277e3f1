// emulator_streams.hpp - streams, graphs and events, copies, and page-locked memory, of the emulated device. Included
// by emulator.cpp alone.
#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <cuda.h>

// ---- streams and graphs: work is done at once, unless the stream is captured, or the device is lazy -----------

using work = std::function<void()>;
// Time goes by when work is done: what it takes is made up, and the same on every machine.
static std::atomic<uint64_t> nanoseconds;
// What was captured: every piece of work with those before it that it waits for, by number.
struct node {
    work what;
    std::set<size_t> after;
};
using graph = std::vector<node>;
struct stream {
    bool blocking; // waits for the legacy stream, and that for it
    bool captured;
    CUstreamCaptureMode mode;
    std::thread::id owner; // who captures it
    std::atomic<bool> broken; // by somebody's unsafe call
    stream *origin; // whose capture this one takes part in
    graph nodes;
    std::set<size_t> newest;  // what the next piece of work in this stream waits for
    std::deque<work> waiting; // of a lazy device
};
// Null for the default streams, by any of their handles: they do their work at once.
static stream *stream_of(CUstream at) { return (uintptr_t)at <= (uintptr_t)CU_STREAM_PER_THREAD ? nullptr : (stream *)at; }
static std::set<stream *> streams;
// For the tests: calls that take memory, or something else that lasts, and captures.
static std::atomic<uint64_t> takes, captures;
extern "C" __attribute__((visibility("default"))) uint64_t emulator_takes(void) { return takes; }
extern "C" __attribute__((visibility("default"))) uint64_t emulator_captures(void) { return captures; }
static std::mutex streams_lock;

// While work is done that was queued earlier, memory may have been freed: whoever touches it ends the program, where a test's
// own handler would go on with locks that are held.
struct faults_end {
    struct sigaction before;
    faults_end()
    {
        struct sigaction end = {};
        end.sa_handler = [](int) { give_up("memory that was freed, or never was there, was used"); };
        sigaction(SIGSEGV, &end, &before);
    }
    ~faults_end() { sigaction(SIGSEGV, &before, nullptr); }
};

// What a thread may do while streams are captured. Calls that could have to wait for what is captured, or take memory, break
// captures of the thread, and global ones of all threads; the legacy stream breaks captures that it would wait for.
static thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
DRIVER cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) { return std::swap(*mode, thread_mode), CUDA_SUCCESS; }

static CUresult break_captures(CUresult result, bool (*breaks)(const stream *s))
{
    std::lock_guard<std::mutex> hold(streams_lock);
    bool any = false;
    for (stream *s : streams)
        if (s->captured && breaks(s)) any = s->broken = true;
    return any ? result : CUDA_SUCCESS;
}
static CUresult unsafe()
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    return break_captures(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [](const stream *s) {
        bool others = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && s->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        return others || (s->owner == std::this_thread::get_id() && s->mode != CU_STREAM_CAPTURE_MODE_RELAXED);
    });
}
static CUresult use_legacy()
{
    return break_captures(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, [](const stream *s) { return s->blocking; });
}
// Who waits for the whole device breaks all captures, in whatever mode he is: so does a real one (CUDA 13.0).
static CUresult wait_for_all()
{
    return break_captures(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [](const stream *) { return true; });
}
#define UNSAFE                                                                                                         \
    if (CUresult refused = unsafe()) return refused
#define ON_STREAM(at)                                                                                                  \
    if (CUresult refused = stream_of(at) ? CUDA_SUCCESS : use_legacy()) return refused

static std::recursive_mutex waiting_lock; // several threads may queue work on a stream, and wait for it

static bool finish_one(stream *s)
{
    std::lock_guard<std::recursive_mutex> hold(waiting_lock);
    if (s->waiting.empty() || device_lost) return false;
    work first = s->waiting.front();
    s->waiting.pop_front();
    faults_end guard;
    first();
    return true;
}
static void finish(stream *s)
{
    while (s && finish_one(s)) {
    }
}
static void finish_all()
{
    if (!is_mode("lazy")) return;
    std::lock_guard<std::mutex> hold(streams_lock);
    for (stream *s : streams) finish(s);
}

static void queue(CUstream at, const work &what)
{
    need_context();
    stream *s = stream_of(at);
    if (is_mode("idle")) return;
    if (s && (s->captured || s->origin)) {
        graph &nodes = (s->captured ? s : s->origin)->nodes;
        nodes.push_back({what, s->newest});
        s->newest = {nodes.size() - 1};
    } else if (s && is_mode("lazy")) {
        std::lock_guard<std::recursive_mutex> hold(waiting_lock);
        s->waiting.push_back(what);
    } else
        what();
}
static void no_capture(CUstream at, const char *what)
{
    if (stream_of(at) && stream_of(at)->captured) give_up(what);
}

DRIVER cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int)
{
    FAULT("cuStreamCreateWithPriority");
    std::lock_guard<std::mutex> hold(streams_lock);
    takes++;
    stream *s = new stream{};
    s->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    streams.insert(s);
    return *out = (CUstream)s, CUDA_SUCCESS;
}
DRIVER cuStreamCreate(CUstream *out, unsigned int flags) { return cuStreamCreateWithPriority(out, flags, 0); }
DRIVER cuStreamDestroy(CUstream at)
{
    finish(stream_of(at));
    std::lock_guard<std::mutex> hold(streams_lock);
    streams.erase((stream *)at);
    return delete (stream *)at, fault("cuStreamDestroy");
}
DRIVER cuStreamSynchronize(CUstream at)
{
    FAULT("cuStreamSynchronize");
    UNSAFE;
    ON_STREAM(at);
    no_capture(at, "a stream was waited for while it was captured");
    finish(stream_of(at));
    return CUDA_SUCCESS;
}
DRIVER cuStreamIsCapturing(CUstream at, CUstreamCaptureStatus *status)
{
    stream *s = stream_of(at);
    bool takes_part = s && (s->captured || s->origin);
    return *status = takes_part ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}
// A capture is known by the stream that it began on.
#undef cuStreamGetCaptureInfo // as in library.h
DRIVER cuStreamGetCaptureInfo(CUstream at, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    stream *s = stream_of(at), *of = s && s->captured ? s : s ? s->origin : nullptr;
    *id = (cuuint64_t)(uintptr_t)of;
    return *status = of ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}
DRIVER cuStreamBeginCapture(CUstream at, CUstreamCaptureMode mode)
{
    FAULT("cuStreamBeginCapture");
    need_context();
    if (is_mode("uncaptured")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    no_capture(at, "a stream was captured twice");
    std::lock_guard<std::mutex> hold(streams_lock);
    stream *s = (stream *)at;
    s->mode = mode;
    s->owner = std::this_thread::get_id();
    s->broken = false;
    captures++;
    return s->captured = true, CUDA_SUCCESS;
}
DRIVER cuStreamEndCapture(CUstream at, CUgraph *out)
{
    stream *s = (stream *)at;
    if (!s->captured) give_up("a capture was ended that was not begun");
    std::lock_guard<std::mutex> hold(streams_lock);
    // Everything must have been joined: the stream waits for it, or for something that does.
    std::set<size_t> ended = s->newest;
    for (size_t i = s->nodes.size(); i-- > 0;)
        if (ended.count(i)) ended.insert(s->nodes[i].after.begin(), s->nodes[i].after.end());
    bool joined = ended.size() == s->nodes.size();
    for (stream *other : streams)
        if (other->origin == s) {
            other->origin = nullptr;
            other->newest.clear();
        }
    *out = (CUgraph) new graph;
    ((graph *)*out)->swap(s->nodes);
    s->newest.clear();
    s->captured = false;
    if (s->broken) return delete (graph *)*out, *out = nullptr, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (joined) return CUDA_SUCCESS;
    if (!fault_played) give_up("a capture was ended before a stream that takes part in it came back");
    delete (graph *)*out;
    return *out = nullptr, CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}
static std::mutex graphs_lock;
static size_t graphs; // that are not destroyed yet
DRIVER cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph from, unsigned long long)
{
    FAULT("cuGraphInstantiateWithFlags");
    UNSAFE;
    need_context();
    std::lock_guard<std::mutex> hold(graphs_lock);
    graphs++;
    takes++;
    return *out = (CUgraphExec) new graph(*(graph *)from), CUDA_SUCCESS;
}
// The same work in the same order, of which each piece may be another.
DRIVER cuGraphExecUpdate(CUgraphExec at, CUgraph from, CUgraphExecUpdateResultInfo *)
{
    FAULT("cuGraphExecUpdate");
    need_context();
    const graph &wanted = *(graph *)from;
    graph &nodes = *(graph *)at;
    bool same = wanted.size() == nodes.size();
    for (size_t i = 0; same && i < nodes.size(); i++) same = nodes[i].after == wanted[i].after;
    if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    return nodes = wanted, CUDA_SUCCESS;
}
DRIVER cuGraphUpload(CUgraphExec, CUstream)
{
    FAULT("cuGraphUpload");
    return CUDA_SUCCESS;
}
DRIVER cuGraphDestroy(CUgraph at) { return delete (graph *)at, CUDA_SUCCESS; }
DRIVER cuGraphExecDestroy(CUgraphExec at)
{
    need_context();
    std::lock_guard<std::mutex> hold(graphs_lock);
    graphs--;
    return delete (graph *)at, fault("cuGraphExecDestroy");
}
// Work that does not wait for other work may be done before it: the launches of the process take turns between an order
// in which what was captured last goes first wherever it may, and random ones. On a wide device work that does not wait
// for each other also takes its time together, on a narrow one every beginning of a graph but the first costs some.
// For the tests: how much work of the graph that was launched last could have been done at once.
static std::atomic<uint64_t> widest;
extern "C" __attribute__((visibility("default"))) uint64_t emulator_widest(void) { return widest; }
DRIVER cuGraphLaunch(CUgraphExec exec, CUstream at)
{
    FAULT("cuGraphLaunch");
    static std::atomic<uint64_t> launched;
    uint64_t turn = launched++, state = turn * 0x9e3779b97f4a7c15u + 1;
    const graph &nodes = *(graph *)exec;
    faults_end guard;
    std::vector<size_t> open(nodes.size()), ready;
    std::vector<uint64_t> ends(nodes.size() + 1);
    const uint64_t begins = nanoseconds;
    std::vector<std::vector<size_t>> then(nodes.size());
    for (size_t i = 0; i < nodes.size(); i++) {
        open[i] = nodes[i].after.size();
        for (size_t before : nodes[i].after) then[before].push_back(i);
        if (open[i] == 0) ready.push_back(i);
    }
    widest = 0;
    if (is_mode("narrow") && !ready.empty()) nanoseconds += 10000 * (ready.size() - 1);
    while (!ready.empty()) {
        widest = std::max<uint64_t>(widest, ready.size());
        std::sort(ready.begin(), ready.end());
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t k = turn % 2 == 0 ? ready.size() - 1 : (size_t)((state >> 33) % ready.size()), i = ready[k];
        ready.erase(ready.begin() + (ptrdiff_t)k);
        const uint64_t before = nanoseconds;
        queue(at, nodes[i].what);
        ends[i] += nanoseconds - before;
        ends.back() = std::max(ends.back(), ends[i]);
        for (size_t next : then[i]) {
            ends[next] = std::max(ends[next], ends[i]);
            if (--open[next] == 0) ready.push_back(next);
        }
    }
    if (is_mode("wide")) nanoseconds = begins + ends.back();
    return CUDA_SUCCESS;
}

// One record of an event: what waits for it waits for this one, even if the event is recorded elsewhere meanwhile.
struct record {
    stream *at;
    std::atomic<bool> done;
    uint64_t time;
};
struct event {
    std::shared_ptr<record> last; // null: none yet
    stream *capture; // the stream whose capture that was in; else null
    std::set<size_t> newest; // what is before it then
};
static void await(const std::shared_ptr<record> &r)
{
    while (r && !r->done && finish_one(r->at)) {
    }
}
DRIVER cuEventCreate(CUevent *out, unsigned int) { return takes++, *out = (CUevent) new event{}, CUDA_SUCCESS; }
DRIVER cuEventDestroy(CUevent at) { return delete (event *)at, fault("cuEventDestroy"); }
DRIVER cuEventRecord(CUevent at, CUstream where)
{
    FAULT("cuEventRecord");
    event *e = (event *)at;
    stream *s = stream_of(where);
    e->capture = s && s->captured ? s : s ? s->origin : nullptr;
    if (e->capture) return e->newest = s->newest, CUDA_SUCCESS;
    std::shared_ptr<record> r(new record{s, {false}, 0});
    {
        std::lock_guard<std::recursive_mutex> hold(waiting_lock);
        e->last = r;
    }
    queue(where, [=] {
        r->time = nanoseconds;
        r->done = true;
    });
    return CUDA_SUCCESS;
}
// A stream that waits for one that is captured takes part in the capture until that ends.
DRIVER cuStreamWaitEvent(CUstream at, CUevent what, unsigned int)
{
    FAULT("cuStreamWaitEvent");
    stream *s = stream_of(at);
    event *e = (event *)what;
    if (e->capture) {
        if (!e->capture->captured) give_up("a stream waits for what was captured in a graph that is done");
        if (s->captured ? s != e->capture : s->origin && s->origin != e->capture) give_up("two captures are joined");
        if (!s->captured) s->origin = e->capture;
        s->newest.insert(e->newest.begin(), e->newest.end());
    } else {
        if (s && (s->captured || s->origin)) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        std::shared_ptr<record> r = e->last;
        queue(at, [=] { await(r); });
    }
    return CUDA_SUCCESS;
}
DRIVER cuEventSynchronize(CUevent at)
{
    FAULT("cuEventSynchronize");
    UNSAFE;
    std::lock_guard<std::recursive_mutex> hold(waiting_lock); // also tells the thread sanitizer who waited for whom
    await(((event *)at)->last);
    return CUDA_SUCCESS;
}
#undef cuEventElapsedTime // as in library.h
DRIVER cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop)
{
    return *milliseconds = (float)(((event *)stop)->last->time - ((event *)start)->last->time) * 1e-6f, CUDA_SUCCESS;
}

// For the tests: the graphs that are there.
extern "C" __attribute__((visibility("default"))) size_t emulator_graphs(void)
{
    std::lock_guard<std::mutex> hold(graphs_lock);
    return graphs;
}

// ---- copies -----------------------------------------------------------------------------------------------

static std::map<uintptr_t, size_t> locked; // pages of the host
DRIVER cuMemHostAlloc(void **at, size_t bytes, unsigned int)
{
    FAULT("cuMemHostAlloc");
    UNSAFE;
    std::lock_guard<std::mutex> hold(lock);
    need_context();
    if (is_mode("pageable")) return CUDA_ERROR_OUT_OF_MEMORY;
    takes++;
    *at = calloc(1, bytes);
    locked[(uintptr_t)*at] = bytes;
    return CUDA_SUCCESS;
}
DRIVER cuMemFreeHost(void *at)
{
    UNSAFE;
    finish_all();
    std::lock_guard<std::mutex> hold(lock);
    if (locked.erase((uintptr_t)at) == 0) give_up("page-locked memory was freed that is none");
    return free(at), fault("cuMemFreeHost");
}
// The block of page-locked memory that an address lies in; its size is 0 where there is none.
static std::pair<uintptr_t, size_t> locked_block(const void *at)
{
    std::lock_guard<std::mutex> hold(lock);
    auto after = locked.upper_bound((uintptr_t)at);
    if (after == locked.begin()) return {0, 0};
    auto block = *--after;
    return (uintptr_t)at - block.first < block.second ? std::pair<uintptr_t, size_t>(block)
                                                      : std::pair<uintptr_t, size_t>(0, 0);
}
// For the tests: the device that memory is of from now on, and how often somebody asked.
static std::map<uintptr_t, int> elsewhere;
static std::atomic<uint64_t> asked;
extern "C" __attribute__((visibility("default"))) uint64_t emulator_asked(void) { return asked; }
extern "C" __attribute__((visibility("default"))) void emulator_move(uint64_t at, int device)
{
    std::lock_guard<std::mutex> hold(lock);
    elsewhere[(uintptr_t)at] = device;
}
DRIVER cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr at)
{
    auto block = locked_block((const void *)at);
    std::lock_guard<std::mutex> hold(lock);
    auto after = memory.upper_bound((uintptr_t)at);
    bool ours = after != memory.begin() && (uintptr_t)at - std::prev(after)->first < std::prev(after)->second;
    asked++;
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
            *(unsigned *)values[i] = block.second ? CU_MEMORYTYPE_HOST : ours ? CU_MEMORYTYPE_DEVICE : 0;
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)values[i] = ours && elsewhere.count(std::prev(after)->first) ? elsewhere[std::prev(after)->first] : device_here;
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
            *(unsigned *)values[i] = 0;
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
            *(CUdeviceptr *)values[i] = block.first;
        else
            *(size_t *)values[i] = block.second;
    }
    return CUDA_SUCCESS;
}
DRIVER cuMemHostGetDevicePointer(CUdeviceptr *out, void *at, unsigned int)
{
    return *out = (CUdeviceptr)at, CUDA_SUCCESS;
}

static CUresult copy_bytes(void *to, const void *from, size_t bytes)
{
    need_context();
    memmove(to, from, bytes);
    return CUDA_SUCCESS;
}
DRIVER cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n)
{
    FAULT("cuMemcpyHtoD");
    UNSAFE;
    ON_STREAM((CUstream)0);
    return copy_bytes((void *)to, from, n);
}
DRIVER cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n)
{
    UNSAFE;
    ON_STREAM((CUstream)0);
    return copy_bytes(to, (void *)from, n);
}

// The device reads and writes page-locked memory by itself; other memory is copied before the call returns.
static CUresult copy_async(void *to, const void *from, size_t n, const void *host, CUstream at)
{
    auto block = locked_block(host);
    if (block.second && n > block.second - ((uintptr_t)host - block.first)) return CUDA_ERROR_INVALID_VALUE;
    work copy = [=] { memmove(to, from, n); };
    ON_STREAM(at);
    if (block.second) return queue(at, copy), CUDA_SUCCESS;
    UNSAFE;
    no_capture(at, "a copy from or to memory that is not page-locked was captured");
    finish(stream_of(at));
    return copy(), CUDA_SUCCESS;
}
DRIVER cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream at)
{
    FAULT("cuMemcpyHtoDAsync");
    return copy_async((void *)to, from, n, from, at);
}
DRIVER cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream at)
{
    FAULT("cuMemcpyDtoHAsync");
    return copy_async(to, (void *)from, n, to, at);
}
DRIVER cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream at)
{
    FAULT("cuMemcpyDtoDAsync");
    return queue(at, [=] { memmove((void *)to, (void *)from, n); }), CUDA_SUCCESS;
}
DRIVER cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream at)
{
    FAULT("cuMemsetD8Async");
    return queue(at, [=] { memset((void *)to, value, n); }), CUDA_SUCCESS;
}
