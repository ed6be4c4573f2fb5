//! The systems that methods belong to, by the paper that a method's file names.

use crate::speculate::Method;

/// Methods without a system of their own that are lossless.
const BASELINES: &str = "Baselines";
/// Those that are lossy.
const LOOSENING: &str = "Other loosening rules";
/// Methods of the user's that name no known paper.
const OWN: &str = "Your own";

/// How a paper's title begins, and the system that it presents.
const PAPERS: [(&str, &str); 7] = [
    ("See the Forest for the Trees", "LVSpec"),
    ("SpecVLM", "SpecVLM"),
    ("ParallelVLM", "ParallelVLM"),
    ("STD", "STD"),
    ("Sparrow", "Sparrow"),
    ("Speculative Decoding Reimagined", "MSD"),
    ("Training-Free Loosely Speculative", "FLy"),
];

/// The system of a method, as a heading.
pub fn system(method: &Method) -> &'static str {
    let paper = method.paper.as_deref().unwrap_or_default();
    // What a paper only compares with is not its system.
    let known = PAPERS.iter().find(|(title, _)| paper.starts_with(title) && !paper.contains("baseline"));
    match known {
        Some((_, system)) => system,
        None if Method::preset(&method.name).is_err() => OWN,
        None if method.lossless() => BASELINES,
        None => LOOSENING,
    }
}

/// The position of a method's system in a list: baselines first, the user's own last.
pub fn rank(method: &Method) -> usize {
    let system = system(method);
    let papers = PAPERS.iter().map(|(_, system)| *system);
    let order = [BASELINES].into_iter().chain(papers).chain([LOOSENING, OWN]);
    order.take_while(|other| *other != system).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_listed_under_its_system() {
        let of = |name: &str| system(&Method::preset(name).unwrap());
        for (name, want) in [
            ("autoregressive", "Baselines"),
            ("naive", "Baselines"),
            ("layerskip", "Baselines"),
            ("lvspec-self", "LVSpec"),
            ("specvlm", "SpecVLM"),
            ("parallelvlm-self", "ParallelVLM"),
            ("std", "STD"),
            ("sparrow-chain", "Sparrow"),
            ("msd", "MSD"),
            ("fly-entropy", "FLy"),
            ("lenient", "Other loosening rules"),
            ("random-loose", "Other loosening rules"),
        ] {
            assert_eq!(of(name), want, "{name}");
        }
        let mut ranks: Vec<_> = Method::presets().iter().map(|m| (rank(m), system(m))).collect();
        ranks.sort_unstable();
        ranks.dedup();
        assert_eq!(ranks.len(), 9, "one rank for each system: {ranks:?}");
    }

    #[test]
    fn a_users_method_is_listed_under_the_paper_that_it_names() {
        let own = |from: &str| Method { name: "mine".into(), ..Method::preset(from).unwrap() };
        assert_eq!((system(&own("lvspec")), system(&own("lenient"))), ("LVSpec", "Your own"));
        assert!(rank(&own("lenient")) > rank(&Method::preset("lenient").unwrap()));
    }
}
