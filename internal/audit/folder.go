package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/audit/retained"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrFolder means a folder, or a file in it, that is not as an export is. The text says which, and what is wrong.
var ErrFolder = errors.New("not an export as riffle audit export writes it")

const (
	// maxKind bounds the bytes of an entry's kind, as the audit stream does.
	maxKind = 64
	// maxLine bounds a line of a log: the base64 of the largest statement, its kind, and what JSON puts around them.
	maxLine = (wire.MaxStatement+2)/3*4 + maxKind + len(`{"kind":"","signed":""}`)
	// maxRetained bounds a retained chunk: a message of the broker.
	maxRetained = bus.MaxPayload
	// certificates is the folder of certificates.
	certificates = "certificates"
)

// logRoles are the roles that have a log, in the order in which an audit reads them.
func logRoles() []bus.Role { return []bus.Role{bus.Analyzer, bus.Shuffler} }

func logFile(r bus.Role) string        { return string(r) + ".log" }
func checkpointFile(r bus.Role) string { return string(r) + ".checkpoint" }

// CertificateFile is the name of the certificate of an epoch in an export, with slashes.
func CertificateFile(epoch uint64) string {
	return certificates + "/epoch-" + strconv.FormatUint(epoch, 10) + ".json"
}

// Folder is an export that is read. It is a Source. Nothing in it is trusted: it may have been made to mislead.
type Folder struct{ path string }

// OpenFolder looks whether a folder has both logs. Errors: ErrFolder, the disk's.
func OpenFolder(path string) (*Folder, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: there is no such folder", path, ErrFolder)
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("%s: %w: it is a file; name the folder that it was exported to", path, ErrFolder)
	}
	for _, role := range logRoles() {
		err := regular(filepath.Join(path, logFile(role)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w: there is no %s in it", path, ErrFolder, logFile(role))
		} else if err != nil {
			return nil, err
		}
	}
	return &Folder{path}, nil
}

// Bundle is the bundle that lies in the folder. Whoever wrote the logs can have written it, too.
func (d *Folder) Bundle() (keyring.Bundle, error) {
	if err := regular(filepath.Join(d.path, keyring.BundleFile)); err != nil {
		return keyring.Bundle{}, err
	}
	return keyring.LoadBundle(d.path)
}

