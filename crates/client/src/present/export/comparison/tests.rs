use super::*;
use specreel_record::{
    EventKind, Failure, FailureClass, Stats, StopReason,
    testing::{ended, fed, started, started_plain, step},
};

fn runs() -> Vec<RunLog> {
    let finished = |run, name, begin, verdict, id, text: &str| {
        let events = [begin, step(&[(text, verdict)]), ended(StopReason::Eos, text, &[id], Stats::default())];
        fed(RunLog::planned(run, name, true), events)
    };
    let failure = Failure { class: FailureClass::Memory, error: "1 < 2 GB".into(), hint: None };
    let blue = "a \"blue\" <script>alert('x')</script> disc";
    vec![
        finished(1, "plain", started_plain(), Verdict::Plain, 1, "a red disc"),
        finished(2, "lvspec", started(), Verdict::Loosened, 2, blue),
        fed(RunLog::planned(3, "naive", true), [EventKind::Failed(failure)]),
    ]
}

fn made() -> String {
    let runs = runs();
    let compared = Compared { video: "a&b<i>.mp4", span: None, prompt: "what? </p>", sampled: false };
    comparison_page(&compared, &Comparison::of(&runs, "plain"), &runs)
}

#[test]
fn foreign_text_is_escaped_everywhere() {
    let page = made();
    assert!(!page.contains("<script") && !page.contains("<i>") && !page.contains("what? </p>"), "{page}");
    assert!(page.contains("a&amp;b&lt;i&gt;.mp4") && page.contains("1 &lt; 2 GB"), "{page}");
}

#[test]
fn tokens_have_verdict_and_reason() {
    let page = made();
    let span = "<span class=\"loosened\" title=\"loosened: differs from the target; accepted at one of the least visual positions\">a &quot;blue";
    assert!(page.contains(span), "{page}");
    assert!(page.contains("<span class=\"plain\" title=\"plain: "), "{page}");
}

#[test]
fn differences_are_marked_and_failures_shown() {
    let page = made();
    assert!(page.contains("<del>red</del> <ins>&quot;blue&quot;"), "{page}");
    assert!(
        page.contains("<td class=\"lossy\">lossy</td>") && page.contains("<td class=\"failed\">failed</td>")
    );
    assert_eq!(page.matches("<section>").count(), 3);
    assert_eq!(page.matches("<h3>").count(), 1, "only lvspec differs");
    assert!(page.contains("big with small on cpu"), "{page}");
}

#[test]
fn every_tag_is_closed() {
    let page = made();
    for tag in ["section", "table", "tr", "td", "p", "span", "del", "ins", "h2", "h3", "body", "html", "div"]
    {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}
