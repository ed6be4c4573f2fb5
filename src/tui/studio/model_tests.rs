use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use testing::{config, notice, press, shown};

use super::*;
use crate::tui::{
    DrafterChoice, ModelList, ModelPair, ModelStore, OpenedPair, PublishedModel, PullNews, Pulling,
    StoredFacts, StoredModel, Studio, StudioConfig, model::EngineState, screens::models::ModelPicker,
    testing,
};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::{Event, EventKind, Failure, FailureClass, LoadedParts, Ready, Stage};
use specreel_speculate::Method;
use specreel_video::Rule;

/// A store that no test of the state machine calls.
struct NoStore;

impl ModelStore for NoStore {
    fn list(&self, _: &ModelPair, _: &RunRequest) -> ModelList {
        unreachable!()
    }

    fn open(&self, _: &ModelPair) -> Result<OpenedPair, Failure> {
        unreachable!()
    }

    fn pull(
        &self,
        _: &str,
        _: &mut dyn FnMut(Pulling) -> std::ops::ControlFlow<()>,
    ) -> Result<PathBuf, Failure> {
        unreachable!()
    }

    fn remove(&self, _: &Path) -> Result<u64, Failure> {
        unreachable!()
    }
}

fn stored(name: &str, no_drafter: Option<&str>) -> StoredModel {
    let facts = StoredFacts {
        family: "qwen3_vl".into(),
        dtype: "q8_0".into(),
        parameters: 2_000_000_000,
        bytes: 2_200_000_000,
        needs: Some(3 << 30),
        is_head: name.contains("head"),
        lacks_tower: name.contains("towerless"),
    };
    StoredModel {
        name: name.into(),
        path: format!("/models/{name}").into(),
        origin: if name.contains("embedded") { "embedded" } else { "cache" },
        facts: Ok(facts),
        no_drafter: no_drafter.map(str::to_owned),
        advice: (name == "small").then(|| "1.4x (1.2–1.6) expected".into()),
        drafters: if name == "big" { vec!["small".into(), "some head".into()] } else { Vec::new() },
        removable: !name.contains("embedded"),
    }
}

fn published(id: &str, bytes: u64, needs: u64) -> PublishedModel {
    PublishedModel {
        id: id.into(),
        family: "SmolVLM2".into(),
        parameters: bytes,
        bytes,
        needs,
        drafters: &[],
        stored: false,
    }
}

fn models() -> ModelList {
    let broken = StoredModel {
        facts: Err("it has no tokenizer.json".into()),
        no_drafter: Some("it has no tokenizer.json".into()),
        ..stored("broken", None)
    };
    ModelList {
        stored: vec![
            stored("embedded target", Some("it is the target")),
            stored("big", Some("it is not smaller than the target")),
            stored("small", None),
            stored("some head", None),
            stored("towerless", None),
            broken,
        ],
        published: vec![
            published("me/SmolVLM2-256M:Q8_0", 300 << 20, 1 << 30),
            published("me/SmolVLM2-500M:Q8_0", 600 << 20, 2 << 30),
            published("me/SmolVLM2-2.2B:Q8_0", 3 << 30, 4 << 30),
            published("me/huge", 60 << 30, 70 << 30),
        ],
        disk: Some(20 << 30),
        memory: Some(16 << 30),
    }
}

fn studio() -> Studio {
    let config = StudioConfig {
        models: Some(Arc::new(NoStore)),
        embedded: true,
        models_file: Some("/state/models.json".into()),
        ..config()
    };
    let mut studio = Studio::new(&config).unwrap().0;
    studio.handle(Msg::Resize(100, 30));
    studio.handle(testing::ready_event());
    studio
}

fn screen() -> Studio {
    let mut studio = studio();
    let effects = press(&mut studio, "M");
    assert!(matches!(&effects[..], [Effect::ListModels(about)] if about.1.video == Path::new("/demo/0.mp4")));
    studio.handle(Msg::Models(Ok(models())));
    studio
}

