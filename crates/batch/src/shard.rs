//! The part of the clips that one of several machines captions.

use std::{fmt, str::FromStr};

use super::*;

/// Part `index` of `count`; the index counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub index: u64,
    /// How many parts there are.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    Fixed(Shard),
    /// The scheduler's variables say which; the count, where they do not say it.
    Auto(Option<u64>),
}

/// Largest number of parts.
const MOST: u64 = 1_000_000;

impl Shard {
    /// True if the clip belongs to this part. It depends on the clip's path below the named directory alone, so that machines
    /// agree without communication, even if they list other files.
    pub fn has(self, clip: &Clip) -> bool {
        clip.id() % self.count == self.index - 1
    }

    fn new(index: u64, count: u64) -> Result<Self, String> {
        match (index, count) {
            (_, 0) => Err("there are no parts in 0".into()),
            (_, MOST..) => Err(format!("at most {MOST} parts")),
            (index, count) if index == 0 || index > count => {
                Err(format!("parts are numbered from 1 to {count}"))
            }
            _ => Ok(Self { index, count }),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected I/N such as 2/8, auto, or auto/N".to_owned();
        let number = |text: &str| text.parse::<u64>().map_err(|_| expected());
        match text.split_once('/') {
            None if text == "auto" => Ok(Self::Auto(None)),
            Some(("auto", count)) => {
                let count = number(count)?;
                Shard::new(1, count).map(|_| Self::Auto(Some(count)))
            }
            Some((index, count)) => Shard::new(number(index)?, number(count)?).map(Self::Fixed),
            None => Err(expected()),
        }
    }
}

impl ShardChoice {
    /// The part: of a Slurm array from `SLURM_ARRAY_TASK_ID`, `_MIN`, `_STEP` and `_COUNT`, of a Kubernetes indexed Job from
    /// `JOB_COMPLETION_INDEX`. Fails if the variables are missing, or contradict each other.
    pub fn resolve(self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, String> {
        let count = match self {
            Self::Fixed(shard) => return Ok(shard),
            Self::Auto(count) => count,
        };
        let number = |name: &str| -> Result<Option<u64>, String> {
            let Some(text) = variable(name) else { return Ok(None) };
            text.trim().parse().map(Some).map_err(|_| format!("{name} is {text:?}, which is no number"))
        };
        if let Some(id) = number("SLURM_ARRAY_TASK_ID")? {
            let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(1);
            let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
            let count = match (count, number("SLURM_ARRAY_TASK_COUNT")?) {
                (Some(count), _) | (None, Some(count)) => count,
                (None, None) => return Err("SLURM_ARRAY_TASK_COUNT is not set: use --shard auto/N".into()),
            };
            let index = id.checked_sub(first).map(|from| from / step + 1).unwrap_or(0);
            return Shard::new(index, count)
                .map_err(|error| format!("SLURM_ARRAY_TASK_ID {id} of {count}: {error}"));
        }
        if let Some(index) = number("JOB_COMPLETION_INDEX")? {
            let count = count.ok_or(
                "the number of parts is not known: use --shard auto/N, N being the Job's completions",
            )?;
            return Shard::new(index + 1, count)
                .map_err(|error| format!("JOB_COMPLETION_INDEX {index} of {count}: {error}"));
        }
        Err("neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XXH3 of `a/0.mp4`.
    const KNOWN: u64 = 0x1261_a187_2c30_dedb;

    #[test]
    fn parts_are_numbered_from_one() {
        let parse = str::parse::<ShardChoice>;
        assert_eq!(parse("2/4"), Ok(ShardChoice::Fixed(Shard { index: 2, count: 4 })));
        assert_eq!(
            (parse("auto"), parse("auto/8")),
            (Ok(ShardChoice::Auto(None)), Ok(ShardChoice::Auto(Some(8))))
        );
        for bad in ["0/0", "5/4", "0/4", "1/0", "2", "a/b", "auto/0", "-1/4", "1/99999999", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_clip_is_in_one_part_and_stays_there() {
        let clips: Vec<Clip> = (0..200).map(|i| Clip::of_file(format!("a/{i}.mp4").as_ref())).collect();
        let mut sizes = [0; 7];
        for clip in &clips {
            let parts: Vec<u64> =
                (1..=7).filter(|index| Shard { index: *index, count: 7 }.has(clip)).collect();
            assert_eq!(parts.len(), 1);
            sizes[parts[0] as usize - 1] += 1;
        }
        assert!(sizes.iter().all(|n| *n > 10), "{sizes:?}");
        // A part must not change between versions: other machines may run another one.
        assert_eq!(clips[0].id(), KNOWN);
    }

    #[test]
    fn schedulers_say_which_part() {
        let resolve = |choice: &str, variables: &[(&str, &str)]| {
            let find = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            choice.parse::<ShardChoice>().unwrap().resolve(&find).map(|shard| shard.to_string())
        };
        let slurm = |id, min, count| {
            [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_MIN", min), ("SLURM_ARRAY_TASK_COUNT", count)]
        };
        assert_eq!(resolve("auto", &slurm("0", "0", "4")), Ok("1/4".into()));
        assert_eq!(resolve("auto", &slurm("4", "1", "4")), Ok("4/4".into()));
        assert_eq!(
            resolve("auto", &slurm("9", "1", "4")).unwrap_err(),
            "SLURM_ARRAY_TASK_ID 9 of 4: parts are numbered from 1 to 4"
        );
        assert_eq!(resolve("auto/3", &[("JOB_COMPLETION_INDEX", "2")]), Ok("3/3".into()));
        assert!(resolve("auto", &[("JOB_COMPLETION_INDEX", "2")]).unwrap_err().contains("auto/N"));
        assert!(resolve("auto", &[("SLURM_ARRAY_TASK_ID", "x")]).unwrap_err().contains("no number"));
        assert!(resolve("auto", &[]).is_err());
        assert_eq!(resolve("1/2", &[]), Ok("1/2".into()));
    }
}
