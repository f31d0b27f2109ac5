package shuffle

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
)

// A segment opens for its deployment, release, announcement, execution, bucket and secret, and for no others: not even
// where a lead gave two releases one secret.
func TestASegmentOpensOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	type place struct {
		deployment string
		release    channel.Release
		name       execution
		bucket     uint32
		secret     secret
	}
	own := place{
		"test", channel.Release{Epoch: 3, Round: 1, Announcement: [32]byte{5}}, execution{7}, 2,
		bytes.Repeat([]byte{9}, secretSize),
	}
	at := func(p place) *segmentSealer {
		s, err := p.secret.sealer(p.deployment, &p.release, p.name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := []byte("messages")
	sealed := at(own).seal(append(make([]byte, 0, len(plain)+sealOverhead), plain...), own.bucket)
	if got, err := at(own).open(bytes.Clone(sealed), own.bucket); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%q, %v", got, err)
	}
	for what, change := range map[string]func(*place){
		"deployment":   func(p *place) { p.deployment = "other" },
		"epoch":        func(p *place) { p.release.Epoch++ },
		"round":        func(p *place) { p.release.Round++ },
		"announcement": func(p *place) { p.release.Announcement[0]++ },
		"execution":    func(p *place) { p.name[0]++ },
		"bucket":       func(p *place) { p.bucket++ },
		"secret":       func(p *place) { p.secret = bytes.Repeat([]byte{8}, secretSize) },
	} {
		other := own
		change(&other)
		if got, err := at(other).open(bytes.Clone(sealed), other.bucket); !errors.Is(err, errSegment) || got != nil {
			t.Errorf("another %s: %q, %v", what, got, err)
		}
	}
}
