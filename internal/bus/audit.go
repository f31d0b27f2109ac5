package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// AuditStream is the handle of the audit log. The shuffler and the analyzer append signed statements to it, each under
// its own name; they and the auditor read it. It is kept for good: no role can change or remove an entry.
type AuditStream struct{ stream }

// Statement is one entry of the audit log. Role and Kind are what the subject says; the reader must check the
// signature.
type Statement struct {
	Role     Role
	Kind     string
	Sequence uint64    // place in the log
	Time     time.Time // when the broker stored it
	Payload  []byte
	// Misnamed: it is not under its own digest, where AppendAudit puts every statement. Its role did not append
	// it, though the role may have signed it: who holds a role's credential can put what it said there a second time.
	Misnamed bool
}

// AuditFilter selects statements. Zero values select everything.
type AuditFilter struct {
	Role  Role
	Kind  string
	After uint64 // only statements after this sequence
}

// AppendAudit appends a statement to the audit log under the connection's own role; kind is letters, digits, - and _
// (at most 64 bytes). The log cannot be changed by any role, and the same statement of a kind is stored once, however
// often it is appended.
//
// Errors: ErrBadName, ErrForbidden, ErrTooLarge, ErrFull: not stored; ErrUnknown: maybe stored, repeat.
func (s *AuditStream) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	if err := checkToken("audit kind", kind, maxKind); err != nil {
		return err
	}
	// The digest is in the subject, which holds one message, and not in a message id: ids are shared by all who
	// write into a stream, so that another role could use up this one's.
	_, err := s.t.Publish(ctx, subjectAudit(s.t.Role(), kind, payload), nil, payload)
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}

// AppendAuditAfter appends a statement like AppendAudit, if the newest entry of the connection's role, of any kind, is
// the one with the sequence last (0: there is none): who knows the log up to there knows what is before the
// statement. It returns the statement's place.
//
// Errors: ErrMoved: not stored now; those of AppendAudit.
func (s *AuditStream) AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (uint64, error) {
	if err := checkToken("audit kind", kind, maxKind); err != nil {
		return 0, err
	}
	sequence, err := s.t.Publish(ctx, subjectAudit(s.t.Role(), kind, payload), nats.Header{
		headerExpectLast: {strconv.FormatUint(last, 10)}, headerExpectOf: {subjectsAudit(s.t.Role())},
	}, payload)
	if errors.Is(err, ErrTaken) {
		return 0, ErrMoved
	}
	if err != nil {
		return 0, err
	}
	return sequence, nil
}

// Audited reports whether a statement is in the audit log as a role appended it, byte for byte. What was appended
// before the call is not missed.
//
// Errors: ErrBadName, ErrForbidden; ErrUnknown where the context ended first.
func (s *AuditStream) Audited(ctx context.Context, role Role, kind string, payload []byte) (bool, error) {
	if err := errors.Join(checkToken("role", string(role), maxKind),
		checkToken("audit kind", kind, maxKind)); err != nil {
		return false, err
	}
	r, err := s.last(ctx, subjectAudit(role, kind, payload))
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	return err == nil && bytes.Equal(r.Data, payload), err
}

// Said hands the statements that a role appended under a kind to the handler, in the order of the log, and returns at
// its end. It asks for one statement at a time, as a role may that reads little of the log. What was appended before
// the call is not missed.
//
// Errors: the handler's own; ErrBadName, ErrForbidden; ErrUnknown where the context ended first.
func (s *AuditStream) Said(ctx context.Context, role Role, kind string, handler func(payload []byte) error) error {
	if err := errors.Join(checkToken("role", string(role), maxKind),
		checkToken("audit kind", kind, maxKind)); err != nil {
		return err
	}
	filter := SubjectAudit + "." + string(role) + "." + kind + ".*"
	return s.readOneByOne(ctx, filter, 1, func(r Record) error { return handler(r.Data) })
}

// SaidSince hands all entries of a role, from a sequence on and of whatever kind, to the handler, in the order of the
// log, and returns at its end. It asks as Said does. What was appended before the call is not missed.
//
// Errors: those of Said.
func (s *AuditStream) SaidSince(ctx context.Context, role Role, from uint64, handler func(Statement) error) error {
	if err := checkToken("role", string(role), maxKind); err != nil {
		return err
	}
	return s.readOneByOne(ctx, subjectsAudit(role), from, func(r Record) error {
		statement, err := statementOf(r)
		if err != nil {
			return err
		}
		return handler(statement)
	})
}

// readOneByOne asks the leader for one entry at a time.
func (s *AuditStream) readOneByOne(ctx context.Context, filter string, from uint64, handler func(Record) error) error {
	for from = max(from, 1); ; {
		r, err := s.t.Leader(ctx, s.name, Query{Next: filter, Sequence: from})
		if errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := handler(r); err != nil {
			return err
		}
		from = r.Sequence + 1
	}
}

// subjectAudit names a statement by its digest.
func subjectAudit(role Role, kind string, payload []byte) string {
	digest := sha256.Sum256(payload)
	return SubjectAudit + "." + string(role) + "." + kind + "." + hex.EncodeToString(digest[:16])
}

// subjectsAudit matches all entries of a role.
func subjectsAudit(role Role) string { return SubjectAudit + "." + string(role) + ".*.*" }

// statementOf reads an entry.
func statementOf(r Record) (Statement, error) {
	parts := strings.Split(strings.TrimPrefix(r.Subject, SubjectAudit+"."), ".")
	if len(parts) != 3 {
		return Statement{}, fmt.Errorf("bus: audit log: %w: %q", ErrBadName, r.Subject)
	}
	s := Statement{Role: Role(parts[0]), Kind: parts[1], Sequence: r.Sequence, Time: r.Time, Payload: r.Data}
	s.Misnamed = r.Subject != subjectAudit(s.Role, s.Kind, s.Payload)
	return s, nil
}

// ReadAudit hands the statements that match to the handler, in the order of the log, and returns at its end.
//
// Errors: the handler's own; ErrBadName, ErrForbidden; ErrUnknown where the context ended first. Reading changes
// nothing.
func (s *AuditStream) ReadAudit(ctx context.Context, filter AuditFilter, handler func(Statement) error) error {
	role, kind := "*", "*"
	if filter.Role != "" {
		role = string(filter.Role)
		if err := checkToken("role", role, maxKind); err != nil {
			return err
		}
	}
	if filter.Kind != "" {
		kind = filter.Kind
		if err := checkToken("audit kind", kind, maxKind); err != nil {
			return err
		}
	}
	_, err := s.scan(ctx, SubjectAudit+"."+role+"."+kind+".*", filter.After+1, func(r Record) error {
		statement, err := statementOf(r)
		if err != nil {
			return err
		}
		return handler(statement)
	})
	return err
}
