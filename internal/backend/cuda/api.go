package cuda

import (
	"fmt"
	"strings"
	"unsafe"
)

// api is libcuda. Names with a version are preferred: the plain ones are kept by
// the driver for programs of ten years ago.
type api struct {
	lib *library

	getErrorName, getErrorString proc

	init, driverVersion                                          proc
	deviceCount, deviceGet, deviceName, deviceUUID, devicePCI    proc
	deviceAttribute, canAccessPeer                               proc
	ctxRetain, ctxRelease, ctxSetCurrent, ctxPush, ctxPop        proc
	streamCreate, streamDestroy, streamQuery                     proc
	streamWrite, streamWait                                      proc
	eventCreate, eventDestroy, eventRecord, eventElapsed         proc
	memGetInfo, memHostAlloc, memFreeHost, hostPointer           proc
	hostRegister, hostUnregister, memAllocAsync, memFreeAsync    proc
	granularity, memCreate, memRelease, memReserve, memUnreserve proc
	memMap, memUnmap, memSetAccess, memExport, memImport         proc
	copyIn, copyOut, copyWithin, copyPeer, fillAsync             proc
	moduleLoad, moduleUnload, moduleFunction, funcSetAttribute   proc
	funcParam, occupancyShape, occupancyBlocks                   proc
	launch, launchEx                                             proc
	captureBegin, captureEnd, graphInstantiate, graphExecDestroy proc
	graphCreate, graphAddKernel, graphSetKernel                  proc
	graphDestroy, graphLaunch, graphUpdate                       proc
}

