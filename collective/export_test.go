package collective

import "time"

// What tests of operations count and compare with.
const (
	NumFolds     = numFolds
	NumTypes     = numTypes
	ItemElements = itemElements
)

// FoldInto is the loop by which Go kernels and inline operations fold.
var FoldInto = foldInto

// Bound is the time that links allow.
func (p *Plan) Bound() time.Duration { return p.bound() }
