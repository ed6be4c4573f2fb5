//! Pictures of the screen, styles included: every screen once at each size, in one theme, since palettes are tested as data.
//! `cargo insta review` (or INSTA_UPDATE=always) accepts new ones.

use insta::assert_snapshot;
use specreel::tui::{Effect, Msg, Studio};
use specreel_record::{EventKind, Failure, FailureClass, Pace, Span, StopReason};

use crate::tui::picture;
use crate::tui::script::{
    asked, baselines, batched, begin, branched, choose, compared, done, engine, finish_compared, inspected,
    listed, loading, lossy, play, press, read_frames, ready, session, streaming, watched, with_pictures,
    write,
};

const SIZES: [(u16, u16); 3] = [(60, 16), (80, 24), (120, 40)];

/// A theme for each of them: dark, light, and without colors.
const THEMES: [&str; 3] = ["dark", "light", "mono"];

fn look(name: &str, studio: &Studio, (columns, rows): (u16, u16)) {
    assert_snapshot!(format!("{name}_{columns}x{rows}"), picture::describe(&studio.picture(columns, rows)));
}

#[test]
fn loading_the_models() {
    look("loading", &loading("dark", 80, 24), (80, 24));
}

#[test]
fn the_first_screen() {
    for size in SIZES {
        look("first", &ready("dark", size.0, size.1), size);
    }
}

#[test]
fn a_caption_in_the_middle() {
    for size in [(60, 16), (80, 24), (120, 40), (170, 44)] {
        look("stream", &streaming("dark", size.0, size.1), size);
    }
    for theme in ["light", "mono"] {
        look(&format!("stream_{theme}"), &streaming(theme, 80, 24), (80, 24));
    }
}

#[test]
fn a_run_that_is_over() {
    for (columns, rows) in [(80, 24), (120, 40)] {
        let mut studio = streaming("dark", columns, rows);
        done(&mut studio, 3, &lossy(), StopReason::Eos);
        look("over", &studio, (columns, rows));
        press(&mut studio, if columns == 80 { "tab tab" } else { "shift-tab" });
        look("over_meters", &studio, (columns, rows));
    }
}

#[test]
fn boxes_over_the_panes() {
    for (name, keys) in [
        ("picker", "m up"),
        ("picker_filter", "m s p e c"),
        ("presets", "p down"),
        ("help", "?"),
        ("search", "? t a u"),
        ("open", "o ~ / a"),
    ] {
        for size in [(60, 16), (100, 30)] {
            let mut studio = ready("dark", size.0, size.1);
            press(&mut studio, keys);
            look(name, &studio, size);
        }
    }
}

#[test]
fn a_token_looked_at() {
    for size in [(60, 16), (80, 24), (120, 40), (180, 50)] {
        let mut studio = streaming("dark", size.0, size.1);
        done(&mut studio, 3, &lossy(), StopReason::Eos);
        press(&mut studio, "i n");
        look("inspect", &studio, size);
    }
    // The target alone drafts nothing; the next step describes a step's last token.
    let mut studio = streaming("dark", 120, 40);
    press(&mut studio, "i g down left v");
    look("inspect_kept", &studio, (120, 40));
    press(&mut studio, "< g");
    look("inspect_exact", &studio, (120, 40));
}

#[test]
fn the_steps_of_a_run() {
    for size in [(60, 16), (80, 24), (120, 40), (200, 60)] {
        let mut studio = streaming("dark", size.0, size.1);
        press(&mut studio, "d");
        look("steps", &studio, size);
        done(&mut studio, 3, &lossy(), StopReason::Eos);
        press(&mut studio, "n n");
        look("steps_cursor", &studio, size);
    }
    // Without colors, rejected drafts are marked as well as struck out.
    let mut studio = streaming("mono", 80, 24);
    press(&mut studio, "d g");
    look("steps_mono", &studio, (80, 24));
    // Over the inspector, and next to it.
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut studio = streaming("light", size.0, size.1);
        done(&mut studio, 3, &lossy(), StopReason::Eos);
        press(&mut studio, "i d down down");
        look("steps_inspector", &studio, size);
    }
    let mut studio = ready("dark", 120, 40);
    let run = asked(&press(&mut studio, "enter")).unwrap();
    play(&mut studio, run, &branched(), false);
    press(&mut studio, "d g down");
    look("steps_tree", &studio, (120, 40));
    let mut studio = ready("dark", 100, 30);
    press(&mut studio, "d");
    look("steps_none", &studio, (100, 30));
    // The step that is being played is the last row.
    for size in [(80, 24), (200, 60)] {
        let mut studio = baselines("dark", Pace::Auto, size.0, size.1);
        let run = asked(&choose(&mut studio, "lvspec")).unwrap();
        play(&mut studio, run, &lossy(), true);
        press(&mut studio, "d");
        studio.handle(Msg::Advance(1750.0));
        look("steps_played", &studio, size);
    }
}

