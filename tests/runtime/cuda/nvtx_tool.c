/* nvtx_tool.c - a tool for NVTX, as a profiler is one: the library is named by NVTX_INJECTION64_PATH, and remembers the ranges
 * of the program that it is loaded into. */
#include <stdio.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#define EXPORTED __attribute__((visibility("default")))
/* of nvtx3/nvtxDetail/nvtxTypes.h */
EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
EXPORTED const char *nvtx_tool_names(void);
EXPORTED int nvtx_tool_open(void);

static char names[4096];
static int open_ranges;

static int NVTX_API push(const char *name)
{
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used ? "," : "", name);
    return open_ranges++;
}

static int NVTX_API pop(void) { return --open_ranges; }

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

/* The names of all ranges so far, in order. */
const char *nvtx_tool_names(void) { return names; }

/* Ranges that have not ended. */
int nvtx_tool_open(void) { return open_ranges; }
