// Command tap stands between each role and the broker and does to their traffic what a network does on a bad day. It
// reads the protocol of NATS, so that it can stop a role before or after a given message has reached the broker. It has
// the broker's certificate, and is part of no image that is deployed.
//
// TAP_LINKS lists the links, as NAME=:PORT pairs that are separated by spaces; TAP_BROKER is the broker's address. The
// commands come over HTTP, on TAP_CONTROL:
//
//	POST /link     {"link", "state", "delay"}  changes how a link is (State), and what it holds each message up by
//	POST /arm      Stop                        waits for a message, and stops the link there
//	GET  /wait     ?id=                        answers once the message of a stop has come
//	POST /release  ?id= &drop= &twice=         lets a stopped link go on, or ends its connection without the message,
//	                                           or carries the message twice
//	GET  /kept     ?from=                      what passed of the reports and of the mixed messages, and how often
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// broker is the name in the broker's certificate.
const broker = "nats"

func main() {
	work := run
	if len(os.Args) == 2 && os.Args[1] == "healthcheck" {
		work = healthy
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "tap:", err)
		os.Exit(1)
	}
}

// healthy reports whether the tap takes commands.
func healthy() error {
	c, err := net.DialTimeout("tcp", os.Getenv("TAP_CONTROL"), time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

func run() error {
	pair, err := tls.LoadX509KeyPair("/tls/server.pem", "/tls/server.key")
	if err != nil {
		return err
	}
	pem, err := os.ReadFile("/ca.pem")
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("/ca.pem has no certificate")
	}
	t := newTap(os.Getenv("TAP_BROKER"), &tls.Config{Certificates: []tls.Certificate{pair}},
		&tls.Config{RootCAs: pool, ServerName: broker})
	failed := make(chan error, 1)
	for one := range strings.FieldsSeq(os.Getenv("TAP_LINKS")) {
		name, address, _ := strings.Cut(one, "=")
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() { failed <- t.add(name).serve(listener) }()
	}
	control := &http.Server{Addr: os.Getenv("TAP_CONTROL"), Handler: t.control(), ReadHeaderTimeout: time.Minute}
	go func() { failed <- control.ListenAndServe() }()
	return <-failed
}

// control serves the commands.
func (t *tap) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /link", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Link  string
			State State
			Delay time.Duration
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || t.links[q.Link] == nil {
			http.Error(w, "no such link", http.StatusBadRequest)
			return
		}
		t.links[q.Link].set(q.State, q.Delay)
	})
	mux.HandleFunc("POST /arm", func(w http.ResponseWriter, r *http.Request) {
		s := new(Stop)
		if err := json.NewDecoder(r.Body).Decode(s); err != nil || t.links[s.Link] == nil {
			http.Error(w, "no such link", http.StatusBadRequest)
			return
		}
		t.arm(s)
	})
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) {
		s := t.stop(r.FormValue("id"))
		if s == nil {
			http.Error(w, "no such stop", http.StatusNotFound)
			return
		}
		select {
		case <-s.hit:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, r *http.Request) {
		if s := t.stop(r.FormValue("id")); s != nil {
			t.release(s, r.FormValue("drop") != "", r.FormValue("twice") != "")
		}
	})
	mux.HandleFunc("GET /kept", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("from"))
		_ = json.NewEncoder(w).Encode(t.since(from))
	})
	return mux
}
