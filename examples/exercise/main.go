// Command exercise is a small app for trying Riffle: a page that offers one of four exercises a day, its backend, and a
// dashboard for its owner. From the top of the repository,
//
//	go run ./examples/exercise
//
// starts everything on this machine, and with --crowd 200 also so many people, each with a browser of their own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
)

func main() {
	var listen string
	var crowd int
	o := options{}
	root := &cobra.Command{
		Use: "exercise", Short: "a page that learns which exercise does whom good, with all that it needs",
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := command.UntilStopped(cmd)
			defer stop()
			err := run(ctx, o, listen, crowd)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	root.Flags().StringVar(&listen, "listen", "127.0.0.1:8480", "host:port of the page")
	root.Flags().IntVar(&crowd, "crowd", 0, "simulated people who use the page in Chromium; the command ends with them")
	root.Flags().IntVar(&o.people, "people", 200, "people to learn from")
	root.Flags().Float64Var(&o.epsilon, "epsilon", 2, "epsilon of each person's guarantee")
	root.Flags().StringVar(&o.client, "client", "", "folder with the web client; empty: it is built")
	root.Flags().DurationVar(&o.window, "window", 30*time.Second, "time from an offer to its report")
	for _, c := range cluster.Commands() { // the deployment's processes are this program
		c.Hidden = true
		root.AddCommand(c)
	}
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, listen string, people int) (err error) {
	if o.folder, err = os.MkdirTemp("", "riffle-exercise"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.folder)) }()
	fmt.Println("building the page and starting broker, shuffler, analyzer and ingress …")
	if o.client == "" {
		if o.client, err = client(ctx, o.folder); err != nil {
			return err
		}
	}
	c, s, err := start(ctx, o)
	if c != nil {
		defer c.Stop()
	}
	if err != nil {
		return err
	}
	b, err := newBackend(s)
	if err != nil {
		return err
	}
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", b)
	mux.Handle("/dashboard.json", public{s, o, c.Ops(cluster.Analyzer) + "/status.json"})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(socket) }()
	go func() { ended <- b.run(work) }()
	url := "http://" + socket.Addr().String()
	fmt.Printf("the page:      %s/\nthe dashboard: %s/dashboard.html\n", url, url)
	if people > 0 {
		err = crowd(ctx, url, people, os.Stdout)
	} else {
		<-ctx.Done()
	}
	stop()
	_ = server.Close()
	return errors.Join(err, c.Failed(), drained(ended))
}

// drained waits for the two that run, and passes on what is more than their end.
func drained(ended <-chan error) (err error) {
	for range 2 {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}
	return err
}
