package cuda

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

var nvrtcNames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}

// nvrtc compiles CUDA C. It is opened when a kernel first needs it.
type nvrtc struct {
	once sync.Once
	err  error

	version string // of the library; empty if it does not tell, and then nothing is kept in files

	errorString, create, compile, destroy        proc
	logSize, log, cubinSize, cubin, ptxSize, ptx proc
}

func (n *nvrtc) open(folders []string) error {
	n.once.Do(func() {
		lib, err := open(folders, nvrtcNames...)
		if err != nil {
			n.err = fmt.Errorf("CUDA C needs NVRTC: %w", err)
			return
		}
		for _, b := range []struct {
			to   *proc
			name string
		}{
			{&n.errorString, "nvrtcGetErrorString"}, {&n.create, "nvrtcCreateProgram"}, {&n.compile, "nvrtcCompileProgram"},
			{&n.destroy, "nvrtcDestroyProgram"}, {&n.logSize, "nvrtcGetProgramLogSize"}, {&n.log, "nvrtcGetProgramLog"},
			{&n.cubinSize, "nvrtcGetCUBINSize"}, {&n.cubin, "nvrtcGetCUBIN"}, {&n.ptxSize, "nvrtcGetPTXSize"}, {&n.ptx, "nvrtcGetPTX"},
		} {
			if *b.to = lib.bind(b.name); b.to.addr == 0 {
				n.err = fmt.Errorf("%s has no %s; install a newer one", lib.path, b.name)
			}
		}
		if version := lib.bind("nvrtcVersion"); version.addr != 0 && n.err == nil {
			f := getFrame()
			defer f.free()
			if n.do(f, &version, f.at(0), f.at(1)) == nil {
				n.version = fmt.Sprintf("%d.%d", f.i32(0), f.i32(1))
			}
		}
	})
	return n.err
}

func (n *nvrtc) do(f *frame, p *proc, args ...uintptr) error {
	code := int32(f.call(p, args...))
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: NVRTC error %d: %s", p.name, code, cString(f.call(&n.errorString, uintptr(code)), 256))
}

// bytes reads something NVRTC first tells the size of.
func (n *nvrtc) bytes(f *frame, size, get *proc, program uintptr) ([]byte, error) {
	if err := n.do(f, size, program, f.at(1)); err != nil {
		return nil, err
	}
	b := make([]byte, f.out[1])
	if len(b) == 0 {
		return nil, nil
	}
	return b, n.do(f, get, program, f.bytes(b))
}

// compile turns CUDA C into machine code for the device, once for all devices of
// its architecture.
func (d *device) compile(key [32]byte, source []byte) (image, error) {
	d.images.mu.Lock()
	defer d.images.mu.Unlock()
	if b, ok := d.images.by[key]; ok {
		return b, nil
	}
	if err := d.nvrtc.open(d.o.LibraryPath); err != nil {
		return image{}, err
	}
	file := d.imageFile(key)
	if bytes.Contains(source, []byte("#include")) {
		file = "" // what it includes is no part of the key and may change
	}
	made, ok := image{}, false
	if file != "" {
		made, ok = readImage(file, d.log)
	}
	if !ok {
		var err error
		if made, err = d.nvrtc.build(source, d.info.Arch); err != nil {
			return image{}, err
		}
		d.images.compiled++
		if file != "" {
			made.keep(file, d.log)
		}
	}
	if d.images.by == nil {
		d.images.by = make(map[[32]byte]image)
	}
	d.images.by[key] = made
	return made, nil
}

// build has NVRTC compile a source for an architecture.
func (n *nvrtc) build(source []byte, arch string) (made image, err error) {
	f := getFrame()
	defer f.free()
	if err := n.do(f, &n.create, f.at(0), f.string(string(source)), f.string("kernel.cu"), 0, 0, 0); err != nil {
		return made, err
	}
	program := uintptr(f.out[0])
	defer func() { _ = n.do(f, &n.destroy, put(f, 0, program)) }()
	option := f.string("--gpu-architecture=" + arch)
	if err := n.do(f, &n.compile, program, 1, put(f, 2, option)); err != nil {
		log, _ := n.bytes(f, &n.logSize, &n.log, program) // the first error says more
		return made, fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(strings.TrimRight(string(log), "\x00")), " "))
	}
	if made.code, err = n.bytes(f, &n.cubinSize, &n.cubin, program); err != nil {
		return made, err
	}
	// Machine code tells the sizes of parameters, PTX also which are structures.
	made.ptx, err = n.bytes(f, &n.ptxSize, &n.ptx, program)
	if len(made.code) == 0 {
		made.code = made.ptx
		if err != nil {
			return made, err
		}
	}
	return made, nil
}
