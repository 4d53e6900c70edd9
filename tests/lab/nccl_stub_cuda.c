/* A CUDA driver, runtime and NVML for machines without a GPU.
 *
 * "Device" memory is host memory, kernels do nothing, streams are always idle. It
 * answers just what NCCL asks, so that the real library walks its own way: checks,
 * bootstrap, topology, channels, sockets, log lines. nccl_patch.py leads NCCL's
 * statically linked runtime calls here; the driver and NVML are found by file name.
 *
 *   STUB_GPUS=8            how many devices this host has
 *   STUB_FAIL=cudaMalloc:2:5   the 5th and later cudaMalloc returns error 2;
 *   STUB_SILENT=1          the NVLinks of this host's GPUs never answer
 *   STUB_FAIL=*:802:1          every call from the first on returns 802
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNSUPPORTED 801
#define NVML_UNSUPPORTED 3
#define SAME(name, as) __typeof__(as) name __attribute__((alias(#as)));
#define OK(signature) int signature { return failure(__func__); }
#define GIVE(signature, assignment) \
    int signature { int code = failure(__func__); if (!code) { assignment; } return code; }

typedef struct { int type, device; void *on_device, *on_host; } PointerFacts;

static __thread int current_device;
static __thread int last_error;
static int calls_seen;
static char stream_or_event[64];

static int gpu_count(void) {
    const char *text = getenv("STUB_GPUS");
    return text ? atoi(text) : 8;
}

/* What this call must return: 0, or what STUB_FAIL says of it. */
static int failure(const char *called) {
    char name[64];
    int code, first;
    const char *rule = getenv("STUB_FAIL");
    if (!rule || sscanf(rule, "%63[^:]:%d:%d", name, &code, &first) != 3) return 0;
    if (name[0] != '*' && strcmp(name, called)) return 0;
    if (__sync_add_and_fetch(&calls_seen, 1) < first) return 0;
    return last_error = code;
}

/* Bus ids as on an eight-GPU server: one PCI switch for each pair. */
static int bus_of(int device) {
    static const int buses[] = {0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd};
    return buses[device % 8];
}

static int device_at(const char *bus_id) {
    unsigned bus;
    if (sscanf(bus_id, "%*x:%x:", &bus) != 1) return -1;
    for (int d = 0; d < gpu_count(); d++) if (bus_of(d) == (int)bus) return d;
    return -1;
}

/* Attributes of an A100: compute capability 8.0, 108 SMs; no virtual memory API. */
static int attribute(int number) {
    switch (number) {
    case 8: return 49152;
    case 10: return 32;
    case 16: return 108;
    case 75: return 8;
    case 76: return 0;
    case 95: return 1;
    case 97: return 166912;
    default: return 0;
    }
}

/* --- CUDA runtime ------------------------------------------------------------- */
GIVE(cudaDriverGetVersion(int *version), *version = 12080)
GIVE(cudaRuntimeGetVersion(int *version), *version = 12080)
GIVE(cudaGetDeviceCount(int *count), *count = gpu_count())
GIVE(cudaGetDevice(int *device), *device = current_device)
GIVE(cudaDeviceGetAttribute(int *value, int number), *value = attribute(number))
GIVE(cudaDeviceCanAccessPeer(int *can), *can = 0)
GIVE(cudaThreadExchangeStreamCaptureMode(int *mode), (void)mode)
GIVE(cudaDeviceGetByPCIBusId(int *device, const char *id), *device = device_at(id))
GIVE(cudaDeviceGetPCIBusId(char *id, int size, int device),
     snprintf(id, size, "0000:%02X:00.0", bus_of(device)))
GIVE(cudaMalloc(void **memory, size_t size), *memory = calloc(1, size))
GIVE(cudaMallocFromPoolAsync(void **memory, size_t size), *memory = calloc(1, size))
GIVE(cudaHostAlloc(void **memory, size_t size), *memory = calloc(1, size))
GIVE(cudaHostGetDevicePointer(void **seen, void *memory), *seen = memory)
OK(cudaFree())
OK(cudaFreeAsync())
OK(cudaFreeHost())
GIVE(cudaMemcpy(void *to, const void *from, size_t n), memcpy(to, from, n))
GIVE(cudaMemcpyAsync(void *to, const void *from, size_t n), memcpy(to, from, n))
GIVE(cudaMemset(void *to, int byte, size_t n), memset(to, byte, n))
GIVE(cudaMemsetAsync(void *to, int byte, size_t n), memset(to, byte, n))
GIVE(cudaStreamCreateWithFlags(void **stream), *stream = stream_or_event)
GIVE(cudaEventCreate(void **event), *event = stream_or_event)
GIVE(cudaEventCreateWithFlags(void **event), *event = stream_or_event)
GIVE(cudaMemPoolCreate(void **pool), *pool = stream_or_event)
GIVE(cudaStreamIsCapturing(void *stream, int *state), (void)stream; *state = 0)
GIVE(cudaStreamGetCaptureInfo_v2(void *stream, int *state), (void)stream; *state = 0)
GIVE(cudaStreamGetCaptureInfo_v3(void *stream, int *state), (void)stream; *state = 0)
GIVE(cudaStreamGetId(void *stream, uint64_t *id), (void)stream; *id = 7)
GIVE(cudaFuncGetAttributes(void *facts), memset(facts, 0, 56))
GIVE(cudaGetDeviceProperties_v2(void *facts), memset(facts, 0, 1024))
GIVE(cudaLaunchHostFunc(void *s, void (*call)(void *), void *data), (void)s; call(data))
GIVE(cudaPointerGetAttributes(PointerFacts *facts, void *memory),
     *facts = ((PointerFacts){2, current_device, memory, memory}))
