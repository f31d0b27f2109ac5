package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
)

// TLS is a listener's configuration of TLS 1.2 and later, for HTTP/1.1, from files that are read again when they
// change. Where a new certificate cannot be used, the one before stays in force. heard is told of changes, as in
// OpenTokens.
//
// clientCA is a file of the authorities that vouch for callers, each of whom must show a certificate; empty: callers
// show none. While it cannot be used nobody is let in.
func TLS(certificate, key, clientCA string, heard func(error)) (*tls.Config, error) {
	pair := &watched[*tls.Certificate]{
		files: []file{{certificate, false}, {key, true}}, heard: heard,
		parse: func(contents [][]byte) (*tls.Certificate, error) {
			c, err := tls.X509KeyPair(contents[0], contents[1])
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", certificate, key, err)
			}
			return &c, nil
		},
	}
	first, err := pair.get()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(first)
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c, err := pair.get(); err == nil {
			last.Store(c)
		}
		return last.Load(), nil
	}
	if clientCA == "" {
		return config, nil
	}
	authorities := &watched[*x509.CertPool]{
		files: []file{{clientCA, false}}, heard: heard,
		parse: func(contents [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(contents[0]) {
				return nil, fmt.Errorf("%s: no certificate in PEM", clientCA)
			}
			return pool, nil
		},
	}
	if _, err := authorities.get(); err != nil {
		return nil, err
	}
	with := config.Clone()
	with.ClientAuth = tls.RequireAndVerifyClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := authorities.get()
		if err != nil {
			return nil, errors.New("the authorities of callers cannot be read now")
		}
		now := with.Clone()
		now.ClientCAs = pool
		return now, nil
	}
	return config, nil
}
