package ingress

import (
	_ "embed" // the description
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// openapi describes all of this to other programs.
//
//go:embed openapi.json
var document []byte

// Description is the OpenAPI document of what an ingress serves.
func Description() []byte { return slices.Clone(document) }

// longestWait is how long a request for announcements may wait for the next one.
const longestWait = 30 * time.Second

const binaryType = "application/octet-stream"

// announcement hands out one announcement, which never changes.
func (s *Ingress) announcement(w http.ResponseWriter, r *http.Request) error {
	at, err := parsePlace(r.PathValue("epoch") + "." + r.PathValue("round"))
	if err != nil {
		return err
	}
	l, found := s.chain.find(at)
	if !found {
		return wrong(http.StatusNotFound, NotAnnounced, "round %d of epoch %d is not announced", at.round, at.epoch)
	}
	send(w, r, l.published, "public, max-age=31536000, immutable")
	return nil
}

// announcements hands out the chain from a place on, and waits for the next announcement where there is none yet.
func (s *Ingress) announcements(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	var at place
	wait := longestWait
	if after := query.Get("after"); after != "" {
		var err error
		if at, err = parsePlace(after); err != nil {
			return err
		}
	}
	if text := query.Get("wait"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 8)
		if err != nil || time.Duration(seconds)*time.Second > longestWait {
			return wrong(http.StatusBadRequest, Malformed, "wait is a number of seconds, at most %d",
				int(longestWait.Seconds()))
		}
		wait = time.Duration(seconds) * time.Second
	}
	frames, news := s.chain.after(at)
	if len(frames) == 0 && wait > 0 && s.waiting.TryAcquire(1) {
		select {
		case <-news:
		case <-s.c.Clock.After(wait):
		case <-r.Context().Done():
		case <-s.stopping:
		}
		s.waiting.Release(1)
		frames, _ = s.chain.after(at)
	}
	cache := "public, max-age=5"
	if len(frames) == 0 {
		cache = "no-store" // it was waited for: nobody else shall be told for some seconds that there is nothing
	}
	w.Header().Set("Cache-Control", cache)
	w.Header().Set("Content-Type", binaryType)
	_, _ = w.Write(frames) // a client that went away is no error of ours
	return nil
}

// keys hands out the shuffler's signed key set.
func (s *Ingress) keys(w http.ResponseWriter, r *http.Request) error {
	set := s.chain.keySet()
	if set == nil {
		return later(time.Second, NoKeys, "the shuffler's keys are not known here yet")
	}
	send(w, r, *set, "public, max-age=60")
	return nil
}

// description hands out the OpenAPI document.
func (s *Ingress) description(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=60")
	_, _ = w.Write(document) // as above
	return nil
}

// send answers with a signed statement, or says that the client's copy is the same.
func send(w http.ResponseWriter, r *http.Request, p published, cache string) {
	h := w.Header()
	h.Set("Content-Type", binaryType)
	h.Set("Cache-Control", cache)
	h.Set("ETag", p.tag)
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == p.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	_, _ = w.Write(p.signed) // as above
}

// parsePlace reads <epoch>.<round>, written the one way.
func parsePlace(text string) (place, error) {
	e, r, _ := strings.Cut(text, ".")
	epoch, bad := strconv.ParseUint(e, 10, 64)
	round, worse := strconv.ParseUint(r, 10, 32)
	if bad != nil || worse != nil || strconv.FormatUint(epoch, 10)+"."+strconv.FormatUint(round, 10) != text {
		return place{}, wrong(http.StatusBadRequest, Malformed, "a round is named <epoch>.<round>, such as 3.0")
	}
	return place{epoch, uint32(round)}, nil
}