// openAPI opens libcuda and binds what it has.
func openAPI(folders []string) (*api, error) {
	lib, err := open(folders, "libcuda.so.1", "libcuda.so")
	if err != nil {
		return nil, fmt.Errorf("cuda: %w; install NVIDIA's driver", err)
	}
	a := &api{lib: lib}
	for _, b := range []struct {
		to    *proc
		names string
	}{
		{&a.getErrorName, "cuGetErrorName"}, {&a.getErrorString, "cuGetErrorString"},
		{&a.init, "cuInit"}, {&a.driverVersion, "cuDriverGetVersion"},
		{&a.deviceCount, "cuDeviceGetCount"}, {&a.deviceGet, "cuDeviceGet"}, {&a.deviceName, "cuDeviceGetName"},
		{&a.deviceUUID, "cuDeviceGetUuid_v2 cuDeviceGetUuid"}, {&a.devicePCI, "cuDeviceGetPCIBusId"},
		{&a.deviceAttribute, "cuDeviceGetAttribute"}, {&a.canAccessPeer, "cuDeviceCanAccessPeer"},
		{&a.ctxRetain, "cuDevicePrimaryCtxRetain"}, {&a.ctxRelease, "cuDevicePrimaryCtxRelease_v2"},
		{&a.ctxSetCurrent, "cuCtxSetCurrent"}, {&a.ctxPush, "cuCtxPushCurrent_v2"}, {&a.ctxPop, "cuCtxPopCurrent_v2"},
		{&a.streamCreate, "cuStreamCreate"}, {&a.streamDestroy, "cuStreamDestroy_v2"},
		{&a.streamQuery, "cuStreamQuery"},
		{&a.streamWrite, "cuStreamWriteValue32_v2 cuStreamWriteValue32"}, {&a.streamWait, "cuStreamWaitValue32_v2 cuStreamWaitValue32"},
		{&a.eventCreate, "cuEventCreate"}, {&a.eventDestroy, "cuEventDestroy_v2"}, {&a.eventRecord, "cuEventRecord"},
		{&a.eventElapsed, "cuEventElapsedTime_v2 cuEventElapsedTime"},
		{&a.memGetInfo, "cuMemGetInfo_v2"}, {&a.memHostAlloc, "cuMemHostAlloc"}, {&a.memFreeHost, "cuMemFreeHost"},
		{&a.hostPointer, "cuMemHostGetDevicePointer_v2"},
		{&a.hostRegister, "cuMemHostRegister_v2"}, {&a.hostUnregister, "cuMemHostUnregister"},
		{&a.memAllocAsync, "cuMemAllocAsync"}, {&a.memFreeAsync, "cuMemFreeAsync"},
		{&a.granularity, "cuMemGetAllocationGranularity"}, {&a.memCreate, "cuMemCreate"}, {&a.memRelease, "cuMemRelease"},
		{&a.memReserve, "cuMemAddressReserve"}, {&a.memUnreserve, "cuMemAddressFree"},
		{&a.memMap, "cuMemMap"}, {&a.memUnmap, "cuMemUnmap"}, {&a.memSetAccess, "cuMemSetAccess"},
		{&a.memExport, "cuMemExportToShareableHandle"}, {&a.memImport, "cuMemImportFromShareableHandle"},
		{&a.copyIn, "cuMemcpyHtoDAsync_v2"}, {&a.copyOut, "cuMemcpyDtoHAsync_v2"}, {&a.copyWithin, "cuMemcpyDtoDAsync_v2"},
		{&a.copyPeer, "cuMemcpyPeerAsync"}, {&a.fillAsync, "cuMemsetD8Async"},
		{&a.moduleLoad, "cuModuleLoadDataEx"}, {&a.moduleUnload, "cuModuleUnload"}, {&a.moduleFunction, "cuModuleGetFunction"},
		{&a.funcSetAttribute, "cuFuncSetAttribute"}, {&a.funcParam, "cuFuncGetParamInfo"},
		{&a.occupancyShape, "cuOccupancyMaxPotentialBlockSize"}, {&a.occupancyBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
		{&a.launch, "cuLaunchKernel"}, {&a.launchEx, "cuLaunchKernelEx"},
		{&a.captureBegin, "cuStreamBeginCapture_v2"}, {&a.captureEnd, "cuStreamEndCapture"},
		{&a.graphInstantiate, "cuGraphInstantiateWithFlags"}, {&a.graphExecDestroy, "cuGraphExecDestroy"},
		{&a.graphCreate, "cuGraphCreate"}, {&a.graphAddKernel, "cuGraphAddKernelNode_v2"},
		{&a.graphSetKernel, "cuGraphExecKernelNodeSetParams_v2"},
		{&a.graphDestroy, "cuGraphDestroy"}, {&a.graphLaunch, "cuGraphLaunch"}, {&a.graphUpdate, "cuGraphExecUpdate_v2"},
	} {
		*b.to = lib.bind(strings.Fields(b.names)...)
	}
	return a, nil
}

// do calls a function of libcuda. It is for calls that are not made often.
func (a *api) do(f *frame, p *proc, args ...uintptr) error {
	return a.err(p, a.code(f, p, args...))
}

// code calls a function of libcuda and returns its result.
func (a *api) code(f *frame, p *proc, args ...uintptr) int32 {
	if p.addr == 0 {
		return errNotSupported
	}
	return int32(f.call(p, args...))
}

// err makes an error of a result; nil for success.
func (a *api) err(p *proc, code int32) error {
	if code == 0 {
		return nil
	}
	if p.addr == 0 {
		return &Error{Call: p.name, Code: code, Name: "CUDA_ERROR_NOT_SUPPORTED", Text: "this driver does not have it; install a newer one"}
	}
	f := getFrame()
	defer f.free()
	e := &Error{Call: p.name, Code: code, Name: "CUDA_ERROR_UNKNOWN"}
	if f.call(&a.getErrorName, uintptr(code), f.at(0)) == 0 {
		e.Name = cString(uintptr(f.out[0]), 256)
	}
	if f.call(&a.getErrorString, uintptr(code), f.at(1)) == 0 {
		e.Text = cString(uintptr(f.out[1]), 1024)
	}
	return e
}

// Device attributes.
const (
	attrSMs          = 16
	attrIntegrated   = 18
	attrMemoryKHz    = 36
	attrMemoryBits   = 37
	attrMajor        = 75
	attrMinor        = 76
	attrHostPointers = 91 // kernels use the addresses of page-locked host memory
)

func (a *api) attribute(f *frame, dev int32, attr int) int {
	if a.code(f, &a.deviceAttribute, f.at(0), uintptr(attr), uintptr(dev)) != 0 {
		return 0
	}
	return int(f.i32(0))
}

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	kind        int32 // 1: pinned
	handleTypes int32
	location    location
	_           [2]uint64 // for Windows; flags
}

// location is CUmemLocation.
type location struct {
	kind int32 // 1: a device
	id   int32
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	location location
	flags    int32
}

const (
	onDevice     = 1
	pinned       = 1
	posixFD      = 1
	accessRW     = 3
	waitGEQ      = 0
	nonBlocking  = 1
	hostPortable = 1
	hostMapped   = 2
)

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	_           uint32
	stream      uintptr
	attrs       uintptr
	numAttrs    uint32
	_           uint32
}

// launchAttr is CUlaunchAttribute.
type launchAttr struct {
	id    int32
	_     int32
	value [16]uint32
}

const (
	attrCooperative = 2
	attrCluster     = 4
	// Function attributes.
	funcMaxDynamicShared = 8
	funcAnyClusterSize   = 14
	portableCluster      = 8
	defaultDynamicShared = 48 << 10
	jitErrorLog          = 5
	jitErrorLogSize      = 6
	captureThreadLocal   = 1
)

// prop describes memory on a device that can be handed to other processes.
func prop(dev int32) allocationProp {
	return allocationProp{kind: pinned, handleTypes: posixFD, location: location{onDevice, dev}}
}

// put stores v in the frame from its i-th word on and returns its address.
func put[T any](f *frame, i int, v T) uintptr {
	p := unsafe.Pointer(&f.out[i])
	if i+int(unsafe.Sizeof(v)+7)/8 > len(f.out) {
		panic("cuda: a value does not fit its frame")
	}
	*(*T)(p) = v
	return uintptr(p)
}
