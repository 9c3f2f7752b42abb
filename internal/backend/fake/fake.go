// Package fake is a driver whose devices misbehave on command, for tests of
// what stands above the contract: they have memory of their own, run registered
// Go functions on it for real, and follow a script that delays operations, fails
// them, hangs, runs out of memory, loses devices and brings them back.
//
// What is scripted is said to be: devices are called "fake:0" and their backend
// is "fake". Nothing here is ever part of a default, and no figure taken on such
// a device says anything about hardware.
package fake

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weft-run/weft/experimental/driver"
)

// Options say what devices there are and what happens to them. Parse makes them
// from text, all but Funcs and Natives.
type Options struct {
	// Devices is the number of devices; 0 means 1.
	Devices int
	// MemBytes is the memory of each; 0 means 1 GiB.
	MemBytes int64
	// Lanes is the number of launches each device runs at once; 0 means 1.
	Lanes int
	// Peer lets devices copy directly from one another.
	Peer bool
	// Joins is the library by which devices take part in native collectives, as
	// machine.Device says it; empty means they do not.
	Joins string
	// Natives are the routines of that library by name, called once for all
	// members: with the arguments of each by its rank, none for ranks that take
	// no part, and the step's parameters.
	Natives map[string]func(args [][][]byte, params []byte) error
	// Script holds the events, which happen as their conditions come true.
	Script Script
	// Funcs are the kernels by name. An implementation in any dialect of a real
	// backend stands for the function registered under its Entry.
	Funcs map[string]driver.Func
}

const (
	maxDevices = 64
	maxLanes   = 16
	maxBytes   = 1 << 40
)

// Validate reports the first mistake in the options, wrapping ErrScript.
func (o *Options) Validate() error {
	switch {
	case o.Devices < 0 || o.Devices > maxDevices:
		return fmt.Errorf("%w: %d devices; use 1 to %d", ErrScript, o.Devices, maxDevices)
	case o.Lanes < 0 || o.Lanes > maxLanes:
		return fmt.Errorf("%w: %d lanes; use 1 to %d", ErrScript, o.Lanes, maxLanes)
	case o.MemBytes < 0 || o.MemBytes > maxBytes:
		return fmt.Errorf("%w: %d bytes of memory; use 1 to %d", ErrScript, o.MemBytes, int64(maxBytes))
	}
	for i := range o.Script {
		if err := o.Script[i].validate(max(o.Devices, 1)); err != nil {
			return fmt.Errorf("%w: rule %d (%s): %w", ErrScript, i+1, o.Script[i], err)
		}
	}
	return nil
}

// Driver makes the devices. Its own methods are safe for concurrent use.
type Driver struct {
	o  Options
	mu sync.Mutex
	// open are the devices of every Open that are not closed.
	open []*device
	// meetings are communicators by name, names the number of those made.
	meetings map[string]*meeting
	names    int
}

// New returns a driver that follows the options.
func New(o Options) (*Driver, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("fake: %w", err)
	}
	o.Devices, o.Lanes = max(o.Devices, 1), max(o.Lanes, 1)
	if o.MemBytes == 0 {
		o.MemBytes = 1 << 30
	}
	return &Driver{o: o}, nil
}

// Name is "fake".
func (d *Driver) Name() string { return "fake" }

// Open returns the devices, with the script at its beginning.
func (d *Driver) Open(context.Context, *slog.Logger) ([]driver.Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []driver.Device
	for i := range d.o.Devices {
		dev := newDevice(d, i)
		d.open = append(d.open, dev)
		out = append(out, dev)
	}
	return out, nil
}

// Play adds rules, written as in a script, to the devices that are open: what
// has no condition happens before Play returns.
func (d *Driver) Play(text string) error {
	o, err := Parse(text)
	if err != nil {
		return err
	}
	if o.Devices != 0 || o.MemBytes != 0 || o.Lanes != 0 || o.Peer || o.Joins != "" {
		return fmt.Errorf("fake: %w: devices, memory, lanes, peer and joins cannot change while devices are open", ErrScript)
	}
	o.Devices = d.o.Devices
	if err := o.Validate(); err != nil {
		return fmt.Errorf("fake: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dev := range d.open {
		dev.follow(o.Script)
	}
	return nil
}

// forget takes a closed device off the list.
func (d *Driver) forget(dev *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, o := range d.open {
		if o == dev {
			d.open = append(d.open[:i], d.open[i+1:]...)
			return
		}
	}
}
