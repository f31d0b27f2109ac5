package role

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// newLogger makes the logger of a role. Its lines are typed attributes; nothing about a record is among them, at any
// level.
//
// The clock of a line has whole seconds. A finer one, on a line per item, would be an arrival order.
func newLogger(w io.Writer, role string, s LogSettings) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(s.Level)
	if err != nil {
		return zerolog.Nop(), err
	}
	file, isFile := w.(*os.File)
	if s.Format == "console" || s.Format == "auto" && isFile && term.IsTerminal(int(file.Fd())) {
		w = zerolog.NewConsoleWriter(func(c *zerolog.ConsoleWriter) {
			c.Out = w
			c.TimeFormat = time.TimeOnly
		})
	}
	clock := zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(time.RFC3339))
	})
	return zerolog.New(w).Level(level).Hook(clock).With().Str("role", role).Logger(), nil
}
