module github.com/weft-run/weft

go 1.26.0

require pgregory.net/rapid v1.2.0

require (
	github.com/ebitengine/purego v0.11.2 // indirect
	github.com/transparency-dev/merkle v0.0.2 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gonum.org/v1/gonum v0.16.0 // indirect
)