fn opened(target: &str, drafter: Option<&str>) -> OpenedPair {
    OpenedPair {
        spec: ModelSpec { target: target.into(), drafter: drafter.map(Into::into), ..ModelSpec::default() },
        embedded: false,
        rule: Rule::QWEN_VL,
        presets: Vec::new(),
    }
}

fn ready(target: &str, drafter: Option<&str>) -> Msg {
    let parts = LoadedParts { drafter: drafter.is_some(), ..LoadedParts::default() };
    let ready = Ready {
        target: target.into(),
        drafter: drafter.map(str::to_owned),
        freed_bytes: Some(70 << 20),
        parts: Some(parts),
        ..Ready::default()
    };
    Msg::Engine(Event::new(0, EventKind::Ready(ready)))
}

fn failed(error: &str) -> Msg {
    let failure = Failure { class: FailureClass::Memory, error: error.into(), hint: Some("buy more".into()) };
    Msg::Engine(Event::new(0, EventKind::Failed(failure)))
}

fn names(studio: &mut Studio) -> Vec<String> {
    let Some(screen) = studio.model().screens.shown::<ModelPicker>() else { return Vec::new() };
    let query = screen.picker.query().to_owned();
    studio.model().models.rows(&query).iter().map(|row| row.name().to_owned()).collect()
}

#[test]
fn each_list_has_its_models_and_a_filter() {
    let mut studio = screen();
    assert_eq!(names(&mut studio), ["embedded target", "big", "small", "towerless", "broken"]);
    press(&mut studio, "tab");
    assert_eq!(names(&mut studio)[..2], ["no drafter", "embedded target"]);
    press(&mut studio, "tab");
    assert_eq!(names(&mut studio).len(), 4);
    studio.handle(Msg::Paste("smol".into()));
    press(&mut studio, "5 0 0");
    assert_eq!(names(&mut studio), ["me/SmolVLM2-500M:Q8_0"]);
    // The id of a model that is not listed comes first.
    press(&mut studio, "ctrl-u");
    studio.handle(Msg::Paste("you/other".into()));
    assert_eq!(names(&mut studio), ["you/other"]);
    press(&mut studio, "enter enter");
    assert_eq!(studio.model().models.pull.as_ref().unwrap().id, "you/other");
    studio.model().models.pull = None;
    // Back clears the filter, then closes.
    press(&mut studio, "esc");
    assert_eq!(names(&mut studio).len(), 4);
    press(&mut studio, "esc");
    assert!(studio.model().screens.is_empty());
}

#[test]
fn what_a_drafter_is_expected_to_gain_is_told_with_its_details() {
    let mut studio = screen();
    let tells = |studio: &Studio| testing::screen(studio, 100, 30).contains("1.4x (1.2–1.6) expected");
    press(&mut studio, "down down");
    assert!(!tells(&studio), "as a target");
    press(&mut studio, "tab");
    let at = names(&mut studio).iter().position(|name| name == "small").unwrap();
    press(&mut studio, "home");
    (0..at).for_each(|_| drop(press(&mut studio, "down")));
    assert!(tells(&studio), "{}", testing::screen(&studio, 100, 30));
}

