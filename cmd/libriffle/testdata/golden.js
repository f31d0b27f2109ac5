// golden.c in JavaScript.
//
//	node golden.js GOROOT riffle.wasm FOLDER
"use strict";

const [, , root, wasm, folder] = process.argv;
const fs = require("fs"), path = require("path");
require(path.join(root, "lib/wasm/wasm_exec.js"));

const read = (name) => new Uint8Array(fs.readFileSync(path.join(folder, name)));
const text = (name) => fs.readFileSync(path.join(folder, name), "utf8");

async function made(name, promise) {
	const out = await promise;
	fs.writeFileSync(path.join(folder, name), out ?? "");
}

async function main(riffle) {
	const now = 1767268800000; // 2026-01-01 12:00 UTC
	let device = await riffle.open(text("config"), new Uint8Array());
	await made("followed", riffle.follow(device, read("announcement"), now));
	await made("known", riffle.keys(device, read("keys")));
	if (fs.existsSync(path.join(folder, "confirmed"))) { // of a panel
		await made("registration", riffle.register(device));
		await made("registered", riffle.registered(device, read("confirmed")));
	}
	await made("request", riffle.enrol(device, now));
	await made("answer", riffle.answer(device, read("reply"), now));
	await made("decision", riffle.decide(device, text("arms")));
	await made("saved", riffle.save(device));
	await riffle.close(device);
	device = await riffle.open(text("config"), read("saved"));
	await made("accepted", riffle.reward(device, JSON.parse(text("decision")).handle, Number(text("reward")), now + 1000));
	await made("report", riffle.report(device, now + 60000));
	await made("status", riffle.status(device));
	await riffle.close(device);
}

const go = new Go();
WebAssembly.instantiate(fs.readFileSync(wasm), go.importObject).then(async ({ instance }) => {
	go.run(instance);
	await main(globalThis.riffle);
	process.exit(0);
}).catch((e) => {
	console.error(e);
	process.exit(1);
});
