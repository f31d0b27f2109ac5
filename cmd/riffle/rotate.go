package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// changed is what a command that changed keys tells: what it did, and what the operator has to do for it to count.
type changed struct {
	Did  string   `json:"did"`
	Next []string `json:"next"`
}

// reload are the steps after which the broker knows changed users.
var reload = []string{
	"Write the broker's configuration again: riffle broker config.",
	"Have every broker read it twice (SIGHUP), or restart the brokers; deploy/reload does it.",
}

// changing completes a command that changes the keys of a deployment that exists. change gets the folder of the keys
// and the command's one argument, which is empty where the command has none.
func changing(cmd *cobra.Command, change func(keys, arg string) (changed, error)) *cobra.Command {
	var keys string
	var asJSON bool
	keysFlag(cmd.Flags(), &keys)
	cmd.Flags().BoolVar(&asJSON, "json", false, `print {"did": TEXT, "next": [STEPS]} in place of text`)
	if cmd.Args == nil {
		cmd.Args = cobra.ExactArgs(1)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		told, err := change(keys, strings.Join(args, ""))
		if err != nil {
			return err
		}
		if asJSON {
			told.Next = append([]string{}, told.Next...) // a list, where there is none, too
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetEscapeHTML(false)
			return e.Encode(told)
		}
		for _, line := range append([]string{told.Did}, told.Next...) {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func rotateCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "rotate ROLE",
		Short: "give the shuffler, the analyzer, the auditor or the ingress a new key",
		Long: `
Makes a new HPKE key for the shuffler or the analyzer beside its old ones. Restart the role: it then publishes the
new key, and still opens what was sealed to the old ones. Delete an old key's file once no message that was sealed to
it can still arrive.

The auditor's key is what the shuffler seals to where it retains what it forwards (audit.retain). Its public half
is in bundle.json, which the command writes anew: give it to the shuffler and restart it. The old key's file opens
what was retained before: delete it once that window is over.

For the ingress it makes a new key of tickets, which the shuffler needs, too. Earlier tickets are good for nothing.`[1:],
		Example: `  riffle keygen rotate shuffler --keys keys`,
	}, func(keys, role string) (changed, error) {
		if role == keyring.Ingress {
			return changed{"Shuffler and ingress have a new key for tickets.", []string{
					"Copy it to both (shuffler/ticket.key, ingress/ticket.key) between two cohorts; restart them."}},
				keyring.RotateTicket(keys)
		}
		path, err := keyring.RotateHPKE(keys, role)
		told := changed{fmt.Sprintf("The new key is %s.", path), []string{
			fmt.Sprintf("Copy the folder to the %s's machine and restart it: it uses the key from then on.", role),
			"Delete the old key's file when nothing that was sealed to it can still arrive."}}
		if role == keyring.Auditor {
			told.Next[0] = fmt.Sprintf("Give the new %s to the shuffler and restart it: it then seals to this key "+
				"what it retains.", keyring.BundleFile)
		}
		return told, err
	})
}

func rotateUserCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "rotate-user ROLE",
		Short: "give a role, a host or the admin a new credential at the broker",
		Long: `
Replaces the seed with which a role connects to the broker, in case another party has it. ROLE is analyzer, shuffler,
auditor, admin, or randomizer-HOST. Write the broker's configuration again and have the broker read it, which ends the
connections of the old credential; copy the role's folder to its machine and restart the role. The keys with which
the role signs and decrypts stay as they are.`[1:],
		Example: `  riffle keygen rotate-user analyzer --keys keys
  riffle keygen rotate-user randomizer-ward-1 --keys keys`,
	}, func(keys, role string) (changed, error) {
		return changed{fmt.Sprintf("%s has a new credential.", role), append(reload[:len(reload):len(reload)],
				"Copy the folder to the role's machine and restart it, with its workers if it has any.")},
			keyring.RotateUser(keys, role)
	})
}

// give is the step after which both servers know the hosts of a new bundle.
const give = "Give the new bundle.json to the shuffler, the analyzer and their workers, and restart them: only then " +
	"do they refuse the old key."

func rotateHostCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "rotate-host NAME",
		Short: "give a randomizer host a new key, credential and user at the broker",
		Long: `
Replaces everything secret in a host's folder, in case another party has it. The command needs registrar/. The host's
devices stay who they were, with their numbers, their places in panels and what they spent: the registrar's new
credential names the host's first key, and bundle.json lists the new key behind it. The shuffler and the analyzer refuse
the old key as soon as they have that bundle, and the new one until then.

Reports that the host signed before and that are not counted yet are lost, as if these devices had been switched off.
Keep the host's state folder: the host that has a new key and no state would ask for places that its devices hold.`[1:],
		Example: `  riffle keygen rotate-host ward-1 --keys keys`,
	}, func(keys, host string) (changed, error) {
		return changed{fmt.Sprintf("Host %s has a new key.", host), append([]string{"Stop the host.", give},
				append(reload[:len(reload):len(reload)],
					"Copy the host's folder to its machine, delete the old one there, and start the host.")...)},
			keyring.RotateHost(keys, host)
	})
}

func withdrawHostCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "withdraw-host NAME",
		Short: "make both servers and the broker refuse a randomizer host for good",
		Long: `
Lists a host as withdrawn in bundle.json, and takes its user out of the broker's. The shuffler and the analyzer refuse
everything that its key signs as soon as they have that bundle. A host that was withdrawn does not come back; what its
devices reported before stays counted.`[1:],
		Example: `  riffle keygen withdraw-host ward-1 --keys keys`,
	}, func(keys, host string) (changed, error) {
		return changed{fmt.Sprintf("Host %s is withdrawn.", host), append([]string{give}, reload...)},
			keyring.WithdrawHost(keys, host)
	})
}

func rotateAuthorityCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "rotate-authority",
		Args:  cobra.NoArgs,
		Short: "replace the brokers' authority, and the key and certificate of every broker",
		Long: `
Makes a new authority for the brokers' certificates, and a new key and certificate for every broker whose folder is
there, under the same names. Take it where a broker's key or the authority's own may be in other hands, or before the
authority's end. The command needs registrar/.

A role refuses the old keys as soon as it has the new ca.pem and is restarted. It must not have both: whoever holds the
old authority could vouch for a broker of their own. So between the restart of the brokers and that of a role, the role
is without a broker; reports wait on the hosts, and nothing is lost.`[1:],
		Example: `  riffle keygen rotate-authority --keys keys`,
	}, func(keys, _ string) (changed, error) {
		names, err := keyring.RotateAuthority(keys)
		return changed{fmt.Sprintf("The new authority is %s. Brokers with a new key: %s.", keyring.AuthorityFile,
				strings.Join(names, ", ")), []string{
				"Copy each broker's folder, and for a cluster the new ca.pem, to its machine and restart all brokers.",
				"Give the new ca.pem to every role, host, worker and auditor in place of the old one, and restart " +
					"them."}},
			err
	})
}

func endKeyCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "end-key ROLE=EPOCH",
		Short: "tell audits the last epoch for which a server's signature is good",
		Long: `
Writes into bundle.json that statements which the analyzer or the shuffler signed about epochs after EPOCH are a thief's.
riffle audit then calls them breaches (expired_key). Give the bundle to auditors. The roles do not look at it: the
identity of a role that was taken ends with its deployment.`[1:],
		Example: `  riffle keygen end-key shuffler=7 --keys keys`,
	}, func(keys, arg string) (changed, error) {
		role, text, _ := strings.Cut(arg, "=")
		epoch, err := strconv.ParseUint(text, 10, 64)
		if err != nil || epoch == 0 {
			return changed{}, fmt.Errorf("%q must have the form ROLE=EPOCH, with an epoch from 1, for example "+
				"shuffler=7", arg)
		}
		return changed{fmt.Sprintf("To audits, the key of the %s is good up to epoch %d.", role, epoch),
			[]string{"Give the new bundle.json to auditors."}}, keyring.EndKey(keys, role, epoch)
	})
}

func addHostCommand() *cobra.Command {
	var notAfter uint64
	cmd := changing(&cobra.Command{
		Use:   "add-host NAME=DEVICES",
		Short: "admit one more randomizer host",
		Long: `
Makes the keys and the credential of one more randomizer host. The command needs registrar/. Write the broker's
configuration again afterwards, and have the broker read it twice: at the first reading the broker makes the host's
account, and at the second it gives the account its subjects.`[1:],
		Example: `  riffle keygen add-host ward-3=500 --keys keys`,
	}, func(keys, arg string) (changed, error) {
		host, err := parseHost(arg)
		if err != nil {
			return changed{}, err
		}
		host.NotAfter = notAfter
		next := append(reload[:len(reload):len(reload)], crowding(bus.DefaultHostReports, host)...)
		return changed{fmt.Sprintf("Host %s may enrol %d devices.", host.Name, host.Devices), next},
			keyring.AddHost(keys, host)
	})
	cmd.Flags().Uint64Var(&notAfter, "not-after", 0, "last epoch in which its devices may enrol; 0: no end")
	return cmd
}