#[test]
fn another_target_is_loaded_while_runs_go_on_and_then_used() {
    let mut studio = screen();
    press(&mut studio, "down");
    let effects = press(&mut studio, "enter");
    let pair = ModelPair { target: Some("/models/big".into()), ..ModelPair::default() };
    assert_eq!(effects, [Effect::OpenPair(pair)]);
    let opened = opened("/models/big", Some("/models/small"));
    let effects = studio.handle(Msg::PairOpened(Ok(Box::new(opened.clone()))));
    assert_eq!(effects, [Effect::Switch(Box::new(opened.spec))]);
    // Progress is the loading's, and the old models are still in use.
    let stage = EventKind::Stage { stage: Stage::Load, done: 5, total: 20, left_ms: Some(9e3) };
    studio.handle(Msg::Engine(Event::new(0, stage)));
    assert_eq!(studio.model().models.change.as_ref().unwrap().progress, Some((5, 20, Some(9e3))));
    assert!(matches!(studio.model().models.engine, EngineState::Ready(_)));
    press(&mut studio, "f7");
    assert!(studio.model().screens.is_empty(), "the screen closes, and the loading continues");
    assert!(press(&mut studio, "enter").iter().any(|effect| matches!(effect, Effect::Run(_))));
    // What takes several runs would mix both pairs.
    for key in ["c", "L"] {
        press(&mut studio, key);
        let effects = press(&mut studio, "enter");
        assert!(
            !effects.iter().any(|effect| matches!(effect, Effect::Run(_) | Effect::Cut(..))),
            "{key}: {effects:?}"
        );
        press(&mut studio, "esc");
    }
    let effects = studio.handle(ready("big", Some("small")));
    assert_eq!(notice(&mut studio), "big with small in use; 73 MB freed");
    assert!(!studio.model().config.embedded && studio.model().models.change.is_none());
    let remembered = ModelPair {
        target: Some("/models/big".into()),
        drafter: DrafterChoice::Of("/models/small".into()),
        mmproj: None,
    };
    assert!(
        effects.contains(&Effect::RememberPair("/state/models.json".into(), Box::new(remembered.clone())))
    );
    assert_eq!(studio.model().models.loaded, remembered);
}

#[test]
fn only_the_drafter_is_changed_and_the_method_follows() {
    let mut studio = screen();
    press(&mut studio, "tab");
    for (row, words) in
        [(1, "it is the target"), (2, "it is not smaller than the target"), (6, "no tokenizer.json")]
    {
        press(&mut studio, "home");
        shown::<ModelPicker>(&mut studio).picker.cursor = row;
        assert_eq!(press(&mut studio, "enter"), [], "{words}");
        assert!(notice(&mut studio).contains(words), "{}", notice(&mut studio));
    }
    shown::<ModelPicker>(&mut studio).picker.cursor = 0;
    let effects = press(&mut studio, "enter");
    let pair = ModelPair { drafter: DrafterChoice::None, ..ModelPair::default() };
    assert_eq!(effects, [Effect::OpenPair(pair)]);
    studio.handle(Msg::PairOpened(Ok(Box::new(opened("/models/embedded target", None)))));
    studio.handle(ready("embedded", None));
    // The chosen method needs a draft model.
    assert_eq!(notice(&mut studio), "embedded in use; 73 MB freed; method autoregressive");
    assert_eq!(studio.model().methods.current().unwrap().name, "autoregressive");
    // One that needs a draft head, with models that have none.
    let mut studio = screen();
    let methods = &mut studio.model().methods;
    methods.turned.extend(["auto", "eagle3"].map(|name| Method::preset(name).unwrap()));
    methods.choose(methods.turned.len() - 1);
    press(&mut studio, "down");
    press(&mut studio, "enter");
    studio.handle(Msg::PairOpened(Ok(Box::new(opened("/models/big", Some("/models/small"))))));
    studio.handle(ready("big", Some("small")));
    assert_eq!(studio.model().methods.current().unwrap().name, "auto");
}

