/* A simulated libnvidia-ml.so.1: answers the functions that gputop's sampler asks from a text file, which a running
 * test may rewrite at any time. Compiled by the tests against the header of the package nvidia-nvml-dev-cu12.
 *
 * The file is named by GPUTOP_NVML_STUB; one `key value` a line, the first line of a key wins:
 *   devices 2                            how many GPUs there are (default 1)
 *   driver 570.86                        driver version
 *   reload 1                             a change of this number makes every call fail with UNKNOWN until shutdown and init
 *   0.util 37                            a figure of GPU 0 (see DEFAULTS); `*.util 37` is for all
 *   0.name NVIDIA\x20H100 80GB           \xNN is a byte
 *   0.procs 4242:1073741824:C 77:-:G     pid:bytes:kind; `-` is NVML's "not available"; kind C, G or B (both lists)
 *   0.procs_claimed 2000000000           the lists claim to be this long, whatever `procs` holds
 *   0.samples 1000000:90 1020000:0       driver samples, stamp in us:percent; without it they follow `pattern`
 *   0.pattern 90 0 180 60                driver samples: high, low, period ms, ms of it at high
 *   0.field.197 123                      a field value (unsigned 64 bit); absent ones answer NOT_SUPPORTED
 *   0.usage 4242:1000000:37 77:1:37100   use of the processors, pid:stamp in us:percent
 *   0.gpm 1                              GPM is supported; 0.gpm.2 61.5 is a metric, absent ones answer NOT_SUPPORTED,
 *                                        `0.gpm.2 !10` answers code 10 for that metric alone
 *   0.mig 1                              MIG is on; 0.migs 0 2 are the slots taken. A slot is a device of its own, 100 +
 *                                        7 x device + slot: 102.mem_used 5, 102.procs ...; 102.gpm.2 for its instance
 *   0.events 0                           no events are supported; 0.xids 1:79 2:31 are XIDs by serial number, told to sets that
 *                                        were registered before; 3:7:0x10 is an event of another type
 *   error.FUNCTION 1 3                   FUNCTION answers code 3 for GPU 1 (`*`: for all); FUNCTION may be `*` too
 *   delay.FUNCTION 0 5000                FUNCTION answers after 5 s for GPU 0; ends early when the file says otherwise
 * Functions without a device (nvmlInitWithFlags, nvmlDeviceGetCount_v2, ...) take the `*` lines.
 * With GPUTOP_NVML_STUB_CALLS set, each call appends `FUNCTION GPU` to that file.
 */
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 1024
#define MIG_BASE 100
#define MIG_SLOTS 7
#define NO_DEVICE (-1)

struct nvmlDevice_st { int index; };

