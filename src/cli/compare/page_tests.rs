use super::{super::tokens::tests::token, *};
use crate::record::{Failure, FailureClass, RunState, StopReason};

fn runs() -> Vec<RunRecord> {
    let done = |run: u64, method: &str, ids: &[u32], text: &str| RunRecord {
        target: "big".into(),
        drafter: (run > 1).then(|| "small".into()),
        device: "cpu".into(),
        dtype: "q8_0".into(),
        text: text.into(),
        ids: ids.to_vec(),
        tokens: vec![token(text, if run > 1 { Verdict::Loosened } else { Verdict::Plain })],
        state: RunState::Done(StopReason::Eos),
        ..RunRecord::new(run, method, run < 2)
    };
    let failure = Failure { class: FailureClass::Memory, error: "1 < 2 GB".into(), hint: None };
    let failed = RunRecord { state: RunState::Failed(failure), ..RunRecord::new(3, "naive", true) };
    vec![
        done(1, "plain", &[1], "a red disc"),
        done(2, "lvspec", &[2], "a \"blue\" <script>alert('x')</script> disc"),
        failed,
    ]
}

fn made() -> String {
    let runs = runs();
    let about = About { video: "a&b<i>.mp4", span: None, prompt: "what? </p>", sampled: false };
    page(&about, &Comparison::of(&runs, "plain"), &runs)
}

#[test]
fn text_of_others_is_escaped_everywhere() {
    let page = made();
    assert!(!page.contains("<script") && !page.contains("<i>") && !page.contains("what? </p>"), "{page}");
    assert!(page.contains("a&amp;b&lt;i&gt;.mp4") && page.contains("1 &lt; 2 GB"), "{page}");
    assert_eq!(escape("\"'&<>\x1b\u{7}"), "&quot;&#39;&amp;&lt;&gt;\u{fffd}\u{fffd}");
    assert!(matches!(escape("clean"), Cow::Borrowed(_)));
}

#[test]
fn tokens_carry_verdict_and_reason() {
    let page = made();
    let span = "<span class=\"loosened\" title=\"loosened: differs from the target; passed as one of the least visual positions\">a &quot;blue";
    assert!(page.contains(span), "{page}");
    assert!(page.contains("<span class=\"plain\" title=\"plain: "), "{page}");
}

#[test]
fn differences_are_marked_and_failures_told() {
    let page = made();
    assert!(page.contains("<del>red</del> <ins>&quot;blue&quot;"), "{page}");
    assert!(
        page.contains("<td class=\"lossy\">lossy</td>") && page.contains("<td class=\"failed\">failed</td>")
    );
    assert_eq!(page.matches("<section>").count(), 3);
    assert_eq!(page.matches("<h3>").count(), 1, "only lvspec differs");
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = made();
    for outside in ["http://", "https://", "//", "src=", "url(", "@import", "<link", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn every_verdict_has_a_style_and_every_tag_its_end() {
    for verdict in Verdict::ALL.into_iter().filter(|v| !matches!(v, Verdict::Exact | Verdict::Sampled)) {
        assert!(STYLE.contains(&format!(".{verdict}")), "{verdict}");
    }
    let page = made();
    for tag in ["section", "table", "tr", "td", "p", "span", "del", "ins", "h2", "h3", "body", "html", "div"]
    {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}