OK(cudaDeviceEnablePeerAccess())
OK(cudaDeviceSetLimit())
OK(cudaDeviceSynchronize())
OK(cudaEventDestroy())
OK(cudaEventQuery())
OK(cudaEventRecord())
OK(cudaEventSynchronize())
OK(cudaFuncSetAttribute())
OK(cudaHostRegister())
OK(cudaHostUnregister())
OK(cudaLaunchKernel())
OK(cudaLaunchKernelExC())
OK(cudaMemPoolDestroy())
OK(cudaMemPoolSetAttribute())
OK(cudaStreamDestroy())
OK(cudaStreamSynchronize())
OK(cudaStreamWaitEvent())

int cudaSetDevice(int device) {
    if (device < 0 || device >= gpu_count()) return last_error = 101;
    int code = failure(__func__);
    if (!code) current_device = device;
    return code;
}

int cudaGetLastError(void) {
    int code = last_error;
    last_error = 0;
    return code;
}

int cudaGetFuncBySymbol(void **function, const void *symbol) {
    *function = (void *)symbol;
    return 0;
}

/* --- CUDA driver -------------------------------------------------------------- */
int cuInit(void) { return failure(__func__); }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int *v, int number) { *v = attribute(number); return 0; }
int cuDeviceGetCount(int *count) { *count = gpu_count(); return 0; }
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, device, 16); return 0; }
SAME(cuDeviceGetUuid_v2, cuDeviceGetUuid)
int cuCtxGetDevice(int *device) { *device = current_device; return 0; }
int cuCtxGetCurrent(void **context) { *context = stream_or_event; return 0; }
int cuCtxSetCurrent(void) { return 0; }
int cuLaunchKernel(void) { return failure(__func__); }
int cuLaunchKernelEx(void) { return failure(__func__); }
int cuGetErrorString(int code, const char **text) {
    (void)code;
    *text = "operation not supported";
    return 0;
}
static int not_there(void) { return UNSUPPORTED; }

static void *driver_call(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    return found ? found : (void *)not_there;
}

int cuGetProcAddress(const char *name, void **call) {
    *call = driver_call(name);
    return 0;
}

int cudaGetDriverEntryPoint(const char *name, void **call, uint64_t f, int *status) {
    (void)f;
    if (status) *status = 0;
    *call = driver_call(name);
    return 0;
}

/* --- NVML: NCCL asks for the names with and without _v2 ------------------------ */
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = gpu_count(); return 0; }
const char *nvmlErrorString(int code) { return code ? "Not Supported" : "Success"; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(uintptr_t)(index + 1);
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    *device = (void *)(intptr_t)(device_at(id) + 1);
    return 0;
}
int nvmlDeviceGetIndex(void *device, unsigned *index) {
    *index = (uintptr_t)device - 1;
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device;
    *major = attribute(75);
    *minor = attribute(76);
    return 0;
}
int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status) {
    (void)a, (void)b, (void)what;
    *status = 0;
    return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *generation) {
    (void)device;
    *generation = 4;
    return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width) {
    (void)device;
    *width = 16;
    return 0;
}
int nvmlDeviceGetNvLinkState(void) { return NVML_UNSUPPORTED; }
/* NCCL asks this first of a GPU's links, while it detects the topology. */
int nvmlDeviceGetNvLinkCapability(void) {
    while (getenv("STUB_SILENT")) pause();
    return NVML_UNSUPPORTED;
}
SAME(nvmlInit, nvmlInit_v2)
SAME(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)
SAME(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)
SAME(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2)
SAME(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetFieldValues, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetGpuFabricInfoV, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetPciInfo_v3, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetPciInfoExt, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetPcieLinkMaxSpeed, nvmlDeviceGetNvLinkState)
SAME(nvmlDeviceGetPlatformInfo, nvmlDeviceGetNvLinkState)
SAME(nvmlSystemGetConfComputeState, nvmlDeviceGetNvLinkState)
SAME(nvmlSystemGetConfComputeSettings, nvmlDeviceGetNvLinkState)
