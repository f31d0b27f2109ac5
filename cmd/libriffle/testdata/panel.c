// A device's first epoch of a panel through the library: it registers, asks, decides several times, and reports. The folder
// is as in life.c.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libriffle.h"

static const char *folder;

static char text[1 << 20];

// file reads a file of the folder; the next call overwrites it.
static size_t file(const char *name) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "rb");
	if (f == NULL) {
		perror(path);
		exit(1);
	}
	size_t size = fread(text, 1, sizeof text - 1, f);
	text[size] = 0;
	fclose(f);
	return size;
}

// awaited is file for one that another process writes, as the shuffler's answer comes over the broker.
static size_t awaited(const char *name) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	for (int i = 0; i < 60000 && access(path, R_OK) != 0; i++) {
		usleep(1000);
	}
	return file(name);
}

// must prints a result, or keeps it under a name of the folder, ends the program if it is an error, and frees it. It
// returns the handle of a decision in it; 0 where there is none.
static uint64_t must(const char *call, riffle_result r, const char *name) {
	if (r.error != NULL) {
		fprintf(stderr, "%s: %s\n", call, r.error);
		exit(1);
	}
	uint64_t handle = 0;
	if (name != NULL) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%s", folder, name);
		FILE *f = fopen(path, "wb");
		fwrite(r.data, 1, r.size, f);
		fclose(f);
	} else {
		printf("%s: %.*s\n", call, (int)r.size, (char *)r.data);
		const char *key = "\"handle\":";
		snprintf(text, sizeof text, "%.*s", (int)r.size, (char *)r.data);
		char *at = strstr(text, key);
		if (at != NULL) {
			handle = strtoull(at + strlen(key), NULL, 10);
		}
	}
	riffle_free(r);
	return handle;
}

static void fails(const char *call, riffle_result r) {
	if (r.error == NULL) {
		fprintf(stderr, "%s: no error\n", call);
		exit(1);
	}
	printf("%s fails: %s\n%s is %s\n", call, r.error, call, r.reason);
	riffle_free(r);
}

int main(int argc, char **argv) {
	const int64_t now = 1767268800000, minute = 60000; // 2026-01-01 12:00 UTC
	char *arms = "[[0.6172839451, 0.2], [0.1, -0.5]]";
	char *chosen = "{\"arms\": [[0.6172839451, 0.2], [0.1, -0.5]], \"default\": 1, \"exclude\": [0]}";
	folder = argv[argc - 1];
	file("config");
	riffle_result opened = riffle_open(text, NULL, 0);
	int64_t device = opened.handle;
	must("open", opened, NULL);
	size_t size = file("announcement");
	must("follow", riffle_follow(device, text, size, now), NULL);
	size = file("keys");
	must("keys", riffle_keys(device, text, size), NULL);

	fails("enrol before the device is registered", riffle_enrol(device, now));
	must("register", riffle_register(device), "registration");
	size = awaited("confirmed");
	must("registered", riffle_registered(device, text, size), NULL);
	must("enrol", riffle_enrol(device, now), "request");
	size = awaited("reply");
	must("answer", riffle_answer(device, text, size, now), NULL);

	uint64_t first = must("decide", riffle_decide(device, arms), NULL);
	uint64_t second = must("decide", riffle_decide(device, chosen), NULL);
	must("decide", riffle_decide(device, arms), NULL);
	must("decide", riffle_decide(device, arms), NULL);
	fails("reward without a handle", riffle_reward(device, 0, 1, now));
	must("reward", riffle_reward(device, first, 1, now + 1000), NULL);
	must("reward", riffle_reward(device, second, 0.5, now + 1000), NULL);
	fails("reward of no decision", riffle_reward(device, 61728, 1, now + 1000));
	must("status", riffle_status(device), NULL);
	must("save", riffle_save(device), "saved");
	must("report", riffle_report(device, now + minute), "report");
	riffle_close(device);
	return 0;
}
