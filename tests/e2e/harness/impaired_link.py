#!/usr/bin/env python3
"""A link that loses, duplicates, damages, delays and reorders frames, for kernels without netem (sch_netem).

It joins the two interfaces of a namespace with packet sockets, one process for both directions. Impairments act in
netem's order on each direction: duplicate, lose, damage, delay. A damaged frame has one wrong bit anywhere, and keeps
its checksums. The decisions come from a seed and depend on the order of the frames only.

    impaired_link.py INTERFACE INTERFACE

Each line of standard input is a JSON object: the impairments from now on. The answer is a line with the counts of each
direction since the line before. The program ends with its input.
"""

import collections
import heapq
import json
import random
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING = 263, 6, 20, 23
SO_RCVBUFFORCE = 33
UDP = 17
BURST = 64  # frames from one direction before the other's turn


@dataclass(frozen=True)
class Impairments:
    loss_percent: float = 0
    duplicate_percent: float = 0
    corrupt_percent: float = 0
    reorder_percent: float = 0  # sent at once, ahead of the delayed ones
    delay_ms: float = 0
    jitter_ms: float = 0  # delays are uniform in delay_ms ± jitter_ms
    seed: int = 1


class Direction:
    def __init__(self, name, source, target):
        self.name, self.source, self.target = name, source, target
        self.counts = collections.Counter()
        self.last_due = 0.0

    def use(self, impairments):
        self.impairments = impairments
        self.random = random.Random(f"{impairments.seed} {self.name}")

    def take_counts(self):
        _, missed = struct.unpack("<II", self.source.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.counts["missed"] += missed  # by this program, which was too slow
        taken, self.counts = self.counts, collections.Counter()
        return taken

    def chance(self, percent):
        return percent > 0 and self.random.random() * 100 < percent

    def due(self, now):
        """When to send a frame that has just arrived."""
        use = self.impairments
        if use.delay_ms == 0 or self.chance(use.reorder_percent):
            return now
        return now + max(0, use.delay_ms + self.random.uniform(-1, 1) * use.jitter_ms) / 1000

    def damage(self, frame):
        bit = self.random.randrange(len(frame) * 8)
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)

    def copies(self, frame, now):
        """The (time, frame) pairs that leave for a frame that arrives."""
        use, counts = self.impairments, self.counts
        counts["frames"] += 1
        counts["datagrams"] += frame[12:14] == b"\x08\x00" and frame[23] == UDP
        count = 1
        if self.chance(use.duplicate_percent):
            count += 1
            counts["duplicated"] += 1
        if self.chance(use.loss_percent):
            count -= 1
            counts["lost"] += 1
        for _ in range(count):
            copy = frame
            if self.chance(use.corrupt_percent):
                copy = self.damage(frame)
                counts["corrupted"] += 1
            when = self.due(now)
            counts["reordered"] += when < self.last_due
            self.last_due = max(when, self.last_due)
            yield when, copy


class Link:
    def __init__(self, interfaces):
        a, b = map(self._open, interfaces)
        self.directions = [Direction("from_client", a, b), Direction("from_server", b, a)]
        self.waiting = []  # heap of (time, number, direction, frame)
        self.number = 0
        self.use(Impairments())

    @staticmethod
    def _open(interface):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        raw.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        raw.bind((interface, ETH_P_ALL))
        raw.setblocking(False)
        return raw

    def use(self, impairments):
        for direction in self.directions:
            direction.use(impairments)

    def send_due(self):
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, direction, frame = heapq.heappop(self.waiting)
            self.send(direction, frame)

    @staticmethod
    def send(direction, frame):
        try:
            direction.target.send(frame)
            direction.counts["sent"] += 1
        except OSError:  # a full queue, or an interface that is down
            direction.counts["unsent"] += 1

    def receive(self, direction):
        for _ in range(BURST):
            try:
                frame = direction.source.recv(65536)
            except OSError:  # no more, or an interface that is down
                return
            now = time.monotonic()
            for when, copy in direction.copies(frame, now):
                if when <= now:
                    self.send(direction, copy)
                else:
                    self.number += 1
                    heapq.heappush(self.waiting, (when, self.number, direction, copy))

    def command(self, line):
        counts = {direction.name: direction.take_counts() for direction in self.directions}
        self.use(Impairments(**json.loads(line)))
        print(json.dumps(counts), flush=True)

    def run(self):
        while True:
            wait = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            ready, _, _ = select.select([sys.stdin, *(each.source for each in self.directions)], [], [], wait)
            self.send_due()
            for direction in self.directions:
                if direction.source in ready:
                    self.receive(direction)
            if sys.stdin in ready:
                if not (line := sys.stdin.readline()):
                    return
                self.command(line)


if __name__ == "__main__":
    Link(sys.argv[1:]).run()
