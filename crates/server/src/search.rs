//! Moments of a library, by words or for a question.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use specreel_client::moments::{
    Filter, Kind, LibraryQuestion, Meaning, Moment, MomentFinder, Search, question,
};

use crate::api::Fields;
use crate::{app::App, error::ApiError};
use specreel_record::{Failure, FailureClass};

/// Most moments of a search, and how many unless a request says so.
const MOST: usize = 1000;
const SOME: usize = 20;
/// How long a search waits for an engine to say what it is about.
const PATIENCE: Duration = Duration::from_secs(5);

/// Words of moments.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FindMoments {
    /// Words that are all there, in any form; "a phrase" in quotation marks, turn* for beginnings, -word for what is not there, OR
    /// between two words. Captions that say the same in other words are found too if the index has meanings of the loaded model;
    /// otherwise try synonyms.
    words: String,
    /// True: only what is said. False: only what is seen.
    said: Option<bool>,
    /// A video or directory to look in.
    path: Option<String>,
    /// Most moments, 20 by default.
    limit: Option<u32>,
}

/// A question about a library.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AskLibrary {
    /// The question.
    pub question: String,
    /// True: only what is said. False: only what is seen.
    said: Option<bool>,
    /// A video or directory to look in.
    path: Option<String>,
    /// Most moments to answer from, 8 by default.
    limit: Option<u32>,
    /// Longest answer in tokens.
    pub max_new_tokens: Option<u32>,
}

impl FindMoments {
    pub fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        Ok(Self {
            words: fields.need("words", "a string")?.string()?,
            said: fields.flag("said")?,
            path: fields.string("path")?,
            limit: fields.count("limit", MOST)?,
        })
    }

    /// The moments. Blocks.
    pub fn find(&self, app: &App) -> Result<Vec<Moment>, ApiError> {
        let most = self.limit.map_or(SOME, |limit| limit as usize);
        let finder = Allowed::new(app)?;
        let filter = filter(app, self.path.as_deref(), self.said)?;
        let search = Search { filter: &filter, most, read: Some(&|text| Ok(meaning(app, text))) };
        finder.find(&self.words, search).map_err(|failure| failed(&failure))
    }

    /// The same for a client of another machine: without paths of this one. Blocks.
    pub fn find_named(&self, app: &App) -> Result<Vec<Moment>, ApiError> {
        Ok(self.find(app).map_err(without_path)?.into_iter().map(named(app)).collect())
    }
}

impl AskLibrary {
    pub fn read(fields: &mut Fields, most_tokens: usize) -> Result<Self, ApiError> {
        Ok(Self {
            question: fields.need("question", "a string")?.string()?,
            said: fields.flag("said")?,
            path: fields.string("path")?,
            limit: fields.count("limit", question::MOST as usize)?,
            max_new_tokens: fields.count("max_new_tokens", most_tokens)?,
        })
    }

    /// The question with its moments; `None` if there are none. Blocks.
    pub fn about(&self, app: &App) -> Result<Option<LibraryQuestion>, ApiError> {
        let finder = Allowed::new(app)?;
        let filter = filter(app, self.path.as_deref(), self.said)?;
        let most = self.limit.unwrap_or(question::SOME);
        LibraryQuestion::new(&self.question, &finder, &filter, most, Some(&|text| Ok(meaning(app, text))))
            .map_err(|failure| failed(&failure))
    }
}

/// The moments of videos that requests may name: an index may know others by links below the directories that are allowed.
struct Allowed<'a> {
    app: &'a App,
    finder: &'a dyn MomentFinder,
}

impl<'a> Allowed<'a> {
    fn new(app: &'a App) -> Result<Self, ApiError> {
        let finder = app.defaults.find.as_deref().ok_or_else(|| {
            let message = "this server has no index; pass --db, or use a build with the feature `find`";
            ApiError::new(StatusCode::NOT_IMPLEMENTED, "no_index", message)
        })?;
        Ok(Self { app, finder })
    }

