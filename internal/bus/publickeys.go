package bus

import (
	"context"
	"fmt"
	"strings"
)

// PutKeys publishes the role's public keys; the newest call counts.
//
// Errors: ErrForbidden, ErrTooLarge, ErrFull: not stored; ErrUnknown: maybe stored, repeat.
func (c *Conn) PutKeys(ctx context.Context, payload []byte) error {
	_, err := c.publish(ctx, SubjectKeys+"."+string(c.role), nil, payload)
	return err
}

// Keys reads a role's newest public keys. ErrGone where it has not published any.
func (c *Conn) Keys(ctx context.Context, role Role) ([]byte, error) {
	r, err := c.last(ctx, StreamKeys, SubjectKeys+"."+string(role))
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", role, err)
	}
	return r.Data, nil
}

// WatchKeys hands published keys to the handler in order: first what is stored (a role's last few, the newest last),
// then new ones as they come. It ends like WatchAnnouncements.
func (c *Conn) WatchKeys(ctx context.Context, handler func(role Role, payload []byte) error) error {
	return c.watch(ctx, StreamKeys, SubjectKeys+".*", SubjectRekeyed+".>", func(r record) error {
		return handler(Role(strings.TrimPrefix(r.Subject, SubjectKeys+".")), r.Data)
	})
}
