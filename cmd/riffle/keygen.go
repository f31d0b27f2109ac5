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
		Long: `Makes a folder with everything that the roles of one deployment need: identities (Ed25519), encryption keys (HPKE), rights on the
broker (nkeys), the registrar's credentials for randomizer hosts, the brokers' certificates with the authority that vouches for them, and
the public bundle that tells everybody whom to believe.

Give each role only its own folder, the bundle and ca.pem. Keep registrar/ away from all machines that run: it is needed only to admit
hosts and brokers.`,
		Example: `  riffle keygen --out keys --name clinic --host ward-1=500 --host ward-2=500
  riffle keygen --out keys --tls n1=n1.example.org,10.0.0.1 --tls n2=n2.example.org,10.0.0.2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := keyring.Options{Name: name}
			for _, h := range hosts {
				host, err := parseHost(h)
				if err != nil {
					return err
				}
				o.Hosts = append(o.Hosts, host)
			}
			for _, b := range brokers {
				broker, err := parseBroker(b)
				if err != nil {
					return err
				}
				o.Brokers = append(o.Brokers, broker)
			}
			if clear {
				o.Brokers = nil
			}
			if err := keyring.Generate(out, o); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Keys of %q are in %s. The private ones are readable by you alone.\n", name, out)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "keys", "folder to make; it must not hold anything yet")
	cmd.Flags().StringVar(&name, "name", "riffle", "name of the deployment: a-z, 0-9 and -")
	cmd.Flags().StringArrayVar(&hosts, "host", []string{"main=10000"}, "randomizer host and how many devices it may enrol, NAME=DEVICES; may be repeated")
	cmd.Flags().StringArrayVar(&brokers, "tls", []string{"nats=nats,localhost,127.0.0.1"}, "broker that gets a certificate, and where roles and other brokers find it, NAME=HOST[,HOST...]; may be repeated")
	cmd.Flags().BoolVar(&clear, "no-tls", false, "make no certificates: for brokers on loopback, or with certificates from elsewhere")
	cmd.AddCommand(rotateCommand(), rotateUserCommand(), addHostCommand(), addBrokerCommand(), renewCommand(), container.InstallCommand())
	return cmd
}

// keysFlag is the folder that a later change is made in.
func keysFlag(cmd *cobra.Command, keys *string) *cobra.Command {
	cmd.Flags().StringVar(keys, "keys", "keys", "folder made by riffle keygen")
	return cmd
}

func rotateCommand() *cobra.Command {
	var keys string
	return keysFlag(&cobra.Command{
		Use:   "rotate ROLE",
		Short: "give the shuffler or the analyzer a new encryption key",
		Long: `Makes a new HPKE key for the shuffler or the analyzer beside its old ones. Restart the role: it then publishes the new key, and still
opens what was sealed to the old ones. Delete an old key's file once nothing that was sealed to it can be on its way any more.`,
		Example: `  riffle keygen rotate shuffler --keys keys`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := keyring.RotateHPKE(keys, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "New key: %s. Restart the %s to have it used.\n", path, args[0])
			return err
		},
	}, &keys)
}

func rotateUserCommand() *cobra.Command {
	var keys string
	return keysFlag(&cobra.Command{
		Use:   "rotate-user ROLE",
		Short: "give the analyzer, the shuffler, the auditor or the admin a new credential at the broker",
		Long: `Replaces the seed with which a role connects to the broker, for when somebody else may have it. Render the broker's configuration again and
have the broker read it, which ends the connections of the old credential; bring the role's folder to its machine and restart the role. The
keys that the role signs and opens with stay as they are.`,
		Example: `  riffle keygen rotate-user analyzer --keys keys`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := keyring.RotateUser(keys, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "The %s has a new credential. Render the broker's configuration again (riffle broker config), have the broker read it, and restart the %s.\n", args[0], args[0])
			return err
		},
	}, &keys)
}

func addHostCommand() *cobra.Command {
	var keys string
	return keysFlag(&cobra.Command{
		Use:     "add-host NAME=DEVICES",
		Short:   "admit one more randomizer host",
		Long:    "Makes the keys and the credential of one more randomizer host. Needs registrar/. Render the broker's configuration again afterwards, and have the broker read it twice: it gives a new host its account at the first reading and the subjects in it at the second.",
		Example: `  riffle keygen add-host ward-3=500 --keys keys`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := parseHost(args[0])
			if err != nil {
				return err
			}
			if err := keyring.AddHost(keys, host); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Host %s may enrol %d devices. Render the broker's configuration again (riffle broker config) and have the broker read it, twice (SIGHUP).\n", host.Name, host.Devices)
			return err
		},
	}, &keys)
}

func addBrokerCommand() *cobra.Command {
	var keys string
	return keysFlag(&cobra.Command{
		Use:     "add-broker NAME=HOST[,HOST...]",
		Short:   "make the certificate of one more broker",
		Long:    "Makes the key and the certificate of one more broker. Needs registrar/.",
		Example: `  riffle keygen add-broker n3=n3.example.org --keys keys`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			broker, err := parseBroker(args[0])
			if err != nil {
				return err
			}
			if err := keyring.AddBroker(keys, broker); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Key and certificate of %s are in %s.\n", broker.Name, keyring.BrokerFolder(keys, broker.Name))
			return err
		},
	}, &keys)
}

func renewCommand() *cobra.Command {
	var keys string
	return keysFlag(&cobra.Command{
		Use:   "renew-broker NAME",
		Short: "give a broker a fresh certificate for the key that it has",
		Long: `Replaces a broker's certificate by one for the same key and the same names whose life begins now. Needs registrar/. The broker takes it
up when it reads its configuration again (SIGHUP); connections stay.`,
		Example: `  riffle keygen renew-broker nats --keys keys`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			end, err := keyring.RenewBroker(keys, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The certificate of %s is good until %s.\n", args[0], end.UTC().Format("2006-01-02"))
			return err
		},
	}, &keys)
}

func parseHost(s string) (keyring.HostOptions, error) {
	name, devices, ok := strings.Cut(s, "=")
	n, err := strconv.ParseUint(devices, 10, 32)
	if !ok || err != nil || n == 0 {
		return keyring.HostOptions{}, fmt.Errorf("host %q: want NAME=DEVICES, as ward-1=500", s)
	}
	return keyring.HostOptions{Name: name, Devices: uint32(n)}, nil
}

func parseBroker(s string) (keyring.BrokerOptions, error) {
	name, hosts, ok := strings.Cut(s, "=")
	if !ok || name == "" || hosts == "" {
		return keyring.BrokerOptions{}, fmt.Errorf("broker %q: want NAME=HOST[,HOST...], as nats=nats,10.0.0.1", s)
	}
	return keyring.BrokerOptions{Name: name, Hosts: strings.Split(hosts, ",")}, nil
}
