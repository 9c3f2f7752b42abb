package vulkan

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
)

// budgetExtension tells how much of a heap a process may use and uses.
const budgetExtension = "VK_EXT_memory_budget"

// Telemetry reads how full the heap is that buffers are in. Vulkan knows nothing else of a
// device's condition.
func (d *device) Telemetry() (driver.Telemetry, error) {
	if err := d.dead.Load(); err != nil {
		return driver.Telemetry{}, fmt.Errorf("vulkan: telemetry of %s: %w", d.info.Name, *err)
	}
	t := driver.Telemetry{Util: -1, MemUsed: -1, MemBytes: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemErrors: -1, Faults: -1}
	if d.closed.Load() || !slices.Contains(d.exts, budgetExtension) {
		return t, nil
	}
	f := getFrame()
	defer f.free()
	budget := answer[memoryBudget](f)
	props := answer[memoryProperties2](f)
	budget.head = head{typ: tMemoryBudget}
	props.head = head{typ: tMemoryProperties2, next: address(budget)}
	f.call(&d.api.memoryProperties2, d.phys, address(props))
	h := d.memory.heap
	t.MemUsed, t.MemBytes = used(props.heap[h].size, budget.budget[h], budget.usage[h])
	return t, nil
}

// used returns the share and bytes of a heap in use by all programs. The budget is what this process
// may use in total; a driver may report one above the size of the heap.
func used(size, budget, usage uint64) (part float64, bytes int64) {
	if size == 0 || size > 1<<62 || budget == 0 {
		return -1, -1
	}
	free := min(budget-min(usage, budget), size)
	return 1 - float64(free)/float64(size), int64(size)
}
