package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strconv"

	"github.com/weft-run/weft/experimental/pipeline"
)

// Two stages work at the same time; what one of them cannot do is told and does
// not stop the others.
func Example() {
	type line struct {
		text string
		n    int
	}
	p, err := pipeline.New(pipeline.Options{Ordered: true},
		pipeline.Stage[line]{Name: "parse", Workers: 2, Do: func(_ context.Context, l *line) (err error) {
			l.n, err = strconv.Atoi(l.text)
			return err
		}},
		pipeline.Stage[line]{Name: "square", Do: func(_ context.Context, l *line) error {
			l.n *= l.n
			return nil
		}},
	)
	if err != nil {
		log.Fatal(err)
	}
	lines := []line{{text: "7"}, {text: "eight"}, {text: "9"}}
	rep, err := p.Run(context.Background(), slices.Values(lines), func(it pipeline.Item[line]) error {
		fmt.Println(it.Value.n, it.Err)
		return nil
	})
	fmt.Println(rep.Items, "items,", rep.Failed, "failed;", err)
	// Output:
	// 49 <nil>
	// 0 item 1, stage parse: strconv.Atoi: parsing "eight": invalid syntax
	// 81 <nil>
	// 3 items, 1 failed; <nil>
}
