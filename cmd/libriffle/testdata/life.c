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

// must prints a result, ends the program if it is an error, and frees it.
static void must(const char *call, riffle_result r) {
	if (r.error != NULL) {
		fprintf(stderr, "%s: %s\n", call, r.error);
		exit(1);
	}
	printf("%s: %.*s\n", call, (int)r.size, (char *)r.data);
	riffle_free(r);
}

// fails prints the error of a result that must be one, and frees it.
static void fails(const char *call, riffle_result r) {
	if (r.error == NULL || r.data != NULL || r.handle != 0) {
		fprintf(stderr, "%s: no error\n", call);
		exit(1);
	}
	printf("%s fails: %s\n", call, r.error);
	riffle_free(r);
}

int main(int argc, char **argv) {
	const int64_t now = 1767268800000, minute = 60000; // 2026-01-01 12:00 UTC
	folder = argv[argc - 1];
	bytes config = read_file("config"), announcement = read_file("announcement"), keys = read_file("keys");

	fails("open", riffle_open("{", NULL, 0));
	fails("open with a saved state that is none", riffle_open(config.data, "junk", 4));
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

	fails("encode a text", riffle_encode(device, "{\"arms\": [{\"id\": \"a\", \"on\": \"61728\"}]}"));
	fails("encode no object", riffle_encode(device, "{\"arms\": [61728]}"));
	fails("encode too much", riffle_encode(device, "{\"context\": {\"x\": 61728e999}, \"arms\": []}"));
	must("encode", riffle_encode(device, "{\"context\": {}, \"arms\": [{\"id\": \"a\", \"on\": true}, {\"id\": \"b\"}]}"));
	fails("decide", riffle_decide(device, "[[0.6172839451, \"x\"]]"));
	fails("decide between none", riffle_decide(device, "[]"));
	fails("decide with all excluded", riffle_decide(device, "{\"arms\": [[0.6172839451, 0.2]], \"exclude\": [0]}"));
	fails("decide with a wrong key", riffle_decide(device, "{\"arms\": [[0.6172839451, 0.2]], \"excluded\": [0]}"));
	must("decide", riffle_decide(device, "[[0.6172839451, 0.2]]"));
	must("reward", riffle_reward(device, 1.5, now + 1000));
	fails("reward again", riffle_reward(device, 0.7312948301, now + 1000));
	fails("reward too late", riffle_reward(device, 1.5, now + minute));
	must("status", riffle_status(device));

	// Another device of the same state: the promise survives, the record does not.
	riffle_result saved = riffle_save(device);
	write_file("saved", saved);
	opened = riffle_open(config.data, saved.data, saved.size);
	riffle_free(saved);
	fails("reward after a restart", riffle_reward(opened.handle, 1, now + minute));
	riffle_close(opened.handle);
	riffle_close(opened.handle);
	fails("status of a closed handle", riffle_status(opened.handle));
	riffle_free(opened);

	fails("report too early", riffle_report(device, now + minute - 1));
	riffle_result report = riffle_report(device, now + minute);
	write_file("report", report);
	riffle_free(report);
	fails("a second report", riffle_report(device, now + minute));
	riffle_close(device);
	free(config.data), free(announcement.data), free(keys.data), free(reply.data);
	return 0;
}
