package witness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Reader reads the audit stream. *bus.Conn is one, and documents the method.
type Reader interface {
	ReadAudit(ctx context.Context, filter bus.AuditFilter, handler func(bus.Statement) error) error
}

// Live is a deployment's audit stream. What a role did not sign is skipped.
type Live struct {
	Reader Reader
	Logs   []Log // whose logs are read
}

// Log hands over the leaves as they stand in the stream.
func (l Live) Log(ctx context.Context, role bus.Role, f func(audit.Entry) error) error {
	by, err := l.of(role)
	if err != nil {
		return err
	}
	return l.Reader.ReadAudit(ctx, bus.AuditFilter{Role: role}, func(s bus.Statement) error {
		if !wire.Leaf(s.Kind, s.Payload, by) {
			return nil
		}
		return f(audit.Entry{Kind: s.Kind, Signed: s.Payload})
	})
}

// Checkpoint is the last one in the stream that the role signed.
func (l Live) Checkpoint(ctx context.Context, role bus.Role) (newest []byte, err error) {
	by, err := l.of(role)
	if err != nil {
		return nil, err
	}
	origin := transparency.Origin(by.Deployment, string(role))
	err = l.Reader.ReadAudit(ctx, bus.AuditFilter{Role: role, Kind: wire.KindCheckpoint}, func(s bus.Statement) error {
		if _, err := transparency.Open(s.Payload, origin, by.Key); err == nil {
			newest = bytes.Clone(s.Payload)
		}
		return nil
	})
	return newest, err
}

// Retained hands over nothing: a witness looks at no messages.
func (Live) Retained(context.Context, uint64, uint32, func(uint32, []byte) error) error { return nil }

func (l Live) of(role bus.Role) (wire.Party, error) {
	for _, log := range l.Logs {
		if log.Role == role {
			return wire.Party{Deployment: log.Deployment, Key: log.Key}, nil
		}
	}
	return wire.Party{}, fmt.Errorf("witness: no key of the %s is known", role)
}

// Folder is an export (package audit describes its files).
type Folder string

// maxLine bounds a line of an exported log: a statement in base64, its kind, and what is written around them.
const maxLine = wire.MaxStatement/3*4 + 1024

// Log hands over the entries as they stand in the file. Whether they are the role's shows in the checkpoint.
func (d Folder) Log(_ context.Context, role bus.Role, f func(audit.Entry) error) error {
	file, err := os.Open(filepath.Join(string(d), string(role)+".log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var e audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: line %d is not an entry: %w", file.Name(), n, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}

// Checkpoint is the exported one.
func (d Folder) Checkpoint(_ context.Context, role bus.Role) ([]byte, error) {
	file, err := os.Open(filepath.Join(string(d), stateFile(role)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, transparency.MaxCheckpoint+1))
}

// Retained hands over nothing.
func (Folder) Retained(context.Context, uint64, uint32, func(uint32, []byte) error) error { return nil }
