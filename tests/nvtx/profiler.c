/* A stand-in for NVIDIA's profilers: what NVTX loads where NVTX_INJECTION64_PATH says. Each range is a line in the file
 * that NVTX_LOG names, indented by how deep it lies: "> name" where it begins, "<" where it ends.
 *
 * Source: nvtx3/nvToolsExt.h, nvtxTypes.h ("injection"). */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *to;
static int depth;

static int push(const char *name) {
    fprintf(to, "%*s> %s\n", 2 * depth, "", name);
    return depth++;
}
static int pop(void) {
    fprintf(to, "%*s<\n", 2 * --depth, "");
    return depth;
}
static void end(void) {
    fprintf(to, "depth %d at the end\n", depth);
    fclose(to);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned n;
    const char *path = getenv("NVTX_LOG");
    if (!callbacks || !path || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &n)) return 0;
    if (n <= NVTX_CBID_CORE_RangePop || !(to = fopen(path, "w"))) return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    atexit(end);
    return 1;
}
