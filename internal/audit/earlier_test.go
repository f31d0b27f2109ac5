package audit_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/certificate"
)

// The logs in testdata/before-panels are of a demo with 240 people in the channel central, by the last version that had
// no panels. Everything in them is recomputed as it was: an analyzer that was upgraded recomputes the same, and would
// not go on if anything differed.
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
	certificates := 0
	err = export.Certificates(context.Background(), func(name string, b []byte) error {
		f, err := certificate.Decode(b)
		if err == nil {
			_, err = certificate.Verify(f, keys)
		}
		if certificates++; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return nil
	})
	if err != nil || certificates != 3 {
		t.Errorf("%d certificates, %v", certificates, err)
	}
}