static struct nvmlDevice_st devices[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;                 /* the state file, its lines ended by NUL */
static size_t text_size;
static struct stat read_as;
static int inited;
static int gpm_alive;              /* GPM buffers that were lent and not given back; logged at shutdown */
static int sets_alive;             /* the same of event sets */
static unsigned long long reload_seen;

/* ---- the state file ---- */

static void refresh(void) {
    const char *path = getenv("GPUTOP_NVML_STUB");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (text && now.st_ino == read_as.st_ino && now.st_size == read_as.st_size &&
        now.st_mtim.tv_sec == read_as.st_mtim.tv_sec && now.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char *fresh = calloc(1, (size_t)now.st_size + 2);
    ssize_t got = fresh ? read(fd, fresh, (size_t)now.st_size) : -1;
    close(fd);
    if (got < 0) { free(fresh); return; }
    for (ssize_t i = 0; i < got; i++)
        if (fresh[i] == '\n') fresh[i] = 0;
    free(text);
    text = fresh;
    text_size = (size_t)got;
    read_as = now;
}

/* The value of a key: what follows its first space. Call with the lock held. */
static const char *find(const char *key) {
    size_t length = strlen(key);
    for (const char *line = text; line && line < text + text_size; line += strlen(line) + 1)
        if (!strncmp(line, key, length) && line[length] == ' ') return line + length + 1;
    return NULL;
}

static const char *of_device(int index, const char *name) {
    char key[128];
    snprintf(key, sizeof key, "%d.%s", index, name);
    const char *value = find(key);
    if (value) return value;
    snprintf(key, sizeof key, "*.%s", name);
    return find(key);
}

static unsigned long long number(const char *value, unsigned long long otherwise) {
    return value ? strtoull(value, NULL, 0) : otherwise;
}

/* `error.FUNCTION DEVICE NUMBER` or `delay...`: the first line that fits, or 0. Call with the lock held. */
static long rule(const char *kind, const char *function, int index) {
    char exact[128], any[32], device[16];
    snprintf(exact, sizeof exact, "%s.%s ", kind, function);
    snprintf(any, sizeof any, "%s.* ", kind);
    snprintf(device, sizeof device, "%d ", index);
    for (const char *line = text; line && line < text + text_size; line += strlen(line) + 1) {
        const char *rest = NULL;
        if (!strncmp(line, exact, strlen(exact))) rest = line + strlen(exact);
        else if (!strncmp(line, any, strlen(any)) && index != NO_DEVICE) rest = line + strlen(any);
        if (!rest) continue;
        if (!strncmp(rest, "* ", 2)) return strtol(rest + 2, NULL, 0);
        if (index != NO_DEVICE && !strncmp(rest, device, strlen(device))) return strtol(rest + strlen(device), NULL, 0);
    }
    return 0;
}

static unsigned long long now_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (unsigned long long)ts.tv_sec * 1000000ULL + (unsigned long long)ts.tv_nsec / 1000ULL;
}

static void log_call(const char *function, int index) {
    const char *path = getenv("GPUTOP_NVML_STUB_CALLS");
    if (!path) return;
    char line[128];
    int length = snprintf(line, sizeof line, "%s %d\n", function, index);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, line, (size_t)length) < 0) { /* a lost line of a log is no fault of the caller */ }
    close(fd);
}

