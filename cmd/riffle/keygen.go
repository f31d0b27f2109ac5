package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/keyring"
)

func keygenCommand() *cobra.Command {
	var out, name string
	var hosts, brokers []string
	var clear bool
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "make the keys, credentials and certificates of a deployment",
		Long: `
Makes a folder with everything that the roles of one deployment need: identities (Ed25519), encryption keys (HPKE),
rights at the broker (nkeys), the registrar's credentials for randomizer hosts, the brokers' certificates with the
authority that vouches for them, and the public bundle, which tells every role whose signatures to accept.

Give each role only its own folder, the bundle and ca.pem. Keep registrar/ away from all machines that run a role or
a broker: it is needed only to admit hosts and brokers.`[1:],
		Example: `  riffle keygen --out keys --name clinic --host ward-1=500 --host ward-2=500
  riffle keygen --out keys --tls n1=n1.example.org,10.0.0.1 --tls n2=n2.example.org,10.0.0.2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o := keyring.Options{Name: name}
			if o.Hosts, err = parseAll(hosts, parseHost); err != nil {
				return err
			}
			if o.Brokers, err = parseAll(brokers, parseBroker); err != nil {
				return err
			}
			if clear {
				o.Brokers = nil
			}
			if err := keyring.Generate(out, o); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"The keys of %q are in %s. Only you can read the private ones.\n", name, out)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "keys", "folder to make; it must be empty or not exist")
	flags.StringVar(&name, "name", "riffle", "name of the deployment, of the characters a-z, 0-9 and -")
	flags.StringArrayVar(&hosts, "host", []string{"main=10000"},
		"randomizer host and how many devices it may enrol, NAME=DEVICES; may be repeated")
	flags.StringArrayVar(&brokers, "tls", []string{"nats=nats,localhost,127.0.0.1"},
		"broker that gets a certificate, and the hosts or addresses at which roles and other brokers\n"+
			"find it, NAME=HOST[,HOST...]; may be repeated")
	flags.BoolVar(&clear, "no-tls", false,
		"make no certificates: for brokers on loopback, or with certificates from elsewhere")
	cmd.AddCommand(rotateCommand(), rotateUserCommand(), addHostCommand(), addBrokerCommand(), renewCommand(),
		workerCommand(), container.InstallCommand())
	return cmd
}

// changing completes a command that changes the keys of a deployment that exists. change gets the folder of the keys
// and the command's one argument, and returns what to tell the user.
func changing(cmd *cobra.Command, change func(keys, arg string) (string, error)) *cobra.Command {
	var keys string
	keysFlag(cmd.Flags(), &keys)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		told, err := change(keys, args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), told)
		return err
	}
	return cmd
}

func rotateCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "rotate ROLE",
		Short: "give the shuffler, the analyzer or the auditor a new encryption key",
		Long: `
Makes a new HPKE key for the shuffler or the analyzer beside its old ones. Restart the role: it then publishes the
new key, and still opens what was sealed to the old ones. Delete an old key's file once no message that was sealed to
it can still arrive.

The auditor's key is what the shuffler seals to where it retains what it forwards (audit.retain). Its public half
stands in bundle.json, which the command writes anew: give it to the shuffler and restart it. In this way, a folder
that was made before auditors had a key gets its first one. The old key's file opens what was retained before: delete
it once that window is over.`[1:],
		Example: `  riffle keygen rotate shuffler --keys keys`,
	}, func(keys, role string) (string, error) {
		path, err := keyring.RotateHPKE(keys, role)
		if role == keyring.Auditor {
			return fmt.Sprintf("The new key is %s. Give the new %s to the shuffler and restart it: it then seals to this "+
				"key what it retains.", path, keyring.BundleFile), err
		}
		return fmt.Sprintf("The new key is %s. The %s uses it once it is restarted.", path, role), err
	})
}

func rotateUserCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "rotate-user ROLE",
		Short: "give the analyzer, the shuffler, the auditor or the admin a new credential at the broker",
		Long: `
Replaces the seed with which a role connects to the broker, in case another party has it. Write the broker's
configuration again and have the broker read it, which ends the connections of the old credential; copy the role's
folder to its machine and restart the role. The keys with which the role signs and decrypts stay as they are.`[1:],
		Example: `  riffle keygen rotate-user analyzer --keys keys`,
	}, func(keys, role string) (string, error) {
		return fmt.Sprintf("The %[1]s has a new credential. Write the broker's configuration again (riffle broker "+
			"config), have the broker read it, and restart the %[1]s.", role), keyring.RotateUser(keys, role)
	})
}

func addHostCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "add-host NAME=DEVICES",
		Short: "admit one more randomizer host",
		Long: `
Makes the keys and the credential of one more randomizer host. The command needs registrar/. Write the broker's
configuration again afterwards, and have the broker read it twice: at the first reading the broker makes the host's
account, and at the second it gives the account its subjects.`[1:],
		Example: `  riffle keygen add-host ward-3=500 --keys keys`,
	}, func(keys, arg string) (string, error) {
		host, err := parseHost(arg)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Host %s may enrol %d devices. Write the broker's configuration again (riffle broker "+
			"config) and have the broker read it twice (SIGHUP).", host.Name, host.Devices), keyring.AddHost(keys, host)
	})
}

func addBrokerCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:     "add-broker NAME=HOST[,HOST...]",
		Short:   "make the certificate of one more broker",
		Long:    "Makes the key and the certificate of one more broker. The command needs registrar/.",
		Example: `  riffle keygen add-broker n3=n3.example.org --keys keys`,
	}, func(keys, arg string) (string, error) {
		broker, err := parseBroker(arg)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("The key and the certificate of %s are in %s.", broker.Name,
			keyring.BrokerFolder(keys, broker.Name)), keyring.AddBroker(keys, broker)
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
	}, func(keys, name string) (string, error) {
		end, err := keyring.RenewBroker(keys, name)
		return fmt.Sprintf("The certificate of %s is valid until %s.", name, end.UTC().Format("2006-01-02")), err
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
	}, func(keys, role string) (string, error) {
		return fmt.Sprintf("The keys for workers of the %s are in %s.", role, out), keyring.MakeWorker(keys, role, out)
	})
	cmd.Flags().StringVar(&out, "out", "keys-worker", "folder to make; it must be empty or not exist")
	return cmd
}

// parseAll parses every one of texts, and returns the first error.
func parseAll[T any](texts []string, parse func(string) (T, error)) ([]T, error) {
	all := make([]T, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func parseHost(s string) (keyring.HostOptions, error) {
	name, devices, ok := strings.Cut(s, "=")
	n, err := strconv.ParseUint(devices, 10, 32)
	if !ok || err != nil || n == 0 {
		return keyring.HostOptions{}, fmt.Errorf(
			"host %q must have the form NAME=DEVICES, with at least 1 device, for example ward-1=500", s)
	}
	return keyring.HostOptions{Name: name, Devices: uint32(n)}, nil
}

func parseBroker(s string) (keyring.BrokerOptions, error) {
	name, hosts, ok := strings.Cut(s, "=")
	if !ok || name == "" || hosts == "" {
		return keyring.BrokerOptions{}, fmt.Errorf(
			"broker %q must have the form NAME=HOST[,HOST...], for example nats=nats,10.0.0.1", s)
	}
	return keyring.BrokerOptions{Name: name, Hosts: strings.Split(hosts, ",")}, nil
}
