package problem_test

import (
	"net/http/httptest"
	"testing"

	"github.com/riffle-dp/riffle/pkg/problem"
)

// A refusal is problem details as RFC 9457 has them, with a reason; and headers that were set stay.
func TestARefusalIsProblemDetails(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", "1")
	problem.Write(w, 503, "busy", "too many requests")
	const want = `{"type":"about:blank","title":"Service Unavailable","status":503,"reason":"busy",` +
		`"detail":"too many requests"}` + "\n"
	if got := w.Body.String(); w.Code != 503 || got != want || w.Header().Get("Retry-After") != "1" ||
		w.Header().Get("Content-Type") != problem.ContentType {
		t.Errorf("%d %v %s", w.Code, w.Header(), got)
	}
}
