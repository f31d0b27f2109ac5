package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

const (
	// stopTime is how long a process may take to stop before it is killed; a role's own limit is 8 s.
	stopTime = 9 * time.Second
	// keptLines is how many log lines are kept for an error's text.
	keptLines = 12
)

// process is the process of one role, or of the broker.
type process struct {
	cmd  *exec.Cmd
	ties io.Closer     // its standard input, which ends with this process
	tied bool          // it stops in order when its standard input ends, and at no signal
	done chan struct{} // closed when it has ended and its log is read

	mu        sync.Mutex
	err       error
	addresses map[string]string // listener -> host:port, as the log says
	tail      []string
	traffic   map[bus.Role]broker.Traffic // of the broker's last line
	peak      int64                       // largest resident set, read before it was stopped; 0: not known
	ready     chan struct{}               // closed when all awaited listeners listen
	awaited   []string
}

// StartProcess starts the process of a role, or of the broker, that is not running and waits until it listens.
func (c *Cluster) StartProcess(ctx context.Context, name string) error {
	c.mu.Lock()
	_, running := c.processes[name]
	c.mu.Unlock()
	if running {
		return fmt.Errorf("cluster: %s is running already", name)
	}
	p, err := c.launch(name)
	if err != nil {
		return fmt.Errorf("cluster: %s: %w", name, err)
	}
	c.mu.Lock()
	c.processes[name] = p
	c.mu.Unlock()
	select {
	case <-p.ready:
	case <-p.done:
		err, _ := p.over()
		return fmt.Errorf("cluster: %s did not start: %w\n%s", name, err, p.lastWords())
	case <-time.After(startTime):
		return fmt.Errorf("cluster: %s did not start within %s\n%s", name, startTime, p.lastWords())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if name != Broker {
		return nil
	}
	_, text, _ := net.SplitHostPort(p.address(brokerListener))
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("cluster: %s: its address: %w", name, err)
	}
	c.mu.Lock()
	c.port = port
	c.mu.Unlock()
	return nil
}

// launch starts the process of a role or of the broker.
func (c *Cluster) launch(name string) (*process, error) {
	if name == Broker {
		return c.launchBroker()
	}
	role, host, _ := strings.Cut(name, "-")
	words, keys := []string{role}, c.Keys()
	if host != "" && role+"-" != hostPrefix {
		words, keys = append(words, "work"), c.o.workerKeys(role)
	} else if c.o.Workers[role] > 0 {
		words = append(words, "--workers-enabled")
	}
	args := append(words, "--keys", keys, "--broker-url", c.URL(),
		"--ops-listen", "127.0.0.1:0", "--log-format", "json")
	awaited := []string{"ops.listen"}
	switch {
	case words[len(words)-1] == "work": // a worker keeps nothing
	case role == Shuffler:
		args = append(args, "--state", filepath.Join(c.o.Dir, name))
		args = append(args, c.o.Shuffler...)
	case role == Analyzer:
		args = append(args, "--state", filepath.Join(c.o.Dir, name))
		args = append(args, c.o.Analyzer...)
	case role == Ingress:
		args = append(args, "--http-listen", "127.0.0.1:0")
		args = append(args, c.o.Ingress...)
		awaited = append(awaited, "http.listen")
	default:
		args = append(args, "--state", filepath.Join(c.o.Dir, name), "--host", host, "--api-listen", "127.0.0.1:0")
		args = append(args, c.o.Randomizer...)
		awaited = append(awaited, "api.listen")
	}
	return launch(c.o.Executable, args, c.o.Environ, filepath.Join(c.o.Dir, name+".log"), awaited)
}

// Kill ends a process as a power cut would. StartProcess starts it again from what it had made durable.
func (c *Cluster) Kill(name string) error {
	c.mu.Lock()
	p := c.processes[name]
	delete(c.processes, name)
	c.mu.Unlock()
	if p == nil {
		return fmt.Errorf("cluster: %s is not running", name)
	}
	p.notePeak()
	err := p.cmd.Process.Kill()
	<-p.done
	c.account(name, p)
	return err
}

// launch starts a program whose log goes to a file.
func launch(program string, args, environ []string, logPath string, awaited []string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd: exec.Command(program, args...), done: make(chan struct{}), ready: make(chan struct{}),
		addresses: map[string]string{}, awaited: awaited,
	}
	p.cmd.Env = append(os.Environ(), environ...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if p.ties, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := startTied(p.cmd, p.done); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		defer close(p.done)
		p.read(io.TeeReader(stderr, log))
		err := p.cmd.Wait()
		if err == nil {
			err = errors.New("it stopped by itself")
		}
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		_ = log.Close() // everything in it was written by then
	}()
	return p, nil
}

// read follows the log to its end.
func (p *process) read(log io.Reader) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p.line(line)
		}
		if err != nil {
			return
		}
	}
}

// line is what the cluster reads of a line of a process's log.
type line struct {
	Listener string                      `json:"listener,omitempty"`
	Address  string                      `json:"address,omitempty"`
	Message  string                      `json:"message"`
	Traffic  map[bus.Role]broker.Traffic `json:"traffic,omitempty"`
}

func (p *process) line(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, string(text))
	if len(p.tail) > keptLines {
		p.tail = p.tail[1:]
	}
	var said line
	if json.Unmarshal(text, &said) != nil {
		return
	}
	if said.Traffic != nil {
		p.traffic = said.Traffic
	}
	if said.Address == "" {
		return
	}
	p.addresses[said.Listener] = said.Address
	for _, l := range p.awaited {
		if p.addresses[l] == "" {
			return
		}
	}
	select {
	case <-p.ready:
	default:
		close(p.ready)
	}
}

func (p *process) address(listener string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses[listener]
}

func (p *process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

func (p *process) over() (error, bool) {
	select {
	case <-p.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err, true
	default:
		return nil, false
	}
}

// stop asks the process to stop and kills it if it does not.
func (p *process) stop() {
	p.notePeak()
	_ = p.ties.Close()
	if !p.tied {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that has ended already is what we want
	}
	select {
	case <-p.done:
		return
	case <-time.After(stopTime):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// notePeak reads the largest resident set of the running process. What the kernel says of an ended one also counts the
// memory of the process that started it, from before the program was loaded.
func (p *process) notePeak() {
	if u, ok := running(p.cmd.Process.Pid); ok {
		p.mu.Lock()
		p.peak = u.Peak
		p.mu.Unlock()
	}
}

// usage is what the process used, once it has ended.
func (p *process) usage() Usage {
	s := p.cmd.ProcessState
	if s == nil {
		return Usage{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{CPU: s.UserTime() + s.SystemTime(), Peak: cmp.Or(p.peak, peak(s))}
}
