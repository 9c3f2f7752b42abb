//go:build !linux

package host

// Read knows no limits on this platform.
func Read() Limits { return Limits{} }

// ReadProcessor knows nothing on this platform.
func ReadProcessor() (Processor, bool) { return Processor{}, false }
