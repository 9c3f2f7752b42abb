package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
)

var (
	errCrashed = errors.New("crashed")
	errFull    = fmt.Errorf("%w: no space left on device", ErrFull)
)

// disk is a folder on a machine that crashes. What was not synced may be lost after a crash,
// in any part: of the changes of names any subset takes place, and of what was written to a
// file some of it, with zeros or other bytes where the rest was to be.
type disk struct {
	names   map[string]*inode // as the process sees it
	durable map[string]*inode
	pending []func(names map[string]*inode) // changes of names since the last sync
	ops     int                             // operations so far
	crashAt int                             // the operation that crashes; -1 for none
	failAt  int                             // the operation that fails for lack of room; -1 for none
	room    int                             // bytes that all files may have; 0 for any number
	dead    bool
	opened  int // files that were read
	open    int // of them now
	most    int // at a time
	tear    *rand.Rand
}

// inode is a file: what was written, and what of it is certain to be there after a crash.
type inode struct{ content, synced []byte }

func newDisk(seed uint64) *disk {
	return &disk{names: map[string]*inode{}, durable: map[string]*inode{}, crashAt: -1, failAt: -1, tear: rand.New(rand.NewPCG(seed, 1))}
}

// step counts an operation. One that crashes is not done.
func (d *disk) step() error {
	d.ops++
	if d.dead || d.ops-1 == d.crashAt {
		d.dead = true
		return errCrashed
	}
	if d.ops-1 == d.failAt {
		return errFull
	}
	return nil
}

func (d *disk) change(f func(names map[string]*inode)) {
	f(d.names)
	d.pending = append(d.pending, f)
}

func (d *disk) Create(name string, size int64) (File, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, fs.ErrExist
	}
	n := &inode{}
	d.change(func(names map[string]*inode) { names[name] = n })
	return &diskFile{d, n, size > 0}, nil
}

func (d *disk) Open(name string) (Reader, int64, error) {
	n := d.names[name]
	if n == nil {
		return nil, 0, fs.ErrNotExist
	}
	d.opened++
	d.open++
	d.most = max(d.most, d.open)
	return diskReader{n.content, d}, int64(len(n.content)), nil
}

func (d *disk) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	n := d.names[from]
	if n == nil {
		return fs.ErrNotExist
	}
	d.change(func(names map[string]*inode) {
		names[to] = n
		delete(names, from)
	})
	return nil
}

func (d *disk) Remove(name string) error {
	if err := d.step(); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	d.change(func(names map[string]*inode) { delete(names, name) })
	return nil
}

func (d *disk) List() (out []string, err error) {
	for name := range d.names {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

func (d *disk) Sync() error {
	if err := d.step(); err != nil {
		return err
	}
	for _, f := range d.pending {
		f(d.durable)
	}
	d.pending = nil
	return nil
}

// restart returns the folder as the next process finds it after a crash.
func (d *disk) restart() *disk {
	out := newDisk(d.tear.Uint64())
	for _, f := range d.pending {
		if d.tear.IntN(2) == 0 {
			f(d.durable)
		}
	}
	for name, n := range d.durable {
		c := torn(n, d.tear)
		left := &inode{content: c, synced: slices.Clone(c)}
		out.names[name], out.durable[name] = left, left
	}
	return out
}

// torn is what is left of a file: what was synced, and of the rest any part.
func torn(n *inode, tear *rand.Rand) []byte {
	out := slices.Clone(n.content[:len(n.synced)+tear.IntN(len(n.content)-len(n.synced)+1)])
	for at := len(n.synced); at < len(out); at += 512 {
		sector := out[at:min(at+512, len(out))]
		switch tear.IntN(3) {
		case 0:
			clear(sector)
		case 1:
			for i := range sector {
				sector[i] = byte(tear.Uint32())
			}
		}
	}
	return out
}

type diskFile struct {
	d       *disk
	n       *inode
	aligned bool
}

func (f *diskFile) Write(p []byte) (int, error) {
	if f.aligned && (len(p)%AlignBytes != 0 || len(p) == 0) {
		return 0, errors.New("a write that is not aligned")
	}
	err := f.d.step()
	if used := len(p); err == nil && f.d.room > 0 {
		for _, n := range f.d.names {
			used += len(n.content)
		}
		if used > f.d.room {
			err = errFull
		}
	}
	if err != nil {
		half := p[:len(p)/2] // some of it gets there
		f.n.content = append(f.n.content, half...)
		return len(half), err
	}
	f.n.content = append(f.n.content, p...)
	return len(p), nil
}

func (f *diskFile) Sync() error {
	if err := f.d.step(); err != nil {
		return err
	}
	f.n.synced = slices.Clone(f.n.content)
	return nil
}

func (f *diskFile) Close() error { return nil }

type diskReader struct {
	b []byte
	d *disk
}

func (r diskReader) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at >= int64(len(r.b)) {
		return 0, io.EOF
	}
	n := copy(p, r.b[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r diskReader) Close() error { r.d.open--; return nil }
