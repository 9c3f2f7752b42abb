module github.com/weft-run/weft

go 1.26

require pgregory.net/rapid v1.2.0
