// Package composetest tests the compose deployment as an operator would meet it: from a clean checkout, with the
// scripts of deploy/, over the network. It needs a Docker engine and docker-compose, so it runs only with
// RIFFLE_COMPOSE=1: see deploy/test. It shows how the deployment behaves on one machine, and not on several. The
// programs in probe and volume run inside containers of the tests and are part of no image that is deployed.
package composetest
