package worker

import (
	"context"
	"encoding/binary"
	"slices"
	"time"
)

// handle answers one letter of a worker.
func (l *Lead) handle(ctx context.Context, letter []byte) []byte {
	h, sealed, err := parseHead(letter)
	if err == nil {
		var body []byte
		if body, err = l.c.Sealer.open(h, toLead, sealed); err == nil {
			return l.once(h, func() []byte { return l.reply(ctx, h, body) })
		}
	}
	l.counts.add(outcomeRefused)
	l.c.Log.Warn().Err(err).Msg("a message to the lead cannot be opened")
	return nil
}

// once answers a question that is repeated while it is being answered with the one answer.
func (l *Lead) once(h head, answer func() []byte) []byte {
	l.mu.Lock()
	c, running := l.calls[h.id]
	if !running {
		c = &call{done: make(chan struct{})}
		l.calls[h.id] = c
	}
	l.mu.Unlock()
	if running {
		<-c.done
		return c.reply
	}
	c.reply = answer()
	l.mu.Lock()
	delete(l.calls, h.id)
	l.mu.Unlock()
	close(c.done)
	return c.reply
}

func (l *Lead) reply(ctx context.Context, h head, body []byte) []byte {
	say := func(s status, text []byte) []byte { return l.c.Sealer.seal(h, back, []byte{byte(s)}, text) }
	if h.kind == callHello {
		l.hello(body)
		return say(statusOK, l.incarnation[:])
	}
	if h.incarnation != l.incarnation {
		return say(statusMoved, l.incarnation[:])
	}
	switch h.kind {
	case callBegin:
		return say(l.begin(body), nil)
	case callDone:
		return say(l.finish(body), nil)
	}
	answer := l.answers[h.kind]
	if answer == nil {
		return say(statusKind, nil)
	}
	r, err := do(ctx, answer, body)
	if err != nil {
		return nil // this lead ends: the next one is asked
	}
	return say(r.status, r.body)
}

// hello notes that a worker lives, and what it does.
func (l *Lead) hello(body []byte) {
	const fixed = len(id{}) + 4
	if len(body) < fixed {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers[id(body[:len(id{})])] = heard{at: now, places: int(binary.LittleEndian.Uint32(body[len(id{}):]))}
	for doing := range slices.Chunk(body[fixed:], len(id{})) {
		if len(doing) == len(id{}) {
			if p := l.tasks[id(doing)]; p != nil {
				p.seen = now
			}
		}
	}
}

// begin reports whether a task that a worker has taken is still to be done.
func (l *Lead) begin(body []byte) status {
	if len(body) != len(id{}) {
		return statusNo
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.tasks[id(body)]
	if p == nil || p.here || len(p.result) > 0 {
		return statusNo
	}
	if p.begun++; p.begun > 1 {
		l.counts.add(outcomeRedelivered)
	}
	p.seen = time.Now()
	return statusOK
}

// finish takes a result; of a task that has one, or of none that this lead knows, it takes nothing.
func (l *Lead) finish(body []byte) status {
	if len(body) < len(id{})+1 {
		return statusNo
	}
	r := result{status(body[len(id{})]), body[len(id{})+1:]}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.tasks[id(body[:len(id{})])]
	if p == nil || len(p.result) > 0 {
		l.counts.add(outcomeUnwanted)
		return statusNo
	}
	p.result <- r
	if l.countResult(r).status == statusOK {
		l.counts.add(outcomeDone)
	}
	return statusOK
}
