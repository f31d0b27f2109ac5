package wire

func checkPool(p *Pool) error {
	if err := checkContribution(p.Deployment, p.Epoch, p.Announcement, p.Contribution); err != nil {
		return err
	}
	if p.Registered == 0 {
		return field("registered", "is 0: there is no device to draw")
	}
	return checkLength("root", p.Root, digestSize)
}

func checkDraw(d *Draw) error {
	if err := checkContribution(d.Deployment, d.Epoch, d.Announcement, d.Contribution); err != nil {
		return err
	}
	return checkLength("pool", d.Pool, digestSize)
}

// checkContribution checks what the statements of both servers have in common.
func checkContribution(deployment string, epoch uint64, announcement, contribution []byte) error {
	if err := checkPlace(deployment, epoch, 0); err != nil {
		return err
	}
	if err := checkLength("announcement", announcement, digestSize); err != nil {
		return err
	}
	return checkLength("contribution", contribution, digestSize)
}
