package serve

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/serve/internal/infer"
)

// Tensors in shared memory, by Triton's system shared memory extension. A client makes a file in
// /dev/shm, as shm_open does, and registers it by a name; requests then say where in it a tensor is.
//
// The server reads and writes such files as files and maps none: a client that makes one shorter gets
// an error, and the server no SIGBUS. What it reads is a copy, so a client that changes it meanwhile
// changes no request that was checked.

const (
	sharedFolder = "/dev/shm"
	maxRegions   = 64
)

// sharedKey is what shm_open takes: the name of a file, with or without a slash in front.
var sharedKey = regexp.MustCompile(`^/?[A-Za-z0-9_][A-Za-z0-9._-]{0,249}$`)

// regions are the registered ones.
type regions struct {
	dir string // "" if shared memory is off

	mu   sync.Mutex
	list map[string]*region
}

// region is a part of a file that requests may refer to.
type region struct {
	api.RegionStatus
	file *os.File
}

// placed is the place of a tensor in a region.
type placed struct {
	region       string
	offset, size int64 // size is -1 if the request does not say it
}

// parameter reads one of a tensor's, if it is about shared memory.
func (p *placed) parameter(r *reader, key string) (ours bool, err error) {
	switch key {
	case "shared_memory_region":
		if p.region, err = r.name(); err == nil && p.region == "" {
			err = r.errorf("shared_memory_region is empty")
		}
	case "shared_memory_offset":
		p.offset, err = r.integer(0, maxSafe)
	case "shared_memory_byte_size":
		p.size, err = r.integer(0, maxSafe)
	default:
		return false, nil
	}
	return true, err
}

// check errs if some of the parameters are there and not all that are needed.
func (p *placed) check() error {
	switch {
	case p.region == "" && (p.offset != 0 || p.size >= 0):
		return fmt.Errorf("shared_memory_offset and shared_memory_byte_size go with shared_memory_region")
	case p.region != "" && p.size < 0:
		return fmt.Errorf("shared_memory_region goes with shared_memory_byte_size")
	}
	return nil
}

var errSharedOff = failf(http.StatusForbidden, "shared memory is off at this server: shared_memory is not set in its configuration")

// register takes a file.
func (m *regions) register(name string, s api.RegionStatus) error {
	switch {
	case m.dir == "":
		return errSharedOff
	case !isName(name):
		return badf("region %s: a name has letters, digits, dots, hyphens and underscores", quoted(name))
	case !sharedKey.MatchString(s.Key):
		return badf("key %s is not the name of a file in %s", quoted(s.Key), sharedFolder)
	case s.Size == 0:
		return badf("byte_size is missing, or 0")
	}
	f, err := safefile.OpenOwn(filepath.Join(m.dir, filepath.Base(s.Key)))
	if err != nil {
		return badf("key %s: %w", quoted(s.Key), err)
	}
	s.Name = name
	g := &region{s, f}
	if err = g.fits(0, s.Size); err == nil {
		err = m.add(g)
	}
	if err != nil {
		_ = f.Close() // nothing was written
	}
	return err
}

func (m *regions) add(g *region) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.list[g.Name] != nil:
		return failf(http.StatusConflict, "region %s is registered already; unregister it first", g.Name)
	case len(m.list) == maxRegions:
		return busyf(http.StatusServiceUnavailable, time.Second, "%d regions are registered, and no more may be", maxRegions)
	}
	if m.list == nil {
		m.list = make(map[string]*region)
	}
	m.list[g.Name] = g
	return nil
}

