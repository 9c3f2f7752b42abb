package vulkan

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
)

// api is libvulkan. Functions of an instance and of a device are looked up for
// each, which spares every call the loader's own look.
type api struct {
	path     string
	getProc  proc
	instance uintptr

	enumerateVersion, createInstance, layers, instanceExts proc

	destroyInstance, physicalDevices, properties, memoryProperties, memoryProperties2 proc
	queueFamilies, features, deviceExts, createDevice, deviceProc                     proc
	createMessenger, destroyMessenger                                                 proc
}

// openLibrary opens the loader.
func openLibrary(folders []string) (*api, error) {
	var first error
	for _, folder := range append(append([]string{}, folders...), "") {
		for _, n := range libraryNames {
			path := filepath.Join(folder, n)
			h, err := dlopen(path)
			if err != nil {
				if first == nil {
					first = err
				}
				continue
			}
			a := &api{path: path, getProc: proc{"vkGetInstanceProcAddr", dlsym(h, "vkGetInstanceProcAddr")}}
			if a.getProc.addr == 0 {
				return nil, fmt.Errorf("vulkan: %s is no Vulkan loader: %w", path, driver.ErrUnavailable)
			}
			a.bind([]binding{
				{&a.enumerateVersion, "vkEnumerateInstanceVersion"}, {&a.createInstance, "vkCreateInstance"},
				{&a.layers, "vkEnumerateInstanceLayerProperties"}, {&a.instanceExts, "vkEnumerateInstanceExtensionProperties"},
			})
			if a.enumerateVersion.addr == 0 {
				return nil, fmt.Errorf("vulkan: %s knows Vulkan 1.0 alone: %w; install a newer loader", path, driver.ErrUnavailable)
			}
			return a, nil
		}
	}
	return nil, fmt.Errorf("vulkan: no loader: %w: %w; install libvulkan1 and a driver", driver.ErrUnavailable, first)
}

type binding struct {
	to   *proc
	name string
}

// bind looks functions up, of the instance if there is one.
func (a *api) bind(bs []binding) {
	f := getFrame()
	defer f.free()
	for _, b := range bs {
		*b.to = proc{b.name, f.call(&a.getProc, a.instance, f.string(b.name))}
	}
}

// bindInstance looks up what an instance has.
func (a *api) bindInstance(instance uintptr) {
	a.instance = instance
	a.bind([]binding{
		{&a.destroyInstance, "vkDestroyInstance"}, {&a.physicalDevices, "vkEnumeratePhysicalDevices"},
		{&a.properties, "vkGetPhysicalDeviceProperties2"}, {&a.memoryProperties, "vkGetPhysicalDeviceMemoryProperties"},
		{&a.memoryProperties2, "vkGetPhysicalDeviceMemoryProperties2"},
		{&a.queueFamilies, "vkGetPhysicalDeviceQueueFamilyProperties"}, {&a.features, "vkGetPhysicalDeviceFeatures2"},
		{&a.deviceExts, "vkEnumerateDeviceExtensionProperties"}, {&a.createDevice, "vkCreateDevice"},
		{&a.deviceProc, "vkGetDeviceProcAddr"},
		{&a.createMessenger, "vkCreateDebugUtilsMessengerEXT"}, {&a.destroyMessenger, "vkDestroyDebugUtilsMessengerEXT"},
	})
}

// calls are the functions of a device.
type calls struct {
	destroyDevice, waitIdle, getQueue, queueSubmit             proc
	allocate, freeMemory, mapMemory, hostPointer               proc
	createBuffer, destroyBuffer, bufferMemory, bindMemory      proc
	createSemaphore, destroySemaphore, waitSemaphores          proc
	createPool, destroyPool, allocCommands, begin, end         proc
	createQueries, destroyQueries, queryResults                proc
	createModule, destroyModule, createPipelines, dropPipeline proc
	createLayout, destroyLayout, createSets, destroySets       proc
	createDescriptors, destroyDescriptors, resetDescriptors    proc
	allocSets, updateSets                                      proc
	createCache, destroyCache, cacheData                       proc

	bindPipeline, bindSets, push, dispatch, dispatchBase     proc
	barrier, copyBuffer, fillBuffer, resetQueries, timestamp proc
}

