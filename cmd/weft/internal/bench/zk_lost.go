package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// others proves on further sets of devices.
func (r *zkRun) others() error {
	for _, set := range r.o.sets {
		if err := r.other(set); err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
	}
	return nil
}

func (r *zkRun) other(set string) error {
	rt, err := r.m.open(func(o *weft.Options) { o.Devices = set })
	if err != nil {
		return err
	}
	defer rt.Close()
	j, err := r.newJob()
	if err != nil {
		return err
	}
	defer j.Release()
	var solved, kernels []float64
	for range 1 + r.m.repeat {
		_, s, proof, err := j.prove(r.m, rt)
		if err != nil {
			return err
		}
		if !bytes.Equal(proof, r.want) {
			return errOtherBytes
		}
		if err := j.Check(); err != nil {
			return err
		}
		solved, kernels = append(solved, s), append(kernels, busy(j.rep))
	}
	r.rt = rt
	r.add(zkRow{What: "groth16, from the solved circuit", Size: r.keys.Circuit.GetNbConstraints(), Devices: set, Same: true}, solved[1:], kernels[1:], nil)
	return nil
}

// zkStages are the stages of a proof, with the beginnings of their tasks' names.
var zkStages = []struct{ name, task string }{
	{"transforms", "transform "}, {"quotient", "quotient"}, {"sums in G1", "A, "}, {"sums in G2", "B2, "}, {"sum of the quotient", "Z, "},
}

// losses kills a worker in each stage.
func (r *zkRun) losses() (err error) {
	if r.o.lose == "" {
		return nil
	}
	o := r.m.options
	o.Devices, o.NoCalibrate = r.o.lose, true
	rig, err := chaos.Open(r.m.ctx, o, chaos.Workers{})
	if err != nil {
		return terminal.Usage(err)
	}
	defer rig.Close()
	if len(rig.Devices()) < 2 {
		return terminal.Usagef("--lose %s: another device must take over; name two, as in cuda:0/2", r.o.lose)
	}
	j, err := r.newJob()
	if err != nil {
		return err
	}
	defer j.Release()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, stage := range zkStages {
		row, err := r.lose(rig, j, stage.name, stage.task, rnd)
		if err != nil {
			return fmt.Errorf("a worker lost in %s: %w", stage.name, err)
		}
		r.rt = rig.Runtime
		r.add(row, []float64{row.Seconds}, nil, nil)
	}
	return nil
}

// loseTries is the largest number of proofs with a kill in a stage, until one hits a worker that has a task.
const loseTries = 5

// lose proves without a loss, from which follows when a stage is in its middle, and then with one. A
// stage that is too short to be hit has a row that says so.
func (r *zkRun) lose(rig *chaos.Rig, j *provenJob, name, task string, rnd *rand.Rand) (zkRow, error) {
	row := zkRow{What: "groth16, from the solved circuit", Size: r.keys.Circuit.GetNbConstraints(), Devices: r.o.lose, Lost: name, Same: true}
	for range loseTries {
		var usual float64
		var after time.Duration
		for range 2 {
			if err := r.settled(rig); err != nil {
				return row, err
			}
			var err error
			if usual, after, err = r.middle(rig, j, task); err != nil {
				return row, err
			}
		}
		before := rig.Metrics().Losses
		struck := make(chan error, 1)
		j.begun = func(time.Time) {
			time.AfterFunc(after, func() {
				_, err := chaos.Any(rnd, chaos.Kill)
				struck <- err
			})
		}
		_, s, proof, err := j.prove(r.m, rig.Runtime)
		j.begun = nil
		if err != nil {
			return row, err
		}
		if err := <-struck; err != nil {
			return row, err
		}
		if !bytes.Equal(proof, r.want) {
			return row, errOtherBytes
		}
		if rep := j.rep; rig.Metrics().Losses > before && rep.Executed+rep.Retries > rep.Tasks {
			row.Seconds, row.Added, row.Hit = s, s-usual, true
			return row, nil
		}
	}
	return row, nil
}

// settled waits until all devices are healthy.
func (r *zkRun) settled(rig *chaos.Rig) error {
	ctx, cancel := context.WithTimeout(r.m.ctx, time.Minute)
	defer cancel()
	for {
		healthy := true
		for _, d := range rig.Metrics().Devices {
			healthy = healthy && d.State == "healthy"
		}
		if healthy {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a device is not back after a minute: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// middle proves, and returns the seconds from the solved circuit on and the time after which a stage is
// in its middle.
func (r *zkRun) middle(rig *chaos.Rig, j *provenJob, task string) (usual float64, after time.Duration, err error) {
	ctx, cancel := context.WithCancel(r.m.ctx)
	defer cancel()
	events, seen := rig.Events(ctx, weft.EventTaskDone), make(chan []weft.Event)
	opened := rig.Opened()
	go func() {
		var all []weft.Event
		for e := range events {
			if strings.HasPrefix(e.Task, task) {
				all = append(all, e)
			}
		}
		seen <- all
	}()
	_, usual, proof, err := j.prove(r.m, rig.Runtime)
	cancel()
	all := <-seen
	if err != nil {
		return 0, 0, err
	}
	if !bytes.Equal(proof, r.want) {
		return 0, 0, errOtherBytes
	}
	if len(all) == 0 {
		return 0, 0, fmt.Errorf("the proof has no task whose name begins with %q", task)
	}
	e := all[len(all)/2]
	return usual, max(opened.Add(e.At-e.Took/2).Sub(j.solved), 0), nil
}
