// emulator_nccl.hpp - NCCL for threads and processes of one machine, each of which is a rank with the emulated device. Included by
// emulator.cpp alone.
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/cuda/driver/nccl.h"

#define NCCL extern "C" __attribute__((visibility("default")))

enum { NCCL_MOST = 16, NCCL_PART = 4096 }; // ranks, and elements that are added up at a time

// What ranks of one group share: a file in $TMPDIR, which has its name until all have opened it. It begins as zeros.
struct nccl_group {
    std::atomic<uint64_t> came; // to all meetings so far
    std::atomic<uint64_t> counts[NCCL_MOST];
    double parts[NCCL_MOST][NCCL_PART];
};
struct nccl_comm {
    nccl_group *group;
    size_t rank, size;
    std::atomic<uint64_t> meetings;
};

// Returns when all have come: nobody comes to the next meeting before that, so that their sum says it.
static void nccl_meet_all(nccl_comm *c)
{
    uint64_t wanted = ++c->meetings * c->size;
    c->group->came++;
    for (int n = 0; c->group->came < wanted; n++)
        if (n > 1000) usleep(50);
}

NCCL int ncclGetVersion(int *version) { return *version = is_mode("old nccl") ? 2904 : 22703, 0; }
NCCL const char *ncclGetErrorString(int) { return "as the emulator was told"; }
NCCL int ncclGetUniqueId(hyp_nccl_id *id)
{
    static std::atomic<int> made;
    memset(id, 0, sizeof *id);
    snprintf((char *)id->bytes, sizeof id->bytes, "%d-%lld-%d", (int)getpid(), (long long)time(nullptr), (int)++made);
    return 0;
}
NCCL int ncclCommInitRank(void **comm, int size, hyp_nccl_id id, int rank)
{
    need_context();
    if (fault("ncclCommInitRank")) return 1;
    if (size > NCCL_MOST) give_up("more ranks than the emulator has room for");
    char name[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/hypatia-nccl-%.40s", folder ? folder : "/tmp", (const char *)id.bytes);
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(nccl_group)) != 0) give_up("no memory that processes share");
    void *at = mmap(nullptr, sizeof(nccl_group), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) give_up("no memory that processes share");
    nccl_comm *c = new nccl_comm{(nccl_group *)at, (size_t)rank, (size_t)size, {}};
    nccl_meet_all(c);
    if (rank == 0) unlink(name);
    nccl_meet_all(c);
    *comm = c;
    return 0;
}
NCCL int ncclCommDestroy(void *comm)
{
    need_context();
    nccl_comm *c = (nccl_comm *)comm;
    munmap(c->group, sizeof *c->group);
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

// All come with what they have, part by part, and add up when all are there, in the order of ranks.
static void nccl_meet(nccl_comm *c, const void *from, void *to, size_t count, int type, int reduction)
{
    nccl_group *g = c->group;
    g->counts[c->rank] = count;
    for (size_t at = 0; at < count; at += NCCL_PART) {
        size_t some = count - at < NCCL_PART ? count - at : NCCL_PART;
        for (size_t i = 0; i < some; i++) g->parts[c->rank][i] = nccl_load(type, from, at + i);
        nccl_meet_all(c);
        for (size_t rank = 0; rank < c->size; rank++)
            if (g->counts[rank] != count) give_up("ranks came with different numbers of elements");
        for (size_t i = 0; i < some; i++) {
            double sum = 0;
            for (size_t rank = 0; rank < c->size; rank++) sum += g->parts[rank][i];
            if (is_mode("uneven nccl") && c->rank == 1) sum *= 1.01;
            nccl_store(type, to, at + i, reduction == HYP_NCCL_MEAN ? sum / (double)c->size : sum);
        }
        nccl_meet_all(c); // before anybody writes the next part
    }
}
NCCL int ncclAllReduce(const void *from, void *to, size_t count, int type, int reduction, void *comm, CUstream at)
{
    if (fault("ncclAllReduce")) return 3;
    if (nccl_depth == 0) give_up("a sum outside of a group of calls");
    queue(at, [=] { nccl_meet((nccl_comm *)comm, from, to, count, type, reduction); });
    return 0;
}
