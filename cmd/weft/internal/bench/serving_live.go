package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/serve/load"
	"github.com/weft-run/weft/workload/reservoir"
)

// measure serves the model by a profile on the devices here, and sends it a load.
func (v *serving) measure(ctx context.Context, c serve.Config, m *reservoir.Model, pace load.Pace) (row servingRow, err error) {
	rt, err := v.open(ctx, &c)
	if err != nil {
		return row, err
	}
	defer rt.Close()
	dir, err := os.MkdirTemp("", "weft-bench")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	if err := putModel(filepath.Join(dir, "reservoir"), m); err != nil {
		return row, err
	}
	c.Models, c.Listen, c.GRPC = dir, "127.0.0.1:0", "none"
	s, err := serve.Open(rt, c, serve.Options{})
	if err != nil {
		return row, err
	}
	go s.Serve(context.WithoutCancel(ctx)) // Close returns its error
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Loaded(ctx); err != nil {
		return row, err
	}
	return v.loadOn(ctx, c, rt, s, pace)
}

// loadOn sends the load and makes a row of it.
func (v *serving) loadOn(ctx context.Context, c serve.Config, rt *weft.Runtime, s *serve.Server, pace load.Pace) (row servingRow, err error) {
	target, err := load.ParseTarget(s.URL())
	if err != nil {
		return row, err
	}
	client, err := openLoad(ctx, load.Options{Target: target, Binary: true, Connections: v.connections, Seed: pace.Seed})
	if err != nil {
		return row, err
	}
	before, stats, began := rt.Metrics(), s.Models()[0], time.Now()
	r, err := client.Run(ctx, pace)
	if err != nil {
		return row, err
	}
	took, after, then := time.Since(began), rt.Metrics(), s.Models()[0]
	made, err := strconv.Atoi(c.Runtime["max_devices"])
	if err != nil {
		return row, fmt.Errorf("max_devices: %w", err)
	}
	var names []string
	busy := 0.0
	for i, d := range after.Devices {
		names = append(names, d.Name)
		busy += (d.Busy - before.Devices[i].Busy).Seconds()
	}
	row = servingRow{
		Kind: "measured", Profile: c.Profile, On: strings.Join(names, ","), Devices: len(names), Made: made, Bins: v.bins,
		Rate: r.Rate, Seconds: r.Seconds, Arrived: r.Arrived, Answered: r.Answered, Refused: r.Refused,
		Reached: r.Reached, P50: r.Latency.P50 * 1e3, P95: r.Latency.P95 * 1e3, P99: r.Latency.P99 * 1e3, Most: r.Latency.Max * 1e3,
		GoalMS:      time.Duration(c.Batch.Deadline).Seconds() * 1e3,
		Utilisation: busy / (took.Seconds() * float64(len(names))),
		Batch:       float64(then.Items-stats.Items) / float64(max(then.Batches-stats.Batches, 1)),
		Bottleneck:  r.Bottleneck,
	}
	for _, f := range r.Failures {
		if f.Expired() {
			row.Expired += f.Count
		}
	}
	row.Failed = r.Arrived - r.Answered - r.Refused - row.Expired
	return row, nil
}

// openLoad opens the load. The one request that it sends first may be refused or too late, on a
// machine that is busy; it is sent again for a while.
func openLoad(ctx context.Context, o load.Options) (*load.Client, error) {
	for attempt := 1; ; attempt++ {
		client, err := load.Open(ctx, o)
		if err == nil || attempt == 20 || ctx.Err() != nil {
			return client, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open opens the devices for a profile, without what the system does not permit.
func (v *serving) open(ctx context.Context, c *serve.Config) (*weft.Runtime, error) {
	own, err := v.Options()
	if err != nil {
		return nil, err
	}
	c.Devices = own.Devices
	rt, note, err := c.Open(ctx, func(ctx context.Context, o weft.Options) (*weft.Runtime, error) { return v.Open(ctx, o, v.stderr) })
	if note != "" {
		fmt.Fprintln(v.stderr, terminal.OneLine(note))
	}
	return rt, err
}

// putModel makes the folder of a model.
func putModel(dir string, m *reservoir.Model) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return err
	}
	_, err = m.WriteTo(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "model.yaml"), []byte("kind: reservoir\nfile: model.safetensors\nwarmup: 20\n"), 0o600)
}