#[test]
fn a_loading_is_cancelled_or_fails_and_the_old_models_stay() {
    for (ends_by, words) in [
        (
            failed("big needs 90 GB, but 16 GB are available"),
            "big needs 90 GB, but 16 GB are available; buy more; the models stay as they are",
        ),
        (failed("stopped"), "cancelled: the models stay as they are"),
    ] {
        let mut studio = screen();
        press(&mut studio, "down");
        press(&mut studio, "enter");
        studio.handle(Msg::PairOpened(Ok(Box::new(opened("/models/big", None)))));
        // A second one waits for the first.
        assert_eq!(press(&mut studio, "enter"), []);
        assert!(notice(&mut studio).contains("Esc cancels that"));
        if words.starts_with("cancelled") {
            assert_eq!(press(&mut studio, "esc"), [Effect::Cancel(0)]);
        }
        studio.handle(ends_by);
        assert_eq!(notice(&mut studio), words);
        assert!(
            matches!(&studio.model().models.engine, EngineState::Ready(ready) if ready.target == "target-25m")
        );
        assert!(studio.model().config.embedded && studio.model().models.loaded == ModelPair::default());
        // The next one may come.
        assert_eq!(press(&mut studio, "enter").len(), 1);
    }
    // Cancelled before its files were found: the engine hears nothing of it.
    let mut studio = screen();
    press(&mut studio, "enter");
    assert_eq!(press(&mut studio, "esc"), []);
    assert_eq!(studio.handle(Msg::PairOpened(Ok(Box::new(opened("/models/big", None))))), []);
    // The files are gone.
    press(&mut studio, "enter");
    studio.handle(Msg::PairOpened(Err(Failure::input("no such directory", "pull it again"))));
    assert_eq!(notice(&mut studio), "no such directory; pull it again; the models stay as they are");
}

#[test]
fn a_download_is_asked_for_shown_cancelled_and_resumed() {
    let mut studio = screen();
    press(&mut studio, "shift-tab");
    assert_eq!(press(&mut studio, "enter"), [], "a question comes first");
    press(&mut studio, "esc");
    assert!(shown::<ModelPicker>(&mut studio).confirm.is_none());
    press(&mut studio, "enter");
    assert_eq!(press(&mut studio, "enter"), [Effect::Pull("me/SmolVLM2-256M:Q8_0".into())]);
    let progress = Pulling { done: 30 << 20, total: 300 << 20, rate: Some(10e6) };
    studio.handle(Msg::Pull(PullNews::Progress(progress)));
    let screen = testing::screen(&studio, 100, 30);
    assert!(screen.contains("31 MB of 315 MB, 10 MB/s, 0:29 left"), "{screen}");
    assert_eq!(press(&mut studio, "esc"), [Effect::CancelPull]);
    let gone = || Failure::input("connection to hub failed", "pull again to resume");
    let effects = studio.handle(Msg::Pull(PullNews::Ended(Err(gone()))));
    assert!(matches!(&effects[..], [Effect::ListModels(_)]));
    assert!(notice(&mut studio).ends_with("is cancelled; the next one resumes it"));
    press(&mut studio, "enter");
    press(&mut studio, "enter");
    studio.handle(Msg::Pull(PullNews::Ended(Err(gone()))));
    assert_eq!(notice(&mut studio), "connection to hub failed; pull again to resume");
    // Once it is here, it is used without a question.
    press(&mut studio, "enter");
    press(&mut studio, "enter");
    studio.handle(Msg::Pull(PullNews::Ended(Ok("/cache/256m.gguf".into()))));
    let mut list = models();
    list.published[0].stored = true;
    list.stored
        .push(StoredModel { path: "/cache/256m.gguf".into(), ..stored("me/SmolVLM2-256M:Q8_0", None) });
    studio.handle(Msg::Models(Ok(list)));
    let pair = ModelPair { target: Some("/cache/256m.gguf".into()), ..ModelPair::default() };
    assert_eq!(press(&mut studio, "enter"), [Effect::OpenPair(pair)]);
}