#[test]
fn a_clip_looked_at() {
    for (theme, size) in ["dark", "light", "dark"].into_iter().zip(SIZES) {
        let mut studio = with_pictures(theme, size.0, size.1);
        if size == (120, 40) {
            look("thumbnail", &studio, size);
        }
        let asked = press(&mut studio, "v");
        look("preview_reading", &studio, size);
        read_frames(&mut studio, asked);
        press(&mut studio, "space");
        studio.handle(Msg::Advance(2400.0));
        look("preview", &studio, size);
    }
    let mut studio = with_pictures("mono", 80, 24);
    press(&mut studio, "v");
    look("preview_mono", &studio, (80, 24));
    let mut studio = with_pictures("dark", 80, 24);
    if let Some(Effect::Frames(Some(request))) = press(&mut studio, "v").pop() {
        let problem = "/demo/0.mp4: the video file is damaged or cut short (no frames)";
        studio.handle(Msg::FramesRead(request, Err(problem.into())));
    }
    look("preview_broken", &studio, (80, 24));
}

#[test]
fn heat_over_the_frames() {
    for size in [(60, 16), (80, 24), (120, 40)] {
        look("inspect_frames", &inspected(size.0, size.1), size);
    }
}

#[test]
fn a_method_taken_apart() {
    for (theme, size) in [("dark", (60, 16)), ("light", (100, 30))] {
        let mut studio = ready(theme, size.0, size.1);
        press(&mut studio, "m tab down down down right");
        look("edit", &studio, size);
        press(&mut studio, "s");
        look("edit_save", &studio, size);
    }
}

#[test]
fn how_the_next_runs_are_sampled() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = ready(theme, size.0, size.1);
        press(&mut studio, "%");
        look("sampling", &studio, size);
        press(&mut studio, "enter end");
        look("sampling_bases", &studio, size);
        press(&mut studio, "enter down right down enter");
        look("sampling_value", &studio, size);
        press(&mut studio, "9 enter");
        look("sampling_set", &studio, size);
        press(&mut studio, "esc");
        look("sampled", &studio, size);
    }
}

#[test]
fn a_run_saved_as_a_file() {
    let mut studio = streaming("dark", 100, 30);
    press(&mut studio, "b s down");
    look("export", &studio, (100, 30));
}

#[test]
fn methods_compared() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = ready(theme, size.0, size.1);
        press(&mut studio, "c home down space");
        look("compare_pick", &studio, size);
        compared(&mut studio);
        look("compare_running", &studio, size);
        finish_compared(&mut studio);
        press(&mut studio, "down down");
        look("compare_words", &studio, size);
        press(&mut studio, "tab");
        // It goes at a tenth of the true speed, or it would be over before it is seen.
        studio.handle(Msg::Advance(1200.0));
        look("compare_race", &studio, size);
        press(&mut studio, "tab");
        look("compare_chart", &studio, size);
    }
}

#[test]
fn the_saved_runs() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = ready(theme, size.0, size.1);
        press(&mut studio, "S");
        look("sessions_reading", &studio, size);
        studio.handle(Msg::Listed(Ok(listed())));
        press(&mut studio, "down");
        look("sessions", &studio, size);
        press(&mut studio, "down d");
        look("sessions_delete", &studio, size);
        studio.handle(Msg::Listed(Ok(vec![])));
        look("sessions_none", &studio, size);
    }
}

#[test]
fn a_replay() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = ready(theme, size.0, size.1);
        studio.handle(Msg::Loaded(Ok(session(&lossy(), false))));
        press(&mut studio, "+ +");
        studio.handle(Msg::Advance(1200.0));
        press(&mut studio, "+");
        look("replay", &studio, size);
        studio.handle(Msg::Advance(9000.0));
        look("replay_over", &studio, size);
    }
}

#[test]
fn a_run_that_is_watched() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = watched(theme, size.0, size.1);
        studio.handle(Msg::Advance(150.0));
        look("watch_drafting", &studio, size);
        studio.handle(Msg::Advance(250.0));
        look("watch_judging", &studio, size);
        press(&mut studio, ".");
        look("watch_settled", &studio, size);
    }
}

