package workload_test

import (
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/autodiff"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/clifford"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/enumerative"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	graphs "github.com/weft-run/weft/workload/network"
	"github.com/weft-run/weft/workload/protein/elastic"
	"github.com/weft-run/weft/workload/protein/phase"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/relativity"
	"github.com/weft-run/weft/workload/reservoir"
	"github.com/weft-run/weft/workload/tropical"
)

// Every workload says what its check may miss.
var _ = []workload.Inspected{
	(*autodiff.Job)(nil), (*automata.Job)(nil), (*clifford.Job)(nil), (*conv.Job)(nil), (*elastic.Job)(nil), (*enumerative.CurveJob)(nil),
	(*enumerative.Job)(nil), (*fisher.DivergenceJob)(nil), (*fisher.Job)(nil), (*fusion.Job)(nil), (*gemm.Job)(nil), (*graphs.DistanceJob)(nil),
	(*graphs.LayersJob)(nil), (*graphs.RankJob)(nil), (*landscape.Job)(nil), (*merkle.Job)(nil),
	(*phase.Job)(nil), (*reduce.Job)(nil), (*relativity.BodyJob)(nil), (*relativity.BoostJob)(nil), (*relativity.LightJob)(nil), (*relativity.OrbitJob)(nil),
	(*reservoir.Job)(nil), (*reservoir.StreamJob)(nil), (*tropical.Job)(nil), (*tropical.TrainJob)(nil),
}