/* What every function begins with: the log, the delay, the planted error. */
static nvmlReturn_t enter(const char *function, int index) {
    log_call(function, index);
    unsigned long long began = now_us();
    for (;;) {
        pthread_mutex_lock(&lock);
        refresh();
        long delay_ms = rule("delay", function, index);
        pthread_mutex_unlock(&lock);
        if (now_us() - began >= (unsigned long long)delay_ms * 1000ULL) break;
        usleep(5000);
    }
    pthread_mutex_lock(&lock);
    long code = rule("error", function, index);
    unsigned long long reload = number(find("reload"), 0);
    pthread_mutex_unlock(&lock);
    if (code) return (nvmlReturn_t)code;
    if (!strncmp(function, "nvmlInit", 8)) return NVML_SUCCESS;
    if (!inited) return NVML_ERROR_UNINITIALIZED;
    return reload == reload_seen ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static int index_of(nvmlDevice_t device) {
    return device >= devices && device < devices + MAX_DEVICES ? device->index : NO_DEVICE;
}

#define ENTER(device) \
    int index = index_of(device); \
    if (index == NO_DEVICE) return NVML_ERROR_INVALID_ARGUMENT; \
    nvmlReturn_t refused = enter(__func__, index); \
    if (refused) return refused

static unsigned long long figure(int index, const char *name, unsigned long long otherwise) {
    pthread_mutex_lock(&lock);
    unsigned long long value = number(of_device(index, name), otherwise);
    pthread_mutex_unlock(&lock);
    return value;
}

static nvmlReturn_t words(int index, const char *name, const char *otherwise, char *out, unsigned int size) {
    pthread_mutex_lock(&lock);
    const char *value = index == NO_DEVICE ? find(name) : of_device(index, name);
    if (!value) value = otherwise;
    unsigned int at = 0;
    while (*value && at + 1 < size) {
        unsigned int byte;
        if (value[0] == '\\' && value[1] == 'x' && sscanf(value + 2, "%2x", &byte) == 1) {
            out[at++] = (char)byte;
            value += 4;
        } else out[at++] = *value++;
    }
    out[at] = 0;
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

/* ---- the library ---- */

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    nvmlReturn_t refused = enter(__func__, NO_DEVICE);
    if (refused) return refused;
    for (int i = 0; i < MAX_DEVICES; i++) devices[i].index = i;
    pthread_mutex_lock(&lock);
    reload_seen = number(find("reload"), 0);
    pthread_mutex_unlock(&lock);
    inited++;
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT nvmlReturn_t nvmlShutdown(void) {
    log_call(__func__, NO_DEVICE);
    if (!inited) return NVML_ERROR_UNINITIALIZED;
    if (gpm_alive) log_call("GPM buffers not given back", gpm_alive);
    if (sets_alive) log_call("event sets not given back", sets_alive);
    inited--;
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t code) {
    return code == NVML_SUCCESS ? "Success" : "simulated error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    nvmlReturn_t refused = enter(__func__, NO_DEVICE);
    return refused ? refused : words(NO_DEVICE, "driver", "570.86.10", version, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    nvmlReturn_t refused = enter(__func__, NO_DEVICE);
    if (refused) return refused;
    pthread_mutex_lock(&lock);
    *count = (unsigned int)number(find("devices"), 1);
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int at, nvmlDevice_t *device) {
    nvmlReturn_t refused = enter(__func__, (int)at);
    if (refused) return refused;
    if (at >= MAX_DEVICES) return NVML_ERROR_INVALID_ARGUMENT;
    *device = &devices[at];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    ENTER(device);
    return words(index, "name", "Simulated GPU", name, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    ENTER(device);
    char otherwise[64];
    snprintf(otherwise, sizeof otherwise, "GPU-5eed0000-0000-4000-8000-%012x", index);
    return words(index, "uuid", otherwise, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *at) {
    ENTER(device);
    *at = (unsigned int)index;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ENTER(device);
    memset(pci, 0, sizeof *pci);
    pci->domain = (unsigned int)figure(index, "pci_domain", 0);
    pci->bus = (unsigned int)figure(index, "pci_bus", 0x17ULL + (unsigned long long)index);
    pci->device = 0;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffffU, pci->bus, pci->device);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ENTER(device);
    rates->gpu = (unsigned int)figure(index, "util", 0);
    rates->memory = (unsigned int)figure(index, "mem_util", 0);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ENTER(device);
    memory->total = figure(index, "mem_total", 80ULL << 30);
    memory->used = figure(index, "mem_used", 0) + figure(index, "mem_reserved", 0);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    ENTER(device);
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = figure(index, "mem_total", 80ULL << 30);
    memory->reserved = figure(index, "mem_reserved", 0);
    memory->used = figure(index, "mem_used", 0);
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}

#ifndef nvmlDeviceAddressingMode_v1 /* a header of CUDA 12 does not have it yet, the binding does */
typedef struct { unsigned int version, value; } nvmlDeviceAddressingMode_t;
#endif
EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode) {
    ENTER(device);
    mode->value = (unsigned int)figure(index, "addressing_mode", 0);
    return NVML_SUCCESS;
}

#define ONE_FIGURE(function, type, name, otherwise) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *out) { \
        ENTER(device); \
        *out = (type)figure(index, name, otherwise); \
        return NVML_SUCCESS; \
    }

ONE_FIGURE(nvmlDeviceGetPowerUsage, unsigned int, "power_mw", 70000)
ONE_FIGURE(nvmlDeviceGetEnforcedPowerLimit, unsigned int, "power_limit_mw", 700000)
ONE_FIGURE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, "power_limit_default_mw", 700000)
ONE_FIGURE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy_mj", 1000)
ONE_FIGURE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle", 1)
ONE_FIGURE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle", 1)
ONE_FIGURE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, "pcie_gen", 4)
ONE_FIGURE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, "pcie_gen_max", 5)
ONE_FIGURE(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, "pcie_width", 8)
ONE_FIGURE(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, "pcie_width_max", 16)
EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t which, unsigned int *out) {
    ENTER(device);
    usleep(20000); /* as the real one does */
    *out = (unsigned int)which;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *out) {
    ENTER(device);
    if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    *out = (unsigned int)figure(index, "temp", 40);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t kind,
                                                      unsigned int *out) {
    ENTER(device);
    if (kind == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN) *out = (unsigned int)figure(index, "temp_shutdown", 95);
    else if (kind == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN) *out = (unsigned int)figure(index, "temp_slowdown", 90);
    else return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t kind, unsigned int *out) {
    ENTER(device);
    *out = (unsigned int)(kind == NVML_CLOCK_SM ? figure(index, "sm_clock", 345) : figure(index, "other_clock", 1));
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t kind, unsigned int *out) {
    ENTER(device);
    *out = (unsigned int)(kind == NVML_CLOCK_SM ? figure(index, "sm_clock_max", 1980) : figure(index, "other_clock", 1));
    return NVML_SUCCESS;
}

