//! Contention for processors: how long the threads of this process waited for one although they had work, because other
//! programs used them.

/// Processor time of all threads of this process at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessorTime {
    /// Time on a processor.
    ran: u64,
    /// Time in which a thread could have run, but no processor was free.
    waited: u64,
}

impl ProcessorTime {
    /// Now; `None` on systems other than Linux, which do not report it.
    pub fn now() -> Option<Self> {
        let mut sum = Self::default();
        for thread in std::fs::read_dir("/proc/self/task").ok()? {
            // A thread that has ended in the meantime has no file any more.
            let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
            let thread = Self::read(&text)?;
            sum.ran += thread.ran;
            sum.waited += thread.waited;
        }
        Some(sum)
    }

    /// Of `schedstat`'s text: time on a processor, time waiting for one, number of time slices.
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        Some(Self { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
    }

    fn since(self, earlier: Self) -> Self {
        let Self { ran, waited } = self;
        // Threads that ended took their times with them.
        Self { ran: ran.saturating_sub(earlier.ran), waited: waited.saturating_sub(earlier.waited) }
    }
}

/// Adds up stretches of work, and says how much of their time went into waiting for processors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContentionMeter {
    sum: ProcessorTime,
}

impl ContentionMeter {
    /// Call `work` and count the time that it takes.
    pub(crate) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = ProcessorTime::now();
        let done = work();
        if let Some((before, after)) = before.zip(ProcessorTime::now()) {
            let ProcessorTime { ran, waited } = after.since(before);
            self.sum.ran += ran;
            self.sum.waited += waited;
        }
        done
    }

    /// Count what another meter has.
    pub fn add(&mut self, other: &Self) {
        self.sum.ran += other.sum.ran;
        self.sum.waited += other.sum.waited;
    }

    /// The share of the time, 0 to 1, that threads with work waited for a processor; `None` if no time is known.
    pub fn share(&self) -> Option<f64> {
        let ProcessorTime { ran, waited } = self.sum;
        (ran + waited > 0).then(|| ((waited as f64 / (ran + waited) as f64) * 1e3).round() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_added_up() {
        assert_eq!(
            ProcessorTime::read("832285 101230 2\n"),
            Some(ProcessorTime { ran: 832_285, waited: 101_230 })
        );
        assert_eq!((ProcessorTime::read("1"), ProcessorTime::read("a b c")), (None, None));
        let earlier = ProcessorTime { ran: 10, waited: 5 };
        assert_eq!(earlier.since(ProcessorTime { ran: 4, waited: 9 }), ProcessorTime { ran: 6, waited: 0 });
        assert_eq!(ContentionMeter::default().share(), None);
        let meter = ContentionMeter { sum: ProcessorTime { ran: 300, waited: 100 } };
        assert_eq!(meter.share(), Some(0.25));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_is_counted() {
        let mut meter = ContentionMeter::default();
        let sum = meter.during(|| (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
        std::hint::black_box(sum);
        assert!(meter.sum.ran > 0 && meter.share().is_some_and(|share| (0.0..=1.0).contains(&share)));
    }
}
