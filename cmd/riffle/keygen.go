package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
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
a broker: it is needed only to admit hosts and brokers. Git leaves private folders out by a .gitignore in each; of a
private file that it has all the same, every command of keygen warns.`[1:],
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
			err = keyring.Generate(out, o)
			if errors.Is(err, keyfile.ErrExists) {
				return fmt.Errorf("%w; riffle keygen raise-host and add-host change a deployment that exists", err)
			}
			if err != nil {
				return err
			}
			made := fmt.Sprintf("The keys of %q are in %s. Only you can read the private ones.", name, out)
			lines := append([]string{made}, crowding(bus.DefaultHostReports, o.Hosts...)...)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
			return err
		},
	}
	cmd.PersistentPostRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"out", "keys"} {
			if flag := cmd.Flag(name); flag != nil {
				if err := warnListed(cmd, flag.Value.String()); err != nil {
					return err
				}
			}
		}
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "keys", "folder to make; it must be empty or not exist")
	flags.StringVar(&name, "name", "riffle", "name of the deployment, of the characters a-z, 0-9 and -")
	flags.StringArrayVar(&hosts, "host", []string{fmt.Sprintf("main=%d", bus.DefaultHostReports)},
		"randomizer host and how many devices it may enrol, NAME=DEVICES; may be repeated")
	flags.StringArrayVar(&brokers, "tls", []string{"nats=nats,localhost,127.0.0.1"},
		"broker that gets a certificate, and the hosts or addresses at which roles and other brokers\n"+
			"find it, NAME=HOST[,HOST...]; may be repeated")
	flags.BoolVar(&clear, "no-tls", false,
		"make no certificates: for brokers on loopback, or with certificates from elsewhere")
	cmd.AddCommand(rotateCommand(), rotateUserCommand(), rotateHostCommand(), rotateAuthorityCommand(),
		withdrawHostCommand(), endKeyCommand(), addHostCommand(), raiseHostCommand(),
		addBrokerCommand(), renewCommand(), workerCommand(),
		issuerCommand(), certifyIssuerCommand(), withdrawIssuerCommand(),
		container.InstallCommand())
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

func issuerCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "issuer",
		Short: "make the keys of an issuer, on its own machine",
		Long: `
Makes the key with which an organisation credentials installations of its app, and the secret under which it keeps
accounts. Both stay on that machine. Give the public key that is printed to the registrar (riffle keygen certify-issuer).`[1:],
		Example: `  riffle keygen issuer --out keys-issuer`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := keyring.MakeIssuer(out)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), keyfile.EncodeKey(key))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "keys-issuer", "folder in which the folder issuer is made")
	return cmd
}

func certifyIssuerCommand() *cobra.Command {
	var o keyring.IssuerOptions
	cmd := changing(&cobra.Command{
		Use:   "certify-issuer NAME=KEY",
		Short: "let an issuer credential a number of installations in some epochs",
		Long: `
Signs a certificate for an issuer's public key: it may credential so many installations, hosts with one device each,
which take part in epochs from the first to the last. The shuffler holds it to the number over the whole deployment.
The command needs registrar/. Run it again to let the issuer credential more, or for longer.`[1:],
		Example: `  riffle keygen certify-issuer app=KEY --installations 50000 --last 400 --keys keys`,
	}, func(keys, arg string) (changed, error) {
		if o.Installations == 0 || o.Last < o.First {
			return changed{}, fmt.Errorf("give --installations above 0, and --last of %d or above", o.First)
		}
		name, text, ok := strings.Cut(arg, "=")
		key, err := keyfile.DecodeKey(text)
		if !ok || err != nil {
			return changed{}, fmt.Errorf("%q must have the form NAME=KEY, with the key that riffle keygen issuer "+
				"printed", arg)
		}
		o.Name, o.Key = name, key
		path, err := keyring.CertifyIssuer(keys, o)
		return changed{fmt.Sprintf("Issuer %s may credential %d installations for epochs %d to %d.", name,
			o.Installations, o.First, o.Last), []string{fmt.Sprintf("Give %s and %s to the issuer: into issuer/ of "+
			"its folder, and beside it.", path, filepath.Join(keys, keyring.BundleFile))}}, err
	})
	cmd.Flags().Uint32Var(&o.Installations, "installations", 0, "how many it may credential, over the deployment")
	cmd.Flags().Uint64Var(&o.First, "first", 1, "first epoch in which they take part")
	cmd.Flags().Uint64Var(&o.Last, "last", 0, "last epoch in which they take part")
	return cmd
}

func withdrawIssuerCommand() *cobra.Command {
	return changing(&cobra.Command{
		Use:   "withdraw-issuer NAME",
		Short: "make both servers refuse every credential of an issuer for good",
		Long: `
Lists an issuer as withdrawn in bundle.json. The shuffler and the analyzer refuse the credentials of all its
installations as soon as they have that bundle. What these reported before stays counted.`[1:],
		Example: `  riffle keygen withdraw-issuer app --keys keys`,
	}, func(keys, name string) (changed, error) {
		return changed{fmt.Sprintf("Issuer %s is withdrawn.", name), []string{"Give the new bundle.json to the " +
				"shuffler, the analyzer and their workers, and restart them: only then do they refuse its " +
				"credentials."}},
			keyring.WithdrawIssuer(keys, name)
	})
}
