//! Finds moments of the library by words of their captions and speech, while the words are typed.

use std::path::PathBuf;

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Row, Wrap};

use crate::look::{Action, Role, Theme};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::widgets::{Frame, dialog, filter_line, list, popup, rule};
use crate::tui::{effect::Effect, line::InputLine, text, update::runs};
use specreel_client::moments::{Kind, LibraryQuestion, Moment, question};
use specreel_client::present::formats::plural;

/// Rows of the text of the selected moment.
const BELOW: u16 = 6;

#[derive(Debug, Default)]
pub(crate) struct FindScreen {
    line: InputLine,
    pub cursor: usize,
    found: Found,
    /// True if the moments belong to an answer, which cites their numbers.
    is_answer: bool,
}

#[derive(Debug, Default)]
enum Found {
    #[default]
    Nothing,
    Moments(Vec<Moment>),
    Problem(String),
}

/// Open the screen, with the moments of the shown answer if that is about the library.
pub(crate) fn open(model: &mut Model) {
    if model.config.finder.is_none() {
        return model.note(
            Tone::Info,
            "library search is not available in this build or while connected to a server",
        );
    }
    let asked = model.runs.shown().and_then(|run| run.subject.question.clone());
    model.screens.open(match asked {
        None => FindScreen::default(),
        Some(asked) => FindScreen {
            line: InputLine::new(asked.question()),
            found: Found::Moments(asked.moments().to_vec()),
            cursor: 1,
            is_answer: true,
        },
    });
}

/// Ask a question with the moments that were found for it, if any.
pub(crate) fn asked(
    model: &mut Model,
    asked: Result<Option<(LibraryQuestion, Option<specreel_record::Span>)>, String>,
) {
    match asked {
        Ok(Some((question, part))) => runs::ask_library(model, question, part),
        Ok(None) => model.note(Tone::Info, "nothing in the index matches the question"),
        Err(problem) => model.note(Tone::Bad, problem),
    }
}

/// Show the moments that were found for these words.
pub(crate) fn found(model: &mut Model, words: &str, found: Result<Vec<Moment>, String>) {
    // The words may have changed since.
    let Some(screen) = model.screens.shown_mut::<FindScreen>().filter(|screen| screen.words() == words)
    else {
        return;
    };
    screen.found = match found {
        Ok(moments) => Found::Moments(moments),
        Err(problem) => Found::Problem(problem),
    };
    screen.cursor = screen.cursor.min(screen.all_rows().saturating_sub(1));
    // The engine does not wait for a search.
    if model.is_ready() && !model.is_busy() {
        model.emit(Effect::FindNear(words.to_owned()));
    }
}

/// Show these moments as well, with the same one selected.
pub(crate) fn near(model: &mut Model, words: &str, moments: Vec<Moment>) {
    let Some(screen) = model.screens.shown_mut::<FindScreen>().filter(|screen| screen.words() == words)
    else {
        return;
    };
    let selected = screen.selected().filter(|_| screen.cursor > 0).cloned();
    screen.found = Found::Moments(moments);
    let place = selected.and_then(|old| screen.moments().iter().position(|moment| moment.is_same(&old)));
    screen.cursor = place.map_or(0, |place| place + usize::from(screen.asks()));
}

impl FindScreen {
    fn words(&self) -> &str {
        self.line.text.trim()
    }

    fn moments(&self) -> &[Moment] {
        match &self.found {
            Found::Moments(moments) => moments,
            Found::Nothing | Found::Problem(_) => &[],
        }
    }

    fn all_rows(&self) -> usize {
        self.moments().len() + usize::from(self.asks())
    }

    /// True if the first row is the question itself.
    fn asks(&self) -> bool {
        question::is_question(self.words()) && !self.moments().is_empty()
    }

    fn selected(&self) -> Option<&Moment> {
        self.moments().get(self.cursor.checked_sub(usize::from(self.asks()))?)
    }
}

