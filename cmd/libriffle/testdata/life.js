// life.c and panel.c in JavaScript: the same lives, with the same words printed.
//
//	node life.js GOROOT riffle.wasm life|panel seed|signer FOLDER
"use strict";

const [, , root, wasm, which, key, folder] = process.argv;
const fs = require("fs"), path = require("path");
require(path.join(root, "lib/wasm/wasm_exec.js"));

const read = (name) => new Uint8Array(fs.readFileSync(path.join(folder, name)));
const write = (name, bytes) => fs.writeFileSync(path.join(folder, name), bytes);

// awaited reads a file that another process writes, as the shuffler's answer comes over the broker.
async function awaited(name) {
	while (!fs.existsSync(path.join(folder, name))) {
		await new Promise((resolve) => setTimeout(resolve, 1));
	}
	return read(name);
}

async function must(call, promise) {
	const out = await promise;
	console.log(`${call}: ${out}`);
	return out;
}

async function fails(call, promise) {
	try {
		await promise;
	} catch (e) {
		console.log(`${call} fails: ${e.message}\n${call} is ${e.reason}`);
		return;
	}
	throw new Error(`${call}: no error`);
}

const now = 1767268800000, minute = 60000; // 2026-01-01 12:00 UTC

// opening is the configuration, with its seed or with a key of WebCrypto that nobody can read.
async function opening(riffle) {
	let config = Buffer.from(read("config")).toString();
	if (key === "seed") {
		return [config, undefined];
	}
	const parsed = JSON.parse(config);
	const pkcs8 = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"),
		Buffer.from(parsed.identity, "base64")]);
	const secret = await crypto.subtle.importKey("pkcs8", pkcs8, "Ed25519", false, ["sign"]);
	parsed.public = Buffer.from(await riffle.public(new Uint8Array(Buffer.from(parsed.identity, "base64")))).toString("base64");
	delete parsed.identity;
	config = JSON.stringify(parsed);
	await fails("open without a key", riffle.open(config, new Uint8Array()));
	return [config, async (message) => new Uint8Array(await crypto.subtle.sign("Ed25519", secret, message))];
}

// deposits has a copy of the device use a mailbox, and be restarted between the decision and its reward.
async function deposits(riffle, device, reopened) {
	let page = await reopened(device, "promised");
	write("first", await riffle.deposit(page, now));
	await must("deposited", riffle.deposited(page));
	let decision = JSON.parse(await must("decide", riffle.decide(page, "[[0.6172839451, 0.2]]"))).handle;
	const next = await reopened(page, "decided");
	await riffle.close(page);
	await must("reward", riffle.reward(next, decision, 1, now + 1000));
	write("second", await riffle.deposit(next, now + 1000));
	await must("deposited", riffle.deposited(next));
	await fails("a third deposit", riffle.deposit(next, now + 1000));
	await riffle.close(next);

	page = await reopened(device, "promised");
	write("first", await riffle.deposit(page, now));
	await fails("decide about junk", riffle.decide(page, "junk"));
	await fails("deposit after junk", riffle.deposit(page, now));
	await riffle.close(page);

	page = await reopened(device, "promised");
	decision = JSON.parse(await must("decide", riffle.decide(page, "[[0.6172839451, 0.2]]"))).handle;
	await must("forget", riffle.forget(page));
	await fails("reward of what is forgotten", riffle.reward(page, decision, 1, now + 1000));
	await riffle.close(page);
}

