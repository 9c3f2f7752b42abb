package reservoir

import (
	"fmt"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Place remembers the machine, by which Rows deals neurons out, and makes dense weights for
// GPUs that compute with them.
func (j *job) Place(m *machine.Machine) error {
	j.m = m
	switch dense := !j.c.byNeuron() && j.w.dense(m); {
	case !dense:
		j.dense = nil
	case j.dense == nil:
		j.dense = j.w.spreadOut()
	}
	return nil
}

// shares are the neurons of each device, by how fast each is predicted to be.
func (j *job) shares(cost machine.Cost) ([]sched.Range, error) {
	t := j.Whole()
	var shares []sched.Share
	for d := range j.m.Devices {
		s := sched.Share{Device: machine.DeviceID(d)}
		can := true
		for i := range t.Steps {
			can = can && j.m.Devices[d].CanRun(t.Steps[i].Kernel)
		}
		if takes := cost.Task(&t, s.Device).Median; can && takes > 0 {
			s.Rate = t.Work.Ops / (takes.Seconds() * j.m.Devices[d].Part(&t))
		}
		shares = append(shares, s)
	}
	part, err := sched.Proportional(j.Items(), shares)
	return part.Ranges, err
}

// addGathered adds the tasks of every step, each on the device that has its
// neurons, and after each step but the last an all-gather of the states.
func (j *job) addGathered(b *graph.Builder, weights [7]graph.DataID, u, start, mean, end graph.DataID) error {
	if j.m == nil {
		return fmt.Errorf("reservoir: %w: Place was not called", ErrParams)
	}
	cost := machine.NewRoofline(j.m)
	ranges, err := j.shares(cost)
	if err != nil {
		return fmt.Errorf("reservoir: %w", err)
	}
	batch := int64(j.c.Batch)
	spec := collective.Spec{Op: collective.OpAllGather, Count: batch * int64(j.c.Size), Type: collective.F32}
	var own []sched.Range
	var part, all []collective.Buffer
	for d, r := range ranges {
		if r.Len() == 0 {
			continue
		}
		name := fmt.Sprint(" of ", j.m.DeviceName(machine.DeviceID(d)))
		part = append(part, collective.Buffer{Data: b.Data(graph.Data{Name: "rows" + name, Bytes: 4 * batch * r.Len()})})
		all = append(all, collective.Buffer{Data: b.Data(graph.Data{Name: "states" + name, Bytes: 4 * batch * int64(j.c.Size)})})
		spec.Ranks, spec.Ends = append(spec.Ranks, machine.DeviceID(d)), append(spec.Ends, batch*r.Hi)
		own = append(own, r)
	}
	gather, err := collective.NewPlan(j.m, cost, spec)
	if err != nil {
		return err
	}
	for step := range j.c.Steps {
		last := step == j.c.Steps-1
		sums := graph.ReadWrite
		if step == 0 {
			sums = graph.Write
		}
		for rank, r := range own {
			from, to := graph.Use{Data: all[rank].Data, Access: graph.Read}, graph.Use{Data: part[rank].Data, Access: graph.Write}
			slice := graph.Use{Offset: 4 * batch * r.Lo, Bytes: 4 * batch * r.Len()}
			means := slice
			means.Data, means.Access = mean, sums
			if step == 0 {
				from.Data = start
			}
			if last {
				to = slice
				to.Data, to.Access = end, graph.Write
			}
			t := j.rowsTask(int(r.Lo), int(r.Hi), step)
			t.On = graph.Constraint{Only: []string{j.m.DeviceName(spec.Ranks[rank])}}
			t.Uses = append(j.w.uses(weights, int(r.Lo), int(r.Hi)), graph.Use{Data: u, Access: graph.Read}, from, to, means)
			b.Add(t)
		}
		if !last {
			gather.Add(b, part, all)
		}
	}
	return nil
}
