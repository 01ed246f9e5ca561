// The driver functions that Everkernel uses: the documented name, the symbol that has had this
// signature since CUDA 12.0, and the parameters. Define EVERKERNEL_DRIVER_FUNCTION before you
// include this file: it is expanded for each row.

EVERKERNEL_DRIVER_FUNCTION(cuInit, "cuInit", (unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuDriverGetVersion, "cuDriverGetVersion", (int* version));
EVERKERNEL_DRIVER_FUNCTION(cuGetErrorName, "cuGetErrorName", (CuResult error, const char** name));
EVERKERNEL_DRIVER_FUNCTION(cuGetErrorString, "cuGetErrorString",
                           (CuResult error, const char** text));

// Devices and contexts.
EVERKERNEL_DRIVER_FUNCTION(cuDeviceGetCount, "cuDeviceGetCount", (int* count));
EVERKERNEL_DRIVER_FUNCTION(cuDeviceGet, "cuDeviceGet", (CuDevice * device, int ordinal));
EVERKERNEL_DRIVER_FUNCTION(cuDeviceGetName, "cuDeviceGetName",
                           (char* name, int size, CuDevice device));
EVERKERNEL_DRIVER_FUNCTION(cuDeviceGetAttribute, "cuDeviceGetAttribute",
                           (int* value, CuDeviceAttribute attribute, CuDevice device));
EVERKERNEL_DRIVER_FUNCTION(cuDeviceTotalMem, "cuDeviceTotalMem_v2",
                           (std::size_t * bytes, CuDevice device));
EVERKERNEL_DRIVER_FUNCTION(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",
                           (CuContext * context, CuDevice device));
EVERKERNEL_DRIVER_FUNCTION(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2",
                           (CuDevice device));
EVERKERNEL_DRIVER_FUNCTION(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CuContext context));
EVERKERNEL_DRIVER_FUNCTION(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CuContext * context));

// Modules and kernels.
EVERKERNEL_DRIVER_FUNCTION(cuModuleLoadData, "cuModuleLoadData",
                           (CuModule * module, const void* image));
EVERKERNEL_DRIVER_FUNCTION(cuModuleUnload, "cuModuleUnload", (CuModule module));
EVERKERNEL_DRIVER_FUNCTION(cuModuleGetFunction, "cuModuleGetFunction",
                           (CuFunction * function, CuModule module, const char* name));
EVERKERNEL_DRIVER_FUNCTION(cuFuncGetAttribute, "cuFuncGetAttribute",
                           (int* value, CuFunctionAttribute attribute, CuFunction function));
EVERKERNEL_DRIVER_FUNCTION(cuFuncSetAttribute, "cuFuncSetAttribute",
                           (CuFunction function, CuFunctionAttribute attribute, int value));
EVERKERNEL_DRIVER_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                           "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                           (int* blocks, CuFunction function, int threads,
                            std::size_t shared_bytes));
EVERKERNEL_DRIVER_FUNCTION(cuLaunchKernel, "cuLaunchKernel",
                           (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, CuStream stream, void** arguments,
                            void** extra));

// Streams and events.
EVERKERNEL_DRIVER_FUNCTION(cuStreamCreate, "cuStreamCreate", (CuStream * stream, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuStreamDestroy, "cuStreamDestroy_v2", (CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuStreamQuery, "cuStreamQuery", (CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuStreamSynchronize, "cuStreamSynchronize", (CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuStreamWaitEvent, "cuStreamWaitEvent",
                           (CuStream stream, CuEvent event, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuEventCreate, "cuEventCreate", (CuEvent * event, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuEventRecord, "cuEventRecord", (CuEvent event, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuEventQuery, "cuEventQuery", (CuEvent event));
EVERKERNEL_DRIVER_FUNCTION(cuEventSynchronize, "cuEventSynchronize", (CuEvent event));
EVERKERNEL_DRIVER_FUNCTION(cuEventElapsedTime, "cuEventElapsedTime",
                           (float* milliseconds, CuEvent begin, CuEvent end));
EVERKERNEL_DRIVER_FUNCTION(cuEventDestroy, "cuEventDestroy_v2", (CuEvent event));

// Memory.
EVERKERNEL_DRIVER_FUNCTION(cuMemAlloc, "cuMemAlloc_v2", (CuPointer * memory, std::size_t bytes));
EVERKERNEL_DRIVER_FUNCTION(cuMemFree, "cuMemFree_v2", (CuPointer memory));
EVERKERNEL_DRIVER_FUNCTION(cuMemAllocAsync, "cuMemAllocAsync",
                           (CuPointer * memory, std::size_t bytes, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuMemFreeAsync, "cuMemFreeAsync", (CuPointer memory, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",
                           (CuMemoryPool * pool, CuDevice device));
EVERKERNEL_DRIVER_FUNCTION(cuMemPoolSetAttribute, "cuMemPoolSetAttribute",
                           (CuMemoryPool pool, CuPoolAttribute attribute, void* value));
EVERKERNEL_DRIVER_FUNCTION(cuMemHostAlloc, "cuMemHostAlloc",
                           (void** memory, std::size_t bytes, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuMemFreeHost, "cuMemFreeHost", (void* memory));
EVERKERNEL_DRIVER_FUNCTION(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",
                           (CuPointer * pointer, void* memory, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuMemHostRegister, "cuMemHostRegister_v2",
                           (void* memory, std::size_t bytes, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuMemHostUnregister, "cuMemHostUnregister", (void* memory));
EVERKERNEL_DRIVER_FUNCTION(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",
                           (CuPointer target, const void* source, std::size_t bytes,
                            CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",
                           (void* target, CuPointer source, std::size_t bytes, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",
                           (CuPointer target, CuPointer source, std::size_t bytes,
                            CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuMemsetD32Async, "cuMemsetD32Async",
                           (CuPointer target, unsigned value, std::size_t words, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuMemsetD8Async, "cuMemsetD8Async",
                           (CuPointer target, unsigned char value, std::size_t bytes,
                            CuStream stream));

// Graphs. Only benchmarks use them, for comparison.
EVERKERNEL_DRIVER_FUNCTION(cuGraphCreate, "cuGraphCreate", (CuGraph * graph, unsigned flags));
EVERKERNEL_DRIVER_FUNCTION(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2",
                           (CuGraphNode * node, CuGraph graph, const CuGraphNode* dependencies,
                            std::size_t dependency_count, const CuKernelNode* parameters));
EVERKERNEL_DRIVER_FUNCTION(cuGraphInstantiate, "cuGraphInstantiateWithFlags",
                           (CuGraphExec * executable, CuGraph graph, unsigned long long flags));
EVERKERNEL_DRIVER_FUNCTION(cuGraphUpload, "cuGraphUpload",
                           (CuGraphExec executable, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuGraphLaunch, "cuGraphLaunch",
                           (CuGraphExec executable, CuStream stream));
EVERKERNEL_DRIVER_FUNCTION(cuGraphExecDestroy, "cuGraphExecDestroy", (CuGraphExec executable));
EVERKERNEL_DRIVER_FUNCTION(cuGraphDestroy, "cuGraphDestroy", (CuGraph graph));
