"""A control connection that stays open, for changes that must not start a process each (docs/control.md). Needs
python3-zmq."""

import json
import time

import zmq


class ControlError(AssertionError):
    """The operation was refused, or not answered in time."""


class Control:
    """Operations run one after the other. Use it from one thread at a time."""

    def __init__(self, endpoint):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(endpoint)
        self._last_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()
        self._context.term()

    def call(self, op, args=None, seconds=60):
        """Returns the `ok` of the answer."""
        self._last_id += 1
        self._socket.send_json({"v": 1, "id": self._last_id, "op": op, "args": args or {}})
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not self._socket.poll(left * 1000):
                break
            answer = json.loads(self._socket.recv())
            if answer.get("id") != self._last_id or "progress" in answer:
                continue  # of an earlier call that was not answered in time, or not the end
            if "ok" in answer:
                return answer["ok"]
            raise ControlError(f"{op}: {answer['error']['code']}: {answer['error']['message']}")
        raise ControlError(f"{op}: no answer within {seconds} s")
