// Command wordcount counts the words of files by map and reduce.
//
//	go run ./examples/wordcount README.md CHANGELOG.md
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/weft-run/weft/task"
)

func count(_ context.Context, file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	counts := make(map[string]int)
	for word := range strings.FieldsSeq(string(text)) {
		counts[word]++
	}
	return counts, err
}

func merge(_ context.Context, a, b map[string]int) (map[string]int, error) {
	for word, n := range b {
		a[word] += n
	}
	return a, nil
}

func main() {
	ctx := context.Background()
	counts, err := task.Map(ctx, os.Args[1:], count)
	if err != nil {
		log.Fatal(err)
	}
	total, err := task.Reduce(ctx, counts, merge)
	fmt.Println(total, err)
}
