//! Random bodies: each gets an answer or an error in OpenAI's form; no file is opened that may not be, and nobody else is asked.
//! `SPECREEL_FUZZ_BODIES` sets how many are sent.

use std::{fs, net::TcpListener, path::Path};

use rand::{RngExt as _, SeedableRng, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{base64, server::Server};
use crate::cli::with_clip;

const BODIES: u64 = 300;

/// Values that no field expects, or not all.
fn odd(chance: &mut ChaCha8Rng) -> Value {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{202e}😀"),
        json!("x".repeat(5000)),
        json!([]),
        json!([null, {}]),
        json!({}),
        json!({"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}),
        json!({"type": "json_object"}),
        deep,
    ];
    values.choose(chance).unwrap().clone()
}

/// What a request may name, and what it may not.
struct Names {
    urls: Vec<String>,
    clip: Vec<u8>,
}

impl Names {
    fn url(&self, chance: &mut ChaCha8Rng) -> String {
        if chance.random_bool(0.15) {
            let mut clip = self.clip.clone();
            let from = chance.random_range(0..clip.len());
            match chance.random_range(0..3) {
                0 => clip.truncate(from),
                1 => clip[from] ^= 1 << chance.random_range(0..8),
                _ => clip[..from.min(100)].fill(0xff),
            }
            return format!("data:video/mp4;base64,{}", base64(&clip));
        }
        self.urls.choose(chance).unwrap().clone()
    }

    fn part(&self, chance: &mut ChaCha8Rng) -> Value {
        let url = self.url(chance);
        match chance.random_range(0..10) {
            0..=3 => json!({"type": "video_url", "video_url": {"url": url}}),
            4 => json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}}),
            5 => json!({"type": "input_video", "input_video": {"url": url}}),
            6 => json!({"type": "file", "file": {"file_id": url}}),
            7 => json!({"type": "input_video", "input_video": {"data": url}}),
            8 => json!({"type": odd(chance), "video_url": odd(chance)}),
            _ => json!({"type": "video_url", "video_url": odd(chance)}),
        }
    }

    fn message(&self, first: bool, chance: &mut ChaCha8Rng) -> Value {
        let roles = ["system", "developer", "assistant", "tool", "user"];
        let role = if first || chance.random_bool(0.5) { "user" } else { roles.choose(chance).unwrap() };
        let text = json!({"type": "text", "text": "What happens?"});
        let content = match chance.random_range(0..10) {
            0 => odd(chance),
            1 => json!("What happens?"),
            2 => json!([text]),
            3 => json!([self.part(chance), self.part(chance), text]),
            _ => json!([self.part(chance), text]),
        };
        json!({"role": role, "content": content})
    }

    /// A request that may be right, or nearly.
    fn body(&self, chance: &mut ChaCha8Rng) -> Value {
        let count = if chance.random_bool(0.7) { 1 } else { chance.random_range(0..5) };
        let messages: Vec<Value> = (0..count).map(|i| self.message(i == 0, chance)).collect();
        let mut body = json!({"messages": messages, "stream": chance.random_bool(0.3)});
        let fields = "model messages stream stream_options max_tokens max_completion_tokens temperature top_p seed stop logprobs \
            top_logprobs n response_format reasoning_effort chat_template_kwargs specreel tools functions logit_bias \
            frequency_penalty presence_penalty modalities metadata";
        let own = "method set events display frames fps max_pixels max_visual_tokens start end other";
        let [fields, own] = [fields, own].map(|names| names.split_whitespace().collect::<Vec<_>>());
        for _ in 0..chance.random_range(0..3) {
            body[*fields.choose(chance).unwrap()] = odd(chance);
        }
        let methods = ["naive", "lvspec", "greedy", "std"];
        if chance.random_bool(0.3) && !body["specreel"].is_array() {
            body["specreel"] =
                json!({"method": methods.choose(chance), *own.choose(chance).unwrap(): odd(chance)});
        }
        body
    }
}

/// Change bytes, as a broken client does.
fn damage(bytes: &mut Vec<u8>, chance: &mut ChaCha8Rng) {
    for _ in 0..chance.random_range(1..4) {
        let at = chance.random_range(0..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match chance.random_range(0..4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, chance.random()),
            2 => bytes.extend_from_within(at..),
            _ if !bytes.is_empty() => bytes[at] = chance.random(),
            _ => {}
        }
    }
}

