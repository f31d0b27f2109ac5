package bus

import (
	"context"
	"fmt"
	"strings"
)

// KeyStream is the handle of the roles' public keys. Each role writes its own; every role reads them. Only the newest
// set of a role counts; a few older ones stay readable.
type KeyStream struct{ stream }

// PutKeys publishes the role's public keys; the newest call counts.
//
// Errors: ErrForbidden, ErrTooLarge, ErrFull: not stored; ErrUnknown: maybe stored, repeat.
func (s *KeyStream) PutKeys(ctx context.Context, payload []byte) error {
	_, err := s.t.Publish(ctx, SubjectKeys+"."+string(s.t.Role()), nil, payload)
	return err
}

// ReadKeys reads a role's newest public keys. ErrGone where it has not published any.
func (s *KeyStream) ReadKeys(ctx context.Context, role Role) ([]byte, error) {
	r, err := s.last(ctx, SubjectKeys+"."+string(role))
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", role, err)
	}
	return r.Data, nil
}

// WatchKeys hands published keys to the handler in order: first what is stored (a role's last few, the newest last),
// then new ones as they come. It ends like WatchAnnouncements.
func (s *KeyStream) WatchKeys(ctx context.Context, handler func(role Role, payload []byte) error) error {
	return s.watch(ctx, SubjectKeys+".*", SubjectRekeyed+".>", func(r Record) error {
		return handler(Role(strings.TrimPrefix(r.Subject, SubjectKeys+".")), r.Data)
	})
}
