//! Steps without drafts where the target's attention peaks on one visual token (after ViSkip, MMSpec 2026).
//!
//! The signal is the target's largest attention weight on one visual token, mean over layers and heads, in the row that wrote the
//! step's root: the latest that is known before drafting. How large it is differs between models and clips, so it is compared
//! with the run's earlier steps.

/// Decides which steps draft nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    /// The share of steps without drafts.
    share: f64,
    /// The signals of the earlier steps, ascending.
    earlier: Vec<f32>,
    /// The next step's signal, if known.
    next: Option<f32>,
}

impl Gate {
    /// A gate that closes at about this share of the steps (0 to 1).
    pub fn new(share: f64) -> Self {
        Self { share, ..Self::default() }
    }

    /// Note the signal of the row that wrote the next step's root.
    pub fn note(&mut self, signal: Option<f32>) {
        self.next = signal;
    }

    /// The signal for which the next step has no drafts; `None` if it may have some.
    pub(crate) fn closes(&mut self) -> Option<f32> {
        let signal = self.next.take()?;
        let closed = is_high(signal, &self.earlier, self.share);
        let at = self.earlier.partition_point(|other| other.total_cmp(&signal).is_lt());
        self.earlier.insert(at, signal);
        closed.then_some(signal)
    }
}

/// True if a signal is among the highest `share` of itself and the `earlier` ones (ascending). Equal ones count as higher: where all
/// are equal, none is among the highest.
fn is_high(signal: f32, earlier: &[f32], share: f64) -> bool {
    let above = earlier.len() - earlier.partition_point(|other| other.total_cmp(&signal).is_lt());
    (above + 1) as f64 <= share * (earlier.len() + 1) as f64 + 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_share_is_high() {
        for (signal, earlier, share, want) in [
            (0.5, &[][..], 0.0, false),
            (0.5, &[], 0.5, false),
            (0.5, &[], 1.0, true),
            (0.5, &[0.1, 0.2, 0.3, 0.4], 0.2, true),
            (0.5, &[0.1, 0.2, 0.3, 0.4], 0.19, false),
            (0.35, &[0.1, 0.2, 0.3, 0.4], 0.2, false),
            (0.35, &[0.1, 0.2, 0.3, 0.4], 0.4, true),
            (0.0, &[0.1, 0.2, 0.3, 0.4], 0.99, false),
            (0.0, &[0.1, 0.2, 0.3, 0.4], 1.0, true),
            (0.3, &[0.3, 0.3, 0.3, 0.3], 0.8, false),
            (9.0, &[0.1, 0.2, 0.3, 0.4], 0.0, false),
            (f32::NAN, &[0.1], 0.0, false),
        ] {
            assert_eq!(is_high(signal, earlier, share), want, "{signal} of {earlier:?}, {share}");
        }
    }

    #[test]
    fn a_gate_closes_at_about_its_share_of_the_steps() {
        for share in [0.0, 0.1, 0.3, 0.5, 1.0] {
            let mut gate = Gate::new(share);
            let mut closed = 0;
            for step in 0..1000 {
                // Spread over 0 to 1 in no order.
                gate.note(Some((step * 617 % 1000) as f32 / 1000.0));
                closed += usize::from(gate.closes().is_some());
            }
            let want = (share * 1000.0) as usize;
            assert!(closed.abs_diff(want) <= 20, "{closed} of 1000 at {share}");
        }
    }

    #[test]
    fn a_step_without_a_signal_may_draft() {
        let mut gate = Gate::new(1.0);
        assert_eq!(gate.closes(), None);
        gate.note(Some(0.25));
        assert_eq!(gate.closes(), Some(0.25));
        // A signal is for one step.
        assert_eq!(gate.closes(), None);
        gate.note(None);
        assert_eq!(gate.closes(), None);
    }
}
