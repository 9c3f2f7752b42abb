package main

import (
	_ "embed" // for the page
	"fmt"
	"io"
	"math"

	"github.com/weft-run/weft/cmd/weft/internal/pages"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/workload/protein/fold"
)

//go:embed foldpage.html
var foldPageText string

// foldPageTemplate is the page of a folding: one file that needs nothing else. What it draws
// is in it as JSON.
var foldPageTemplate = pages.New("fold", foldPageText, nil)

const (
	pagePoints   = 500 // of a curve over time, about: of more frames every so many are shown
	pageReplicas = 64  // of which curves are shown
)

// foldPage is the data of the page, which its script draws.
type foldPage struct {
	Structure    string          `json:"structure"`
	Residues     []string        `json:"residues"`
	Ends         []int           `json:"ends"` // of chains
	Temperatures []float64       `json:"temperatures"`
	Steps        []int           `json:"steps"`           // of the frames that are shown
	Discarded    int             `json:"discarded_steps"` // left out of profiles and contacts
	Replicas     []foldCurve     `json:"replicas"`
	Profiles     []*fold.Profile `json:"profiles"`
	Contacts     []fold.Reached  `json:"contacts"`
	Heat         *fold.Heat      `json:"heat,omitempty"`
	Folded       int             `json:"folded"` // replicas that were; without one Heat does not say where the chain melts
	Native       []float64       `json:"native"`
	Best         []float64       `json:"best"` // nearest to the native structure, laid over it
	BestFrame    *fold.Frame     `json:"best_frame"`
	FoldedRMSD   float64         `json:"folded_rmsd"`
	FoldedQ      float64         `json:"folded_q"`
}

// foldCurve is a replica over time.
type foldCurve struct {
	Replica     int       `json:"replica"`
	Q           []float64 `json:"q"`
	RMSD        []float64 `json:"rmsd"`
	Temperature []float64 `json:"temperature"`
}

// foldFact is a figure at the top of the page.
type foldFact struct{ Figure, Says string }

// newFoldPage collects what the page draws of a folding that is complete.
func newFoldPage(r *fold.Run, rep *foldReport) (*foldPage, error) {
	s := r.Structure()
	p := &foldPage{
		Structure: s.Name, Ends: r.Model().Ends, Temperatures: r.Temperatures(), Contacts: r.Contacts(), Heat: rep.Heat, Folded: rep.Folded, Discarded: r.Discarded(),
		Native: rounded(r.Model().Native), Best: rounded(r.BestPositions()), BestFrame: rep.Best,
		FoldedRMSD: fold.FoldedRMSD, FoldedQ: fold.FoldedQ,
	}
	for _, res := range s.Residues {
		p.Residues = append(p.Residues, res.String())
	}
	p.Replicas = make([]foldCurve, min(r.Replicas(), pageReplicas))
	for i := 0; i < r.Rounds(); i += (r.Rounds() + pagePoints - 1) / pagePoints {
		p.Steps = append(p.Steps, r.Frame(i, 0).Step)
		for k := range p.Replicas {
			f, c := r.Frame(i, k), &p.Replicas[k]
			c.Replica = k
			c.Q, c.RMSD, c.Temperature = append(c.Q, round(f.Q)), append(c.RMSD, round(f.RMSD)), append(c.Temperature, round(f.Temperature))
		}
	}
	at := []float64{p.Temperatures[0]}
	if h := rep.Heat; h != nil {
		if rep.melts() {
			at = append(at, h.Melting)
		}
		at = append(at, p.Temperatures[len(p.Temperatures)-1])
	}
	for _, t := range at {
		profile, err := r.Profile(t)
		if err != nil {
			return nil, err
		}
		p.Profiles = append(p.Profiles, profile)
	}
	return p, nil
}

// round is a number as it is drawn.
func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }

func rounded(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = round(v[i])
	}
	return out
}

// writeFoldPage writes the page of a folding.
func writeFoldPage(w io.Writer, r *fold.Run, rep *foldReport) error {
	p, err := newFoldPage(r, rep)
	if err != nil {
		return err
	}
	facts := []foldFact{
		{fmt.Sprintf("%d of %d", rep.Folded, len(rep.Replicas)), fmt.Sprintf("replicas had an RMSD below %g Å and Q above %g in some frame", fold.FoldedRMSD, fold.FoldedQ)},
		{fmt.Sprintf("%.2f Å", rep.Best.RMSD), fmt.Sprintf("lowest RMSD, with Q %.2f, by replica %d at step %d", rep.Best.Q, rep.Best.Replica, rep.Best.Step)},
	}
	if h := rep.Heat; rep.melts() {
		says := fmt.Sprintf("temperature where the chain melts; the first %d steps are left out, and a replica by itself is correlated over %d", h.Discarded, h.Walks)
		if h.Short {
			says += ": long for so few steps, so that the error may be larger"
		}
		facts = append(facts, foldFact{fmt.Sprintf("%.3f ± %.3f", h.Melting, h.Error), says})
	}
	if rep.Acceptance != nil {
		facts = append(facts, foldFact{terminal.Percent(*rep.Acceptance), "of the exchanges that were asked happened"})
	}
	more := ""
	if n := len(rep.Replicas); n > pageReplicas {
		more = fmt.Sprintf("Curves show the first %d of %d replicas.", pageReplicas, n)
	}
	return foldPageTemplate.Execute(w, struct {
		Job, More string
		Facts     []foldFact
		Data      *foldPage
	}{rep.Job, more, facts, p})
}
