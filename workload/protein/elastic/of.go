package elastic

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// Of returns the slowest modes of a caller's structure, computed on the devices of a runtime
// that was opened with [Funcs] among its kernels. The configuration says of which network and
// how many; its Structure, Select and Residues are not used. With Steps 0 it takes as many steps as
// are needed. A structure that is nil or has no such network is an error that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, s *protein.Structure, c Config) (*Modes, error) {
	if s == nil {
		return nil, fmt.Errorf("elastic: %w: the structure is nil; protein.Open or protein.Read returns one", workload.ErrConfig)
	}
	c.Structure, c.Residues = s.Name, 0
	if c.Structure == "" {
		c.Structure = "structure"
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	more := c.Steps == 0
	for {
		j, err := newJob(c, s)
		if err != nil {
			return nil, err
		}
		if _, err := workload.Call(ctx, rt, j, "elastic"); err != nil {
			return nil, err
		}
		modes, err := j.Modes()
		if more && errors.Is(err, ErrUnfinished) && j.steps < min(2*(j.matrix.Rows()-j.zeros), maxSteps) {
			c.Steps = min(2*j.steps, maxSteps)
			continue
		}
		return modes, err
	}
}
