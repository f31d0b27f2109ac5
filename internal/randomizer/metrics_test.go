package randomizer

import (
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
)

// Whether a reward came is part of a record: nothing counts it unless the configuration says that nobody else can see
// the count.
func TestRewardsAreCountedOnlyWhereAsked(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(keys, keyring.Options{Name: "clinic",
		Hosts: []keyring.HostOptions{{Name: "main", Devices: 10}}}); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []bool{false, true} {
		env, err := role.NewEnv("randomizer", role.DefaultSettings("127.0.0.1:0"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		settings := Role().Defaults
		settings.Keys, settings.State, settings.API.CountRewards = keys, t.TempDir(), asked
		if _, err := Role().Prepare(env, settings); err != nil {
			t.Fatal(err)
		}
		families, err := env.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var items []string
		for _, f := range families {
			for _, m := range f.Metric {
				for _, l := range m.Label {
					if l.GetName() == "item" && !slices.Contains(items, l.GetValue()) {
						items = append(items, l.GetValue())
					}
				}
			}
		}
		slices.Sort(items)
		want := []string{"announcement", "decision", "key_set", "report"}
		if asked {
			want = append(want, "reward")
		}
		if !slices.Equal(items, want) {
			t.Errorf("asked %v: items %v, want %v", asked, items, want)
		}
		for _, o := range env.Accounts() { // those are logged
			if o.Item() == "reward" {
				t.Error("rewards are among the accounts that are logged")
			}
		}
	}
}
