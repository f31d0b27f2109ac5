package mailbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/pkg/mailbox"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// An app's backend serves a mailbox behind its own login, with a table of its own database as the store.
func Example() {
	to := &url.URL{Scheme: "https", Host: "ingress.example"}
	box, err := mailbox.New(mailbox.Config{
		Account: func(r *http.Request) (string, error) { // by the app's own session
			c, err := r.Cookie("session")
			if err != nil {
				return "", mailbox.ErrNoAccount
			}
			return accountOf(c.Value), nil
		},
		Key: []byte("32 secret bytes of the backend's."), Store: new(memory), Ingress: to,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = box.Run(ctx) }() // sends what is due
	app := http.NewServeMux()
	app.Handle("/v1/deposits/", box)

	// What a page does before it shows a decision.
	page := httptest.NewRequest(http.MethodPut, "/v1/deposits/1.0/7", strings.NewReader("a sealed report"))
	page.AddCookie(&http.Cookie{Name: "session", Value: "ada"})
	page.Header.Set("Riffle-Ticket", wire.TicketHeader(wire.Ticket{1}, 7))
	page.Header.Set("Riffle-Due", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
	answer := httptest.NewRecorder()
	app.ServeHTTP(answer, page)
	fmt.Println(answer.Code, "waiting:", box.Counts().Waiting)
	// Output: 204 waiting: 1
}

func accountOf(session string) string { return session }
