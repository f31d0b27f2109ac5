package standin

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

const (
	// how late a lost notice makes a watcher: the middle of what bus draws at random
	pollEvery  = 15 * time.Second
	pollPause  = 20 * time.Millisecond // at least this between two looks
	answerPoll = 2 * time.Second       // how late a lost notice makes whoever waits for an answer
)

// notices is one listener for the news that something was stored.
type notices struct {
	c      *Conn
	filter string
	token  chan struct{}
}

// listen begins to hear notices that match a filter; the function ends that.
func (c *Conn) listen(filter string) (<-chan struct{}, func()) {
	n := &notices{c, filter, make(chan struct{}, 1)}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.notices = append(c.b.notices, n)
	return n.token, func() {
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		c.b.notices = slices.DeleteFunc(c.b.notices, func(have *notices) bool { return have == n })
	}
}

// notify tells the listeners that a message was stored. The broker's lock is held.
func (b *Broker) notify(subject string) {
	notice := noticeOf(subject)
	if notice == "" {
		return
	}
	for _, n := range b.notices {
		session, ok := n.c.connected()
		if !ok || n.c.life.Err() != nil || !matches(n.filter, notice) {
			continue
		}
		op := n.c.named("Notice", notice)
		b.run(func() {
			if b.before(session, op) != Lose {
				tell(n.token)
			}
		})
	}
}

// noticeOf is the subject of the notice of a stored message; empty: none is sent.
func noticeOf(subject string) string {
	for _, r := range []struct {
		from, to string
		tokens   int
	}{
		{bus.SubjectAnnouncements, bus.SubjectAnnounced, 2},
		{bus.SubjectPrepared, bus.SubjectAnswered, 2},
		{bus.SubjectKeys, bus.SubjectRekeyed, 1},
	} {
		if name, ok := strings.CutPrefix(subject, r.from+"."); ok {
			return r.to + "." + strings.Join(strings.Split(name, ".")[:r.tokens], ".")
		}
	}
	return ""
}

// watch hands every message that matches the filter to fn, first those that are there, then new ones as they come.
func (c *Conn) watch(ctx context.Context, method, stream, filter, notice string, fn func(*message) error) error {
	if c.life.Err() != nil {
		return bus.ErrClosed
	}
	if err := c.may(need{broker.Watch, notice}); err != nil {
		return err
	}
	news, stop := c.listen(notice)
	defer stop()
	back, forget := c.reconnects()
	defer forget()
	var from uint64
	for {
		var err error
		if from, err = c.scan(ctx, method, stream, filter, from, fn); err != nil {
			return err
		}
		wait := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
		case <-c.life.Done():
		case <-news:
		case <-back:
		case <-wait.C:
		}
		wait.Stop()
		if pause := pollPause; !sleep(ctx, c.life, &pause) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return bus.ErrClosed
		}
	}
}

// WatchAnnouncements is that of bus.Conn.
func (c *Conn) WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error {
	return c.watch(ctx, "WatchAnnouncements", bus.StreamAnnouncements, bus.SubjectAnnouncements+".*.*.*",
		bus.SubjectAnnounced+".>", func(m *message) error { return handler(announcement(m)) })
}

// WatchKeys is that of bus.Conn.
func (c *Conn) WatchKeys(ctx context.Context, handler func(role bus.Role, payload []byte) error) error {
	return c.watch(ctx, "WatchKeys", bus.StreamKeys, bus.SubjectKeys+".*", bus.SubjectRekeyed+".>",
		func(m *message) error {
			return handler(bus.Role(strings.TrimPrefix(m.subject, bus.SubjectKeys+".")), bytes.Clone(m.data))
		})
}

// PreparedNews is that of bus.Conn.
func (c *Conn) PreparedNews(epoch uint64, round uint32) (<-chan struct{}, func(), error) {
	if c.life.Err() != nil {
		return nil, nil, bus.ErrClosed
	}
	token := make(chan struct{}, 1)
	heard, stop := c.listen(subjectRound(bus.SubjectAnswered, epoch, round))
	back, forget := c.reconnects()
	ended := make(chan struct{})
	go func() {
		poll := time.NewTicker(answerPoll)
		defer poll.Stop()
		for {
			select {
			case <-ended:
				return
			case <-c.life.Done():
				return
			case <-heard:
			case <-back:
			case <-poll.C:
			}
			tell(token)
		}
	}()
	return token, func() {
		close(ended)
		forget()
		stop()
	}, nil
}
