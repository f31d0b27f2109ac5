package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// stopTime is how long a process may take to stop before it is killed; a role's own limit is 8 s.
	stopTime = 9 * time.Second
	// keptLines is how many log lines are kept for an error's text.
	keptLines = 12
)

// process is one role's process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its log is read

	mu        sync.Mutex
	err       error
	addresses map[string]string // listener -> host:port, as the log says
	tail      []string
	ready     chan struct{} // closed when all awaited listeners listen
	awaited   []string
}

// StartProcess starts a role's process that is not running and waits until it listens.
func (c *Cluster) StartProcess(ctx context.Context, name string) error {
	c.mu.Lock()
	_, running := c.processes[name]
	c.mu.Unlock()
	if running {
		return fmt.Errorf("cluster: %s is running already", name)
	}
	role, host, _ := strings.Cut(name, "-")
	args := []string{role, "--keys", c.Keys(), "--broker-url", c.URL(),
		"--ops-listen", "127.0.0.1:0", "--log-format", "json"}
	awaited := []string{"ops.listen"}
	switch role {
	case Shuffler:
		args = append(args, "--state", filepath.Join(c.o.Dir, name))
		args = append(args, c.o.Shuffler...)
	case Analyzer:
		args = append(args, c.o.Analyzer...)
	default:
		args = append(args, "--state", filepath.Join(c.o.Dir, name), "--host", host, "--api-listen", "127.0.0.1:0")
		args = append(args, c.o.Randomizer...)
		awaited = append(awaited, "api.listen")
	}
	p, err := launch(c.o.Executable, args, filepath.Join(c.o.Dir, name+".log"), awaited)
	if err != nil {
		return fmt.Errorf("cluster: %s: %w", name, err)
	}
	c.mu.Lock()
	c.processes[name] = p
	c.mu.Unlock()
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		err, _ := p.over()
		return fmt.Errorf("cluster: %s did not start: %w\n%s", name, err, p.lastWords())
	case <-time.After(startTime):
		return fmt.Errorf("cluster: %s did not start within %s\n%s", name, startTime, p.lastWords())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
	err := p.cmd.Process.Kill()
	<-p.done
	c.account(name, p)
	return err
}

// launch starts a program whose log goes to a file.
func launch(program string, args []string, logPath string, awaited []string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd: exec.Command(program, args...), done: make(chan struct{}), ready: make(chan struct{}),
		addresses: map[string]string{}, awaited: awaited,
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
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

func (p *process) line(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, string(line))
	if len(p.tail) > keptLines {
		p.tail = p.tail[1:]
	}
	var said struct {
		Listener string `json:"listener"`
		Address  string `json:"address"`
	}
	if json.Unmarshal(line, &said) != nil || said.Address == "" {
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
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that has ended already is what we want
	select {
	case <-p.done:
		return
	case <-time.After(stopTime):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) cpu() time.Duration {
	s := p.cmd.ProcessState
	if s == nil {
		return 0
	}
	return s.UserTime() + s.SystemTime()
}
