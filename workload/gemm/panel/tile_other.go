//go:build !amd64

package panel

func sumProductSIMD() []*Kernel { return nil }

func maxPlusSIMD() []*Kernel { return nil }
