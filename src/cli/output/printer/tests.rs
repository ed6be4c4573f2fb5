use super::*;
use specreel_client::present::export::Subtitles;
use specreel_record::Stats;
use specreel_record::testing::{ended, failure, started, started_piece, step};

/// A run in one step, of which all tokens but the last are accepted drafts.
fn script(tokens: &[(&str, Verdict)], reason: StopReason) -> Vec<Event> {
    let EventKind::Step(step) = step(tokens) else { panic!() };
    let mut stats = Stats::default();
    stats.add(&step);
    let text: String = tokens.iter().map(|(t, _)| *t).collect();
    [
        started(),
        EventKind::Stage { stage: Stage::Decode, done: 1, total: 2, left_ms: None },
        EventKind::Step(step),
        ended(reason, &text, &vec![1; tokens.len()], stats),
    ]
    .into_iter()
    .map(|kind| Event::new(1, kind))
    .collect()
}

fn print(events: &[Event], style: Style) -> (String, String, Flow) {
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut printer = Printer::new(&mut out, &mut talk, style, Progress::new(false), None, 256);
    let mut flow = Flow::Go;
    for event in events {
        flow = printer.event(event).unwrap();
    }
    (String::from_utf8(out).unwrap(), String::from_utf8(talk).unwrap(), flow)
}

const TOKENS: [(&str, Verdict); 4] = [
    (" A", Verdict::Exact),
    (" red", Verdict::Exact),
    (" round", Verdict::Loosened),
    (" ring.", Verdict::Corrected),
];

#[test]
fn the_caption_goes_to_stdout_and_messages_to_stderr() {
    let (out, talk, flow) = print(&script(&TOKENS, StopReason::Eos), Style::default());
    assert_eq!(out, "A red round ring.\n");
    assert_eq!(
        talk,
        "lvspec (lossy): big with small on cpu, q8_0\n\
         verdicts  exact 2 · corrected 1 · loosened 1 (lossy: 25.0 % of the tokens differ from the target's choice)\n\
         decoding  4 tokens in 1 target pass · 3 of 4 drafts accepted · 4.00 per step (tau 3.00) · 40.0 tokens/s\n\
         speedup   not measured; measure it with --measure always\n\
         time      100 ms (video 0 ms · vision 0 ms · prompt 0 ms · decoding 100 ms)\n"
    );
    assert_eq!(flow, Flow::Done(StopReason::Eos));
}

/// A note about a step waits until the caption is complete; of many pieces it would say too much.
#[test]
fn a_change_of_the_drafter_does_not_tear_the_caption_apart() {
    let switched = specreel_record::Switched { to: "prompt lookup".into(), ..Default::default() };
    for (mut events, says) in [(script(&TOKENS, StopReason::Eos), true), (piece(0, StopReason::Eos), false)] {
        let EventKind::Step(mut next) = step(&[(" It", Verdict::Plain)]) else { panic!() };
        next.switched = Some(Box::new(switched.clone()));
        events.insert(3, Event::new(events[0].run, EventKind::Step(next)));
        let (out, talk, _) = print(&events, Style::default());
        assert!(out.contains("A red round ring. It"), "{out}");
        let said = talk.lines().position(|line| line.starts_with("note: switched from"));
        assert_eq!(said, says.then_some(1), "{talk}");
    }
}

fn piece(index: usize, reason: StopReason) -> Vec<Event> {
    let mut events = script(&TOKENS, reason);
    events[0].kind = started_piece(index, 3);
    for event in &mut events {
        event.run = index as u64 + 1;
    }
    events
}

#[test]
fn pieces_have_their_times_and_common_statistics() {
    let events =
        [piece(0, StopReason::Eos), piece(1, StopReason::Length), piece(2, StopReason::Eos)].concat();
    let (out, talk, _) = print(&events, Style::default());
    assert_eq!(
        out,
        "[00:00:00.000 --> 00:00:01.500] A red round ring.\n[00:00:01.500 --> 00:00:03.000] A red round ring.\n\
         [00:00:03.000 --> 00:00:04.500] A red round ring.\n"
    );
    assert_eq!(talk.matches("lvspec (lossy)").count(), 1, "{talk}");
    assert!(talk.contains("segments  3 of 3\n") && talk.contains("12 tokens in 3 target passes"), "{talk}");
    assert!(talk.ends_with("stopped after 256 tokens; raise the limit with --max-new-tokens N\n"), "{talk}");
}

#[test]
fn a_cancelled_piece_is_no_subtitle() {
    let events = [piece(0, StopReason::Eos), piece(1, StopReason::Cancelled)].concat();
    let style = Style { timed: Some(Timed::Subtitles(Subtitles::Srt)), ..Style::default() };
    let (out, talk, flow) = print(&events, style);
    assert_eq!(out, "1\n00:00:00,000 --> 00:00:01,500\nA red round ring.\n\n");
    assert!(talk.contains("segments  1 of 3\n") && talk.ends_with("interrupted\n"), "{talk}");
    assert_eq!(flow, Flow::Done(StopReason::Cancelled));
    let (out, _, _) = print(&events, Style::default());
    assert_eq!(out.lines().count(), 2, "text that is written stays");
    let (out, _, _) = print(&[], Style { timed: Some(Timed::Subtitles(Subtitles::Vtt)), ..Style::default() });
    assert_eq!(out, "");
}

