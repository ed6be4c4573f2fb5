//! What the tensors of a checkpoint become if a weight type is requested.

use serde::Serialize;

use crate::{config::TextConfig, decoder::parts};
use specreel_tensor::WeightType;

/// The conversion of a tensor, or of several equal ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conversion {
    /// The part of their names that they share, or the LM head.
    pub tensor: String,
    /// How many there are.
    pub count: usize,
    /// Rows.
    pub outputs: usize,
    /// Columns.
    pub inputs: usize,
    /// What they become on a CPU.
    pub dtype: &'static str,
    /// Why that is not the type that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What the language model's matrices become, the head first.
pub(super) fn of(c: &TextConfig, requested: WeightType) -> Vec<Conversion> {
    let mut all: Vec<Conversion> = Vec::new();
    let mut matrices: Vec<_> = parts::matrices(c).collect();
    matrices.rotate_right(1);
    for (index, matrix) in matrices.iter().enumerate() {
        let kept = requested.kept(matrix.importance);
        // Rows of no values are whole blocks of any type.
        let (held, wanted) = (kept.fitting(matrix.inputs), kept.fitting(0));
        let reasons = [
            (kept != requested).then(|| "kept higher".to_owned()),
            (held != wanted)
                .then(|| format!("rows of {} are not a multiple of {}", matrix.inputs, wanted.block())),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        for (name, outputs) in &matrix.tensors {
            let short = name.rsplit('.').next().unwrap_or(name);
            let new = Conversion {
                tensor: if index == 0 { "LM head" } else { short }.to_owned(),
                count: 0,
                outputs: *outputs,
                inputs: matrix.inputs,
                dtype: held.name(),
                reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            };
            let alike = all.iter().position(|found| Conversion { count: 0, ..found.clone() } == new);
            let at = alike.unwrap_or_else(|| {
                all.push(new);
                all.len() - 1
            });
            all[at].count += 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{family::VlConfig, testing::repository};

    fn lines(dtype: WeightType) -> Vec<String> {
        let config = VlConfig::read(&repository("assets/demo/target")).unwrap().text;
        let found = of(&config, dtype);
        // Every matrix is counted.
        let count: usize = found.iter().map(|found| found.count).sum();
        assert_eq!(count, parts::matrices(&config).map(|matrix| matrix.tensors.len()).sum::<usize>());
        let line = |c: Conversion| {
            format!("{} {} {} {} {}", c.count, c.tensor, c.inputs, c.dtype, c.reason.unwrap_or_default())
        };
        found.into_iter().map(line).collect()
    }

    #[test]
    fn tensors_alike_are_counted_with_the_reason_for_their_type() {
        let found = lines(WeightType::Q8_0);
        assert!(found.iter().all(|line| line.ends_with(" q8_0 ")), "{found:?}");
        let found = lines(WeightType::Q4_0);
        assert_eq!(found[0], "1 LM head 320 q8_0 kept higher; rows of 320 are not a multiple of 256");
        assert!(found[1..].iter().all(|line| line.ends_with(" q4_0 ")), "{found:?}");
        let found = lines(WeightType::Q4K);
        let early = "q_proj 320 q5_1 kept higher; rows of 320 are not a multiple of 256";
        assert!(found[1].ends_with(early), "{found:?}");
        assert!(
            found.iter().any(|line| line.ends_with("up_proj 320 q5_0 rows of 320 are not a multiple of 256"))
        );
    }
}
