package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// message travels over the control socket: requests of the parent, the answers to
// them, and log records. Descriptors may come with it.
type message struct {
	Kind string `json:"k"`
	ID   int    `json:"id,omitempty"` // pairs an answer with its request
	// open
	Driver string `json:"driver,omitempty"`
	Config []byte `json:"config,omitempty"`
	Device int    `json:"device,omitempty"`
	NUMA   int    `json:"numa,omitempty"`
	Arena  int64  `json:"arena,omitempty"` // its size
	// open of a keeper, and attach: what the child is to give up after it, see giveUp.
	Confine     bool  `json:"confined,omitempty"`
	WorkerBytes int64 `json:"maxdata,omitempty"` // bytes of private memory; 0 means no limit
	// attach
	Lanes  []driver.Lane `json:"lanes,omitempty"`
	Board  int64         `json:"board,omitempty"` // offset in the arena
	Member int           `json:"member,omitempty"`
	Warm   bool          `json:"warm,omitempty"` // page-lock memory before it is used
	// make, slab, drop
	Slab  int32 `json:"slab,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// name, join, leave
	Number uint64        `json:"number,omitempty"`
	Name   []byte        `json:"name,omitempty"` // also of the answer to name
	Ranks  int           `json:"ranks,omitempty"`
	Rank   int           `json:"rank,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	// tune, and the answer to tuning
	Tuned []driver.Tuned `json:"tuned,omitempty"`
	// From is the first wanted of tuning, and in the answer where to go on; 0 there
	// when that was all.
	From int `json:"from,omitempty"`
	// answers
	Found []found           `json:"found,omitempty"`
	Tele  *driver.Telemetry `json:"tele,omitempty"`
	Class class             `json:"class,omitempty"`
	Err   string            `json:"err,omitempty"`
	// log
	Level slog.Level `json:"level,omitempty"`
	Text  string     `json:"text,omitempty"`
	Attrs []string   `json:"attrs,omitempty"` // name, value, name, value…
}

// fail makes the message say that what was asked for failed; a nil error leaves it.
func (m *message) fail(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	m.Class, m.Err = classOf(err), text[:min(len(text), maxText)]
}

// found is a device a child has opened.
type found struct {
	Info  machine.Device `json:"info"`
	Slabs bool           `json:"slabs,omitempty"`
	Tele  bool           `json:"tele,omitempty"`
	Stops bool           `json:"stops,omitempty"` // it can stop operations
	// InProcess says that it runs nothing but threads of its process.
	InProcess bool    `json:"inprocess,omitempty"`
	Peak      float64 `json:"peak,omitempty"` // of its memory, bytes per second
	// Probes are those of driver.Traits.
	Probes map[string]graph.Impl `json:"probes,omitempty"`
	// Host and Peers are how it is connected, so far as that is known: to the
	// host, and to other devices by their number.
	Host  *machine.Link        `json:"host,omitempty"`
	Peers map[int]machine.Link `json:"peers,omitempty"`
}

// Kinds of message.
const (
	askOpen   = "open"
	askAttach = "attach"
	askMake   = "make"
	askDrop   = "drop"
	askTele   = "telemetry"
	askExact  = "exact"
	askTuning = "tuning"
	askTune   = "tune"
	askName   = "name"
	askJoin   = "join"
	tellLeave = "leave"
	tellSlab  = "slab"
	tellLog   = "log"
	answer    = "answer"
)

// maxMessage bounds a message: a socket takes about 200 kB at a time.
const maxMessage = 128 << 10

// conn is one end of a control socket.
type conn struct {
	c  *net.UnixConn
	mu sync.Mutex // one message at a time
}

// newPair returns the parent's end and the file that becomes the child's.
func newPair() (*conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("proc: socket pair: %w", err)
	}
	c, err := connOn(fds[0])
	if err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	return c, os.NewFile(uintptr(fds[1]), "control"), nil
}

// connOn takes a socket's descriptor over.
func connOn(fd int) (*conn, error) {
	f := os.NewFile(uintptr(fd), "control")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("proc: control socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, errors.New("proc: control socket: not a Unix socket")
	}
	return &conn{c: u}, nil
}

func (c *conn) close() { _ = c.c.Close() }

// sendTimeout is the time after which the other end is taken for hung if it does not
// read a message.
const sendTimeout = 5 * time.Second

// send sends a message; a descriptor below 0 is none. The descriptor stays the
// caller's.
func (c *conn) send(m *message, fd int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("proc: send %s: %w", m.Kind, err)
	}
	if len(b) > maxMessage {
		return fmt.Errorf("proc: send %s: %d bytes are too many", m.Kind, len(b))
	}
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("proc: send %s: %w", m.Kind, err)
	}
	if _, _, err := c.c.WriteMsgUnix(b, oob, nil); err != nil {
		return fmt.Errorf("proc: send %s: %w", m.Kind, err)
	}
	return nil
}

// maxFDs limits the descriptors read with one message. weft sends one at most; the
// kernel closes those beyond the limit.
const maxFDs = 4

// receive waits for a message, and the descriptor that came with it or -1. One
// goroutine at a time. The error is io.EOF's when the other end is gone.
func (c *conn) receive(buf []byte) (*message, int, error) {
	oob := make([]byte, unix.CmsgSpace(maxFDs*4))
	n, on, _, _, err := c.c.ReadMsgUnix(buf, oob)
	fd := descriptor(oob[:on]) // also of a message that is none
	var m *message
	if err == nil {
		m, err = decode(buf[:n])
	}
	if err != nil {
		closeFD(fd)
		return nil, -1, err
	}
	return m, fd, nil
}

// descriptor returns the last descriptor that came with a message, or -1, and closes
// the others.
func descriptor(oob []byte) int {
	fd := -1
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fd // the kernel writes these: there is none
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, x := range fds {
			closeFD(fd)
			fd = x
		}
	}
	return fd
}

// closeFD closes a descriptor, if it is one.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// Bounds of what a message may hold.
const (
	maxFound = 256     // devices of a driver
	maxLanes = 1 << 10 // of a device
	maxAttrs = 64      // names and values of a log record
)

// decode reads a message and checks what can be checked without knowing what was
// asked.
func decode(b []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: control message: %w", errGarbage, err)
	}
	if len(m.Found) > maxFound || int(m.Class) >= len(classes) || m.From < 0 || m.Bytes < 0 {
		return nil, fmt.Errorf("%w: control message %q", errGarbage, m.Kind)
	}
	for i := range m.Found {
		if f := &m.Found[i]; f.Info.Lanes < 0 || f.Info.Lanes > maxLanes || f.Info.MemBytes < 0 || f.Peak < 0 {
			return nil, fmt.Errorf("%w: a device with %d lanes and %d bytes", errGarbage, f.Info.Lanes, f.Info.MemBytes)
		}
	}
	m.Attrs = m.Attrs[:min(len(m.Attrs), maxAttrs)&^1]
	m.Err = m.Err[:min(len(m.Err), maxText)]
	return m, nil
}
