use super::*;
use specreel_record::{
    EventKind, Segment, Started, StopReason, Turn, Verdict,
    testing::{about, done, ended, run, step},
};

pub(super) const NAMES: Names<'_> = Names { video: "A <b> & c", method: "lvspec" };

/// What a run begins with: a prompt, and the piece of the video of this index.
fn begin(piece: Option<usize>) -> Started {
    Started {
        prompt: "Describe *this*.".into(),
        span: piece.map(|index| Span { start: 30.0 * index as f64, end: 30.0 * (index + 1) as f64 }),
        segment: piece.map(|index| Segment { first: 1, index, count: 2 }),
        ..about()
    }
}

fn steps() -> [EventKind; 2] {
    let first = [("A red", Verdict::Exact), (" ball", Verdict::Loosened), (".", Verdict::Corrected)];
    let EventKind::Step(mut first) = step(&first) else { panic!() };
    first.tokens[1].target_text = Some(" \"disc\"".into());
    [EventKind::Step(first), step(&[(" rolls", Verdict::Exact), (".", Verdict::Bonus)])]
}

pub(super) fn log() -> RunLog {
    let [first, second] = steps();
    run(1, [EventKind::Started(begin(None)), first, second])
}

/// Two pieces of a video; the second was cancelled.
fn pieces() -> [RunLog; 2] {
    let text = "A red ball. rolls.";
    let ends = [done(text), ended(StopReason::Cancelled, text, &[], Default::default())];
    let mut index = 0;
    ends.map(|end| {
        let [first, second] = steps();
        let mut log = run(1, [EventKind::Started(begin(Some(index))), first, second, end]);
        // The figures of a scripted end are empty.
        *log.stats_mut() = run(1, steps()).stats().clone();
        index += 1;
        log
    })
}

#[test]
fn file_names_have_no_special_characters() {
    assert_eq!(file_name(Path::new("/v/0.mp4"), "lvspec"), "0-lvspec");
    assert_eq!(file_name(Path::new("/v/a b/../Üb er.mp4"), "lvspec"), "Üb-er-lvspec");
}

#[test]
fn pieces_are_one_file_with_their_times() {
    let logs = pieces();
    let runs = Pieces::of(&logs);
    assert_eq!(
        Format::Text.write(&NAMES, &runs, Cues::Clip),
        "[00:00:00.000 --> 00:00:30.000] A red ball. rolls.\n[00:00:30.000 --> 00:01:00.000] A red ball. rolls.\n"
    );
    let srt = "1\n00:00:00,000 --> 00:00:30,000\nA red ball. rolls.\n\n";
    assert_eq!(Format::Srt.write(&NAMES, &runs, Cues::Clip), srt, "a cancelled piece is no subtitle");
    assert!(Format::Vtt.write(&NAMES, &runs, Cues::Clip).starts_with("WEBVTT\n\n00:00:00.000 --> "));
    let page = Format::Html.write(&NAMES, &runs, Cues::Clip);
    assert!(page.contains("<h2>0:30 – 1:00</h2>") && page.contains("10 tokens in 4 target passes"), "{page}");
    let markdown = Format::Markdown.write(&NAMES, &runs, Cues::Clip);
    assert!(markdown.contains("\n\n## 0:30 – 1:00\n\nA red *ball*"), "{markdown}");
    assert_eq!((Format::of(&logs[0]).len(), Format::of(&log()).len()), (9, 4));
}

#[test]
fn a_conversation_is_kept() {
    let before = vec![Turn { prompt: "What <is> it?".into(), answer: "A *ball*.".into(), ..Turn::default() }];
    let log = run(1, [EventKind::Started(Started { before, ..begin(None) })]);
    let runs = Pieces::of([&log]);
    let page = Format::Html.write(&NAMES, &runs, Cues::Clip);
    assert!(page.contains("What &lt;is&gt; it?</p>\n<p class=\"caption\">A *ball*.</p>"), "{page}");
    let markdown = Format::Markdown.write(&NAMES, &runs, Cues::Clip);
    assert!(markdown.contains("> What \\<is\\> it?\n\nA \\*ball\\*.\n\n> Describe"), "{markdown}");
}

#[test]
fn a_part_of_a_video_is_named_in_the_title() {
    let log = run(1, [EventKind::Started(Started { segment: None, ..begin(Some(1)) }), done(" One.")]);
    let runs = Pieces::of([&log]);
    assert!(
        Format::Markdown.write(&NAMES, &runs, Cues::Clip).starts_with("# A \\<b\\> \\& c · 0:30 – 1:00\n")
    );
    assert_eq!(Format::Text.write(&NAMES, &runs, Cues::Clip), "One.\n");
}