#[test]
fn one_key_brings_a_model_for_videos_of_ones_own() {
    let mut studio = studio();
    assert!(matches!(&press(&mut studio, "P")[..], [Effect::ListModels(_)]));
    studio.handle(Msg::Models(Ok(models())));
    let screen = testing::screen(&studio, 100, 30);
    assert!(screen.contains("Download me/SmolVLM2-500M:Q8_0 (629 MB, 21 GB free), and caption"), "{screen}");
    assert_eq!(press(&mut studio, "enter"), [Effect::Pull("me/SmolVLM2-500M:Q8_0".into())]);
    let effects = studio.handle(Msg::Pull(PullNews::Ended(Ok("/cache/500m.gguf".into()))));
    let pair = ModelPair { target: Some("/cache/500m.gguf".into()), ..ModelPair::default() };
    assert_eq!(effects, [Effect::OpenPair(pair)]);
    studio.handle(Msg::PairOpened(Ok(Box::new(opened("/cache/500m.gguf", None)))));
    let effects = studio.handle(ready("SmolVLM2-500M", None));
    let run = effects.iter().find_map(|effect| match effect {
        Effect::Run(request) => Some(request),
        _ => None,
    });
    assert_eq!(run.unwrap().method.name, "autoregressive");
    assert!(studio.model().screens.is_empty());
    // Nothing fits a full disk.
    let mut full = self::studio();
    press(&mut full, "P");
    full.handle(Msg::Models(Ok(ModelList { disk: Some(1 << 20), ..models() })));
    assert!(notice(&mut full).contains("no published model fits"));
}

#[test]
fn only_cached_models_that_are_not_in_use_are_removed() {
    let mut studio = screen();
    press(&mut studio, "delete");
    assert!(notice(&mut studio).contains("embedded target is in use"));
    press(&mut studio, "down");
    press(&mut studio, "delete");
    let screen = testing::screen(&studio, 100, 30);
    assert!(screen.contains("Remove big from the disk (2.2 GB)?"), "{screen}");
    // Any other key withdraws the question.
    press(&mut studio, "down");
    assert_eq!(shown::<ModelPicker>(&mut studio).confirm, None);
    press(&mut studio, "delete");
    assert_eq!(press(&mut studio, "enter"), [Effect::RemoveModel("small".into(), "/models/small".into())]);
    let effects = studio.handle(Msg::ModelRemoved(Ok(("small".into(), 2_200_000_000))));
    assert!(matches!(&effects[..], [Effect::ListModels(_)]));
    assert_eq!(notice(&mut studio), "small removed, 2.2 GB freed");
    let mut elsewhere = models();
    elsewhere.stored[1].removable = false;
    studio.handle(Msg::Models(Ok(elsewhere)));
    press(&mut studio, "up");
    press(&mut studio, "delete");
    assert!(notice(&mut studio).ends_with("the files of this one are in /models/big"));
}

#[test]
fn every_size_shows_names_sizes_and_the_question() {
    for (columns, rows) in [(60, 16), (80, 24), (200, 60)] {
        let mut studio = screen();
        studio.handle(Msg::Resize(columns, rows));
        let shown = testing::screen(&studio, columns, rows);
        for words in ["● embedded target", "big ", "2.2 GB", "3.2 GB", "target  drafter  download"] {
            assert!(shown.contains(words), "{columns} x {rows}: no {words:?} in\n{shown}");
        }
        press(&mut studio, "down");
        let shown_below = testing::screen(&studio, columns, rows);
        assert!(shown_below.contains("drafters here: small, some head"), "{shown_below}");
        press(&mut studio, "tab tab enter");
        let shown = testing::screen(&studio, columns, rows);
        assert!(shown.contains("me/SmolVLM2-256M:Q8_0"), "{shown}");
        let line = shown.lines().find(|line| line.contains("Download me/")).unwrap_or_default();
        assert!(line.contains("315 MB") && shown.contains("Enter yes"), "{shown}");
    }
}

#[test]
fn a_gguf_file_without_a_tower_asks_for_it() {
    let mut studio = screen();
    (0..3).for_each(|_| drop(press(&mut studio, "down")));
    assert_eq!(press(&mut studio, "enter"), []);
    studio.handle(Msg::Paste("/models/mmproj.gguf".into()));
    let pair = ModelPair {
        target: Some("/models/towerless".into()),
        mmproj: Some("/models/mmproj.gguf".into()),
        ..ModelPair::default()
    };
    assert_eq!(press(&mut studio, "enter"), [Effect::OpenPair(pair)]);
}
