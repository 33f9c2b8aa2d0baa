/* NVML for tests: STAND_IN_GPUS devices (2) that do what STAND_IN_… says; nothing computes on them.
   Answers as NVIDIA's reference has them: 0 success, 2 invalid argument, 3 not supported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int code;
typedef void *device;
typedef unsigned long long large;

static large number(const char *name, large otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static code text(char *to, unsigned size, const char *name, const char *otherwise) {
    const char *found = getenv(name);
    snprintf(to, size, "%s", found && *found ? found : otherwise);
    return 0;
}

static large index_of(device given) { return (large)(size_t)given - 1; }

code nvmlInit_v2(void) { return (code)number("STAND_IN_INIT", 0); }
code nvmlInit(void) { return nvmlInit_v2(); }
code nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
code nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(code given) { return given == 3 ? "Not Supported" : "stand-in"; }

code nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)number("STAND_IN_GPUS", 2); return 0; }
code nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }
code nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found) {
    if (index >= number("STAND_IN_GPUS", 2)) return 2;
    *found = (device)(size_t)(index + 1);
    return 0;
}
code nvmlDeviceGetHandleByUUID(const char *uuid, device *found) {
    const char *digits = strrchr(uuid, '-');
    large index = digits ? strtoull(digits + 1, NULL, 10) : 0;
    if (strncmp(uuid, "GPU-", 4) || index < 1 || index > number("STAND_IN_GPUS", 2)) return 2;
    *found = (device)(size_t)index;
    return 0;
}
code nvmlDeviceGetIndex(device of, unsigned *index) { *index = (unsigned)index_of(of); return 0; }
code nvmlDeviceGetName(device of, char *to, unsigned size) {
    (void)of;
    return text(to, size, "STAND_IN_NAME", "Stand-in 80GB");
}
code nvmlDeviceGetUUID(device of, char *to, unsigned size) {
    snprintf(to, size, "GPU-00000000-0000-0000-0000-%012llu", index_of(of) + 1);
    return 0;
}
code nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "STAND_IN_DRIVER", "580.00"); }
code nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }

typedef struct { large total, free, used; } memory;
code nvmlDeviceGetMemoryInfo(device of, memory *found) {
    (void)of;
    found->total = 80ULL << 30;
    found->used = number("STAND_IN_USED_GIB", 10) << 30;
    found->free = found->total - found->used;
    return 0;
}
typedef struct { unsigned gpu, memory; } utilization;
code nvmlDeviceGetUtilizationRates(device of, utilization *found) {
    (void)of;
    found->gpu = (unsigned)number("STAND_IN_BUSY", 42);
    found->memory = 7;
    return 0;
}
code nvmlDeviceGetPowerUsage(device of, unsigned *milliwatts) {
    (void)of;
    *milliwatts = (unsigned)number("STAND_IN_MILLIWATTS", 350000);
    return (code)number("STAND_IN_NO_POWER", 0);
}
code nvmlDeviceGetTemperature(device of, int kind, unsigned *degrees) { (void)of; (void)kind; *degrees = 60; return 0; }
code nvmlDeviceGetClockInfo(device of, int kind, unsigned *mhz) {
    (void)of; (void)kind;
    *mhz = (unsigned)number("STAND_IN_MHZ", 1980);
    return 0;
}
code nvmlDeviceGetMaxClockInfo(device of, int kind, unsigned *mhz) { (void)of; (void)kind; *mhz = 1980; return 0; }
code nvmlDeviceGetCurrentClocksThrottleReasons(device of, large *reasons) {
    (void)of;
    *reasons = number("STAND_IN_THROTTLED", 0);
    return 0;
}
code nvmlDeviceGetCurrentClocksEventReasons(device of, large *reasons) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(of, reasons);
}
code nvmlDeviceGetMigMode(device of, unsigned *now, unsigned *next) { (void)of; (void)now; (void)next; return 3; }
code nvmlDeviceGetComputeRunningProcesses_v3(device of, unsigned *count, void *to) {
    (void)of; (void)to;
    *count = 0;
    return 0;
}
code nvmlDeviceGetGraphicsRunningProcesses_v3(device of, unsigned *count, void *to) {
    return nvmlDeviceGetComputeRunningProcesses_v3(of, count, to);
}
