//! Pulling a model from a hub on this machine, as it should go and as it goes wrong.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use std::{fs, ops::ControlFlow, path::Path, time::Duration};

use server::{COMMIT, File, Quirk, Reply, Server};
use specreel::{
    model::hub::{Hub, HubError, ModelId, Progress, Pulled, Settings, Token, Watch},
    record::{Failure, FailureClass},
};
use tempfile::TempDir;

const INDEX: &str = "model.safetensors.index.json";

fn small(name: &'static str, text: &str) -> File {
    File { name, bytes: text.as_bytes().to_vec(), large: false }
}

/// A model of two shards, and files that nobody needs.
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

/// Watches, and cancels after so many looks.
#[derive(Default)]
struct Looks {
    seen: Vec<Progress>,
    most: Option<usize>,
    refuse: bool,
}

impl Watch for Looks {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.seen.push(progress.clone());
        match self.most {
            Some(most) if self.seen.len() > most => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn judge(&mut self, dir: &Path) -> Result<(), Failure> {
        assert!(dir.join("config.json").is_file());
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

    fn plain() -> Self {
        Self::new(model(), Box::new(|_, _, _| {}))
    }

    fn pull_watched(&self, watch: &mut Looks) -> Result<Pulled, HubError> {
        let (patience, pause) = (Duration::from_secs(5), Duration::from_millis(1));
        let hub = Hub::patient(self.settings.clone(), patience, pause)?;
        hub.pull(&ModelId::parse("me/model").unwrap(), watch)
    }

    fn pull(&self) -> Result<Pulled, HubError> {
        self.pull_watched(&mut Looks::default())
    }

    /// What the user is told.
    fn refused(&self) -> (Failure, String) {
        let failure = Failure::from(self.pull().unwrap_err());
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
fn a_whole_model_in_the_layout_that_all_tools_share() {
    let case = Case::plain();
    let mut looks = Looks::default();
    let pulled = case.pull_watched(&mut looks).unwrap();
    let folder = case.cache.path().join("models--me--model");
    assert_eq!(pulled.dir, folder.join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    for file in model().iter().take(5) {
        let path = pulled.dir.join(file.name);
        assert_eq!(fs::read(&path).unwrap(), file.bytes);
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("../../blobs").join(file.digest()));
    }
    // Neither the other format nor the page about it.
    assert_eq!((pulled.files, case.blobs().len()), (5, 5));
    assert!(case.server.asked("pytorch_model.bin").is_empty() && case.server.asked("README.md").is_empty());
    let total: u64 = model().iter().take(5).map(|f| f.bytes.len() as u64).sum();
    assert_eq!((pulled.bytes, pulled.fetched), (total, total));
    let last = looks.seen.last().unwrap();
    assert_eq!((last.done, last.total, last.number, last.files), (total, total, 5, 5));
    assert!(looks.seen.is_sorted_by_key(|p| p.done), "progress never goes back");
}

#[test]
fn what_is_here_is_not_fetched_again() {
    let case = Case::plain();
    let first = case.pull().unwrap();
    let requests = case.server.requests.lock().unwrap().len();
    let second = case.pull().unwrap();
    assert_eq!((second.fetched, second.dir), (0, first.dir));
    // Only the list was asked for.
    assert_eq!(case.server.requests.lock().unwrap().len(), requests + 1);
}

#[test]
fn a_broken_connection_is_taken_up_where_it_broke() {
    let case = Case::new(
        model(),
        Box::new(|request, before, reply| {
            if request.path.ends_with("model-1.safetensors") && before < 2 {
                reply.cut = Some(100_000);
            }
        }),
    );
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
fn a_cancelled_pull_goes_on_later() {
    let case = Case::plain();
    let cancelled = case.pull_watched(&mut Looks { most: Some(8), ..Looks::default() });
    assert!(matches!(cancelled, Err(HubError::Cancelled)));
    assert!(case.blobs().iter().any(|name| name.ends_with(".incomplete")), "{:?}", case.blobs());
    // A model that is not whole is not found.
    assert!(!case.cache.path().join("models--me--model/refs/main").exists());
    let pulled = case.pull().unwrap();
    assert!(pulled.fetched < pulled.bytes);
    assert_eq!(fs::read(pulled.dir.join("model-1.safetensors")).unwrap(), model()[3].bytes);
    assert!(case.server.asked("model-1.safetensors").iter().any(|r| r.header("range").is_some()));
}

#[test]
fn a_server_that_knows_no_parts_begins_anew() {
    let case = Case::new(
        model(),
        Box::new(|request, before, reply| {
            if request.path.ends_with("model-1.safetensors") {
                (reply.status, reply.body) = (200, model()[3].bytes.clone());
                reply.headers.clear();
                reply.cut = (before == 0).then_some(50_000);
            }
        }),
    );
    let pulled = case.pull().unwrap();
    assert_eq!(fs::read(pulled.dir.join("model-1.safetensors")).unwrap(), model()[3].bytes);
}

#[test]
fn a_connection_that_never_gets_further_ends_in_words() {
    let never = |request: &server::Request, _: usize, reply: &mut Reply| {
        if request.path.ends_with("model-1.safetensors") {
            *reply = Reply::status(503, "");
        }
    };
    let case = Case::new(model(), Box::new(never));
    let (failure, text) = case.refused();
    assert_eq!(failure.class, FailureClass::Input);
    assert!(text.contains("503"), "{text}");
    assert_eq!(case.server.asked("model-1.safetensors").len(), 5);

    // Nobody there at all.
    let mut gone = Case::plain();
    gone.settings.endpoint = "http://127.0.0.1:9".into();
    assert!(gone.refused().1.contains("127.0.0.1"));
}

#[test]
fn other_bytes_and_other_sizes_are_not_kept() {
    type Damage = fn(&mut Reply);
    let damages: [(Damage, &str); 3] = [
        (|reply| reply.body[1000] ^= 1, "checksum"),
        (|reply| reply.body.truncate(1000), "1000 bytes"),
        (|reply| reply.body.push(0), "300001 bytes"),
    ];
    for (damage, part) in damages {
        let case = Case::new(
            model(),
            Box::new(move |request, _, reply| {
                if request.path.ends_with("model-1.safetensors") {
                    damage(reply);
                }
            }),
        );
        let (failure, text) = case.refused();
        assert_eq!(failure.class, FailureClass::Input);
        assert!(text.contains(part) && text.contains("model-1.safetensors"), "{text}");
        assert!(
            !case.blobs().contains(&model()[3].digest()) && !case.blobs().iter().any(|b| b.contains('.'))
        );
    }
    // A small file is checked, too.
    let case = Case::new(
        model(),
        Box::new(|request, _, reply| {
            if request.path.ends_with("/config.json") {
                reply.body = b"[]".to_vec();
            }
        }),
    );
    assert!(case.refused().1.contains("checksum"));
}

#[test]
fn a_part_that_belongs_to_something_else_is_found_out() {
    let case = Case::plain();
    let blobs = case.cache.path().join("models--me--model/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(format!("{}.incomplete", model()[3].digest())), vec![7; 1000]).unwrap();
    assert!(case.refused().1.contains("checksum"));
    // The part is gone, so the next pull succeeds.
    case.pull().unwrap();
}

#[test]
fn who_may_not_see_it_is_told_what_to_do() {
    for (status, code, token, part) in [
        (401, "GatedRepo", false, "settings/tokens"),
        (403, "GatedRepo", true, "accept it at"),
        (401, "RepoNotFound", false, "if the model is private"),
        (401, "", true, "refuses the token"),
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
fn large_files_from_another_host_which_gets_no_token() {
    let other = Server::start(model(), Box::new(|_, _, _| {}));
    let address = other.address.clone();
    let mut case = Case::new(
        model(),
        Box::new(move |request, _, reply| match request.path.rsplit_once('/') {
            // First to another page of the hub, then away from it.
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
fn redirects_in_circles_end() {
    let case = Case::new(
        model(),
        Box::new(|request, _, reply| {
            if request.path.ends_with(".json") {
                *reply = Reply::to(&request.path);
            }
        }),
    );
    assert!(case.refused().1.contains("circles"));
}

#[test]
fn offline_takes_what_is_here_and_asks_nobody() {
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
    assert!(case.refused().1.contains("it lacks model-2.safetensors"));
    assert_eq!(case.server.asked("").len(), requests);
}

#[test]
fn names_that_lead_elsewhere_write_nothing() {
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
fn what_cannot_be_used_is_known_before_the_weights_come() {
    let case = Case::plain();
    let error = case.pull_watched(&mut Looks { refuse: true, ..Looks::default() }).unwrap_err();
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
fn two_pulls_of_one_file_do_not_mix() {
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
fn what_does_not_fit_on_the_disk_is_not_begun() {
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