    fn only(&self, found: Result<Vec<Moment>, Failure>) -> Result<Vec<Moment>, Failure> {
        let is_allowed = |moment: &Moment| self.app.videos.file(&moment.path.to_string_lossy()).is_ok();
        Ok(found?.into_iter().filter(is_allowed).collect())
    }
}

impl MomentFinder for Allowed<'_> {
    fn find(&self, words: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure> {
        self.only(self.finder.find(words, search))
    }

    fn about(&self, question: &str, search: Search<'_>) -> Result<Vec<Moment>, Failure> {
        self.only(self.finder.about(question, search))
    }

    fn meaning_models(&self) -> Result<Vec<String>, Failure> {
        self.finder.meaning_models()
    }
}

/// What a text is about, by an engine that is idle; `None` if none is, or another search asks just now.
fn meaning(app: &App, text: &str) -> Option<Meaning> {
    let _one = app.reading.try_lock().ok()?;
    let remote = app.pool.idle()?;
    remote.meaning(text, Some(PATIENCE)).ok()?
}

/// The code of an index that cannot be read.
const UNREADABLE: &str = "unreadable_index";

fn failed(failure: &Failure) -> ApiError {
    let error = ApiError::failure(failure, None);
    match failure.class {
        FailureClass::Usage => error,
        _ => ApiError { status: StatusCode::SERVICE_UNAVAILABLE, code: UNREADABLE, ..error },
    }
}

/// The error of a search without the path of an index, which concerns no client of another machine.
pub fn without_path(error: ApiError) -> ApiError {
    match error.code {
        UNREADABLE => ApiError {
            message: "this server has no index that can be read; see `specreel index`".into(),
            ..error
        },
        _ => error,
    }
}

/// Gives moments the names that requests have for their videos, paths below allowed directories, and removes other paths.
pub fn named(app: &App) -> impl Fn(Moment) -> Moment {
    let directories = directories(app);
    move |moment| {
        let real = std::fs::canonicalize(&moment.path).ok();
        let means_it =
            |name: &&Path| app.videos.file(&name.to_string_lossy()).ok().map(|video| video.path) == real;
        let names = directories.iter().filter_map(|dir| moment.path.strip_prefix(dir).ok());
        let path = names.into_iter().find(means_it).unwrap_or(&moment.path).to_owned();
        // The file that an imported caption comes from; ids of models have slashes as well.
        let is_file = |model: &Path| {
            let ending = model.extension().unwrap_or_default();
            model.is_absolute() || ["json", "srt", "txt", "vtt"].iter().any(|known| ending == *known)
        };
        let model = moment.model.map(|model| match Path::new(&model) {
            file if is_file(file) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            _ => model,
        });
        Moment { path, model, ..moment }
    }
}

/// The directories whose files requests may name, as an index may know them: as they were named, and without links.
fn directories(app: &App) -> Vec<PathBuf> {
    let known = |dir: &PathBuf| [std::path::absolute(dir).ok(), std::fs::canonicalize(dir).ok()];
    app.options.allow_dirs.iter().flat_map(known).flatten().collect()
}

/// Videos whose files requests may name, and of these the named ones.
fn filter(app: &App, path: Option<&str>, said: Option<bool>) -> Result<Filter, ApiError> {
    let kind = said.map(|said| if said { Kind::Said } else { Kind::Seen });
    let allowed = directories(app);
    if allowed.is_empty() {
        let message = "this server looks in no directory; start it with --allow-dir DIR";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "not_allowed", message));
    }
    let Some(path) = path else { return Ok(Filter { below: allowed, kind, ..Filter::default() }) };
    let leaves = Path::new(path).components().any(|part| part == Component::ParentDir);
    let below = allowed.iter().map(|dir| (dir, dir.join(path))).filter(|(dir, path)| path.starts_with(dir));
    let below: Vec<PathBuf> = below.map(|(_, path)| path).collect();
    if leaves || below.is_empty() {
        let message = "path: not below the directories that this server allows";
        return Err(ApiError::invalid("path", "invalid_value", message));
    }
    Ok(Filter { below, kind, ..Filter::default() })
}
