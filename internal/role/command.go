package role

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/version"
)

// Exit codes of a role.
const (
	ExitOK     = 0 // the work is done, or the role was asked to stop and did
	ExitConfig = 1 // the command line or the configuration is wrong; nothing was started, nothing touched
	ExitFailed = 2 // the role failed while it worked, or did not stop in time
	ExitNow    = 3 // a second signal ended the role before it had finished
)

// An ExitError asks Main for an exit code of its own.
type ExitError struct {
	Code int
	Err  error
	Told bool // it is in the log already: Main does not print it again
}

// Error is the error inside.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap is the error inside.
func (e *ExitError) Unwrap() error { return e.Err }

// A Role is what the start-up shell must know of a role whose configuration is the struct C.
type Role[C any] struct {
	Name      string // one lower-case word; it prefixes the environment variables
	Use       string // its word on the command line; empty: Name
	Short     string // one line
	Long      string // what the role does; may be empty
	Defaults  C      // the schema: tags name and document the keys, values are the defaults
	OpsListen string // default of ops.listen; empty: DefaultOpsListen

	// Faults, which may be nil, finds what takes reading files or computing to see, and what Prepare would refuse. It
	// is asked where Prepare will not be, because a value is at fault already, so that people see all faults at once.
	// It gets defaults in place of faulty values; made with Wrong, Conflict or Jointly, what it says about those (or
	// Given them) is left out.
	Faults func(config C) []error

	// Prepare does everything that can go wrong without touching anything outside the process: reads key files, works
	// out plans, builds the role. It may mount handlers and register metrics in env. Its errors are configuration
	// errors; those made with Wrong and Conflict are shown with the origin of their values, and errors.Join shows
	// several. --check-config ends after Prepare, so it takes the same path as starting.
	Prepare func(env *Env, config C) (Serve, error)
}

const (
	configFlag = "config"
	checkFlag  = "check-config"
	printFlag  = "print-config"
)

// manual is the part of --help that all roles share.
func manual(role string) string {
	return fmt.Sprintf(`
Every setting has a default, a key in the YAML file of --config, a variable (%sKEY, in brackets below) and a
flag; the later of these wins. Unknown keys, variables and flags are errors, and all errors are shown at once.
--%s prints all of it as a file.

Exit codes: %d done or stopped on request, %d wrong configuration (nothing was started), %d failed at work or did not
stop in time, %d ended by a second signal.`[1:],
		config.Prefix(role), printFlag, ExitOK, ExitConfig, ExitFailed, ExitNow)
}

// Command makes the command that runs the role. It panics if the struct C is not a schema (see package config),
// which any test that calls it finds.
func Command[C any](role Role[C]) *cobra.Command {
	// What can be configured: the role's own struct, and the settings that all roles have.
	type everything struct {
		Config   C        `key:"."`
		Settings Settings `key:"."`
	}
	all := everything{role.Defaults, DefaultSettings(role.OpsListen)}
	schema, err := config.New(role.Name, all, configFlag, checkFlag, printFlag, "help", "version")
	if err != nil {
		panic(err)
	}
	pathVariable := config.Prefix(role.Name) + "CONFIG"
	cmd := &cobra.Command{
		Use: cmp.Or(role.Use, role.Name), Short: role.Short, Args: cobra.NoArgs,
		Long:          strings.TrimSpace(role.Long+"\n\n"+manual(role.Name)) + "\n",
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.Flags().SortFlags = false
	path := cmd.Flags().String(configFlag, "", "YAML file to read ["+pathVariable+"]")
	check := cmd.Flags().Bool(checkFlag, false, "check all that a start checks before it opens a port, a lock "+
		"or a connection, then exit: 0 if the role would start, 1 if not")
	print := cmd.Flags().Bool(printFlag, false, "print the configuration in force as a file that documents every "+
		"key, then exit")
	flags := schema.AddFlags(cmd.Flags())
	load := func() *config.Loading {
		src := config.Sources{Path: *path, Environ: os.Environ(), Flags: flags}
		if !cmd.Flags().Changed(configFlag) {
			src.Path = os.Getenv(pathVariable)
		}
		return schema.Load(src, &all)
	}
	// Reading flags ends at one that does not exist. What came before it, the file and the environment can be looked
	// at all the same; not what is missing, which may come after it.
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return load().Unread(cmd, err) })
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l := load()
		if *print && l.Err() == nil {
			return l.Print(cmd.OutOrStdout())
		} else if *print {
			return l.Err()
		}
		var more func() []error
		if role.Faults != nil {
			more = func() []error { return role.Faults(all.Config) }
		}
		if err := l.Check(more); err != nil {
			return err
		}
		env, err := NewEnv(role.Name, all.Settings, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		serve, err := role.Prepare(env, all.Config)
		if err != nil {
			return l.Refuse(err)
		}
		if *check {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: the configuration is good\n", role.Name)
			return err
		}
		return env.start(cmd.Context(), serve)
	}
	return cmd
}

// start is the part that --check-config leaves out.
func (e *Env) start(ctx context.Context, serve Serve) error {
	ctx, stop := withSignals(ctx, e.Log)
	defer stop()
	b := version.Read()
	e.Log.Info().Str("version", b.Version).Str("commit", b.Commit).Bool("modified", b.Modified).Str("go", b.Go).
		Msg("starting")
	if err := e.Run(ctx, serve); err != nil {
		e.Log.Error().Err(err).Msg("failed")
		code := ExitFailed
		var own *ExitError
		if errors.As(err, &own) {
			code = own.Code
		}
		return &ExitError{Code: code, Err: err, Told: true}
	}
	e.Log.Info().Msg("stopped")
	return nil
}

// Main runs a command, whose help it makes fit a terminal, prints its error if it is not in the log, and returns the
// exit code. With a flag --json the error is one line of JSON: see failure.
func Main(cmd *cobra.Command) int {
	FitHelp(cmd)
	called, err := cmd.ExecuteContextC(context.Background())
	if err == nil {
		return ExitOK
	}
	exit := &ExitError{Code: ExitConfig, Err: err}
	errors.As(err, &exit)
	if !exit.Told {
		tell(called, err)
	}
	return exit.Code
}

// A Remedied error says apart what is wrong and what to do about it.
type Remedied interface {
	error
	Remedied() (what, remedy string)
}

// failure is an error of a command that prints JSON, for the program that ran it: one line of standard error, so that
// no text need be taken apart to tell it from progress and warnings. Remedy is empty where What says what to do, too.
type failure struct {
	Command string `json:"command"`
	What    string `json:"what"`
	Remedy  string `json:"remedy,omitempty"`
}

// tell prints the error of a command.
func tell(called *cobra.Command, err error) {
	out, path := called.ErrOrStderr(), called.CommandPath()
	if asJSON, _ := called.Flags().GetBool("json"); !asJSON {
		_, _ = fmt.Fprintf(out, "%s: %v\n", path, err)
		return
	}
	f := failure{Command: path, What: err.Error()}
	if of := Remedied(nil); errors.As(err, &of) {
		f.What, f.Remedy = of.Remedied()
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]failure{"error": f})
}
