"""Time and threads: training runs for a fixed time or a number of clips, on as many cores as are free."""

import datetime
import time

import torch


def precision():
    """bf16 autocast on processors with bf16 arithmetic, f32 elsewhere."""
    able = any(getattr(torch.cpu, f"_is_{unit}_supported", bool)() for unit in ("avx512_bf16", "amx_tile"))
    return torch.autocast("cpu", torch.bfloat16, enabled=able)


class Clock:
    """Elapsed share of the training time (or of the clips), summed over all resumed parts of a run."""

    def __init__(self, elapsed, minutes, until, clips=None):
        self.before, self.start = elapsed, time.monotonic()
        self.clips, self.seen = clips, 0
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
        """From 0 to 1; counted in clips (`seen`) where the run has a number of clips."""
        return self.seen / self.clips if self.clips else self.elapsed / self.total


class Threads:
    """Measures periodically whether one thread or all threads are faster; on a busy machine one often is."""

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
