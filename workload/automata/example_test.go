package automata_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/automata"
)

// A glider is one row lower and one column to the right after four generations.
func ExampleRun() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: automata.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	board, err := automata.ParseBoard("" +
		".O...\n" +
		"..O..\n" +
		"OOO..\n" +
		".....\n" +
		".....\n")
	if err != nil {
		log.Fatal(err)
	}
	later, err := automata.Run(ctx, rt, board, automata.Life, 4)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(later)
	// Output:
	// .....
	// ..O..
	// ...O.
	// .OOO.
	// .....
}
