//! A live chart of a training run on the terminal, in the studio's theme.

use std::{
    io::{IsTerminal, Stderr},
    time::{Duration, Instant},
};

use super::{
    inline::Inline,
    picture::{Look, TRAINING_SIZE, TrainingPicture},
    progress::{curve, skipped, stage, time},
};
use specreel::{
    cli::{
        config::Config,
        output::{color::plain, terminal},
    },
    look::ColorDepth,
};
use specreel_client::{dirs::Dirs, present::formats::rate};
use specreel_record::Failure;
use specreel_train::{News, Point};

const MAX_COLUMNS: u16 = 110;
const MIN_INTERVAL: Duration = Duration::from_millis(50);

pub struct Board {
    screen: Inline<Stderr>,
    look: Look,
    picture: TrainingPicture,
    recursive: bool,
    points: Vec<Point>,
    drawn: Option<Instant>,
}

impl Board {
    /// A board if stderr is a terminal that is large enough. Fails if the theme is unknown (class input).
    pub fn new(title: &str, recursive: bool, config: &Config) -> Result<Option<Self>, Failure> {
        if terminal::is_dumb() || !std::io::stderr().is_terminal() || size().is_none() {
            return Ok(None);
        }
        let themes = Dirs::find().map(|dirs| dirs.config.join("themes"));
        let theme = config.values.theme.as_deref().unwrap_or("auto");
        let ascii = !terminal::draws_unicode(config.values.charset.unwrap_or_default());
        let look = Look::new(theme, themes.as_deref(), ColorDepth::stderr(), ascii)?;
        let picture = TrainingPicture {
            title: plain(title).into_owned(),
            doing: "loading the target".into(),
            foot: "Ctrl-C saves a checkpoint and exits; run the same command to resume".into(),
            ..TrainingPicture::default()
        };
        let screen = Inline::new(std::io::stderr());
        let mut board = Self { screen, look, picture, recursive, points: Vec::new(), drawn: None };
        board.draw();
        Ok(Some(board))
    }

    pub fn news(&mut self, news: &News) {
        match news {
            News::Begun { steps: 0 } => self.picture.doing = "captioning".into(),
            News::Begun { steps } => {
                self.picture.doing = format!("resuming after {}", super::progress::steps(*steps))
            }
            News::Captioned { done, of } => {
                self.picture.doing = format!("captioning {done}/{of}");
                if self.drawn.is_some_and(|at| at.elapsed() < MIN_INTERVAL) {
                    return;
                }
            }
            News::Skipped { clip, why } => {
                // An unwritable terminal does not stop training.
                let _ = self.screen.above(&skipped(clip, why));
            }
            News::Learned(p) => {
                self.points.push(p.point);
                let percent = |share: f64| format!("{:.1} %", 100.0 * share);
                let mut facts =
                    vec![("loss", format!("{:.3}", p.point.loss)), ("agreement", percent(p.point.agreement))];
                if self.recursive {
                    facts.push(("own outputs", percent(p.point.own_agreement)));
                }
                facts.push(("tokens/s", rate(p.tokens_per_second)));
                self.picture.facts = facts.into_iter().map(|(name, value)| (name.into(), value)).collect();
                self.picture.doing = format!("{} stage, step {}", stage(p.stage), p.point.step);
                self.picture.share = p.progress;
                self.picture.left = format!("{} left", time(p.seconds_left));
                self.picture.curve = curve(&self.points, self.recursive);
            }
            News::Saved => return,
        }
        self.draw();
    }

    fn draw(&mut self) {
        let Some(columns) = size() else { return };
        self.drawn = Some(Instant::now());
        let _ = self.screen.draw(&self.picture.draw(&self.look, columns));
    }
}

/// Width of the chart in columns; `None` if the terminal is too small.
fn size() -> Option<u16> {
    let (columns, rows) = crossterm::terminal::size().ok()?;
    // The last column stays empty: some terminals wrap as soon as it is written.
    (columns > TRAINING_SIZE.0 && rows >= TRAINING_SIZE.1).then(|| (columns - 1).min(MAX_COLUMNS))
}
