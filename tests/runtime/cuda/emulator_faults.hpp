// emulator_faults.hpp - calls of the emulated driver that fail as a test wants. Included by emulator.cpp alone.
//
// An error that ends a context is answered to every call after it, until the last user of the context has let it go.
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include <cuda.h>

static std::mutex faults_lock;
static std::string fault_call; // "": none
static int fault_result, fault_after;
static std::atomic<bool> fault_expected, fault_played; // the latter: ever
static std::atomic<int> device_lost; // the error, 0: it is not
static std::atomic<uint64_t> calls_when_lost;

static bool ends_context(int result)
{
    return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_DEVICE_UNAVAILABLE;
}

// Calls that only free things are made in any case.
static bool frees(const char *call)
{
    return strstr(call, "Free") || strstr(call, "Destroy") || strcmp(call, "cuCtxPushCurrent") == 0;
}

// What the call is to answer; every call that can fail asks.
static CUresult fault(const char *call)
{
    if (device_lost) return calls_when_lost += !frees(call), (CUresult)(int)device_lost;
    if (!fault_expected) return CUDA_SUCCESS;
    std::lock_guard<std::mutex> hold(faults_lock);
    if (fault_call != call || --fault_after > 0) return CUDA_SUCCESS;
    fault_expected = false;
    fault_played = true;
    fault_call.clear();
    if (ends_context(fault_result)) device_lost = fault_result;
    return (CUresult)fault_result;
}
#define FAULT(call)                                                                                                    \
    if (CUresult failed = fault(call)) return failed

// For the tests: the n-th call of this function from now on fails with this result. Returns whether the last fault that
// was asked for is still to come, and takes it back then.
extern "C" __attribute__((visibility("default"))) bool emulator_fail(const char *call, int result, int n)
{
    std::lock_guard<std::mutex> hold(faults_lock);
    bool was = fault_expected;
    fault_call = call;
    fault_result = result;
    fault_after = n;
    fault_expected = n > 0;
    return was;
}
// For the tests: calls that were made although the device was lost, other than those that free.
extern "C" __attribute__((visibility("default"))) uint64_t emulator_calls_when_lost(void) { return calls_when_lost; }