// unregister lets a region go, or all for "". Requests that read it meanwhile fail.
func (m *regions) unregister(name string) error {
	if m.dir == "" {
		return errSharedOff
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, g := range m.list {
		if name == "" || n == name {
			_ = g.file.Close() // it was not written through a buffer
			delete(m.list, n)
		}
	}
	return nil
}

// status lists regions, or one, by name.
func (m *regions) status(name string) ([]api.RegionStatus, error) {
	if m.dir == "" {
		return nil, errSharedOff
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []api.RegionStatus{}
	for n, g := range m.list {
		if name == "" || n == name {
			out = append(out, g.RegionStatus)
		}
	}
	if name != "" && len(out) == 0 {
		return nil, failf(http.StatusNotFound, "no region %s is registered", quoted(name))
	}
	slices.SortFunc(out, func(a, b api.RegionStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// find returns the region of a tensor, in which it fits.
func (m *regions) find(p placed) (*region, error) {
	if m.dir == "" {
		return nil, errSharedOff
	}
	m.mu.Lock()
	g := m.list[p.region]
	m.mu.Unlock()
	if g == nil {
		return nil, badf("no region %s is registered", quoted(p.region))
	}
	return g, g.fits(p.offset, p.size)
}

// fits errs unless a part of a region is within it and within its file as it is now.
func (g *region) fits(offset, size int64) error {
	if offset > g.Size || size > g.Size-offset {
		return badf("region %s has %d bytes: %d from byte %d on do not fit", g.Name, g.Size, size, offset)
	}
	info, err := g.file.Stat()
	if err != nil {
		return badf("region %s: %w", g.Name, err)
	}
	if end := g.Offset + offset + size; end > info.Size() {
		return badf("region %s: its file has %d bytes, and byte %d is wanted", g.Name, info.Size(), end)
	}
	return nil
}

// fetch reads the inputs of a request that are in shared memory, and checks that its outputs fit
// there. The caller calls done when it needs them no more.
func (s *Server) fetch(ctx context.Context, q *inference) (done func(), err error) {
	sum := int64(0)
	for _, p := range q.from {
		sum += max(p.size, 0)
		if p.size > int64(s.limits.Body) || sum > int64(s.limits.Body) {
			return nil, failf(http.StatusRequestEntityTooLarge, "the inputs have more than %d bytes, which are the most", s.limits.Body)
		}
	}
	h := s.hold(ctx)
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if err := h.take(sum); err != nil {
		return nil, err
	}
	for i, p := range q.from {
		if p.region == "" {
			continue
		}
		g, err := s.regions.find(p)
		if err != nil {
			return nil, err
		}
		data := make([]byte, p.size)
		if n, err := g.file.ReadAt(data, g.Offset+p.offset); n < len(data) { // it became shorter, or was unregistered
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, badf("input %s: region %s: %w", quoted(q.Inputs[i].Name), g.Name, err)
		}
		q.Inputs[i].Data = data
	}
	for _, p := range q.into {
		if _, err := s.regions.find(p); err != nil {
			return nil, err
		}
	}
	return h.release, nil
}

// deposit writes the outputs that are wanted in shared memory there.
func (s *Server) deposit(q *inference, outputs []infer.Tensor) error {
	for i := range outputs {
		t := &outputs[i]
		p, ok := q.into[t.Name]
		if !ok {
			continue
		}
		if int64(len(t.Data)) > p.size {
			return badf("output %s has %d bytes, and shared_memory_byte_size is %d", quoted(t.Name), len(t.Data), p.size)
		}
		p.size = int64(len(t.Data))
		g, err := s.regions.find(p)
		if err != nil {
			return err
		}
		if _, err := g.file.WriteAt(t.Data, g.Offset+p.offset); err != nil {
			return badf("output %s: region %s: %w", quoted(t.Name), g.Name, err)
		}
	}
	return nil
}

func (s *Server) registerRegion(w http.ResponseWriter, r *http.Request) error {
	var st api.RegionStatus
	err := s.small(w, r, func(in *reader) error {
		return in.fields(map[string]func() error{
			"key":       func() (err error) { st.Key, err = in.name(); return err },
			"offset":    func() (err error) { st.Offset, err = in.integer(0, maxSafe); return err },
			"byte_size": func() (err error) { st.Size, err = in.integer(1, maxSafe); return err },
		})
	})
	if err == nil {
		err = s.regions.register(r.PathValue("region"), st)
	}
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, struct{}{})
	return nil
}

func (s *Server) unregisterRegion(w http.ResponseWriter, r *http.Request) error {
	err := s.small(w, r, func(in *reader) error { return in.fields(nil) })
	if err == nil {
		err = s.regions.unregister(r.PathValue("region"))
	}
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, struct{}{})
	return nil
}

func (s *Server) regionStatus(w http.ResponseWriter, r *http.Request) error {
	list, err := s.regions.status(r.PathValue("region"))
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, list)
	return nil
}