impl Screen for FindScreen {
    fn keys(&self, _model: &Model) -> Keys {
        use Action::{Back, Choose, ClearLine, Down};
        let verb = if self.asks() && self.cursor == 0 { "ask" } else { "go there" };
        Keys { hints: &[Choose, Down, Back, ClearLine], ..Keys::line(verb) }
    }

    /// Ask the question, or open the clip of the selected moment and preview it there.
    fn choose(&mut self, model: &mut Model) -> Turn {
        if self.asks() && self.cursor == 0 {
            let is_idle = model.is_ready() && !model.is_busy();
            model.emit(Effect::AskLibrary(self.words().to_owned(), is_idle));
            return Turn::Leave;
        }
        let Some(moment) = self.selected() else { return Turn::Stay };
        model.library.set_moments(self.words(), self.moments().to_vec());
        model.library.moment = Some((moment.path.clone(), moment.start));
        model.emit(Effect::Open(moment.path.to_string_lossy().into_owned()));
        Turn::Leave
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn typed(&mut self, model: &mut Model) {
        (self.cursor, self.is_answer) = (0, false);
        match self.words() {
            "" => self.found = Found::Nothing,
            words => model.emit(Effect::Find(words.to_owned())),
        }
    }

    fn cursor(&mut self) -> Option<&mut usize> {
        Some(&mut self.cursor)
    }

    fn rows(&self, _model: &Model) -> usize {
        self.all_rows()
    }

    fn clip(&self, _model: &Model) -> Option<(String, PathBuf)> {
        self.selected().map(|moment| (name(moment), moment.path.clone()))
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let room = usize::from(frame.area().width.min(104)).saturating_sub(10);
        let line = filter_line("", Some(&self.line), room, theme);
        let block = dialog("Find a moment", theme).title_bottom(line);
        let inner = popup(frame, theme, 104, frame.area().height, block);
        let dim = theme.style(Role::Dim);
        let words = match &self.found {
            Found::Nothing => {
                "Type words that are seen or said. Words match in any form; \"a phrase\" matches consecutive words, turn* matches a \
                 prefix, -word excludes. End with a question mark to have the model answer a question from the moments."
            }
            Found::Problem(problem) => problem,
            Found::Moments(moments) if moments.is_empty() => "nothing found",
            Found::Moments(_) => "",
        };
        if !words.is_empty() {
            frame.render_widget(Paragraph::new(words).style(dim).wrap(Wrap { trim: true }), inner);
            return;
        }
        let [above, below] = inner.layout(&Layout::vertical([Min(2), Length(BELOW)]));
        let widths = [Fill(1), Length(15), Fill(3)];
        let asks = usize::from(self.asks());
        list(frame, theme, above, (self.cursor, self.all_rows()), (None, &widths), |at| {
            let Some(number) = (at + 1).checked_sub(asks).filter(|number| *number > 0) else {
                let many = plural(self.moments().len().min(question::SOME as usize) as u64, "moment");
                let ask = format!("answer it from {many}");
                return Row::new([
                    theme.line(Role::Title, "Ask the model"),
                    Line::default(),
                    theme.line(Role::Dim, ask),
                ]);
            };
            let moment = &self.moments()[number - 1];
            let times = Span::styled(moment.times(), theme.style(Role::Accent));
            let name = if self.is_answer { format!("[{number}] {}", name(moment)) } else { name(moment) };
            Row::new([Line::from(name), Line::from(times), excerpt(moment, theme)])
        });
        if let Some(moment) = self.selected() {
            let source = moment.model.as_deref().unwrap_or("?");
            let source = text::clean_line(&format!("{} · {source}", moment.path.display()));
            let text = Text::from(vec![Line::styled(source, dim), Line::raw(text::clean_line(&moment.text))]);
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).block(rule(theme)), below);
        }
    }
}

fn name(moment: &Moment) -> String {
    text::clean_line(&moment.path.file_name().unwrap_or_default().to_string_lossy())
}

