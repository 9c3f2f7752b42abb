package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
)

func newKernels() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "kernels [NAME]",
		Short: "Show the Go functions that graph files can name",
		Long: `List the Go functions that a graph file can name as kernels, for CPU cores, or
show one: its parameters and uses, in their order, and a task that names it.
They come with weft; a kernel for a GPU is a file in the folder of the graph.`,
		Example: `  weft kernels
  weft kernels conv.images`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("kernels takes one name at most")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return kernelNames(workloads.Kernels()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			all := workloads.Kernels()
			if len(args) == 0 {
				return terminal.Print(c, asJSON, kernelRows(all), func(b *bytes.Buffer) error {
					writeKernels(b, all)
					return nil
				})
			}
			if err := terminal.MustName("kernel", args[0], kernelNames(all)); err != nil {
				return err
			}
			for i := range all {
				if all[i].Name == args[0] {
					return terminal.Print(c, asJSON, kernelRows(all[i : i+1])[0], func(b *bytes.Buffer) error {
						writeKernel(b, &all[i])
						return nil
					})
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return c
}

func kernelNames(all []signature.Kernel) (names []string) {
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names
}

// kernelRow is a kernel in JSON.
type kernelRow struct {
	Name   string     `json:"name"`
	Does   string     `json:"does"`
	Grid   string     `json:"grid"` // in words
	Per    []any      `json:"per,omitempty"`
	Params []paramRow `json:"params"`
	Uses   []useRow   `json:"uses"`
}

type paramRow struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type useRow struct {
	Name      string     `json:"name"`
	Elem      graph.Elem `json:"dtype"`
	Access    string     `json:"access"`
	Workspace bool       `json:"workspace,omitempty"` // of the task, and no use of data
	More      bool       `json:"more,omitempty"`      // there may be several
}

func kernelRows(all []signature.Kernel) []kernelRow {
	out := make([]kernelRow, 0, len(all))
	for i := range all {
		k := &all[i]
		row := kernelRow{Name: k.Name, Does: k.Does, Grid: k.Grid, Per: per(k)}
		for _, p := range k.Params {
			row.Params = append(row.Params, paramRow(p))
		}
		for _, a := range k.Args {
			row.Uses = append(row.Uses, useRow{a.Name, a.Elem, a.Access.String(), a.Workspace, a.More})
		}
		out = append(out, row)
	}
	return out
}

// per returns the number of items of the grid that one call item of the function covers in each
// dimension, in the form of a graph file.
func per(k *signature.Kernel) (out []any) {
	for _, n := range k.Per {
		if n == graph.All {
			out = append(out, "all")
		} else {
			out = append(out, n)
		}
	}
	return out
}

func writeKernels(b *bytes.Buffer, all []signature.Kernel) {
	width := 0
	for i := range all {
		width = max(width, len(all[i].Name))
	}
	for i := range all {
		fmt.Fprintf(b, "%-*s  %s\n", width, all[i].Name, all[i].Does)
	}
	fmt.Fprintln(b, "\nweft kernels NAME shows the parameters and uses of one.")
}

func writeKernel(b *bytes.Buffer, k *signature.Kernel) {
	fmt.Fprintf(b, "%s: %s\n\n", k.Name, k.Does)
	var params []string
	for _, p := range k.Params {
		params = append(params, p.Type+" "+p.Name)
	}
	fmt.Fprintf(b, "params  %s\n", strings.Join(params, ", "))
	fmt.Fprintf(b, "grid    %s\n", k.Grid)
	var uses []string
	workspace := ""
	for i, a := range k.Args {
		access := a.Access.String()
		switch {
		case a.Workspace:
			access = "workspace"
			workspace = ` "workspace": BYTES,`
		case a.More:
			access += ", one or more"
		}
		label := ""
		if i == 0 {
			label = "uses"
		}
		fmt.Fprintf(b, "%-6s  %s: %s, %s\n", label, a.Name, a.Elem, access)
		if !a.Workspace {
			use := `{"data": "NAME"`
			if a.Access != graph.Read {
				use += fmt.Sprintf(`, "access": %q`, a.Access)
			}
			uses = append(uses, use+"}")
		}
	}
	cut := ""
	if len(k.Per) > 0 {
		var dims []string
		for _, n := range per(k) {
			if n == "all" {
				n = `"all"`
			}
			dims = append(dims, fmt.Sprint(n))
		}
		cut = fmt.Sprintf(`, "per": [%s]`, strings.Join(dims, ", "))
	}
	fmt.Fprintf(b, "\nIn a graph file, with a number in place of each field:\n\n")
	fmt.Fprintf(b, "\"kernels\": [\n  {\"name\": \"mine\", \"impls\": [\n    {\"dialect\": \"go\", \"entry\": %q%s}]}],\n", k.Name, cut)
	fmt.Fprintf(b, "\"tasks\": [\n  {\"kernel\": \"mine\", \"grid\": [%s],%s\n   \"params\": [%s],\n   \"uses\": [%s]}]\n",
		k.Grid, workspace, jsonParams(k.Params), strings.Join(uses, ",\n     "))
}

// jsonParams writes parameters as a graph file has them, numbers of one type together.
func jsonParams(ps []signature.Param) string {
	var out []string
	for i := 0; i < len(ps); {
		var names []string
		kind := ps[i].Type
		for ; i < len(ps) && ps[i].Type == kind; i++ {
			names = append(names, ps[i].Name)
		}
		out = append(out, fmt.Sprintf("{%q: [%s]}", kind, strings.Join(names, ", ")))
	}
	return strings.Join(out, ", ")
}