func raiseHostCommand() *cobra.Command {
	var notAfter uint64
	cmd := changing(&cobra.Command{
		Use:   "raise-host NAME=DEVICES",
		Short: "let a randomizer host enrol more devices, or for longer",
		Long: `
Gives a randomizer host a credential for more devices, signed anew. The command needs registrar/. The host's key, its
user at the broker, and its devices' numbers and ledgers stay as they are. Copy the file credential to the host's
machine and restart the host; the shuffler and the analyzer take it as they run. The number of a host can only be
raised: once a device is known that only the new credential covers, the host and the shuffler refuse the old one.`[1:],
		Example: `  riffle keygen raise-host ward-1=2000 --keys keys`,
	}, func(keys, arg string) (changed, error) {
		host, err := parseHost(arg)
		if err != nil {
			return changed{}, err
		}
		host.NotAfter = notAfter
		next := []string{fmt.Sprintf("Copy randomizer-%s/credential to the host's machine and restart the host.",
			host.Name)}
		return changed{fmt.Sprintf("Host %s may enrol %d devices.", host.Name, host.Devices),
			append(next, crowding(bus.DefaultHostReports, host)...)}, keyring.RaiseHost(keys, host)
	})
	cmd.Flags().Uint64Var(&notAfter, "not-after", 0,
		"last epoch in which its devices may enrol; 0: as before. A later one needs no more devices")
	return cmd
}

// crowding tells of hosts that cover more devices than a broker keeps reports of one host.
func crowding(kept int64, hosts ...keyring.HostOptions) (notes []string) {
	for _, h := range hosts {
		if int64(h.Devices) > kept {
			notes = append(notes, fmt.Sprintf("Host %s covers %d devices, and a broker keeps %d reports of one host "+
				"(riffle broker provision --max-host-reports): no more of them get a place in one "+
				"cohort.", h.Name, h.Devices,
				kept))
		}
	}
	return notes
}

// crowdingOf is crowding of all hosts in a folder of keygen, of which admin/ alone may be there.
func crowdingOf(keys string, kept int64) []string {
	hosts, _ := keyring.ListHosts(keys) // none with an error
	return crowding(kept, hosts...)
}

func addBrokerCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:     "add-broker NAME=HOST[,HOST...]",
		Short:   "make the certificate of one more broker",
		Long:    "Makes the key and the certificate of one more broker. The command needs registrar/.",
		Example: `  riffle keygen add-broker n3=n3.example.org --keys keys`,
	}, func(keys, arg string) (changed, error) {
		broker, err := parseBroker(arg)
		if err != nil {
			return changed{}, err
		}
		return changed{fmt.Sprintf("The key and the certificate of %s are in %s.", broker.Name,
			keyring.BrokerFolder(keys, broker.Name)), nil}, keyring.AddBroker(keys, broker)
	})
}

func renewCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "renew-broker NAME",
		Short: "give a broker a new certificate for the key that it has",
		Long: `
Replaces a broker's certificate by one for the same key and the same names, whose life begins now. The command
needs registrar/. The broker uses the new certificate once it has read its configuration again (SIGHUP); connections
stay.`[1:],
		Example: `  riffle keygen renew-broker nats --keys keys`,
	}, func(keys, name string) (changed, error) {
		end, err := keyring.RenewBroker(keys, name)
		return changed{fmt.Sprintf("The certificate of %s is valid until %s.", name, end.UTC().Format("2006-01-02")),
			[]string{"Have the broker read its configuration again (SIGHUP); deploy/reload does it."}}, err
	})
}

func workerCommand() *cobra.Command {
	var out string
	cmd := changing(&cobra.Command{
		Use:   "worker ROLE",
		Short: "make a folder of keys for workers of the shuffler or the analyzer",
		Long: `
Copies into a new folder what workers of the shuffler or the analyzer need: the bundle, ca.pem, and of the role's folder
the encryption keys and the credential for the broker, without the identity. All workers of a role can have the same
folder. After riffle keygen rotate or rotate-user, make the folder anew and restart the workers together with the role;
until all have the same keys, they cannot read what the others seal, and the role works alone.`[1:],
		Example: `  riffle keygen worker shuffler --keys keys --out keys-shuffler-worker`,
	}, func(keys, role string) (changed, error) {
		return changed{fmt.Sprintf("The keys for workers of the %s are in %s.", role, out), nil},
			keyring.MakeWorker(keys, role, out)
	})
	cmd.Flags().StringVar(&out, "out", "keys-worker", "folder to make; it must be empty or not exist")
	return cmd
}
