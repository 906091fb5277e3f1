// emulator_nccl.hpp - NCCL for threads of one process, each of which is a rank with the one emulated device. Included by
// emulator.cpp alone.
#include <condition_variable>
#include <string>

#include "runtime/cuda/driver/nccl.h"

#define NCCL extern "C" __attribute__((visibility("default")))

// What ranks of one group share. A rank comes to meeting number n when all have left number n - 1.
struct nccl_group {
    std::mutex lock;
    std::condition_variable changed;
    size_t size, joined, came, left, holders;
    uint64_t meeting;
    std::vector<const void *> from; // of the meeting: what each rank has
    std::vector<size_t> counts;
};
struct nccl_comm {
    nccl_group *group;
    size_t rank;
};
static std::map<std::string, nccl_group *> nccl_groups;
static std::mutex nccl_lock;

NCCL int ncclGetVersion(int *version) { return *version = is_mode("old nccl") ? 2904 : 22703, 0; }
NCCL const char *ncclGetErrorString(int) { return "as the emulator was told"; }
NCCL int ncclGetUniqueId(hyp_nccl_id *id)
{
    static std::atomic<uint64_t> made;
    uint64_t number = ++made;
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &number, sizeof number);
    return 0;
}
NCCL int ncclCommInitRank(void **comm, int size, hyp_nccl_id id, int rank)
{
    need_context();
    if (fault("ncclCommInitRank")) return 1;
    std::string name((const char *)id.bytes, sizeof id.bytes);
    nccl_group *g;
    {
        std::lock_guard<std::mutex> hold(nccl_lock);
        g = nccl_groups[name];
        if (!g) g = nccl_groups[name] = new nccl_group{};
        g->size = (size_t)size;
        g->from.resize(g->size);
        g->counts.resize(g->size);
        g->holders++;
    }
    std::unique_lock<std::mutex> hold(g->lock);
    g->joined++;
    g->changed.notify_all();
    g->changed.wait(hold, [&] { return g->joined == g->size; });
    *comm = new nccl_comm{g, (size_t)rank};
    return 0;
}
NCCL int ncclCommDestroy(void *comm)
{
    need_context();
    nccl_comm *c = (nccl_comm *)comm;
    std::lock_guard<std::mutex> hold(nccl_lock);
    if (--c->group->holders == 0) {
        for (auto i = nccl_groups.begin(); i != nccl_groups.end(); i++)
            if (i->second == c->group) {
                nccl_groups.erase(i);
                break;
            }
        delete c->group;
    }
    delete c;
    return 0;
}
static thread_local int nccl_depth;
NCCL int ncclGroupStart() { return nccl_depth++, 0; }
NCCL int ncclGroupEnd()
{
    if (nccl_depth-- <= 0) give_up("ncclGroupEnd without a start");
    return 0;
}

static double nccl_load(int type, const void *at, size_t i)
{
    switch (type) {
    case HYP_NCCL_FLOAT: return ((const float *)at)[i];
    case HYP_NCCL_DOUBLE: return ((const double *)at)[i];
    case HYP_NCCL_HALF: return __half2float(((const __half *)at)[i]);
    default: return __bfloat162float(((const __nv_bfloat16 *)at)[i]);
    }
}
static void nccl_store(int type, void *at, size_t i, double v)
{
    switch (type) {
    case HYP_NCCL_FLOAT: ((float *)at)[i] = (float)v; break;
    case HYP_NCCL_DOUBLE: ((double *)at)[i] = v; break;
    case HYP_NCCL_HALF: ((__half *)at)[i] = __float2half((float)v); break;
    default: ((__nv_bfloat16 *)at)[i] = __float2bfloat16((float)v);
    }
}

// All come with what they have, all add up, and the results are written when nobody reads any more.
static void nccl_meet(const nccl_comm *c, const void *from, void *to, size_t count, int type, int reduction)
{
    nccl_group *g = c->group;
    std::vector<double> sums(count);
    std::unique_lock<std::mutex> hold(g->lock);
    g->changed.wait(hold, [&] { return g->left == 0; });
    uint64_t meeting = g->meeting;
    g->from[c->rank] = from;
    g->counts[c->rank] = count;
    if (++g->came == g->size) {
        g->meeting++;
        g->came = 0;
        g->left = g->size;
        g->changed.notify_all();
    }
    g->changed.wait(hold, [&] { return g->meeting != meeting; });
    for (size_t rank = 0; rank < g->size; rank++) {
        if (g->counts[rank] != count) give_up("ranks came with different numbers of elements");
        for (size_t i = 0; i < count; i++) sums[i] += nccl_load(type, g->from[rank], i);
    }
    if (--g->left == 0) g->changed.notify_all();
    g->changed.wait(hold, [&] { return g->left == 0 || g->meeting != meeting + 1; });
    hold.unlock();
    for (size_t i = 0; i < count; i++)
        nccl_store(type, to, i, reduction == HYP_NCCL_MEAN ? sums[i] / (double)g->size : sums[i]);
}
NCCL int ncclAllReduce(const void *from, void *to, size_t count, int type, int reduction, void *comm, CUstream at)
{
    if (fault("ncclAllReduce")) return 3;
    if (nccl_depth == 0) give_up("a sum outside of a group of calls");
    const nccl_comm c = *(nccl_comm *)comm;
    queue(at, [=] { nccl_meet(&c, from, to, count, type, reduction); });
    return 0;
}
