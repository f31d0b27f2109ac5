package container_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/container"
)

func TestDoorForwardsUntilItEnds(t *testing.T) {
	role, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer role.Close()
	go func() { // answers with what it was told once it was told all
		for {
			c, err := role.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if text, err := io.ReadAll(c); err == nil {
					_, _ = c.Write(bytes.ToUpper(text))
				}
			}()
		}
	}()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	forwards, err := container.ParseForwards(" " + at + "=" + role.Addr().String() + " ")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- container.Door(ctx, forwards) }()

	call := func() *net.TCPConn {
		t.Helper()
		for {
			if c, err := net.Dial("tcp", at); err == nil {
				return c.(*net.TCPConn)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	question := strings.Repeat("what is asked ", 1<<16)
	c := call()
	go func() {
		_, _ = io.WriteString(c, question)
		_ = c.CloseWrite()
	}()
	if answer, err := io.ReadAll(c); err != nil || string(answer) != strings.ToUpper(question) {
		t.Errorf("%d bytes came back of %d: %v", len(answer), len(question), err)
	}
	_ = c.Close()

	t.Setenv("RIFFLE_DOOR", at+"="+role.Addr().String())
	health := func() error {
		cmd := container.DoorCommand()
		cmd.SetArgs([]string{"healthcheck"})
		return cmd.Execute()
	}
	if err := health(); err != nil {
		t.Errorf("an open door is not healthy: %v", err)
	}

	open := call()
	defer open.Close()
	cancel()
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived its door")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}

	if err := health(); !errors.Is(err, container.ErrNotReady) {
		t.Errorf("the health of a door that has ended: %v", err)
	}

	if err := container.Door(t.Context(), []container.Forward{{Listen: role.Addr().String(), To: at}}); err == nil {
		t.Error("a door at an address that is taken")
	}
	for _, wrong := range []string{"", "a:1", "a:1=b", "a=b:1", "a:1=b:2=c:3"} {
		if all, err := container.ParseForwards(wrong); err == nil {
			t.Errorf("%q was read as %v", wrong, all)
		}
	}
}
