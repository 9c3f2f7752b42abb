// Command stream doubles numbers that it reads, a line each, on all cores. They are read while
// others are computed, and written in order.
//
//	seq 10 | go run ./examples/stream
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/weft-run/weft/task"
)

func lines(yield func(string) bool) {
	for in := bufio.NewScanner(os.Stdin); in.Scan() && yield(in.Text()); {
	}
}

func parse(_ context.Context, line string) (int, error) { return strconv.Atoi(line) }

func main() {
	for n, err := range task.Stream(context.Background(), lines, parse) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(2 * n)
	}
}
