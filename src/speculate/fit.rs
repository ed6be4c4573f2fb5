//! Measurements of a running generation in which older ones count less: a mean, a line, a chance.

/// Share by which older observations count less at each new one.
const MEMORY: f64 = 0.96;

/// A mean in which older values count less.
#[derive(Clone, Debug, Default)]
pub(super) struct FadingMean {
    sum: f64,
    weight: f64,
}

impl FadingMean {
    pub(super) fn add(&mut self, value: f64) {
        self.sum = self.sum * MEMORY + value;
        self.weight = self.weight * MEMORY + 1.0;
    }

    pub(super) fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// Least squares of time over rows.
#[derive(Clone, Debug, Default)]
pub(super) struct LinearFit {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl LinearFit {
    /// Let all points so far count less.
    pub(super) fn fade(&mut self) {
        for sum in [&mut self.n, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
            *sum *= MEMORY;
        }
    }

    pub(super) fn add(&mut self, x: f64, y: f64, weight: f64) {
        self.n += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
    }

    /// Time of the first row, and of each further one; neither below a hundredth of the mean row.
    pub(super) fn fit(&self) -> Option<(f64, f64)> {
        if self.n <= 0.0 {
            return None;
        }
        let (mx, my) = (self.x / self.n, self.y / self.n);
        let spread = self.xx / self.n - mx * mx;
        let least = 0.01 * my / mx.max(1.0);
        // All points at one number of rows: a further row is taken to cost a quarter of the mean one.
        let slope = if spread > 1e-6 { (self.xy / self.n - mx * my) / spread } else { 0.25 * my / mx };
        let slope = slope.max(least);
        Some(((my + slope * (1.0 - mx)).max(least), slope))
    }
}

/// The chance that a draft passes once those before it have.
#[derive(Clone, Debug)]
pub(super) struct FadingChance {
    passed: f64,
    judged: f64,
}

impl Default for FadingChance {
    /// Three of four, with the weight of two drafts.
    fn default() -> Self {
        Self { passed: 1.5, judged: 2.0 }
    }
}

impl FadingChance {
    /// Note that of a chain of `drafts` (at least one) the first `accepted` passed.
    pub(super) fn add(&mut self, drafts: usize, accepted: usize) {
        // The draft after the accepted ones was rejected; those after it were not judged.
        let turns = (accepted + 1).min(drafts) as f64;
        self.passed = self.passed * MEMORY + accepted as f64;
        self.judged = self.judged * MEMORY + turns;
    }

    /// The chance, below 1.
    pub(super) fn value(&self) -> f64 {
        (self.passed / self.judged).clamp(0.0, 0.995)
    }
}
