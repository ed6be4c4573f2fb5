#!/usr/bin/env python3
"""Put load on a running `specreel serve`, and check its answers.

    python3 scripts/serve-load.py http://127.0.0.1:8713 clips/*.mp4 --clients 50 --seconds 120

Uploads the videos, asks about each one alone, and then lets many clients ask at once. Some read slowly, and some hang up in the
middle (--rude). Every answer must be the one that was given alone, and /health must be answered all the time. Needs nothing but
Python. Exits with 1 if an answer differs, or a request fails for another reason than a full queue."""

import argparse
import collections
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import sys
import threading
import time
import urllib.parse
import uuid


class Server:
    def __init__(self, url, key):
        self.at = urllib.parse.urlsplit(url)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def open(self, method, path, body=None, kind="application/json"):
        connection = http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=600)
        headers = self.headers | ({"Content-Type": kind} if body is not None else {})
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()

    def read(self, *request, **more):
        connection, response = self.open(*request, **more)
        with contextlib.closing(connection):
            return response.status, response.read()

    def upload(self, path):
        with open(path, "rb") as file:
            head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{uuid.uuid4()}"\r\n\r\n'.encode()
            body = head + file.read() + b"\r\n--x--\r\n"
        status, answer = self.read("POST", "/v1/files", body, kind="multipart/form-data; boundary=x")
        assert status == 200, answer
        return json.loads(answer)["id"]

    def memory(self):
        lines = self.read("GET", "/metrics")[1].decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("process_resident_memory_bytes "))


def body(video, args, stream):
    parts = [{"type": "video_url", "video_url": {"url": video}}, {"type": "text", "text": args.prompt}]
    extension = {"method": args.method} if args.method else {}
    return json.dumps({
        "messages": [{"role": "user", "content": parts}],
        "max_tokens": args.tokens,
        "stream": stream,
        "specreel": extension,
    })


def text_of(line):
    if not line.startswith(b"data: {"):
        return ""
    part = json.loads(line[6:])
    if "error" in part:
        raise RuntimeError(part["error"]["message"])
    return part["choices"][0]["delta"].get("content") or "" if part["choices"] else ""


def ask(server, video, args, chance):
    """One request. Returns what became of it, and the answer if it is whole."""
    stream = chance.random() < 0.7
    connection, response = server.open("POST", "/v1/chat/completions", body(video, args, stream))
    with contextlib.closing(connection):
        if response.status != 200:
            answer = response.read()
            return (f"{response.status}", None) if response.status == 429 else (f"failed: {answer[:200]}", None)
        if not stream:
            return "whole", json.loads(response.read())["choices"][0]["message"]["content"]
        rude, slow, text = chance.random() < args.rude, chance.random() < args.rude, ""
        for line in response:
            text += text_of(line)
            if rude and text and chance.random() < 0.2:
                return "hung up", None
            if slow:
                time.sleep(0.02)
        return ("slow" if slow else "streamed"), text


def watch(server, seconds, sender):
    """Asks for /health all the time. A process of its own: a thread would wait for the clients' threads."""
    end, health = time.monotonic() + seconds, []
    while time.monotonic() < end:
        began = time.monotonic()
        status, _ = server.read("GET", "/health")
        health.append((time.monotonic() - began, status))
        time.sleep(0.1)
    sender.send(health)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("url")
    options.add_argument("videos", nargs="+")
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--prompt", default="Describe the video in detail.")
    options.add_argument("--method")
    options.add_argument("--rude", type=float, default=0.1, help="share of clients that hang up, and that read slowly")
    options.add_argument("--api-key", default=os.environ.get("SPECREEL_API_KEY"))
    args = options.parse_args()
    server = Server(args.url, args.api_key)
    alone = {}
    for path in args.videos:
        video = server.upload(path)
        status, answer = server.read("POST", "/v1/chat/completions", body(video, args, False))
        if status != 200:
            print(f"{path}: left out: {json.loads(answer)['error']['message']}")
            continue
        alone[video] = json.loads(answer)["choices"][0]["message"]["content"]
    receiver, sender = multiprocessing.Pipe()
    watcher = multiprocessing.Process(target=watch, args=(server, args.seconds, sender))
    watcher.start()
    end, ends, wrong = time.monotonic() + args.seconds, collections.Counter(), []
    lock = threading.Lock()

    def client(number):
        chance = random.Random(number)
        while time.monotonic() < end:
            video = chance.choice(list(alone))
            try:
                how, text = ask(server, video, args, chance)
            except Exception as error:  # noqa: BLE001: whatever it is, it is counted
                how, text = f"failed: {error!r}", None
            with lock:
                ends[how] += 1
                if text is not None and text != alone[video]:
                    wrong.append((video, text))
            if how == "429":
                time.sleep(chance.uniform(0.05, 0.5))

    memory = [server.memory()]
    threads = [threading.Thread(target=client, args=(n,)) for n in range(args.clients)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        time.sleep(min(10, args.seconds / 6))
        memory.append(server.memory())
    for thread in threads:
        thread.join()
    health = receiver.recv()
    watcher.join()
    times = sorted(seconds for seconds, _ in health)
    for how, count in ends.most_common():
        print(f"{count:7} {how}")
    print(f"{len(wrong):7} answers that differ from the one given alone")
    print(f"health: {len(times)} requests, median {times[len(times) // 2] * 1e3:.1f} ms, p99 {times[int(len(times) * 0.99)] * 1e3:.1f} ms, "
          f"slowest {times[-1] * 1e3:.1f} ms, all 200: {all(status == 200 for _, status in health)}")
    print("resident memory, MB:", " ".join(f"{bytes / 1e6:.0f}" for bytes in memory))
    for video, text in wrong[:3]:
        print(f"{video}: {text!r} and not {alone[video]!r}")
    sys.exit(bool(wrong) or any(how.startswith("failed") for how in ends))


if __name__ == "__main__":
    main()
