package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/probe"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/machine"
)

// errCalibration is wrapped by every error about the content of a calibration file.
var errCalibration = errors.New("bad calibration file")

// Kinds of files.
const (
	calibrations = "calibration"
	// estimates are calibrations of busy devices: good enough to tell which of them is
	// faster, and for nothing else.
	estimates = "estimate"
	histories = "history"
)

// calibrationVersion is raised when saved figures change their meaning.
const calibrationVersion = 2

// maxFile is the most a file of the cache may have. A full history (4,096 shapes) takes
// less than 4 MiB.
const maxFile = 16 << 20

// cache keeps what was learned about a set of devices in files. All methods
// take nil for a cache that is off; none of them fails, since whatever is
// missing is measured or learned again.
type cache struct {
	dir string
	key string // what the devices are, and everything that changes their speed
	log *slog.Logger
}

// newCache returns the cache of the devices of a machine, nil when dir is empty.
func newCache(dir string, m *machine.Machine, log *slog.Logger) *cache {
	if dir == "" {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "probes %s%s\n", probe.Hash(), build())
	for i := range m.Devices {
		d := &m.Devices[i]
		fmt.Fprintf(&b, "%s %s %s, driven by %s, %v W, shares %q\n", d.Name, d.Identity(), d.UUID, d.Driver, d.PowerWatts, d.Resources)
	}
	return &cache{dir, b.String(), log}
}

// build says how the program was built as far as that changes its speed: a test
// under the race detector must not teach what others rely on.
func build() string {
	out := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "-race", "-cover", "-gcflags", "-tags", "GOAMD64":
				out += " " + s.Key + "=" + s.Value
			}
		}
	}
	return out
}

func (c *cache) path(kind string) string {
	sum := sha256.Sum256([]byte(c.key))
	return filepath.Join(c.dir, kind+"-"+hex.EncodeToString(sum[:12])+".json")
}

// read returns a file of the cache, nil when there is none.
func (c *cache) read(kind string) []byte {
	if c == nil {
		return nil
	}
	b, err := safefile.ReadOwn(c.path(kind), maxFile)
	switch {
	case errors.Is(err, safefile.ErrUnsafe), errors.Is(err, safefile.ErrKind), errors.Is(err, safefile.ErrSize):
		c.bad(kind, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		c.log.Warn("cache not read", "err", err)
	}
	return b
}

// write puts a file into the cache, whole or not at all: another process may
// read it at the same time or write its own.
func (c *cache) write(kind string, data []byte) {
	if c == nil {
		return
	}
	if err := safefile.Write(c.path(kind), data); err != nil {
		c.log.Warn("cache not written", "err", err)
	}
}

// remove takes a file out of the cache.
func (c *cache) remove(kind string) {
	if c == nil {
		return
	}
	if err := os.Remove(c.path(kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("cache not cleared", "err", err)
	}
}

// bad tells that a file is of no use and takes it out of the cache: what would
// replace it may not be worth keeping, and a warning is worth giving once.
func (c *cache) bad(kind string, err error) {
	c.log.Warn("cache file removed; it will be made again", "file", c.path(kind), "err", err)
	c.remove(kind)
}

// recall fills in what was measured of a machine before, as the first of the kinds
// of files named that is there has it, and reports whether there was anything.
func (c *cache) recall(m *machine.Machine, kinds ...string) bool {
	for _, kind := range kinds {
		b := c.read(kind)
		if b == nil {
			continue
		}
		err := decodeCalibration(b, c.key, m)
		if err == nil {
			return true
		}
		c.bad(kind, err)
	}
	return false
}

// calibration has the measured rates of a machine, in the form of files.
type calibration struct {
	Version   int                `json:"version"`
	Key       string             `json:"key"`
	HostBPS   float64            `json:"host_bps"`
	Rates     []machine.Rates    `json:"rates"` // by device
	Links     []machine.Link     `json:"links"`
	Resources []machine.Resource `json:"resources"`
}

func encodeCalibration(m *machine.Machine, key string) []byte {
	c := calibration{Version: calibrationVersion, Key: key, HostBPS: m.HostBPS, Links: m.Links, Resources: m.Resources}
	for i := range m.Devices {
		c.Rates = append(c.Rates, m.Devices[i].Rates)
	}
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		panic(err) // rates are finite: they were measured or validated
	}
	return append(b, '\n')
}

// decodeCalibration writes what a file holds into the machine it was made for.
// On an error, which wraps errCalibration, the machine is as it was.
func decodeCalibration(src []byte, key string, m *machine.Machine) error {
	var c calibration
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("%w: %w", errCalibration, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows its end", errCalibration)
	}
	switch {
	case c.Version != calibrationVersion:
		return fmt.Errorf("%w: version %d, and this weft reads %d", errCalibration, c.Version, calibrationVersion)
	case c.Key != key || len(c.Rates) != len(m.Devices):
		return fmt.Errorf("%w: it was made for other devices", errCalibration)
	}
	n := *m
	n.HostBPS, n.Links, n.Resources = c.HostBPS, c.Links, c.Resources
	n.Devices = slices.Clone(m.Devices)
	for i := range n.Devices {
		n.Devices[i].Rates = c.Rates[i]
	}
	if err := n.Validate(); err != nil {
		return fmt.Errorf("%w: %w", errCalibration, err)
	}
	*m = n
	return nil
}
