// Package progress shows how far a run is, on standard error: one live line on a terminal, a plain line every few
// seconds elsewhere (a log, a pipe). Results never go through it.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// DefaultEvery is the time between plain lines unless set.
const DefaultEvery = 5 * time.Second

// refresh is the time between redraws of the live line.
const refresh = 150 * time.Millisecond

// Mode says how progress is shown.
type Mode int

// The modes.
const (
	Auto  Mode = iota // Live if the writer is a terminal that can redraw a line, else Plain
	Live              // one line, redrawn
	Plain             // a line at each new phase and every Options.Every
	Quiet             // nothing; notes are still written
)

// Options of New. The zero value is Auto with its defaults.
type Options struct {
	Mode  Mode
	Every time.Duration // time between plain lines; 0 = DefaultEvery
}

// State is how far a run is. Zero numbers are not shown.
type State struct {
	Phase         string // what is being done: "starting", "learning", "valuing"
	Epoch, Epochs int    // the epoch in force, from 1, and how many there will be
	Done, Total   int    // people decided for, and how many there will be in this phase
	// Work is how much is done of what takes the time, of AllWork in this phase: the bar and the time left are about
	// it. AllWork 0: about people.
	Work, AllWork int
	// Unit is how long a unit of work is expected to take; 0: nobody knows.
	Unit     time.Duration
	Reports  int // reports that have arrived
	Counted  int // reports whose bits are counted
	Messages int // bit messages of the reports that have arrived
}

// Progress shows a State. Its methods may be called from several goroutines.
type Progress struct {
	w    io.Writer
	mode Mode

	mu      sync.Mutex
	state   State
	since   time.Time // start of the phase
	from    int       // done at the start of the phase
	closed  bool
	written string // the last line, so that it is not written twice

	stop, stopped chan struct{} // of the ticker
}

// New starts showing progress on w, which should be os.Stderr. Close it.
func New(w io.Writer, o Options) *Progress {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Mode == Auto {
		o.Mode = Plain
		if canRedraw(w) {
			o.Mode = Live
		}
	}
	p := &Progress{w: w, mode: o.Mode, since: time.Now()}
	every := o.Every
	if o.Mode == Live {
		every = refresh
	}
	if o.Mode != Quiet {
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		go p.tick(every)
	}
	return p
}

// canRedraw reports whether w is a terminal that can redraw a line. One without a size, as some recorders make them,
// cannot.
func canRedraw(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return err == nil && width > 0 && height > 0
}

// columns is the width of the live line where nobody says another.
const columns = 80

// width is how many characters the live line may have: one less than the terminal, some of which wrap a full line.
func (p *Progress) width() int {
	if f, ok := p.w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width - 1
		}
	}
	return columns
}

// Update changes the state. A change of phase starts the clock of the time left.
func (p *Progress) Update(change func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	phase := p.state.Phase
	change(&p.state)
	if p.state.Phase != phase {
		p.since = time.Now()
		p.from, _ = p.state.bounds()
		if p.mode == Plain && !p.closed {
			p.print()
		}
	}
}

// Note writes one line that stays, above the live line.
func (p *Progress) Note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf(format, args...) + "\n"
	if p.mode == Live && !p.closed {
		line = p.erase() + line + p.state.bar(p.remaining(), p.width())
	}
	_, _ = io.WriteString(p.w, line) // nowhere to report that standard error is gone
}

// Close stops: the live line disappears, and in plain mode the last state is written. A second Close does nothing.
func (p *Progress) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	if p.mode != Quiet {
		p.print()
	}
	if p.mode == Live {
		_, _ = io.WriteString(p.w, p.erase())
	}
	p.closed = true
	p.mu.Unlock() // the ticker takes the lock to finish
	if p.mode != Quiet {
		close(p.stop)
		<-p.stopped
	}
}

func (p *Progress) tick(every time.Duration) {
	defer close(p.stopped)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.mu.Lock()
			if !p.closed {
				p.print()
			}
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

// erase takes away the live line, without an escape sequence, which not every console of Windows understands.
func (p *Progress) erase() string { return "\r" + strings.Repeat(" ", p.width()) + "\r" }

// print writes the live line anew, or a plain line unless nothing has changed; the caller holds the lock.
func (p *Progress) print() {
	line := p.state.line(p.remaining()) + "\n"
	if p.mode == Live {
		line = p.erase() + p.state.bar(p.remaining(), p.width())
	}
	if line == "\n" || line == p.written {
		return
	}
	p.written = line
	_, _ = io.WriteString(p.w, line)
}

const (
	// warmUp is how long a phase must have run before its speed says something.
	warmUp = 2 * time.Second
	// trust is the share of a phase's work that what was expected of its speed weighs, against the speed so far.
	trust = 0.2
)

// remaining estimates the time left in this phase from its mean speed so far, and from what was expected of it; 0 =
// unknown. The caller holds the lock.
func (p *Progress) remaining() time.Duration {
	elapsed := time.Since(p.since)
	done, total := p.state.bounds()
	if done >= total || p.state.Unit == 0 && (elapsed < warmUp || done <= p.from) {
		return 0
	}
	took, work := float64(elapsed), float64(done-p.from)
	if p.state.Unit > 0 {
		took += trust * float64(total) * float64(p.state.Unit)
		work += trust * float64(total)
	}
	left := time.Duration(took / work * float64(total-done))
	return max(left.Round(time.Second), time.Second)
}
