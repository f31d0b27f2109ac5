// Package composetest tests the compose deployment as an operator would meet it: from a clean checkout, with the
// scripts of deploy/, over the network. It needs a Docker engine and docker-compose, so it runs with RIFFLE_COMPOSE=1
// only: see deploy/test.
package composetest
