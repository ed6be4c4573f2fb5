//! The studio that follows a server.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::terminal::Terminal;

/// A server of the embedded models, killed when dropped.
struct Server {
    child: Child,
    url: String,
    /// Where it keeps videos.
    _temporary: tempfile::TempDir,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_specreel"))
            .args([&["serve", "--method", "lvspec"], args].concat())
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: line.trim().to_owned(), _temporary: temporary }
    }

    fn ask(&self, question: &str, tokens: usize) {
        let body = serde_json::json!({"max_tokens": tokens, "messages": [{"role": "user", "content": [
            {"type": "video_url", "video_url": {"url": "demo"}}, {"type": "text", "text": question},
        ]}]});
        let url = format!("{}/v1/chat/completions", self.url);
        let sent = ureq::post(&url)
            .header("authorization", "Bearer secret")
            .content_type("application/json")
            .send(body.to_string());
        assert_eq!(sent.unwrap().status(), 200);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_server_is_followed_until_it_ends_and_once_it_is_back() {
    let server = Server::start(&["--port", "0", "--api-key", "secret", "--allow-follow"]);
    let url = server.url.clone();
    let port = url.rsplit(':').next().unwrap().to_owned();
    let args = ["--connect", &url, "--pace", "off"];
    let mut t = Terminal::start_with(130, 34, &args, &[("SPECREEL_API_KEY", "secret")]);
    t.wait(&format!("{url} · demo-target"));

    // Another program asks, and the studio shows how it is answered.
    server.ask("What turns?", 64);
    t.wait("state     done");
    let screen = t.text();
    for words in ["lossy lvspec", "emitted per step", "loosened"] {
        assert!(screen.contains(words), "no {words:?} in\n{screen}");
    }
    assert!(t.caption_has_style(), "{screen}");

    // Work that needs an engine is refused with the reason.
    for key in ["\r", "c", "M", "="] {
        t.press(key, "runs are started there");
        t.keys("b");
        t.gone("runs are started there");
    }

    drop(server);
    t.wait("the connection is lost");
    t.wait("no connection");
    let server = Server::start(&["--port", &port, "--api-key", "secret", "--allow-follow"]);
    t.wait("connected again");
    server.ask("What moves?", 3);
    t.wait("3 tokens in");
    t.quit("q");
}

#[test]
fn a_server_that_cannot_be_followed_is_an_error() {
    let closed = Server::start(&["--port", "0"]);
    let open = Server::start(&["--port", "0", "--api-key", "secret", "--allow-follow"]);
    for (url, code, words) in [
        ("ftp://x", 2, "not the URL of a server"),
        ("127.0.0.1:1", 3, "specreel serve --allow-follow"),
        (&closed.url, 3, "start it with --allow-follow"),
        (&open.url, 3, "--api-key"),
    ] {
        let mut t = Terminal::start(100, 20, &["--connect", url]);
        assert_eq!(t.exit_code(), code, "{url}: {}", t.text());
        let screen = t.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(screen.contains(words), "no {words:?} in\n{screen}");
    }
}
