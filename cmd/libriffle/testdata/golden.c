// A golden vector's life through the library. The folder that the program is given holds what the device is given; what
// it makes of that is written there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libriffle.h"

static const char *folder;

static FILE *in_folder(const char *name, const char *mode) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, mode);
	if (f == NULL) {
		perror(path);
		exit(1);
	}
	return f;
}

static int has(const char *name) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return access(path, R_OK) == 0;
}

typedef struct {
	char *data;
	size_t size;
} bytes;

// read_file reads a file of the folder and puts a zero byte behind it.
static bytes read_file(const char *name) {
	bytes b = {malloc(1 << 20), 0};
	FILE *f = in_folder(name, "rb");
	b.size = fread(b.data, 1, (1 << 20) - 1, f);
	b.data[b.size] = 0;
	fclose(f);
	return b;
}

// made writes what a call made under its name, and ends the program if it is an error.
static int64_t made(const char *name, riffle_result r) {
	if (r.error != NULL) {
		fprintf(stderr, "%s: %s\n", name, r.error);
		exit(1);
	}
	FILE *f = in_folder(name, "wb");
	fwrite(r.data, 1, r.size, f);
	fclose(f);
	int64_t handle = r.handle;
	riffle_free(r);
	return handle;
}

int main(int argc, char **argv) {
	const int64_t now = 1767268800000; // 2026-01-01 12:00 UTC
	folder = argv[argc - 1];
	bytes config = read_file("config"), announcement = read_file("announcement"), keys = read_file("keys");
	bytes reply = read_file("reply"), arms = read_file("arms"), reward = read_file("reward");

	int64_t device = made("opened", riffle_open(config.data, NULL, 0));
	made("followed", riffle_follow(device, announcement.data, announcement.size, now));
	made("known", riffle_keys(device, keys.data, keys.size));
	if (has("confirmed")) { // of a panel
		bytes confirmed = read_file("confirmed");
		made("registration", riffle_register(device));
		made("registered", riffle_registered(device, confirmed.data, confirmed.size));
	}
	made("request", riffle_enrol(device, now));
	made("answer", riffle_answer(device, reply.data, reply.size, now));
	made("decision", riffle_decide(device, arms.data));
	made("saved", riffle_save(device));
	riffle_close(device);
	bytes saved = read_file("saved"), decision = read_file("decision");
	device = made("opened", riffle_open(config.data, saved.data, saved.size));
	uint64_t handle = strtoull(strstr(decision.data, "\"handle\":") + 9, NULL, 10);
	made("accepted", riffle_reward(device, handle, atof(reward.data), now + 1000));
	made("report", riffle_report(device, now + 60000));
	made("status", riffle_status(device));
	riffle_close(device);
	return 0;
}
