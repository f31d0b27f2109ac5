// One device's life through the library. The folder that the program is given holds what a deployment gives and sends; what the device
// sends is written there, and what the library answers is printed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libriffle.h"

static const char *folder;

typedef struct {
	char *data;
	size_t size;
} bytes;

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

// read_file reads a file of the folder and puts a zero byte behind it.
static bytes read_file(const char *name) {
	bytes b = {malloc(1 << 20), 0};
	FILE *f = in_folder(name, "rb");
	b.size = fread(b.data, 1, (1 << 20) - 1, f);
	b.data[b.size] = 0;
	fclose(f);
	return b;
}

// awaited reads a file that another process writes, as the shuffler's answer comes over the broker.
static bytes awaited(const char *name) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	for (int i = 0; i < 60000 && access(path, R_OK) != 0; i++) {
		usleep(1000);
	}
	return read_file(name);
}

static void write_file(const char *name, riffle_result r) {
	FILE *f = in_folder(name, "wb");
	fwrite(r.data, 1, r.size, f);
	fclose(f);
}

// must prints a result, ends the program if it is an error, and frees it. It returns the handle of a decision in it; 0
// where there is none.
static uint64_t must(const char *call, riffle_result r) {
	if (r.error != NULL) {
		fprintf(stderr, "%s: %s\n", call, r.error);
		exit(1);
	}
	printf("%s: %.*s\n", call, (int)r.size, (char *)r.data);
	char text[4096];
	const char *key = "\"handle\":";
	snprintf(text, sizeof text, "%.*s", (int)r.size, (char *)r.data);
	const char *at = strstr(text, key);
	uint64_t handle = at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10);
	riffle_free(r);
	return handle;
}

// fails prints the error of a result that must be one, and frees it.
static void fails(const char *call, riffle_result r) {
	if (r.error == NULL || r.data != NULL || r.handle != 0) {
		fprintf(stderr, "%s: no error\n", call);
		exit(1);
	}
	printf("%s fails: %s\n%s is %s\n", call, r.error, call, r.reason);
	riffle_free(r);
}

// kept writes a result to a file, ends the program if it is an error, and frees it.
static void kept(const char *name, riffle_result r) {
	if (r.error != NULL) {
		fprintf(stderr, "%s: %s\n", name, r.error);
		exit(1);
	}
	write_file(name, r);
	riffle_free(r);
}

// reopened is the device of a saved state that it has written to a file.
static int64_t reopened(bytes config, int64_t device, const char *name) {
	kept(name, riffle_save(device));
	bytes saved = read_file(name);
	riffle_result opened = riffle_open(config.data, saved.data, saved.size);
	free(saved.data);
	int64_t handle = opened.handle;
	must("open again", opened);
	return handle;
}

// deposits has a copy of the device use a mailbox, and be restarted between the decision and its reward.
static void deposits(bytes config, int64_t device, int64_t now) {
	int64_t page = reopened(config, device, "promised");
	kept("first", riffle_deposit(page, now));
	must("deposited", riffle_deposited(page));
	uint64_t decision = must("decide", riffle_decide(page, "[[0.6172839451, 0.2]]"));
	int64_t next = reopened(config, page, "decided");
	riffle_close(page);
	must("reward", riffle_reward(next, decision, 1, now + 1000));
	kept("second", riffle_deposit(next, now + 1000));
	must("deposited", riffle_deposited(next));
	fails("a third deposit", riffle_deposit(next, now + 1000));
	riffle_close(next);

	page = reopened(config, device, "promised");
	kept("first", riffle_deposit(page, now));
	fails("decide about junk", riffle_decide(page, "junk"));
	fails("deposit after junk", riffle_deposit(page, now));
	riffle_close(page);

	page = reopened(config, device, "promised");
	decision = must("decide", riffle_decide(page, "[[0.6172839451, 0.2]]"));
	must("forget", riffle_forget(page));
	fails("reward of what is forgotten", riffle_reward(page, decision, 1, now + 1000));
	riffle_close(page);
}

int main(int argc, char **argv) {
	const int64_t now = 1767268800000, minute = 60000; // 2026-01-01 12:00 UTC
	folder = argv[argc - 1];
	bytes config = read_file("config"), announcement = read_file("announcement"), keys = read_file("keys");

	fails("open", riffle_open("{", NULL, 0));
	fails("open with a saved state that is none", riffle_open(config.data, "junk", 4));
	fails("open with a saved state that is too large", riffle_open(config.data, config.data, 8 << 20));
	riffle_result opened = riffle_open(config.data, NULL, 0);
	int64_t device = opened.handle;
	must("open", opened);

	fails("enrol before the announcement", riffle_enrol(device, now));
	fails("encode before the announcement", riffle_encode(device, "{\"arms\": []}"));
	fails("follow", riffle_follow(device, "junk", 4, now));
	fails("follow nothing", riffle_follow(device, NULL, 10, now));
	must("follow", riffle_follow(device, announcement.data, announcement.size, now));
	must("keys", riffle_keys(device, keys.data, keys.size));

	riffle_result request = riffle_enrol(device, now);
	write_file("request", request);
	riffle_free(request);
	bytes reply = awaited("reply");
	must("answer", riffle_answer(device, reply.data, reply.size, now));
	deposits(config, device, now);

	fails("encode a text", riffle_encode(device, "{\"arms\": [{\"id\": \"a\", \"on\": \"61728\"}]}"));
	fails("encode no object", riffle_encode(device, "{\"arms\": [61728]}"));
	fails("encode too much", riffle_encode(device, "{\"context\": {\"x\": 61728e999}, \"arms\": []}"));
	must("encode", riffle_encode(device, "{\"context\": {}, \"arms\": [{\"id\": \"a\", \"on\": true}, {\"id\": \"b\"}]}"));
	fails("decide", riffle_decide(device, "[[0.6172839451, \"x\"]]"));
	fails("decide between none", riffle_decide(device, "[]"));
	fails("decide with all excluded", riffle_decide(device, "{\"arms\": [[0.6172839451, 0.2]], \"exclude\": [0]}"));
	fails("decide with a wrong key", riffle_decide(device, "{\"arms\": [[0.6172839451, 0.2]], \"excluded\": [0]}"));
	uint64_t decision = must("decide", riffle_decide(device, "[[0.6172839451, 0.2]]"));
	fails("reward of no decision", riffle_reward(device, 0, 1, now + 1000));

	// The process ends, and another one goes on.
	int64_t before = device;
	device = reopened(config, before, "saved");
	riffle_close(before);
	riffle_close(before);
	fails("status of a closed handle", riffle_status(before));
	must("reward after a restart", riffle_reward(device, decision, 1.5, now + 1000));
	fails("reward again", riffle_reward(device, decision, 0.7312948301, now + 1000));
	fails("reward too late", riffle_reward(device, decision, 1.5, now + minute));
	must("status", riffle_status(device));

	fails("report too early", riffle_report(device, now + minute - 1));
	riffle_result report = riffle_report(device, now + minute);
	write_file("report", report);
	riffle_free(report);
	fails("a second report", riffle_report(device, now + minute));
	riffle_close(device);
	free(config.data), free(announcement.data), free(keys.data), free(reply.data);
	return 0;
}
