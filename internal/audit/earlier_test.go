package audit_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
)

// The logs in testdata/before-panels are of a demo with 240 people in the channel central, by the last version that had
// no panels, without its certificates, which later versions write in another form. Everything in them is recomputed as it
// was: an analyzer that was upgraded recomputes the same, and would not go on if anything differed.
func TestLogsFromBeforePanelsAreClean(t *testing.T) {
	export, err := audit.OpenFolder(filepath.Join("testdata", "before-panels"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := export.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(context.Background(), export, audit.Options{Trust: keys})
	if err != nil || !report.OK || report.Running || report.Releases != 3 || report.PoliciesRecomputed != 3 {
		t.Errorf("%+v, %v", report, err)
	}
}