#[test]
fn an_empty_caption_is_told() {
    let nothing = |index| {
        let mut events = piece(index, StopReason::Eos);
        events[3].kind = ended(StopReason::Eos, "", &[], Stats::default());
        events.remove(2);
        events
    };
    let talk =
        print(&[nothing(0), piece(1, StopReason::Eos), piece(2, StopReason::Eos)].concat(), Style::default())
            .1;
    assert!(talk.contains("note: the model wrote nothing about 1 of 3 segments; change --prompt"), "{talk}");
    let mut alone = script(&TOKENS, StopReason::Eos);
    alone[3].kind = ended(StopReason::Eos, "", &[], Stats::default());
    alone.remove(2);
    let talk = print(&alone, Style::default()).1;
    assert!(talk.contains("note: the model wrote nothing; change --prompt"), "{talk}");
    assert!(!print(&script(&TOKENS, StopReason::Eos), Style::default()).1.contains("wrote nothing"));
}

#[test]
fn a_loop_of_special_tokens_is_not_nothing() {
    let mut events = script(&[("", Verdict::Plain), ("\n", Verdict::Plain)], StopReason::Length);
    events.insert(3, events[2].clone());
    let talk = print(&events, Style::default()).1;
    assert!(talk.contains("note: the model wrote only special tokens and white space; change"), "{talk}");
    assert!(!talk.contains("wrote nothing"), "{talk}");
}

#[test]
fn verdicts_have_styles() {
    let style = Style { color: true, color_talk: true, ..Style::default() };
    let (out, talk, _) = print(&script(&TOKENS, StopReason::Eos), style);
    assert_eq!(out, "A red\x1b[4;33m round\x1b[0m\x1b[1;36m ring.\x1b[0m\n");
    assert!(talk.contains("\x1b[4;33mloosened\x1b[0m 1"), "{talk}");
}

#[test]
fn the_caption_follows_its_steps() {
    let piped = Style { steps: true, ..Style::default() };
    let (out, _, _) = print(&script(&TOKENS, StopReason::Eos)[..3], piped);
    assert_eq!(out, "", "`| tee` would show it among its steps");
    let (out, _, _) = print(&script(&TOKENS, StopReason::Eos), piped);
    assert_eq!(out, "A red round ring.\n");
    let style = Style { steps: true, terminal: true, ..Style::default() };
    let events = script(&TOKENS, StopReason::Eos);
    let (out, _, _) = print(&events[..3], style);
    assert_eq!(out, "", "the run is not over");
    let (out, _, _) = print(&events, style);
    assert_eq!(out, "\nA red round ring.\n");
    let (out, _, _) = print(&script(&TOKENS, StopReason::Cancelled), style);
    assert_eq!(out, "\nA red round ring.\n", "what is written stays");
    let pieces = [piece(0, StopReason::Eos), piece(1, StopReason::Eos)].concat();
    let (out, talk, _) = print(&pieces, style);
    assert_eq!(
        out,
        "\n[00:00:00.000 --> 00:00:01.500] A red round ring.\n\n[00:00:01.500 --> 00:00:03.000] A red round ring.\n"
    );
    assert_eq!(talk.matches("step  accepted").count(), 2, "each piece has its steps: {talk}");
    let (out, _, _) = print(&events[..1], style);
    assert_eq!(out, "");
}

#[test]
fn words_stay_whole_on_a_terminal() {
    let style =
        Style { terminal: true, color: true, columns: Some(8), columns_talk: Some(40), ..Style::default() };
    let (out, talk, _) = print(&script(&TOKENS, StopReason::Eos), style);
    assert_eq!(out, "A red\x1b[4;33m\nround\x1b[0m\x1b[1;36m\nring.\x1b[0m\n");
    assert!(talk.contains("\nverdicts  exact 2 (") && talk.lines().all(|line| line.len() <= 42), "{talk}");
    let (out, ..) = print(&piece(0, StopReason::Eos), Style { columns: Some(34), color: false, ..style });
    assert_eq!(out, "[00:00:00.000 --> 00:00:01.500] A\nred round ring.\n", "the times are part of the line");
}

#[test]
fn the_times_of_a_piece_come_with_its_first_words() {
    let events = piece(0, StopReason::Eos);
    let (out, ..) = print(&events[..2], Style::default());
    assert_eq!(out, "", "the line belongs to the progress until then");
    let mut empty = piece(0, StopReason::Eos);
    empty.remove(2);
    empty[2].kind = ended(StopReason::Eos, "", &[], Stats::default());
    assert_eq!(print(&empty, Style::default()).0, "[00:00:00.000 --> 00:00:01.500] \n");
}

#[test]
fn a_run_without_tokens_has_no_statistics() {
    let done = ended(StopReason::Cancelled, "", &[], Stats::default());
    let (out, talk, _) = print(&[Event::new(1, done)], Style::default());
    assert_eq!((out.as_str(), talk.as_str()), ("", "interrupted\n"));
}

#[test]
fn a_model_cannot_drive_the_terminal() {
    let tokens = [("a\x1b[2J", Verdict::Exact), ("\n", Verdict::Exact)];
    let (out, _, _) = print(&script(&tokens, StopReason::Eos), Style { terminal: true, ..Style::default() });
    assert_eq!(out, "a\n");
    let (out, _, _) = print(&script(&tokens, StopReason::Eos), Style::default());
    assert_eq!(out, "a\x1b[2J\n", "a file gets what the model wrote");
}

#[test]
fn a_failure_ends_the_line_and_comes_back() {
    let mut events = script(&TOKENS, StopReason::Eos);
    events.pop();
    events.push(Event::new(1, EventKind::Failed(failure())));
    let (out, talk, flow) = print(&events, Style::default());
    assert_eq!(out, "A red round ring.\n");
    assert!(!talk.contains("too large"), "the caller reports it");
    assert_eq!(flow, Flow::Failed(failure()));
}
