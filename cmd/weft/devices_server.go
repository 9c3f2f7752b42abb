package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
)

// remote is a running service whose devices a command is about.
type remote struct {
	server, tokenFile, trustedBy string
	asJSON                       bool
}

// defaultServer is the address at which weft serve listens by default.
const defaultServer = "http://127.0.0.1:8000"

// bind adds the flags that say which service, and how it is reached.
func (r *remote) bind(f *pflag.FlagSet, server string) {
	f.StringVar(&r.server, "server", server, "address of a running weft serve, or unix:/PATH")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the bearer token that the server asks for")
	f.StringVar(&r.trustedBy, "ca-file", "", "`FILE` with certificates that a server with TLS is trusted by")
}

// client returns a client of the service.
func (r *remote) client() (*api.Client, error) {
	o := api.Options{}
	if r.tokenFile != "" {
		text, err := safefile.ReadInput(r.tokenFile, maxTokenFile)
		if err != nil {
			return nil, terminal.Usage(terminal.FileError(r.tokenFile, err))
		}
		if o.Token = strings.TrimSpace(string(text)); o.Token == "" {
			return nil, terminal.Usagef("%s: no token in it", r.tokenFile)
		}
	}
	if r.trustedBy != "" {
		if !strings.HasPrefix(r.server, "https://") {
			return nil, terminal.Usagef("--ca-file is for servers by https, and the address is %s", r.server)
		}
		text, err := safefile.ReadInput(r.trustedBy, maxTokenFile<<4)
		if err != nil {
			return nil, terminal.Usage(terminal.FileError(r.trustedBy, err))
		}
		o.Trusted = text
	}
	c, err := api.NewClient(r.server, o)
	if err != nil {
		return nil, terminal.Usagef("--server %s: %s", r.server, strings.TrimPrefix(err.Error(), "api: "))
	}
	return c, nil
}

// alone refuses settings of local devices together with --server.
func (r *remote) alone(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "server", "token-file", "ca-file", "json":
		default:
			if f.Changed && err == nil {
				err = terminal.Usagef("--%s is for devices that are opened here, and --server names a service: leave out one of them", f.Name)
			}
		}
	})
	return err
}

// list shows the devices of a service.
func (r *remote) list(c *cobra.Command) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	defer client.Close()
	devices, err := client.Devices(c.Context())
	if err != nil {
		return r.failed(err)
	}
	return terminal.Print(c, r.asJSON, devices, func(b *bytes.Buffer) error { writeDevices(b, devices); return nil })
}

// failed is why a service did not do what was asked.
func (r *remote) failed(err error) error {
	said, unknown := (*api.Error)(nil), x509.UnknownAuthorityError{}
	if errors.As(err, &unknown) {
		return fmt.Errorf("%s: no authority that this machine knows has signed the server's certificate; name a file with it by --ca-file", r.server)
	}
	if errors.As(err, &said) {
		if host, plain := strings.CutPrefix(r.server, "http://"); plain && strings.HasPrefix(said.Message, "Client sent an HTTP request to an HTTPS server") {
			return fmt.Errorf("%s: the server speaks TLS; use --server https://%s, with --ca-file FILE if this machine does not know who signed its certificate", r.server, host)
		}
		return fmt.Errorf("%s: %s", r.server, terminal.OneLine(said.Message))
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: nothing listens there; start weft serve, or name the address of one with --server", r.server)
	}
	return fmt.Errorf("%s: %w", r.server, err)
}

// writeDevices shows devices of a service.
func writeDevices(b *bytes.Buffer, devices []api.Device) {
	table := [][]any{{"device", "state", "tasks", "queued", "failed", "losses", "model"}}
	for _, d := range devices {
		table = append(table, []any{d.Name, d.State, d.Tasks, d.Queued, d.Failed, d.Losses, cmp.Or(d.Model, "-")})
	}
	terminal.Table(b, table)
	for _, d := range devices {
		if d.LastError != "" {
			fmt.Fprintf(b, "\nThe last error of %s\n", terminal.OneLine(d.Name+": "+d.LastError))
		}
	}
}

// remoteActions are the actions on a device of a running service that a command can ask for.
var remoteActions = []struct {
	name, short, long string
	do                func(ctx context.Context, c *api.Client, device, to string) (api.Device, error)
}{
	{"drain", "Take a device of a running service out of service", `Take a device out of service while the service answers: it gets no new work,
finishes what it has and hands over what only its memory holds. The command ends
when it holds nothing; Ctrl-C ends the wait and not the drain. It stays out of
service until it is undrained. The last device that takes work is refused.`,
		func(ctx context.Context, c *api.Client, device, _ string) (api.Device, error) {
			return c.Drain(ctx, device)
		}},
	{"undrain", "Put a device of a running service back into service", `Put a device into service that was drained, swapped out or a spare. Models are
put on it before it gets requests.`,
		func(ctx context.Context, c *api.Client, device, _ string) (api.Device, error) {
			return c.Undrain(ctx, device)
		}},
	{"swap", "Put a device in another's place in a running service", `Put the second device in the place of the first while the service answers: new
work goes to the second at once, the first finishes what it has and hands over
what only its memory holds. The command ends when the first holds nothing. The
second may be a spare (key spares of the configuration), drained or in service
already.`,
		func(ctx context.Context, c *api.Client, device, to string) (api.Device, error) {
			return c.Swap(ctx, device, to)
		}},
	{"recover", "Bring a lost or broken device of a running service back", `Have a device that is lost or broken brought back now, by the rungs of the
recovery ladder. For a device that is there nothing is done.`,
		func(ctx context.Context, c *api.Client, device, _ string) (api.Device, error) {
			return c.Recover(ctx, device)
		}},
	{"probe", "Sample the condition of a device of a running service", `Sample the condition of a device now, instead of at the next interval.`,
		func(ctx context.Context, c *api.Client, device, _ string) (api.Device, error) {
			return c.Probe(ctx, device)
		}},
}

// newRemoteActions makes a command for each action.
func newRemoteActions() (list []*cobra.Command) {
	for _, a := range remoteActions {
		r := &remote{}
		use, example, n, names := a.name+" DEVICE", "cuda:0", 1, "the name of a device"
		if a.name == "swap" {
			use, example, n, names = "swap OLD NEW", "cuda:0 cuda:1", 2, "the names of two devices"
		}
		c := &cobra.Command{
			Use: use, Short: a.short, Long: a.long,
			Example: fmt.Sprintf("  weft devices %s %s\n  weft devices %s %s --server https://host:8000 --token-file token", a.name, example, a.name, example),
			Args: func(_ *cobra.Command, args []string) error {
				if len(args) != n {
					return fmt.Errorf("%s takes %s, as in weft devices %s %s; %d are given", a.name, names, a.name, example, len(args))
				}
				return nil
			},
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE: func(c *cobra.Command, args []string) error {
				client, err := r.client()
				if err != nil {
					return err
				}
				defer client.Close()
				d, err := a.do(c.Context(), client, args[0], args[len(args)-1])
				if err != nil {
					return r.failed(err)
				}
				return terminal.Print(c, r.asJSON, d, func(b *bytes.Buffer) error { writeDevices(b, []api.Device{d}); return nil })
			},
		}
		r.bind(c.Flags(), defaultServer)
		c.Flags().BoolVar(&r.asJSON, "json", false, "write the device as JSON")
		list = append(list, c)
	}
	return list
}
