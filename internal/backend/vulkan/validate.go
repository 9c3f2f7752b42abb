package vulkan

import (
	"log/slog"
	"sync"
	"unsafe"
)

// hearers are the platforms that listen to a validation layer, by the number it
// calls them by. A callback from C cannot be taken back, so there is one for all.
var hearers sync.Map // of uintptr to *slog.Logger

// heard is the callback of the layer, with severity, kind, the message, and a
// hearer.
var heard = sync.OnceValue(func() uintptr {
	return callback(func(severity, _ uintptr, message unsafe.Pointer, hearer uintptr) uintptr {
		const textAt = 40 // of pMessage in VkDebugUtilsMessengerCallbackDataEXT
		at := *(*uintptr)(unsafe.Add(message, textAt))
		if log, ok := hearers.Load(hearer); ok && at != 0 {
			const longest = 1 << 12
			log.(*slog.Logger).Warn("vulkan validation", "severity", severity, "says", text(unsafe.Slice((*byte)(pointer(at)), longest)))
		}
		return 0
	})
})

func (p *platform) messengerID() uintptr { return p.api.instance }

// listen has the layer's warnings and errors logged.
func (p *platform) listen(f *frame) (err error) {
	const warnings, errors, validation, performance = 0x100, 0x1000, 0x2, 0x4
	hearers.Store(p.messengerID(), p.log)
	p.messenger, err = create(f, &p.api.createMessenger, p.api.instance, messengerInfo{
		head: head{typ: tMessenger}, severity: warnings | errors, kind: validation | performance, callback: heard(), data: p.messengerID(),
	})
	if err != nil {
		hearers.Delete(p.messengerID())
	}
	return err
}
