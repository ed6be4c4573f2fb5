//! The systems that methods belong to, by the paper that a method's file names.

use specreel_speculate::Method;

/// Methods without a system of their own that are lossless.
const BASELINES: &str = "Baselines";
/// Those of them whose drafter sees a part of the video.
const REDUCED: &str = "Reduced contexts";
const LOOSENING: &str = "Other loosening rules";
const OWN: &str = "Your own";

/// How a paper's title begins, and the system that it presents.
const PAPERS: [(&str, &str); 11] = [
    ("See the Forest for the Trees", "LVSpec"),
    ("SpecVLM", "SpecVLM"),
    ("ParallelVLM", "ParallelVLM"),
    ("STD", "STD"),
    ("Sparrow", "Sparrow"),
    ("Speculative Decoding Reimagined", "MSD"),
    ("ViSpec", "ViSpec"),
    ("HiViS", "HiViS"),
    ("EAGLE-3", "EAGLE-3"),
    ("DeepSeek-V3", "MTP"),
    ("DFlash", "DFlash"),
];

pub fn system(method: &Method) -> &'static str {
    let paper = method.paper.as_deref().unwrap_or_default();
    // What a paper only compares with is not its system.
    let known = PAPERS.iter().find(|(title, _)| begins(paper, title) && !paper.contains("baseline"));
    let reduced = method.context.is_reduced();
    let built_in = Method::preset(&method.name).is_ok();
    match known {
        Some((_, system)) => system,
        _ if !built_in => OWN,
        _ if !method.lossless() => LOOSENING,
        _ if reduced => REDUCED,
        _ => BASELINES,
    }
}

/// The position of a method's system in a list: baselines first, the user's own last.
pub fn rank(method: &Method) -> usize {
    let system = system(method);
    let papers = PAPERS.iter().map(|(_, system)| *system);
    let order = [BASELINES, REDUCED].into_iter().chain(papers).chain([LOOSENING, OWN]);
    order.take_while(|other| *other != system).count()
}

/// True if a paper's title begins with this one: `MMSpecial` does not begin with `MMSpec`.
fn begins(paper: &str, title: &str) -> bool {
    paper.strip_prefix(title).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
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
            ("text-only", "Baselines"),
            ("lvspec", "LVSpec"),
            ("specvlm", "SpecVLM"),
            ("std", "STD"),
            ("sparrow", "Sparrow"),
            ("msd", "MSD"),
            ("lenient", "Other loosening rules"),
        ] {
            assert_eq!(of(name), want, "{name}");
        }
        let mut ranks: Vec<_> = Method::presets().iter().map(|m| (rank(m), system(m))).collect();
        ranks.sort_unstable();
        ranks.dedup();
        assert!(ranks.windows(2).all(|two| two[0].0 < two[1].0), "one rank for each system: {ranks:?}");
        assert!(ranks.len() >= 10 && !ranks.iter().any(|(_, system)| *system == OWN), "{ranks:?}");
    }

    #[test]
    fn a_system_is_its_papers_and_not_that_of_papers_that_compare_with_it() {
        let of = |paper: String| {
            system(&Method { name: "mine".into(), paper: Some(paper), ..Method::preset("naive").unwrap() })
        };
        for (title, system) in PAPERS {
            assert_eq!(of(format!("{title}, 2025")), system);
            assert_eq!(of(format!("{title}, 2025 (its baseline)")), OWN);
            assert_eq!(of(format!("{title}ial, 2025")), OWN);
        }
    }

    #[test]
    fn a_users_method_is_listed_under_the_paper_that_it_names() {
        let own = |from: &str| Method { name: "mine".into(), ..Method::preset(from).unwrap() };
        assert_eq!((system(&own("lvspec")), system(&own("lenient"))), ("LVSpec", "Your own"));
        assert!(rank(&own("lenient")) > rank(&Method::preset("lenient").unwrap()));
    }
}
