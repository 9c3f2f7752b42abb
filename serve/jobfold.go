package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/catalog"
)

// foldJob is the workload of jobs that fold a chain. It is none of the catalog's: its rounds follow one another.
const foldJob = "fold"

// foldDoes says what such a job does.
const foldDoes = "fold replicas of a protein chain"

// planFold checks what a folding is asked for and returns what runs it.
func (s *Server) planFold(q *api.JobRequest) (task, error) {
	o, flags := foldFlags()
	if err := setParameters(flags, foldJob, q.Parameters); err != nil {
		return nil, err
	}
	if err := nameShipped(flags.Lookup("structure"), catalog.Structures(), q, true); err != nil {
		return nil, err
	}
	if o.Structure == "" {
		return nil, badf("parameter structure: it is empty; name a structure, or leave it out")
	}
	if q.Repeat != 1 {
		return nil, badf("fold runs once: leave repeat out")
	}
	if err := o.Read(q.StructureText); err != nil {
		return nil, badRequest{err}
	}
	if err := s.canRun(q); err != nil {
		return nil, err
	}
	asked := *q
	asked.StructureText = "" // it was read
	return func(ctx context.Context, tell func(api.JobProgress)) (*api.JobResult, error) {
		return s.fold(ctx, o, asked, tell)
	}, nil
}

func foldFlags() (*catalog.FoldJob, *catalog.Flags) {
	o, flags := &catalog.FoldJob{}, &catalog.Flags{}
	o.Flags(flags)
	return o, flags
}

// fold folds, and goes on from a checkpoint where there is one.
func (s *Server) fold(ctx context.Context, o *catalog.FoldJob, q api.JobRequest, tell func(api.JobProgress)) (*api.JobResult, error) {
	as := s.keptOf(ctx, q)
	r, err := o.Make(as.name)
	if err != nil {
		return nil, err
	}
	rt, done, err := s.devicesOf(ctx, q.Devices)
	if err != nil {
		return nil, err
	}
	defer done()
	begun, first := time.Now(), -1
	err = r.Do(ctx, rt, func(round int) {
		if first < 0 {
			first = round
		}
		left := time.Since(begun).Seconds() / float64(round+1-first) * float64(r.Rounds()-round-1)
		tell(api.JobProgress{Part: float64(round+1) / float64(r.Rounds()), Left: left})
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	rep := catalog.NewFoldReport(r, rt)
	rep.Done = rep.Frames
	rep.Fill(r, true)
	row := api.JobRun{Seconds: took.Seconds(), Rate: "-"}
	if !as.resumed { // or the time is that of the rest
		row.Rate = rep.Rate()
	}
	out := &api.JobResult{Job: rep.Job, Class: rep.Class, Devices: []api.JobDevice{}, Runs: []api.JobRun{row}}
	out.Result = fmt.Sprintf("%d of %d replicas folded, best RMSD %.2f", rep.Folded, len(rep.Replicas), rep.Best.RMSD)
	if out.Report, err = json.Marshal(rep); err != nil {
		return nil, err
	}
	if o.Format != "" {
		var b bytes.Buffer
		if err := r.Write(&b, o.Format); err != nil {
			return nil, err
		}
		out.Trajectory = b.Bytes()
	}
	if err := ctx.Err(); err != nil || !*q.Check {
		return out, err
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("the result is wrong: %w", err)
	}
	out.Checked = true
	for _, m := range r.Misses() {
		out.Misses = append(out.Misses, api.JobMiss{What: m.What, Chance: m.Chance})
	}
	return out, nil
}