// Log implements Source.
func (d *Folder) Log(ctx context.Context, role bus.Role, f func(Entry) error) error {
	file, err := os.Open(filepath.Join(d.path, logFile(role)))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it is only read
	lines := bufio.NewReaderSize(file, 1<<16)
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var e Entry
		if err == nil {
			e, err = parseEntry(line)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", file.Name(), n, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

// readLine reads a line of at most maxLine bytes, without its newline. io.EOF means no more lines.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine+1:
			return nil, fmt.Errorf("%w: it has more than %d bytes", ErrFolder, maxLine)
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, fmt.Errorf("%w: it is cut off: a line ends in a newline", ErrFolder)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// appendEntry appends the line of an entry, without a newline.
func appendEntry(dst []byte, e Entry) ([]byte, error) {
	line, err := json.Marshal(e)
	return append(dst, line...), err
}

// parseEntry reads a line, and accepts only the one that appendEntry writes of what it says.
func parseEntry(line []byte) (Entry, error) {
	var e Entry
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := checkEntry(e); err != nil {
		return Entry{}, err
	}
	if again, err := appendEntry(nil, e); err != nil || !bytes.Equal(again, line) {
		return Entry{}, fmt.Errorf("%w: not written as an export writes it", ErrFolder)
	}
	return e, nil
}

// checkEntry refuses what no line can hold.
func checkEntry(e Entry) error {
	odd := strings.IndexFunc(e.Kind, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
	switch {
	case e.Kind == "" || len(e.Kind) > maxKind || odd >= 0:
		return fmt.Errorf("%w: the kind must be 1 to %d letters, digits, - and _", ErrFolder, maxKind)
	case len(e.Signed) == 0 || len(e.Signed) > wire.MaxStatement:
		return fmt.Errorf("%w: a statement has 1 to %d bytes, this has %d", ErrFolder, wire.MaxStatement, len(e.Signed))
	}
	return nil
}

// Checkpoint implements Source.
func (d *Folder) Checkpoint(_ context.Context, role bus.Role) ([]byte, error) {
	b, err := readFile(filepath.Join(d.path, checkpointFile(role)), transparency.MaxCheckpoint)
	if err == nil {
		return b, nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, err
}

// Retained implements Source.
func (d *Folder) Retained(
	ctx context.Context, epoch uint64, round uint32, f func(index uint32, sealed []byte) error,
) error {
	folder := filepath.Dir(filepath.Join(d.path, filepath.FromSlash(retained.Path(epoch, round, 0))))
	found, err := list(folder)
	if err != nil {
		return err
	}
	var indices []uint32
	for _, e := range found {
		if n, ok := number(e.Name(), 32); ok && e.Type().IsRegular() { // Stray lists the others
			indices = append(indices, uint32(n))
		}
	}
	slices.Sort(indices)
	for _, index := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := filepath.Join(d.path, filepath.FromSlash(retained.Path(epoch, round, index)))
		sealed, err := readFile(name, maxRetained)
		if err != nil {
			return err
		}
		if err := f(index, sealed); err != nil {
			return err
		}
	}
	return nil
}

// Certificates hands the certificates in the folder to f, with their names, in no particular order.
func (d *Folder) Certificates(ctx context.Context, f func(name string, b []byte) error) error {
	found, err := list(filepath.Join(d.path, certificates))
	if err != nil {
		return err
	}
	for _, e := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := certificates + "/" + e.Name()
		if !isCovered(name) || !e.Type().IsRegular() {
			continue
		}
		b, err := readFile(filepath.Join(d.path, filepath.FromSlash(name)), certificate.MaxSize)
		if err != nil {
			return err
		}
		if err := f(name, b); err != nil {
			return err
		}
	}
	return nil
}

// Stray lists the files that no signature and no digest covers, because an export has none of their name, with slashes
// and sorted. Links and other things that are no regular files are among them.
func (d *Folder) Stray() (names []string, err error) {
	err = filepath.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(d.path, path)
		if name = filepath.ToSlash(name); err == nil && !(isCovered(name) && e.Type().IsRegular()) {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// RetainedRounds hands the rounds of which the folder has retained chunks to f, in no particular order: those that no
// manifest is of are covered by nothing.
func (d *Folder) RetainedRounds(f func(epoch uint64, round uint32) error) error {
	found, err := filepath.Glob(filepath.Join(d.path, "retained", "*", "*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		epoch, ok := number(filepath.Base(filepath.Dir(path)), 64)
		round, fine := number(filepath.Base(path), 32)
		if !ok || !fine {
			continue // Stray lists what is in it
		}
		if err := f(epoch, uint32(round)); err != nil {
			return err
		}
	}
	return nil
}

var (
	retainedName    = regexp.MustCompile(`^retained/([0-9]+)/([0-9]+)/([0-9]+)$`)
	certificateName = regexp.MustCompile(`^` + certificates + `/epoch-([0-9]+)\.json$`)
)

// isCovered reports whether an export has files of this name.
func isCovered(name string) bool {
	if m := retainedName.FindStringSubmatch(name); m != nil {
		_, epoch := number(m[1], 64)
		_, round := number(m[2], 32)
		_, index := number(m[3], 32)
		return epoch && round && index
	}
	if m := certificateName.FindStringSubmatch(name); m != nil {
		_, ok := number(m[1], 64)
		return ok
	}
	for _, role := range logRoles() {
		if name == logFile(role) || name == checkpointFile(role) {
			return true
		}
	}
	return name == keyring.BundleFile
}

// number reads a number that is written in the one way that numbers are.
func number(s string, bits int) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// regular refuses what is no regular file: a link leads out of the export, and a pipe keeps its reader waiting.
// Errors: ErrFolder, the disk's.
func regular(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: it is no regular file", path, ErrFolder)
	}
	return err
}

// list is what is in a folder: nothing where there is none, or something else, which Stray lists.
func list(path string) ([]fs.DirEntry, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && !info.IsDir():
		return nil, nil
	case err != nil:
		return nil, err
	}
	return os.ReadDir(path)
}

// readFile reads a regular file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	b, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: %w: it has more than %d bytes", path, ErrFolder, most)
	}
	return b, err
}