async function life(riffle) {
	await fails("open", riffle.open("{", new Uint8Array()));
	const [config, sign] = await opening(riffle);
	await fails("open with a saved state that is none", riffle.open(config, new Uint8Array([1]), sign));
	let device = await riffle.open(config, new Uint8Array(), sign);
	// reopened is the device of a saved state that it has written to a file.
	const reopened = async (device, name) => {
		write(name, await riffle.save(device));
		return riffle.open(config, read(name), sign);
	};

	await fails("enrol before the announcement", riffle.enrol(device, now));
	await fails("encode before the announcement", riffle.encode(device, '{"arms": []}'));
	await fails("follow", riffle.follow(device, new Uint8Array([1]), now));
	await fails("follow nothing", riffle.follow(device, undefined, now));
	await must("follow", riffle.follow(device, read("announcement"), now));
	await fails("enrol without keys", riffle.enrol(device, now));
	await must("keys", riffle.keys(device, read("keys")));
	if (sign) {
		const lost = await riffle.open(config, new Uint8Array(), () => Promise.reject(new Error("lost")));
		const thrown = await riffle.open(config, new Uint8Array(), () => { throw new Error("lost"); });
		const other = await riffle.open(config, new Uint8Array(), () => new Uint8Array(64));
		for (const d of [lost, thrown, other]) {
			await riffle.follow(d, read("announcement"), now);
			await riffle.keys(d, read("keys"));
			await fails("enrol without a signature", riffle.enrol(d, now));
			await riffle.close(d);
		}
	}
	write("request", await riffle.enrol(device, now));
	await must("answer", riffle.answer(device, await awaited("reply"), now));
	await deposits(riffle, device, reopened);

	await fails("encode a text", riffle.encode(device, '{"arms": [{"id": "a", "on": "61728"}]}'));
	await fails("encode no object", riffle.encode(device, '{"arms": [61728]}'));
	await fails("encode too much", riffle.encode(device, '{"context": {"x": 61728e999}, "arms": []}'));
	await must("encode", riffle.encode(device, '{"context": {}, "arms": [{"id": "a", "on": true}, {"id": "b"}]}'));
	await fails("decide", riffle.decide(device, '[[0.6172839451, "x"]]'));
	await fails("decide on no text", riffle.decide(device, [[0.6172839451]]));
	await fails("decide between none", riffle.decide(device, "[]"));
	await fails("decide with all excluded", riffle.decide(device, '{"arms": [[0.6172839451, 0.2]], "exclude": [0]}'));
	await fails("decide with a wrong key", riffle.decide(device, '{"arms": [[0.6172839451, 0.2]], "excluded": [0]}'));
	const decision = JSON.parse(await must("decide", riffle.decide(device, "[[0.6172839451, 0.2]]"))).handle;
	await fails("reward of no decision", riffle.reward(device, 0, 1, now + 1000));

	// The process ends, and another one goes on.
	const before = device;
	device = await reopened(before, "saved");
	await riffle.close(before);
	await riffle.close(before);
	await fails("status of a closed handle", riffle.status(before));
	await must("reward after a restart", riffle.reward(device, decision, 1.5, now + 1000));
	await fails("reward again", riffle.reward(device, decision, 0.7312948301, now + 1000));
	await fails("reward too late", riffle.reward(device, decision, 1.5, now + minute));
	await fails("reward at a fraction of a time", riffle.reward(device, decision, 1.5, now + 0.5));
	await must("status", riffle.status(device));

	await fails("report too early", riffle.report(device, now + minute - 1));
	const waiting = [riffle.report(device, now + minute), riffle.status(device)]; // calls of one handle wait for each other
	write("report", (await Promise.all(waiting))[0]);
	await fails("a second report", riffle.report(device, now + minute));
	await riffle.close(device);
}

async function panel(riffle) {
	const arms = "[[0.6172839451, 0.2], [0.1, -0.5]]";
	const [config, sign] = await opening(riffle);
	const device = await riffle.open(config, new Uint8Array(), sign);
	await must("follow", riffle.follow(device, read("announcement"), now));
	await must("keys", riffle.keys(device, read("keys")));

	await fails("enrol before the device is registered", riffle.enrol(device, now));
	write("registration", await riffle.register(device));
	await must("registered", riffle.registered(device, await awaited("confirmed")));
	write("request", await riffle.enrol(device, now));
	await must("answer", riffle.answer(device, await awaited("reply"), now));

	const first = JSON.parse(await must("decide", riffle.decide(device, arms))).handle;
	const chosen = `{"arms": ${arms}, "default": 1, "exclude": [0]}`;
	const second = JSON.parse(await must("decide", riffle.decide(device, chosen))).handle;
	await must("decide", riffle.decide(device, arms));
	await must("decide", riffle.decide(device, arms));
	await fails("reward without a handle", riffle.reward(device, 0, 1, now));
	await must("reward", riffle.reward(device, first, 1, now + 1000));
	await must("reward", riffle.reward(device, second, 0.5, now + 1000));
	await fails("reward of no decision", riffle.reward(device, 61728, 1, now + 1000));
	await must("status", riffle.status(device));
	write("saved", await riffle.save(device));
	write("report", await riffle.report(device, now + minute));
	await riffle.close(device);
}

const go = new Go();
WebAssembly.instantiate(fs.readFileSync(wasm), go.importObject).then(async ({ instance }) => {
	go.run(instance);
	await { life, panel }[which](globalThis.riffle);
	process.exit(0);
}).catch((e) => {
	console.error(e);
	process.exit(1);
});