// bindDevice looks up what a device has. With an error come those functions that
// were found before, the one that ends the device first.
func (a *api) bindDevice(device uintptr) (*calls, error) {
	c := &calls{}
	f := getFrame()
	defer f.free()
	for _, b := range []binding{
		{&c.destroyDevice, "vkDestroyDevice"}, {&c.waitIdle, "vkDeviceWaitIdle"}, {&c.getQueue, "vkGetDeviceQueue"}, {&c.queueSubmit, "vkQueueSubmit"},
		{&c.allocate, "vkAllocateMemory"}, {&c.freeMemory, "vkFreeMemory"}, {&c.mapMemory, "vkMapMemory"},
		{&c.createBuffer, "vkCreateBuffer"}, {&c.destroyBuffer, "vkDestroyBuffer"},
		{&c.bufferMemory, "vkGetBufferMemoryRequirements"}, {&c.bindMemory, "vkBindBufferMemory"},
		{&c.createSemaphore, "vkCreateSemaphore"}, {&c.destroySemaphore, "vkDestroySemaphore"}, {&c.waitSemaphores, "vkWaitSemaphores"},
		{&c.createPool, "vkCreateCommandPool"}, {&c.destroyPool, "vkDestroyCommandPool"}, {&c.allocCommands, "vkAllocateCommandBuffers"},
		{&c.begin, "vkBeginCommandBuffer"}, {&c.end, "vkEndCommandBuffer"},
		{&c.createQueries, "vkCreateQueryPool"}, {&c.destroyQueries, "vkDestroyQueryPool"}, {&c.queryResults, "vkGetQueryPoolResults"},
		{&c.createModule, "vkCreateShaderModule"}, {&c.destroyModule, "vkDestroyShaderModule"},
		{&c.createPipelines, "vkCreateComputePipelines"}, {&c.dropPipeline, "vkDestroyPipeline"},
		{&c.createLayout, "vkCreatePipelineLayout"}, {&c.destroyLayout, "vkDestroyPipelineLayout"},
		{&c.createSets, "vkCreateDescriptorSetLayout"}, {&c.destroySets, "vkDestroyDescriptorSetLayout"},
		{&c.createDescriptors, "vkCreateDescriptorPool"}, {&c.destroyDescriptors, "vkDestroyDescriptorPool"}, {&c.resetDescriptors, "vkResetDescriptorPool"},
		{&c.allocSets, "vkAllocateDescriptorSets"}, {&c.updateSets, "vkUpdateDescriptorSets"},
		{&c.createCache, "vkCreatePipelineCache"}, {&c.destroyCache, "vkDestroyPipelineCache"}, {&c.cacheData, "vkGetPipelineCacheData"},
		{&c.bindPipeline, "vkCmdBindPipeline"}, {&c.bindSets, "vkCmdBindDescriptorSets"}, {&c.push, "vkCmdPushConstants"},
		{&c.dispatch, "vkCmdDispatch"}, {&c.dispatchBase, "vkCmdDispatchBase"},
		{&c.barrier, "vkCmdPipelineBarrier"}, {&c.copyBuffer, "vkCmdCopyBuffer"}, {&c.fillBuffer, "vkCmdFillBuffer"}, {&c.resetQueries, "vkCmdResetQueryPool"}, {&c.timestamp, "vkCmdWriteTimestamp"},
	} {
		*b.to = proc{b.name, f.call(&a.deviceProc, device, f.string(b.name))}
		if b.to.addr == 0 {
			return c, fmt.Errorf("the driver has no %s: %w; install a newer one", b.name, driver.ErrUnavailable)
		}
	}
	c.hostPointer = proc{"vkGetMemoryHostPointerPropertiesEXT", f.call(&a.deviceProc, device, f.string("vkGetMemoryHostPointerPropertiesEXT"))}
	return c, nil
}

// do calls p and turns its result into an error. Results above 0 are no errors.
func (f *frame) do(p *proc, args ...uintptr) error {
	if p.addr == 0 {
		return fmt.Errorf("%s: %w", p.name, driver.ErrUnavailable)
	}
	if code := int32(f.call(p, args...)); code < 0 {
		return &Error{p.name, code}
	}
	return nil
}

// create calls a function that makes something of a device, as described.
func create[T any](f *frame, p *proc, device uintptr, info T) (uint64, error) {
	out := answer[uint64](f)
	err := f.do(p, device, put(f, info), 0, address(out))
	return *out, err
}

