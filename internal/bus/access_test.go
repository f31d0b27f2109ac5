package bus

import (
	"context"
	"os"
	"strings"
	"testing"
)

// matrix tries everything as everybody.
func matrix(t *testing.T, b *broker) map[Role][]Outcome {
	t.Helper()
	out := map[Role][]Outcome{}
	for _, r := range Roles() {
		c := b.connect(r)
		for _, a := range Attempts() {
			o, err := c.Try(context.Background(), a)
			if err != nil {
				t.Fatalf("%s, %s: %v", r, a.What, err)
			}
			out[r] = append(out[r], o)
		}
		c.Close()
	}
	return out
}

// TestAccessMatrix tries every forbidden thing as every role, and every allowed one too: a refusal proves nothing where the attempt would
// fail for everybody. With RIFFLE_ACCESS_TABLE=FILE it writes the table for the documentation.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	out := matrix(t, b)
	for i, a := range Attempts() {
		for _, r := range Roles() {
			o := out[r][i]
			if o.Reached != a.Allows(r) {
				t.Errorf("%s: %s (%s): reached %v (%s), allowed %v", r, a.What, a.Subjects[0], o.Reached, o.Reason, a.Allows(r))
			}
			if !o.Reached && strings.Trim(strings.ReplaceAll(o.Reason, "no permission", ""), "; ") != "" {
				t.Errorf("%s: %s: refused for another reason: %s", r, a.What, o.Reason)
			}
		}
	}
	if path := os.Getenv("RIFFLE_ACCESS_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(AccessTable(Attempts(), out)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