static nvmlReturn_t coder(int index, const char *name, unsigned int *percent, unsigned int *period_us) {
    *percent = (unsigned int)figure(index, name, 0);
    *period_us = 167000;
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us) {
    ENTER(device);
    return coder(index, "enc", percent, period_us);
}
EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us) {
    ENTER(device);
    return coder(index, "dec", percent, period_us);
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ENTER(device);
    *current = *pending = (unsigned int)figure(index, "mig", 0);
    return NVML_SUCCESS;
}

static int has_slot(int index, unsigned int slot) {
    int found = 0;
    pthread_mutex_lock(&lock);
    const char *at = of_device(index, "migs");
    while (at && *at && !found) {
        found = strtoul(at, NULL, 0) == slot;
        at = strchr(at, ' ');
        if (at) at++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    ENTER(device);
    *count = MIG_SLOTS;
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int slot, nvmlDevice_t *out) {
    ENTER(device);
    if (slot >= MIG_SLOTS || !has_slot(index, slot)) return NVML_ERROR_NOT_FOUND;
    *out = &devices[MIG_BASE + MIG_SLOTS * index + (int)slot];
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
    ENTER(device);
    if (index < MIG_BASE) return NVML_ERROR_NOT_SUPPORTED;
    *id = (unsigned int)((index - MIG_BASE) % MIG_SLOTS) + 1;
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
    ENTER(device);
    if (index < MIG_BASE) return NVML_ERROR_NOT_SUPPORTED;
    *id = 0;
    return NVML_SUCCESS;
}

/* ---- events: a set belongs to the one device that was registered on it ---- */

struct nvmlEventSet_st { int index; unsigned int seen; };

/* The first event after `seen`, or 0. Call with the lock held. */
static unsigned int next_event(int index, unsigned int seen, unsigned long long *data, unsigned long long *type) {
    for (const char *at = of_device(index, "xids"); at && *at;) {
        unsigned int serial;
        *type = nvmlEventTypeXidCriticalError;
        int got = sscanf(at, "%u:%llu:%llx", &serial, data, type);
        if (got >= 2 && serial > seen) return serial;
        at = strchr(at, ' ');
        if (at) at++;
    }
    return 0;
}
EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    ENTER(device);
    *types = figure(index, "events", nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError);
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out) {
    nvmlReturn_t refused = enter(__func__, NO_DEVICE);
    if (refused) return refused;
    *out = calloc(1, sizeof **out);
    if (!*out) return NVML_ERROR_MEMORY;
    (*out)->index = NO_DEVICE;
    sets_alive++;
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    ENTER(device);
    if (types != nvmlEventTypeXidCriticalError || set->index != NO_DEVICE) return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    unsigned long long data, type;
    unsigned int serial;
    while ((serial = next_event(index, set->seen, &data, &type))) set->seen = serial;
    pthread_mutex_unlock(&lock);
    set->index = index;
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, unsigned int timeout_ms) {
    nvmlReturn_t refused = enter(__func__, set->index);
    if (refused) return refused;
    if (timeout_ms) return NVML_ERROR_INVALID_ARGUMENT; /* nobody may wait here */
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&lock);
    unsigned int serial = next_event(set->index, set->seen, &out->eventData, &out->eventType);
    pthread_mutex_unlock(&lock);
    if (!serial) return NVML_ERROR_TIMEOUT;
    set->seen = serial;
    out->device = &devices[set->index];
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    log_call(__func__, NO_DEVICE);
    free(set);
    sets_alive--;
    return NVML_SUCCESS;
}

