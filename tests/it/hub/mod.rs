//! Pulls from a local hub, with and without failures.

mod gguf;
pub mod server;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use server::{COMMIT, File, Quirk, Reply, Server};
use specreel_checkpoint::hub::{Hub, HubError, ModelId, PullObserver, PullProgress, Pulled, Settings, Token};
use specreel_record::{Failure, FailureClass};
use tempfile::TempDir;

const INDEX: &str = "model.safetensors.index.json";

fn small(name: &'static str, text: &str) -> File {
    File { name, bytes: text.as_bytes().to_vec(), large: false }
}

/// A model of two shards, and files that are not needed.
fn model() -> Vec<File> {
    let noise = |n: u32, k: u32| (0..n).map(|i| (i.wrapping_mul(k) >> 7) as u8).collect();
    vec![
        small("config.json", "{}"),
        small("tokenizer.json", "{\"a\": 1}"),
        small(INDEX, r#"{"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}"#),
        File { name: "model-1.safetensors", bytes: noise(300_000, 2_654_435_761), large: true },
        File { name: "model-2.safetensors", bytes: noise(200_001, 2_246_822_519), large: true },
        File { name: "pytorch_model.bin", bytes: vec![1; 1000], large: true },
        small("README.md", "# a model"),
    ]
}

/// Records the progress, and cancels after `most` calls.
#[derive(Default)]
struct Recorder {
    seen: Vec<PullProgress>,
    most: Option<usize>,
    refuse: bool,
    checked: Vec<PathBuf>,
}

impl PullObserver for Recorder {
    fn progress(&mut self, progress: &PullProgress) -> ControlFlow<()> {
        self.seen.push(progress.clone());
        match self.most {
            Some(most) if self.seen.len() > most => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn check(&mut self, path: &Path) -> Result<(), Failure> {
        assert!(path.is_file() || path.join("config.json").is_file());
        self.checked.push(path.to_owned());
        let failure = Failure { class: FailureClass::Input, error: "unknown".into(), hint: None };
        if self.refuse { Err(failure) } else { Ok(()) }
    }
}

struct Case {
    cache: TempDir,
    server: Server,
    settings: Settings,
}

impl Case {
    fn new(files: Vec<File>, quirk: Box<Quirk>) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let server = Server::start(files, quirk);
        let settings = Settings {
            cache: Some(cache.path().into()),
            endpoint: server.address.clone(),
            token: None,
            offline: false,
        };
        Self { cache, server, settings }
    }

    /// A hub that answers requests for paths with this end in its own way.
    fn at(
        files: Vec<File>,
        end: &'static str,
        quirk: impl Fn(usize, &mut Reply) + Send + Sync + 'static,
    ) -> Self {
        let quirk = move |request: &server::Request, before: usize, reply: &mut Reply| {
            if request.path.ends_with(end) {
                quirk(before, reply);
            }
        };
        Self::new(files, Box::new(quirk))
    }

    fn plain() -> Self {
        Self::new(model(), Box::new(|_, _, _| {}))
    }

    fn pull_observed(&self, observer: &mut Recorder) -> Result<Pulled, HubError> {
        self.pull_id("me/model", observer)
    }

    fn pull_id(&self, id: &str, observer: &mut Recorder) -> Result<Pulled, HubError> {
        let (timeout, retry_delay) = (Duration::from_secs(5), Duration::from_millis(1));
        let hub = Hub::with_timeouts(self.settings.clone(), timeout, retry_delay)?;
        hub.pull(&ModelId::parse(id).unwrap(), observer)
    }

    fn pull(&self) -> Result<Pulled, HubError> {
        self.pull_observed(&mut Recorder::default())
    }

    fn refused(&self) -> (Failure, String) {
        self.refused_id("me/model")
    }

    fn refused_id(&self, id: &str) -> (Failure, String) {
        let failure = Failure::from(self.pull_id(id, &mut Recorder::default()).unwrap_err());
        let text = format!("{} {}", failure.error, failure.hint.clone().unwrap_or_default());
        (failure, text)
    }

    fn blobs(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.cache.path().join("models--me--model/blobs")) else {
            return vec![];
        };
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn a_model_is_pulled_in_the_shared_layout() {
    let case = Case::plain();
    let mut recorder = Recorder::default();
    let pulled = case.pull_observed(&mut recorder).unwrap();
    let folder = case.cache.path().join("models--me--model");
    assert_eq!(pulled.dir, folder.join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    for file in model().iter().take(5) {
        let path = pulled.dir.join(file.name);
        assert_eq!(fs::read(&path).unwrap(), file.bytes);
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("../../blobs").join(file.digest()));
    }
    // Neither the other format nor the README.
    assert_eq!((pulled.files, case.blobs().len()), (5, 5));
    assert!(case.server.asked("pytorch_model.bin").is_empty() && case.server.asked("README.md").is_empty());
    let total: u64 = model().iter().take(5).map(|f| f.bytes.len() as u64).sum();
    assert_eq!((pulled.bytes, pulled.fetched), (total, total));
    let last = recorder.seen.last().unwrap();
    assert_eq!((last.done, last.total, last.number, last.files), (total, total, 5, 5));
    assert!(recorder.seen.is_sorted_by_key(|p| p.done), "progress never goes back");
}

#[test]
fn cached_files_are_not_downloaded_again() {
    let case = Case::plain();
    let first = case.pull().unwrap();
    let requests = case.server.requests.lock().unwrap().len();
    let second = case.pull().unwrap();
    assert_eq!((second.fetched, second.dir), (0, first.dir));
    // Only the file list was requested.
    assert_eq!(case.server.requests.lock().unwrap().len(), requests + 1);
}

#[test]
fn a_broken_connection_is_resumed() {
    let cut = |before, reply: &mut Reply| reply.cut = (before < 2).then_some(100_000);
    let case = Case::at(model(), "model-1.safetensors", cut);
    let pulled = case.pull().unwrap();
    assert_eq!(fs::read(pulled.dir.join("model-1.safetensors")).unwrap(), model()[3].bytes);
    let ranges: Vec<_> = case
        .server
        .asked("model-1.safetensors")
        .iter()
        .map(|r| r.header("range").map(str::to_owned))
        .collect();
    assert_eq!(ranges, [None, Some("bytes=100000-".into()), Some("bytes=200000-".into())]);
}

#[test]
fn a_cancelled_pull_is_resumed() {
    let case = Case::plain();
    let cancelled = case.pull_observed(&mut Recorder { most: Some(8), ..Recorder::default() });
    assert!(matches!(cancelled, Err(HubError::Cancelled)));
    assert!(case.blobs().iter().any(|name| name.ends_with(".incomplete")), "{:?}", case.blobs());
    // An incomplete model has no ref.
    assert!(!case.cache.path().join("models--me--model/refs/main").exists());
    let pulled = case.pull().unwrap();
    assert!(pulled.fetched < pulled.bytes);
    assert_eq!(fs::read(pulled.dir.join("model-1.safetensors")).unwrap(), model()[3].bytes);
    assert!(case.server.asked("model-1.safetensors").iter().any(|r| r.header("range").is_some()));
}

#[test]
fn a_server_without_ranges_restarts_the_file() {
    let case = Case::at(model(), "model-1.safetensors", |before, reply| {
        (reply.status, reply.body) = (200, model()[3].bytes.clone());
        reply.headers.clear();
        reply.cut = (before == 0).then_some(50_000);
    });
    let pulled = case.pull().unwrap();
    assert_eq!(fs::read(pulled.dir.join("model-1.safetensors")).unwrap(), model()[3].bytes);
}

#[test]
fn a_connection_without_progress_fails() {
    let case = Case::at(model(), "model-1.safetensors", |_, reply| *reply = Reply::status(503, ""));
    let (failure, text) = case.refused();
    assert_eq!(failure.class, FailureClass::Input);
    assert!(text.contains("503"), "{text}");
    assert_eq!(case.server.asked("model-1.safetensors").len(), 5);

    // No server at all.
    let mut gone = Case::plain();
    gone.settings.endpoint = "http://127.0.0.1:9".into();
    assert!(gone.refused().1.contains("127.0.0.1"));
}

#[test]
fn wrong_bytes_and_sizes_are_not_kept() {
    type Damage = fn(&mut Reply);
    let damages: [(Damage, &str); 3] = [
        (|reply| reply.body[1000] ^= 1, "checksum"),
        (|reply| reply.body.truncate(1000), "1000 bytes"),
        (|reply| reply.body.push(0), "300001 bytes"),
    ];
    for (damage, part) in damages {
        let case = Case::at(model(), "model-1.safetensors", move |_, reply| damage(reply));
        let (failure, text) = case.refused();
        assert_eq!(failure.class, FailureClass::Input);
        assert!(text.contains(part) && text.contains("model-1.safetensors"), "{text}");
        assert!(
            !case.blobs().contains(&model()[3].digest()) && !case.blobs().iter().any(|b| b.contains('.'))
        );
    }
    // Small files are also verified.
    let case = Case::at(model(), "/config.json", |_, reply| reply.body = b"[]".to_vec());
    assert!(case.refused().1.contains("checksum"));
}

#[test]
fn a_foreign_partial_file_is_detected() {
    let case = Case::plain();
    let blobs = case.cache.path().join("models--me--model/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(format!("{}.incomplete", model()[3].digest())), vec![7; 1000]).unwrap();
    assert!(case.refused().1.contains("checksum"));
    // The partial file was removed, so the next pull succeeds.
    case.pull().unwrap();
}

#[test]
fn access_errors_have_hints() {
    for (status, code, token, part) in [
        (401, "GatedRepo", false, "settings/tokens"),
        (403, "GatedRepo", true, "accept it at"),
        (401, "RepoNotFound", false, "for a private model"),
        (401, "", true, "rejected the token"),
        (404, "RepoNotFound", true, "check owner and name"),
        (404, "RevisionNotFound", false, "no revision `main`"),
        (500, "", false, "500"),
    ] {
        let mut case = Case::new(model(), Box::new(move |_, _, reply| *reply = Reply::status(status, code)));
        case.settings.token = token.then(|| Token::new("hf_secret").unwrap());
        let (failure, text) = case.refused();
        assert_eq!(failure.class, FailureClass::Input);
        assert!(
            text.contains(part) && text.contains("me/model") | (status == 401) | (status == 500),
            "{text}"
        );
        assert!(!text.contains("hf_secret"), "{text}");
        assert!(case.blobs().is_empty());
    }
}

#[test]
fn redirected_hosts_get_no_token() {
    let other = Server::start(model(), Box::new(|_, _, _| {}));
    let address = other.address.clone();
    let mut case = Case::new(
        model(),
        Box::new(move |request, _, reply| match request.path.rsplit_once('/') {
            // First to another path of the hub, then to another host.
            Some(("/moved", name)) => *reply = Reply::to(&format!("{address}/blob/{name}")),
            Some((_, name)) if name.ends_with(".safetensors") => {
                *reply = Reply::to(&format!("/moved/{name}"))
            }
            _ => {}
        }),
    );
    case.settings.token = Token::new("hf_secret");
    let pulled = case.pull().unwrap();
    assert_eq!(fs::read(pulled.dir.join("model-2.safetensors")).unwrap(), model()[4].bytes);
    let asked = case.server.asked("");
    assert_eq!(asked.iter().filter(|r| r.path.starts_with("/moved/")).count(), 2);
    assert!(asked.iter().all(|r| r.header("authorization") == Some("Bearer hf_secret")));
    assert_eq!(other.asked(".safetensors").len(), 2);
    assert!(other.asked("").iter().all(|r| r.header("authorization").is_none()));
}

#[test]
fn redirect_loops_end() {
    let case = Case::new(
        model(),
        Box::new(|request, _, reply| {
            if request.path.ends_with(".json") {
                *reply = Reply::to(&request.path);
            }
        }),
    );
    assert!(case.refused().1.contains("too many redirects"));
}

#[test]
fn offline_uses_the_cache_only() {
    let mut case = Case::plain();
    case.settings.offline = true;
    assert!(case.refused().1.contains("HF_HUB_OFFLINE"));
    assert!(case.server.asked("").is_empty());

    case.settings.offline = false;
    let pulled = case.pull().unwrap();
    let requests = case.server.asked("").len();
    case.settings.offline = true;
    assert_eq!(case.pull().unwrap(), Pulled { fetched: 0, ..pulled.clone() });
    fs::remove_file(pulled.dir.join("model-2.safetensors")).unwrap();
    assert!(case.refused().1.contains("missing model-2.safetensors"));
    assert_eq!(case.server.asked("").len(), requests);
}

#[test]
fn unsafe_file_names_write_nothing() {
    for name in ["../../../../evil", "/tmp/evil", "a/b.safetensors", "..", "x\\..\\y"] {
        let mut files = model();
        files[2].bytes = serde_json::json!({ "weight_map": { "x": name } }).to_string().into_bytes();
        files[3].name = Box::leak(name.to_owned().into_boxed_str());
        let case = Case::new(files, Box::new(|_, _, _| {}));
        let error = case.pull().unwrap_err();
        assert!(matches!(error, HubError::Path { .. }), "{name}: {error}");
        assert!(!case.cache.path().join("evil").exists());
        assert_eq!(case.blobs().len(), 3);
    }
}

#[test]
fn unsupported_models_fail_before_the_weights() {
    let case = Case::plain();
    let error = case.pull_observed(&mut Recorder { refuse: true, ..Recorder::default() }).unwrap_err();
    assert_eq!(Failure::from(error).error, "unknown");
    assert!(case.server.asked(".safetensors").is_empty());

    for lacking in [0, 1] {
        let mut files = model();
        let name = files.remove(lacking).name;
        let (_, text) = Case::new(files, Box::new(|_, _, _| {})).refused();
        assert!(text.contains(name) && text.contains("safetensors"), "{text}");
    }
    let mut files = model();
    files.remove(4);
    assert!(Case::new(files, Box::new(|_, _, _| {})).refused().1.contains("model-2.safetensors"));
}

#[test]
fn a_locked_file_is_not_downloaded_twice() {
    let case = Case::plain();
    let locks = case.cache.path().join(".locks/models--me--model");
    fs::create_dir_all(&locks).unwrap();
    let lock = fs::File::create(locks.join(format!("{}.lock", model()[0].digest()))).unwrap();
    lock.lock().unwrap();
    assert!(matches!(case.pull(), Err(HubError::Locked { .. })));
    lock.unlock().unwrap();
    case.pull().unwrap();
}

#[test]
fn a_model_larger_than_the_disk_is_not_started() {
    let quirk = |request: &server::Request, _: usize, reply: &mut Reply| {
        if request.path.starts_with("/api/") {
            let mut listing: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            listing["siblings"][3]["lfs"]["size"] = (1u64 << 43).into();
            reply.body = listing.to_string().into_bytes();
        }
    };
    let case = Case::new(model(), Box::new(quirk));
    let (failure, text) = case.refused();
    assert_eq!(failure.class, FailureClass::Input);
    assert!(text.contains("8.8 TB") && text.contains("HF_HUB_CACHE"), "{text}");
    assert!(case.server.asked("model-1.safetensors").is_empty());
}