/// Says whether a file in a folder was opened.
#[cfg(target_os = "linux")]
struct Opened(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Opened {
    fn watch(folder: &Path) -> Self {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let queue = init(CreateFlags::NONBLOCK).unwrap();
        add_watch(&queue, folder, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        Self(queue)
    }

    fn any(&self) -> bool {
        rustix::io::read(&self.0, &mut [0_u8; 4096]).is_ok_and(|bytes| bytes > 0)
    }
}

#[test]
fn no_body_breaks_the_server_or_leads_it_elsewhere() {
    let program = with_clip();
    let home = program.home().to_owned();
    let [clips, outside] = ["clips", "outside"].map(|name| home.join(name));
    [&clips, &outside].iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let clip = fs::read(home.join("clip.mkv")).unwrap();
    fs::rename(home.join("clip.mkv"), clips.join("a.mkv")).unwrap();
    let secret = outside.join("secret.mkv");
    fs::write(&secret, &clip).unwrap();
    std::os::unix::fs::symlink(&secret, clips.join("link.mkv")).unwrap();
    std::os::unix::fs::symlink(&outside, clips.join("folder")).unwrap();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let port = elsewhere.local_addr().unwrap().port();
    let allowed = ["demo", "a.mkv", "./a.mkv", "a.mkv", "demo:2"].map(str::to_owned);
    let forbidden = [
        secret.display().to_string(),
        format!("file://{}", secret.display()),
        format!("FILE://{}", secret.display()),
        "../outside/secret.mkv".into(),
        "%2e%2e/outside/secret.mkv".into(),
        "file://../outside/secret.mkv".into(),
        "file://%2e%2e%2foutside%2fsecret.mkv".into(),
        "link.mkv".into(),
        "folder/secret.mkv".into(),
        "clips/../../outside/secret.mkv".into(),
        format!("concat:{}", secret.display()),
        format!("subfile,,start,0,end,0,,:{}", secret.display()),
        format!("http://127.0.0.1:{port}/a.mp4"),
        format!("HTTPS://localhost:{port}/a.mp4"),
        format!("http://[::ffff:127.0.0.1]:{port}/a.mp4"),
        format!("http://user@0.0.0.0:{port}/a.mp4"),
        format!("tcp://127.0.0.1:{port}"),
        format!("rtmp://127.0.0.1:{port}/a"),
        "file-1-0".into(),
        "demo:99".into(),
        "data:,".into(),
        "data:video/mp4;base64,".into(),
        String::new(),
        "\0".into(),
    ];
    // As often as all forbidden ones.
    let urls = allowed.iter().cycle().take(forbidden.len()).chain(&forbidden).cloned().collect();
    let names = Names { urls, clip };
    let server = Server::start(
        program,
        &["--allow-dir", "clips", "--allow-url", "--max-new-tokens", "3", "--max-body", "2"],
    );
    #[cfg(target_os = "linux")]
    let opened = Opened::watch(&outside);
    let bodies = std::env::var("SPECREEL_FUZZ_BODIES").map_or(BODIES, |count| count.parse().unwrap());
    let mut answered = 0;
    for seed in 0..bodies {
        let chance = &mut ChaCha8Rng::seed_from_u64(seed);
        let body = names.body(chance);
        let is_upload = chance.random_bool(0.1);
        let mut bytes = body.to_string().into_bytes();
        if is_upload {
            let name = names.url(chance).chars().take(300).collect::<String>();
            let head =
                format!("--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
            bytes = [head.as_bytes(), &bytes, b"\r\n--x--\r\n"].concat();
        }
        // What names other machines is left whole: damaged, it may name more of them.
        if chance.random_bool(0.3) && !body.to_string().to_lowercase().contains("://") {
            damage(&mut bytes, chance);
        }
        let (path, kind) = match is_upload {
            true => ("/v1/files", "multipart/form-data; boundary=x"),
            false => ("/v1/chat/completions", "application/json"),
        };
        let kind = if chance.random_bool(0.02) { "text/plain" } else { kind };
        let (status, answer) = server.any(path, kind, &bytes);
        let told = || format!("body {seed}: {status} {answer}\n{}", String::from_utf8_lossy(&bytes));
        answered += u32::from(status == 200);
        assert!(matches!(status, 200 | 400 | 404 | 413 | 415), "{}", told());
        // Paths that the request itself names may be repeated.
        let is_told = |text: &str| text.contains(home.to_str().unwrap());
        assert!(
            !is_told(&answer) || is_told(&String::from_utf8_lossy(&bytes)),
            "a path is revealed: {}",
            told()
        );
        if status != 200 {
            let error: Value = serde_json::from_str(&answer).unwrap();
            let message = error["error"]["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty() && error["error"]["type"].is_string(), "{}", told());
        }
    }
    assert!(u64::from(answered) > bodies / 10, "{answered} of {bodies}: most never reach a model");
    // Both alarms ring.
    assert!(elsewhere.accept().is_err(), "a request was sent to another server");
    std::net::TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
    assert!(elsewhere.accept().is_ok());
    #[cfg(target_os = "linux")]
    {
        assert!(!opened.any(), "a file outside was opened");
        fs::read(&secret).unwrap();
        assert!(opened.any());
    }
    assert_eq!(server.get("/health").0, 200);
    assert_eq!(server.end("-INT"), Some(0));
}