/* ---- GPM: a sample remembers whose it is and when it was taken ---- */

struct nvmlGpmSample_st { int index, taken; unsigned long long at_us; };

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out) {
    nvmlReturn_t refused = enter(__func__, NO_DEVICE);
    if (refused) return refused;
    *out = calloc(1, sizeof **out);
    gpm_alive++;
    return *out ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}
EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    log_call(__func__, NO_DEVICE);
    free(sample);
    gpm_alive--;
    return NVML_SUCCESS;
}
static nvmlReturn_t take_gpm(int index, nvmlGpmSample_t sample) {
    sample->index = index;
    sample->taken = 1;
    sample->at_us = now_us();
    return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    ENTER(device);
    return take_gpm(index, sample);
}
EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int instance, nvmlGpmSample_t sample) {
    ENTER(device);
    return take_gpm(MIG_BASE + MIG_SLOTS * index + (int)instance - 1, sample);
}
EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
    nvmlReturn_t refused = enter(__func__, NO_DEVICE);
    if (refused) return refused;
    if (get->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!get->sample1 || !get->sample2 || get->sample1 == get->sample2) return NVML_ERROR_INVALID_ARGUMENT;
    if (!get->sample1->taken || get->sample1->index != get->sample2->index || get->sample1->at_us > get->sample2->at_us)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        char name[32];
        snprintf(name, sizeof name, "gpm.%u", get->metrics[i].metricId);
        const char *value = of_device(get->sample2->index, name);
        get->metrics[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        if (value && *value == '!') get->metrics[i].nvmlReturn = (nvmlReturn_t)strtol(value + 1, NULL, 0);
        else if (value) {
            get->metrics[i].nvmlReturn = NVML_SUCCESS;
            get->metrics[i].value = strtod(value, NULL);
        }
    }
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    ENTER(device);
    support->isSupportedDevice = (unsigned int)figure(index, "gpm", 0);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    ENTER(device);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field.%u", values[i].fieldId);
        const char *value = of_device(index, name);
        values[i].timestamp = (long long)now_us();
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = value ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        values[i].value.ullVal = number(value, 0);
    }
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

/* ---- lists ---- */

static nvmlReturn_t list_processes(int index, char kind, unsigned int *count, nvmlProcessInfo_t *infos) {
    unsigned int found = 0, room = *count;
    unsigned int claimed = (unsigned int)figure(index, "procs_claimed", 0);
    if (claimed) {
        *count = claimed;
        return claimed > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    const char *at = of_device(index, "procs");
    while (at && *at) {
        char bytes[32], which;
        unsigned int pid;
        if (sscanf(at, "%u:%31[^:]:%c", &pid, bytes, &which) == 3 && (which == kind || which == 'B')) {
            if (found < room && infos) {
                memset(&infos[found], 0, sizeof infos[found]);
                infos[found].pid = pid;
                infos[found].usedGpuMemory = bytes[0] == '-' ? ~0ULL : strtoull(bytes, NULL, 0);
                infos[found].gpuInstanceId = infos[found].computeInstanceId = 0xFFFFFFFFU;
            }
            found++;
        }
        at = strchr(at, ' ');
        if (at) at++;
    }
    pthread_mutex_unlock(&lock);
    *count = found;
    return found > room || (found && !infos) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_t *infos) {
    ENTER(device);
    return list_processes(index, 'C', count, infos);
}
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                             nvmlProcessInfo_t *infos) {
    ENTER(device);
    return list_processes(index, 'G', count, infos);
}