#[test]
fn a_clip_in_segments_and_a_search_in_it() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = ready(theme, size.0, size.1);
        press(&mut studio, "L");
        look("segments_asked", &studio, size);
        press(&mut studio, "enter");
        let ends = [0.0, 30.0, 60.0, 75.5];
        let segments = ends.windows(2).map(|w| Span { start: w[0], end: w[1] }).collect();
        let run = asked(&studio.handle(Msg::Cut(Ok(segments)))).unwrap();
        begin(&mut studio, run, Some(10), false);
        write(&mut studio, run, &lossy()[..5]);
        let run = asked(&done(&mut studio, run, &lossy()[..5], StopReason::Eos)).unwrap();
        begin(&mut studio, run, Some(10), false);
        write(&mut studio, run, &lossy()[5..7]);
        look("segments", &studio, size);
        press(&mut studio, "T");
        look("timeline", &studio, size);
        press(&mut studio, "esc");
        // Where panes are stacked, a caption that is being written has the focus by itself.
        if size.0 == 120 {
            press(&mut studio, "tab tab");
        }
        press(&mut studio, "/ t h e");
        look("caption_search", &studio, size);
        press(&mut studio, "enter n n");
        look("caption_search_next", &studio, size);
    }
}

#[test]
fn clips_captioned_together() {
    for (theme, size) in THEMES.into_iter().zip(SIZES) {
        let mut studio = ready(theme, size.0, size.1);
        press(&mut studio, "X enter");
        look("batch_chosen", &studio, size);
        batched(&mut studio);
        look("batch", &studio, size);
        press(&mut studio, "home e");
        look("batch_edit", &studio, size);
    }
}

#[test]
fn earlier_prompts() {
    let mut studio = ready("dark", 80, 24);
    for prompt in ["What moves?", "Count the shapes."] {
        press(&mut studio, "e ctrl-u");
        studio.handle(Msg::Paste(prompt.into()));
        press(&mut studio, "enter esc esc");
    }
    press(&mut studio, "e ctrl-r");
    look("earlier_prompts", &studio, (80, 24));
    press(&mut studio, "x x");
    look("earlier_prompts_none", &studio, (80, 24));
}

#[test]
fn the_prompt_and_the_filter() {
    let mut studio = ready("dark", 80, 24);
    press(&mut studio, "/ s t a r");
    look("filter", &studio, (80, 24));
    press(&mut studio, "enter e space W h y ?");
    look("prompt", &studio, (80, 24));
}

#[test]
fn failures() {
    let failure = |error: &str, hint: &str| {
        let (error, hint) = (error.to_owned(), Some(hint.to_owned()));
        EventKind::Failed(Failure { class: FailureClass::Input, error, hint })
    };
    let mut studio = loading("dark", 80, 24);
    press(&mut studio, "tab tab");
    engine(&mut studio, 0, failure("no config.json in /models/x", "name a directory in Hugging Face layout"));
    look("no_models", &studio, (80, 24));
    let mut studio = ready("light", 120, 40);
    let run = asked(&press(&mut studio, "enter")).unwrap();
    engine(&mut studio, run, failure("notes.mp4 holds no video", "is it really a video?"));
    look("failed", &studio, (120, 40));
}

#[test]
fn a_cancelled_run() {
    let mut studio = streaming("light", 80, 24);
    press(&mut studio, "esc");
    look("cancelling", &studio, (80, 24));
    done(&mut studio, 3, &lossy()[..9], StopReason::Cancelled);
    look("cancelled", &studio, (80, 24));
}

#[test]
fn too_small_a_terminal() {
    for size in [(20, 5), (59, 16), (6, 2)] {
        look("small", &ready("dark", size.0, size.1), size);
    }
}

#[test]
fn foreign_words_keep_their_columns() {
    let mut studio = ready("dark", 80, 24);
    studio.handle(Msg::Paste("x".into()));
    press(&mut studio, "e");
    studio.handle(Msg::Paste(" 日本語 👩‍👩‍👧 e\u{301}tude".into()));
    let run = asked(&press(&mut studio, "enter")).unwrap();
    let mut steps = lossy();
    steps[0].tokens[1].text = " 赤い\u{1b}[31mボール👩‍👩‍👧".into();
    play(&mut studio, run, &steps, false);
    look("foreign", &studio, (80, 24));
}
