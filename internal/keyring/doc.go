// Package keyring is the folder of keys and credentials of one deployment, as `riffle keygen` makes it:
//
//	bundle.json            public: the deployment's name and the keys of analyzer, shuffler, registrar and auditor
//	nats-users.json        public: the NATS users of each role, for the broker's configuration
//	analyzer/              identity.key  hpke-0001.key  nats.seed
//	shuffler/              identity.key  hpke-0001.key  nats.seed  ticket.key
//	ingress/               nats.seed  ticket.key: the shuffler's, which whoever has it can make junk pass with
//	issuer-<name>/         public: the registrar's copy of an issuer's certificate
//	issuer/                on the issuer's machine: identity.key  names.key  certificate
//	registrar/             identity.key: admits hosts; ca.key: vouches for brokers. Keep it offline
//	randomizer-<host>/     host.key  credential  nats.seed; order.key where the host's key was replaced
//	auditor/               hpke-0001.key: opens what is retained  nats.seed
//	admin/                 nats.seed
//	ca.pem                 public: the authority that vouches for the brokers, where they have certificates
//	broker-<name>/         server.pem  server.key: for the broker's process, and for its routes to other brokers
//
// A machine that plays one role needs bundle.json, ca.pem and that role's folder, in the same layout. It must not
// have the other folders: an analyzer that also had the shuffler's keys would undo the privacy that comes from
// keeping the two roles apart.
//
// The authority is the deployment's own, on purpose: a public one would vouch for anyone who once held the broker's
// name.
//
// HPKE keys are rotated by number: new messages are sealed to the highest, and the lower ones still open what is in
// flight. Delete a file to retire its key.
//
// A host's key is replaced by RotateHost: the bundle then lists which keys of the host are in force. The identities of
// analyzer, shuffler and registrar are the deployment's, and end with it.
//
// # Guarantees and limits
//
// No private key is written with a mode other than 0600, over an existing file, or read while others can read it.
// Loading checks that a role's keys belong to the bundle. The package does not encrypt keys on disk, and does not
// distribute them.
package keyring
