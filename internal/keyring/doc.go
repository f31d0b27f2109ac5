// Package keyring is the folder of keys and credentials of one deployment, as `riffle keygen` makes it:
//
//	bundle.json            public: the deployment's name and who analyzer, shuffler and registrar are. Every role needs it
//	nats-users.json        public: the NATS users of each role, for the broker's configuration
//	analyzer/              identity.key  hpke-0001.key  nats.seed
//	shuffler/              identity.key  hpke-0001.key  nats.seed
//	registrar/             identity.key: admits hosts; ca.key: vouches for brokers. Keep it offline
//	randomizer-<host>/     host.key  credential  nats.seed
//	auditor/  admin/       nats.seed
//	ca.pem                 public: the authority that vouches for the brokers. Every role needs it, where brokers have certificates
//	broker-<name>/         server.pem  server.key: for the broker's process, and for its routes to other brokers
//
// A machine that plays one role needs bundle.json and that role's folder, in the same layout, and must not have the other folders: an analyzer
// that also had the shuffler's keys would undo the privacy that the two roles apart give.
//
// The authority is the deployment's own, on purpose: a public one would vouch for anybody who once held the broker's name.
//
// HPKE keys are rotated by number: the highest is the one to seal to, lower ones still open what is in flight. Delete a file to retire its key.
package keyring
