package driver

// Finding is one thing a backend needs to work here, and how it stands.
type Finding struct {
	What string // the thing, as "libcuda.so.1" or "device access"
	OK   bool
	Says string // what was found, or what is wrong
	Fix  string // what the user can do about it; empty when there is nothing to do
}

// Examiner is the optional ability of a Driver to say why it works here or does
// not, for weft doctor. Examine opens no device and takes no more than a second;
// it is called before or after Open, never during it. A driver that wraps
// another hands its findings on.
type Examiner interface {
	Examine() []Finding
}
