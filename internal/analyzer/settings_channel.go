package analyzer

import (
	"slices"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// channel is the deployment's.
func (p PrivacySettings) channel() plan.Channel { return plan.Channel(p.Channel) }

// channelFaults lists what of the promise does not go with the channel.
func (p PrivacySettings) channelFaults() (faults []error) {
	add := func(f *config.Fault) { faults = append(faults, f) }
	if !(p.ServerNoise >= 0 && p.ServerNoise <= 1) {
		add(config.Wrong("server_noise", p.ServerNoise, "must be a share in [0, 1]"))
		return faults
	}
	c := p.channel()
	if !slices.Contains(plan.Channels(), c) {
		add(config.Wrong("channel", p.Channel, "must be one of "+strict.List(plan.Channels(), "and")))
		return faults
	}
	if c != plan.Shuffle && p.MaxMessages > 0 {
		add(config.Conflict("max_messages", p.MaxMessages, "must be 0, or -1 for the default, with", "channel",
			p.Channel).
			Because("only the channel shuffle sends bit messages; a report of any other is one message"))
	}
	switch c {
	case plan.Local:
		if p.ServerNoise > 0 {
			add(config.Conflict("server_noise", p.ServerNoise, "must be 0 with", "channel", p.Channel).
				Because("the channel trusts no server, so that no server's noise counts in it"))
		}
		if !p.DeviceNoise {
			add(config.Conflict("device_noise", false, "must be true with", "channel", p.Channel).
				Because("the devices' noise is the whole protection"))
		}
	case plan.Central:
		if p.ServerNoise > 0 && p.ServerNoise < 1 {
			add(config.Conflict("server_noise", p.ServerNoise, "must be 0 or 1 with", "channel", p.Channel).
				Because("the analyzer always adds all of the noise, since devices add none"))
		}
	default:
		if !p.DeviceNoise && p.ServerNoise < 1 {
			add(config.Conflict("device_noise", false, "cannot go with", "server_noise", p.ServerNoise).
				Because("without the devices' noise the servers must add all of it: set server_noise to 1"))
		}
	}
	return faults
}

// channelFaults lists what is missing for the channel, and what it has no use for.
func (s Settings) channelFaults() (faults []error) {
	c := s.Privacy.channel()
	if s.Learner.Profile == string(glm.Joint) && c != plan.Central && slices.Contains(plan.Channels(), c) {
		profile := config.Conflict("learner.profile", s.Learner.Profile, "cannot go with", "privacy.channel",
			s.Privacy.Channel)
		faults = append(faults, profile.Because("the analyzer reads each person's record in this profile, which only "+
			"the channel central lets it"))
	}
	if share := s.Admission.SponsorShare; share < 1 && c == plan.Shuffle {
		faults = append(faults, config.Conflict("admission.sponsor_share", share, "must be 1 with", "privacy.channel",
			s.Privacy.Channel).Because("in this channel the analyzer does not see whose reports it counts; the "+
			"shuffler's setting admission.sponsor_share is the one that holds"))
	}
	return faults
}
