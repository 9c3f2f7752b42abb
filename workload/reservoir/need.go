package reservoir

import (
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/signature"
)

// need returns the need of both kernels apart from states. addRows checks the entries of a
// matrix, for the neurons it handles.
func (c call) need() (n signature.Need, err error) {
	err = signature.Positive([]string{"size", "inputs", "neurons", "batch", "block", "steps"}, c.size, c.inputs, c.neurons, c.batch, c.block, c.steps)
	switch {
	case err != nil:
		return n, err
	case c.first+c.neurons > c.size:
		return n, fmt.Errorf("neurons %d to %d of %d", c.first, c.first+c.neurons-1, c.size)
	case c.step >= c.steps:
		return n, fmt.Errorf("step %d of %d, counting from 0", c.step, c.steps)
	}
	n.Items = signature.Product(int(signature.Parts(c.neurons, perItem)), int(signature.Parts(c.batch, perItem)))
	n.Elements[0], n.Elements[3] = int64(c.neurons+1), int64(c.neurons+1)
	n.Elements[6] = int64(c.neurons)
	n.Elements[7] = signature.Product(c.batch, c.inputs, c.steps)
	return n, nil
}

func stepNeed(_ *weft.Call, c call) (n signature.Need, err error) {
	if c.first != 0 || c.neurons != c.size {
		return n, fmt.Errorf("neurons %d to %d of %d: a step has all", c.first, c.first+c.neurons-1, c.size)
	}
	n, err = c.need()
	for i := 8; i < 12; i++ {
		n.Elements[i] = signature.Product(c.batch, c.size)
	}
	return n, err
}

func rowsNeed(_ *weft.Call, c call) (n signature.Need, err error) {
	n, err = c.need()
	n.Elements[8] = signature.Product(c.batch, c.size)
	n.Elements[9], n.Elements[10] = signature.Product(c.batch, c.neurons), signature.Product(c.batch, c.neurons)
	return n, err
}