// read calls a function that fills in a list, first asking how long it is.
func read[T any](f *frame, p *proc, args ...uintptr) ([]T, error) {
	n := answer[uint32](f)
	args = append(args, address(n), 0)
	for {
		args[len(args)-1] = 0
		if code := int32(f.call(p, args...)); code < 0 {
			return nil, &Error{p.name, code}
		}
		if *n == 0 {
			return nil, nil
		}
		out := make([]T, *n)
		args[len(args)-1] = uintptr(unsafe.Pointer(&out[0]))
		code := int32(f.call(p, args...))
		if code < 0 {
			return nil, &Error{p.name, code}
		}
		if code != incomplete { // it grew in between
			return out[:*n], nil
		}
	}
}

// readVoid is read for a function that returns nothing.
func readVoid[T any](f *frame, p *proc, of uintptr) []T {
	n := answer[uint32](f)
	f.call(p, of, address(n), 0)
	if *n == 0 {
		return nil
	}
	out := make([]T, *n)
	f.call(p, of, address(n), uintptr(unsafe.Pointer(&out[0])))
	return out[:*n]
}

var errVersion = errors.New("it knows less than Vulkan 1.2")

// version writes a version as people do.
func version(v uint32) string { return fmt.Sprintf("%d.%d.%d", v>>22, v>>12&0x3ff, v&0xfff) }

// Types of structures.
const (
	tApplication       = 0
	tInstance          = 1
	tDeviceQueue       = 2
	tDevice            = 3
	tSubmit            = 4
	tMemory            = 5
	tSemaphore         = 9
	tQueryPool         = 11
	tBuffer            = 12
	tShaderModule      = 16
	tPipelineCache     = 17
	tShaderStage       = 18
	tComputePipeline   = 29
	tPipelineLayout    = 30
	tSetLayout         = 32
	tDescriptorPool    = 33
	tSetAllocate       = 34
	tWriteSet          = 35
	tCommandPool       = 39
	tCommandBuffer     = 40
	tBegin             = 42
	tMemoryBarrier     = 46
	tFeatures11        = 49
	tFeatures12        = 51
	tFeatures          = 1000059000
	tProperties        = 1000059001
	tIDProperties      = 1000071004
	tExternalBuffer    = 1000072000
	tSubgroup          = 1000094000
	tMessenger         = 1000128004
	tMaintenance3      = 1000168000
	tImportHost        = 1000178000
	tHostPointer       = 1000178001
	tHostMemory        = 1000178002
	tMemoryProperties2 = 1000059006
	tMemoryBudget      = 1000237000
	tDriverProperties  = 1000196000
	tSemaphoreType     = 1000207002
	tTimelineSubmit    = 1000207003
	tSemaphoreWait     = 1000207004
	tPCIBus            = 1000212000
	apiVersion         = 1<<22 | 2<<12
	wholeSize          = ^uint64(0)
	hostAllocation     = 0x80 // external memory handle type
	stageCompute       = 0x20 // shader stage
	pipeTop            = 0x1
	pipeCompute        = 0x800
	pipeTransfer       = 0x1000
	pipeBottom         = 0x2000
	pipeHost           = 0x4000
	accessShaderRead   = 0x20
	accessShaderWrite  = 0x40
	accessTransferRead = 0x800
	accessTransferWr   = 0x1000
	accessHostRead     = 0x2000
	bufferUsage        = 0x1 | 0x2 | 0x20 // transfer both ways, storage
	storageBuffer      = 7                // descriptor type
	queueCompute       = 2
	queueTransfer      = 4
	queueGraphics      = 1
	memDeviceLocal     = 1
	memHostVisible     = 2
	memHostCoherent    = 4
	memHostCached      = 8
	dispatchBaseFlag   = 0x10
	bindCompute        = 1
	timestampQuery     = 2
)