/// The excerpt of a moment, with matches in the style of titles.
fn excerpt(moment: &Moment, theme: &Theme) -> Line<'static> {
    let said = (moment.kind == Kind::Said).then(|| Span::styled("said: ", theme.style(Role::Dim)));
    let parts = moment.parts.iter().map(|part| {
        let style = theme.style(if part.is_match { Role::Title } else { Role::Text });
        Span::styled(text::clean_line(&part.text), style)
    });
    said.into_iter().chain(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::effect::VideoFile;
    use crate::tui::testing::{config, press, ready_event, screen};
    use crate::tui::{Msg, Studio, StudioConfig};
    use specreel_client::moments::{Filter, MomentFinder, Part, Search};
    use specreel_record::Failure;
    use std::sync::Arc;

    struct NoIndex;

    impl MomentFinder for NoIndex {
        fn find(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
            Ok(Vec::new())
        }

        fn about(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
            Ok(Vec::new())
        }

        fn meaning_models(&self) -> Result<Vec<String>, Failure> {
            Ok(Vec::new())
        }
    }

    /// Finds an existing file.
    struct Here;

    impl MomentFinder for Here {
        fn find(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
            Ok(Vec::new())
        }

        fn about(&self, _: &str, _: Search<'_>) -> Result<Vec<Moment>, Failure> {
            Ok(vec![moment(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into(), 1.0)])
        }

        fn meaning_models(&self) -> Result<Vec<String>, Failure> {
            Ok(Vec::new())
        }
    }

    fn moment(path: PathBuf, start: f64) -> Moment {
        let part = |text: &str, is_match| Part { text: text.into(), is_match };
        Moment {
            path,
            start,
            end: Some(start + 5.0),
            kind: Kind::Said,
            parts: vec![part("turn ", false), part("left", true)],
            text: "turn left at the van".into(),
            model: Some("said.srt".into()),
            score: 1.0,
        }
    }

    fn file() -> VideoFile {
        VideoFile { path: "/v/street.mp4".into(), bytes: None, modified: None }
    }

    fn with_index() -> Studio {
        let (mut studio, _) =
            Studio::new(&StudioConfig { finder: Some(Arc::new(NoIndex)), ..config() }).unwrap();
        studio.handle(ready_event());
        studio.handle(Msg::Resize(100, 30));
        studio
    }

    #[test]
    fn moments_are_found_while_typing_and_opened_where_they_are() {
        let mut studio = with_index();
        let effects = press(&mut studio, "F l e f t");
        assert_eq!(effects.last(), Some(&Effect::Find("left".into())));
        let path = file().path;
        // Results for words that were typed before.
        studio.handle(Msg::Moments("lef".into(), Ok(vec![])));
        assert!(screen(&studio, 100, 30).contains("Type words"));
        let effects = studio.handle(Msg::Moments(
            "left".into(),
            Ok(vec![moment("/v/other.mp4".into(), 3.0), moment(path.clone(), 1.0)]),
        ));
        assert_eq!(effects, [Effect::FindNear("left".into())]);
        let shown = screen(&studio, 100, 30);
        for words in ["other.mp4", "0:03–0:08", "said: turn left", "turn left at the van", "said.srt"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        // What is near comes later, and leaves the selection where it is.
        press(&mut studio, "down");
        let near = [("/v/near.mp4", 7.0), ("/v/other.mp4", 3.0), ("/v/street.mp4", 1.0)];
        let near = near.map(|(path, start)| moment(path.into(), start)).to_vec();
        studio.handle(Msg::Near("lef".into(), Vec::new()));
        studio.handle(Msg::Near("left".into(), near));
        assert!(screen(&studio, 100, 30).contains("near.mp4"));
        let effects = press(&mut studio, "enter");
        assert_eq!(effects, [Effect::Open(path.to_string_lossy().into())]);
        studio.handle(Msg::Opened(Ok(file())));
        assert!(screen(&studio, 100, 30).contains("Preview"), "{}", screen(&studio, 100, 30));
        assert_eq!(studio.model().library.selected().unwrap().path, path);
    }

    #[test]
    fn a_question_is_answered_from_its_moments() {
        let mut studio = with_index();
        let found = vec![moment("/v/a.mp4".into(), 1.0), moment("/v/b.mp4".into(), 2.0)];
        let effects = press(&mut studio, "F w h o ?");
        assert_eq!(effects.last(), Some(&Effect::Find("who?".into())));
        studio.handle(Msg::Moments("who?".into(), Ok(found)));
        let shown = screen(&studio, 100, 30);
        assert!(shown.contains("Ask the model") && shown.contains("answer it from 2 moments"), "{shown}");
        assert!(shown.contains("b.mp4") && shown.contains("Enter ask"), "{shown}");
        assert_eq!(press(&mut studio, "enter"), [Effect::AskLibrary("who?".into(), true)]);
        let asked = LibraryQuestion::new("who?", &Here, &Filter::default(), 8, None).unwrap().unwrap();
        let span = specreel_record::Span { start: 1.0, end: 6.0 };
        let effects = studio.handle(Msg::Asked(Ok(Some((asked, Some(span))))));
        let Some(Effect::Run(request)) = effects.first() else { panic!("{effects:?}") };
        assert!(
            request.prompt.contains("\n[1] Cargo.toml, 0:01–0:06, said: turn left")
                && request.span == Some(span)
        );
        assert_eq!(question::asked(&request.prompt), "who?");
        // The moments of the shown answer, to go there.
        press(&mut studio, "F");
        let shown = screen(&studio, 100, 30);
        assert!(shown.contains("[1] Cargo.toml") && shown.contains("who?"), "{shown}");
        let effects = press(&mut studio, "enter");
        assert!(matches!(&effects[..], [Effect::Open(path)] if path.ends_with("Cargo.toml")), "{effects:?}");
        studio.handle(Msg::Asked(Ok(None)));
        assert!(screen(&studio, 100, 30).contains("nothing in the index matches the question"));
    }

    #[test]
    fn the_filter_of_the_library_finds_what_is_in_the_clips() {
        let mut studio = with_index();
        studio.handle(Msg::Opened(Ok(file())));
        press(&mut studio, "esc");
        let effects = press(&mut studio, "/ l e f t");
        assert_eq!(effects.last(), Some(&Effect::Find("left".into())));
        assert!(studio.model().library.shown.is_empty(), "no clip has such a name");
        studio.handle(Msg::Moments("lef".into(), Ok(vec![moment(file().path, 9.0)])));
        assert!(studio.model().library.shown.is_empty(), "these are results for earlier words");
        let found =
            vec![moment(file().path, 2.0), moment(file().path, 4.0), moment("/v/other.mp4".into(), 1.0)];
        studio.handle(Msg::Moments("left".into(), Ok(found)));
        let shown = screen(&studio, 100, 30);
        assert!(shown.contains("street.mp4 0:02 turn left"), "{shown}");
        let facts = crate::tui::ClipFacts { seconds: Some(8.0), ..Default::default() };
        studio.handle(Msg::Probed { path: file().path, facts: Ok(facts) });
        press(&mut studio, "enter");
        let shown = screen(&studio, 100, 30);
        assert!(
            shown.contains("Preview") && shown.contains("2 found ▼") && shown.contains("2.0 / 8.0 s"),
            "{shown}"
        );
        press(&mut studio, "esc esc");
        assert!(
            studio.model().library.moments_of(&file().path).is_empty(),
            "without a filter, nothing is searched"
        );
    }

    #[test]
    fn problems_and_nothing_are_told() {
        let mut studio = with_index();
        press(&mut studio, "F x");
        studio.handle(Msg::Moments("x".into(), Ok(Vec::new())));
        assert!(screen(&studio, 100, 30).contains("nothing found"));
        assert!(press(&mut studio, "enter").is_empty());
        press(&mut studio, "y");
        studio.handle(Msg::Moments(
            "xy".into(),
            Err("index a: no such file; create it: specreel index DIR".into()),
        ));
        assert!(screen(&studio, 100, 30).contains("specreel index DIR"));
        press(&mut studio, "esc");
        let (mut plain, _) = Studio::new(&config()).unwrap();
        press(&mut plain, "F");
        assert!(plain.model().screens.is_empty());
    }
}
