"""Time and threads: training follows the clock and makes do with the cores that are free."""

import datetime
import time

import torch


def precision():
    """bf16 autocast where the processor multiplies bf16 itself, f32 elsewhere."""
    able = any(getattr(torch.cpu, f"_is_{unit}_supported", bool)() for unit in ("avx512_bf16", "amx_tile"))
    return torch.autocast("cpu", torch.bfloat16, enabled=able)


class Clock:
    """How much of the time for training is over, over all stretches of a run."""

    def __init__(self, elapsed, minutes, until):
        self.before, self.start = elapsed, time.monotonic()
        if until:
            now = datetime.datetime.now()
            end = datetime.datetime.combine(now.date(), datetime.time.fromisoformat(until))
            end += datetime.timedelta(days=end < now)
            self.total = elapsed + (end - now).total_seconds()
        else:
            self.total = minutes * 60.0

    @property
    def elapsed(self):
        return self.before + time.monotonic() - self.start

    @property
    def progress(self):
        return self.elapsed / self.total


class Threads:
    """Finds out now and then whether one thread or all of them are faster: on a busy machine one often is."""

    def __init__(self, most):
        self.most, self.times, self.count = most, {}, 0
        torch.set_num_threads(most)

    def step(self, seconds, work):
        place = self.count % 120
        self.count += 1
        if self.most == 1:
            return
        if place < 10:
            self.times.setdefault(torch.get_num_threads(), []).append(seconds / work)
            torch.set_num_threads(1 if place % 2 == 0 else self.most)
        elif place == 10:
            best = min(self.times, key=lambda n: sum(sorted(self.times[n])[:-1]) / (len(self.times[n]) - 1))
            torch.set_num_threads(best)
            self.times = {}
