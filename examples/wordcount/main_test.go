package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "wordcount-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Args = []string{"wordcount"}
	for name, text := range map[string]string{"a": "the cat sat", "b": "on the mat", "c": "the end"} {
		os.Args = append(os.Args, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	main()
	// Output: map[cat:1 end:1 mat:1 on:1 sat:1 the:3] <nil>
}