/* One entry of `usage`, or 0 at its end. Call with the lock held. */
static int next_use(const char **at, unsigned int *pid, unsigned long long *stamp, unsigned int *percent) {
    while (*at && **at) {
        int got = sscanf(*at, "%u:%llu:%u", pid, stamp, percent);
        *at = strchr(*at, ' ');
        if (*at) ++*at;
        if (got == 3) return 1;
    }
    return 0;
}
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out,
                                                    unsigned int *count, unsigned long long last_seen) {
    ENTER(device);
    unsigned int found = 0, room = *count, pid, percent;
    unsigned long long stamp;
    pthread_mutex_lock(&lock);
    const char *at = of_device(index, "usage");
    while (next_use(&at, &pid, &stamp, &percent)) {
        if (stamp <= last_seen) continue;
        if (out && found < room) {
            memset(&out[found], 0, sizeof out[found]);
            out[found].pid = pid;
            out[found].timeStamp = stamp;
            out[found].smUtil = percent;
        }
        found++;
    }
    pthread_mutex_unlock(&lock);
    *count = found;
    if (!found) return NVML_ERROR_NOT_FOUND;
    return found > room || !out ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info) {
    ENTER(device);
    if (info->version != nvmlProcessesUtilizationInfo_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    unsigned int found = 0, room = info->processSamplesCount, pid, percent;
    unsigned long long stamp;
    pthread_mutex_lock(&lock);
    const char *at = of_device(index, "usage");
    while (next_use(&at, &pid, &stamp, &percent)) {
        if (stamp <= info->lastSeenTimeStamp) continue;
        if (info->procUtilArray && found < room) {
            memset(&info->procUtilArray[found], 0, sizeof info->procUtilArray[found]);
            info->procUtilArray[found].pid = pid;
            info->procUtilArray[found].timeStamp = stamp;
            info->procUtilArray[found].smUtil = percent;
        }
        found++;
    }
    pthread_mutex_unlock(&lock);
    info->processSamplesCount = found;
    if (!found) return NVML_ERROR_NOT_FOUND;
    return found > room || !info->procUtilArray ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define RING 100                    /* samples that the driver keeps */
#define SAMPLE_US 20000ULL          /* their distance when they follow a pattern */

static unsigned int put_sample(nvmlSample_t *out, unsigned int at, unsigned int room, unsigned long long stamp,
                               unsigned int percent) {
    if (out && at < room) {
        out[at].timeStamp = stamp;
        out[at].sampleValue.ullVal = 0;
        out[at].sampleValue.uiVal = percent;
    }
    return at + 1;
}

EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long last_seen,
                                         nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples) {
    ENTER(device);
    if (type != NVML_GPU_UTILIZATION_SAMPLES) return NVML_ERROR_NOT_SUPPORTED;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    unsigned int found = 0, room = *count;
    unsigned int high = (unsigned int)figure(index, "util", 0), low = high, period_ms = 180, on_ms = 180;
    pthread_mutex_lock(&lock);
    const char *listed = of_device(index, "samples"), *pattern = of_device(index, "pattern");
    if (pattern) sscanf(pattern, "%u %u %u %u", &high, &low, &period_ms, &on_ms);
    while (listed && *listed) {
        unsigned long long stamp;
        unsigned int percent;
        if (sscanf(listed, "%llu:%u", &stamp, &percent) == 2 && stamp > last_seen)
            found = put_sample(samples, found, room, stamp, percent);
        listed = strchr(listed, ' ');
        if (listed) listed++;
    }
    if (!of_device(index, "samples") && period_ms) {
        unsigned long long newest = now_us() / SAMPLE_US * SAMPLE_US;
        for (unsigned long long back = RING; back-- > 0;) {
            unsigned long long stamp = newest - back * SAMPLE_US;
            if (stamp > last_seen)
                found = put_sample(samples, found, room, stamp, stamp / 1000 % period_ms < on_ms ? high : low);
        }
    }
    pthread_mutex_unlock(&lock);
    if (!found) return NVML_ERROR_NOT_FOUND;
    if (samples && found > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    *count = samples ? found : RING;
    return NVML_SUCCESS;
}
