//! Feed-forward layers of experts, of which each row takes the few that a router chooses for it.

/// How a router chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Number of experts from which it chooses.
    pub experts: usize,
    /// Number of experts that a row takes.
    pub chosen: usize,
}

/// A layer's weights.
#[derive(Debug)]
pub struct Experts<M> {
    pub routing: Routing,
    /// A logit for each expert, and one for the gate of the shared expert if there is one.
    pub router: M,
    /// Gate and up, and down, of each expert; or one of each for all experts, below each other.
    pub routed: Vec<[M; 2]>,
    /// The matrices of the expert that all rows take.
    pub shared: Option<[M; 2]>,
}

impl<M> Experts<M> {
    /// All matrices.
    pub fn matrices(&self) -> impl Iterator<Item = &M> {
        [&self.router].into_iter().chain(self.routed.iter().chain(&self.shared).flatten())
    }

    /// Bytes that a pass of `rows` rows reads on average, of matrices of these sizes; see [`Routing::touched`].
    pub fn pass_bytes(&self, rows: usize, bytes: impl Fn(&M) -> usize) -> usize {
        let sum = |pairs: &[[M; 2]]| pairs.iter().flatten().map(&bytes).sum::<usize>();
        let share = self.routing.touched(rows) / self.routing.experts.max(1) as f64;
        bytes(&self.router) + (sum(&self.routed) as f64 * share) as usize + sum(self.shared.as_slice())
    }

    /// The same layer of other matrices, each of which `make` makes.
    pub(crate) fn try_map<N, E>(&self, make: impl Fn(&M) -> Result<N, E>) -> Result<Experts<N>, E> {
        let pair = |[gate_up, down]: &[M; 2]| Ok([make(gate_up)?, make(down)?]);
        Ok(Experts {
            routing: self.routing,
            router: make(&self.router)?,
            routed: self.routed.iter().map(pair).collect::<Result<_, E>>()?,
            shared: self.shared.as_ref().map(pair).transpose()?,
        })
    }
}

impl Routing {
    /// Experts that some of `rows` rows take, on average, if all experts are equally likely and rows choose independently.
    pub fn touched(self, rows: usize) -> f64 {
        let experts = self.experts as f64;
        experts * (1.0 - (1.0 - self.chosen as f64 / experts).powf(rows as f64))
    }

    /// The experts of a row in ascending order with their weights: the softmax of the router's logits, of the chosen ones divided by
    /// their sum; and the shared expert, if there is a logit for its gate. Of equal logits the first ones are chosen.
    pub(crate) fn choose(self, logits: &[f32]) -> Vec<(usize, f32)> {
        let (experts, shared) = logits.split_at(self.experts.min(logits.len()));
        let mut order: Vec<usize> = (0..experts.len()).collect();
        order.sort_by(|&a, &b| experts[b].total_cmp(&experts[a]));
        order.truncate(self.chosen);
        let largest = order.first().map_or(0.0, |&first| experts[first]);
        let weight = |at: usize| (experts[at] - largest).exp();
        let sum: f32 = order.iter().map(|&at| weight(at)).sum();
        let mut chosen: Vec<(usize, f32)> = order.iter().map(|&at| (at, weight(at) / sum)).collect();
        chosen.sort_unstable_by_key(|(at, _)| *at);
        chosen.extend(shared.iter().map(|gate| (self.experts, 1.0 / (1.0 + (-gate).exp()))));
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_logits_are_chosen_and_their_weights_add_up() {
        let routing = Routing { experts: 5, chosen: 2 };
        let logits = [0.5, 3.0, -1.0, 2.0, 3.0];
        assert_eq!(routing.choose(&logits), [(1, 0.5), (4, 0.5)]);
        let chosen = routing.choose(&[4.0, 0.0, 0.0, 4.0 + 3f32.ln(), 0.0, 0.0]);
        assert_eq!(chosen.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 3, 5], "the last is shared");
        for ((_, weight), expected) in chosen.iter().zip([0.25, 0.75, 0.5]) {
            assert!((weight - expected).abs() < 1e-6, "{chosen:?}");
        }
        assert_eq!(routing.choose(&[1.0; 5]), [(0, 0.5), (1, 0.5)], "the first of equal ones");
    }

    #[test]
    fn more_rows_touch_more_experts() {
        let routing = Routing { experts: 128, chosen: 8 };
        let touched = [1, 6, 1000].map(|rows| routing.touched(rows));
        assert_eq!(touched[0], 8.0);
        assert!((touched[1] - 41.1).abs() < 0.1 && (touched[2] - 128.0).abs() < 1e-9, "{touched:?}");
    }
}
