package main

import (
	"log"
	"os"
)

func Example() {
	in, out, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := out.WriteString("1\n20\n-300\n"); err != nil {
		log.Fatal(err)
	}
	out.Close()
	os.Stdin = in
	main()
	// Output:
	// 2
	// 40
	// -600
}