// Structures, as C lays them out.
type (
	head struct {
		typ  uint32
		_    uint32
		next uintptr
	}
	applicationInfo struct {
		head
		name   uintptr
		_      uint32
		engine uintptr
		_      uint32
		api    uint32
	}
	instanceInfo struct {
		head
		_        uint32
		app      uintptr
		layers   uint32
		layerAt  uintptr
		exts     uint32
		extNames uintptr
	}
	queueInfo struct {
		head
		_, family  uint32
		count      uint32
		priorities uintptr
	}
	deviceInfo struct {
		head
		_, queues  uint32
		queueInfos uintptr
		_          uint32
		_          uintptr
		exts       uint32
		extNames   uintptr
		_          uintptr
	}
	bufferInfo struct {
		head
		_              uint32
		size           uint64
		usage, sharing uint32
		families       uint32
		familyAt       uintptr
	}
	externalBuffer struct {
		head
		handles uint32
	}
	memoryInfo struct {
		head
		size uint64
		kind uint32
	}
	importInfo struct {
		head
		handle uint32
		at     uintptr
	}
	hostPointerInfo struct {
		head
		kinds uint32
	}
	memoryNeeds struct {
		size, _ uint64
		kinds   uint32
	}
	semaphoreInfo struct {
		head
		_ uint32
	}
	semaphoreType struct {
		head
		kind uint32
		_    uint64
	}
	semaphoreWait struct {
		head
		_, count     uint32
		sems, values uintptr
	}
	commandPoolInfo struct {
		head
		flags, family uint32
	}
	commandBufferInfo struct {
		head
		pool     uint64
		_, count uint32
	}
	beginInfo struct {
		head
		flags uint32
		_     uintptr
	}
	submitInfo struct {
		head
		waits       uint32
		waitSems    uintptr
		waitStages  uintptr
		commands    uint32
		commandAt   uintptr
		signals     uint32
		signalledAt uintptr
	}
	timelineSubmit struct {
		head
		waits        uint32
		waitValues   uintptr
		signals      uint32
		signalValues uintptr
	}
	shaderInfo struct {
		head
		_    uint32
		size uint64
		code uintptr
	}
	stageInfo struct {
		head
		_, stage  uint32
		module    uint64
		name      uintptr
		constants uintptr
	}
	pipelineInfo struct {
		head
		flags  uint32
		stage  stageInfo
		layout uint64
		_      uint64
		_      int32
	}
	constantsInfo struct {
		count   uint32
		entries uintptr
		size    uint64
		data    uintptr
	}
	constant struct {
		id, off uint32
		size    uint64
	}
	layoutInfo struct {
		head
		_, sets uint32
		setAt   uintptr
		ranges  uint32
		rangeAt uintptr
	}
	pushRange struct {
		stages, _, size uint32
	}
	setLayoutInfo struct {
		head
		_, count uint32
		bindings uintptr
	}
	setBinding struct {
		index, kind, count, stages uint32
		_                          uintptr
	}
	descriptorPoolInfo struct {
		head
		_, sets uint32
		sizes   uint32
		sizeAt  uintptr
	}
	poolSize struct {
		kind, count uint32
	}
	setAllocate struct {
		head
		pool    uint64
		count   uint32
		layouts uintptr
	}
	writeSet struct {
		head
		set               uint64
		_, _, count, kind uint32
		_, buffer, _      uintptr
	}
	bufferRange struct {
		buffer, off, size uint64
	}
	memoryBarrier struct {
		head
		src, dst uint32
	}
	bufferCopy struct {
		src, dst, size uint64
	}
	queryPoolInfo struct {
		head
		_, kind, count, _ uint32
	}
	cacheInfo struct {
		head
		_    uint32
		size uint64
		data uintptr
	}
	messengerInfo struct {
		head
		_, severity, kind uint32
		callback, data    uintptr
	}
	extensionProperties struct {
		name [256]byte
		_    uint32
	}
	layerProperties struct {
		name [256]byte
		_    uint32
		_    uint32
		_    [256]byte
	}
	deviceProperties struct {
		head
		api, _, vendor, device, kind uint32
		name                         [256]byte
		_                            [16]byte
		_                            uint32
		limits                       [63]uint64
		_                            [5]uint32
	}
	idProperties struct {
		head
		deviceUUID, _ [16]byte
		_             [8]byte
		_, _          uint32
	}
	subgroupProperties struct {
		head
		size, _, _, _ uint32
	}
	maintenance3Properties struct {
		head
		_     uint32
		bytes uint64
	}
	hostMemoryProperties struct {
		head
		align uint64
	}
	driverProperties struct {
		head
		id         uint32
		name, info [256]byte
		_          [4]byte
	}
	pciProperties struct {
		head
		domain, bus, device, function uint32
	}
	memoryProperties struct {
		kinds uint32
		kind  [32]struct{ flags, heap uint32 }
		_     uint32
		heap  [16]struct {
			size  uint64
			flags uint32
		}
	}
	memoryProperties2 struct {
		head
		memoryProperties
	}
	memoryBudget struct {
		head
		budget, usage [16]uint64 // by heap
	}
	queueFamily struct {
		flags, count, timestampBits uint32
		_                           [3]uint32
	}
	features struct {
		head
		core [55]uint32
	}
	features11 struct {
		head
		has [12]uint32
	}
	features12 struct {
		head
		has [47]uint32
	}
)
