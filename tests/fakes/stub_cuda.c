/* A CUDA driver without a device, for tests: the functions that the calibration calls, a clock
   that each kernel moves on by a fixed rate, and memory of the host. Its rates are in test_calibrate.py too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef unsigned long long u64;
typedef unsigned u32;

static double now_ns;
static int capturing, captured, functions;
static char names[256][64];

Result cuInit(u32 flags) { return 0; }
Result cuDriverGetVersion(int *version) { return *version = atoi(getenv("STUB_CUDA_VERSION")), 0; }
Result cuDeviceGetCount(int *count) { return *count = 1, 0; }
Result cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
Result cuDeviceGetName(char *name, int length, int device) { return strncpy(name, "Stub", length), 0; }
Result cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = i + 1;
  return 0;
}
Result cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? 9 : attribute == 16 ? 10 : attribute == 38 ? 1 << 20 : 0;
  return 0;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &now_ns, 0; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
Result cuDevicePrimaryCtxRelease(int device) { return 0; }
Result cuCtxSetCurrent(void *context) { return 0; }
Result cuStreamCreate(void **stream, u32 flags) { return *stream = &now_ns, 0; }
Result cuStreamSynchronize(void *stream) { return 0; }
Result cuEventCreate(void **event, u32 flags) { return *event = calloc(1, sizeof(double)), 0; }
Result cuEventRecord(double *event, void *stream) { return *event = now_ns, 0; }
Result cuEventQuery(double *event) { return 600; /* CUDA_ERROR_NOT_READY */ }
Result cuEventSynchronize(double *event) { return 0; }
Result cuEventElapsedTime_v2(float *ms, double *start, double *end) { return *ms = (*end - *start) * 1e-6, 0; }
Result cuEventElapsedTime(float *ms, double *start, double *end) { return cuEventElapsedTime_v2(ms, start, end); }
Result cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = 1ul << 30, *total = 2ul << 30, 0; }
Result cuMemAlloc_v2(u64 *address, size_t size) { return *address = (u64)malloc(size), 0; }
Result cuMemHostAlloc(void **address, size_t size, u32 flags) { return *address = malloc(size), 0; }
Result cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t size, void *stream) {
  return memcpy((void *)to, from, size), now_ns += size / 50., 0;
}
Result cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t size, void *stream) {
  return memcpy(to, (void *)from, size), now_ns += size / 40., 0;
}
Result cuMemsetD8Async(u64 to, unsigned char byte, size_t size, void *stream) {
  return memset((void *)to, byte, size), now_ns += size / 300., 0;
}
Result cuModuleLoadData(void **module, const void *image) {
  *module = &now_ns; /* machine code, or PTX, which begins with a comment */
  return memcmp(image, "\177ELF", 4) && memcmp(image, "//", 2) ? 218 : 0;
}
Result cuModuleGetFunction(void **function, void *module, const char *name) {
  return *function = strcpy(names[functions++], name), 0;
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
  return *blocks = 4, 0;
}
/* y = a x with rows of 8, a thread a row: the kernel of tests/fakes/benched.py. */
static void small_gemv(u32 blocks, u32 threads, void **values) {
  const float *a = *(float **)values[0], *x = *(float **)values[1];
  float *y = *(float **)values[3];
  for (int row = 0, rows = *(int *)values[2]; row < rows && row < blocks * threads; ++row) {
    y[row] = 0;
    for (int k = 0; k < 8; ++k) y[row] += a[row * 8 + k] * x[k];
  }
}
Result cuLaunchKernel(const char *name, u32 blocks, u32 y, u32 z, u32 threads, u32 ty, u32 tz, u32 shared, void *stream,
                      void **values, void **extra) {
  if (strcmp(name, getenv("STUB_FAILS_AT")) == 0) return 700; /* CUDA_ERROR_ILLEGAL_ADDRESS */
  if (capturing) return ++captured, 0;
  if (!strncmp(name, "small_gemv", 10)) small_gemv(blocks, threads, values), now_ns += 1000;
  if (!strcmp(name, "flush")) now_ns += *(u64 *)values[1] * 16 / 1000.;
  if (!strcmp(name, "empty")) now_ns += 1500;
  if (!strcmp(name, "spin")) now_ns += *(u64 *)values[0];
  if (!strcmp(name, "dram_read")) now_ns += *(u64 *)values[2] * 16 / 400.;
  if (!strcmp(name, "dram_copy")) now_ns += *(u64 *)values[2] * 32 / 350.;
  if (!strcmp(name, "dram_write")) now_ns += *(u64 *)values[1] * 16 / 300.;
  if (!strcmp(name, "cache_read")) now_ns += *(u32 *)values[3] * (double)blocks * 16384 / 2000.;
  if (!strcmp(name, "cache_copy")) now_ns += *(u32 *)values[3] * (double)blocks * 32768 / 1800.;
  /* One trip of a thread, an eighth of a nanosecond. */
  if (!strncmp(name, "vector", 6) || !strncmp(name, "special", 7) || !strncmp(name, "tensor", 6))
    now_ns += *(u32 *)values[1] * (double)blocks * threads / 8.;
  return 0;
}
Result cuStreamBeginCapture_v2(void *stream, int mode) { return capturing = 1, captured = 0; }
Result cuStreamEndCapture(void *stream, void **graph) { return *graph = (void *)(long)(captured + 1), capturing = 0; }
Result cuGraphInstantiateWithFlags(void **handle, void *graph, u64 flags) { return *handle = graph, 0; }
Result cuGraphDestroy(void *graph) { return 0; }
Result cuGraphUpload(void *handle, void *stream) { return 0; }
Result cuGraphLaunch(void *handle, void *stream) { return now_ns += 2000 + 900. * ((long)handle - 1), 0; }
Result cuGetErrorString(int code, const char **text) { return *text = "said by the stub", 0; }

static Result unsupported(void) { return 801; }

Result cuGetProcAddress_v2(const char *name, void **function, int version, u64 flags, int *status) {
  Dl_info here;
  char newer[128];
  dladdr((void *)cuGetProcAddress_v2, &here);
  void *library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  strcat(strcpy(newer, name), "_v2");
  *function = dlsym(library, newer);
  if (!*function) *function = dlsym(library, name);
  if (!*function) *function = (void *)unsupported;
  if (status) *status = 0;
  return 0;
}
Result cuGetProcAddress(const char *name, void **function, int version, u64 flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
